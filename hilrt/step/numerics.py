"""`Numerics`: a session's tables, the names of their rows, and the two compiled calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hilrt.config.session_tables import FaultTable
from hilrt.config.structs import CALCULATED, Reliability, Session
from hilrt.coupling.closed_loop import Sensitivities
from hilrt.coupling.open_loop import OpenLoop
from hilrt.expressions.program import Program
from hilrt.expressions.session_program import session_program
from hilrt.reliability.alarms import AlarmNames
from hilrt.reliability.checks import CheckNames
from hilrt.solver import Floats
from hilrt.step.build_plan import Platform, build_plan
from hilrt.step.changes import Changes, OwnParameter, own_parameters
from hilrt.step.fill_stimuli import stimulus_order
from hilrt.step.load_step import bind_assess, bind_macro_step, load_step
from hilrt.tables import state as rows
from hilrt.tables.given import THRESHOLDS, Slack, StepInput, empty_input, empty_slack
from hilrt.tables.model import Model, ModelState, no_model_state
from hilrt.tables.network import Network
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table, table
from hilrt.tables.state import State


class Numerics:
    """The tables and compiled functions of a session that the master steps.

    Attributes
    ----------
    network : Network
        Names and ports of the rows.
    checks, alarms
        Names of the checks and alarms.
    stimuli : list of str
        Names of the stimuli, by their rows.
    faults : sequence of FaultTable
        Of the session file, by their rows.
    parameters : sequence of OwnParameter
        Adjustable parameters, by their rows.
    columns : list of ndarray, shape (n, 2)
        File columns used by stimuli.
    changes : Changes
        Pending changes of numbers.
    stiffest : OpenLoop or None
        Of the responses that trials have shown, those that amplify most around the loops over a
        macro step. None without a trial, and if the exchange is not plain: with a variable step, an
        implicit scheme, output derivatives or a correction.
    """

    def __init__(
        self,
        network: Network,
        plan: Plan,
        checks: CheckNames,
        alarms: AlarmNames,
        state: State,
        faults: Sequence[FaultTable] = (),
        parameters: Sequence[OwnParameter] = (),
    ) -> None:
        self.network, self.checks, self.alarms = network, checks, alarms
        self._plan, self._state = plan, state
        sizes = len(plan.subsystems), len(plan.outputs), len(plan.inputs)
        self._given = empty_input(*sizes, state.model.gamma.shape, len(state.answers))
        self._slack = empty_slack()
        self.faults, self.parameters = faults, parameters
        self.changes = self.new_changes()
        self.stimuli: list[str] = []
        self.columns: list[Floats] = []
        self.stiffest: OpenLoop | None = None
        self._gain, self._explicit = -math.inf, True
        self._h_next = state.session["h_next"]
        self._macro_step: Callable[[], None] = self._load_and_step
        self._assess: Callable[[], None] = self._load_and_assess

    def new_changes(self) -> Changes:
        """An empty `Changes` for this session's numbers."""
        names = [fault.name for fault in self.faults]
        return Changes(self.network, self.plan.drives["input"].tolist(), names, self.parameters)

    @property
    def plan(self) -> Plan:
        """Constants; never replaced, because compiled code holds their address."""
        return self._plan

    @property
    def state(self) -> State:
        """The state; its address never changes."""
        return self._state

    @property
    def given(self) -> StepInput:
        """The input of a step; its address never changes."""
        return self._given

    @property
    def slack(self) -> Table[Slack]:
        """The input of `assess`; its address never changes."""
        return self._slack

    def keep_stiffest(self, found: OpenLoop | None, explicit: bool = True) -> None:
        """Keep the responses of a trial as `stiffest` if they amplify more than all before.

        `explicit` is False if the stability of the explicit exchange is not that of the session.
        """
        self._explicit &= explicit
        if found is None or not self._explicit:
            return
        gain = found.gain(float(self._plan.session[0].step))
        if gain > self._gain:
            self.stiffest, self._gain = found, gain

    def load(self) -> None:
        """Load the compiled code, or compile it, before the first tick, which has no time for it.

        Raises
        ------
        TypeError
            If a table is not contiguous, or differs in layout from those of all sessions.
        """
        load_step()
        self._macro_step = bind_macro_step(self._plan, self._state, self._given)
        self._assess = bind_assess(self._plan, self._state, self._given, self._slack)

    def _load_and_step(self) -> None:
        self.load()
        self._macro_step()

    def _load_and_assess(self) -> None:
        self.load()
        self._assess()

    def macro_step(self) -> None:
        """Compute the inputs to be sent from the samples in `given`."""
        self._macro_step()

    def assess(self) -> None:
        """Assess the last interval."""
        self._assess()

    @property
    def h_next(self) -> float:
        """Macro step from this communication point, s."""
        return float(self._h_next[0])


