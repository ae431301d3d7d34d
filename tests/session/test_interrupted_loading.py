"""Ctrl-C while the numerics are compiled, in a thread that cannot be stopped, but left."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

from hilrt.config.session_file import load_session
from hilrt.errors import ExitStatus
from hilrt.session.loop_thread import NAME
from hilrt.session.run import RunOptions
from hilrt.session.session import SessionRun

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"


def test_a_session_that_is_interrupted_does_not_wait_for_the_compiler(tmp_path, monkeypatch):
    compiles, compiled = threading.Event(), threading.Event()

    def load(expects: bool) -> None:
        compiles.set()
        compiled.wait(60.0)

    monkeypatch.setattr("hilrt.session.session._load_numerics", load)
    run = SessionRun(load_session(TWO_MASS), RunOptions(out=tmp_path, record=False))

    async def interrupted():
        ended = asyncio.ensure_future(run.run())
        await asyncio.to_thread(compiles.wait, 60.0)
        run.interrupt("interrupted (Ctrl-C)")
        return await ended

    try:
        result = asyncio.run(interrupted())
        assert result.exit_status == ExitStatus.INTERRUPTED
        (left,) = (thread for thread in threading.enumerate() if thread.name == NAME)
    finally:
        compiled.set()
    left.join(60.0)
    assert not left.is_alive()


COMMAND = """
import threading
from hilrt.cli.main import main
from hilrt.session.loop_thread import NAME

def command():
    threading.Thread(target=threading.Event().wait, name=NAME, daemon=True).start()
    print("ended")
    raise SystemExit(130)

main(command)
"""


def test_the_command_ends_beside_the_compiler():
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (ExitStatus.INTERRUPTED, "ended\n", "")
