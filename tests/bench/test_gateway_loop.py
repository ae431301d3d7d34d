"""The gateway's loop, pass by pass: a scripted master, a scripted bench, and a clock to turn."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import can
import cantools
import numpy as np
import pytest

from hilrt.bench import gateway_process, master_dialogue
from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.gateway_process import Gateway
from hilrt.bench.guard_states import NS, GuardState, Notice
from hilrt.bench.guardian import SILENCE_FACTOR
from hilrt.bench.read_bench import Bench, read_bench
from hilrt.can.bus_faults import BusOffRecovery
from hilrt.can.frame import ERROR, Frame
from hilrt.config.from_toml import build
from hilrt.peers import wire
from hilrt.record import frame_feed
from hilrt.timing import realtime
from hilrt.timing.realtime import request_usual_slice

MS = NS // 1000
DBC = """VERSION ""
BU_: Bench Gateway
BO_ 256 Fast: 8 Bench
 SG_ Speed : 0|24@1- (0.001,0) [0|0] "rad/s" Gateway
 SG_ Torque : 40|16@1- (0.02,0) [0|0] "N*m" Gateway
 SG_ Alive : 56|8@1+ (1,0) [0|255] "" Gateway
BO_ 272 Slow: 8 Bench
 SG_ Enabled : 0|1@1+ (1,0) [0|1] "" Gateway
BO_ 128 DynoDemand: 8 Gateway
 SG_ Speed : 0|24@1+ (0.0001,0) [0|650] "rad/s" Bench
 SG_ Enable : 24|1@1+ (1,0) [0|1] "" Bench
 SG_ Alive : 56|8@1+ (1,0) [0|255] "" Bench
BO_ 129 EngineDemand: 8 Gateway
 SG_ Pedal : 0|16@1+ (0.002,0) [0|100] "%" Bench
 SG_ Alive : 56|8@1+ (1,0) [0|255] "" Bench
"""
PLAIN = cantools.database.load_string(DBC, "dbc")
TABLE: dict[str, Any] = {
    "adapter": "can",
    "bus": {"interface": "virtual"},
    "database": "bench.dbc",
    "enable": {"request": "DynoDemand.Enable", "state": "Slow.Enabled"},
    "outputs": {"torque": "Fast.Torque", "speed": "Fast.Speed"},
    "safe_profile": {"order": ["pedal", "speed_demand"]},
    "inputs": {
        "speed_demand": {
            "signal": "DynoDemand.Speed",
            "realised": "speed",
            "min": 0.0,
            "max": 650.0,
            "max_rate": 800.0,
            "safe": 0.0,
        },
        "pedal": {
            "signal": "EngineDemand.Pedal",
            "min": 0.0,
            "max": 100.0,
            "max_rate": 500.0,
            "safe": 0.0,
        },
    },
}


class ScriptedPeer:
    """The master's side: what it sends next, and everything it was sent."""

    def __init__(self) -> None:
        self.transport = SimpleNamespace(broken=False)
        self.inbox: list[wire.FromMaster] = []
        self.sent: list[wire.Message] = []

    def receive(self, within_ns: int | None = None) -> list[wire.FromMaster]:
        messages, self.inbox = self.inbox, []
        return messages

    def send(self, message: wire.Message) -> bool:
        self.sent.append(message)
        return True

    def all(self, kind: type[wire.Message]) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kind)]


