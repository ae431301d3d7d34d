"""CAN codec against plain cantools, and the supervision of what is received."""

from __future__ import annotations

import math
import time
from pathlib import Path

import can
import cantools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.errors import ConfigError
from hilrt_adapters.can import (
    Receiver,
    Sender,
    SignalRef,
    find_signal,
    inward,
    load_database,
    representable,
)

DBC = """VERSION ""
BU_: Bench Gateway
BO_ 256 Fast: 8 Bench
 SG_ Speed : 0|20@1- (0.01,0) [0|0] "rad/s" Gateway
 SG_ Torque : 39|16@0- (0.02,5) [0|0] "N*m" Gateway
 SG_ Alive : 56|4@1+ (1,0) [0|15] "" Gateway
BO_ 2147484160 Slow: 8 Bench
 SG_ Enabled : 0|1@1+ (1,0) [0|1] "" Gateway
 SG_ Temp : 8|8@1+ (1,-40) [-40|215] "degC" Gateway
BO_ 512 Demand: 8 Gateway
 SG_ Speed : 0|20@1- (0.01,0) [0|0] "rad/s" Bench
 SG_ Pedal : 20|12@1+ (0.1,-5) [0|100] "%" Bench
 SG_ Enable : 32|1@1+ (1,0) [0|1] "" Bench
 SG_ Mode : 40|3@1+ (1,0) [0|7] "" Bench
 SG_ Alive : 56|4@1+ (1,0) [0|15] "" Bench
BO_ 768 Switched: 8 Bench
 SG_ Which M : 0|2@1+ (1,0) [0|3] "" Gateway
 SG_ First m0 : 8|8@1+ (1,0) [0|255] "" Gateway
 SG_ Second m1 : 8|8@1+ (1,0) [0|255] "" Gateway
BA_DEF_ SG_ "GenSigStartValue" FLOAT 0 100000;
BA_DEF_ BO_ "GenMsgCycleTime" INT 0 10000;
BA_DEF_DEF_ "GenSigStartValue" 0;
BA_DEF_DEF_ "GenMsgCycleTime" 0;
BA_ "GenSigStartValue" SG_ 512 Mode 3;
BA_ "GenMsgCycleTime" BO_ 2147484160 100;
"""
PLAIN = cantools.database.load_string(DBC, "dbc", strict=False)
REFS = {
    "speed": find_signal(PLAIN, "Fast.Speed", "t"),
    "torque": find_signal(PLAIN, "Fast.Torque", "t"),
    "temp": find_signal(PLAIN, "Slow.Temp", "t"),
}
STATE = find_signal(PLAIN, "Slow.Enabled", "t")
INPUTS = [find_signal(PLAIN, f"Demand.{name}", "t") for name in ("Pedal", "Speed")]
REQUEST = find_signal(PLAIN, "Demand.Enable", "t")


def receiver(timeout: float = 0.02) -> Receiver:
    own = Sender(INPUTS, REQUEST, "Alive").messages
    return Receiver(REFS, STATE, "Alive", timeout, own)


def frame(name: str, timestamp: float | None = None, **values: float) -> can.Message:
    message = PLAIN.get_message_by_name(name)
    return can.Message(
        arbitration_id=message.frame_id,
        is_extended_id=message.is_extended_frame,
        data=message.encode(values, strict=False),
        timestamp=time.time() if timestamp is None else timestamp,
    )


def fast(count: int, speed: float = 1.0, torque: float = 0.0) -> can.Message:
    return frame("Fast", Speed=speed, Torque=torque, Alive=count)


def slow(enabled: int, temp: float = 20.0) -> can.Message:
    return frame("Slow", Enabled=enabled, Temp=temp)


@given(
    u=st.tuples(st.floats(-5.0, 400.0), st.floats(-5000.0, 5000.0)),
    enable=st.booleans(),
)
def test_sent_frames_are_what_plain_cantools_reads(u: tuple[float, float], enable: bool) -> None:
    sender = Sender(INPUTS, REQUEST, "Alive")
    for count in range(20):
        (sent,) = sender.frames(u, enable)
        values = PLAIN.decode_message(sent.arbitration_id, sent.data)
        assert values["Pedal"] == pytest.approx(u[0], abs=0.0501)
        assert values["Speed"] == pytest.approx(u[1], abs=0.00501)
        assert values["Enable"] == enable
        assert values["Alive"] == count % 16
        assert values["Mode"] == 3  # nobody drives it: its start value


@given(speed=st.floats(-5000, 5000), torque=st.floats(-600, 600), temp=st.floats(-40, 215))
def test_received_values_are_what_plain_cantools_reads(
    speed: float, torque: float, temp: float
) -> None:
    frames = [fast(0, speed, torque), slow(1, temp)]
    rx = receiver()
    assert rx.take(frames)
    plain = PLAIN.get_message_by_name("Fast").decode(frames[0].data)
    assert rx.y[:2] == [plain["Speed"], plain["Torque"]]
    assert rx.y[2] == pytest.approx(temp, abs=0.501)
    assert rx.enabled
    assert rx.complete()


