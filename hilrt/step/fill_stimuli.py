"""Fill the plan's tables with the stimuli and other input sources of the session file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from hilrt.config import units
from hilrt.config.from_toml import nearest
from hilrt.config.session_tables import Stimulus, StimulusSegment
from hilrt.config.structs import Session
from hilrt.errors import ConfigError
from hilrt.expressions.program import Program
from hilrt.expressions.session_program import conditional
from hilrt.solver import Floats
from hilrt.step.changes import OwnParameter
from hilrt.step.fill_faults import alteration_rows, faulted_inputs
from hilrt.tables import plan as rows
from hilrt.tables.network import OPERATED, Network
from hilrt.tables.plan import SHAPES, Plan
from hilrt.tables.record import Table, table
from hilrt.tables.relation import Relation

#: Blending to another source stays this far below the rate limit, so that rounding does not trip
#: it.
BELOW_LIMIT: Final = 1.0 - 1e-9
#: Taps of maximum length registers, by their length.
_TAPS: Final = {
    2: (1,),
    3: (2,),
    4: (3,),
    5: (3,),
    6: (5,),
    7: (6,),
    8: (7, 6, 1),
    9: (5,),
    10: (7,),
    11: (9,),
    12: (11, 10, 4),
    13: (12, 11, 8),
    14: (13, 12, 2),
    15: (14,),
    16: (15, 13, 4),
}


class StimulusTables(NamedTuple):
    """Tables of the plan for inputs driven by more than their connections."""

    drives: Table[rows.DrivePlan]
    stimuli: Table[rows.StimulusPlan]
    segments: Table[rows.SegmentPlan]
    points: Table[rows.StimulusPoint]
    jumps: Table[rows.JumpPlan]


def stimulus_tables(
    network: Network,
    tables: Session,
    columns: Sequence[Floats] = (),
    parameter_units: Mapping[str, str] = MappingProxyType({}),
) -> StimulusTables:
    """Tables of the stimuli, and of the inputs that they or an operator may drive.

    Parameters
    ----------
    network : Network
    tables : Session
        The session file.
    columns : sequence of ndarray, shape (n, 2)
        Times [s] and values, in the input's unit, of the segments of shape "column", in their
        order.
    parameter_units : mapping of str
        Unit of each parameter, ``parameters.SUBSYSTEM.NAME``.

    Raises
    ------
    ConfigError
        If a stimulus names no input, or a unit that does not convert to the input's.
    """
    inputs = _inputs_of(network, tables)
    driven = _driven_inputs(network, tables, inputs.values())
    order = stimulus_order(network, tables)
    by_stimulus = _columns_by_stimulus(tables, columns)
    segments = table(rows.SegmentPlan, sum(len(stimulus.segments) for stimulus in tables.stimuli))
    points: list[Floats] = []
    stimuli = table(rows.StimulusPlan, len(order))
    first_segment = first_point = 0
    for row, k in zip(stimuli, order, strict=True):
        stimulus = tables.stimuli[k]
        unit = network.inputs.units[inputs[k]] if k in inputs else parameter_units[stimulus.input]
        factor, shift = conversion_of(stimulus, unit)
        row.first_segment, row.segments = first_segment, len(stimulus.segments)
        for segment in stimulus.segments:
            points.append(_points_of(segment, by_stimulus[k], factor, shift))
            segments[first_segment].first_point = first_point
            _fill_segment(segments[first_segment], segment, factor, shift, points[-1])
            first_segment, first_point = first_segment + 1, first_point + len(points[-1])
        row.replaces, row.holds = stimulus.mode == "replace", stimulus.then == "hold"
        row.runs = np.iinfo("i8").max if stimulus.repeat == "forever" else stimulus.repeat
        row.start = stimulus.start
        row.end = np.inf if stimulus.end is None else stimulus.end
        row.start_when = row.end_when = -1
    of_input = [inputs[k] for k in order if k in inputs]
    of_owner = _outputs_by_owner(network) if driven else {}
    jumps = [
        [(k, 0) for k in of_owner.get(_owner(network.inputs.names[i]), ())] + _jumps_of(network, i)
        for i in driven
    ]
    made = StimulusTables(
        drives=_drives(network, tables, driven, of_input),
        stimuli=stimuli,
        segments=segments,
        points=table(rows.StimulusPoint, first_point),
        jumps=table(rows.JumpPlan, sum(map(len, jumps))),
    )
    if points:
        made.points["t"], made.points["y"], made.points["next_break"] = np.concatenate(points).T
    made.drives["jumps"] = [len(part) for part in jumps]
    made.drives["first_jump"] = np.cumsum([0, *made.drives["jumps"]])[:-1]
    for j, (output, after) in enumerate(pair for part in jumps for pair in part):
        made.jumps[j].output, made.jumps[j].after = output, after
    return made


def stimulus_order(network: Network, tables: Session) -> list[int]:
    """Positions of the stimuli in the session file, in the order of their table: by input.

    Stimuli of parameters follow, sorted by parameter name.
    """
    inputs, last = _inputs_of(network, tables), len(network.inputs)
    names = [stimulus.input for stimulus in tables.stimuli]
    return sorted(range(len(names)), key=lambda k: (inputs.get(k, last), names[k], k))


def fill_parameters(
    plan: Plan, network: Network, tables: Session, parameters: Sequence[OwnParameter]
) -> None:
    """Fill in subsystems, bounds and stimuli of the adjustable parameters."""
    names = [tables.stimuli[k].input for k in stimulus_order(network, tables)]
    for row, own in zip(plan.parameters, parameters, strict=True):
        row.subsystem, row.register = own.s, -1
        row.low, row.high = own.parameter.min, own.parameter.max
        row.stimuli = names.count(own.number)
        row.first_stimulus = names.index(own.number) if own.number in names else 0


def fill_conditions(plan: Plan, network: Network, tables: Session, program: Program) -> None:
    """Set the registers of conditions that start and end stimuli and faults."""
    of_texts = iter(program.results)
    registers = [
        [-1 if text is None else next(of_texts) for text in (entry.start_when, entry.end_when)]
        for _, _, entry in conditional(tables)
    ]
    order = [*stimulus_order(network, tables), *range(len(tables.stimuli), len(registers))]
    for row, k in zip([*plan.stimuli, *plan.faults], order, strict=True):
        row.start_when, row.end_when = registers[k]


def conversion_of(stimulus: Stimulus, unit: str) -> tuple[float, float]:
    """Factor and offset from the values of a stimulus to `unit`; an added stimulus has no offset.

    Raises
    ------
    ConfigError
        If the units are not convertible.
    """
    if stimulus.unit is None:
        return 1.0, 0.0
    factor, shift = units.conversion(stimulus.unit, unit)
    return factor, shift if stimulus.mode == "replace" else 0.0


def _inputs_of(network: Network, tables: Session) -> dict[int, int]:
    """Index of the input of each stimulus that has one, by position in the file."""
    stimuli = enumerate(tables.stimuli)
    return {k: _input_of(network, one) for k, one in stimuli if not one.of_parameter}


def _input_of(network: Network, stimulus: Stimulus) -> int:
    """Index of the input of a stimulus."""
    where = f"[stimuli.{stimulus.name}] input = {stimulus.input!r}"
    if stimulus.input not in network.inputs.numbers:
        raise ConfigError(
            f"{where}: there is no such input{nearest(stimulus.input, network.inputs.names)}"
        )
    return network.inputs.numbers[stimulus.input]


def _driven_inputs(network: Network, tables: Session, inputs: Iterable[int]) -> list[int]:
    """Inputs that more than their connections may drive, ascending."""
    operated = [
        part.start + i
        for key in tables.monitor.adjust
        if key.startswith(OPERATED) and key.removeprefix(OPERATED) in network.inputs.ports
        for part, port in [network.inputs.ports[key.removeprefix(OPERATED)]]
        for i in range(port.size)
    ]
    connections = network.connections
    by_sequence = connections.targets()[connections.driven >= 0]
    faulted = faulted_inputs(network, alteration_rows(network, tables.faults))
    return sorted({*inputs, *operated, *by_sequence.tolist(), *faulted})


def _drives(
    network: Network, tables: Session, driven: Sequence[int], of_input: Sequence[int]
) -> Table[rows.DrivePlan]:
    found = table(rows.DrivePlan, len(driven))
    default, highest = tables.master.extrapolation.order, network.connections.order.max(initial=-1)
    counts = Counter(of_input)
    first = 0
    for row, i in zip(found, driven, strict=True):
        subsystem, port = tables.split(network.inputs.names[i])
        options = tables.subsystems[subsystem].inputs.get(port.partition("[")[0])
        row.input = i
        row.start = 0.0 if network.connected[i] else network.u_start[i]
        row.rate = network.max_rate[i] * BELOW_LIMIT
        row.blend = 0.0 if options is None else options.blend
        # Without a connection: the default degree, limited to the highest of any connection.
        row.degree = (
            -1 if network.connected[i] else default if highest < 0 else min(default, highest)
        )
        row.first_stimulus, row.stimuli = first, counts[i]
        first += counts[i]
    return found


def _jumps_of(network: Network, i: int) -> list[tuple[int, int]]:
    """Outputs that depend directly on input `i`, each with its number of points until it jumps.

    Each output is listed once, by the shortest path of direct dependencies.
    """
    found: dict[int, int] = {}
    reached, after = {i}, 0
    while reached:
        after += 1
        new = sorted(_related(network.feedthrough.transposed, reached) - found.keys())
        found |= dict.fromkeys(new, after)
        reached = _related(network.L.transposed, new)
    return list(found.items())


def _owner(name: str) -> str:
    """Subsystem of a port, or the member of a group."""
    return name.partition(".")[0]


def _outputs_by_owner(network: Network) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for i, name in enumerate(network.outputs.names):
        found.setdefault(_owner(name), []).append(i)
    return found


def _related(relation: Relation, rows_: Iterable[int]) -> set[int]:
    """Columns that are related to any of the rows."""
    return {int(column) for row in rows_ for column in relation.neighbours(row)}


# -- segments ------------------------------------------------------------------------------------


def _columns_by_stimulus(tables: Session, columns: Sequence[Floats]) -> list[Iterator[Floats]]:
    """The columns of each stimulus, in the order of its segments."""
    left = iter(columns)
    return [
        iter([next(left) for segment in stimulus.segments if segment.shape == "column"])
        for stimulus in tables.stimuli
    ]


def _points_of(
    segment: StimulusSegment, columns: Iterator[Floats], factor: float, shift: float
) -> Floats:
    """Rows of `Plan.points` of a segment, shape (n, 3); a file's come next in `columns`."""
    if segment.shape in ("points", "column"):
        if segment.shape == "points":
            t, y = np.array(segment.points, dtype=np.float64).reshape(-1, 2).T
            y = y * factor + shift
        else:
            t, y = next(columns).T
        return np.column_stack((t, y, _next_breaks(segment, t, y)))
    if segment.shape == "prbs":
        values = maximum_length_sequence(segment.bits or 0, segment.seed)
        return np.column_stack((np.zeros(len(values)), values, np.full(len(values), np.inf)))
    return np.zeros((0, 3))


