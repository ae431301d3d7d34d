"""What is sent: values as cantools reads them, each message at its own times."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import cantools
import pytest
from hypothesis import given, settings
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


CYCLIC: Any = cantools.database.load_string(
    """VERSION ""
BU_: Gateway Bench
BO_ 256 Demand: 2 Gateway
 SG_ Speed : 0|16@1+ (1,0) [0|65535] "rpm" Bench
BA_DEF_ BO_ "GenMsgCycleTime" INT 0 10000;
BA_DEF_DEF_ "GenMsgCycleTime" 0;
BA_ "GenMsgCycleTime" BO_ 256 20;
""",
    "dbc",
)


def sent_at_the_cycle(step_us: int, phase_us: int, jitter_us: list[int]) -> list[tuple[int, int]]:
    """Times [µs] of the frames of a message of 20 ms in 4 s, and of the set-point in each."""
    sender = Sender([find_signal(CYCLIC, "Demand.Speed", "t")], None, "")
    sender.due(0, [0.0], True, True)
    news = [
        phase_us + k * step_us + jitter_us[k % len(jitter_us)]
        for k in range((4_000_000 - phase_us) // step_us)
    ]
    news, found, now, newest = sorted(news, reverse=True), [], 0, 0
    while now < 4_000_000:
        wakes = now + math.ceil(max(sender.wait_ns(now * 1000), 1000) / 1000)
        new = bool(news) and news[-1] <= wakes
        now = news.pop() if new else wakes
        newest = now if new else newest
        if sender.due(now * 1000, [0.0], True, new):
            found.append((now, newest))
    return found


@settings(max_examples=60, deadline=None)
@given(
    step_ms=st.sampled_from([1, 2, 5, 7, 10, 13, 20, 40, 50, 100, 333]),
    phase_us=st.integers(1, 40_000),
    jitter_us=st.lists(st.integers(0, 400), min_size=1, max_size=5),
)
def test_the_cycle_of_the_database_is_kept_at_any_step(
    step_ms: int, phase_us: int, jitter_us: list[int]
) -> None:
    found = sent_at_the_cycle(1000 * step_ms, phase_us, jitter_us)
    settled = [t for t, _ in found if t > 500_000]
    gaps = [b - a for a, b in pairwise(settled)]
    assert min(gaps) >= 9_000
    assert max(gaps) <= 31_000
    period_us = (settled[-1] - settled[0]) / (len(settled) - 1)
    assert period_us == pytest.approx(20_000, rel=0.01)


def test_set_points_at_the_cycle_of_the_database_do_not_wait() -> None:
    """Whatever their phase: frames come to their times, and then each carries a new one."""
    for phase_us in range(500, 20_000, 1_500):
        found = sent_at_the_cycle(20_000, phase_us, [0, 300, 100])
        assert all(t == newest for t, newest in found if 200_000 < t < 3_900_000)


def test_frames_go_on_without_set_points() -> None:
    found = sent_at_the_cycle(3_900_000, 10_000, [0])
    assert len(found) == pytest.approx(4_000 / 20, abs=2)


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


@pytest.mark.parametrize(("step_ms", "between_ms"), [(1, 1), (7, 7), (10, 10), (100, 10)])
def test_a_message_without_a_cycle_goes_once_per_step_and_is_repeated_in_long_ones(
    step_ms: int, between_ms: int
) -> None:
    """The guardian moves its ramps every 2 ms, however long the step is."""
    sender = demand()
    sender.due(0, [1.0, 2.0], True, True)
    turns = range(MS, 1000 * MS + 1, MS)
    sent = [t for t in turns if sender.due(t, [1.0, 2.0], True, t % (step_ms * MS) == 0)]
    assert {after - before for before, after in pairwise([0, *sent])} == {between_ms * MS}
