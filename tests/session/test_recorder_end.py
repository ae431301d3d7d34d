"""The end of a recording: the feed's socket outlives the recorder, which may be far behind."""

from pathlib import Path

import pytest

from hilrt.record.reader import load_log
from hilrt.session.processes import Processes
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.session.session_log import SessionLog

SESSION = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"


def test_the_feed_closes_when_the_recorder_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    end, close = Processes.end, SessionLog.close

    async def noted_end(self: Processes, told: list[str]) -> list[str]:
        problems = await end(self, told)
        order.append(f"recorder has ended: {self.children['recorder'].returncode}")
        return problems

    async def noted_close(self: SessionLog, failed: bool) -> list[str]:
        order.append("feed closes")
        return await close(self, failed)

    monkeypatch.setattr(Processes, "end", noted_end)
    monkeypatch.setattr(SessionLog, "close", noted_close)
    done = run_session(SESSION, {"session.duration": 0.01}, options=RunOptions(out=tmp_path))
    assert order == ["recorder has ended: 0", "feed closes"]
    assert len(load_log(done.folder).t) == done.summary["steps"] + 1
