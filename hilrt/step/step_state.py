"""What goes into a macro step, and what it remembers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.coupling import correct_energy, defect
from hilrt.coupling import extrapolate as ex
from hilrt.coupling.model_corrector import ModelCorrector
from hilrt.reliability.alarms import AlarmState
from hilrt.reliability.flags import Monitor
from hilrt.solver import Floats
from hilrt.step.control import ControlState
from hilrt.step.plan import Plan
from hilrt.tables.network import Bools, Ints


@dataclass(slots=True)
class StepInput:
    """Everything the decisions of one macro step depend on.

    Attributes
    ----------
    tick : int
        Number of the grid point.
    t, elapsed : float
        Session time of the communication point, and time since the previous one, s.
    y, t_valid : ndarray, shape (ny,)
        Newest sample of every output and when it is valid [s]; used where `fresh`.
    fresh : ndarray of bool, shape (ny,)
        Outputs that have arrived since the previous cut.
    y_mid : ndarray, shape (ny,)
        Outputs in the middle of the interval that their sample ends, NaN where unknown.
    dy : ndarray, shape (n, ny)
        Time derivatives of the outputs, NaN where unknown.
    realised : ndarray, shape (nu,)
        What a bench made of each input, NaN where it is not measured.
    busy, late, due : ndarray of bool, shape (n subsystems,)
        Still computing; without the sample that was due; communicating at this tick.
    reached, covered : ndarray, shape (n subsystems,)
        Session time each subsystem has been advanced to, and length of the interval that its
        newest sample ends, s.
    clock_error : ndarray, shape (n subsystems,)
        Bound of the error with which a bench's clock is mapped to the master's, s; 0 for
        solvers, whose samples need no clock, NaN where it is not known yet.
    event : ndarray of bool, shape (n subsystems,)
        Has told of a discontinuity inside, or at the end of, the interval of its newest sample.
    rejoined : ndarray of bool, shape (n subsystems,)
        Its newest sample is the first one after it was lost and has initialized again.
    rest : float
        Where the communication point was put at a discontinuity: the macro step that leads from it
        back to the grid, s; 0 at all others.
    has_middle : bool
        Whether any `y_mid` is known.
    regular : bool
        Every subsystem is due, has answered, and stands at `t`: the common case.
    apply : bool
        Whether corrections act (False: shadow, or not yet armed).
    missed : bool
        Whether this tick missed its dispatch deadline; known in the slack.
    learns : bool
        Whether there is time left in the slack for a turn of the identification.
    """

    tick: int
    t: float
    elapsed: float
    y: Floats
    t_valid: Floats
    fresh: Bools
    y_mid: Floats
    dy: Floats
    realised: Floats
    busy: Bools
    late: Bools
    due: Bools
    reached: Floats
    covered: Floats
    clock_error: Floats
    event: Bools
    rejoined: Bools
    rest: float = 0.0
    has_middle: bool = False
    regular: bool = True
    apply: bool = True
    missed: bool = False
    learns: bool = True

    @classmethod
    def empty(
        cls, n_outputs: int, n_inputs: int, n_subsystems: int, n_derivatives: int
    ) -> StepInput:
        """A `StepInput` with arrays of the right shape, nothing fresh."""
        return cls(
            tick=0,
            t=0.0,
            elapsed=0.0,
            y=np.zeros(n_outputs),
            t_valid=np.zeros(n_outputs),
            fresh=np.zeros(n_outputs, dtype=bool),
            y_mid=np.full(n_outputs, np.nan),
            dy=np.full((n_derivatives, n_outputs), np.nan),
            realised=np.full(n_inputs, np.nan),
            busy=np.zeros(n_subsystems, dtype=bool),
            late=np.zeros(n_subsystems, dtype=bool),
            due=np.ones(n_subsystems, dtype=bool),
            reached=np.zeros(n_subsystems),
            covered=np.zeros(n_subsystems),
            clock_error=np.zeros(n_subsystems),
            event=np.zeros(n_subsystems, dtype=bool),
            rejoined=np.zeros(n_subsystems, dtype=bool),
        )


@dataclass(slots=True)
class StepState:
    """What the macro step remembers. All arrays are updated in place.

    Attributes
    ----------
    history : History
        Newest samples of every output.
    differences, nodes, degree : ndarray, shape (depth, ny), (depth, ny), (ny,)
        Newton's form of the polynomials through them, and the degree that is used of it.
    y : ndarray, shape (ny,)
        Outputs at the communication point, compensated and corrected.
    carried : ndarray, shape (order + 1, nc)
        What every connection carries, before its gain, about `t`.
    measured : ndarray, shape (order + 1, nu)
        Input polynomials through the newest samples, nothing added, about `t`.
    sent, flown : ndarray, shape (order + 1, nu)
        Input polynomials that leave the master now, and those of the interval that has ended, each
        about its own start `sent_t0`, `flown_t0` (nu,) [s].
    added, flown_added : ndarray, shape (nu,)
        The correction in `sent` and in `flown`.
    others, flown_others : ndarray, shape (order + 1, 2 ne)
        What of `sent` and `flown` at the bonds' inputs came from connections outside the bond.
    energy, corrected
        State and latest result of the energy correction.
    bond_time, bond_power, tracking : ndarray, shape (nb,)
        Previous communication point of each bond [s]; transmitted and tracking power, W.
    u_defect, y_defect : ndarray, shape (nu,), (ny,)
        RMS defects of the interval that ended; NaN where unknown. Over the run: `defects`.
    jumps : ndarray of bool, shape (ny,)
        Outputs that will show another subsystem's discontinuity at the next point, by feedthrough.
    limited, implausible : ndarray of bool, shape (nu,), (ny,)
    control, monitor, alarms, model
        State of step and order control, flags, alarms and model-based corrector.
    last, last_t : ndarray, shape (nu,)
        Start value of the polynomial sent last, and when that was, s.
    motion : ndarray, shape (3, nu)
        Of inputs with a bound of their jerk: mean rate at which they came to `last` [unit/s], the
        time in the middle of that step [s], and what was asked then.
    t_start, h : ndarray, shape (n subsystems,)
        Start and length of the interval each subsystem is dispatched with, s.
    dispatch : ndarray of bool, shape (n subsystems,)
        Subsystems that get their inputs at this tick.
    h_next : float
        Macro step from this communication point, s.
    """

    history: ex.History
    differences: Floats
    nodes: Floats
    degree: Ints
    y: Floats
    measured: Floats
    carried: Floats
    sent: Floats
    sent_t0: Floats
    flown: Floats
    flown_t0: Floats
    added: Floats
    flown_added: Floats
    others: Floats
    flown_others: Floats
    last: Floats
    last_t: Floats
    motion: Floats
    t_start: Floats
    h: Floats
    dispatch: Bools
    h_next: float
    energy: correct_energy.EnergyState
    corrected: correct_energy.Corrected
    bond_time: Floats
    bond_power: Floats
    tracking: Floats
    u_defect: Floats
    y_defect: Floats
    defects: defect.DefectTotals
    jumps: Bools
    limited: Bools
    implausible: Bools
    control: ControlState
    monitor: Monitor
    alarms: AlarmState
    model: ModelCorrector | None = None


def start(
    plan: Plan, t0: float, y0: Floats, u0: Floats, model: ModelCorrector | None = None
) -> StepState:
    """State before the first tick, from the initialized outputs (ny,) and inputs (nu,)."""
    net, bonds = plan.network, plan.network.bonds
    depth, orders, nu, n = plan.depth, plan.rows, len(net.inputs), len(net.subsystems)
    zero = np.zeros((orders, nu))
    sent = zero.copy()
    sent[0] = u0
    e, f = bonds.efforts(y0), y0[bonds.flow]
    nb = len(bonds)
    return StepState(
        history=ex.History.start(depth, t0, y0),
        differences=np.zeros((depth, len(y0))),
        nodes=np.zeros((depth, len(y0))),
        degree=np.zeros(len(y0), dtype=np.intp),
        y=y0.copy(),
        measured=sent.copy(),
        carried=np.zeros((orders, len(net.connections.source))),
        sent=sent,
        sent_t0=np.full(nu, t0),
        flown=sent.copy(),
        flown_t0=np.full(nu, t0),
        added=np.zeros(nu),
        flown_added=np.zeros(nu),
        others=np.zeros((orders, len(bonds.inputs))),
        flown_others=np.zeros((orders, len(bonds.inputs))),
        last=u0.copy(),
        last_t=np.full(nu, t0),
        motion=np.array([np.zeros(nu), np.full(nu, t0), u0]),
        t_start=np.full(n, t0),
        h=np.full(n, plan.step),
        dispatch=np.ones(n, dtype=bool),
        h_next=plan.first_step,
        energy=correct_energy.EnergyState.start(e, f, nb),
        corrected=correct_energy.Corrected.nothing(nb, len(e)),
        bond_time=np.full(nb, t0),
        bond_power=np.zeros(nb),
        tracking=np.zeros(nb),
        u_defect=np.zeros(nu),
        y_defect=np.full(len(y0), np.nan),
        defects=defect.DefectTotals.start(nu, len(y0)),
        jumps=np.zeros(len(y0), dtype=bool),
        limited=np.zeros(nu, dtype=bool),
        implausible=np.zeros(len(y0), dtype=bool),
        control=ControlState.start(plan.controls, plan.first_step, nu, nb),
        monitor=Monitor.start(plan.checks, y0, u0, nb),
        alarms=AlarmState.start(len(plan.alarms)),
        model=model,
    )
