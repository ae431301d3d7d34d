"""The process of ``hilrt gateway``: reads its table in the session file and runs a `Gateway`."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import zmq
from zmq.backend import zmq_poll

from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.bus_traffic import BusTraffic
from hilrt.bench.guard_states import DRIVING, NS, SILENT, BenchView, GuardState
from hilrt.bench.guardian import WITHDRAW_SENDS, Guardian
from hilrt.bench.master_dialogue import MasterDialogue
from hilrt.bench.read_bench import Bench, read_bench
from hilrt.can.bus import CanBus, open_bus
from hilrt.can.frame import BUS_ERRORS
from hilrt.can.sender import refuse_conflicts
from hilrt.config.from_toml import nearest
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError, ExitStatus, HilrtError
from hilrt.peers import wire
from hilrt.peers.peer import Peer
from hilrt.record import frame_feed
from hilrt.record.frame_feed import FrameFeed
from hilrt.solver import Port
from hilrt.timing.host import freeze_gc
from hilrt.timing.parent import die_with_parent, parent_alive
from hilrt.timing.realtime import granted_priority, request_short_slice, set_priority

#: Missing heartbeats after which the master counts as silent.
IDLE_HEARTBEATS = 10


def main(
    session: Path, subsystem: str, connect: str, name: str, overrides: Sequence[str] = ()
) -> int:
    """Run the gateway of one subsystem of a session file.

    Parameters
    ----------
    session : Path
        The session file.
    subsystem : str
        Name of the subsystem's table in it.
    connect : str
        The master's address.
    name : str
        Name to connect under.
    overrides : sequence of str
        ``table.key=value`` changes to the file.

    Returns
    -------
    int
        Exit status: 0 orderly end with the bench secured; 2 wrong configuration; 3 no session to
        serve; 70 defect in the gateway.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the session handles Ctrl-C, and ends gateways
    request_short_slice()  # in case no session started this process
    parent = os.getppid()
    peer: Peer | None = None
    try:
        options, priority, folder = _read_table(session, subsystem, overrides)
        try:
            bench = read_bench(subsystem, options, folder)
        except ConfigError:
            # With these port names the master accepts the connection, and so receives the reason.
            peer = _connect(connect, name, options.inputs, options.outputs)
            raise
        peer = Peer(connect, name, "gateway", bench.ports.inputs, bench.ports.outputs)
        peer.connect()
        label = f"[subsystems.{subsystem}] bus"
        refuse_conflicts(options.bus, bench.driven, label)
        bus = open_bus(options.bus, bench.received, label)
        # The gateway of an emulated bench is scheduled like the emulator.
        if priority != "auto" or not options.emulated:
            set_priority(granted_priority(priority))  # a refusal was reported by the master
        frames = open_frames(subsystem, bench)
        try:
            return _serve(bench, bus, peer, parent, frames)
        finally:
            if frames is not None:
                frames.close()
            bus.close()
    except ConfigError as error:
        print(error, file=sys.stderr, flush=True)
        if peer is not None:
            peer.send(wire.Error(text=str(error)))
        return 2
    except HilrtError as error:
        print(error, file=sys.stderr, flush=True)
        return 3
    finally:
        if peer is not None:
            peer.close()


def open_frames(subsystem: str, bench: Bench) -> FrameFeed | None:
    """Open the connection to the recorder of frames; None if frames are not recorded."""
    address = os.environ.get(frame_feed.VARIABLE)
    if not address or not bench.options.record_frames:
        return None
    return FrameFeed(address, subsystem)


def _serve(bench: Bench, bus: CanBus, peer: Peer, parent: int, frames: FrameFeed | None) -> int:
    idle = bench.options.idle_timeout or IDLE_HEARTBEATS * peer.heartbeat_s
    gateway = Gateway(bench, bus, peer, idle, parent, frames=frames)
    for text in bench.narrower:
        gateway.dialogue.event("warning", "narrower_limits", text)

    def terminate(number: int, frame: object) -> None:
        gateway.terminated = True

    signal.signal(signal.SIGTERM, terminate)
    die_with_parent(signal.SIGTERM, parent)
    with freeze_gc() as collect:
        gateway.collect = collect
        return gateway.run()


