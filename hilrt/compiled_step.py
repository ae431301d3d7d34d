"""Macro steps as one compiled loop, for sessions in which nobody need be asked between two steps.

The stages are those of `hilrt.step.macro_step`, of which numba has compiled the very same
functions; here is only which of them act where there is nothing but FMUs whose steps are calls of
C functions, and what is kept of each step. `hilrt.leap` says where that is so; tests hold both to
the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.c_calls import clock_ns
from hilrt.compiled import also_compiled, compiled_loop
from hilrt.coupling import defect
from hilrt.coupling import polynomial as poly
from hilrt.coupling.extrapolate import sum_at_inputs
from hilrt.fmu import fmi2_steps
from hilrt.fmu.fmi2_steps import Steps
from hilrt.lent import Layout, Lent
from hilrt.record.signals import CUT_SIGNALS, MASTER_SIGNALS, Peers, write_row
from hilrt.reliability.measures import measure, measure_at_bonds, raise_and_clear
from hilrt.solver import Floats
from hilrt.step.macro_step import (
    add_energy_correction,
    carry_on,
    compensate,
    measure_bonds,
    open_and_limit,
)
from hilrt.step.plan import Plan
from hilrt.step.step_state import StepInput, StepState
from hilrt.tables.network import Ints


def _layout(names: str, **objects: Layout) -> Layout:
    return dict.fromkeys(names.split()) | objects


#: What the stages look at of each object.
_PLAN = _layout(
    "step spacing full_order holds_when_late passes receives base lead",
    network=_layout(
        "every",
        outputs=_layout("owner"),
        inputs=_layout("owner"),
        connections=_layout("source gain first target"),
        bonds=_layout(
            "effort more more_of flow inputs flow_input shared effort_gain flow_gain every first "
            "watt"
        ),
    ),
    bounds=_layout("low high rate jerk"),
    energy=_layout("mu nu cap cap_abs held wanted active none"),
    reliability=_layout("connection_defect clock power_residual tracking energy_drift clear_time"),
)
_STATE = _layout(
    "differences nodes degree y measured carried sent sent_t0 flown flown_t0 added flown_added "
    "others flown_others last last_t motion t_start h dispatch h_next bond_time bond_power "
    "tracking u_defect y_defect jumps limited implausible",
    history=_layout("t y count"),
    control=_layout("output_order connection_order"),
    energy=_layout(
        "e f correction in_force budget uncorrected power residual corrected shadow tracking "
        "capped steps"
    ),
    corrected=_layout("power effort capped energy work applied_work due"),
    defects=_layout("u_square u_max"),
    monitor=_layout(
        "ratio last_high active any_active seconds magnitude scale peak drift carried low high "
        "moved",
        checks=_layout("always of_bonds used first"),
    ),
    alarms=_layout("active"),
)
_GIVEN = _layout(
    "tick t elapsed y t_valid fresh y_mid dy realised busy late due reached covered clock_error "
    "event rejoined rest has_middle regular apply missed learns"
)
_PEERS = _layout("age compute_us wire_us")


class Block(NamedTuple):
    """What is kept of each step of a run, arrays with a row per step.

    Attributes
    ----------
    rows, times : ndarray, shape (n, n_signals), (n,)
        Rows of the log, and their session times, ns.
    parts_ns : ndarray of int, shape (n, 3)
        Time for the cut, for the macro step, and for the slack of the step before, ns.
    """

    rows: Floats
    times: NDArray[np.int64]
    parts_ns: NDArray[np.int64]


class Pace(NamedTuple):
    """From when on and how long steps are run.

    Attributes
    ----------
    t_ns, h_ns : int
        Session time of the first step, and length of each, ns.
    until_ns : int
        Reading of the monotonic clock after which no further step is begun.
    slack_ns : int
        Slack of the step before, ns.
    """

    t_ns: int
    h_ns: int
    until_ns: int
    slack_ns: int


class Ran(NamedTuple):
    """How far a run of steps went.

    Attributes
    ----------
    steps, moved : int
        Steps that were made, and flags that moved in the last of them (`Monitor.note_changes`).
    answered : bool
        Whether all solvers made the last one; else `Steps.answer` says who did not.
    slack_ns : int
        Slack of the last one, ns.
    """

    steps: int
    moved: int
    answered: bool
    slack_ns: int


def _places(signals: Sequence[tuple[str, str]], names: str) -> Ints:
    """Where signals stand among their like; handed over, as no compiled constant would notice."""
    there = [name for name, _ in signals]
    return np.array([there.index(name) for name in names.split()], dtype=np.intp)


class CompiledSteps:
    """Runs macro steps of a session until there is something to say.

    Parameters
    ----------
    plan, state, given, peers
        Of the session; changed in place.
    solvers : Steps
        Of all subsystems.
    clock : int
        Of `hilrt.c_functions.clock_address`.
    """

    def __init__(
        self,
        plan: Plan,
        state: StepState,
        given: StepInput,
        peers: Peers,
        solvers: Steps,
        clock: int,
    ) -> None:
        self.plan, self.given = plan, given
        self._lent = (
            Lent(plan, _PLAN),
            Lent(state, _STATE),
            Lent(given, _GIVEN),
            Lent(peers, _PEERS),
        )
        self._solvers, self._clock = solvers, clock
        self._scratch = (
            np.zeros(2, dtype=np.int64),
            (
                np.zeros(len(MASTER_SIGNALS)),
                _places(MASTER_SIGNALS, "step compute cut macro_step slack"),
                np.zeros(len(CUT_SIGNALS)),
                _places(CUT_SIGNALS, "tick elapsed apply regular learns"),
            ),
        )

    @property
    def t(self) -> float:
        """Session time of the step that is being made, for who is called on its way, s."""
        return float(self._lent[2].number("t"))

    def run(self, block: Block, pace: Pace) -> Ran:
        """Run at most as many steps as `block` has room for; the cut of the first one is made.

        The solvers have been stepped after the last one, too.
        """
        for lent in self._lent:
            lent.renew()
        elapsed = pace.h_ns * 1e-9
        ran = Ran(
            *_run(
                *self._lent,
                self._solvers,
                block,
                pace,
                math.exp(-elapsed / self.plan.reliability.scale_time),
                poly.weights(self.plan.rows, elapsed),
                self.plan.spurious,
                self._clock,
                self._scratch,
            )
        )
        if ran.steps:
            last = ran.steps - 1
            self.given.tick += last
            self.given.t, self.given.elapsed = (pace.t_ns + last * pace.h_ns) * 1e-9, elapsed
        return ran


@compiled_loop
def _run(
    plan: Any,
    state: Any,
    given: Any,
    peers: Any,
    solvers: Steps,
    block: Block,
    pace: Pace,
    keep: float,
    weights: Floats,
    shares: Floats,
    clock: int,
    scratch: Any,
) -> tuple[int, int, bool, int]:
    reading, row = scratch
    t_ns, tick, slack = pace.t_ns, given.tick, pace.slack_ns
    steps, moved, answered = 0, 0, True
    while steps < len(block.rows) and moved == 0 and answered:
        begun, t = clock_ns(clock, reading), t_ns * 1e-9
        if steps:
            _cut(given, peers, solvers, t)
        given.tick, given.t, given.elapsed = tick, t, pace.h_ns * 1e-9
        cut = clock_ns(clock, reading)
        _macro_step(plan, state, given)
        stepped = clock_ns(clock, reading)
        moved = _assess(plan, state, given, keep, weights, shares)
        _describe(state, given, cut - begun, stepped - cut, slack, row)
        write_row(plan, state, given, peers, row[0], row[2], block.rows[steps])
        _keep(block, steps, t_ns, cut - begun, stepped - cut, slack)
        _copy(state.sent[0], solvers.u)
        answered = fmi2_steps.run(solvers, t, state.h_next, clock, reading)
        ended = clock_ns(clock, reading)
        slack = ended - stepped
        t_ns, tick, steps = t_ns + pace.h_ns, tick + 1, steps + 1
        if ended > pace.until_ns:
            break
    return steps, moved, answered, slack


@also_compiled
def _cut(given: Any, peers: Any, solvers: Any, t: float) -> None:
    """All have answered: what `Exchange.cut` makes of it."""
    _copy(solvers.y, given.y)
    _copy(solvers.compute_us, peers.compute_us)
    for i in range(len(given.t_valid)):
        given.t_valid[i] = t
    for s in range(len(given.reached)):
        given.covered[s], given.reached[s] = t - given.reached[s], t


@also_compiled
def _macro_step(plan: Any, state: Any, given: Any) -> None:
    _turn_over(state)
    compensate(plan, state, given)
    carry_on(plan, state)
    sum_at_inputs(plan.network.connections, state.carried, plan.base, state.measured)
    add_energy_correction(plan, state, given)
    poly.raise_by(state.measured, state.added, state.sent)
    open_and_limit(plan, state, given)


@also_compiled
def _turn_over(state: Any) -> None:
    """As `hilrt.step.macro_step.turn_over`, by copying: a loan cannot be turned over, and what was
    sent is not looked at before it is new.
    """
    _copy(state.sent_t0, state.flown_t0)
    _copy(state.added, state.flown_added)
    for m in range(len(state.sent)):
        _copy(state.sent[m], state.flown[m])


@also_compiled
def _assess(plan: Any, state: Any, given: Any, keep: float, weights: Floats, shares: Floats) -> int:
    """How many flags have moved."""
    poly.weighted_difference(
        state.flown, state.flown_t0, state.measured, given.t, weights, state.u_defect
    )
    defect.add(state.u_defect, given.elapsed, state.defects.u_square, state.defects.u_max)
    measure_bonds(plan, state, given)
    measure(state.monitor, plan, state, given, keep, False)
    if len(shares):
        measure_at_bonds(state.monitor, plan, state, given, shares)
    return raise_and_clear(state.monitor, given.t, given.elapsed, plan.reliability.clear_time)


@also_compiled
def _describe(
    state: Any,
    given: Any,
    cut_ns: int,
    step_ns: int,
    slack_ns: int,
    row: Any,
) -> None:
    """What `RowWriter` says of the master and the cut; what is not said here is zero."""
    of_master, timing, of_cut, cut = row
    of_master[timing[0]] = state.h_next
    of_master[timing[1]] = (cut_ns + step_ns) * 1e-3
    of_master[timing[2]], of_master[timing[3]] = cut_ns * 1e-3, step_ns * 1e-3
    of_master[timing[4]] = slack_ns * 1e-3
    of_cut[cut[0]], of_cut[cut[1]], of_cut[cut[2]] = given.tick, given.elapsed, given.apply
    of_cut[cut[3]], of_cut[cut[4]] = given.regular, given.learns


@also_compiled
def _keep(block: Any, i: int, t_ns: int, cut_ns: int, step_ns: int, slack_ns: int) -> None:
    block.times[i] = t_ns
    block.parts_ns[i, 0], block.parts_ns[i, 1] = cut_ns, step_ns
    block.parts_ns[i, 2] = slack_ns


@also_compiled
def _copy(values: Floats, into: Floats) -> None:
    for i in range(len(values)):
        into[i] = values[i]
