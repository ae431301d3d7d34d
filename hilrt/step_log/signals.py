"""Signals that a session records each tick: topics, and places in the tables.

This is the only list of columns: rows are gathered by it, and a replay restores the step's input
with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from hilrt.record.messages import Signal, Topic
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.step_log.gather import Column, Gather, TablePlace
from hilrt.tables.channels import ChannelRow
from hilrt.tables.network import Network
from hilrt.tables.plan import Plan
from hilrt.tables.ports import Side
from hilrt.tables.record import Table, TableRow, f8, table
from hilrt.timing.timeline import STAGES


class TickTiming(TableRow):
    """Times of a tick by the master's clock; one record. The parts are those of `STAGES`."""

    step: f8  # s
    lateness: f8  # us
    compute: f8  # us
    wake: f8  # us
    cut: f8  # us
    macro_step: f8  # us
    dispatch: f8  # us
    slack: f8  # us
    overdue: f8  # 1 if the tick missed its deadline
    skipped: f8  # ticks right before it
    longest: f8  # index in `hilrt.timing.timeline.LONGEST`
    order: f8  # highest of a connection


#: Signal, unit and field of a bond; "effort" stands for the unit of the bond's effort. Corrections
#: of a vector bond are added up.
BOND_SIGNALS: Final = (
    ("power", "W", "power"),
    ("residual_power", "W", "residual_power"),
    ("tracking_power", "W", "tracking"),
    ("correction", "effort", "correction"),
    ("correction_computed", "effort", "correction_computed"),
    ("residual_energy", "J", "residual_energy"),
    ("tracking_energy", "J", "tracking_energy"),
    ("corrected_energy", "J", "corrected_energy"),
    ("uncorrected_energy", "J", "uncorrected"),
    ("shadow_energy", "J", "shadow_energy"),
    ("drift_energy", "J", "drift"),
    ("communicates", "", "due"),
    ("capped", "", "capped"),
)
#: Signal, unit, table and field.
MASTER_SIGNALS: Final = (
    ("step", "s", "timing", "step"),
    ("lateness", "us", "timing", "lateness"),
    ("compute", "us", "timing", "compute"),
    ("missed", "", "slack", "missed"),
    *((stage, "us", "timing", stage) for stage in STAGES),  # the slack is that of the previous tick
    ("overdue", "", "timing", "overdue"),
    ("skipped", "", "timing", "skipped"),
    ("longest", "", "timing", "longest"),
)
#: Only if step or order is controlled, or the error is tested: input and result of the control.
CONTROL_SIGNALS: Final = (
    ("error", "", "state.session", "error"),
    ("order", "", "timing", "order"),
)
PEER_SIGNALS: Final = (
    ("age", "s", "channels", "age"),
    ("compute", "us", "channels", "compute_us"),
    ("wire", "us", "channels", "wire_us"),
    ("late", "", "given.subsystems", "late"),
)
#: Remaining input of a step, with which a replay can repeat every decision.
PEER_CUT_SIGNALS: Final = tuple(
    (name, unit, "given.subsystems", name)
    for name, unit in (
        ("busy", ""),
        ("due", ""),
        ("reached", "s"),
        ("covered", "s"),
        ("clock_error", "s"),
        ("event", ""),
        ("rejoined", ""),
    )
)
CUT_SIGNALS: Final = (
    ("tick", "", "given.session", "tick"),
    ("elapsed", "s", "given.session", "elapsed"),
    ("apply", "", "given.session", "apply"),
    ("regular", "", "given.session", "regular"),
    ("has_middle", "", "given.session", "has_middle"),
    ("learns", "", "slack", "learns"),
    ("rest", "s", "given.session", "rest"),
)
#: Only if the error of a step is estimated before its samples are accepted.
REPETITION_SIGNALS: Final = (
    ("error", "", "given.session", "error"),
    ("scaling", "", "given.session", "scaling"),
    ("repetitions", "", "given.session", "repetitions"),
    ("order", "", "given.session", "order"),
)
#: Signals of the topic "timing" that depend on the clock and are not decisions of the step.
CIRCUMSTANCES: Final = (
    *("lateness", "compute", "missed", "overdue", "skipped", "longest", *STAGES),
    *("age", "wire", "late"),
)


