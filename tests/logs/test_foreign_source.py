"""Files that a child process reads: its crash, hang or hunger is a refusal of the file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hilrt.errors import ConfigError
from hilrt.isolation.limited_process import LimitedProcess, ProcessLimits
from hilrt.logs.export_file import export_file
from hilrt.logs.foreign_source import ForeignSource
from hilrt.logs.import_file import import_file
from hilrt.logs.open_source import open_source
from hilrt_adapters.recorded_tracks import read_signals
from tests.logs.made import two_rates

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")
CRASHED = r"[\w/.-]+: cannot be read: its reader crashed \(SIGSEGV\); it is damaged"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet file of 100,000 rows, which are several parts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("foreign") / "table.parquet"
    times = np.arange(100_000) * 1e-3
    pq.write_table(pa.table({"time": times, "x": np.sin(times), "y": np.cos(times)}), path)
    return path


def pid_of(source: ForeignSource) -> int:
    return source.child.pid


def opened(path: Path) -> ForeignSource:
    source = open_source(path)
    assert isinstance(source, ForeignSource)
    return source


def read(path: Path) -> int:
    """Rows of a file."""
    source = opened(path)
    try:
        return sum(len(block.times_ns) for block in source.blocks())
    finally:
        source.close()


def test_a_crash_of_the_reader_is_an_error_that_names_the_file(table: Path) -> None:
    source = opened(table)
    blocks = source.blocks()
    next(blocks)
    os.kill(pid_of(source), signal.SIGSEGV)
    with pytest.raises(ConfigError, match=CRASHED):
        list(blocks)
    with pytest.raises(ConfigError, match=CRASHED):
        source.metadata()
    source.close()
    assert read(table) == 100_000


def test_a_crash_reaches_a_replay_and_an_import_as_the_same_error(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = ForeignSource._receive

    def crash(source: ForeignSource) -> object:
        answer = receive(source)
        if answer.blocks:
            os.kill(pid_of(source), signal.SIGSEGV)
        return answer

    monkeypatch.setattr(ForeignSource, "_receive", crash)
    with pytest.raises(ConfigError, match=rf"\[subsystems\.a\] log: {CRASHED}"):
        read_signals(table, {"x": "x"}, "[subsystems.a] log")
    with pytest.raises(ConfigError, match=CRASHED):
        import_file(table, tmp_path / "out.mcap")
    assert not list(tmp_path.iterdir())


def test_the_memory_of_a_reader_is_limited(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(table) == 100_000
    monkeypatch.setattr(ProcessLimits, "for_size", lambda size: ProcessLimits(100_000, 60, 60.0))
    message = r"table\.parquet: (needs more memory|is damaged: .*alloc|.*reader of it crashed)"
    with pytest.raises(ConfigError, match=message):
        read(table)
    monkeypatch.undo()
    assert read(table) == 100_000


def test_the_time_for_an_answer_is_limited(table: Path) -> None:
    source = opened(table)
    os.kill(pid_of(source), signal.SIGSTOP)
    source.child.limits = source.child.limits._replace(answer_s=0.01)
    with pytest.raises(ConfigError, match=r"table\.parquet: .*its reader did not respond for"):
        source.topics()
    source.close()


def test_a_reader_that_computes_without_end_is_ended() -> None:
    endless = (
        "from hilrt.isolation.limited_process import limit_this_process\n"
        "limit_this_process(1 << 30, 0)\n"
        "while True: pass"
    )
    done = subprocess.run([sys.executable, "-c", endless], timeout=60)
    assert done.returncode == -signal.SIGXCPU


def test_blocks_and_frames_are_read_side_by_side_and_a_reader_is_used_again(
    tmp_path: Path,
) -> None:
    log = two_rates(tmp_path / "log.mcap")
    path = export_file(log, "mf4", tmp_path / "log.mf4").path
    first = opened(path)
    topics = first.topics()
    rows = {topic.name: 0 for topic in topics}
    one, other = first.blocks(), first.blocks({topics[0].signals[0].name})
    some = [next(one), next(other)]
    assert len(first.attachments()) >= 0  # between the parts of two streams
    for block in [some[0], *one]:
        rows[block.channel.topic] += len(block.times_ns)
    assert sorted(rows.values()) == [30, 3000]
    assert len({id(block.channel) for block in [some[1], *other]}) == 1
    pid = pid_of(first)
    first.close()
    first.close()
    second = opened(path)
    assert pid_of(second) == pid
    second.close()


def test_what_is_no_file_has_no_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mf4")
    with pytest.raises(ConfigError, match=r"pipe\.mf4: cannot be read: it is a pipe, not a file"):
        ForeignSource("mf4", tmp_path / "pipe.mf4")


def test_a_reader_that_a_file_may_take_over_knows_no_tokens(monkeypatch):
    monkeypatch.setenv("HILRT_TOKEN", "of the operators")
    given = {}
    monkeypatch.setattr("subprocess.Popen", lambda argv, **how: given.update(how))
    LimitedProcess("hilrt.logs.foreign_process")
    assert given["env"]["PATH"]
    assert not [name for name in given["env"] if name.startswith("HILRT_")]


def test_values_that_do_not_fit_their_times_are_refused(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = ForeignSource._receive

    def shortened(source: ForeignSource) -> object:
        answer = receive(source)
        for block in answer.blocks:
            block.values = block.values[:-8]
        return answer

    monkeypatch.setattr(ForeignSource, "_receive", shortened)
    with pytest.raises(ConfigError, match=r"table\.parquet: .* different numbers of values"):
        read(table)