def test_counters_tell_lost_repeated_unknown_and_broken() -> None:
    rx = receiver()
    rx.take([fast(14), fast(15), fast(2)])  # wraps, two lost
    rx.take([fast(2, speed=99.0)])  # repeated: stale
    rx.take([can.Message(arbitration_id=0x7FF, data=b"x", is_extended_id=False)])
    rx.take([can.Message(arbitration_id=0x200, data=b"", is_extended_id=False)])  # own
    rx.take([can.Message(arbitration_id=0x100, data=b"x", is_extended_id=False)])  # too short
    rx.take([can.Message(arbitration_id=0x100, data=bytes(8), is_extended_id=True)])
    assert rx.counters == {
        "frames": 5,
        "unknown": 2,
        "decode_errors": 1,
        "repeated": 1,
        "lost": 2,
    }
    assert rx.y[0] == 1.0


def test_a_frozen_counter_looks_like_silence() -> None:
    rx = receiver()
    rx.take([fast(1), slow(1)])
    now = rx.t_valid_ns[0]
    for _ in range(10):
        assert not rx.take([fast(1)])
    ratio, text = rx.overdue(now + 25_000_000)
    assert ratio > 1.2
    assert text.startswith("no new frame of Fast for 25 ms")


def test_overdue_follows_each_messages_own_pace() -> None:
    rx = receiver()
    assert rx.overdue(0) == (math.inf, "Fast has never been received")
    assert rx.missing() == ["Fast (0x100)", "Slow (0x200)"]
    rx.take([fast(0), slow(0)])
    now = rx.t_valid_ns[2]
    rx.take([fast(1)])
    assert rx.overdue(now + 10_000_000)[0] < 1.0
    # Slow comes every 100 ms by the database: three of its cycles, not bench_timeout.
    rx._received[0x100].seen_ns = now + 290_000_000
    assert rx.overdue(now + 290_000_000)[0] == pytest.approx(290 / 300)
    assert "Slow" in rx.overdue(now + 310_000_000)[1]


def test_times_come_from_the_frames_own_stamp_where_it_is_plausible() -> None:
    rx = receiver()
    rx.take([frame("Fast", time.time() - 0.25, Speed=0, Torque=0, Alive=0)])
    age = time.monotonic_ns() - rx.t_valid_ns[0]
    assert age >= 0.25e9
    for stamp in (0.0, time.time() + 100.0):  # no stamp; another clock
        rx = receiver()
        before = time.monotonic_ns()
        rx.take([frame("Fast", stamp, Speed=0, Torque=0, Alive=0)])
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
    rx.take([frame("Switched", Which=0, First=7)])
    assert not rx.complete()
    rx.take([frame("Switched", Which=1, Second=9)])
    assert rx.y == [7.0, 9.0]
    assert rx.complete()


def test_multiplexed_messages_are_not_sent() -> None:
    with pytest.raises(ConfigError, match="Switched is multiplexed"):
        Sender([find_signal(PLAIN, "Switched.First", "t")], None, "Alive")


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("Fast", "write it as Message.Signal"),
        ("Fats.Speed", "did you mean 'Fast'"),
        ("Fast.Spede", "did you mean 'Speed'"),
    ],
)
def test_unknown_signals_name_the_nearest(ref: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        find_signal(PLAIN, ref, "[subsystems.engine] outputs.speed")


def test_databases_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"t: .*nowhere\.dbc cannot be read: No such file"):
        load_database(tmp_path / "nowhere.dbc", "t")
    bad = tmp_path / "bad.dbc"
    bad.write_text("this is no database")
    with pytest.raises(ConfigError, match=r"bad\.dbc is not a CAN database: .*export it again"):
        load_database(bad, "t")
    good = tmp_path / "good.dbc"
    good.write_text(DBC)
    assert {m.name for m in load_database(good, "t").messages} >= {"Fast", "Slow"}


def test_units_that_the_database_does_not_state_are_unstated() -> None:
    assert find_signal(PLAIN, "Fast.Alive", "t").unit == "?"
    assert REFS["speed"].unit == "rad/s"


def test_what_the_bits_carry() -> None:
    assert representable(INPUTS[0].signal) == pytest.approx((-5.0, 404.5))
    assert representable(INPUTS[1].signal) == pytest.approx((-5242.88, 5242.87))


@given(low=st.floats(-5.0, 100.0), width=st.floats(0.5, 300.0))
def test_bounds_moved_inward_survive_the_rounding(low: float, width: float) -> None:
    ref: SignalRef = INPUTS[0]
    bounds = inward(ref.signal, low, low + width)
    for bound in bounds:
        raw = ref.signal.scaled_to_raw(bound)
        sent = ref.signal.raw_to_scaled(round(raw))
        assert low - 1e-6 <= sent <= low + width + 1e-6
    assert bounds[0] - low <= 0.1
    assert low + width - bounds[1] <= 0.1001