def build_numerics(
    network: Network,
    tables: Session,
    platform: Platform,
    y0: Floats,
    u0: Floats,
    *,
    shadow: bool = False,
    model: Model | None = None,
    columns: Sequence[Floats] = (),
) -> Numerics:
    """The numerics of a session before its first tick.

    Parameters
    ----------
    network : Network
    tables : Session
        The session file.
    platform : Platform
    y0, u0 : ndarray, shape (ny,), (nu,)
        Outputs and inputs of the initialized subsystems.
    shadow : bool
        Compute every correction and apply none.
    model : Model, optional
        Where outputs are corrected by their feedthrough or by Jacobians.
    columns : sequence of ndarray, shape (n, 2)
        Columns of files that stimuli consist of (`hilrt.step.fill_stimuli`).
    """
    program, known = session_program(network, tables), platform.sensitivities
    parameters = own_parameters(network, tables, platform.parameters)
    plan, checks, alarms = build_plan(
        network,
        tables,
        platform,
        program,
        shadow=shadow,
        model=None if model is None else model.plan,
        columns=columns,
        parameters=parameters,
    )
    plan.parameters["register"] = [
        program.channels[own.parameter.name][0] if own.subsystem == CALCULATED else -1
        for own in parameters
    ]
    remembered = None if model is None else model.state
    state = start_state(plan, network, tables.reliability, y0, u0, program, known, remembered)
    state.parameters["value"] = [own.parameter.default for own in parameters]
    numerics = Numerics(network, plan, checks, alarms, state, tables.faults, parameters)
    numerics.columns = list(columns)
    open_loop = None if known is None else known.open_loop
    numerics.keep_stiffest(open_loop, _is_plain(tables) and model is None)
    numerics.stimuli = [tables.stimuli[k].name for k in stimulus_order(network, tables)]
    return numerics


def _is_plain(tables: Session) -> bool:
    """Whether a session extrapolates samples over a fixed step, without iteration or correction."""
    master = tables.master
    return (
        (master.scheme, master.step_control.method) == ("explicit", "fixed")
        and master.extrapolation.source != "taylor"
        and all(bond.correction.method == "none" for bond in tables.bonds)
    )


def start_state(
    plan: Plan,
    network: Network,
    thresholds: Reliability,
    y0: Floats,
    u0: Floats,
    program: Program,
    known: Sensitivities | None = None,
    model: ModelState | None = None,
) -> State:
    """State before the first tick, at session time 0.

    Parameters
    ----------
    plan : Plan
    network : Network
    thresholds : Reliability
        Of the session file.
    y0, u0 : ndarray, shape (ny,), (nu,)
        Outputs and inputs of the initialized subsystems.
    program : Program
        Of the session's expressions.
    known : Sensitivities, optional
    model : ModelState, optional
        Where the plan has a model.
    """
    factors = np.zeros(0) if known is None else known.factors()
    state = _empty_state(plan, program, len(factors), model)
    state.answers["factor"] = factors
    first_step = plan.session["first_step"]
    if known is not None and known.own:
        state.errors["reached"] = known.reached
    state.session["h_next"] = state.session["controlled_step"] = first_step
    state.session["step_integral"] = np.log(first_step)
    state.session["error"] = np.nan
    state.session["until_break"] = np.inf
    state.session["alarm_level"] = -1
    for name in THRESHOLDS:
        state.session[name] = getattr(thresholds, name)
    state.subsystems["inside"] = plan.subsystems["inside"]
    state.subsystems["h"], state.subsystems["dispatch"] = plan.session["step"], 1
    _start_ports(plan, state, y0, u0)
    _start_orders(plan, state)
    _start_drives(plan, state)
    for b, bond in enumerate(network.bonds.tables):
        cap_abs = bond.correction.cap_abs
        state.bonds[b].cap = bond.correction.cap
        state.bonds[b].cap_abs = np.inf if cap_abs is None else cap_abs
    state.bonds["share"] = state.bonds["acting_share"] = 1.0
    state.bonds["mu"] = plan.bonds["mu"]
    state.elements["e"], state.elements["f"] = network.bonds.efforts(y0), y0[network.bonds.flow]
    state.checks["last_high"] = -np.inf
    state.alarms["previous"] = state.alarms["previous_t"] = np.nan
    state.alarms["since"] = np.inf
    return state