class ScriptedBus:
    """A bench that follows its demands at once, and the frames it was sent."""

    def __init__(self) -> None:
        self.errors = 0
        self.system_clock = True
        self.down = False
        self.revived = 0
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self.speed = 0.0
        self.enabled = 0.0
        self.obeys = True
        self.publishes = True
        self.fails: Exception | None = None
        self.restarts = 0
        self.refuses: OSError | None = None
        self.count = 0

    def drain(self) -> list[Frame]:
        if not self.publishes:
            return []
        self.count += 1
        fast = {"Speed": self.speed, "Torque": 12.0, "Alive": self.count % 256}
        return [_frame("Fast", fast), _frame("Slow", {"Enabled": self.enabled})]

    def send(self, frame: Frame) -> None:
        if self.fails is not None:
            raise self.fails
        message = PLAIN.get_message_by_frame_id(frame.can_id)
        values: Any = message.decode(bytes(frame.data))
        self.frames.append((message.name, values))
        if message.name == "DynoDemand" and self.obeys:
            self.speed, self.enabled = values["Speed"], values["Enable"]

    def revive(self) -> bool:
        self.revived += 1
        return False

    def bus_off(self) -> bool | None:
        return None

    def restart(self) -> bool:
        if self.refuses is not None:
            raise self.refuses
        self.restarts += 1
        return True

    def last(self, name: str) -> dict[str, Any]:
        return next(values for n, values in reversed(self.frames) if n == name)


def _frame(name: str, values: dict[str, float]) -> Frame:
    message = PLAIN.get_message_by_name(name)
    data = message.encode(cast(Any, values), strict=False)
    return Frame(message.frame_id, data)


class Rig:
    """A gateway between the two."""

    def __init__(
        self,
        bench: Bench,
        parent: int | None = None,
        frames: Any = None,
        bus: ScriptedBus | None = None,
    ) -> None:
        self.peer, self.bus = ScriptedPeer(), bus or ScriptedBus()
        self.now = time.monotonic_ns()
        ends = cast(Any, self.bus), cast(Any, self.peer)
        self.gateway = Gateway(bench, *ends, 2.0, parent, lambda: self.now, frames)
        self.tick = 0

    def cycles(self, count: int, master: bool = True) -> None:
        """One pass every millisecond; the master's heartbeats unless it is silent."""
        for _ in range(count):
            self.now += MS
            if master:
                self.peer.inbox.append(wire.Heartbeat(sent_ns=1))
            self.gateway.cycle()

    def say(self, message: wire.FromMaster) -> None:
        self.peer.inbox.append(message)
        self.cycles(1)

    def drive(self, count: int, speed: float, pedal: float) -> None:
        for _ in range(count):
            c = np.array([[speed, pedal], [5.0, 5.0]])
            self.say(wire.SetPoints(tick=self.tick, t=0.1, h=1e-3, coefficients=wire.pack(c)))
            self.tick += 1

    def arm(self, speed: float = 100.0, pedal: float = 20.0) -> None:
        self.cycles(2)  # the bench has been heard
        self.say(wire.Arm(u0=wire.pack(np.array([speed, pedal]))))
        self.cycles(800)
        assert self.peer.all(wire.Armed)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "bench.dbc").write_text(DBC)
    options = build(BenchOptions, TABLE, "subsystems.engine", [])
    assert options is not None
    return read_bench("engine", options, tmp_path)


@pytest.fixture
def rig(bench: Bench) -> Rig:
    return Rig(bench)


def test_initialize_answers_with_the_first_complete_values(rig: Rig) -> None:
    rig.bus.publishes = False
    rig.say(wire.Initialize(t0=0.0, u0=wire.pack(np.zeros(2))))
    rig.cycles(100)
    assert not rig.peer.all(wire.Initialized)
    rig.bus.publishes = True
    rig.cycles(1)
    (answer,) = rig.peer.all(wire.Initialized)
    assert wire.unpack(answer.y, 2).tolist() == [12.0, 0.0]


def test_initialize_of_a_bench_that_is_off_names_what_is_missing(rig: Rig) -> None:
    rig.bus.publishes = False
    rig.say(wire.Initialize(t0=0.0, u0=wire.pack(np.zeros(2))))
    rig.now += int(master_dialogue.FIRST_FRAMES_TIMEOUT * NS)
    rig.cycles(1)
    (error,) = rig.peer.all(wire.Error)
    assert "Fast (0x100), Slow (0x110)" in error.text
    assert rig.bus.frames == []


TEMPS = """BO_ 274 EngineTemps: 8 Bench
 SG_ Page M : 0|8@1+ (1,0) [0|0] "" Gateway
 SG_ Oil m1 : 8|8@1+ (1,0) [0|0] "degC" Gateway
 SG_ Water m2 : 8|8@1+ (1,0) [0|0] "degC" Gateway
"""


