"""``hilrt gateway``: the process that owns a bench's CAN bus, guards it, and serves the master.

One thread, one loop: what the master sent, what the `Guardian` makes of it, frames out, frames in,
measurements to the master. The safe profile needs nobody but this process, so whatever happens to
the master, and on SIGTERM, it runs first and only then the process ends.
"""

from __future__ import annotations

import contextlib
import math
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import can
import zmq
from zmq.backend import zmq_poll

from hilrt.bench.bench_table import Bench
from hilrt.bench.guardian import DRIVING, NS, SILENT, BenchView, Guardian, Notice, State
from hilrt.can.bus import CanBus
from hilrt.can.bus_faults import BusWatch
from hilrt.can.frame import Frame
from hilrt.can.receiver import Receiver
from hilrt.can.sender import Sender
from hilrt.errors import ProtocolError
from hilrt.exchange import wire
from hilrt.exchange.peer import Peer
from hilrt.record.frame_feed import FrameFeed
from hilrt.timing.host import parent_alive

#: Longest sleep: signals, the parent's end and silence are noticed at least that often, ms.
MAX_WAIT_MS = 20
#: A pass that begins this long after the one before tells of a loop that was not let run, ns.
ABSENT_NS = 30_000_000
#: What nothing wakes the loop for (signals, the parent's end, heartbeats) is looked at that often.
HOUSEKEEPING_NS = 10_000_000
#: How long the bench may take to be heard completely before the first exchange, s.
FIRST_FRAMES_TIMEOUT = 10.0
#: Late set-points are answered at most that often, ns.
ANSWER_AGAIN_NS = 20_000_000
#: A secured gateway that hears nothing from the master for that long ends, s.
ABANDONED_S = 60.0
#: Counters go with every so many measurements.
COUNTERS_EVERY = 20
#: Measurements are not sent to a master that has been silent for longer, ns: they would be stale
#: when it reads them, and bury what matters.
MASTER_READS_NS = NS // 2
#: An interface that is gone is looked for that often, ns.
REVIVE_EVERY_NS = NS // 2
#: Garbage is collected that often, and only if it takes less than that, ns.
COLLECT_EVERY_NS = NS
COLLECT_WITHIN_NS = 2_000_000
#: Different send errors that are told apart in events.
MAX_ERROR_KINDS = 8