def _empty_state(plan: Plan, program: Program, answers: int, model: ModelState | None) -> State:
    """A state of a plan's sizes; all values are zero except the program's and the model's."""
    return State(
        session=table(rows.SessionStateRow, 1),
        subsystems=table(rows.SubsystemState, len(plan.subsystems)),
        outputs=table(rows.OutputState, len(plan.outputs)),
        inputs=table(rows.InputState, len(plan.inputs)),
        connections=table(rows.ConnectionStateRow, len(plan.connections)),
        drives=table(rows.DriveState, len(plan.drives)),
        stimuli=table(rows.StimulusState, len(plan.stimuli)),
        faults=table(rows.FaultState, len(plan.faults)),
        alterations=table(rows.AlterationState, len(plan.alterations)),
        underway=table(rows.UnderwayValue, int(plan.alterations["slots"].sum())),
        parameters=table(rows.ParameterState, len(plan.parameters)),
        bonds=table(rows.BondState, len(plan.bonds)),
        elements=table(rows.ElementState, len(plan.elements)),
        errors=table(rows.ErrorState, plan.session[0].error_states),
        answers=table(rows.AnswerState, answers),
        checks=table(rows.CheckState, len(plan.checks)),
        causes=table(rows.CauseState, len(plan.causes)),
        alarms=table(rows.AlarmState, len(plan.alarms)),
        registers=program.registers.copy(),
        memory=program.memory.copy(),
        model=model or no_model_state(),
    )


def _start_ports(plan: Plan, state: State, y0: Floats, u0: Floats) -> None:
    outputs, inputs = state.outputs, state.inputs
    outputs["t_past"] = -np.arange(outputs["t_past"].shape[1])  # keeps differences finite
    outputs["y_past"] = y0[:, None]
    outputs["count"] = 1
    outputs["sample"] = y0
    outputs["newest"] = outputs["t_newest"] = np.nan
    outputs["t_newest"][plan.calculated["output"]] = -np.inf
    outputs["y"], outputs["defect"] = y0, np.nan
    outputs["kept"] = 1.0
    for name in ("extrapolated", "polynomial", "previous"):
        inputs[name][:, 0] = u0
    inputs["last"] = inputs["approach_asked"] = u0
    inputs["expected_defect"] = -1.0
    for records, values in ((outputs, y0), (inputs, u0)):
        for name in ("magnitude", "scale", "peak"):
            records[name] = np.abs(values)


def _start_drives(plan: Plan, state: State) -> None:
    """Activate all connections except those of sequences, which do not drive yet."""
    state.connections["acts"] = plan.connections["driven"] < 0
    state.connections["gain"] = plan.connections["gain"]
    state.drives["kept"] = 1.0
    state.drives["own"][:, 0] = plan.inputs["constant"][plan.drives["input"]]
    state.drives["rate"] = np.inf


def _start_orders(plan: Plan, state: State) -> None:
    """Orders in force: those of the session file, or the initial one of the order control."""
    session = plan.session[0]
    first = min(max(session.initial_order, session.minimum_order), session.maximum_order)
    state.session["order"] = first if session.controls_order else 0
    free = plan.connections["free"] != 0
    order = np.where(free, state.session["order"], plan.connections["order"])
    state.connections["order"] = order
    np.maximum.at(state.outputs["order"], plan.connections["source"], order)
