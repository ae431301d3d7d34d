"""`Numerics`: a session's tables, what their rows are called, and the two compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hilrt.config.session_tables import FaultTable
from hilrt.config.structs import Session
from hilrt.expressions.session_program import session_program
from hilrt.reliability.alarms import AlarmNames
from hilrt.reliability.checks import CheckNames
from hilrt.solver import Floats
from hilrt.step.build_plan import Platform, build_plan
from hilrt.step.changes import Changes, OwnParameter, own_parameters
from hilrt.step.fill_stimuli import stimulus_order
from hilrt.step.load_step import bind_assess, bind_macro_step, load_step
from hilrt.step.start_state import start_state
from hilrt.tables.given import StepInput, empty_input, empty_slack
from hilrt.tables.model import Model
from hilrt.tables.network import Network
from hilrt.tables.plan import PARAMETERS, Plan
from hilrt.tables.record import Table, table
from hilrt.tables.state import State


class Numerics:
    """What the master steps.

    Attributes
    ----------
    network : Network
        Names and ports of the rows.
    checks, alarms
        Names of what is watched.
    stimuli : list of str
        Names of the stimuli, by their rows.
    faults : sequence of FaultTable
        Of the session file, by their rows.
    parameters : sequence of OwnParameter
        That may change, by their rows.
    columns : list of ndarray, shape (n, 2)
        Columns of files that stimuli consist of.
    changes : Changes
        Of numbers, that wait for the next cut.
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
        self._slack: Table = empty_slack()
        self.faults, self.parameters = faults, parameters
        self.changes = self.new_changes()
        self.stimuli: list[str] = []
        self.columns: list[Floats] = []
        self._h_next = state.session["h_next"]
        self._macro_step: Callable[[], None] = self._load_and_step
        self._assess: Callable[[], None] = self._load_and_assess

    def new_changes(self) -> Changes:
        """Changes of this session's numbers, of which none waits."""
        names = [fault.name for fault in self.faults]
        return Changes(self.network, self.plan.drives["input"], names, self.parameters)

    @property
    def plan(self) -> Plan:
        """Constants; not to be replaced, as compiled code has its address."""
        return self._plan

    @property
    def state(self) -> State:
        """The state, at the same address throughout."""
        return self._state

    @property
    def given(self) -> StepInput:
        """The input of a step, at the same address throughout."""
        return self._given

    @property
    def slack(self) -> Table:
        """The input of `assess`, at the same address throughout."""
        return self._slack

    def load(self) -> None:
        """Load the compiled code, or compile it: before the first tick, which has no time.

        Raises
        ------
        TypeError
            If a table is not contiguous, or has another layout than those of all sessions.
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
        """From the samples in `given` to the inputs for the wire."""
        self._macro_step()

    def assess(self) -> None:
        """How good the interval that ended was."""
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
    if known is not None and tables.master.step_control.method != "fixed":
        known = known.without_loop()  # whose answers are those of one step
        platform = platform._replace(sensitivities=known)
    parameters = own_parameters(network, tables, platform.parameters)
    plan, checks, alarms = build_plan(
        network,
        tables,
        platform,
        program,
        shadow=shadow,
        model=None if model is None else model.plan,
        columns=columns,
    )
    plan = plan._replace(parameters=table(PARAMETERS, len(parameters)))
    plan.parameters["subsystem"] = [own.s for own in parameters]
    remembered = None if model is None else model.state
    state = start_state(plan, network, tables.reliability, y0, u0, program, remembered)
    if known is not None:
        state.answers["factor"] = known.factors()
    state.parameters["value"] = [own.parameter.default for own in parameters]
    numerics = Numerics(network, plan, checks, alarms, state, tables.faults, parameters)
    numerics.columns = list(columns)
    numerics.stimuli = [tables.stimuli[k].name for k in stimulus_order(network, tables)]
    return numerics
