import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.compensate import outputs_at
from hilrt.coupling.extrapolate import History, divided_differences


def history(newest: list[float]) -> History:
    """Three samples of t² per output, the newest at the given time."""
    ages = np.array([[0.0], [0.7], [1.5]])
    t = np.array(newest) - ages
    return History(t=t, y=t**2, count=np.full(len(newest), 3))


def at(h: History, now: float, degree: list[int]) -> np.ndarray:
    y = np.full(len(degree), np.nan)
    outputs_at(*divided_differences(h, now), np.array(degree), h.count - 1, y)
    return y


def test_samples_of_now_are_taken_bit_for_bit():
    h = history([0.1, 0.1])
    result = at(h, 0.1, [2, 0])
    np.testing.assert_array_equal(result, h.y[0])


def test_old_samples_are_carried_on_and_the_others_left_as_they_are():
    h = history([2.0, 1.9, 1.9, 2.5])
    result = at(h, 2.0, [0, 2, 0, 2])  # the last one is valid a little after the tick
    assert result[0] == h.y[0, 0]
    np.testing.assert_allclose(result[1:], [4.0, 1.9**2, 4.0], rtol=1e-12)


@given(st.floats(0.0, 0.5), st.integers(1, 2))
def test_a_line_and_a_parabola_know_where_they_go(late, degree):
    h = history([1.0])
    h.y = h.t**degree
    np.testing.assert_allclose(at(h, 1.0 + late, [degree]), (1.0 + late) ** degree, rtol=1e-9)
