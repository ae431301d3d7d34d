"""What is received: decoded as cantools does, and counted only if whole, new and fresh."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import cantools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.can.database import find_signal
from hilrt.can.frame import ERROR, EXTENDED, REMOTE, Frame
from hilrt.can.protection import MessageOptions
from hilrt.can.receiver import Receiver
from hilrt.can.sender import Sender
from tests.can.small_database import (
    INPUTS,
    PLAIN,
    REFS,
    REQUEST,
    STATE,
    Clock,
    fast,
    frame,
    slow,
)


def receiver(
    timeout: float = 0.02,
    clock: Callable[[], int] = time.monotonic_ns,
    options: dict[str, MessageOptions] | None = None,
) -> Receiver:
    own = Sender(INPUTS, REQUEST, "Alive").messages
    return Receiver(REFS, STATE, "Alive", timeout, own, clock, options)


@given(speed=st.floats(-5000, 5000), torque=st.floats(-600, 600), temp=st.floats(-40, 215))
def test_received_values_are_what_plain_cantools_reads(
    speed: float, torque: float, temp: float
) -> None:
    frames = [fast(0, speed, torque), slow(1, temp)]
    rx = receiver()
    assert rx.receive(frames)
    plain = PLAIN.get_message_by_name("Fast").decode(frames[0].data)
    assert rx.y[:2] == [plain["Speed"], plain["Torque"]]
    assert rx.y[2] == pytest.approx(temp, abs=0.501)
    assert rx.enabled
    assert rx.complete()


def test_counters_tell_lost_repeated_unknown_and_broken() -> None:
    rx = receiver()
    rx.receive([fast(14), fast(15), fast(2)])  # wraps, two lost
    rx.receive([fast(2, speed=99.0)])  # repeated: stale
    rx.receive([Frame(0x7FF, b"x"), Frame(0x200, b"")])  # foreign, own
    rx.receive([Frame(0x100, b"x"), Frame(EXTENDED | 0x100, bytes(8))])  # too short, foreign
    rx.receive([Frame(REMOTE | 0x100, b""), Frame(ERROR | 0x40, bytes(8))])
    expected = {"frames": 5, "unknown": 3, "decode_errors": 1, "repeated": 1, "lost": 2}
    assert {name: n for name, n in rx.counters.items() if n} == expected
    assert rx.error_frames == [Frame(ERROR | 0x40, bytes(8))]
    assert rx.y[0] == 1.0


def test_a_frozen_counter_looks_like_silence() -> None:
    rx = receiver()
    rx.receive([fast(1), slow(1)])
    now = rx.t_valid_ns[0]
    for _ in range(10):
        assert not rx.receive([fast(1)])
    ratio, text = rx.overdue(now + 35_000_000)
    assert ratio > 0.8
    assert text == "no new frame of Fast for 35 ms: received frames were rejected (10 repeated)"
    assert rx.receive([fast(2)])
    assert rx.overdue(rx.t_valid_ns[0] + 35_000_000)[1].endswith("for 35 ms: none arrived")


def test_overdue_follows_each_messages_own_pace() -> None:
    clock = Clock()
    rx = receiver(clock=clock)
    assert rx.overdue(0) == (math.inf, "Fast has never been received")
    assert rx.missing() == ["Fast (0x100)", "Slow (0x200)"]
    rx.receive([fast(0), slow(0)])
    now = rx.t_valid_ns[2]
    rx.receive([fast(1)])
    assert rx.overdue(now + 10_000_000)[0] < 1.0
    # Slow comes every 100 ms by the database: three of its cycles, not bench_timeout.
    for count in range(2, 31):
        clock.pass_(0.01)
        rx.receive([fast(count % 16)])
    assert rx.overdue(now + 290_000_000)[0] == pytest.approx(290 / 300)
    assert "Slow" in rx.overdue(now + 310_000_000)[1]


def test_times_come_from_the_frames_own_stamp_where_it_is_plausible() -> None:
    rx = receiver()
    rx.receive([frame("Fast", time.time_ns() - 250_000_000, Speed=0, Torque=0, Alive=0)])
    age = time.monotonic_ns() - rx.t_valid_ns[0]
    assert age >= 0.25e9
    for stamp in (0, time.time_ns() + 100 * 10**9):  # no stamp; another clock
        rx = receiver()
        before = time.monotonic_ns()
        rx.receive([frame("Fast", stamp, Speed=0, Torque=0, Alive=0)])
        assert before <= rx.t_valid_ns[0] <= time.monotonic_ns()


def test_a_bench_without_an_enable_state_counts_as_enabled() -> None:
    assert Receiver(REFS, None, "Alive", 0.02).enabled
    assert not receiver().enabled


def test_multiplexed_signals_are_received_when_they_come() -> None:
    refs = {
        name: find_signal(PLAIN, f"Switched.{signal}", "t")
        for name, signal in (("a", "First"), ("b", "Second"))
    }
    rx = Receiver(refs, None, "Alive", 0.02)
    rx.receive([frame("Switched", Which=0, First=7)])
    assert not rx.complete()
    rx.receive([frame("Switched", Which=1, Second=9)])
    assert rx.y == [7.0, 9.0]
    assert rx.complete()


def feed(rx: Receiver, clock: Clock, counts: range, pause: float = 0.01) -> list[bool]:
    """Frames of Fast, each after a pause; whether each one was taken."""
    taken = []
    for count in counts:
        clock.pass_(pause)
        taken.append(rx.receive([fast(count % 16, speed=float(count))]))
    return taken


def test_a_burst_after_a_stall_is_not_fresh() -> None:
    clock = Clock()
    rx = receiver(clock=clock)
    rx.receive([slow(1)])
    assert all(feed(rx, clock, range(10)))
    clock.pass_(0.2)  # the interface holds twenty frames, then lets them go
    seen = rx.t_valid_ns[0]
    assert not any(feed(rx, clock, range(10, 30), pause=0.0002))
    assert rx.y[0] == 9.0
    assert rx.t_valid_ns[0] == seen
    assert rx.overdue(clock.now)[0] > 1.0
    assert all(feed(rx, clock, range(30, 35)))  # at its pace again
    assert rx.y[0] == 34.0
    assert rx.counters["held_up"] == rx.stats["Fast"].held_up == 20


def test_frames_read_late_are_as_old_as_the_kernel_says() -> None:
    """A gateway that was stopped for 5 s reads frames that came in time, and are old now."""
    clock = Clock()
    rx = Receiver(REFS, None, "Alive", 0.02, clock=clock, system_clock=True)
    real = time.time_ns()
    rx.receive(
        [frame("Fast", real - (500 - k) * 10**7, Speed=1, Torque=0, Alive=k) for k in range(10)]
    )
    assert clock.now - rx.t_valid_ns[0] >= 4_900_000_000
    assert rx.counters["held_up"] == 0


def test_a_sender_that_starts_anew_is_taken_from_its_second_frame_on() -> None:
    clock = Clock()
    rx = receiver(clock=clock)
    feed(rx, clock, range(13))  # newest counter: 12
    assert feed(rx, clock, range(5, 8)) == [False, True, True]
    assert rx.counters["out_of_order"] == 1


def test_max_lost_bounds_what_counts_as_loss() -> None:
    clock = Clock()
    rx = receiver(clock=clock, options={"Fast": MessageOptions(max_lost=2)})
    feed(rx, clock, range(1))
    assert feed(rx, clock, range(3, 4)) == [True]  # two lost
    assert feed(rx, clock, range(7, 8)) == [False]  # three: too many
    assert (rx.counters["lost"], rx.counters["out_of_order"]) == (2, 1)


def test_who_is_hardly_let_run_excuses_no_dead_bench() -> None:
    clock = Clock()
    rx = receiver(clock=clock)
    rx.receive([fast(0), slow(0)])

    def absent(times: int) -> float:
        for _ in range(times):
            clock.pass_(0.04)
            rx.leave_out(clock.now, 40_000_000)
        return rx.overdue(clock.now)[0]

    assert absent(20) < 0.1
    assert absent(80) > 5.0  # nothing has come for 4 s
    for count in (1, 2):  # the first one after a silence is not trusted
        clock.pass_(0.1)
        rx.receive([fast(count), slow(1)])
    assert absent(20) < 0.1


def test_timeouts_and_counters_per_message() -> None:
    clock = Clock()
    rx = receiver(clock=clock, options={"Fast": MessageOptions(timeout=0.5, counter="")})
    rx.receive([fast(3), fast(3), slow(1)])
    assert rx.counters["repeated"] == 0
    assert rx.overdue(clock.now + 250_000_000)[0] == pytest.approx(250 / 300)  # Slow


def test_cycle_times_are_measured() -> None:
    clock = Clock()
    rx = receiver(clock=clock)
    feed(rx, clock, range(100))
    feed(rx, clock, range(100, 101), pause=0.012)
    stats = rx.stats["Fast"]
    assert stats.shortest == pytest.approx(0.01)
    assert stats.longest == pytest.approx(0.012)
    assert stats.mean == pytest.approx(0.01, rel=0.01)


@given(data=st.binary(max_size=64), can_id=st.integers(0, 2**32 - 1), t=st.integers(0, 2**63))
def test_no_frame_crashes_the_receiver(data: bytes, can_id: int, t: int) -> None:
    rx = receiver()
    rx.receive([Frame(can_id, data, t), Frame(0x100, data, t), Frame(EXTENDED | 0x200, data, t)])
    assert all(math.isnan(y) or math.isfinite(y) for y in rx.y)


J1939 = """VERSION ""
BU_: Engine Gateway
BO_ 2364540158 EEC1: 8 Engine
 SG_ EngineSpeed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" Gateway
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_ "VFrameFormat" BO_ 2364540158 3;
"""


def test_what_j1939_marks_as_not_available_reaches_no_port() -> None:
    """And the message gets older, as if nothing had come."""
    database = cantools.database.load_string(J1939, "dbc")
    clock = Clock()
    refs = {"speed": find_signal(database, "EEC1.EngineSpeed", "t")}
    rx = Receiver(refs, None, "", 0.02, clock=clock)

    def told(*data: int) -> bool:
        clock.pass_(0.01)
        return rx.receive([Frame(EXTENDED | 0x0CF00400, bytes(3) + bytes(data) + bytes(3))])

    assert not told(0xFF, 0xFF)
    assert rx.missing() == ["EEC1 (0xCF004FE): 1 frames, 1 not available"]
    assert told(0x40, 0x1F)
    assert rx.y == [1000.0]
    for _ in range(4):
        assert not told(0x00, 0xFE)
    assert rx.y == [1000.0]
    assert rx.overdue(clock())[0] == pytest.approx(2.0)
    assert rx.counters["not_available"] == rx.stats["EEC1"].not_available == 5
    assert rx.report() == "EEC1: 6 frames every 10.00 ms (10.00 to 10.00), 5 not available"


SHARED = J1939.replace("BO_ 2364540158 EEC1", "BO_ 2565799937 Mine").replace(
    "BA_DEF_ BO_",
    """BO_ 2565799938 Other: 8 Engine
 SG_ Oil : 24|16@1+ (1,0) [0|0] "" Gateway
BA_DEF_ BO_""",
)
SHARED = SHARED.replace(
    'BA_ "VFrameFormat" BO_ 2364540158 3;', 'BA_DEF_DEF_ "VFrameFormat" "J1939PG";'
)


def test_a_frame_of_another_message_of_the_group_is_no_measurement() -> None:
    """0x18EF0001 and 0x18EF0002 share a parameter group; one of them is listened to."""
    database = cantools.database.load_string(SHARED, "dbc")
    rx = Receiver({"speed": find_signal(database, "Mine.EngineSpeed", "t")}, None, "", 0.02)
    data = bytes(3) + b"\x40\x1f" + bytes(3)
    assert not rx.receive([Frame(EXTENDED | 0x18EF0002, data)])
    assert not rx.receive([Frame(EXTENDED | 0x18EF0033, data)])
    assert rx.counters["unknown"] == 2
    assert rx.missing() == [
        "Mine (0x18EF0001): frames 0x18EF0033 may be Mine or Other; messages.Mine.source selects "
        "their sender"
    ]
    assert rx.receive([Frame(EXTENDED | 0x0CEF0001, data)])
    assert rx.y == [1000.0]
