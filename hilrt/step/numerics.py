"""`Numerics`: a session's tables, what their rows are called, and the two compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from hilrt.compilation.compiled import entry_point
from hilrt.config.structs import Session
from hilrt.expressions.session_program import session_program
from hilrt.reliability.alarms import AlarmNames
from hilrt.reliability.checks import CheckNames
from hilrt.solver import Floats
from hilrt.step import macro_step as stages
from hilrt.step.build_plan import Platform, build_plan
from hilrt.step.changes import Changes
from hilrt.step.fill_stimuli import stimulus_order
from hilrt.step.start_state import start_state
from hilrt.tables import plan as plan_tables
from hilrt.tables import state as state_tables
from hilrt.tables.given import StepInput, empty_input, empty_slack
from hilrt.tables.model import Model, no_model_plan, no_model_state
from hilrt.tables.network import Network
from hilrt.tables.plan import Plan
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
    columns : list of ndarray, shape (n, 2)
        Columns of files that stimuli consist of.
    changes : Changes
        Of numbers, that wait for the next cut.
    plan, state, given, slack
        The tables. They stay where they are in memory: only their contents change.
    """

    def __init__(
        self,
        network: Network,
        plan: Plan,
        checks: CheckNames,
        alarms: AlarmNames,
        state: State,
    ) -> None:
        self.network, self.checks, self.alarms = network, checks, alarms
        self.plan: Plan = plan
        self.state: State = state
        sizes = len(plan.subsystems), len(plan.outputs), len(plan.inputs)
        self.given: StepInput = empty_input(*sizes, gamma=state.model.gamma.shape)
        self.slack: Table = empty_slack()
        self.changes = Changes(network, plan.drives["input"])
        self.stimuli: list[str] = []
        self.columns: list[Floats] = []
        self._h_next = state.session["h_next"]
        self._macro_step: Callable[..., Any] | None = None
        self._assess: Callable[..., Any] | None = None

    def load(self) -> None:
        """Load the compiled code, or compile it: before the first tick, which has no time."""
        plan, state, given = self.plan, self.state, self.given
        self._macro_step = entry_point(stages.macro_step, plan, state, given)
        self._assess = entry_point(stages.assess, plan, state, given, self.slack)

    def macro_step(self) -> None:
        """From the samples in `given` to the inputs for the wire."""
        if self._macro_step is None:
            self.load()
        assert self._macro_step is not None
        self._macro_step(self.plan, self.state, self.given)

    def assess(self) -> None:
        """How good the interval that ended was."""
        if self._assess is None:
            self.load()
        assert self._assess is not None
        self._assess(self.plan, self.state, self.given, self.slack)

    @property
    def h_next(self) -> float:
        """Macro step from this communication point, s."""
        return float(self._h_next[0])


def load_step() -> None:
    """Load the compiled code, or compile it, before there is a session.

    The types of the tables, and with them the code, are the same for every session.
    """

    def empty(tables: ModuleType, kind: type[Any], model: Any) -> Any:
        names = (name for name in kind._fields if name != "model")
        found = {
            name: table(getattr(tables, name.upper()), 1 if name == "session" else 0)
            for name in names
        }
        return kind(**found, model=model)

    plan = empty(plan_tables, Plan, no_model_plan())
    state = empty(state_tables, State, no_model_state())
    entry_point(stages.macro_step, plan, state, empty_input(0, 0, 0))
    entry_point(stages.assess, plan, state, empty_input(0, 0, 0), empty_slack())


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
    program = session_program(network, tables)
    plan, checks, alarms = build_plan(
        network,
        tables,
        platform,
        program,
        shadow=shadow,
        model=None if model is None else model.plan,
        columns=columns,
    )
    remembered = None if model is None else model.state
    state = start_state(plan, network, tables.reliability, y0, u0, program, remembered)
    numerics = Numerics(network, plan, checks, alarms, state)
    numerics.columns = list(columns)
    numerics.stimuli = [tables.stimuli[k].name for k in stimulus_order(network, tables)]
    return numerics
