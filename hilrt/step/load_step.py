"""The two compiled functions of a step, bound to tables; compiled at once at a first start."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from hilrt.compilation.compiled import bound, is_kept
from hilrt.isolation.limited_process import inherited_environment
from hilrt.step import macro_step as stages
from hilrt.tables import plan as plan_tables
from hilrt.tables import state as state_tables
from hilrt.tables.given import StepInput, empty_input, empty_slack
from hilrt.tables.model import no_model_plan, no_model_state
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table, table
from hilrt.tables.state import State

#: What another process has not compiled by then is compiled here, s.
LONGEST_HELP_S: Final = 120.0
HELPER: Final = "hilrt.step.compile_assess"


def bind_macro_step(plan: Plan, state: State, given: StepInput) -> Callable[[], None]:
    """`macro_step` of these tables."""
    return bound(stages.macro_step, plan, state, given)


def bind_assess(plan: Plan, state: State, given: StepInput, slack: Table) -> Callable[[], None]:
    """`assess` of these tables."""
    return bound(stages.assess, plan, state, given, slack)


def empty_tables() -> tuple[Plan, State, StepInput, Table]:
    """Tables without rows, of the types that those of every session have."""

    def empty(tables: ModuleType, kind: type[Any], model: Any) -> Any:
        names = (name for name in kind._fields if name != "model")
        found = {
            name: table(getattr(tables, name.upper()), 1 if name == "session" else 0)
            for name in names
        }
        return kind(**found, model=model)

    plan = empty(plan_tables, Plan, no_model_plan())
    state = empty(state_tables, State, no_model_state())
    return plan, state, empty_input(0, 0, 0), empty_slack()


@functools.cache
def load_step() -> None:
    """Load the compiled code, or compile it, before there is a session.

    The types of the tables, and with them the code, are the same for every session. Where nothing
    is cached yet, another process compiles `assess` meanwhile, and what it has cached is loaded: on
    two processors that takes as long as the longer of the two, instead of both.
    """
    plan, state, given, slack = empty_tables()
    helper = None if is_kept(stages.assess, plan, state, given, slack) else _start_helper()
    if helper is None:
        bind_macro_step(plan, state, given)
    else:
        with helper:  # which waits, once its input is closed
            try:
                bind_macro_step(plan, state, given)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    helper.wait(LONGEST_HELP_S)
            finally:
                helper.kill()
    bind_assess(plan, state, given, slack)


def _start_helper() -> subprocess.Popen[bytes]:
    """Start the process that compiles `assess`; closing its standard input ends it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", HELPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=inherited_environment(),
    )
