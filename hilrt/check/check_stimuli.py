"""Checks of stimuli: inputs, units, segments, and overlaps at the same input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hilrt.check.check_monitor import check_subsystem_of
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.session_tables import Stimulus, StimulusSegment
from hilrt.config.structs import InputOptions
from hilrt.errors import ConfigError, HilrtError
from hilrt.logs.stimulus_columns import check_column, column_segments
from hilrt.solver import Port
from hilrt.step.fill_stimuli import conversion_of
from hilrt.tables.network import narrow

#: Required and optional keys of each shape.
KEYS: Final = {
    "hold": ((), ("value", "duration")),
    "step": (("to",), ("duration",)),
    "ramp": (("to",), ("from", "duration", "rate")),
    "sine": (("amplitude", "frequency"), ("duration", "offset", "phase")),
    "chirp": (
        ("amplitude", "frequency", "to_frequency", "duration"),
        ("sweep", "offset", "phase"),
    ),
    "prbs": (("amplitude", "bits", "interval"), ("duration", "offset", "seed")),
    "noise": (("amplitude",), ("duration", "offset", "seed", "interval", "distribution")),
    "points": (("points",), ("duration", "interpolation")),
    "column": (
        ("file", "signal"),
        ("time", "unit", "scale", "shift", "interpolation", "duration"),
    ),
}
#: Shapes that may last until the end of the session.
ENDLESS: Final = ("hold", "step", "sine", "noise")


def check_stimuli(topology: Topology, folder: Path, findings: Findings) -> None:
    """Check ``[[stimuli]]``: known inputs, convertible units, consistent segments."""
    stimuli, lengths = topology.tables.stimuli, []
    names = [stimulus.name for stimulus in stimuli]
    for i, stimulus in enumerate(stimuli):
        table = f"stimuli.{i}"
        if stimulus.name in names[:i]:
            findings.error(table, "name", stimulus.name, "exists twice", "rename one")
        complete = [
            _check_keys(s, f"{table}.segments.{k}", findings)
            for k, s in enumerate(stimulus.segments)
        ]
        port = _find(topology, stimulus, table, findings)
        if not all(complete):
            lengths.append(math.inf)
            continue
        lengths.append(_check_time(topology, stimulus, table, findings))
        if port is not None:
            _check_values(topology, stimulus, port, table, findings)
            _check_columns(topology, stimulus, port, folder, findings)
    _check_overlaps(stimuli, lengths, findings)


def _find(topology: Topology, stimulus: Stimulus, table: str, findings: Findings) -> Port | None:
    """Return the input's port with the session file's bounds; None if it is not known.

    For a parameter only the subsystem can be checked before it is created.
    """
    if stimulus.of_parameter:
        check_subsystem_of(topology, stimulus.input, (table, "input"), findings)
        for k, segment in enumerate(stimulus.segments):
            if segment.shape == "column":
                where = f"{table}.segments.{k}"
                text = "is not a shape for a parameter"
                findings.error(where, "shape", segment.shape, text, "give points")
        return None
    name, bracket, element = stimulus.input.partition("[")
    place = topology.find(name, "input", table, "input", findings)
    if place is None or place.port is None:
        return None
    number = element.removesuffix("]")
    if place.port.size > 1 and not (number.isdecimal() and int(number) < place.port.size):
        text = f"has {place.port.size} elements; a stimulus drives one"
        findings.error(table, "input", stimulus.input, text, f'write it as "{name}[0]"')
        return None
    if place.port.size == 1 and bracket:
        findings.error(table, "input", stimulus.input, "has one element", f'write "{name}"')
        return None
    options = topology.tables.subsystems[place.subsystem].inputs.get(place.name)
    try:
        conversion_of(stimulus, place.port.unit)
        return narrow(place.port, options or InputOptions())
    except ConfigError as error:
        text = f"of {stimulus.input}: {error}"
        findings.error(table, "unit", stimulus.unit, text, "give a unit of the same kind")
    except ValueError:
        pass  # `check._check_limits` reports these bounds
    return None


def _check_keys(segment: StimulusSegment, table: str, findings: Findings) -> bool:
    """Check for missing and unknown keys of a shape; return whether it is complete."""
    needed, others = KEYS[segment.shape]
    given = {
        field.encode_name
        for field in msgspec.structs.fields(segment)
        if getattr(segment, field.name) != field.default
        and field.name != "shape"
        and getattr(segment, field.name) != []
    }
    for key in sorted(given - {*needed, *others}):
        value = getattr(segment, "start" if key == "from" else key)
        text = f"is not a key of shape {segment.shape!r}"
        findings.error(table, key, value, text, f"it has {', '.join((*needed, *others))}")
    missing = [key for key in needed if key not in given]
    if segment.amplitude == 0.0 and "amplitude" in missing:
        missing.remove("amplitude")
    if segment.to == 0.0 and "to" in missing:
        missing.remove("to")
    for key in missing:
        findings.error(table, key, None, f"is missing; shape {segment.shape!r} needs it", "add it")
    if segment.shape == "ramp" and (segment.duration is None) == (segment.rate is None):
        text = "a ramp needs a duration or a rate"
        findings.error(table, "duration", segment.duration, text, "give one of duration and rate")
        missing.append("duration")
    if segment.shape == "points" and not missing and not _check_points(segment, table, findings):
        missing.append("points")
    return not missing


def _check_points(segment: StimulusSegment, table: str, findings: Findings) -> bool:
    pairs = all(len(point) == 2 for point in segment.points)
    times = [point[0] for point in segment.points] if pairs else []
    if not pairs:
        text = "each point is a time and a value"
    elif times[0] < 0.0 or any(b <= a for a, b in itertools.pairwise(times)):
        text = "times must increase, starting at 0 or later"
    elif times[-1] <= 0.0 and segment.duration is None:
        text = "has no length"
    else:
        return True
    findings.error(table, "points", None, text, "correct the points, or give a duration")
    return False


def _check_columns(
    topology: Topology, stimulus: Stimulus, port: Port, folder: Path, findings: Findings
) -> None:
    """Check that the files exist, with the requested signals and units."""
    for _, segment, label in column_segments([stimulus]):
        try:
            check_column(segment, stimulus, port.unit, folder, label)
        except HilrtError as error:
            for line in getattr(error, "problems", [str(error)]):
                findings.line(line)


class _Piece(NamedTuple):
    """Range `low` to `high` of a segment's values, and values `begin` and `end`; NaN: unknown."""

    begin: float
    low: float
    high: float
    end: float


