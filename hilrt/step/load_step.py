"""The two compiled functions of a step, bound to tables; compiled in parallel at a first start."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, get_args, get_type_hints

from hilrt.compilation.compiled import bound, is_kept
from hilrt.isolation.limited_process import inherited_environment
from hilrt.step import macro_step as stages
from hilrt.tables.given import Slack, StepInput, empty_input, empty_slack
from hilrt.tables.model import no_model_plan, no_model_state
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table, table
from hilrt.tables.state import State

#: Time after which this process compiles code that the helper has not finished, s.
LONGEST_HELP_S: Final = 120.0
HELPER: Final = "from hilrt.step.load_step import compile_assess; compile_assess()"


def bind_macro_step(plan: Plan, state: State, given: StepInput) -> Callable[[], None]:
    """`macro_step` of these tables."""
    return bound(stages.macro_step, plan, state, given)


def bind_assess(
    plan: Plan, state: State, given: StepInput, slack: Table[Slack]
) -> Callable[[], None]:
    """`assess` of these tables."""
    return bound(stages.assess, plan, state, given, slack)


def empty_tables() -> tuple[Plan, State, StepInput, Table[Slack]]:
    """Tables without rows, of the types used by every session."""

    def empty(kind: type[Any], model: Any) -> Any:
        rows = {name: get_args(hint) for name, hint in get_type_hints(kind).items()}
        found = {
            name: table(row[0], 1 if name == "session" else 0) for name, row in rows.items() if row
        }
        return kind(**found, model=model)

    plan = empty(Plan, no_model_plan())
    state = empty(State, no_model_state())
    return plan, state, empty_input(0, 0, 0), empty_slack()


@functools.cache
def load_step() -> None:
    """Load the compiled code, or compile it, before there is a session.

    The types of the tables, and so the code, are the same for every session. Without a cache,
    another process compiles `assess` in the meantime, and this one loads the result: on two
    processors that takes as long as the longer of the two compilations, not as long as both.
    """
    plan, state, given, slack = empty_tables()
    helper = None if is_kept(stages.assess, plan, state, given, slack) else _start_helper()
    if helper is None:
        bind_macro_step(plan, state, given)
    else:
        with helper:  # its exit waits once its input is closed
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
        [sys.executable, "-P", "-c", HELPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=inherited_environment(),
    )


def compile_assess() -> None:
    """Compile `assess` into the cache: the helper process, which ends with its parent."""
    end_with_input()
    bind_assess(*empty_tables())


def end_with_input() -> None:
    """End this process at once when standard input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the parent ends, and with it the pipe

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
