"""The same source compiled and interpreted, on random tables: bit for bit, and only the state."""

import pytest

from tests.interpreted import assert_same_bits, assert_untouched, left_by_interpreted
from tests.random_stages import METHODS, left_by_stages, states


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """What the stages leave when they run in Python."""
    return left_by_interpreted("tests.random_stages", tmp_path_factory.mktemp("stages"))


@pytest.mark.parametrize("method", METHODS)
def test_compiled_stages_leave_what_interpreted_ones_do(interpreted, method):
    assert_same_bits(states(method), interpreted)


@pytest.mark.parametrize("method", METHODS)
def test_stages_write_the_state_alone(method):
    for name, (before, after), _ in left_by_stages(method):
        assert_untouched(name, before[:2], after[:2])
        assert before[2].tobytes() == after[2].tobytes(), f"{name} has written the slack"
