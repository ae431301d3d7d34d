from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import can
import cantools
import pytest

from hilrt.bench import emulate
from hilrt.bench.bench_on_bus import BenchOnBus
from hilrt.bench.emulate import (
    CYCLE_NS,
    Emulation,
    EmulatorEnding,
    Fault,
    list_benches,
    make_bench,
    run_loop,
)
from hilrt.can.frame import EXTENDED, REMOTE, Frame
from hilrt.errors import ConfigError

DATABASE = Path(__file__).parents[2] / "bench_configs" / "engine_bench.dbc"
MESSAGES = cantools.database.load_file(DATABASE)


class Wire:
    """A bus of two lists."""

    def __init__(self) -> None:
        self.incoming: list[Frame] = []
        self.sent: list[Frame] = []

    def drain(self) -> list[Frame]:
        frames, self.incoming = self.incoming, []
        return frames

    def put(self, name: str, values: Mapping[str, float]) -> None:
        message = MESSAGES.get_message_by_name(name)
        self.incoming.append(Frame(message.frame_id, message.encode(dict(values))))

    def decoded(self, name: str) -> list[dict[str, Any]]:
        message = MESSAGES.get_message_by_name(name)
        return [
            message.decode(f.data, decode_choices=False)
            for f in self.sent
            if f.can_id == message.frame_id
        ]


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def on_bus(wire: Wire) -> BenchOnBus:
    on_bus = BenchOnBus(make_bench("engine"), DATABASE)
    on_bus.attach(wire.drain, wire.sent.append)
    return on_bus


class Clock:
    """A clock that moves when slept on, and by what the test adds to `delays` (ns by cycle)."""

    def __init__(self, delays: Mapping[int, int] | None = None) -> None:
        self.now = 12_345
        self.sleeps = 0
        self.delays = dict(delays or {})

    def now_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)
        self.sleeps += 1
        self.now += self.delays.pop(self.sleeps, 0)


def loop(on_bus: BenchOnBus, clock: Clock, **options: Any) -> tuple[int, int]:
    return run_loop(on_bus, EmulatorEnding(), now_ns=clock.now_ns, sleep=clock.sleep, **options)


# ---- registry ----------------------------------------------------------------------------------


def test_every_listed_bench_can_be_made() -> None:
    names = [name for name, description in list_benches() if description]
    assert names == ["engine", "hydraulic_axis", "motor", "database", "module:Class"]
    for name in names[:3]:
        assert make_bench(name).sends


def test_unknown_bench_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'engine'"):
        make_bench("engin")


@pytest.mark.parametrize("text", ["", "silent", "silent@", "silent@-1", "silent@nan", "burn@1"])
def test_fault_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="silent@SECONDS"):
        Fault.parse(text)


def test_fault_is_read() -> None:
    assert Fault.parse("die@2.5") == Fault("die", 2.5)


# ---- frames ------------------------------------------------------------------------------------


def test_fast_and_slow_frames_with_counters(on_bus: BenchOnBus, wire: Wire) -> None:
    for n in range(600):
        on_bus.cycle(n * 1e-3)
    fast, slow = wire.decoded("EngineFast"), wire.decoded("EngineSlow")
    assert [f["Alive"] for f in fast] == [n % 256 for n in range(600)]
    assert [f["Alive"] for f in slow] == list(range(60))
    assert on_bus.sent == 660


def test_demands_enable_and_drive_the_bench(on_bus: BenchOnBus, wire: Wire) -> None:
    for n in range(1500):
        demand = {"Speed": 200.0, "Torque": 0.0, "Mode": 0, "Enable": 1, "Alive": n % 256}
        wire.put("DynoDemand", demand)
        wire.put("EngineDemand", {"Pedal": 50.0, "Alive": n % 256})
        on_bus.cycle(n * 1e-3)
    assert wire.decoded("EngineSlow")[-1]["Enabled"] == 1
    fast = wire.decoded("EngineFast")[-1]
    assert fast["ShaftSpeed"] == pytest.approx(200.0, abs=0.5)
    assert fast["ShaftTorque"] > 50.0
    assert on_bus.received == 3000
    assert on_bus.heard_at == pytest.approx(1.499)


def test_foreign_and_damaged_frames_are_not_taken(on_bus: BenchOnBus, wire: Wire) -> None:
    wire.incoming = [
        Frame(128, b"\x01"),
        Frame(EXTENDED | 128, bytes(8)),
        Frame(256, bytes(8)),
        Frame(REMOTE | 128, b""),
    ]
    on_bus.cycle(0.0)
    assert (on_bus.received, on_bus.bad_frames) == (0, 1)


def test_frames_that_do_not_leave_are_counted(on_bus: BenchOnBus) -> None:
    def full(frame: Frame) -> None:
        raise can.CanOperationError("no buffer space")

    on_bus.attach(tuple, full)
    on_bus.cycle(0.0)
    on_bus.cycle(1e-3)
    assert (on_bus.sent, on_bus.send_errors) == (0, 3)


def test_database_without_the_signals_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.dbc"
    text = DATABASE.read_text().replace("DynoDemand", "DynoDemands").replace("ShaftTorque", "Mz")
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        BenchOnBus(make_bench("engine"), path)
    text = str(caught.value)
    assert "no message 'DynoDemand'; did you mean 'DynoDemands'" in text
    assert "EngineFast has no signal 'ShaftTorque'" in text
    assert "EngineFast has a signal 'Mz' that the bench does not send" in text


