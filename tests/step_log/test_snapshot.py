"""Snapshots of the step's state: nothing is left out, nothing is shared."""

import numpy as np
import pytest
from numpy.lib.recfunctions import rename_fields

from hilrt.errors import RecordError
from hilrt.step_log.snapshot import StateBytes
from hilrt.tables.record import as_bytes, blocks
from tests.step_log.test_signals import two_mass


def stepped(duration, order=1):
    s = two_mass(order)
    s.run(duration)
    return s


def test_every_byte_of_the_state_is_in_a_snapshot():
    s = stepped(0.01)
    memory = StateBytes(s.state)
    data = memory.encode()
    size = sum(block.nbytes for _, block in blocks(s.state))
    assert len(data) == len(memory.version) + size
    for _, block in blocks(s.state):
        if block.size:
            view = as_bytes(block)
            view[-1] ^= 1
            assert memory.encode() != data
            view[-1] ^= 1
    assert memory.encode() == data


def test_a_restored_state_is_the_same_and_shares_nothing():
    s = stepped(0.02)
    data = StateBytes(s.state).encode()
    state = two_mass(1).state
    memory = StateBytes(state)
    memory.restore(data)
    assert memory.encode() == data
    state.bonds["residual_energy"] += 1.0
    state.checks["ratio"][[0, 3]] = 7.0
    state.outputs["y_past"][2, 1] = 8.0
    assert StateBytes(s.state).encode() == data
    assert memory.differences(data, memory.encode()) == [
        "outputs[2].y_past",
        "bonds[0].residual_energy",
        "checks[0].ratio",
        "checks[3].ratio",
    ]


def test_what_follows_from_a_restored_state_is_the_same():
    s, other = stepped(0.02), two_mass(1)
    StateBytes(other.state).restore(StateBytes(s.state).encode())
    for (_, mine), (_, theirs) in zip(blocks(s.given), blocks(other.given), strict=True):
        as_bytes(theirs)[...] = as_bytes(mine)
    for numerics in (s.numerics, other.numerics):
        numerics.given.session["t"] += 1e-3
        numerics.given.session["tick"] += 1
        numerics.macro_step()
        numerics.assess()
    memory = StateBytes(s.state)
    assert memory.differences(memory.encode(), StateBytes(other.state).encode()) == []


def test_unknown_numbers_are_equal_whatever_their_bits_and_integers_are_no_numbers():
    s = stepped(0.01)
    memory = StateBytes(s.state)
    data = memory.encode()
    defect = s.state.outputs["defect"]
    assert np.isnan(defect[0])
    defect.view("i8")[0] ^= 1  # another NaN
    assert memory.differences(data, memory.encode()) == []
    count = s.state.outputs["count"]
    count[0] = -1  # the bits of a NaN
    before = memory.encode()
    count[0] = -2
    assert memory.differences(before, memory.encode()) == ["outputs[0].count"]
    zero = s.state.bonds["tracking"]
    zero[0] = 0.0
    before = memory.encode()
    zero[0] = -0.0
    assert memory.differences(before, memory.encode()) == ["bonds[0].tracking"]


def test_a_snapshot_of_another_layout_is_refused():
    s = stepped(0.01)
    memory = StateBytes(s.state)
    data = memory.encode()
    other = two_mass(1)
    assert StateBytes(other.state).version == memory.version
    session = rename_fields(other.state.session, {"error": "mistake"})
    renamed = other.state._replace(session=session)
    with pytest.raises(RecordError, match="recorded by another version: its decisions can be read"):
        StateBytes(renamed).restore(data)
    fewer = other.state._replace(outputs=other.state.outputs[:-1].copy())
    with pytest.raises(RecordError, match="another version"):
        StateBytes(fewer).restore(data)
    with pytest.raises(RecordError, match="another version"):
        memory.differences(b"\x81\xa5state\x80", data)
    with pytest.raises(RecordError, match="damaged"):
        memory.restore(data[:-5])
