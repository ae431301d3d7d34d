"""Whole sessions of every method, compiled and interpreted: bit for bit, and only the state."""

import pytest

from tests.interpreted import assert_same_bits, assert_untouched, left_by_interpreted
from tests.whole_sessions import METHODS, left_by_steps, states


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """What the sessions leave when their steps run in Python."""
    return left_by_interpreted("tests.whole_sessions", tmp_path_factory.mktemp("sessions"))


@pytest.mark.parametrize("method", METHODS)
def test_compiled_sessions_leave_what_interpreted_ones_do(interpreted, method):
    assert_same_bits(states(method), interpreted)


@pytest.mark.parametrize("method", METHODS)
def test_a_step_writes_the_state_alone(method):
    for name, (before, after), _ in left_by_steps(method):
        assert_untouched(name, before, after)


def test_the_sessions_make_use_of_what_they_are_named_after():
    for method, table, field in (
        ("energy", "elements", "correction"),
        ("limits", "inputs", "limited"),
        ("jacobians", "inputs", "offset"),
        ("ranges", "outputs", "withheld"),
        ("ranges", "outputs", "value_fault"),
    ):
        used = [
            s.state for _, _, s in left_by_steps(method) if getattr(s.state, table)[field].any()
        ]
        assert used, f"{method}: no {table}.{field} in any step"