# ---- loop --------------------------------------------------------------------------------------


def test_loop_runs_on_an_absolute_grid(on_bus: BenchOnBus, wire: Wire) -> None:
    clock = Clock()
    start = clock.now
    assert loop(on_bus, clock, duration=0.5) == (700, 0)  # and it lingers for 0.2 s
    assert clock.now - start == 700 * CYCLE_NS
    assert len(wire.decoded("EngineFast")) == 700


def test_short_delays_are_caught_up(on_bus: BenchOnBus) -> None:
    clock = Clock({100: 15 * CYCLE_NS})
    start = clock.now
    assert loop(on_bus, clock, duration=0.5) == (700, 0)
    assert clock.now - start == 700 * CYCLE_NS


def test_long_delays_are_skipped_and_counted(on_bus: BenchOnBus, wire: Wire) -> None:
    clock = Clock({100: 300 * CYCLE_NS})
    start = clock.now
    cycles, skipped = loop(on_bus, clock, duration=0.5)
    assert skipped == 299
    assert cycles + skipped == 700
    assert clock.now - start == 700 * CYCLE_NS
    assert len(wire.decoded("EngineFast")) == cycles


def test_silent_fault_stops_publishing_only(on_bus: BenchOnBus, wire: Wire) -> None:
    cycles, _ = loop(on_bus, Clock(), duration=0.3, fault=Fault("silent", 0.1))
    assert cycles == 500
    assert len(wire.decoded("EngineFast")) == 99


def test_die_fault_ends_in_the_middle(on_bus: BenchOnBus, wire: Wire) -> None:
    def die() -> None:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        loop(on_bus, Clock(), fault=Fault("die", 0.1), die=die)
    assert len(wire.decoded("EngineFast")) == 99


# ---- ending ------------------------------------------------------------------------------------


def test_nobody_asked_nobody_ends() -> None:
    assert not EmulatorEnding().due(1e6, requested=False, heard_at=0.0)


def test_disabled_bench_ends_after_publishing_a_little_longer() -> None:
    ending = EmulatorEnding()
    ending.request()
    assert not ending.due(5.0, requested=False, heard_at=5.0)
    assert not ending.due(5.19, requested=False, heard_at=5.19)
    assert ending.due(5.21, requested=False, heard_at=5.2)


def test_enabled_bench_waits_for_the_withdrawal() -> None:
    ending = EmulatorEnding()
    ending.request()
    for t in range(50, 80):
        assert not ending.due(0.1 * t, requested=True, heard_at=0.1 * t)
    assert not ending.due(8.0, requested=False, heard_at=8.0)
    assert ending.due(8.2, requested=False, heard_at=8.2)


def test_enabled_bench_ends_when_nobody_demands_anything() -> None:
    ending = EmulatorEnding()
    ending.request()
    assert not ending.due(5.0, requested=True, heard_at=5.0)
    assert not ending.due(5.4, requested=True, heard_at=5.0)
    assert ending.due(5.65, requested=True, heard_at=5.0)


def test_enabled_bench_does_not_wait_for_ever() -> None:
    ending = EmulatorEnding()
    ending.request()
    assert not ending.due(5.0, requested=True, heard_at=5.0)
    assert not ending.due(14.9, requested=True, heard_at=14.9)
    assert ending.due(15.0, requested=True, heard_at=15.0)


def test_second_request_ends_at_once() -> None:
    ending = EmulatorEnding()
    ending.request()
    assert not ending.due(5.0, requested=True, heard_at=5.0)
    assert not ending.due(5.3, requested=True, heard_at=5.3)
    ending.request()
    assert ending.due(5.3, requested=True, heard_at=5.3)


def test_signals_of_one_dying_parent_are_one_request() -> None:
    ending = EmulatorEnding()
    ending.request()
    ending.request()
    assert not ending.due(5.0, requested=True, heard_at=5.0)
    ending.request()
    assert not ending.due(5.2, requested=True, heard_at=5.2)
    assert not ending.due(5.4, requested=True, heard_at=5.4)
    ending.request()
    assert ending.due(5.4, requested=True, heard_at=5.4)


# ---- entry points ------------------------------------------------------------------------------


@pytest.fixture
def own_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep `main` from tying this test process to its parent."""
    monkeypatch.setattr(emulate, "die_with_parent", lambda *_: True)


@pytest.mark.usefixtures("own_parent")
def test_main_runs_on_a_real_bus_and_restores_the_signals(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bus = {"interface": "virtual", "channel": "test_emulate"}
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    with can.Bus(ignore_config=True, **bus) as listener:
        assert emulate.main(Emulation("engine", bus, DATABASE, duration=0.02)) == 0
        frame = listener.recv(timeout=0)
    assert frame is not None
    assert frame.arbitration_id == 256
    assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)] == before
    assert "engine ended after" in capsys.readouterr().err


@pytest.mark.usefixtures("own_parent")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "pump"}, "no emulated bench 'pump'"),
        ({"database": Path("missing.dbc")}, "missing.dbc cannot be read"),
        ({"fault": "x"}, "--fault x"),
        ({"bus": {"interface": "socketcann"}}, "no interface 'socketcann'"),
        ({"bus": {"interface": "udp_multicast", "channel": "not an address"}}, "cannot be opened"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(
    changes: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments: dict[str, Any] = {
        "name": "engine",
        "bus": {"interface": "virtual", "channel": "test_emulate"},
        "database": DATABASE,
        **changes,
    }
    assert emulate.main(Emulation(**arguments)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