def _next_breaks(segment: StimulusSegment, t: Floats, y: Floats) -> Floats:
    """Time of the next jump or bend after each point; infinite after the last one.

    A recorded column that is interpolated is a sampled signal, which bends nowhere.
    """
    if segment.interpolation == "hold":
        breaks = np.diff(y, prepend=y[:1]) != 0.0
    elif segment.shape == "points":
        slopes = np.pad(np.diff(y) / np.diff(t), 1)
        breaks = ~np.isclose(slopes[1:], slopes[:-1], rtol=1e-9, atol=0.0)
    else:
        breaks = np.zeros(len(t), np.bool_)
    times = np.where(breaks, t, np.inf)
    return np.append(np.minimum.accumulate(times[:0:-1])[::-1], np.inf)


def maximum_length_sequence(bits: int, seed: int) -> Floats:
    """Pseudo-random binary sequence of 1 and -1, shape (2^bits - 1,).

    Every pattern of `bits` values but one occurs once per period; `seed` selects the first.
    """
    period = 2**bits - 1
    register, values = seed % period + 1, np.empty(period)
    for n in range(period):
        new = register
        for tap in _TAPS[bits]:
            new ^= register >> tap
        values[n] = 1.0 if register & 1 else -1.0
        register = register >> 1 | (new & 1) << bits - 1
    return values


