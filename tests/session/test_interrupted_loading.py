"""Ctrl-C while the numerics are compiled, in a thread that cannot be stopped."""

import asyncio
import threading
from pathlib import Path

from hilrt.config.session_file import load_session
from hilrt.exit_status import ExitStatus
from hilrt.session.run import RunOptions
from hilrt.session.session import NUMERICS, SessionRun

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"


def test_what_is_waited_for_is_said_at_once(tmp_path, monkeypatch, capsys):
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
        said = capsys.readouterr().err
        compiled.set()
        return await ended, said

    result, said = asyncio.run(interrupted())
    assert said.startswith(f"interrupted (Ctrl-C): ends as soon as it has {NUMERICS}")
    assert result.exit_status == ExitStatus.INTERRUPTED
