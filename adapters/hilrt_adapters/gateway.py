"""The master's link to a bench behind a gateway process (``adapter = "can"``)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from hilrt.bench.bench_on_bus import AdjustableBench, BenchOnBus, EmulatedBench
from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.emulate import (
    BENCHES,
    FAULT_WORD,
    REFUSED_WORD,
    SET_WORD,
    make_bench,
    read_scenario,
)
from hilrt.bench.guard_states import NS, SETTLE_NS, SETTLE_TIMEOUT_NS, longest_ramp
from hilrt.bench.read_bench import Bench, PortsError, read_bench
from hilrt.can.bus_keys import CLOSED, doubtful_keys, interface_down, missing_interface
from hilrt.can.database import database_file
from hilrt.can.message_stats import REASONS
from hilrt.errors import ConfigError, PeerLost, ProtocolError
from hilrt.hosting.database_bench import bench_maker
from hilrt.link import CodeRun, Command, Description, EmulatedMessage, FrameTime
from hilrt.peers.remote_link import RemoteLink
from hilrt.peers.wire import (
    Arm,
    Armed,
    Event,
    FromPeer,
    Initialized,
    Measurements,
    Message,
    Safe,
    Secured,
    SetPoints,
    pack,
    unpack,
    vector,
)
from hilrt.solver import Floats, Port, Sample

if TYPE_CHECKING:
    from hilrt.config.session_file import SessionFile
    from hilrt.config.structs import SubsystemOptions

#: Margin of every deadline for transmission and a busy machine, s.
MARGIN = 1.0
#: Counters of a gateway for frames that arrived and were not used.
NOT_USED = (*(reason for reason in REASONS if reason != "lost"), "incomplete")

#: Check of the driver of an interface outside python-can.
_DRIVER = CodeRun(
    "bus",
    "imports the driver of the interface",
    "whether its driver is installed and accepts these keys",
)
_EMULATOR = CodeRun(
    "emulator", "imports its module and calls its constructor", "whether its ports are the bench's"
)


class GatewayLink(RemoteLink):
    """A bench, which cannot wait and cannot be stepped; its gateway guards it.

    If the gateway itself secures the bench, the next poll raises `PeerLost`; the gateway stays
    reachable, so `safe` and `stop` still work and wait for the safe profile.
    """

    Options = BenchOptions
    physical = True
    role = "gateway"

    def __init__(self, name: str, options: SubsystemOptions, folder: Path) -> None:
        super().__init__(name, options, folder)
        self.bench_options = cast(BenchOptions, options)
        self.actuation_delay = self.bench_options.actuation_delay
        self.files = [database_file(folder / self.bench_options.database)[0]]
        self.buses = (name,) if self.bench_options.record_frames else ()
        self.switch_fault = self._switch_fault
        self.on_line = self._on_line
        steps = len(self.bench_options.inputs)
        self.safe_timeout = steps * self.bench_options.safe_profile.step_timeout + MARGIN
        self.stop_timeout = self.safe_timeout
        self._secured: str | None = None
        self._enabled = False  # enabled or about to be, until its gateway reports the safe profile
        self._seq = -1
        self._counters: dict[str, int] = {}

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe a bench by its table and its database."""
        bench = cast(BenchOptions, options)
        problems: list[str] = []
        unclear: frozenset[str] = frozenset()
        frames: list[FrameTime] = []
        try:
            read = read_bench(name, bench, folder)
            ports, frames = read.ports, read.frames
        except PortsError as error:
            problems += error.problems
            ports, unclear = error.ports, error.unclear
        usable = not problems and (run_code or ":" not in (bench.emulator or ""))
        problems += _check_emulator(name, bench, folder, usable)
        found = Description(ports=ports, unclear=unclear, problems=problems, frames=frames)
        if usable and bench.emulator is not None:
            found = replace(found, emulated=lambda: _emulated_messages(name, bench, folder))
        if not run_code and bench.bus.get("interface") not in (None, *CLOSED):
            return replace(found, code=_DRIVER)
        if not run_code and ":" in (bench.emulator or ""):
            return replace(found, code=_EMULATOR)
        remarks = [*doubtful_keys(bench.bus), *interface_down(bench.bus)]
        return replace(found, remarks=remarks, missing_on_host=missing_interface(bench.bus))

    def commands(self, session: SessionFile) -> list[Command]:
        """Commands of the emulated bench, if there is one, and of the gateway."""
        table = ["--session", str(session.path), "--subsystem", self.name]
        overrides = [word for item in session.overrides for word in ("--set", item)]
        commands = []
        emulator = self.bench_options.emulator
        if emulator is not None:
            argv = ["hilrt", "emulate", emulator, *table, *overrides]
            reachable = any(fault.emulated == self.name for fault in session.tables.faults)
            if session.tables.adjusted_parameters(self.name):
                bench, reachable = _make_bench(self.name, self.bench_options, self.folder), True
                self.parameters = bench.parameters if isinstance(bench, AdjustableBench) else ()
            command = Command(f"{self.name}.emulator", argv, connects=False, takes_lines=reachable)
            commands.append(command)
        connect = ["--connect", self.hub.address, "--name", self.name]
        commands.append(Command(self.name, ["hilrt", "gateway", *table, *connect, *overrides]))
        return commands

    @functools.cached_property
    def _bench(self) -> Bench | None:
        """Signals of the ports, by the database; None if that has changed since the start."""
        try:
            return read_bench(self.name, self.bench_options, self.folder)
        except ConfigError:
            return None

    @property
    def sending_interval(self) -> float:  # type: ignore[override]
        """See `Link.sending_interval`."""
        return self._bench.sending_interval if self._bench else 0.0

    @property
    def fastest_interval(self) -> float:  # type: ignore[override]
        """See `Link.fastest_interval`."""
        return self._bench.fastest_interval if self._bench else 0.0

    @property
    def multiplexers(self) -> Sequence[str]:  # type: ignore[override]
        """See `Link.multiplexers`."""
        outputs = self._bench.outputs if self._bench else {}
        return [name for name, ref in outputs.items() if ref.signal.is_multiplexer]

    def _switch_fault(self, name: str, on: bool) -> None:
        """See `Link.switch_fault`."""
        if self.send_line is not None:
            self.send_line(f"{FAULT_WORD} {name} {on:d}")

    def set_parameter(self, name: str, value: float) -> str:
        """See `Link.set_parameter`; the emulator reports a refusal a moment later, by `on_line`."""
        if self.send_line is None:
            return "its emulator cannot be reached"
        self.send_line(f"{SET_WORD} {name} {value!r}")
        return ""

    def _on_line(self, line: str) -> None:
        """See `Link.on_line`: the reason why the emulator refuses a parameter."""
        word, _, text = line.partition(" ")
        if word == REFUSED_WORD:
            self._report(Event(level="warning", cause="parameter_refused", text=text))

    def step(self, tick: int, t: float, h: float, coefficients: bytes) -> Message:
        """See `RemoteLink.step`."""
        return SetPoints(tick=tick, t=t, h=h, coefficients=coefficients)

    def check_ports(self, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
        """Require the announced ports to be those of the session file."""
        for kind, ports, table in (
            ("inputs", inputs, self.bench_options.inputs),
            ("outputs", outputs, self.bench_options.outputs),
        ):
            announced = [port.name for port in ports]
            if announced != list(table):
                raise ProtocolError(
                    f"the gateway has the {kind} {announced}, the session file {list(table)}; "
                    "start it with the same file"
                )

    def initialized(self, message: Initialized) -> Sample:
        """The bench's first values, valid at the start."""
        return Sample(unpack(message.y, self.n_outputs).copy())

    async def arm(self, u0: Floats) -> None:
        """Enable the bench and bring its inputs to `u0`, shape (n_inputs,).

        Raises
        ------
        PeerLost
            If the bench does not enable, the gateway does not answer in time, or it has secured the
            bench: only a person may then enable it again.
        """
        self.hub.drain()  # this bench may not have been polled for a while
        if self._secured is not None:
            raise PeerLost(self.name, self._secured)
        options = self.bench_options
        timeout = (
            longest_ramp(options.inputs.values()) + (SETTLE_NS + SETTLE_TIMEOUT_NS) / NS + MARGIN
        )
        timeout += options.enable.timeout if options.enable else 0.0
        self._enabled = True
        await self.request(Arm(u0=pack(u0)), Armed, timeout)

    async def safe(self, reason: str) -> None:
        """Run the safe profile and wait for it; the hub logs failures."""
        if self.peer.connection is None or self.hub.closed:
            return
        with self.peer.despite_loss():  # a faulty bench leaves the gateway running
            try:
                self._rests(await self.request(Safe(reason=reason), Secured, self.safe_timeout))
            except PeerLost as error:
                self.gone(error.reason)
                self.unanswered(error.reason)

    async def stop(self, reason: str) -> None:
        """Run the safe profile and end the gateway."""
        with self.peer.despite_loss():
            await super().stop(reason)

    def unanswered(self, reason: str) -> None:
        """Note that the bench may not be at rest: its safe profile was not confirmed."""
        if self._enabled:
            self.not_at_rest = f"its gateway did not confirm that it brought it to rest: {reason}"

    def _rests(self, message: Secured) -> None:
        self._enabled = False
        self.not_at_rest = "" if message.complete else "not every input reached its safe value"

    def receive(self) -> None:
        """See `RemoteLink`; also raises `PeerLost` if the gateway has secured the bench."""
        super().receive()
        if self._secured is not None:
            raise PeerLost(self.name, self._secured)

    def received(self, message: FromPeer, at_ns: int) -> None:
        """Put measurements into the inbox; a report of the safe profile ends the session."""
        if isinstance(message, Measurements):
            hub, clock = self.hub, self.peer.clock
            self._count(message)
            zero = hub.epoch_ns + clock.offset_at(at_ns)  # session time 0 on its clock
            sample = Sample(vector(message.y))
            sample.t_valid = np.array([(t - zero) / 1e9 for t in message.t_valid_ns])
            if message.realised is not None:
                sample.realised = vector(message.realised)
            self.latest = sample.y
            if hub.epoch_ns:  # before that, only the bench runs
                self.inbox.put(sample, self.arrival_time(at_ns), uncertainty=clock.uncertainty)
        elif not isinstance(message, Secured):
            super().received(message, at_ns)
        elif not self._answer(message):
            self._rests(message)
            if not self.peer.stopping:
                self._secure(message)

    def _count(self, message: Measurements) -> None:
        """Count lost and dropped messages of the gateway, and missing measurements."""
        if self._seq >= 0:
            self.lost += max(0, message.seq - self._seq - 1)
        self._seq = max(self._seq, message.seq)
        if message.counters:
            self.lost += self._since("lost", message)
            self.dropped += sum(self._since(reason, message) for reason in NOT_USED)
            self._counters = message.counters

    def _since(self, key: str, message: Measurements) -> int:
        """Increase of a gateway's counter since the last message."""
        return message.counters.get(key, 0) - self._counters.get(key, 0)

    def _secure(self, message: Secured) -> None:
        self.hub.changed[self] = None
        complete = "" if message.complete else ", and not every input reached its safe value"
        self._secured = f"the gateway has run the safe profile: {message.reason}{complete}"
        waiting: list[asyncio.Future[Armed]] = [
            future for kind, future in self._pending.items() if kind is Armed
        ]
        for future in waiting:
            if not future.done():
                future.set_exception(PeerLost(self.name, self._secured))


def _emulated_messages(
    name: str, options: BenchOptions, folder: Path
) -> dict[str, EmulatedMessage]:
    """Messages of a session's emulated bench; `ConfigError` if it does not fit its bus."""
    bench = _make_bench(name, options, folder)
    found = BenchOnBus(
        bench, folder / options.database, options=options.messages, alive=options.alive
    ).sent_messages
    state, _, _ = ((options.enable and options.enable.state) or "").partition(".")
    return {name: one._replace(enables=name == state) for name, one in found.items()}


def _make_bench(name: str, options: BenchOptions, folder: Path) -> EmulatedBench:
    emulator = options.emulator or ""
    make = bench_maker(name, options, emulator, folder)
    return make() if make else make_bench(emulator)


def _check_emulator(name: str, options: BenchOptions, folder: Path, usable: bool) -> list[str]:
    """Problems of the emulated bench that the session starts, and of its scenario.

    A bench generated from the table is checked only if the table is `usable`.
    """
    table, emulator = f"[subsystems.{name}]", options.emulator
    if emulator is None or (emulator in BENCHES and options.scenario is None):
        return []
    key = f"emulator = {emulator!r}"
    try:
        make = bench_maker(name, options, emulator, folder)
        if make is not None and not usable:
            return []
        made = make() if make else make_bench(emulator)
        key = f"scenario = {options.scenario!r}"
        if options.scenario is not None:
            read_scenario(folder / options.scenario, made)
    except ConfigError as error:
        return [f"{table} {key}: {line}" for line in error.problems]
    return []