class PagingBus(ScriptedBus):
    """Sends a multiplexed message, too, whose forms take turns."""

    def __init__(self, *pages: int) -> None:
        super().__init__()
        self.pages = pages

    def drain(self) -> list[Frame]:
        page = self.pages[self.count % len(self.pages)]
        return [*super().drain(), Frame(274, bytes([page, 80, *bytes(6)]))]


def paging_rig(folder: Path, *pages: int) -> tuple[Rig, PagingBus]:
    (folder / "bench.dbc").write_text(DBC + TEMPS)
    outputs = {**TABLE["outputs"], "oil": "EngineTemps.Oil", "water": "EngineTemps.Water"}
    options = build(BenchOptions, {**TABLE, "outputs": outputs}, "subsystems.engine", [])
    assert options is not None
    bus = PagingBus(*pages)
    return Rig(read_bench("engine", options, folder), bus=bus), bus


def test_initialize_names_the_form_of_a_message_that_never_comes(tmp_path: Path) -> None:
    rig, _ = paging_rig(tmp_path, 1)
    rig.say(wire.Initialize(t0=0.0, u0=wire.pack(np.zeros(2))))
    rig.now += int(master_dialogue.FIRST_FRAMES_TIMEOUT * NS)
    rig.cycles(1)
    (error,) = rig.peer.all(wire.Error)
    missing, _, remedy = error.text.partition("; ")
    assert missing == (
        "not received within 10 s: EngineTemps with Page = 2 (0x112), which carries Water"
    )
    assert "remove their outputs" in remedy
    assert "bit rate" not in remedy


def test_a_form_that_stays_away_ends_as_a_message_that_does(tmp_path: Path) -> None:
    rig, bus = paging_rig(tmp_path, 1, 2)
    rig.arm()
    rig.drive(10, 100.0, 20.0)
    bus.pages = (1,)
    rig.drive(50, 100.0, 20.0)
    (event,) = rig.peer.all(wire.Event)
    assert event.cause == "bench_silent"
    assert "the bench is late: no new frame of EngineTemps with Page = 2 for" in event.text
    rig.drive(500, 100.0, 20.0)
    assert rig.gateway.guardian.state is GuardState.SECURED
    assert "EngineTemps with Page = 2" in rig.peer.all(wire.Secured)[0].reason


def test_set_points_are_forwarded_with_counter_and_request(rig: Rig) -> None:
    rig.arm()
    rig.bus.frames.clear()
    rig.drive(3, 100.0, 20.0)
    demands = [values for name, values in rig.bus.frames if name == "DynoDemand"]
    assert len(demands) == 3
    first = demands[0]["Alive"]
    assert [d["Alive"] for d in demands] == [(first + i) % 256 for i in range(3)]
    assert [d["Speed"] for d in demands] == [100.0] * 3  # the value at t
    assert all(d["Enable"] == 1 for d in demands)
    assert rig.bus.last("EngineDemand")["Pedal"] == 20.0
    assert rig.peer.all(wire.Measurements)[-1].tick == 2


def test_measurements_carry_values_times_and_counters(rig: Rig) -> None:
    rig.arm(speed=50.0)
    newest = rig.peer.all(wire.Measurements)[-1]
    assert wire.unpack(newest.y, 2).tolist() == [12.0, 50.0]
    realised = wire.unpack(newest.realised, 2)
    assert realised[0] == 50.0
    assert np.isnan(realised[1])
    assert len(newest.t_valid_ns) == 2
    seqs = [m.seq for m in rig.peer.all(wire.Measurements)]
    assert seqs == list(range(len(seqs)))
    counters = [m.counters for m in rig.peer.all(wire.Measurements) if m.counters]
    assert counters[-1]["frames"] > counters[0]["frames"]
    assert counters[-1]["lost"] == 0


