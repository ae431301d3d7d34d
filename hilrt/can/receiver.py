"""What is received from a bench: newest values, and how far they can be believed.

A frame counts only if it is whole (checksum), new (counter) and fresh (it was not held up on its
way). What does not count is counted, and the message gets older as if nothing had come, so that a
frozen, disturbed or stalled sender ends like a silent one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import cantools
from cantools.database.can import Message

from hilrt.bench.guardian import EXCUSED_NS
from hilrt.can.codec import codec
from hilrt.can.database import SignalRef
from hilrt.can.forms import Form, forms_of
from hilrt.can.frame import ERROR, Frame
from hilrt.can.id_table import IdTable, is_j1939
from hilrt.can.message_options import MessageOptions, counter_of, protection_of

#: A message counts as silent after that many of its cycle times, if the database tells them.
SILENT_CYCLES = 3
#: Frames closer together than this share of their cycle time are catching up.
CATCH_UP_SHARE = 0.5
#: Intervals after which a message's mean one stands in for a cycle time of the database.
LEARN_INTERVALS = 20
#: From then on, a gap counts as that many mean intervals at most, but as this time at least, s.
LONGEST_GAP = 4.0
SHORTEST_GAP_S = 1e-3
#: A frame's own timestamp is believed if it is at most that much older than its reading, ns …
MAX_AGE_NS = 60_000_000_000
#: … and taken for the system's clock up to this age, if the interface does not say whose it is.
MAX_SYSTEM_AGE_NS = 1_000_000_000
#: A device's clock may drift by that much against this machine's.
DRIFT = 2e-4
#: Forms of multiplexed messages are looked at that often while all is well, ns.
LOOK_EVERY_NS = 10_000_000

COUNTERS = (
    "frames",
    "unknown",
    "decode_errors",
    "checksum_errors",
    "repeated",
    "lost",
    "out_of_order",
    "held_up",
    "not_available",
)
#: Those for which a frame, or one that is missing, is told of its message.
REASONS = COUNTERS[COUNTERS.index("decode_errors") :]


class DeviceClock:
    """Times of a device's clock on this machine's: the shortest way to here seen so far is zero."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._at = 0

    def age(self, stamp: int, now: int) -> int:
        """How long before `now` [ns] the frame with that `stamp` [ns] was received, ns."""
        seen = now - stamp
        if self._offset is None:
            self._offset = seen
        else:
            crept = self._offset + int(DRIFT * (now - self._at))
            # A jump of the device's clock by so much is a new clock.
            self._offset = seen if seen - crept > MAX_AGE_NS else min(seen, crept)
        self._at = now
        return seen - self._offset


@dataclass
class MessageStats:
    """What has been seen of one message.

    Attributes
    ----------
    frames : int
        Frames that came, whatever was made of them.
    checksum_errors, repeated, lost, out_of_order, held_up, not_available : int
        Damaged; with the counter of the one before; missing by the counter; with a counter that
        went back or too far ahead; let through only after a stall; with a value that says of itself
        that it is none.
    shortest, longest, mean : float
        Intervals between frames, s; the mean forgets within some 50 frames.
    """

    frames: int = 0
    checksum_errors: int = 0
    decode_errors: int = 0
    repeated: int = 0
    lost: int = 0
    out_of_order: int = 0
    held_up: int = 0
    not_available: int = 0
    shortest: float = math.inf
    longest: float = 0.0
    mean: float = 0.0
    _last: int | None = None

    def seen(self, t: int) -> float:
        """Count a frame at `t` [ns]; time since the one before, s, infinite for the first."""
        self.frames += 1
        last, self._last = self._last, t
        if last is None:
            return math.inf
        interval = 1e-9 * (t - last)
        if interval < self.shortest:
            self.shortest = interval
        if interval > self.longest:
            self.longest = interval
        weight = max(0.02, 1.0 / (self.frames - 1))
        gap = math.inf
        if self.frames > LEARN_INTERVALS:  # one stall must not pass for the message's pace
            gap = max(LONGEST_GAP * self.mean, SHORTEST_GAP_S)
        self.mean += weight * (min(interval, gap) - self.mean)
        return interval

    def text(self) -> str:
        """``30,012 frames every 1.00 ms (0.61 to 3.12), 2 lost``."""
        text = f"{self.frames:,} frames"
        if self.frames > 1:
            mean, least, most = 1e3 * self.mean, 1e3 * self.shortest, 1e3 * self.longest
            text += f" every {mean:.2f} ms ({least:.2f} to {most:.2f})"
        counts = {reason: getattr(self, reason) for reason in REASONS}
        wrong = (f", {n:,} {reason.replace('_', ' ')}" for reason, n in counts.items() if n)
        return text + "".join(wrong)


