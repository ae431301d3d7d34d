"""Faults of the bus: kind, time, and reaction. No I/O.

A `BusWatch` receives error frames, the results of sending, and the state of the interface; it
reports faults that appear and clear. If an interface reports no errors, a fault is detected by its
effect: nothing can be sent, or nothing is received.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

import msgspec

from hilrt.can.frame import (
    ACTIVE,
    BUS_ERROR,
    BUS_OFF,
    CONTROLLER,
    COUNTERS,
    ERROR,
    NO_ACKNOWLEDGE,
    OVERFLOW,
    PASSIVE,
    PROTOCOL,
    RESTARTED,
    WARNING,
    Frame,
    error_text,
)
from hilrt.config.session_tables import Positive, Table

NS = 1_000_000_000


class BusOffRecovery(Table):
    """``bus_off_recovery``: restart a controller that has left the bus (bus-off).

    Without this table it stays off, unless the interface restarts it.
    """

    #: [s] Time for which the controller stays off the bus before each restart.
    delay: Positive = 0.1
    #: Number of restarts in a session; after them the controller stays off.
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 3


class RestartSchedule:
    """Schedule of a controller's restarts. No I/O.

    Parameters
    ----------
    options : BusOffRecovery, optional
        None: never.

    Attributes
    ----------
    attempts : int
        Restarts so far.
    """

    def __init__(self, options: BusOffRecovery | None) -> None:
        self.attempts = 0
        self._options = options
        self._due_ns: int | None = None

    def due(self, now: int, off: bool) -> bool:
        """Whether to restart the controller at `now` [ns]; `off`: whether it is bus-off."""
        options = self._options
        if options is None or not off:
            self._due_ns = None
            return False
        if self._due_ns is None:
            self._due_ns = now + round(options.delay * NS)
        if now < self._due_ns or self.attempts >= options.attempts:
            return False
        self.attempts += 1
        self._due_ns = now + round(options.delay * NS)
        return True

    def text(self) -> str:
        """Number of the last attempt, as text."""
        options = self._options
        return f"{self.attempts} of {options.attempts}" if options is not None else ""

    @property
    def exhausted(self) -> bool:
        """Whether no attempts are left."""
        return self._options is not None and self.attempts >= self._options.attempts


Policy = Literal["safe", "warn", "ignore"]

#: Number of error frames within `WINDOW_NS` that is reported as a fault.
DISTURBED = 20
WINDOW_NS = 1_000_000_000
#: Time for which no frame could be sent that is reported as a fault, ns.
BLOCKED_NS = 50_000_000
#: Bits of error frames that indicate a state, not an error on the bus.
_STATES = ERROR | CONTROLLER | BUS_OFF | RESTARTED | COUNTERS
_OFF_TEXT = (
    "the controller has left the bus after too many errors (bus-off); check bit rate, termination "
    "and cable. Restart it by hand (ip link set CHANNEL type can restart), or set restart-ms, or "
    "bus_off_recovery in the session file"
)


class BusFaults(Table):
    """``bus_faults``: reactions to faults of the bus.

    "safe" runs the safe profile, "warn" only reports, "ignore" does neither; all are counted.
    """

    #: The controller has left the bus after too many errors.
    bus_off: Policy = "safe"
    #: The interface is down or gone; it is used again when it is back.
    interface_down: Policy = "safe"
    #: The controller no longer sends error flags: the last stage before bus-off.
    error_passive: Policy = "warn"
    #: More than 20 error frames per second: a wrong bit rate, a fault of cable or termination, or
    #: no other node that acknowledges.
    bus_errors: Policy = "warn"
    #: Any error frame; its content is an event, at most once a second.
    error_frames: Policy = "warn"
    #: No frame could be sent for 50 ms: the transmit buffer is full.
    not_sent: Policy = "safe"
    #: The controller or the kernel lost frames that arrived too fast.
    overflow: Policy = "warn"


class Change(NamedTuple):
    """A fault that appeared or cleared."""

    cause: str
    raised: bool
    text: str


class BusWatch:
    """Current faults of the bus.

    Attributes
    ----------
    active : set of str
        Current faults, by the names of `BusFaults`.
    counters : dict of str to int
        Number of error frames, and of occurrences of each fault.
    """

    def __init__(self) -> None:
        self.active: set[str] = set()
        self.counters = dict.fromkeys(BusFaults.__struct_fields__, 0)
        self._changes: list[Change] = []
        self._errors: deque[int] = deque(maxlen=DISTURBED)
        self._heard_at: int | None = None
        self._blocked_since: int | None = None
        self._reported_at: int | None = None  # of an error frame
        self._unreported = 0

    def errors(self, now: int, frames: Iterable[Frame]) -> None:
        """Process error frames received by `now` [ns]."""
        for frame in frames:
            self.counters["error_frames"] += 1
            kind, detail = frame.can_id, frame.data[1] if len(frame.data) > 1 else 0
            if kind & RESTARTED:
                self._clear("bus_off", "the controller is on the bus again")
            if kind & BUS_OFF:
                self._raise("bus_off", _OFF_TEXT)
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
            # Other states of the controller are faults of their own.
            if kind & ~_STATES or (kind & CONTROLLER and detail & WARNING):
                self._report_content(now, frame)

    def _report_content(self, now: int, frame: Frame) -> None:
        """Report the content of an error frame, with the number of unreported ones."""
        if self._reported_at is not None and now - self._reported_at < WINDOW_NS:
            self._unreported += 1
            return
        text = f"error frame: {error_text(frame)}"
        if self._unreported:
            text += f"; {self._unreported} more since the last report"
        self._reported_at, self._unreported = now, 0
        self._changes.append(Change("error_frames", True, text))

    def controller(self, off: bool | None) -> None:
        """Process the reported state of the controller; None if it is not reported."""
        if off:
            self._raise("bus_off", _OFF_TEXT)
        elif off is False:
            self._clear("bus_off", "the controller is on the bus again")

    def heard(self, now: int) -> None:
        """Record the reception of a good frame at `now` [ns]; none arrive while bus-off."""
        self._heard_at = now
        if self.active:
            self._clear("bus_off", "frames are received again")

    def sent(self, now: int, ok: bool) -> None:
        """Record the result of sending a frame at `now` [ns]."""
        if ok:
            self._blocked_since = None
            if self.active:
                self._clear("not_sent", "frames are sent again")
        elif self._blocked_since is None:
            self._blocked_since = now

    def update(self, now: int, down: bool) -> list[Change]:
        """Update the faults at `now` [ns]; return the changes. `down`: the interface is down."""
        if down:
            text = (
                "the CAN interface is down or missing; check ip link, and the cable or "
                "adapter; it is used again when it is back"
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
                f"no frame has been sent for {1e-6 * (now - blocked):.0f} ms: the transmit buffer "
                "is full; check that a node acknowledges, the bit rate and the bus load"
            )
            self._raise("not_sent", text)
        changes, self._changes = self._changes, []
        return changes

    def _disturbed(self, now: int) -> str:
        """Likely causes of the error frames, as text."""
        text = f"more than {DISTURBED} error frames per second"
        if self._heard_at is None or now - self._heard_at > WINDOW_NS:
            return (
                f"{text} and no valid frame: the bit rate is probably wrong, or the bus is not "
                "terminated"
            )
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