def _fill_segment(
    row: rows.SegmentPlan, segment: StimulusSegment, factor: float, shift: float, points: Floats
) -> None:
    """Fill a row of `Plan.segments`, except for the position of its points."""
    shape = {"step": "hold", "column": "points"}.get(segment.shape, segment.shape)

    def value(given: float | None) -> float:
        return np.nan if given is None else given * factor + shift

    begin = {"hold": segment.value, "step": segment.to, "ramp": segment.start}
    duration = segment.duration
    if duration is None and shape == "points":
        duration = float(points[-1, 0])
    elif duration is None and shape == "prbs":
        duration = len(points) * (segment.interval or 0.0)
    by_rate = segment.shape == "ramp" and segment.rate is not None
    frequency, to_frequency = segment.frequency or 0.0, segment.to_frequency or 0.0
    sweep = logarithmic = 0.0
    if shape == "chirp" and duration:
        logarithmic = float(segment.sweep == "logarithmic" and frequency != to_frequency)
        sweep = (to_frequency - frequency) / duration
        if logarithmic:
            sweep = float(np.log(to_frequency / frequency)) / duration
    values = {
        "kind": SHAPES.index(shape),
        "duration": np.nan if by_rate else np.inf if duration is None else duration,
        "begin": value(begin.get(segment.shape, segment.offset)),
        "target": value(segment.to),
        "rate": abs(factor) * (segment.rate or 0.0) if by_rate else 0.0,
        "amplitude": factor * (segment.amplitude or 0.0),
        "frequency": frequency,
        "sweep": sweep,
        "logarithmic": logarithmic,
        "phase": segment.phase / 360.0,
        "interval": segment.interval or 0.0,
        "seed": segment.seed,
        "uniform": segment.distribution == "uniform",
        "held": segment.interpolation == "hold",
        "points": len(points),
    }
    for name, number in values.items():
        setattr(row, name, number)