def build_columns(numerics: Numerics) -> dict[str, list[Column]]:
    """Columns of every topic of a session's log, in their order.

    Signals are named ``subsystem.port`` (as measured, NaN without a fresh sample),
    ``subsystem.port:corrected``, ``subsystem.port:sent`` (``:sent_d1`` … for its derivatives) and
    so on; bonds ``name:power``; the master ``master:lateness``.
    """
    net, plan = numerics.network, numerics.plan
    outputs, inputs, peers = net.outputs, net.inputs, net.subsystems
    control = CONTROL_SIGNALS if _controlled(plan) else ()
    repetitions = REPETITION_SIGNALS if plan.session[0].judges_before else ()
    sources = {"sources": _sources(inputs, plan)} if len(plan.drives) else {}
    return {
        "outputs": _fresh(outputs, plan, "", outputs.units, "y"),
        "corrected": _ports(outputs, ":corrected", TablePlace("state.outputs", "y")),
        "sent": [
            column
            for m in range(int(plan.session["coefficients"][0]))
            for column in _ports(inputs, ":sent", TablePlace("state.inputs", "polynomial", 0, m), m)
        ],
        "realised": _ports(inputs, ":realised", TablePlace("given.inputs", "realised")),
        **sources,
        **_faults(numerics),
        **_parameters(numerics),
        "defects": _ports(inputs, ":connection_defect", TablePlace("state.inputs", "defect"))
        + _ports(outputs, ":output_defect", TablePlace("state.outputs", "defect")),
        "errors": _errors(outputs, inputs, plan),
        "bonds": _bonds(net),
        "flags": [
            Column(Signal(f"flag:{cause}", ""), TablePlace("state.causes", "active", c))
            for c, cause in enumerate(numerics.checks.causes)
        ],
        "affected": [
            Column(Signal(f"flags:{cause}:{key}", unit), TablePlace("state.causes", key, c))
            for key, unit in (("affected", "s"), ("second", ""))
            for c, cause in enumerate(numerics.checks.causes)
        ],
        "timing": _of(["master"], MASTER_SIGNALS + control) + _of(peers, PEER_SIGNALS),
        "arrivals": [
            *_arrivals(outputs, plan),
            *_of(peers, PEER_CUT_SIGNALS),
            *_of(["cut"], CUT_SIGNALS + repetitions),
        ],
    }


def _errors(outputs: Side, inputs: Side, plan: Plan) -> list[Column]:
    """Estimated errors of the outputs that have one, and disturbances of all inputs."""
    errors = _ports(outputs, ":estimated_error", TablePlace("state.outputs", "estimated_error"))
    estimated = np.isfinite(plan.outputs["error_high"])
    return [
        *(column for column, has_one in zip(errors, estimated, strict=True) if has_one),
        *_ports(inputs, ":disturbance", TablePlace("state.inputs", "disturbance")),
    ]


def _bonds(net: Network) -> list[Column]:
    efforts = [net.outputs.units[i] for i in net.bonds.effort[net.bonds.first]]
    return [
        Column(
            Signal(f"{bond.name}:{key}", effort if unit == "effort" else unit),
            TablePlace("state.bonds", field, b),
        )
        for key, unit, field in BOND_SIGNALS
        for b, (bond, effort) in enumerate(zip(net.bonds.tables, efforts, strict=True))
    ] + [
        Column(Signal(f"{bond.name}:mu", ""), TablePlace("state.bonds", "mu", b))
        for b, bond in enumerate(net.bonds.tables)
        if bond.correction.mu_range is not None
    ]


def _arrivals(outputs: Side, plan: Plan) -> list[Column]:
    """Signals of a sample: its time, the value in the middle of the step, derivatives."""
    has_middle = TablePlace("given.session", "has_middle")
    derivatives = TablePlace("given.outputs", "dy")
    return [
        *_fresh(outputs, plan, ":t_valid", ["s"] * len(outputs), "t_valid"),
        *_ports(outputs, ":middle", TablePlace("given.outputs", "y_mid"), mask=has_middle),
        *_ports(outputs, ":mean", TablePlace("given.outputs", "y_mean"), mask=has_middle),
        *(
            column
            for m in range(int(plan.session["derivatives"][0]))
            for column in _ports(outputs, ":arrived", derivatives._replace(element=m), m + 1)
        ),
        *_ranges(outputs, plan),
    ]


def _controlled(plan: Plan) -> bool:
    session = plan.session[0]
    return bool(session.controls_order or session.tests_errors or session.variable_step)


def _ports(
    side: Side, suffix: str, place: TablePlace, m: int = 0, mask: TablePlace | None = None
) -> list[Column]:
    """A field of every port; `m` > 0: its m-th time derivative."""
    ending, per_time = (f"_d{m}", f"/s^{m}") if m else ("", "")
    table_, field, _, element = place
    return [
        Column(
            Signal(name + suffix + ending, unit + per_time),
            TablePlace(table_, field, i, element),
            mask,
        )
        for i, (name, unit) in enumerate(zip(side.names, side.units, strict=True))
    ]


#: Field of a calculated channel's sample, by the field of a received sample.
_OF_CALCULATED: Final = {"y": "newest", "t_valid": "t_newest"}


def _fresh(side: Side, plan: Plan, suffix: str, units: Sequence[str], field: str) -> list[Column]:
    """A field that is valid only for outputs with a new sample.

    Calculated channels are not part of the step's input, because a replay computes them again.
    """
    calculated = set(plan.calculated["output"].tolist())
    places = [
        ("state.outputs", _OF_CALCULATED[field]) if i in calculated else ("given.outputs", field)
        for i in range(len(side))
    ]
    return [
        Column(Signal(name + suffix, unit), TablePlace(*place, i), TablePlace(place[0], "fresh", i))
        for i, (name, unit, place) in enumerate(zip(side.names, units, places, strict=True))
    ]