def test_a_master_that_is_gone_gets_no_measurements(rig: Rig) -> None:
    rig.cycles(10)
    rig.cycles(2000, master=False)
    before = len(rig.peer.all(wire.Measurements))
    rig.cycles(100, master=False)
    assert len(rig.peer.all(wire.Measurements)) == before
    rig.cycles(10)
    assert len(rig.peer.all(wire.Measurements)) > before


def test_a_silent_master_finds_the_bench_secured_and_late_set_points_refused(rig: Rig) -> None:
    rig.arm()
    rig.drive(50, 100.0, 20.0)
    rig.cycles(1000, master=False)
    assert rig.gateway.guardian.state is GuardState.SECURED
    assert rig.bus.last("DynoDemand") == pytest.approx(
        {"Speed": 0.0, "Enable": 0, "Alive": rig.bus.last("DynoDemand")["Alive"]}
    )
    (secured,) = rig.peer.all(wire.Secured)
    assert "has not advanced" in secured.reason
    assert secured.complete
    rig.bus.frames.clear()
    rig.drive(100, 100.0, 20.0)
    assert rig.bus.frames == []
    again = rig.peer.all(wire.Secured)[1:]
    assert 2 <= len(again) <= 6  # now and then, not a hundred times
    assert {s.reason for s in again} == {secured.reason}


def test_a_bench_that_its_gateway_secured_is_not_armed_again(rig: Rig) -> None:
    rig.arm()
    rig.bus.obeys, rig.bus.enabled, rig.bus.speed = False, 0.0, 0.0  # its interlock opens
    rig.cycles(500)
    assert rig.gateway.guardian.state is GuardState.SECURED
    rig.bus.frames.clear()
    rig.bus.obeys = True
    rig.say(wire.Arm(u0=wire.pack(np.array([100.0, 20.0]))))
    rig.cycles(800)
    assert rig.bus.frames == []
    assert len(rig.peer.all(wire.Armed)) == 1  # the first time
    first, again = rig.peer.all(wire.Secured)
    assert "withdrew its enable" in first.reason
    assert again == first