def _read_table(
    session: Path, subsystem: str, overrides: Sequence[str]
) -> tuple[BenchOptions, Literal["auto"] | int, Path]:
    file = load_session(session, overrides)
    options = file.tables.subsystems.get(subsystem)
    if options is None:
        known = nearest(subsystem, file.tables.subsystems)
        raise ConfigError(f"{file.path.name}: there is no [subsystems.{subsystem}]{known}")
    if not isinstance(options, BenchOptions):
        raise ConfigError(
            f"{file.path.name}: [subsystems.{subsystem}] adapter = {options.adapter!r}: "
            'has no gateway; only adapter = "can" has'
        )
    return options, file.tables.master.pacing.priority, file.folder


def _connect(address: str, name: str, inputs: Iterable[str], outputs: Iterable[str]) -> Peer:
    ports = [Port(n) for n in inputs], [Port(n) for n in outputs]
    peer = Peer(address, name, "gateway", *ports)
    with contextlib.suppress(HilrtError):
        peer.connect()
    return peer


# The loop of ``hilrt gateway``, which owns a bench's CAN bus, guards the bench, and serves the
# master.
#
# One thread runs one loop: messages from the master, reactions of the `Guardian`, frames out,
# frames in, measurements to the master. The safe profile needs no other process: if the master
# fails, or on SIGTERM, it is completed before the process ends.

#: Longest sleep, so that signals, the parent's end and silence are detected in time, ms.
MAX_WAIT_MS = 20
#: A gap between two passes of at least this counts as a stall of the loop, ns.
STALL_NS = 30_000_000
#: Interval of checks for which nothing wakes the loop (signals, the parent's end, heartbeats), ns.
HOUSEKEEPING_NS = 10_000_000
#: A secured gateway ends after receiving nothing from the master for this long, s.
ABANDONED_S = 60.0
#: Interval of garbage collections, and the longest time that one may take, ns.
COLLECT_EVERY_NS = NS
COLLECT_WITHIN_NS = 2_000_000


