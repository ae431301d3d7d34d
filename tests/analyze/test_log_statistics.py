import numpy as np
import pytest

from hilrt.analyze.log_statistics import WORST, LogStatistics
from hilrt.analyze.rows_summary import summarise_rows
from hilrt.record.messages import Signal
from hilrt.record.reader import Block, LogChannel

MS = 1_000_000


def block(topic: str, names: list[str], values: np.ndarray, first: int = 0) -> Block:
    units = {"master:lateness": "us", "master:compute": "us", "a:compute": "us"}
    channel = LogChannel(topic, [Signal(name, units.get(name, "")) for name in names])
    times = (first + np.arange(len(values), dtype=np.int64)) * MS
    return Block(channel, times, np.asarray(values, float).reshape(len(values), -1))


def pieces(topic: str, names: list[str], values: np.ndarray, size: int) -> list[Block]:
    return [block(topic, names, values[i : i + size], first=i) for i in range(0, len(values), size)]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_numbers_do_not_depend_on_how_the_log_is_cut(size: int) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=300)
    values[::10] = np.nan
    statistics = LogStatistics()
    for part in pieces("outputs", ["a.x"], values, size):
        statistics.add(part)
    stats, found = statistics.stats["a.x"], values[~np.isnan(values)]
    assert (stats.count, stats.first, stats.last) == (len(found), found[0], found[-1])
    assert (stats.low, stats.high) == (found.min(), found.max())
    assert stats.rms == pytest.approx(np.sqrt(np.nanmean(values[1:] ** 2)))
    assert statistics.duration_s == pytest.approx(0.299)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_flags_count_and_last(size: int) -> None:
    up = np.array([0, 1, 1, 0, 0, 1, 1, 1, 1, 0.0])
    statistics = LogStatistics()
    for part in pieces("flags", ["flag:sample_late"], up, size):
        statistics.add(part)
    assert summarise_rows(statistics, {}, [])["flags"] == {
        "sample_late": {"count": 2, "seconds": pytest.approx(0.006)}
    }


def test_worst_steps_are_the_largest_ones_with_their_flags() -> None:
    rng = np.random.default_rng(2)
    late = rng.permutation(500).astype(float)
    statistics = LogStatistics()
    for i in range(0, 500, 50):
        rows = slice(i, i + 50)
        statistics.add(block("flags", ["flag:deadline_missed"], late[rows] >= 495.0, first=i))
        timing = np.column_stack([np.full(50, 1e-3), late[rows], late[rows] / 2.0])
        names = ["master:step", "master:lateness", "master:compute"]
        statistics.add(block("timing", names, timing, first=i))
    worst = statistics.worst_steps()
    assert [step.values["master:lateness"] for step in worst] == list(range(499, 499 - WORST, -1))
    assert [step.t for step in worst] == (np.argsort(late)[:-11:-1] / 1e3).tolist()
    assert [step.causes for step in worst] == [["deadline_missed"]] * 5 + [[]] * 5


def test_virtual_time_has_no_lateness() -> None:
    statistics = LogStatistics()
    timing = np.column_stack([np.full(5, 1e-3), np.zeros(5), np.arange(5.0)])
    statistics.add(block("timing", ["master:step", "master:lateness", "master:compute"], timing))
    assert [step.key for step in statistics.worst_steps()] == ["master:compute"] * 4
    assert summarise_rows(statistics, {}, [])["lateness_us"] is None
