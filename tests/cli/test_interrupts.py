"""Ctrl-C and SIGTERM before a command takes them, and after its exit status is decided."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from hilrt.cli.main import main
from hilrt.session.run import route_signals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")

LATE = """
import os, signal, sys
from hilrt.cli.main import main

class Last:
    def __del__(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)

sys.kept_to_the_end = Last()
main(lambda: sys.exit(3))
"""


def test_sigterm_while_a_command_loads_ends_it_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit, match="130"):
        main(lambda: signal.raise_signal(signal.SIGTERM))
    assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_ends_a_command_that_was_started_with_it_ignored() -> None:
    """As a shell without job control starts its background jobs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit, match="130"):
            main(lambda: signal.raise_signal(signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_so_it_does_when_a_session_has_ended() -> None:
    """The report is made then, for seconds."""

    async def session() -> None:
        with route_signals(told.append):
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    told: list[str] = []

    def command() -> None:
        asyncio.run(session())
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit, match="130"):
        main(command)
    assert len(told) == 1


def test_a_handler_that_is_none_of_pythons_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in C that embeds Python may have set one."""

    async def session() -> None:
        with route_signals(lambda reason: None):
            pass

    read = signal.getsignal
    before = {number: read(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    try:
        asyncio.run(session())
        assert read(signal.SIGTERM) == signal.SIG_DFL  # the loop's own is gone, nothing is put back
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_signal_while_the_interpreter_unloads_leaves_the_exit_status_alone() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
