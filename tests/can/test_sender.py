"""What is sent: values as cantools reads them, each message at its own times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.can.database import find_signal
from hilrt.can.frame import Frame
from hilrt.can.protection import MessageOptions
from hilrt.can.sender import Sender
from tests.can.small_database import INPUTS, PLAIN, REQUEST

MS = 1_000_000


def read(frame: Frame) -> dict[str, Any]:
    values: Any = PLAIN.decode_message(frame.can_id, frame.data)
    return values


@given(
    u=st.tuples(st.floats(-5.0, 400.0), st.floats(-5000.0, 5000.0)),
    enable=st.booleans(),
)
def test_sent_frames_are_what_plain_cantools_reads(u: tuple[float, float], enable: bool) -> None:
    sender = Sender(INPUTS, REQUEST, "Alive")
    for count in range(20):
        (sent,) = sender.frames(u, enable)
        values = PLAIN.decode_message(sent.can_id, sent.data)
        assert values["Pedal"] == pytest.approx(u[0], abs=0.0501)
        assert values["Speed"] == pytest.approx(u[1], abs=0.00501)
        assert values["Enable"] == enable
        assert values["Alive"] == count % 16
        assert values["Mode"] == 3  # nobody drives it: its start value


def test_a_multiplexed_demand_selects_its_form() -> None:
    refs = [find_signal(PLAIN, f"Switched.{name}", "t") for name in ("Second", "First")]
    sender = Sender(refs, None, "Alive")
    frames = sender.frames([9.0, 7.0], True)
    assert [read(frame) for frame in frames] == [
        {"Which": 1, "Second": 9},
        {"Which": 0, "First": 7},
    ]


def demand(**options: Any) -> Sender:
    return Sender(INPUTS, REQUEST, "Alive", {"Demand": MessageOptions(**options)})


def times(sender: Sender, u: Any, until: int) -> list[int]:
    """Times [ms] at which something is sent, asked every ms; set-points are new each time."""
    sender.due(0, u(0), True, True)  # the enable request goes out at once
    return [t for t in range(1, until) if sender.due(t * MS, u(t), True, True)]


def test_messages_go_out_at_their_times() -> None:
    still = [1.0, 2.0]
    assert times(demand(), lambda t: still, 5) == [1, 2, 3, 4]
    cyclic = demand(send="cyclic", cycle=0.01, phase=0.003)
    assert times(cyclic, lambda t: still, 40) == [3, 13, 23, 33]
    assert times(demand(send="change"), lambda t: still, 20) == [1]
    steps = times(demand(send="change"), lambda t: [float(t // 10), 2.0], 40)
    assert steps == [1, 10, 20, 30]
    beat = times(demand(send="change", cycle=0.015), lambda t: still, 40)
    assert beat == [1, 16, 31]


def test_the_loop_is_told_when_a_cyclic_message_is_due() -> None:
    sender = demand(send="cyclic", cycle=0.01, phase=0.003)
    sender.due(0, [1.0, 2.0], True, True)
    assert sender.wait_ns(1 * MS) == 2 * MS
    assert demand().wait_ns(0) == float("inf")


def test_the_enable_request_does_not_wait_for_its_turn() -> None:
    sender = demand(send="cyclic", cycle=10.0)
    sender.due(0, [1.0, 2.0], True, True)
    assert sender.due(1 * MS, [1.0, 2.0], True, True) == []
    (frame,) = sender.due(2 * MS, [1.0, 2.0], False, False)
    assert read(frame)["Enable"] == 0


def test_constant_values_and_the_last_frame() -> None:
    sender = demand(values={"Mode": 5.0}, last={"Mode": 1.0, "Pedal": 0.0})
    (frame,) = sender.frames([50.0, 2.0], True)
    assert read(frame)["Mode"] == 5
    (last,) = sender.last([50.0, 2.0])
    values = read(last)
    assert (values["Mode"], values["Enable"]) == (1, 0)
    assert values["Pedal"] == pytest.approx(0.0, abs=0.051)
    assert values["Alive"] == 1
    assert demand().last([50.0, 2.0]) == []
