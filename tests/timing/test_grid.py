"""Grid arithmetic."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hilrt.timing.grid import Grid


def test_grid_points_are_exact_after_years():
    grid = Grid(epoch_ns=7, step_ns=999_999)
    assert grid.time(10**12) == 7 + 999_999 * 10**12
    assert grid.seconds(1000) == 0.999999
    assert Grid(0, 1_000_000).seconds(3) == 0.003  # 3 * 0.001 is not


@given(
    st.integers(-(10**18), 10**18),
    st.integers(1, 10**11),
    st.integers(0, 10**9),
    st.sampled_from([1.0, 2.0, 0.1, 3.7, 1e-3]),
)
def test_grid_keeps_pace_without_accumulating(epoch, step, k, pace):
    grid = Grid(epoch, step, pace)
    exact = epoch + Fraction(k * step) / Fraction(pace)
    assert 0 <= exact - grid.time(k) < 1


@given(st.integers(1, 10**10), st.integers(0, 10**6), st.sampled_from([1.0, 2.0, 0.1, 3.7, 0.3]))
def test_index_is_the_newest_point_that_has_come(step, k, pace):
    grid = Grid(12345, step, pace)
    if grid.time(k) == grid.time(k + 1):  # steps below a nanosecond of the clock
        return
    assert grid.index(grid.time(k)) == k
    assert grid.index(grid.time(k + 1) - 1) == k
    assert grid.index(12344) < 0
