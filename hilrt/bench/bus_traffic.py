"""Frames between a gateway and its bench: sending, receiving, recording, bus supervision."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from typing import Final

from hilrt.bench.guard_states import NS, BenchView, Level
from hilrt.bench.read_bench import Bench
from hilrt.can.bus import CanBus
from hilrt.can.bus_faults import BusWatch, Change, RestartSchedule
from hilrt.can.frame import BUS_ERRORS, Frame
from hilrt.can.message_stats import Refusal, RefusedFrames
from hilrt.can.receiver import Receiver
from hilrt.can.sender import Sender
from hilrt.record.frame_feed import FrameFeed

#: Interval at which a vanished interface is searched for, ns.
REVIVE_EVERY_NS = NS // 2
#: Interval at which the controller's state is polled, ns.
POLL_EVERY_NS = NS // 10
_RESTART_REMEDIES = {
    errno.EPERM: "the gateway needs the capability CAP_NET_ADMIN, or the interface restart-ms",
    errno.EOPNOTSUPP: "its driver has no restart: set the interface down and up again",
    errno.EBUSY: "it is no longer bus-off, or restarts automatically (restart-ms)",
}
#: Number of different send errors that get an event each.
MAX_ERROR_KINDS = 8


#: Sources of frames' time stamps, as text.
STAMPS: Final = {
    "hardware": "by the interface's hardware, mapped to this machine's clock",
    "device": "by the device, mapped to this machine's clock",
    "kernel": "by the kernel",
    "none": "none: the time at which a frame is read is used",
}


class BusTraffic:
    """Sends, receives and records the frames on the bus, and monitors the bus.

    Parameters
    ----------
    bench : Bench
    bus : CanBus
        An open bus.
    event : callable
        Reports an event to the master; called with level, cause and text.
    clock : callable
        Monotonic clock, ns.
    frames : FrameFeed, optional
        Records the frames on the bus.

    Attributes
    ----------
    sender : Sender
    receiver : Receiver
    realised : list of float
        The bench's measurement of each input, in the inputs' units; NaN if not measured.
    """

    def __init__(
        self,
        bench: Bench,
        bus: CanBus,
        event: Callable[[Level, str, str], None],
        clock: Callable[[], int] = time.monotonic_ns,
        frames: FrameFeed | None = None,
    ) -> None:
        self.bus = bus
        self.frames = frames
        self._bench = bench
        self._event = event
        self._clock = clock
        options = bench.options
        self.sender = Sender(
            list(bench.inputs.values()), bench.request, options.alive, options.messages
        )
        self.receiver = Receiver(
            bench.outputs,
            bench.state,
            options.alive,
            options.timeouts.bench,
            own=self.sender.messages,
            clock=clock,
            options=options.messages,
            system_clock=bus.system_clock,
        )
        self.realised = bench.realised(self.receiver.y)
        self._watch = BusWatch()
        self._refused = RefusedFrames(self.receiver.stats)
        self._revived_at = self._good_frames = self._polled_at = 0
        self._schedule = RestartSchedule(options.bus_off_recovery)
        self._restarting = False
        self._send_errors = 0
        self._error_kinds: set[str] = set()

    def view(self, now: int) -> BenchView:
        """State of the bench at `now` [ns]."""
        ratio, text = self.receiver.overdue(now)
        return BenchView(self.realised, self.receiver.enabled, ratio, text)

    def receive(self) -> bool:
        """Receive the frames that have arrived; return whether any output is new."""
        frames = self.bus.drain()
        if frames and self.frames is not None:
            self.frames.received(frames if self.bus.system_clock else self.receiver.timed(frames))
        if not self.receiver.receive(frames):
            return False
        self.realised = self._bench.realised(self.receiver.y)
        return True

    def send(self, frames: Sequence[Frame]) -> None:
        """Send frames, and record those that were sent."""
        sent = [frame for frame in frames if self._send_one(frame)]
        if sent and self.frames is not None:
            self.frames.sent(sent)

    def _send_one(self, frame: Frame) -> bool:
        """Send a frame; return whether it was sent."""
        try:
            self.bus.send(frame)
            self._watch.sent(0, ok=True)
        except BUS_ERRORS as error:
            self._watch.sent(self._clock(), ok=False)
            self._send_errors += 1
            kind = f"{type(error).__name__}: {error}"
            if kind not in self._error_kinds and len(self._error_kinds) < MAX_ERROR_KINDS:
                self._error_kinds.add(kind)
                text = f"frame {frame.text} was not sent: {kind}; check the bus"
                self._event("error", "send_error", text)
            return False
        return True

    def watch_bus(self, now: int) -> list[Change]:
        """Check the bus at `now` [ns]; return faults that appeared or cleared, except ignored ones.

        A vanished interface is opened again.
        """
        watch, frames = self._watch, self.receiver.frames
        # Count good frames first: those from before a bus-off do not prove that it is over.
        if frames != self._good_frames:
            self._good_frames = frames
            watch.heard(now)
        watch.errors(now, self.receiver.error_frames)
        self.receiver.error_frames.clear()
        if now - self._polled_at > POLL_EVERY_NS:
            self._polled_at = now
            watch.controller(self.bus.bus_off())
        self._recover(now)
        if self.bus.down and now - self._revived_at > REVIVE_EVERY_NS:
            self._revived_at = now
            if self.bus.revive():
                self.receiver.reset_clock()
        changes = watch.update(now, self.bus.down)
        return [change for change in changes if self.policy(change) != "ignore"]

    def time_stamps(self) -> str:
        """Source of the received frames' time stamps, as text."""
        return STAMPS[self.bus.stamps or self.receiver.stamps()]

    def refused_frames(self, now: int) -> list[Refusal]:
        """Reports on rejected frames, if due at `now` [ns]."""
        return self._refused.poll(now)

    def _recover(self, now: int) -> None:
        """Restart a controller that is bus-off, as configured in the session file."""
        schedule = self._schedule
        if not self._restarting and not schedule.due(now, "bus_off" in self._watch.active):
            return
        begins, self._restarting = not self._restarting, True
        try:
            self._restarting = not self.bus.restart()
        except OSError as error:
            self._restarting = False
            remedy = _RESTART_REMEDIES.get(error.errno or 0, "restart it by hand")
            text = f"the controller cannot be restarted: {error}; {remedy}"
            self._event("error", "can_bus_off_recovery", text)
            return
        if begins:
            text = f"the controller is restarted after bus-off, attempt {schedule.text()}"
            if schedule.exhausted:
                text += "; if it leaves the bus again, it stays off"
            self._event("warning", "can_bus_off_recovery", text)
        if not self._restarting and not self.bus.system_clock:
            self.receiver.reset_clock()

    @property
    def cut_off(self) -> bool:
        """Whether the bench cannot be reached by any frame."""
        return not self._watch.active.isdisjoint(("bus_off", "interface_down"))

    def policy(self, change: Change) -> str:
        """Reaction to a fault, from the session file: safe, warn or ignore."""
        policy: str = getattr(self._bench.options.bus_faults, change.cause)
        return policy

    def counters(self) -> dict[str, int]:
        """Frames, faults and errors counted since the start."""
        return {
            **self.receiver.counters,
            **self._watch.counters,
            "restarts": self._schedule.attempts,
            "receive_errors": self.bus.errors,
            "send_errors": self._send_errors,
            "frames_unrecorded": 0 if self.frames is None else self.frames.dropped,
        }