def test_what_is_gone_for_good_keeps_no_processor_busy(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a connection makes its descriptor readable for ever."""
    slept: list[float] = []
    monkeypatch.setattr("hilrt.bench.gateway_process.time.sleep", slept.append)
    ours, masters = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, masters:
        masters.close()
        rig.peer.transport.broken = False
        assert rig.gateway.wait(ours.fileno(), ours.fileno())
        rig.peer.transport.broken, rig.bus.down = True, True
        assert rig.gateway.wait(ours.fileno(), ours.fileno()) == []
    assert len(slept) == 1
    assert 0.0 < slept[0] <= 0.02


def test_safe_and_stop_run_the_profile(rig: Rig) -> None:
    rig.arm()
    rig.drive(10, 100.0, 20.0)
    rig.say(wire.Safe(reason="operator"))
    rig.cycles(500)
    (secured,) = rig.peer.all(wire.Secured)
    assert secured.reason == "operator"
    assert not rig.gateway.ended
    rig.say(wire.Stop(reason="finished"))
    assert rig.gateway.ended


def test_a_bench_that_falls_silent_is_secured_blind(rig: Rig) -> None:
    rig.arm()
    rig.drive(10, 100.0, 20.0)
    rig.bus.publishes = False
    rig.drive(30, 100.0, 20.0)
    events = [e.cause for e in rig.peer.all(wire.Event)]
    assert events == ["bench_silent"]
    rig.drive(500, 100.0, 20.0)
    assert rig.gateway.guardian.state is GuardState.SECURED
    assert "Fast" in rig.peer.all(wire.Secured)[0].reason


@pytest.mark.parametrize(
    ("step", "cause", "refused"),
    [(0, "can_stale", "repeated"), (250, "can_bad_sequence", "out of order")],
)
def test_frames_that_do_not_count_are_told_apart_from_silence(
    rig: Rig, step: int, cause: str, refused: str
) -> None:
    """By an event, and by the reason for which the bench is secured."""
    rig.arm()
    rig.drive(10, 100.0, 20.0)
    drain = rig.bus.drain

    def forged() -> list[Frame]:
        rig.bus.count += step - 1
        return drain()

    rig.bus.drain = forged
    rig.drive(90, 100.0, 20.0)
    told = {e.cause: e.text for e in rig.peer.all(wire.Event)}
    assert told.keys() == {cause, "bench_silent"}
    assert told[cause].startswith("Fast: ")
    rig.drive(500, 100.0, 20.0)
    assert rig.gateway.guardian.state is GuardState.SECURED
    reason = rig.peer.all(wire.Secured)[0].reason
    assert re.search(
        rf"no new frame of Fast for \d+ ms: received frames were rejected \(\d+ {refused}", reason
    )


def test_its_own_absence_is_nobodys_silence(rig: Rig) -> None:
    """A machine that stands still holds up everything on it, and then everything goes on."""
    rig.arm()
    rig.drive(10, 100.0, 20.0)
    rig.bus.publishes = False
    rig.now += 300 * MS
    rig.cycles(3, master=False)  # first awake: nobody has said anything yet
    rig.bus.publishes = True
    rig.drive(50, 100.0, 20.0)
    assert rig.gateway.guardian.state is GuardState.ACTIVE
    (event,) = rig.peer.all(wire.Event)
    assert event.cause == "gateway_absent"
    assert "301 ms" in event.text
    assert event.value == pytest.approx(301.0, abs=0.5)
    assert rig.gateway.counters()["absences"] == 1


@pytest.mark.parametrize("who", ["bench", "master"])
def test_who_is_silent_after_an_absence_is_found_out_a_timeout_later(rig: Rig, who: str) -> None:
    rig.arm()
    rig.drive(10, 100.0, 20.0)
    rig.bus.publishes = who == "master"
    rig.now += 300 * MS
    guardian, began = rig.gateway.guardian, rig.now
    while guardian.state is GuardState.ACTIVE:
        if who == "bench":
            rig.drive(1, 100.0, 20.0)
        else:
            rig.cycles(1, master=False)
        assert rig.now - began < NS
    timeouts = rig.gateway.bench.options.timeouts
    timeout = SILENCE_FACTOR * timeouts.bench if who == "bench" else timeouts.master
    assert (rig.now - began) / NS == pytest.approx(timeout, abs=0.005)
    rig.cycles(1)  # tells the master
    causes = [e.cause for e in rig.peer.all(wire.Event)]
    assert causes[-1] == f"{who}_silent"


@pytest.mark.parametrize("way", ["sigterm", "orphan", "error"])
def test_every_way_to_end_runs_the_profile_first(bench: Bench, way: str) -> None:
    rig = Rig(bench, parent=os.getppid())
    rig.arm()
    rig.drive(10, 100.0, 20.0)
    if way == "sigterm":
        rig.gateway.terminated = True
    elif way == "orphan":
        rig.gateway.parent = -1
    else:
        rig.peer.inbox.append(wire.Error(text="defect"))
    rig.cycles(12)  # the parent is looked at now and then
    assert rig.gateway.guardian.state is GuardState.SECURING
    assert not rig.gateway.ended
    rig.cycles(500, master=False)
    assert rig.gateway.ended
    assert rig.bus.last("DynoDemand")["Enable"] == 0
    cause = {"sigterm": "terminated", "orphan": "parent_died", "error": "master_error"}[way]
    assert cause in [e.cause for e in rig.peer.all(wire.Event)]


def test_a_gateway_that_nobody_talks_to_ends(rig: Rig) -> None:
    rig.cycles(3)
    rig.now += int(gateway_process.ABANDONED_S * NS)
    rig.cycles(2, master=False)
    assert rig.gateway.ended


def test_send_errors_are_counted_and_told_once_per_kind(rig: Rig) -> None:
    rig.arm()
    for error in (can.CanOperationError("buffer full"), OSError("network down")):
        rig.bus.fails = error
        rig.drive(10, 100.0, 20.0)
    events = [e for e in rig.peer.all(wire.Event) if e.cause == "send_error"]
    assert len(events) == 2
    assert "buffer full" in events[0].text
    assert rig.gateway.counters()["send_errors"] == 40


def test_malformed_messages_are_counted_and_told_once(rig: Rig) -> None:
    rig.arm()
    for data in (b"123", b"", wire.pack(np.zeros(3))):
        rig.say(wire.SetPoints(tick=5, t=0.0, h=1e-3, coefficients=data))
    rig.say(wire.Arm(u0=b"12345678"))
    assert rig.gateway.counters()["malformed"] == 4
    assert [e.cause for e in rig.peer.all(wire.Event)] == ["malformed"]
    assert rig.gateway.guardian.state is GuardState.ARMED


def test_its_own_log_has_repeated_warnings_once_with_their_count(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A busy processor stalled the gateway hundreds of times, a line each."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for k in range(250):
        now[0] += 0.1
        text = f"the gateway was starved of processor time for {k} ms: nothing was sent"
        rig.gateway.dialogue._write_down(Notice("event", text, "warning", "gateway_absent"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3  # at 0, 10 and 20 s
    assert all("starved of processor time" in line for line in lines)
    assert lines[1].endswith("(99 more like the previous line)")


def test_a_defect_of_the_gateway_still_brings_the_bench_down(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.arm()
    rig.drive(10, 100.0, 20.0)

    def sleep(seconds: float) -> None:
        rig.now += round(seconds * NS)

    monkeypatch.setattr(time, "sleep", sleep)
    assert rig.gateway.secure_blind("ZeroDivisionError: oops") == 70
    assert rig.bus.last("DynoDemand")["Speed"] == 0.0
    assert rig.bus.last("DynoDemand")["Enable"] == 0
    assert rig.bus.last("EngineDemand")["Pedal"] == 0.0
    assert "oops" in rig.peer.all(wire.Error)[0].text


class ScriptedFrames:
    """Stands in for the recorder's side of the frames."""

    def __init__(self) -> None:
        self.seen: list[tuple[bool, Frame]] = []
        self.dropped = 3
        self.kept = 0

    def received(self, frames: list[Frame]) -> None:
        self.seen += [(False, frame) for frame in frames]

    def sent(self, frames: list[Frame]) -> None:
        self.seen += [(True, frame) for frame in frames]

    def keep(self) -> None:
        self.kept += 1


def test_every_frame_that_came_or_left_is_recorded(bench: Bench) -> None:
    frames = ScriptedFrames()
    rig = Rig(bench, frames=frames)
    rig.arm()
    frames.seen.clear()
    rig.drive(3, 100.0, 20.0)
    names = [
        (sent, PLAIN.get_message_by_frame_id(frame.can_id).name) for sent, frame in frames.seen
    ]
    assert (
        names
        == [
            (True, "DynoDemand"),
            (True, "EngineDemand"),
            (False, "Fast"),
            (False, "Slow"),
        ]
        * 3
    )
    assert frames.kept > 10
    assert rig.gateway.counters()["frames_unrecorded"] == 3


def test_a_frame_that_did_not_leave_is_not_recorded_as_sent(bench: Bench) -> None:
    frames = ScriptedFrames()
    rig = Rig(bench, frames=frames)
    rig.arm()
    frames.seen.clear()
    rig.bus.fails = OSError("network down")
    rig.drive(3, 100.0, 20.0)
    assert not [frame for sent, frame in frames.seen if sent]


def test_a_devices_times_are_recorded_as_this_machines(bench: Bench) -> None:
    frames = ScriptedFrames()
    rig = Rig(bench, frames=frames)
    rig.bus.system_clock = False
    before = time.time_ns()
    rig.cycles(1)
    assert frames.seen
    assert all(before <= frame.t_ns <= time.time_ns() for _, frame in frames.seen)


@pytest.mark.parametrize(
    ("address", "wanted", "opened"),
    [("", True, False), ("ipc://f", False, False), ("ipc://f", True, True)],
)
def test_frames_are_handed_to_the_recorder_where_there_is_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, address: str, wanted: bool, opened: bool
) -> None:
    monkeypatch.setenv(frame_feed.VARIABLE, address)
    bench.options.record_frames = wanted
    feed = gateway_process.open_frames("engine", bench)
    assert (feed is not None) is opened
    if feed is not None:
        feed.close()