def _length(segment: StimulusSegment, begin: float) -> float:
    """Duration of a segment, s; infinite without a known end."""
    if segment.duration is not None:
        return segment.duration
    if segment.shape == "points":
        return segment.points[-1][0]
    if segment.shape == "prbs":
        return float(2 ** (segment.bits or 0) - 1) * (segment.interval or 0.0)
    if segment.shape == "ramp" and segment.rate:
        length = abs((segment.to or 0.0) - begin) / segment.rate
        return math.inf if math.isnan(length) else length
    return math.inf


def _piece(segment: StimulusSegment, before: float) -> _Piece:
    """Range of a segment that starts after the value `before`, in the stimulus's unit."""
    shape, size = segment.shape, segment.amplitude or 0.0
    if shape == "column":
        return _Piece(math.nan, math.nan, math.nan, math.nan)
    if shape == "points":
        y = [value for _, value in segment.points]
        return _Piece(y[0], min(y), max(y), y[-1])
    given = {"hold": segment.value, "step": segment.to, "ramp": segment.start}
    begin = given.get(shape, segment.offset)
    begin = before if begin is None else begin
    if shape == "ramp":
        end = segment.to or 0.0
        return _Piece(begin, min(begin, end), max(begin, end), end)
    if shape in ("hold", "step"):
        return _Piece(begin, begin, begin, begin)
    if shape == "noise" and segment.distribution == "normal":
        size *= 3.0
    end = begin if shape in ("prbs", "noise") else math.nan
    return _Piece(begin, begin - size, begin + size, end)


