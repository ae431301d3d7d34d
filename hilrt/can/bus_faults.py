"""Faults of the bus itself: what is wrong, since when, and what is done about it. No I/O.

A `BusWatch` is told of error frames, of what became of the frames sent, and of the interface; it
says which fault came and which went. Error frames come from SocketCAN (linux/can/error.h); with
other interfaces a fault shows by what it does: nothing leaves, nothing comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple

from hilrt.can.frame import Frame
from hilrt.config.structs import Table

Policy = Literal["safe", "warn", "ignore"]

# Classes of error frames, in their identifier, and details of the controller, in data byte 1.
CONTROLLER = 0x004
PROTOCOL = 0x008
NO_ACKNOWLEDGE = 0x020
BUS_OFF = 0x040
BUS_ERROR = 0x080
RESTARTED = 0x100
OVERFLOW = 0x03
PASSIVE = 0x30
ACTIVE = 0x40

#: Error frames within `WINDOW_NS` at which the bus counts as disturbed.
DISTURBED = 20
WINDOW_NS = 1_000_000_000
#: For so long nothing may leave before that counts as a fault, ns.
BLOCKED_NS = 50_000_000


class BusFaults(Table):
    """``bus_faults``: what to do about faults of the bus.

    "safe" runs the safe profile, "warn" tells, "ignore" does neither; all are counted.
    """

    #: The controller has left the bus after too many errors.
    bus_off: Policy = "safe"
    #: The interface is down, or gone.
    interface_down: Policy = "safe"
    #: The controller sends no error flags any more: the last stage before bus-off.
    error_passive: Policy = "warn"
    #: Many error frames: wrong bit rate, cabling, termination, or no node that acknowledges.
    bus_errors: Policy = "warn"
    #: Frames have not left for 50 ms: the transmit buffer is full.
    not_sent: Policy = "safe"
    #: The controller or the kernel lost frames that came too fast.
    overflow: Policy = "warn"


class Change(NamedTuple):
    """A fault that came or went."""

    cause: str
    raised: bool
    text: str


class BusWatch:
    """Which faults the bus has now.

    Attributes
    ----------
    active : set of str
        Faults, by the names of `BusFaults`.
    counters : dict of str to int
        Error frames, and how often each fault came.
    """

    def __init__(self) -> None:
        self.active: set[str] = set()
        self.counters = dict.fromkeys(("error_frames", *BusFaults.__struct_fields__), 0)
        self._changes: list[Change] = []
        self._errors: deque[int] = deque(maxlen=DISTURBED)
        self._heard_at: int | None = None
        self._blocked_since: int | None = None

    def errors(self, now: int, frames: Iterable[Frame]) -> None:
        """Take error frames that came by `now` [ns]."""
        for frame in frames:
            self.counters["error_frames"] += 1
            kind, detail = frame.can_id, frame.data[1] if len(frame.data) > 1 else 0
            if kind & RESTARTED:
                self._clear("bus_off", "the controller is on the bus again")
            if kind & BUS_OFF:
                self._raise(
                    "bus_off",
                    "the controller has left the bus after too many errors (bus-off); check bit "
                    "rate, termination and cable, and restart it: ip link set CHANNEL type can "
                    "restart, or give it restart-ms",
                )
            if kind & CONTROLLER and detail & PASSIVE:
                self._raise(
                    "error_passive",
                    "the controller is error-passive: frames are disturbed or not acknowledged; "
                    "check bit rate, termination, cable, and that the bench is on",
                )
            if kind & CONTROLLER and detail & ACTIVE:
                self._clear("error_passive", "the controller is error-active again")
            if kind & CONTROLLER and detail & OVERFLOW:
                self.counters["overflow"] += 1
                text = "the controller's buffer overflowed; frames are lost"
                self._changes.append(Change("overflow", True, text))
            if kind & (PROTOCOL | BUS_ERROR | NO_ACKNOWLEDGE):
                self._errors.append(now)

    def heard(self, now: int) -> None:
        """Note that a good frame came at `now` [ns]: none is heard while off the bus."""
        self._heard_at = now
        if self.active:
            self._clear("bus_off", "frames are received again")

    def sent(self, now: int, ok: bool) -> None:
        """Note what became of a frame at `now` [ns]."""
        if ok:
            self._blocked_since = None
            if self.active:
                self._clear("not_sent", "frames leave again")
        elif self._blocked_since is None:
            self._blocked_since = now

    def update(self, now: int, down: bool) -> list[Change]:
        """What came and went by `now` [ns]; `down` says that the interface is."""
        if down:
            text = (
                "the CAN interface is down or gone; look at ip link, and at the cable or adapter; "
                "it is used again when it is back"
            )
            self._raise("interface_down", text)
        else:
            self._clear("interface_down", "the CAN interface is back")
        if len(self._errors) == DISTURBED and now - self._errors[0] < WINDOW_NS:
            self._raise("bus_errors", self._disturbed(now))
        elif not self._errors or now - self._errors[-1] > WINDOW_NS:
            self._clear("bus_errors", "no more error frames")
        blocked = self._blocked_since
        if blocked is not None and now - blocked > BLOCKED_NS and not down:
            text = (
                f"no frame has left for {1e-6 * (now - blocked):.0f} ms: the transmit buffer is "
                "full; check that a node acknowledges, the bit rate and the bus load"
            )
            self._raise("not_sent", text)
        changes, self._changes = self._changes, []
        return changes

    def _disturbed(self, now: int) -> str:
        """Why there may be so many error frames."""
        text = f"more than {DISTURBED} error frames per second"
        if self._heard_at is None or now - self._heard_at > WINDOW_NS:
            return f"{text} and no good one: the bit rate is probably wrong, or the bus is open"
        return f"{text}; check termination, cable and other senders of these identifiers"

    def _raise(self, cause: str, text: str) -> None:
        if cause not in self.active:
            self.active.add(cause)
            self.counters[cause] += 1
            self._changes.append(Change(cause, True, text))

    def _clear(self, cause: str, text: str) -> None:
        if cause in self.active:
            self.active.remove(cause)
            self._changes.append(Change(cause, False, text))
