"""Scenarios run in processes of their own, against the wall clock."""

import contextlib
import faulthandler
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from hilrt.session.running import load_numerics
from tests.scenarios.fork_server import close_server

#: The time that a phase of a test may take, s. Whoever waits for one thing waits for less, and says
#: for what; this ends what waits without a limit, so that the tests after it run.
LIMIT = 120.0


@contextlib.contextmanager
def time_limit(seconds: float = LIMIT) -> Iterator[None]:
    """What takes longer fails where it stands, and again where its cleaning up does."""

    def fail(*_: object) -> None:
        faulthandler.dump_traceback(2)  # of all threads; pytest shows it with the failure
        pytest.fail(f"not done within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def limited() -> contextlib.AbstractContextManager[None]:
    return time_limit() if hasattr(signal, "SIGALRM") else contextlib.nullcontext()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, Any, Any]:
    with limited():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the kernels once: processes that start together would do it all at a time."""
    if hasattr(signal, "SIGALRM"):
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # a minute of processor time is no hang
    load_numerics()


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> Iterator[None]:
    """What scenarios have started is ended with the last of them."""
    yield
    close_server()