def _check_time(topology: Topology, stimulus: Stimulus, table: str, findings: Findings) -> float:
    """Check start and end of a stimulus; return its duration, s."""
    tables = topology.tables
    if stimulus.end is not None and stimulus.end <= stimulus.start:
        text = f"is not after its start at {stimulus.start:g} s"
        findings.error(table, "end", stimulus.end, text, "end it later")
    if stimulus.start >= tables.session.duration:
        text = f"is not before the session's end at {tables.session.duration:g} s: it never begins"
        findings.warn(table, "start", stimulus.start, text, "start it earlier")
    value, length = 0.0 if stimulus.mode == "add" else math.nan, 0.0
    last = len(stimulus.segments) - 1
    for k, segment in enumerate(stimulus.segments):
        own = _length(segment, value)
        endless = segment.duration is None and segment.shape in ENDLESS
        if endless and (k < last or stimulus.repeat != 1):
            text = "is missing: without it the next segments never begin"
            findings.error(f"{table}.segments.{k}", "duration", None, text, "add it")
        elif own < tables.master.step:
            text = f"the segment lasts {own:g} s, less than a step of {tables.master.step:g} s"
            findings.warn(f"{table}.segments.{k}", "", None, text, "it may be skipped")
        length, value = length + own, _piece(segment, value).end
    if stimulus.repeat != 1 and length < tables.master.step:
        text = f"its segments last {length:g} s, less than a step of {tables.master.step:g} s"
        findings.error(table, "repeat", stimulus.repeat, text, "make them longer")
    return length


def _check_values(
    topology: Topology, stimulus: Stimulus, port: Port, table: str, findings: Findings
) -> None:
    """Warn of values and jumps that exceed the limits of the input."""
    factor, shift = conversion_of(stimulus, port.unit)
    added, step = stimulus.mode == "add", topology.tables.master.step
    subsystem = topology.tables.subsystems[topology.tables.split(stimulus.input)[0]]
    connected = stimulus.input.partition("[")[0] in {c.target for c in topology.tables.connections}
    base = (math.nan if connected else port.start) if added else 0.0
    ended = 0.0 if added else math.nan
    for k, segment in enumerate(stimulus.segments):
        where, piece = f"{table}.segments.{k}", _piece(segment, ended)
        low, high = sorted(v * factor + shift + base for v in (piece.low, piece.high))
        if low < port.min or high > port.max:
            text = f"goes from {low:g} to {high:g}, but {stimulus.input} is limited to"
            findings.warn(where, "", None, f"{text} {port.min:g} to {port.max:g}", "")
        jump = abs(factor) * (abs(piece.begin - ended) if k or added else 0.0)
        if segment.shape == "prbs":
            jump = max(jump, 2.0 * abs(factor) * (segment.amplitude or 0.0))
        if segment.shape == "points" and segment.interpolation == "hold":
            y = [value for _, value in segment.points]
            jumps = [abs(b - a) for a, b in itertools.pairwise(y)]
            jump = max(jump, abs(factor) * max(jumps, default=0.0))
        if jump > port.max_rate * step * subsystem.every:
            text = f"jumps by {jump:g}, which max_rate = {port.max_rate:g} turns into a ramp of"
            findings.warn(where, "", None, f"{text} {jump / port.max_rate:g} s", "")
        fastest = max(segment.frequency or 0.0, segment.to_frequency or 0.0)
        if fastest * step * subsystem.every > 0.5:
            text = f"exceeds half the sampling rate, with steps of {subsystem.every * step:g} s"
            findings.warn(where, "frequency", fastest, text, "the input contains an alias of it")
        ended = piece.end


def _check_overlaps(
    stimuli: Sequence[Stimulus], lengths: Sequence[float], findings: Findings
) -> None:
    """Check that no two stimuli of mode "replace" drive an input at the same time."""
    spans = []
    for i, (stimulus, length) in enumerate(zip(stimuli, lengths, strict=True)):
        runs = math.inf if stimulus.repeat == "forever" else stimulus.repeat
        lasts = math.inf if stimulus.then == "hold" else length * runs
        end = math.inf if stimulus.end is None else stimulus.end
        # A stimulus with a condition may begin at any time
        lasts = lasts if stimulus.start_when is None else math.inf
        spans.append((stimulus.start, min(stimulus.start + lasts, end)))
        if stimulus.mode != "replace":
            continue
        for j, other in enumerate(stimuli[:i]):
            same = other.mode == "replace" and other.input == stimulus.input
            if same and max(spans[i][0], spans[j][0]) < min(spans[i][1], spans[j][1]):
                text = f"drives {stimulus.input} while stimulus {other.name!r} also does"
                if stimulus.start_when is not None or other.start_when is not None:
                    text = f"may drive {stimulus.input} while stimulus {other.name!r} also does"
                remedy = "end one before the other starts (`end`)"
                findings.error(f"stimuli.{i}", "start", stimulus.start, text, remedy)
