import tomllib

import numpy as np
import pytest

from hilrt.analyze.log_statistics import LogStatistics
from hilrt.analyze.step_advice import advise
from tests.analyze.test_log_statistics import block

FILE = b"""
[master]
extrapolation = { order = 1 }
[[connections]]
from = "a.y"
to = "b.u"
order = ORDER
[reliability]
connection_defect = 0.2
"""


def session(share: float, late_us: float = 0.0, solver_us: float = 0.0) -> LogStatistics:
    """1 s at 1 ms with a defect that is this share of the signal."""
    statistics, n = LogStatistics(), 1001
    statistics.add(block("sent", ["b.u:sent"], np.full(n, 2.0)))
    statistics.add(block("defects", ["b.u:connection_defect"], np.full(n, 2.0 * share)))
    timing = np.column_stack([np.full(n, 1e-3), np.full(n, late_us), np.full(n, solver_us)])
    statistics.add(block("timing", ["master:step", "master:lateness", "a:compute"], timing))
    return statistics


@pytest.mark.parametrize(
    ("order", "share", "longest"),
    [(0, 0.1, 1e-3), (0, 0.4, 0.25e-3), (1, 0.4, 0.5e-3), (1, 0.025, 2e-3), (1, 1e-9, 10e-3)],
)
def test_defect_scales_with_the_step_to_the_order_plus_one(
    order: int, share: float, longest: float
) -> None:
    file = FILE.replace(b"ORDER", str(order).encode())
    advice = advise(session(share), tomllib.loads(file.decode()), {})
    assert advice is not None
    assert advice.above is not None
    assert advice.above.step_s == pytest.approx(longest)
    assert advice.recommended_s == pytest.approx(longest)
    assert f"order {order}" in advice.text
    assert "b.u" in advice.text


def test_time_bounds_the_step_from_below() -> None:
    file = FILE.replace(b"ORDER", b"0")
    advice = advise(session(0.1, late_us=100.0), tomllib.loads(file.decode()), {})
    assert advice is not None
    assert advice.below is not None
    assert advice.below.step_s == pytest.approx(0.5e-3, rel=0.02)
    slow = advise(session(0.1, late_us=10.0, solver_us=4000.0), tomllib.loads(file.decode()), {})
    assert slow is not None
    assert slow.recommended_s is None
    assert "a needs" in slow.text
    assert "No step satisfies both" in slow.text
    assert "correct the bond" not in slow.text  # there is none


def test_one_page_names_one_step() -> None:
    """The verdict's advice, where it asks for a shorter one."""
    file = tomllib.loads(FILE.replace(b"ORDER", b"0").decode())
    for named, recommended in ((0.25e-3, 0.25e-3), (5e-3, 1e-3), (None, 1e-3)):
        advice = advise(session(0.1), file, {}, named)
        assert advice is not None
        assert advice.recommended_s == pytest.approx(recommended)
        assert ("the verdict's advice" in advice.text) == (recommended < 1e-3)


def test_a_bench_bounds_the_step_by_what_it_sends() -> None:
    file = tomllib.loads(FILE.replace(b"ORDER", b"0").decode())
    advice = advise(session(0.1), file, {}, 0.25e-3, {"bench": 10e-3, "other": 1e-3})
    assert advice is not None
    assert advice.recommended_s is None
    assert "bench sends new values every 10.0 ms" in advice.text
    slower = advise(session(0.1), file, {}, None, {"bench": 0.5e-3})
    assert slower is not None
    assert slower.recommended_s == pytest.approx(1e-3)


def test_no_step_is_advised_beyond_the_stable_one() -> None:
    file = tomllib.loads(FILE.replace(b"ORDER", b"1").decode())
    for stable, recommended in ((1.3e-3, 1.3e-3), (10e-3, 10e-3), (None, 10e-3)):
        for share in (1e-9, 0.0):
            advice = advise(session(share), file, {}, stable_s=stable)
            assert advice is not None
            unstable = "lets errors grow" in advice.text
            assert unstable == (stable == 1.3e-3)
            if share or unstable:
                assert advice.recommended_s == pytest.approx(recommended)


def test_log_without_timing_gives_no_advice() -> None:
    assert advise(LogStatistics(), {}, {}) is None
    quiet = advise(session(0.0), {}, {})
    assert quiet is not None
    assert "No defect in the log" in quiet.text