class RecordingPeer(ScriptedPeer):
    """Stands in for the connection that `main` opens."""

    made: RecordingPeer
    heartbeat_s = 0.2

    def __init__(self, address: str, name: str, role: str, inputs: Any, outputs: Any) -> None:
        super().__init__()
        self.ports = [port.name for port in inputs], [port.name for port in outputs]
        RecordingPeer.made = self

    def connect(self) -> None:
        pass

    def close(self) -> None:
        pass


SESSION = """
[session]
name = "t"
duration = 1.0
[master]
step = 0.001
[subsystems.model]
adapter = "inprocess"
model = "m:C"
[subsystems.engine]
adapter = "can"
bus = { interface = "virtual", channel = "hilrt-test-main" }
database = "bench.dbc"
outputs = { torque = "Fast.Torque" }
[subsystems.engine.inputs]
pedal = { signal = "EngineDemand.Pedal", min = 0.0, max = 100.0, max_rate = 500.0, safe = 0.0 }
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(gateway_process, "Peer", RecordingPeer)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    path = tmp_path / "session.toml"
    path.write_text(SESSION)
    (tmp_path / "bench.dbc").write_text(DBC)
    yield path
    request_usual_slice()  # `main` asks for short ones, for its process


@pytest.mark.parametrize(
    ("subsystem", "overrides", "text"),
    [
        ("engine", ["subsystems.engine.database=none.dbc"], "none.dbc cannot be read"),
        ("engine", ["subsystems.engine.bus.interface=socketcan"], "cannot be opened"),
        ("engin", [], "did you mean 'engine'"),
        ("model", [], "has no gateway"),
    ],
)
def test_wrong_configuration_ends_with_2_and_a_clear_text(
    session: Path,
    subsystem: str,
    overrides: list[str],
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert gateway_process.main(session, subsystem, "tcp://x", "engine", overrides) == 2
    assert text in capsys.readouterr().err
    if overrides:  # then the table is known, and the master is told
        peer = RecordingPeer.made
        assert peer.ports == (["pedal"], ["torque"])
        assert text in peer.all(wire.Error)[0].text


def test_main_serves_until_stopped(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Gateway] = []

    def run(gateway: Gateway) -> int:
        served.append(gateway)
        return 0

    monkeypatch.setattr(Gateway, "run", run)
    monkeypatch.setattr(gateway_process, "die_with_parent", lambda number, parent: True)
    assert gateway_process.main(session, "engine", "tcp://x", "engine") == 0
    assert served[0].parent == os.getppid()
    assert served[0].guardian.settings.idle_timeout == 2.0


@pytest.mark.parametrize(
    ("overrides", "taken"),
    [
        ([], [1]),
        (["subsystems.engine.emulator=engine"], []),
        (["subsystems.engine.emulator=engine", "master.pacing.priority=7"], [7]),
    ],
)
def test_the_gateway_of_an_emulated_bench_takes_only_a_stated_priority(
    session: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str], taken: list[int]
) -> None:
    got: list[int] = []
    monkeypatch.setattr(gateway_process, "set_priority", got.append)
    monkeypatch.setattr(realtime, "may_have_priority", lambda: True)
    monkeypatch.setattr(Gateway, "run", lambda gateway: 0)
    monkeypatch.setattr(gateway_process, "die_with_parent", lambda number, parent: True)
    assert gateway_process.main(session, "engine", "tcp://x", "engine", overrides) == 0
    assert got == taken


def test_an_interface_that_goes_down_secures_the_bench_and_is_looked_for(bench: Bench) -> None:
    rig = Rig(bench)
    rig.arm()
    rig.drive(20, 100.0, 20.0)
    rig.bus.down = True
    rig.drive(20, 100.0, 20.0)
    assert rig.gateway.guardian.state is not GuardState.ACTIVE
    assert rig.bus.revived
    events = rig.peer.all(wire.Event)
    assert [event.cause for event in events] == ["can_interface_down"]
    assert "ip link" in events[0].text
    rig.bus.down = False
    rig.cycles(20)
    assert rig.peer.all(wire.Event)[-1].text == "the CAN interface is back"


def test_what_is_done_about_a_fault_is_the_session_files_choice(bench: Bench) -> None:
    rig = Rig(bench)
    bench.options.bus_faults.bus_off = "warn"
    bench.options.bus_faults.overflow = "ignore"
    rig.arm()
    rig.drive(20, 100.0, 20.0)
    off = Frame(ERROR | 0x40, bytes(8))
    overflow = Frame(ERROR | 0x04, bytes([0, 1, 0, 0, 0, 0, 0, 0]))
    rig.gateway.traffic.receiver.error_frames += [off, overflow]
    rig.drive(20, 100.0, 20.0)
    assert rig.gateway.guardian.state is GuardState.ACTIVE
    causes = [event.cause for event in rig.peer.all(wire.Event)]
    assert causes[0] == "can_bus_off"
    assert "can_overflow" not in causes
    assert rig.gateway.counters()["overflow"] == 1


def leave_the_bus(rig: Rig) -> None:
    rig.bus.publishes = False
    rig.gateway.traffic.receiver.error_frames.append(Frame(ERROR | 0x40, bytes(8)))


def restarts(rig: Rig) -> list[str]:
    events = rig.peer.all(wire.Event)
    return [event.text for event in events if event.cause == "can_bus_off_recovery"]


def test_a_controller_that_is_bus_off_stays_so_by_default(bench: Bench) -> None:
    rig = Rig(bench)
    rig.arm()
    leave_the_bus(rig)
    rig.cycles(3000)
    assert rig.gateway.guardian.state is GuardState.SECURED
    assert rig.bus.restarts == 0
    assert restarts(rig) == []


def test_a_controller_is_restarted_as_the_session_file_says(bench: Bench) -> None:
    bench.options.bus_off_recovery = BusOffRecovery(delay=0.05, attempts=2)
    rig = Rig(bench)
    rig.arm()
    leave_the_bus(rig)
    rig.cycles(3000)
    assert rig.bus.restarts == 2  # and the bench is secured all the same
    assert rig.gateway.guardian.state is GuardState.SECURED
    assert rig.gateway.counters()["restarts"] == 2
    first, second = restarts(rig)
    assert first.endswith("attempt 1 of 2")
    assert second.endswith("attempt 2 of 2; if it leaves the bus again, it stays off")


def test_a_safe_profile_that_ended_off_the_bus_is_withdrawn_once_more(bench: Bench) -> None:
    rig = Rig(bench)
    rig.arm()
    leave_the_bus(rig)
    rig.cycles(3000)
    assert rig.gateway.guardian.state is GuardState.SECURED
    before = len(rig.bus.frames)
    rig.cycles(100)
    assert len(rig.bus.frames) == before  # nothing reaches it anyway
    rig.bus.publishes = True  # frames are heard: the controller is back
    rig.cycles(100)
    sent = rig.bus.frames[before:]
    demands = [values for name, values in sent if name == "DynoDemand"]
    assert len(demands) >= 10
    assert all(values["Enable"] == 0 for values in demands)
    assert {values["Speed"] for values in demands} == {0.0}
    assert [e.cause for e in rig.peer.all(wire.Event)][-1] == "withdrawn_again"
    rig.cycles(100)
    assert len(rig.bus.frames) == before + len(sent)


def test_a_restart_that_is_refused_is_said_with_a_remedy(bench: Bench) -> None:
    bench.options.bus_off_recovery = BusOffRecovery(delay=0.05, attempts=1)
    rig = Rig(bench)
    rig.bus.refuses = PermissionError(1, "Operation not permitted")
    rig.arm()
    leave_the_bus(rig)
    rig.cycles(3000)
    (text,) = restarts(rig)
    assert "Operation not permitted" in text
    assert "CAP_NET_ADMIN" in text
