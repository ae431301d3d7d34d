"""The link to a bench against a scripted gateway, and against a real one on a virtual bus."""

from __future__ import annotations

import asyncio
import contextlib
import re
import select
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import can
import cantools
import msgspec
import numpy as np
import pytest

from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.gateway_process import Gateway
from hilrt.bench.read_bench import read_bench
from hilrt.can.bus import open_bus
from hilrt.config.from_toml import build
from hilrt.config.session_file import SessionFile
from hilrt.errors import PeerLost
from hilrt.exchange.exchange import Exchange
from hilrt.link import Ports
from hilrt.peers import wire
from hilrt.peers.clock_offset import ClockOffset
from hilrt.peers.hub import Hub
from hilrt.peers.peer import Peer
from hilrt.solver import Sample
from hilrt_adapters.gateway import GatewayLink
from tests.collected import collect, dispatch, received
from tests.stepping import make_numerics, make_session

T = TypeVar("T")
DBC = """VERSION ""
BU_: Bench Gateway
BO_ 256 Fast: 8 Bench
 SG_ Speed : 0|24@1- (0.001,0) [0|0] "rad/s" Gateway
 SG_ Torque : 40|16@1- (0.02,0) [0|0] "N*m" Gateway
 SG_ Enabled : 24|1@1+ (1,0) [0|1] "" Gateway
BO_ 128 Demand: 8 Gateway
 SG_ Speed : 0|24@1+ (0.0001,0) [0|650] "rad/s" Bench
 SG_ Enable : 24|1@1+ (1,0) [0|1] "" Bench
"""
DEADLINE = 10.0


def table(channel: str = "x") -> BenchOptions:
    options = build(
        BenchOptions,
        {
            "adapter": "can",
            "bus": {"interface": "virtual", "channel": channel},
            "database": "bench.dbc",
            "actuation_delay": 0.002,
            "emulator": "engine",
            "bench_timeout": 1.0,
            "master_timeout": 2.0,
            "enable": {"request": "Demand.Enable", "state": "Fast.Enabled", "timeout": 1.0},
            "outputs": {"torque": "Fast.Torque", "speed": "Fast.Speed"},
            "safe_profile": {"step_timeout": 1.0},
            "inputs": {
                "speed_demand": {
                    "signal": "Demand.Speed",
                    "realised": "speed",
                    "min": 0.0,
                    "max": 650.0,
                    "max_rate": 8000.0,
                    "safe": 0.0,
                },
            },
        },
        "subsystems.engine",
        [],
    )
    assert options is not None
    return options


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bench.dbc").write_text(DBC)
    return tmp_path


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub("t", connect_timeout=DEADLINE)
    yield hub
    hub.close()


async def until(condition: Callable[[], T], link: GatewayLink | None = None) -> T:
    """Poll until `condition` holds; the deadline fails the test."""
    async with asyncio.timeout(DEADLINE):
        while not (result := condition()):
            if link is not None:
                link.hub.drain()
            await asyncio.sleep(0.001)
    return result


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"emulator": "engin"},
            "[subsystems.engine] emulator = 'engin': there is no such emulated bench; "
            "did you mean 'engine'?",
        ),
        (
            {"scenario": "storm.toml"},
            "[subsystems.engine] scenario = 'storm.toml': .*storm.toml: cannot be read",
        ),
        (
            {"bus": {"interface": "udp_multicast", "hop_limt": 0}},
            "[subsystems.engine] bus.hop_limt = 0: the interface 'udp_multicast' takes no such key"
            ", and would ignore it"
            "; did you mean 'hop_limit'?",
        ),
    ],
)
def test_what_the_processes_would_refuse_is_found_before_they_start(
    folder: Path, change: dict[str, Any], line: str
) -> None:
    options = msgspec.structs.replace(table(), **change)
    (found,) = GatewayLink.describe("engine", options, folder).problems
    assert re.match(re.escape(line).replace(r"\.\*", ".*"), found)


