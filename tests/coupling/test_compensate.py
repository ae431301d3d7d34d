import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.compensate import compensate
from hilrt.link import Ports
from hilrt.solver import Port
from tests.stepping import make_numerics


def compensated(
    newest: list[float], now: float, degree: list[int], power: int = 2, known: bool = True
) -> np.ndarray:
    """Outputs at `now`, of which three samples of ``t ** power`` are known, the newest at a time.

    No new sample arrives; the orders of the connections are `degree`. They are calculated channels;
    if not `known`, a sample that is not a number has come behind them.
    """
    ports = tuple(Port(f"y{i}") for i in range(len(newest)))
    numerics = make_numerics({"s": Ports((), ports)})
    plan, state, given = numerics.plan, numerics.state, numerics.given
    plan.session["samples"], given.session["t"] = 3, now
    times = np.array(newest)[:, None] - np.array([0.0, 0.7, 1.5])
    state.outputs["t_past"][:, :3], state.outputs["y_past"][:, :3] = times, times**power
    plan.outputs["calculated"] = 1
    state.outputs["newest"] = state.outputs["y_past"][:, 0] if known else np.nan
    state.outputs["count"], state.outputs["order"] = 3, degree
    compensate(plan, state, given)
    return state.outputs["y"].copy()


def test_samples_of_now_are_taken_bit_for_bit():
    np.testing.assert_array_equal(compensated([0.1, 0.1], 0.1, [2, 0]), np.array([0.1, 0.1]) ** 2)


def test_old_samples_are_carried_on_and_the_others_left_as_they_are():
    result = compensated([2.0, 1.9, 1.9, 2.5], 2.0, [0, 2, 0, 2])  # the last one is of the future
    assert result[0] == 4.0
    np.testing.assert_allclose(result[1:], [4.0, 1.9**2, 4.0], rtol=1e-12)


def test_after_a_sample_that_is_no_number_the_one_before_is_held():
    result = compensated([1.9, 1.9], 3.0, [1, 2], known=False)
    np.testing.assert_allclose(result, 1.9**2, rtol=1e-12)


@given(st.floats(0.0, 0.5), st.integers(1, 2))
def test_a_line_and_a_parabola_know_where_they_go(late, degree):
    result = compensated([1.0], 1.0 + late, [degree], power=degree)
    np.testing.assert_allclose(result, (1.0 + late) ** degree, rtol=1e-9)
