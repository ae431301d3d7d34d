"""Figures made from the rows of a log are those that the master has counted: every one of them."""

import math
from pathlib import Path

import numpy as np
import pytest

from hilrt.analyze import report_accumulator
from hilrt.analyze.log_analysis import analyse_log
from hilrt.analyze.rows_summary import summarise_rows
from hilrt.logs.cut import cut, merge
from hilrt.record.messages import REPORT_STATISTICS
from hilrt.solver import Port
from tests.recorded_session import assert_same, record
from tests.stepping import MemoryLink, Recorded, Stepping
from tests.virtual_clock import VirtualClock
from tests.whole_sessions import METHODS, build

MS = 1_000_000


class Bench(MemoryLink):
    """Stalls the master's clock at given ticks."""

    def __init__(self, clock: VirtualClock, stalls: dict[int, int]) -> None:
        source = Recorded({"y": lambda t: math.sin(40.0 * t)}, [Port("u")], middle=True)
        super().__init__("bench", source)
        self.clock, self.stalls = clock, stalls

    def dispatch(self, tick, t, h, coefficients):
        super().dispatch(tick, t, h, coefficients)
        self.clock.advance(60_000 + 100 * (tick % 37) + self.stalls.get(tick, 0))


def in_real_time(folder: Path, **options):
    """Late samples, late and skipped ticks, outputs whose middle is sometimes known."""
    clock = VirtualClock(5_000_000_000)
    stalls = {4: MS // 2, 30: 5 * MS + MS // 2, 60: MS + 300_000, 170: 2 * MS, 250: MS + 600_000}
    wave = Recorded({"z": lambda t: math.cos(25.0 * t)}, [Port("w")], middle=True)
    links = {
        "bench": Bench(clock, stalls),
        # for two ticks: it is asked before each and at each
        "late": MemoryLink("late", wave, hold_back=lambda tick: 4 * (tick % 11 == 5)),
    }
    session = Stepping(
        links,
        master={"step": 1e-3},
        connections=[{"from": "bench.y", "to": "late.w"}, {"from": "late.z", "to": "bench.u"}],
        subsystems={"bench": {}, "late": {"late": {"max_misses": 50}}},
        alarms=[{"signal": "late.z", "max": 0.5}, {"signal": "late.z", "min": -2.0}],
    )
    return record(session, folder, 0.4, clock=clock, **options)


@pytest.mark.parametrize("method", METHODS)
def test_every_method(method: str, tmp_path: Path) -> None:
    session = build(method)
    clock = None if session.plan.session[0].variable_step else VirtualClock(7_000_000_000)
    summary, log = record(session, tmp_path, 0.3, clock=clock)
    cut(log, tmp_path / "alone.mcap")  # without the summary
    found = analyse_log(tmp_path / "alone.mcap")
    assert not found.summarised
    assert_same(found.summary, summary)


def test_late_samples_and_missed_ticks(tmp_path: Path) -> None:
    summary, log = in_real_time(tmp_path)
    late = summary["peers"]["late"]["late"]
    assert 30 < late < summary["steps"]
    assert summary["missed_because"].keys() >= {"dispatch", "skipped"}
    assert summary["step_size_s"]["max"] > 4e-3
    assert summary["ports"]["late.z"]["output_defect"]["rms"] > 0.0
    assert {tick["cause"] for tick in summary["slowest_ticks"]} >= {"dispatch", "previous"}
    cut(log, tmp_path / "alone.mcap")
    assert_same(analyse_log(tmp_path / "alone.mcap").summary, summary)


def test_a_log_with_attached_statistics_and_one_that_was_cut_and_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_accumulator, "LEAST_ROWS", 10)
    monkeypatch.setattr(report_accumulator, "ROWS_AT_ONCE", 100)
    summary, log = in_real_time(tmp_path)
    stream, _, statistics = report_accumulator.read_accumulated(log)
    assert REPORT_STATISTICS not in stream.attachments
    attached = summarise_rows(statistics, stream.metadata, stream.events)
    assert_same(attached, summary)
    parts = [tmp_path / "one.mcap", tmp_path / "two.mcap"]
    cut(log, parts[0], end_s=0.2)  # the row at 0.2 s is in both
    cut(log, parts[1], start_s=0.2)
    merge(parts, tmp_path / "both.mcap")
    assert_same(analyse_log(tmp_path / "both.mcap").summary, summary)


def test_a_session_that_was_interrupted_and_one_that_ended_in_a_fault(tmp_path: Path) -> None:
    def interrupt(master, feed):
        commit = feed.commit

        def stop_at(t_ns):
            commit(t_ns)
            if t_ns >= 50 * MS:
                master.request_stop("enough")

        feed.commit = stop_at

    for name, options in (("stopped", {"prepare": interrupt}), ("fault", {})):
        folder = tmp_path / name
        if name == "fault":
            clock = VirtualClock(0)
            silent = MemoryLink("b", Recorded({"y": np.sin}, [Port("u")]), hold_back=lambda k: 99)
            session = Stepping(
                {"a": Recorded({"x": np.cos}, [Port("v")]), "b": silent},
                master={"step": 1e-3},
                connections=[{"from": "b.y", "to": "a.v"}],
                subsystems={"a": {}, "b": {"late": {"max_misses": 5}}},
            )
            summary, log = record(session, folder, 0.1, clock=clock)
            assert summary["reasons"][0].startswith("fault: the session ended")
        else:
            summary, log = in_real_time(folder, **options)
            assert 0.05 <= summary["time_s"] < 0.06
        cut(log, folder / "alone.mcap")
        assert_same(analyse_log(folder / "alone.mcap").summary, summary)


def test_missing_rows_are_no_time(tmp_path: Path) -> None:
    def lose(master, feed):
        feed.lost = set(range(100, 150))

    summary, log = in_real_time(tmp_path, prepare=lose)
    cut(log, tmp_path / "alone.mcap")
    found = analyse_log(tmp_path / "alone.mcap").summary
    assert found["recorder"] == summary["recorder"] == {"dropped_rows": 50}
    assert found["steps"] == summary["steps"] - 51  # the row after the gap has no interval
    assert found["time_s"] == pytest.approx(summary["time_s"] - 0.051)
    assert found["step_size_s"]["max"] == summary["step_size_s"]["max"]