class _Received:
    """One message that is listened to."""

    def __init__(
        self, message: Message, alive: str, timeout: float, options: MessageOptions
    ) -> None:
        self.message = message
        self.outputs: list[tuple[int, str]] = []  # index in y, signal
        self.state: str | None = None
        self.cycle = (message.cycle_time or 0) / 1e3
        timeout = options.timeout or max(timeout, SILENT_CYCLES * self.cycle)
        self.timeout_ns = int(1e9 * timeout)
        self.seen_ns: int | None = None  # newest frame that counted; its age is from here
        self.excused_to: int | None = None  # what `Receiver.excuse` made of it last
        self.excused_ns = 0
        self.stalled = False
        self.stats = MessageStats()
        guard = protection_of(options, message)
        self.check = guard.check if guard else None
        self.header_counter = guard.counter if guard else None
        self.alive = None if self.header_counter else counter_of(options, message, alive)
        self.modulus = 1
        self.counter: int | None = None
        if self.header_counter and guard:
            self.modulus = guard.modulus
        elif self.alive:
            self.modulus = 1 << message.get_signal_by_name(self.alive).length
        limit = max(1, self.modulus // 2)
        self.furthest = limit if options.max_lost is None else options.max_lost + 1

    def compile(self) -> None:
        """Choose the codec when all used signals are known: outputs, then counter, then state."""
        names = [name for _, name in self.outputs]
        names += [name for name in (self.alive, self.state) if name]
        # A counter may run through all its values, and what is multiplexed is not in every frame.
        with_marks = is_j1939(self.message) and not self.message.is_multiplexed()
        marked = [name for name in names if name != self.alive] if with_marks else []
        self.decode = codec(self.message, names, marked=marked).decode
        self.marked = bool(marked)
        self.indices = [i for i, _ in self.outputs]

    def forms(self) -> list[Form]:
        """The forms of a multiplexed message; none of others."""
        used: dict[str, int | None] = {name: i for i, name in self.outputs}
        if self.state:
            used.setdefault(self.state, None)
        return forms_of(self.message, used, self.timeout_ns)


class Receiver:
    """Newest value of every output, the enable state, and how healthy the reception is.

    Parameters
    ----------
    outputs : mapping of str to SignalRef
        Output ports in their order.
    state : SignalRef, optional
        The signal that confirms the enable request.
    alive : str
        Name of the counter signal looked for in each message.
    timeout : float
        Age of a message at which it counts as silent, s; longer for one that the database says
        comes more rarely.
    own : iterable of Message
        Messages that the gateway sends: some buses deliver them to their sender.
    clock : callable
        Monotonic clock, ns.
    options : mapping of str to MessageOptions, optional
        What is particular about single messages, by name.
    system_clock : bool
        Whether frames bear times of this machine's clock; otherwise they may be a device's own.

    Attributes
    ----------
    y : list of float
        Newest values of the outputs, in the signals' units; NaN before the first.
    t_valid_ns : list of int
        Their times of reception on the monotonic clock; 0 before the first.
    enabled : bool
        The newest enable state; True where there is no such signal.
    counters : dict of str to int
        Frames received, unknown, and those that did not count, by the reason.
    error_frames : list of Frame
        For whoever watches over the bus; it takes and clears them.
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
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.error_frames: list[Frame] = []
        self._clock = clock
        self._system_clock = system_clock
        self._device = DeviceClock()
        particular = options or {}
        entries: dict[str, _Received] = {}
        for ref in [*outputs.values(), *([state] if state else [])]:
            message = ref.message
            given = particular.get(message.name) or MessageOptions()
            entries.setdefault(message.name, _Received(message, alive, timeout, given))
        for i, ref in enumerate(outputs.values()):
            entries[ref.message.name].outputs.append((i, ref.signal.name))
        if state is not None:
            entries[state.message.name].state = state.signal.name
        self._entries = list(entries.values())
        for entry in self._entries:
            entry.compile()
        self._state_ns = 0  # when the enable state came
        self._forms = [(entry, form) for entry in self._entries for form in entry.forms()]
        self._look_at_ns = 0
        self._missed, self._missed_text = 0.0, ""
        self._find = IdTable(
            ((entry.message, entry) for entry in self._entries),
            lambda message: (particular.get(message.name) or MessageOptions()).source,
        ).find
        self._is_own = IdTable((message, True) for message in own).find

    @property
    def messages(self) -> list[Message]:
        """The messages that are listened to."""
        return [entry.message for entry in self._entries]

    @property
    def stats(self) -> dict[str, MessageStats]:
        """What has been seen of each message, by name."""
        return {entry.message.name: entry.stats for entry in self._entries}

    def take(self, frames: Sequence[Frame]) -> bool:
        """Decode frames in the order of their arrival; True if any output is new."""
        if not frames:
            return False
        mono, real = self._clock(), time.time_ns()
        new = False
        for frame in frames:
            entry = self._find(frame.can_id)
            if entry is not None:
                new |= self._decode(entry, frame.data, mono - self._age(frame.t_ns, mono, real))
            elif frame.can_id & ERROR:
                self.error_frames.append(frame)
            elif not self._is_own(frame.can_id):
                self.counters["unknown"] += 1
        return new

    def timed(self, frames: Sequence[Frame]) -> list[Frame]:
        """The same frames with times of this machine's clock instead of a device's."""
        mono, real = self._clock(), time.time_ns()
        return [f._replace(t_ns=real - self._age(f.t_ns, mono, real)) for f in frames]

    def _age(self, stamp: int, mono: int, real: int) -> int:
        """How long a frame has been waiting to be read, ns."""
        if not stamp:
            return 0
        age = real - stamp
        if 0 <= age <= (MAX_AGE_NS if self._system_clock else MAX_SYSTEM_AGE_NS):
            return age
        return 0 if self._system_clock else self._device.age(stamp, mono)

    def _decode(self, entry: _Received, data: bytes, t: int) -> bool:
        self.counters["frames"] += 1
        stats = entry.stats
        interval = stats.seen(t)
        if entry.check and not entry.check(data):
            return self._count(stats, "checksum_errors")
        try:
            values = entry.decode(data)
        except (cantools.database.DecodeError, ValueError):
            return self._count(stats, "decode_errors")
        if entry.marked and None in values:
            return self._count(stats, "not_available")
        indices = entry.indices
        if entry.modulus > 1:
            if entry.header_counter:
                count = entry.header_counter(data)
            else:
                count = int(values[len(indices)] or 0) % entry.modulus
            ahead = 1 if entry.counter is None else (count - entry.counter) % entry.modulus
            if ahead == 0:  # stale: a frozen sender must look like a silent one
                return self._count(stats, "repeated")
            entry.counter = count
            if ahead > entry.furthest:  # the next one tells whether the sender just started anew
                return self._count(stats, "out_of_order")
            if ahead > 1:
                self._count(stats, "lost", ahead - 1)
        if self._held_up(entry, t, interval):
            return self._count(stats, "held_up")
        entry.seen_ns = max(t, entry.seen_ns or 0)  # it may have been excused until later
        for i, value in zip(indices, values, strict=False):
            if value is not None:  # multiplexed: not in every frame
                self.y[i] = float(value)
                self.t_valid_ns[i] = t
        if entry.state:
            state = values[-1]
            if state is not None:
                self.enabled = bool(state)
                self._state_ns = t
        return bool(indices)

    def _held_up(self, entry: _Received, t: int, interval: float) -> bool:
        """Whether a frame is of the burst that ends a stall, and older than it looks.

        After a silence, what comes at less than the pace of the message is what has piled up on the
        way; the first frame that comes at its pace is fresh again. The first one of all cannot be
        told apart, so it does not count either.
        """
        stats = entry.stats
        cycle = entry.cycle or (stats.mean if stats.frames > LEARN_INTERVALS else 0.0)
        if entry.seen_ns is None or not cycle:
            return False
        if not entry.stalled:
            entry.stalled = interval * 1e9 > entry.timeout_ns
            return entry.stalled
        entry.stalled = interval < CATCH_UP_SHARE * cycle
        return entry.stalled

    def _count(self, stats: MessageStats, what: str, number: int = 1) -> bool:
        self.counters[what] += number
        setattr(stats, what, getattr(stats, what) + number)
        return False

    def start_clock_anew(self) -> None:
        """Forget the device's clock: a device that was unplugged counts from zero."""
        self._device = DeviceClock()

    def complete(self) -> bool:
        """Whether every output and the enable state have been received."""
        return all(self.t_valid_ns) and not self.missing() and not self.missing_forms()

    def missing(self) -> list[str]:
        """Messages of which no frame has counted, with their identifiers and what came of them."""
        found = []
        for entry in self._entries:
            if entry.seen_ns is None:
                came = f": {entry.stats.text()}" if entry.stats.frames else ""
                found.append(f"{entry.message.name} (0x{entry.message.frame_id:X}){came}")
        return found

    def missing_forms(self) -> list[str]:
        """Forms that have never come of messages that have, with the signals that they carry."""
        found = []
        for entry, form in self._forms:
            came = self._state_ns if form.output is None else self.t_valid_ns[form.output]
            if entry.seen_ns is not None and not came:
                signals = ", ".join(form.signals)
                identifier = f"0x{entry.message.frame_id:X}"
                found.append(f"{form.name} ({identifier}), which carries {signals}")
        return found

    def report(self) -> str:
        """What has been seen of each message."""
        return "; ".join(f"{e.message.name}: {e.stats.text()}" for e in self._entries)

    def excuse(self, now: int, absence: int) -> None:
        """Make no message older by the `absence` [ns] of the listener until `now` [ns].

        Up to `EXCUSED_NS` since its newest frame: a listener that is hardly ever let run would
        excuse a dead bench for ever.
        """
        listened: list[_Received | Form] = [*self._entries, *(form for _, form in self._forms)]
        for one in listened:
            if one.seen_ns is None:
                continue
            if one.seen_ns != one.excused_to:  # it has come since the absence before
                one.excused_ns = 0
            if one.excused_ns < EXCUSED_NS:
                one.seen_ns = one.excused_to = min(now, one.seen_ns + absence)
                one.excused_ns += absence

    def overdue(self, now: int) -> tuple[float, str]:
        """Age of the most overdue message over its timeout at `now` [ns], and a text about it.

        A form of a multiplexed message counts like a message, while others of its forms come.
        """
        worst, text = 0.0, ""
        for entry in self._entries:
            if entry.seen_ns is None:
                return math.inf, f"{entry.message.name} has never been received"
            ratio = (now - entry.seen_ns) / entry.timeout_ns
            if ratio > worst:
                worst, slowest = ratio, entry
        if worst >= 1.0:
            age = 1e-6 * worst * slowest.timeout_ns
            text = f"no new frame of {slowest.message.name} for {age:.0f} ms"
        if self._forms:
            if now >= self._look_at_ns:
                self._look_at_forms(now)
            if self._missed > worst:
                return self._missed, self._missed_text
        return worst, text

    def _look_at_forms(self, now: int) -> None:
        """Which form is missed most, as `overdue` says it of messages."""
        worst = 0.0
        for entry, form in self._forms:
            newest = self._state_ns if form.output is None else self.t_valid_ns[form.output]
            ratio = form.look(newest, entry.seen_ns or 0)
            if ratio > worst:
                worst, missed = ratio, form
        self._missed, self._missed_text = worst, ""
        self._look_at_ns = now + LOOK_EVERY_NS
        if worst >= 1.0:
            self._look_at_ns = now  # nobody is called late for longer than it is
            self._missed_text = f"{missed.name} has never been received"
            if worst < math.inf:
                age = 1e-6 * worst * missed.timeout_ns
                self._missed_text = f"no new frame of {missed.name} for {age:.0f} ms"