class Gateway:
    """Main loop of a gateway.

    Parameters
    ----------
    bench : Bench
    bus : CanBus
        An open bus.
    peer : Peer
        Connected and accepted by the master.
    idle_timeout : float
        Silence of the master that triggers the safe profile while no set-points are due, s.
    parent : int, optional
        Process whose end also ends the gateway; None: there is none.
    clock : callable
        Monotonic clock, ns.
    frames : FrameFeed, optional
        Records the frames on the bus.

    Attributes
    ----------
    terminated : bool
        Set by a signal handler or another thread to end the loop.
    collect : callable
        Collects garbage if that takes less than the given time, ns.
    """

    def __init__(
        self,
        bench: Bench,
        bus: CanBus,
        peer: Peer,
        idle_timeout: float = 2.0,
        parent: int | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        frames: FrameFeed | None = None,
    ) -> None:
        self.bench = bench
        self.parent = parent
        self.clock = clock
        self.frames = frames
        self.guardian = Guardian(bench.limits, bench.guard_settings(idle_timeout))
        n_inputs, n_outputs = len(bench.inputs), len(bench.outputs)
        self.dialogue = MasterDialogue(peer, self.guardian, n_inputs, n_outputs, clock)
        self.traffic = BusTraffic(bench, bus, self.dialogue.event, clock, frames)
        self.terminated = False
        self.collect: Callable[[int], bool] = lambda slack_ns: False
        self._ending = False
        self._cycled_at = self._collected_at = clock()
        self._housekeeping_at = 0
        self._end_missed = False  # the safe profile ended while the bench was unreachable
        self._stalls = 0

    def run(self) -> int:
        """Serve until stopped, abandoned or terminated; return the process's exit status."""
        peer = self.dialogue.peer
        line, fd = peer.transport.pollable, self.traffic.bus.fileno()
        while not self.ended:
            ready = self.wait(line, fd)
            try:
                # A system call that finds nothing takes as long as one that does.
                self.cycle(line in ready, fd in ready)
            except Exception as error:
                # A bug must not leave the bench running: from here on only the safe profile runs,
                # without code that may raise again.
                traceback.print_exc()
                return self.secure_blind(f"{type(error).__name__}: {error}")
        if self.frames is not None:
            self.frames.flush()  # before the session ends
        self.dialogue.event("info", "can_messages", self.traffic.receiver.report())
        stamps = f"time stamps of received frames: {self.traffic.time_stamps()}"
        self.dialogue.event("info", "can_time_stamps", stamps)
        if self.dialogue.stop_asked:
            peer.send(wire.Stopped())
        return 0

    @property
    def ended(self) -> bool:
        """Whether the end was requested, the bench is secured, and this has been reported."""
        ending = self._ending or self.dialogue.ends
        return ending and self.guardian.state in SILENT and not self.guardian.notices

    def wait(self, line: Any, fd: int) -> list[Any]:
        """Sleep until there is something to do; return which of the two sources is readable."""
        # The descriptor of a vanished master or interface stays readable forever.
        sources = [] if self.dialogue.peer.transport.broken else [(line, int(zmq.POLLIN))]
        if not self.traffic.bus.down:
            sources.append((fd, int(zmq.POLLIN)))
        if not sources:  # with an empty list the library returns at once
            time.sleep(self._wait_ms() * 1e-3)
            return []
        # Calls the library directly: its Poller rebuilds this list at every call.
        return [source for source, _ in zmq_poll(sources, self._wait_ms())]

    def _wait_ms(self) -> int:
        """Longest wait for messages or frames, until the next deadline, ms."""
        now = self.clock()
        wait = self.guardian.wait_ns(now)
        if wait is None:
            return MAX_WAIT_MS
        wait_ns = int(min(wait, self.traffic.sender.wait_ns(now)))
        return min(MAX_WAIT_MS, -(-wait_ns // 1_000_000))

    def cycle(self, master: bool = True, bench: bool = True) -> None:
        """Run one pass: the master's messages, the guardian, frames out, frames in, replies.

        Parameters
        ----------
        master, bench : bool
            Whether messages or frames of this origin have arrived.
        """
        # Send set-points before receiving frames: if the bus echoes own frames, one wake-up handles
        # both.
        traffic, dialogue = self.traffic, self.dialogue
        now = self.clock()
        if now - self._cycled_at > STALL_NS:
            self._exclude_stall(now, now - self._cycled_at)
        self._cycled_at = now
        housekeeping = self.terminated or now >= self._housekeeping_at
        if master or housekeeping:
            dialogue.receive(traffic)
        now = self.clock()
        if housekeeping:
            self._housekeeping_at = now + HOUSEKEEPING_NS
            self._check_end(now)
            if self.frames is not None:
                self.frames.keep()
        self._demand(now)
        if (bench or housekeeping) and traffic.receive():
            dialogue.measurements(now, traffic, self.counters)
        if housekeeping or traffic.receiver.error_frames:
            self._watch_bus(now)
        dialogue.reply(now, traffic.receiver)
        if now - self._collected_at > COLLECT_EVERY_NS:
            self._collected_at = now
            self.collect(COLLECT_WITHIN_NS)

    def _demand(self, now: int) -> None:
        """Send the guardian's set-points, when each message is due."""
        guardian, sender, before = self.guardian, self.traffic.sender, self.guardian.state
        u = guardian.step(now, self.traffic.view(now))
        if guardian.state in SILENT:
            if before is GuardState.WITHDRAWING:
                self._end_missed = self.traffic.cut_off
                self.traffic.send(sender.last(guardian.sent))
            return
        if u is not None and guardian.state is GuardState.WITHDRAWING:
            frames = sender.frames(u, guardian.enable)
        else:  # the guardian's own ramps advance more often than set-points arrive
            new = guardian.new_demand or (u is not None and guardian.state is not GuardState.ACTIVE)
            frames = sender.due(now, guardian.sent, guardian.enable, new)
        guardian.new_demand = False
        self.traffic.send(frames)

    def _check_end(self, now: int) -> None:
        """Check for reasons to end that no message announces."""
        orphan = self.parent is not None and not parent_alive(self.parent)
        if (self.terminated or orphan) and not (self._ending or self.dialogue.ends):
            self._ending = True
            cause = "parent_died" if orphan else "terminated"
            text = "the process that started the gateway has ended"
            if not orphan:  # SIGTERM may arrive before that process has ended
                text = f"SIGTERM, sent from outside or because {text}"
            self.guardian.secure(now, cause, text, fault=orphan)
        if self.guardian.state in SILENT and now - self.dialogue.heard_at > ABANDONED_S * NS:
            self._ending = True

    def _exclude_stall(self, now: int, stall: int) -> None:
        """Exclude time in which this process was stalled from the ages of received messages.

        A peer that really is silent is detected one timeout later. Frames that the bench sent
        meanwhile are still in the socket, but the thread that receives the master's messages was
        stalled, too.
        """
        self._stalls += 1
        self.traffic.receiver.leave_out(now, stall)
        self.guardian.leave_out(now, stall)

    def _watch_bus(self, now: int) -> None:
        """Report bus faults that appeared or cleared, and react as the session file specifies."""
        for change in self.traffic.watch_bus(now):
            cause = f"can_{change.cause}"
            if (
                change.raised
                and self.traffic.policy(change) == "safe"
                and self.guardian.state in DRIVING
            ):
                self.guardian.secure(now, cause, change.text)
            else:
                self.dialogue.event("warning" if change.raised else "info", cause, change.text)
        for cause, text, frames in self.traffic.refused_frames(now):
            self.dialogue.event("warning", cause, text, frames)
        if self._end_missed and not self.traffic.cut_off:
            self._end_missed = False
            self._withdraw_again()

    def _withdraw_again(self) -> None:
        """Repeat the frames that the bench missed: enable withdrawn, inputs at safe values."""
        guardian, traffic = self.guardian, self.traffic
        if guardian.state is not GuardState.SECURED:
            return
        for _ in range(WITHDRAW_SENDS):
            traffic.send(traffic.sender.frames(guardian.sent, enable=False))
        traffic.send(traffic.sender.last(guardian.sent))
        text = "the bus is back: the enable request is withdrawn once more, at the safe values"
        self.dialogue.event("info", "withdrawn_again", text)

    def secure_blind(self, reason: str) -> int:
        """Run the safe profile without measurements, then return status 70."""
        guardian, traffic = self.guardian, self.traffic
        guardian.secure(self.clock(), "gateway_fault", f"the gateway failed: {reason}")
        blind = BenchView([math.nan] * len(self.bench.inputs), enabled=False, overdue=math.inf)
        while guardian.state not in SILENT:
            time.sleep((guardian.wait_ns(self.clock()) or 0) / NS)
            u = guardian.step(self.clock(), blind)
            for frame in traffic.sender.frames(u, guardian.enable) if u is not None else ():
                with contextlib.suppress(*BUS_ERRORS):
                    traffic.bus.send(frame)
        self.dialogue.peer.send(wire.Error(text=guardian.reason))
        return ExitStatus.INTERNAL

    def counters(self) -> dict[str, int]:
        """All counts since the start."""
        return {
            **self.traffic.counters(),
            **self.guardian.counters,
            "malformed": self.dialogue.malformed,
            "absences": self._stalls,
        }
