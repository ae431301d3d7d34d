"""Reception from a bench: newest values, and monitoring of the messages."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from cantools.database.can import Message

from hilrt.can.database import SignalRef
from hilrt.can.device_clock import ReceptionTimes
from hilrt.can.frame import ERROR, Frame
from hilrt.can.id_table import IdTable, is_j1939
from hilrt.can.j1939_transport import GroupAssembler
from hilrt.can.message_stats import REASONS, MessageStats
from hilrt.can.protection import MessageOptions
from hilrt.can.received_message import ReceivedContainer, ReceivedMessage

#: Interval at which forms of multiplexed messages are checked while none is missing, ns.
CHECK_EVERY_NS = 10_000_000


class Receiver:
    """Newest value of every output, enable state, and state of the reception.

    Parameters
    ----------
    outputs : mapping of str to SignalRef
        Output ports, in order.
    state : SignalRef, optional
        The signal that confirms the enable request.
    alive : str
        Default name of the counter signal of each message.
    timeout : float
        Age of a message at which it counts as silent, s; longer if its cycle time in the database
        requires it.
    own : iterable of Message
        Messages sent by the gateway, which some buses also deliver to their sender.
    clock : callable
        Monotonic clock, ns.
    options : mapping of str to MessageOptions, optional
        Options of individual messages, by name.
    system_clock : bool
        Whether frames carry times of this machine's clock; otherwise they may be a device's own.

    Attributes
    ----------
    y : list of float
        Newest values of the outputs, in the signals' units; NaN before the first.
    t_valid_ns : list of int
        Their times of reception on the monotonic clock; 0 before the first.
    enabled : bool
        The newest enable state; True if there is no such signal.
    error_frames : list of Frame
        For the bus watch, which takes and clears them.
    """

    def __init__(
        self,
        outputs: Mapping[str, SignalRef],
        state: SignalRef | None,
        alive: str,
        timeout: float,
        own: Iterable[Message] = (),
        clock: Callable[[], int] = time.monotonic_ns,
        options: Mapping[str, MessageOptions] | None = None,
        system_clock: bool = False,
    ) -> None:
        self.y = [math.nan] * len(outputs)
        self.t_valid_ns = [0] * len(outputs)
        self.enabled = state is None
        self.error_frames: list[Frame] = []
        self._clock = clock
        self._times = ReceptionTimes(system_clock)
        self._unknown = 0
        particular = options or {}
        entries: dict[int, ReceivedMessage] = {}
        refs = [*outputs.values(), *([state] if state else [])]
        for ref in refs:
            message = ref.message
            given = particular.get(message.name) or MessageOptions()
            entry = ReceivedMessage(message, alive, timeout, given, ref.container)
            entries.setdefault(id(message), entry)
        for i, ref in enumerate(outputs.values()):
            entries[id(ref.message)].outputs.append((i, ref.signal.name))
        if state is not None:
            entries[id(state.message)].state = state.signal.name
        self._entries = list(entries.values())
        for entry in self._entries:
            entry.compile()
        self._state_ns = 0  # time of the enable state
        self._forms = [(entry, form) for entry in self._entries for form in entry.forms()]
        self._check_at_ns = 0
        self._missed, self._missed_text = 0.0, ""
        self._containers = _containers(self._entries)
        carriers: list[tuple[Message, ReceivedMessage | ReceivedContainer]] = [
            (entry.message, entry) for entry in self._entries if entry.container is None
        ]
        self._table = IdTable(
            [*carriers, *self._containers],
            lambda message: (particular.get(message.name) or MessageOptions()).source,
            [rival for ref in refs for rival in ref.rivals],
        )
        self._find = self._table.find
        j1939 = any(is_j1939(entry.message) for entry in self._entries)
        self._groups = GroupAssembler(self._find) if j1939 else None
        self._is_own = IdTable((message, True) for message in own).find

    @property
    def messages(self) -> list[Message]:
        """The received messages."""
        return [entry.message for entry in self._entries]

    @property
    def stats(self) -> dict[str, MessageStats]:
        """Statistics of each message, by name."""
        return {entry.message.name: entry.stats for entry in self._entries}

    @property
    def frames(self) -> int:
        """Number of frames of these messages received, including rejected ones."""
        return sum(entry.stats.frames for entry in self._entries)

    @property
    def counters(self) -> dict[str, int]:
        """Numbers of frames received, unknown ones, and rejected ones by reason."""
        counted = {"frames": self.frames, "unknown": self._unknown}
        for reason in REASONS:
            counted[reason] = sum(getattr(entry.stats, reason) for entry in self._entries)
        counted["decode_errors"] += sum(box.malformed for _, box in self._containers)
        counted["incomplete"] = 0 if self._groups is None else self._groups.incomplete
        return counted

    # ---- frames ------------------------------------------------------------------------------

    def receive(self, frames: Sequence[Frame]) -> bool:
        """Decode frames in the order of arrival; return whether any output is new."""
        if not frames:
            return False
        mono, real = self._clock(), time.time_ns()
        age = self._times.age
        new = False
        for frame in frames:
            entry = self._find(frame.can_id)
            if entry is not None:
                new |= self._accept(entry, frame.data, mono - age(frame.t_ns, mono, real))
            elif frame.can_id & ERROR:
                self.error_frames.append(frame)
            elif self._groups is not None and GroupAssembler.concerns(frame.can_id):
                t = mono - age(frame.t_ns, mono, real)
                group = self._groups.receive(frame.can_id, frame.data, t)
                found = None if group is None else self._find(group.can_id)
                if group is not None and found is not None:
                    # Its values are as old as its announcement, or older.
                    new |= self._accept(found, group.data, group.announced_ns)
            elif not self._is_own(frame.can_id):
                self._unknown += 1
        return new

    def _accept(self, entry: ReceivedMessage | ReceivedContainer, data: bytes, t: int) -> bool:
        """Accept a frame of one message, or of several; return whether any output is new."""
        if isinstance(entry, ReceivedContainer):
            new = [self._accept(inner, part, t) for inner, part in entry.parts(data)]
            return any(new)
        values = entry.receive(data, t)
        if values is None:
            return False
        self._store(entry, values, t)
        return bool(entry.indices)

    def _store(self, entry: ReceivedMessage, values: Sequence[float | None], t: int) -> None:
        for i, value in zip(entry.indices, values, strict=False):
            if value is not None:  # multiplexed: not in every frame
                self.y[i] = float(value)
                self.t_valid_ns[i] = t
        if entry.state:
            state = values[-1]
            if state is not None:
                self.enabled = bool(state)
                self._state_ns = t

    def timed(self, frames: Sequence[Frame]) -> list[Frame]:
        """The same frames with times of this machine's clock instead of a device's."""
        mono, real = self._clock(), time.time_ns()
        return [f._replace(t_ns=real - self._times.age(f.t_ns, mono, real)) for f in frames]

    def reset_clock(self) -> None:
        """Reset the device's clock: after being unplugged, a device counts from zero."""
        self._times.reset()

    def stamps(self) -> str:
        """Origin of frames' time stamps if the bus itself does not report it; see `CanBus`."""
        return "device" if self._times.by_device else "none"

    # ---- received, and missing -----------------------------------------------------------------

    def complete(self) -> bool:
        """Whether every output and the enable state have been received."""
        return all(self.t_valid_ns) and not self.missing() and not self.missing_forms()

    def missing(self) -> list[str]:
        """Messages without an accepted frame, with their identifiers and the frames received."""
        found = []
        for entry in self._entries:
            if not entry.heard.at:
                why = f": {entry.stats.text()}" if entry.stats.frames else ""
                why = why or self._doubtful(entry.message)
                found.append(f"{entry.message.name} ({entry.identifier}){why}")
        return found

    def _doubtful(self, message: Message) -> str:
        """Frames that may be this message, or another one of its J1939 group."""
        for can_id, messages in self._table.ambiguous().items():
            if message in messages:
                names = " or ".join(other.name for other in messages)
                return (
                    f": frames {Frame(can_id, b'').text} may be {names}; "
                    f"messages.{message.name}.source selects their sender"
                )
        return ""

    def missing_forms(self) -> list[str]:
        """Forms never received of received messages, with the signals that they contain."""
        found = []
        for entry, form in self._forms:
            newest = self._state_ns if form.output is None else self.t_valid_ns[form.output]
            if entry.heard.at and not newest:
                signals = ", ".join(form.signals)
                found.append(f"{form.name} ({entry.identifier}), which carries {signals}")
        return found

    def report(self) -> str:
        """Statistics of each message."""
        return "; ".join(f"{e.message.name}: {e.stats.text()}" for e in self._entries)

    # ---- silence -----------------------------------------------------------------------------

    def leave_out(self, now: int, stall: int) -> None:
        """Exclude a `stall` [ns] of this process that ended at `now` [ns] from all ages."""
        for entry in self._entries:
            if entry.heard.at:
                entry.heard.leave_out(now, stall)
        for _, form in self._forms:
            if form.heard.at:
                form.heard.leave_out(now, stall)

    def overdue(self, now: int) -> tuple[float, str]:
        """Age of the most overdue message over its timeout at `now` [ns], and a text about it.

        A form of a multiplexed message counts like a message while other forms arrive.
        """
        worst, text = 0.0, ""
        for entry in self._entries:
            if not entry.heard.at:
                return math.inf, f"{entry.message.name} has never been received"
            ratio = (now - entry.heard.at) / entry.timeout_ns
            if ratio > worst:
                worst, slowest = ratio, entry
        if worst >= 1.0:
            age = 1e-6 * worst * slowest.timeout_ns
            name, why = slowest.message.name, slowest.silence()
            text = f"no new frame of {name} for {age:.0f} ms: {why}"
        if self._forms:
            if now >= self._check_at_ns:
                self._check_forms(now)
            if self._missed > worst:
                return self._missed, self._missed_text
        return worst, text

    def _check_forms(self, now: int) -> None:
        """Find the most overdue form, for `overdue`."""
        worst = 0.0
        for entry, form in self._forms:
            newest = self._state_ns if form.output is None else self.t_valid_ns[form.output]
            ratio = form.update(newest, entry.heard.at)
            if ratio > worst:
                worst, missed = ratio, form
        self._missed, self._missed_text = worst, ""
        self._check_at_ns = now + CHECK_EVERY_NS
        if worst >= 1.0:
            self._check_at_ns = now  # so that its next frame clears this at once
            self._missed_text = f"{missed.name} has never been received"
            if worst < math.inf:
                age = 1e-6 * worst * missed.timeout_ns
                self._missed_text = f"no new frame of {missed.name} for {age:.0f} ms"


def _containers(entries: Sequence[ReceivedMessage]) -> list[tuple[Message, ReceivedContainer]]:
    """The received containers, each with its used messages."""
    boxes = {id(entry.container): entry.container for entry in entries}
    return [
        (box, ReceivedContainer(box, [entry for entry in entries if entry.container is box]))
        for box in boxes.values()
        if box is not None
    ]
