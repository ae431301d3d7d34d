"""Snapshots of the step's state: nothing is left out, nothing is shared."""

import dataclasses

import numpy as np
import pytest

from hilrt.errors import RecordError
from hilrt.record.snapshot import decode_state, differences, encode_state, restore_state
from hilrt.step.step_state import StepInput, StepState, start
from tests.record.test_signals import two_mass


def stepped(duration):
    s = two_mass(1)
    s.run(duration)
    return s


def fresh(s):
    return start(s.plan, 0.0, np.zeros(len(s.state.y)), np.zeros(len(s.state.last)))


def test_every_field_of_the_state_is_in_a_snapshot():
    tree = decode_state(encode_state(stepped(0.01).state))
    names = {field.name for field in dataclasses.fields(StepState)}
    assert names <= tree.keys()
    monitor = tree["monitor"]
    assert {"ratio", "last_high", "active", "count", "seconds", "scale", "peak"} <= set(monitor)
    assert not {"checks", "part", "changes"} & set(monitor)  # constants, views, what it only tells


def test_a_restored_state_is_the_same_and_shares_nothing():
    s = stepped(0.02)
    data = encode_state(s.state)
    state = fresh(s)
    restore_state(state, data)
    assert differences(data, encode_state(state)) == []
    state.energy.residual += 1.0  # zero arrays stand for several fields of a new state
    state.monitor.ratio[:] = 7.0
    assert state.monitor.part["sample_late"].tolist() == [7.0, 7.0]
    changed = differences(data, encode_state(state))
    assert changed == ["energy.residual", "monitor.ratio"]


def test_columns_that_stand_together_do_so_again():
    s = stepped(0.01)
    s.state.differences = np.asfortranarray(np.arange(10.0).reshape(2, 5)[:, : len(s.state.y)])
    state = fresh(s)
    restore_state(state, encode_state(s.state))
    assert state.differences.flags.f_contiguous
    np.testing.assert_array_equal(state.differences, s.state.differences)


def test_a_snapshot_of_another_session_is_refused():
    data = encode_state(stepped(0.01).state)
    with pytest.raises(RecordError, match=r"state\.history\.t: has the shape"):
        restore_state(fresh(two_mass(2)), data)
    with pytest.raises(RecordError, match="damaged"):
        decode_state(data[:-5])


def test_every_field_of_a_step_input_is_recorded():
    """A new field needs a column (hilrt/record/signals.py) and its way back
    (hilrt/replay/recorded_steps.py).
    """
    assert {field.name for field in dataclasses.fields(StepInput)} == {
        "tick", "t", "elapsed", "y", "t_valid", "fresh", "y_mid", "dy", "realised", "busy",
        "late", "due", "reached", "covered", "clock_error", "has_middle", "regular", "apply",
        "missed", "learns", "rest", "rejoined", "event",
    }  # fmt: skip