class Gateway:
    """The loop.

    Parameters
    ----------
    bench : Bench
    bus : CanBus
        Open.
    peer : Peer
        Connected and welcomed.
    idle_timeout : float
        Silence of the master that brings the safe profile on while no set-points are due, s.
    parent : int, optional
        Process whose end is a reason to end; None: nobody's.
    clock : callable
        Monotonic clock, ns.
    frames : FrameFeed, optional
        Records what is on the bus.
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
        self.frames = frames
        self.bus = bus
        self.peer = peer
        self.parent = parent
        self.clock = clock
        self.guardian = Guardian(bench.limits, bench.guard_settings(idle_timeout))
        options = bench.options
        self.sender = Sender(
            list(bench.inputs.values()), bench.request, options.alive, options.messages
        )
        self.receiver = Receiver(
            bench.outputs,
            bench.state,
            options.alive,
            options.bench_timeout,
            own=self.sender.messages,
            clock=clock,
            options=options.messages,
            system_clock=bus.system_clock,
        )
        #: Collects garbage if it fits into the time given, ns.
        self.collect: Callable[[int], bool] = lambda slack_ns: False
        self.bus_watch = BusWatch()
        self._revived_at = self._frames_before = 0
        self._collected_at = self._cycled_at = clock()
        self._absences = 0
        self._house_at = 0
        self._realised = self.bench.realised(self.receiver.y)
        self.terminated = False  # set by a signal handler, or another thread
        self._ending = False
        self._stop_asked = False
        self._initialize_by: int | None = None
        # As wire.pack, without an array around so few numbers.
        self._pack_y = struct.Struct(f"<{len(bench.outputs)}d").pack
        self._pack_u = struct.Struct(f"<{len(bench.inputs)}d").pack
        self._seq = 0
        self._send_errors = 0
        self._malformed = 0
        self._error_kinds: set[str] = set()
        self._written = ""
        self._answered_at = 0
        self._master_seen = clock()
        self.guardian.master_seen(self._master_seen)

    def run(self) -> int:
        """Serve until told to stop, abandoned or terminated; the process's exit status."""
        line, fd = self.peer.line.pollable, self.bus.fileno()
        while not self._done():
            ready = self._wait(line, fd)
            try:
                # A system call that finds nothing costs as much as one that does.
                self.cycle(line in ready, fd in ready)
            except Exception as error:
                # A defect of this program must not leave the bench running: from here on only
                # the safe profile, without what may raise again.
                traceback.print_exc()
                return self._secure_blind(f"{type(error).__name__}: {error}")
        if self.frames is not None:
            self.frames.flush()  # before the master hears that this is all
        text = self.receiver.report()
        self.peer.send(wire.Event(level="info", cause="can_messages", text=text))
        if self._stop_asked:
            self.peer.send(wire.Stopped())
        return 0

    def _wait(self, line: Any, fd: int) -> list[Any]:
        """Sleep until there is something to do; which of the two has something."""
        # What is left of a master or an interface that is gone is readable for ever.
        sources = [] if self.peer.line.broken else [(line, int(zmq.POLLIN))]
        if not self.bus.down:
            sources.append((fd, int(zmq.POLLIN)))
        if not sources:  # with none the library returns at once
            time.sleep(self._wait_ms() * 1e-3)
            return []
        # Straight to the library: its Poller rebuilds this list at every call.
        return [source for source, _ in zmq_poll(sources, self._wait_ms())]

    def _wait_ms(self) -> int:
        """How long there is nothing to do unless something comes, ms."""
        now = self.clock()
        wait = self.guardian.wait_ns(now)
        if wait is None:
            return MAX_WAIT_MS
        return min(MAX_WAIT_MS, -(-int(min(wait, self.sender.wait_ns(now))) // 1_000_000))

    def cycle(self, master: bool = True, bench: bool = True) -> None:
        """One pass: the master's messages, the guardian, frames out, frames in, the answers.

        Parameters
        ----------
        master, bench : bool
            Whether something has come from there.
        """
        # Set-points first, frames after: a bus that delivers own frames has them by then, and
        # one wake-up serves both.
        now = self.clock()
        if now - self._cycled_at > ABSENT_NS:
            self._excuse(now, now - self._cycled_at)
        self._cycled_at = now
        house = self.terminated or now >= self._house_at
        for message in self.peer.receive() if master or house else ():
            self._master_seen = self.clock()
            self.guardian.master_seen(self._master_seen)
            try:
                self._handle(message)
            except ProtocolError as error:
                self._malformed += 1
                if self._malformed == 1:
                    text = f"a message of the master is dropped: {error}"
                    self.peer.send(wire.Event(level="warning", cause="malformed", text=text))
        now = self.clock()
        if house:
            self._house_at = now + HOUSEKEEPING_NS
            self._watch_over(now)
            if self.frames is not None:
                self.frames.keep()
        self._demand(now)
        if (bench or house) and self.receiver.take(self._drain()):
            self._realised = self.bench.realised(self.receiver.y)
            if now - self._master_seen < MASTER_READS_NS:
                self._measurements()
        if house or self.receiver.error_frames:
            self._watch_bus(now)
        if self._initialize_by is not None:
            self._initialized(now)
        for notice in self.guardian.notices:
            self._pass_on(notice)
        self.guardian.notices.clear()
        if now - self._collected_at > COLLECT_EVERY_NS:
            self._collected_at = now
            self.collect(COLLECT_WITHIN_NS)

    def _drain(self) -> list[Frame]:
        frames = self.bus.drain()
        if frames and self.frames is not None:
            self.frames.received(frames if self.bus.system_clock else self.receiver.timed(frames))
        return frames

    def _demand(self, now: int) -> None:
        """Send what the guardian says, when each message is due."""
        guardian, before = self.guardian, self.guardian.state
        u = guardian.step(now, self._view(now))
        if guardian.state in SILENT:
            if before is State.WITHDRAWING:
                self._send(self.sender.last(guardian.sent))
            return
        if u is not None and guardian.state is State.WITHDRAWING:
            frames = self.sender.frames(u, guardian.enable)
        else:
            frames = self.sender.due(now, guardian.sent, guardian.enable, u is not None)
        self._send(frames)

    def _secure_blind(self, reason: str) -> int:
        """Bring the bench down on knowledge of the demands alone, then end with status 1."""
        guardian = self.guardian
        guardian.secure(self.clock(), "gateway_fault", f"the gateway failed: {reason}")
        blind = BenchView([math.nan] * len(self.bench.inputs), enabled=False, overdue=math.inf)
        while guardian.state not in SILENT:
            time.sleep((guardian.wait_ns(self.clock()) or 0) / NS)
            u = guardian.step(self.clock(), blind)
            for frame in self.sender.frames(u, guardian.enable) if u is not None else ():
                with contextlib.suppress(can.CanError, OSError):
                    self.bus.send(frame)
        self.peer.send(wire.Error(text=guardian.reason))
        return 1

    def _done(self) -> bool:
        return self._ending and self.guardian.state in SILENT and not self.guardian.notices

    # ---- from the master -------------------------------------------------------------------

    def _handle(self, message: wire.FromMaster) -> None:
        guardian, now = self.guardian, self.clock()
        match message:
            case wire.SetPoints():
                self._set_points(message, now)
            case wire.Arm():
                u0 = wire.unpack(message.u0, len(self.bench.inputs))
                guardian.arm(now, u0.tolist(), self._view(now))
            case wire.Safe():
                guardian.secure(now, "safe", message.reason, fault=False)
            case wire.Stop():
                self._stop_asked = self._ending = True
                guardian.secure(now, "stop", message.reason, fault=False)
            case wire.Error():
                self._ending = True
                guardian.secure(now, "master_error", f"the master gave up: {message.text}")
            case wire.Initialize():
                self._initialize_by = now + int(FIRST_FRAMES_TIMEOUT * NS)

    def _set_points(self, message: wire.SetPoints, now: int) -> None:
        coefficients = wire.unpack(message.coefficients, -1, len(self.bench.inputs))
        if len(coefficients) == 0:
            raise ProtocolError("set-points without coefficients")
        # The value at t, which is the first Taylor coefficient: the master has shifted the
        # polynomial by the actuation delay already.
        if self.guardian.demand(now, message.tick, coefficients[0].tolist()):
            return
        if self.guardian.state is State.SECURED and now - self._answered_at > ANSWER_AGAIN_NS:
            # The master may have slept through it: tell it again that nothing is forwarded.
            self._answered_at = now
            self.guardian.secure(now, "late", "late set-points")

    # ---- by itself -------------------------------------------------------------------------

    def _watch_over(self, now: int) -> None:
        """Reasons to end that no message brings."""
        orphan = self.parent is not None and not parent_alive(self.parent)
        if (self.terminated or orphan) and not self._ending:
            self._ending = True
            cause = "parent_died" if orphan else "terminated"
            text = "the process that started the gateway is gone"
            if not orphan:  # yet: the kernel sends it when that process dies
                text = f"SIGTERM, from somebody or because {text}"
            self.guardian.secure(now, cause, text, fault=orphan)
        if self.guardian.state in SILENT and now - self._master_seen > ABANDONED_S * NS:
            self._ending = True

    def _excuse(self, now: int, absence: int) -> None:
        """Blame nobody for what this process could not hear while the machine did not let it run.

        Who is silent then is found out one timeout later. What the bench sent meanwhile is still
        in the socket, but the master's messages come through a thread that was held up, too.
        """
        self._absences += 1
        self.receiver.excuse(now, absence)
        self.guardian.excuse(now, absence)

    def _watch_bus(self, now: int) -> None:
        """Tell of faults of the bus that came or went, and act as the session file says."""
        watch, frames = self.bus_watch, self.receiver.counters["frames"]
        watch.errors(now, self.receiver.error_frames)
        self.receiver.error_frames.clear()
        if frames != self._frames_before:
            self._frames_before = frames
            watch.heard(now)
        if self.bus.down and now - self._revived_at > REVIVE_EVERY_NS:
            self._revived_at = now
            if self.bus.revive():
                self.receiver.start_clock_anew()
        for change in watch.update(now, self.bus.down):
            policy = getattr(self.bench.options.bus_faults, change.cause)
            if policy == "ignore":
                continue
            acts = policy == "safe" and change.raised and self.guardian.state in DRIVING
            if acts:
                self.guardian.secure(now, f"can_{change.cause}", change.text)
            else:
                event = wire.Event(
                    level="warning" if change.raised else "info",
                    cause=f"can_{change.cause}",
                    text=change.text,
                )
                self.peer.send(event)

    def _view(self, now: int) -> BenchView:
        ratio, text = self.receiver.overdue(now)
        return BenchView(self._realised, self.receiver.enabled, ratio, text)

    def _send(self, frames: list[Frame]) -> None:
        left = [frame for frame in frames if self._leaves(frame)]
        if left and self.frames is not None:
            self.frames.sent(left)

    def _leaves(self, frame: Frame) -> bool:
        """Send a frame; whether it left."""
        try:
            self.bus.send(frame)
            self.bus_watch.sent(0, ok=True)
        except (can.CanError, OSError) as error:
            self.bus_watch.sent(self.clock(), ok=False)
            self._send_errors += 1
            kind = f"{type(error).__name__}: {error}"
            if kind not in self._error_kinds and len(self._error_kinds) < MAX_ERROR_KINDS:
                self._error_kinds.add(kind)
                text = f"frame {frame.text} did not leave: {kind}; check the bus"
                self.peer.send(wire.Event(level="error", cause="send_error", text=text))
            return False
        return True

    def counters(self) -> dict[str, int]:
        """Everything counted since the start."""
        return {
            **self.receiver.counters,
            **self.guardian.counters,
            **self.bus_watch.counters,
            "receive_errors": self.bus.errors,
            "send_errors": self._send_errors,
            "malformed": self._malformed,
            "absences": self._absences,
            "frames_unrecorded": 0 if self.frames is None else self.frames.dropped,
        }

    # ---- to the master ---------------------------------------------------------------------

    def _measurements(self) -> None:
        self.peer.send(
            wire.Measurements(
                seq=self._seq,
                tick=self.guardian.tick,
                y=self._pack_y(*self.receiver.y),
                t_valid_ns=self.receiver.t_valid_ns,
                realised=self._pack_u(*self._realised),
                # Totals, and the master decodes this in its critical path: now and then will do.
                counters=self.counters() if self._seq % COUNTERS_EVERY == 0 else {},
            )
        )
        self._seq += 1

    def _initialized(self, now: int) -> None:
        assert self._initialize_by is not None
        if self.receiver.complete():
            self._initialize_by = None
            y = self._pack_y(*self.receiver.y)
            self.peer.send(wire.Initialized(y=y, t_valid_ns=self.receiver.t_valid_ns))
        elif now > self._initialize_by:
            self._initialize_by = None
            self.peer.send(wire.Error(text=self._not_heard()))

    def _not_heard(self) -> str:
        """What the bench has not sent in time for the first exchange, and what to do about it."""
        messages, forms = self.receiver.missing(), self.receiver.missing_forms()
        remedies = []
        if messages:
            remedies.append(
                "check that the bench is on, the bus and its bit rate, and the database"
            )
        if forms:
            remedies.append(
                "have the bench send such frames, or leave their outputs out, and compare the"
                " multiplexer's values with the database"
            )
        missing = ", ".join([*messages, *forms])
        return f"not received within {FIRST_FRAMES_TIMEOUT:g} s: {missing}; {'; '.join(remedies)}"

    def _pass_on(self, notice: Notice) -> None:
        self._write_down(notice)
        message: wire.Message
        match notice.kind:
            case "armed":
                message = wire.Armed()
            case "secured":
                message = wire.Secured(reason=notice.text, complete=notice.complete)
            case "failed":
                message = wire.Error(text=notice.text)
            case _:
                message = wire.Event(level=notice.level, cause=notice.cause, text=notice.text)
        self.peer.send(message)

    def _write_down(self, notice: Notice) -> None:
        """In the process's own log, too: there may be no master left to tell."""
        text = notice.text
        if notice.kind == "secured":
            text = f"bench secured{'' if notice.complete else ', but not completely'}: {text}"
        worth = notice.level != "info" or notice.kind in ("secured", "failed")
        if worth and text != self._written:  # it may be repeated to a master that is late
            self._written = text
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