def _sources(inputs: Side, plan: Plan) -> list[Column]:
    """Source in force and stimuli of inputs on which more than their connections may act."""
    driven = plan.drives["input"].tolist()
    return [
        Column(Signal(inputs.names[i] + suffix, unit), TablePlace("state.drives", field, d))
        for suffix, field in ((":source", "source"), (":stimulus", "stimulus"))
        for d, i in enumerate(driven)
        for unit in ["" if field == "source" else inputs.units[i]]
    ]


def _faults(numerics: Numerics) -> dict[str, list[Column]]:
    """Active faults, and altered new samples of outputs that faults may affect."""
    if not numerics.faults:
        return {}
    outputs, rows = numerics.network.outputs, numerics.plan.alterations["output"]
    altered = [TablePlace("state.outputs", "newest", i) for i in sorted({*rows.tolist()} - {-1})]
    return {
        "faults": [
            Column(Signal(f"fault:{fault.name}", ""), TablePlace("state.faults", "active", f))
            for f, fault in enumerate(numerics.faults)
        ]
        + [
            Column(
                Signal(f"{outputs.names[place.row]}:faulted", outputs.units[place.row]),
                place,
                place._replace(field="fresh"),
            )
            for place in altered
        ]
    }


def _parameters(numerics: Numerics) -> dict[str, list[Column]]:
    """Values of the adjustable parameters."""
    columns = [
        Column(
            Signal(f"parameter:{own.name}", own.parameter.unit),
            TablePlace("state.parameters", "value", k),
        )
        for k, own in enumerate(numerics.parameters)
    ]
    return {"parameters": columns} if columns else {}


def _ranges(outputs: Side, plan: Plan) -> list[Column]:
    """Signals that flag new values outside their declared range."""
    limits = plan.outputs
    declared = np.flatnonzero(np.isfinite(limits["low"]) | np.isfinite(limits["high"]))
    fresh = [TablePlace("given.outputs", "fresh", i) for i in declared.tolist()]
    return [
        Column(
            Signal(f"{outputs.names[mask.row]}:out_of_range", ""),
            TablePlace("state.outputs", "outside", mask.row),
            mask,
        )
        for mask in fresh
    ]


def _of(owners: Sequence[str], signals: Sequence[tuple[str, str, str, str]]) -> list[Column]:
    """Signals of each owner; its number is the row in the signals' tables."""
    return [
        Column(Signal(f"{owner}:{key}", unit), TablePlace(name, field, i))
        for key, unit, name, field in signals
        for i, owner in enumerate(owners)
    ]


def given_columns(numerics: Numerics) -> list[Column]:
    """Columns of the step's input, and of the additional input of `assess`."""
    columns = (column for of in build_columns(numerics).values() for column in of)
    return [c for c in columns if c.place.table == "slack" or c.place.table.startswith("given.")]


def build_topics(numerics: Numerics) -> list[Topic]:
    """Topics of a session's log; `RowWriter` writes a row in the same order."""
    columns = build_columns(numerics)
    return [Topic(name, [column.signal for column in of]) for name, of in columns.items()]


def tables_of(
    numerics: Numerics, channels: Table[ChannelRow], timing: Table[TickTiming]
) -> dict[str, Table[Any]]:
    """Tables with signals in the log, by their names in the columns."""
    given, state = numerics.given, numerics.state
    return {
        **{f"given.{name}": getattr(given, name) for name in given._fields},
        **{f"state.{name}": getattr(state, name) for name in state._fields},
        "slack": numerics.slack,
        "channels": channels,
        "timing": timing,
    }


class RowWriter:
    """Writer of the recorder's row at a tick, in the order of `build_topics`.

    Parameters
    ----------
    numerics : Numerics
    channels : table
        One row per subsystem, with the fields of `hilrt.tables.channels`.
    row : ndarray, shape (signals,)
    """

    def __init__(self, numerics: Numerics, channels: Table[ChannelRow], row: Floats) -> None:
        timing = table(TickTiming, 1)
        columns = [column for of in build_columns(numerics).values() for column in of]
        self._gather = Gather(columns, tables_of(numerics, channels, timing), row)
        self._step, self._lateness = timing["step"], timing["lateness"]
        self._compute, self._order = timing["compute"], timing["order"]
        self._tick = timing.view(np.ndarray).view("f8")[3:-1]
        self._orders = numerics.state.outputs["order"] if _controlled(numerics.plan) else None

    def fill(
        self,
        step: float,
        lateness_ns: int,
        compute_ns: int,
        tick: Floats | float = 0.0,
    ) -> None:
        """Write all data of this tick into the row.

        Parameters
        ----------
        step : float
            Macro step that begins, s.
        lateness_ns, compute_ns : int
            End of the dispatch after the tick's target, and after its beginning, ns.
        tick : ndarray, shape (8,)
            `Timeline.newest`.
        """
        self._step[0] = step
        self._lateness[0], self._compute[0] = lateness_ns * 1e-3, compute_ns * 1e-3
        self._tick[...] = tick
        if self._orders is not None:
            self._order[0] = self._orders.max(initial=0)
        self._gather.fill()