def test_problems_of_the_emulated_bench_and_of_the_table_are_said_together(folder: Path) -> None:
    outputs = {"torque": "Fast.Torqe", "speed": "Fast.Speed"}
    options = msgspec.structs.replace(table(), emulator="engin", outputs=outputs)
    assert len(GatewayLink.describe("engine", options, folder).problems) == 2


def test_a_key_that_an_interface_may_know_is_only_doubted(folder: Path) -> None:
    bus = {"interface": "pcan", "channel": "PCAN_USBBUS1", "bitrat": 500000, "auto_reset": True}
    options = msgspec.structs.replace(table(), bus=bus)
    description = GatewayLink.describe("engine", options, folder)
    assert not description.problems
    (remark,) = description.remarks
    assert remark.startswith("bus.bitrat = 500000: is not a named argument")
    assert "'bitrate'" in remark


class Scripted:
    """A connected link with the gateway's end in the test's hands."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub = hub
        self.link = GatewayLink("engine", table(), folder)
        hub.add(self.link)
        ports = read_bench("engine", table(), folder).ports
        self.peer = Peer(hub.address, "engine", "gateway", ports.inputs, ports.outputs)
        self.heard: list[wire.FromMaster] = []

    async def connect(self) -> None:
        connecting = asyncio.create_task(asyncio.to_thread(self.peer.connect, DEADLINE))
        await self.link.open()
        while not connecting.done():
            self.hub.drain()
            await asyncio.sleep(0.001)
        await connecting

    async def answer(
        self, task: Awaitable[T], kind: type[wire.Message], *answers: wire.Message
    ) -> T:
        """Run a method of the link; its message of `kind` gets the `answers`."""
        running = asyncio.ensure_future(task)
        await until(lambda: self.received(kind))
        for message in answers:
            self.peer.send(message)
        async with asyncio.timeout(DEADLINE):
            return await running

    def received(self, kind: type[wire.Message]) -> list[Any]:
        self.heard += self.peer.receive()
        return [message for message in self.heard if isinstance(message, kind)]

    def measure(self, seq: int, **changes: Any) -> None:
        values: dict[str, Any] = {
            "seq": seq,
            "tick": 7,
            "y": wire.pack(np.array([12.0, 50.0])),
            "t_valid_ns": [self.hub.epoch_ns + 10**9, self.hub.epoch_ns + 2 * 10**9],
            "realised": wire.pack(np.array([49.0])),
        }
        self.peer.send(wire.Measurements(**{**values, **changes}))

    async def arrivals(self) -> list[Any]:
        return await until(lambda: received(self.link))


@pytest.fixture
async def scripted(hub: Hub, folder: Path) -> AsyncIterator[Scripted]:
    scripted = Scripted(hub, folder)
    await scripted.connect()
    hub.epoch_ns = hub.clock()
    collect(scripted.link)
    yield scripted
    scripted.peer.close()


def test_ports_and_problems_come_from_table_and_database(folder: Path) -> None:
    ports = GatewayLink.describe("engine", table(), folder).ports
    assert ports is not None
    assert [p.unit for p in ports.outputs] == ["N*m", "rad/s"]
    (folder / "bench.dbc").unlink()
    (problem,) = GatewayLink.describe("engine", table(), folder).problems
    assert "cannot be read" in problem


def test_commands_start_the_emulator_and_then_the_gateway(hub: Hub, folder: Path) -> None:
    link = GatewayLink("engine", table(), folder)
    hub.add(link)
    path = folder / "s.toml"
    tables = make_session({"master": {"step": 1e-3}, "subsystems": {}})
    file = SessionFile(tables=tables, path=path, text="", overrides=("a.b=1",))
    emulator, gateway = link.commands(file)
    assert not emulator.takes_lines
    common = ["--session", str(path), "--subsystem", "engine"]
    assert emulator.argv == ["hilrt", "emulate", "engine", *common, "--set", "a.b=1"]
    assert gateway.name == "engine"  # its end is the link's end
    assert gateway.argv == [
        *["hilrt", "gateway", *common],
        *["--connect", hub.address, "--name", "engine", "--set", "a.b=1"],
    ]
    link.bench_options.emulator = None
    assert [c.name for c in link.commands(file)] == ["engine"]
    assert link.files == [folder / "bench.dbc"]
    assert link.actuation_delay == 0.002
    assert link.physical


def test_an_emulator_with_faults_is_told_lines(hub: Hub, folder: Path) -> None:
    link = GatewayLink("engine", table(), folder)
    hub.add(link)
    fault = {"name": "cut", "kind": "dead", "peer": "engine"}
    tables = make_session({"master": {"step": 1e-3}, "subsystems": {}, "faults": [fault]})
    emulator, _ = link.commands(SessionFile(tables=tables, path=folder / "s.toml", text=""))
    assert emulator.takes_lines
    told: list[str] = []
    assert link.set_parameter("oil", 1.0) == "its emulator cannot be reached"
    link.send_line = told.append
    link.switch_fault("cut", True)
    link.switch_fault("cut", False)
    assert link.set_parameter("oil", 85.5) == ""
    assert told == ["fault cut 1", "fault cut 0", "set oil 85.5"]
    link._on_line("what a class prints")
    link._on_line("refused parameter oil = 85.5 is refused: too hot")
    assert [(e.level, e.cause, e.text) for e in link.events] == [
        ("warning", "parameter_refused", "parameter oil = 85.5 is refused: too hot")
    ]


async def test_a_gateway_that_comes_back_is_refused_with_the_reason(hub: Hub, folder: Path) -> None:
    """Nothing arms a bench by itself, whatever the session file says."""
    scripted = Scripted(hub, folder)
    scripted.link.options.late.rejoin = True  # `hilrt check` refuses it
    await scripted.connect()
    hub.epoch_ns = hub.clock()
    scripted.peer.close()
    await until(lambda: not scripted.link.send(wire.Heartbeat(sent_ns=1)))
    with pytest.raises(PeerLost, match="connection closed"):
        scripted.link.receive()
    ports = scripted.link.inputs, scripted.link.outputs
    again = Peer(hub.address, "engine", "gateway", *ports)
    connecting = asyncio.create_task(asyncio.to_thread(again.connect, DEADLINE))
    await until(lambda: hub.counters["engine", "rejected"], scripted.link)
    with pytest.raises(Exception, match="returns is never armed automatically; end this session"):
        await connecting
    again.close()


async def test_a_gateway_with_other_ports_is_rejected(hub: Hub, folder: Path) -> None:
    link = GatewayLink("engine", table(), folder)
    hub.add(link)
    peer = Peer(hub.address, "engine", "gateway", (), ())
    connecting = asyncio.create_task(asyncio.to_thread(peer.connect, DEADLINE))
    await until(lambda: hub.counters["engine", "rejected"], link)
    with pytest.raises(Exception, match="start it with the same file"):
        await connecting
    peer.close()


async def test_initialize_and_dispatch(scripted: Scripted) -> None:
    answer = wire.Initialized(y=wire.pack(np.array([1.0, 2.0])))
    link = scripted.link
    sample = await scripted.answer(link.initialize(0.0, np.zeros(1)), wire.Initialize, answer)
    assert sample.y.tolist() == [1.0, 2.0]
    dispatch(link, 3, 0.25, 0.001, np.array([[5.0], [6.0]]))
    (message,) = await until(lambda: scripted.received(wire.SetPoints))
    assert (message.tick, message.t, message.h) == (3, 0.25, 0.001)
    assert wire.unpack(message.coefficients, 2, 1).tolist() == [[5.0], [6.0]]


async def test_measurements_become_arrivals_in_session_time(scripted: Scripted) -> None:
    scripted.link.peer.clock.offset_ns = 500_000_000  # the gateway's clock is ahead
    scripted.measure(0, counters={"lost": 3, "decode_errors": 1, "unknown": 9})
    (arrival,) = await scripted.arrivals()
    sample = arrival.sample
    assert sample.y.tolist() == [12.0, 50.0]
    assert sample.t_valid == pytest.approx([0.5, 1.5])
    assert sample.realised.tolist() == [49.0]
    assert (scripted.link.lost, scripted.link.dropped) == (3, 1)
    scripted.measure(3, counters={"lost": 5, "decode_errors": 2, "checksum_errors": 4})
    scripted.measure(4)  # counters come now and then; the newest hold
    arrivals = []
    while len(arrivals) < 2:
        arrivals += await scripted.arrivals()
    assert arrivals[-1].way == {"uncertainty": pytest.approx(np.nan, nan_ok=True)}
    assert scripted.link.lost == 3 + 2 + 2  # frames by counter, and two measurements
    assert scripted.link.dropped == 1 + 1 + 4  # frames that came


def arrived(exchange: Exchange) -> bool:
    """Whether the cut at 1 ms has found a sample."""
    exchange.cut(1, 10**6, 10**6)
    return bool(exchange.given.outputs["fresh"].any())


async def test_how_well_its_clock_is_known_is_given_with_its_samples(scripted: Scripted) -> None:
    link = scripted.link
    numerics = make_numerics({"engine": Ports(link.inputs, link.outputs)})
    exchange = Exchange(numerics, [link], 1e-3, [3])
    exchange.start([Sample(np.zeros(2))])
    exchange.cut(0, 0, 0)
    link.peer.clock = ClockOffset()
    for seq, bound in enumerate((np.nan, 200e-6)):
        scripted.measure(seq, t_valid_ns=[scripted.hub.epoch_ns] * 2)
        await until(lambda: arrived(exchange))
        np.testing.assert_allclose(numerics.given.subsystems["clock_error"], [bound])
        link.peer.clock.add(0, 5_000, 400_000)


async def test_measurements_that_do_not_fit_are_counted_and_dropped(scripted: Scripted) -> None:
    scripted.measure(0, y=b"12345678")
    scripted.measure(1, t_valid_ns=[1])
    scripted.measure(2, realised=b"123")
    scripted.measure(3)
    (arrival,) = await scripted.arrivals()
    assert arrival.sample.y.tolist() == [12.0, 50.0]
    assert sum(n for (name, _), n in scripted.hub.counters.items() if name == "engine") == 3


async def test_what_comes_before_session_time_starts_is_dropped(scripted: Scripted) -> None:
    epoch, scripted.hub.epoch_ns = scripted.hub.epoch_ns, 0
    scripted.measure(0)
    await until(lambda: scripted.link.latest is not None, scripted.link)
    scripted.hub.epoch_ns = epoch
    assert received(scripted.link) == []


async def test_the_gateways_own_decision_is_the_end(scripted: Scripted) -> None:
    scripted.peer.send(wire.Secured(reason="the bench is silent", complete=False))
    with pytest.raises(PeerLost, match=r"the bench is silent, and not every input") as lost:
        await scripted.arrivals()
    assert lost.value.name == "engine"
    # The gateway itself is there: it can still be told to stop.
    answers = (wire.Secured(reason="x"), wire.Stopped())
    await scripted.answer(scripted.link.stop("end"), wire.Stop, *answers)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (wire.Secured(reason="the bench withdrew its enable"), "withdrew its enable"),
        (wire.Error(text="Fast.Enabled did not become 1"), "did not become 1"),
    ],
)
async def test_arm_waits_and_fails_with_the_gateways_reason(
    scripted: Scripted, answer: wire.Message, reason: str
) -> None:
    link, u0 = scripted.link, np.array([5.0])
    await scripted.answer(link.arm(u0), wire.Arm, wire.Armed())
    assert wire.unpack(scripted.received(wire.Arm)[0].u0, 1).tolist() == [5.0]
    scripted.heard.clear()
    with pytest.raises(PeerLost, match=reason):
        await scripted.answer(link.arm(u0), wire.Arm, answer)


async def test_a_bench_that_its_gateway_secured_is_not_armed_again(scripted: Scripted) -> None:
    """Its interlock opens while the session waits for another bench, and does not look."""
    link, hub = scripted.link, scripted.hub
    await scripted.answer(link.arm(np.array([5.0])), wire.Arm, wire.Armed())
    scripted.heard.clear()
    scripted.peer.send(wire.Secured(reason="the bench withdrew its enable"))
    # It is there, and has not been read.
    await until(lambda: select.select([hub.fileno()], [], [], 0)[0])
    with pytest.raises(PeerLost, match="withdrew its enable"):
        await link.arm(np.array([6.0]))
    assert not scripted.received(wire.Arm)


async def test_safe_and_stop_wait_and_never_raise(scripted: Scripted) -> None:
    link = scripted.link
    await scripted.answer(link.safe("operator"), wire.Safe, wire.Secured(reason="operator"))
    assert received(link) == []  # asked for: no fault
    await scripted.answer(link.stop("end"), wire.Stop, wire.Secured(reason="e"), wire.Stopped())
    await link.stop("again")
    link.safe_timeout = 0.01
    await link.safe("nobody answers")
    with pytest.raises(PeerLost):
        link.receive()


@pytest.mark.parametrize("way", ["safe", "stop"])
async def test_a_bench_whose_gateway_does_not_answer_is_not_known_to_be_at_rest(
    scripted: Scripted, way: str
) -> None:
    link = scripted.link
    await scripted.answer(link.arm(np.array([5.0])), wire.Arm, wire.Armed())
    assert not link.not_at_rest
    link.safe_timeout = link.stop_timeout = 0.01
    await (link.safe("operator") if way == "safe" else link.stop("end"))
    assert "did not confirm that it brought it to rest: no answer" in link.not_at_rest
    scripted.peer.send(wire.Secured(reason="at last"))
    await until(lambda: not link.not_at_rest, link)


async def test_a_bench_whose_gateway_is_gone_is_not_known_to_be_at_rest(scripted: Scripted) -> None:
    link = scripted.link
    await scripted.answer(link.arm(np.array([5.0])), wire.Arm, wire.Armed())
    scripted.peer.close()
    await until(lambda: not link.send(wire.Heartbeat(sent_ns=1)))
    await link.stop("end")
    assert "connection closed" in link.not_at_rest


async def test_a_bench_that_was_secured_before_its_gateway_fell_silent_is_at_rest(
    scripted: Scripted,
) -> None:
    link = scripted.link
    await scripted.answer(link.arm(np.array([5.0])), wire.Arm, wire.Armed())
    scripted.peer.send(wire.Secured(reason="the bench withdrew its enable"))
    with pytest.raises(PeerLost, match="withdrew its enable"):
        await scripted.arrivals()
    link.stop_timeout = 0.01
    await link.stop("end")
    assert not link.not_at_rest


async def test_a_bench_that_was_never_enabled_is_at_rest(scripted: Scripted) -> None:
    scripted.link.stop_timeout = 0.01
    await scripted.link.stop("end")
    assert not scripted.link.not_at_rest


@pytest.mark.parametrize("way", ["safe", "stop"])
async def test_a_safe_profile_that_is_not_complete_leaves_the_bench_not_at_rest(
    scripted: Scripted, way: str
) -> None:
    link = scripted.link
    await scripted.answer(link.arm(np.array([5.0])), wire.Arm, wire.Armed())
    secured = wire.Secured(reason="end", complete=False)
    if way == "safe":
        await scripted.answer(link.safe("end"), wire.Safe, secured)
    else:
        await scripted.answer(link.stop("end"), wire.Stop, secured, wire.Stopped())
    assert link.not_at_rest == "not every input reached its safe value"


def test_multiplexers_are_known_from_the_database(folder: Path) -> None:
    assert GatewayLink("engine", table(), folder).multiplexers == []
    pages = DBC.replace("SG_ Torque :", "SG_ Torque M :").replace("SG_ Speed :", "SG_ Speed m0 :")
    (folder / "bench.dbc").write_text(pages)
    assert GatewayLink("engine", table(), folder).multiplexers == ["torque"]


async def test_safe_and_stop_before_a_connection_do_nothing(hub: Hub, folder: Path) -> None:
    link = GatewayLink("engine", table(), folder)
    hub.add(link)
    await link.safe("x")
    await link.stop("x")
    link.receive()  # nothing was asked, so nobody is missed
    assert not link.not_at_rest
    assert not link.peer.lost
    assert not link.peer.stopping


class Bench(threading.Thread):
    """A bench on a virtual bus that follows its demands at once."""

    def __init__(self, channel: str) -> None:
        super().__init__(daemon=True)
        self.bus = can.Bus(interface="virtual", channel=channel)
        self.database = cantools.database.load_string(DBC, "dbc")
        self.ending = threading.Event()
        self.demands: list[dict[str, Any]] = []

    def run(self) -> None:
        values: dict[str, Any] = {"Speed": 0.0, "Torque": 12.0, "Enabled": 0}
        while not self.ending.is_set():
            frame = self.bus.recv(0.005)
            if frame is not None and frame.arbitration_id == 128:
                demand: Any = self.database.decode_message(128, bytes(frame.data))
                self.demands.append(demand)
                values["Speed"], values["Enabled"] = demand["Speed"], demand["Enable"]
            data = self.database.encode_message(256, values)
            self.bus.send(can.Message(arbitration_id=256, data=data, is_extended_id=False))
        self.bus.shutdown()


@contextlib.contextmanager
def real_gateway(hub: Hub, folder: Path) -> Iterator[tuple[Gateway, Bench, threading.Thread]]:
    channel = uuid.uuid4().hex
    bench = read_bench("engine", table(channel), folder)
    emulated = Bench(channel)
    emulated.start()
    bus = open_bus(bench.options.bus, bench.received, "t")
    peer = Peer(hub.address, "engine", "gateway", bench.ports.inputs, bench.ports.outputs)
    gateway = Gateway(bench, bus, peer)

    def serve() -> None:
        peer.connect(DEADLINE)
        gateway.run()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield gateway, emulated, thread
    finally:
        gateway.terminated = True
        thread.join(DEADLINE)
        assert not thread.is_alive()
        emulated.ending.set()
        emulated.join(DEADLINE)
        bus.close()
        peer.close()


async def test_link_gateway_and_bench_together(hub: Hub, folder: Path) -> None:
    link = GatewayLink("engine", table(), folder)
    hub.add(link)
    with real_gateway(hub, folder) as (gateway, bench, thread):
        await link.open()
        sample = await link.initialize(0.0, np.zeros(1))
        assert sample.y.tolist() == [12.0, 0.0]
        await link.arm(np.array([100.0]))
        assert bench.demands[-1] == {"Speed": 100.0, "Enable": 1}
        hub.epoch_ns = hub.clock()
        collect(link)
        for tick in range(20):
            dispatch(link, tick, 0.0, 1e-3, np.array([[101.0]]))
            await asyncio.sleep(0.001)
        arrivals: list[Any] = []

        def followed() -> bool:
            arrivals.extend(received(link))
            newest = arrivals[-1] if arrivals else None
            return newest is not None and newest.sample.y[1] == 101.0

        await until(followed)
        assert arrivals[-1].sample.realised.tolist() == [101.0]
        assert abs(hub.session_time() - arrivals[-1].sample.t_valid[1]) < 5.0
        await link.stop("finished")
        thread.join(DEADLINE)
        assert not thread.is_alive()
        await until(lambda: bench.demands[-1]["Enable"] == 0)
        assert bench.demands[-1]["Speed"] == 0.0
        speeds = [d["Speed"] for d in bench.demands]
        assert max(speeds) == 101.0
        assert gateway.counters()["send_errors"] == 0
    await link.close()
