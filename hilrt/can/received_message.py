"""A received message, and the decision which of its frames are accepted.

A frame is accepted only if it is intact (checksum), new (counter) and not delayed. Rejected frames
are counted, and the message ages as if nothing had arrived: a sender that repeats its last frame,
is disturbed or delayed is eventually treated like a silent one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import cantools
from cantools.database.can import Message

from hilrt.can.codec import codec, selectors
from hilrt.can.id_table import is_j1939, unpack
from hilrt.can.j1939_transport import transfer_time
from hilrt.can.message_stats import LEARN_INTERVALS, MessageStats
from hilrt.can.protection import MessageOptions, counter_of, protection_of
from hilrt.timing.monotonic import LastHeard

#: Intervals after which a form counts as missing, if longer than the message's timeout.
SILENT_INTERVALS = 3
#: Number of intervals from which a form's regular interval is known …
KNOWN_AFTER = 10
#: … and shortest time until then after which it counts as missing, ns; also for its first frame.
UNKNOWN_NS = 10_000_000_000
#: The longest of the recent intervals is used; this share of it is forgotten with each new one.
FORGET = 0.02
#: Maximum number of a multiplexer's values listed in full.
MAX_NAMED = 4


class Form:
    """One form of a message, as far as its signals are used.

    It does not process every frame: checking the time of the newest one occasionally costs much
    less.

    Parameters
    ----------
    name : str
        Message and multiplexer values.
    output : int or None
        One of the outputs in it; None if it only contains the enable state.
    timeout_ns : int
        Timeout of the message, ns, a lower bound for the form's.

    Attributes
    ----------
    signals : list of str
        Its used signals.
    heard : LastHeard
        Its newest accepted frame, as of the last update.
    timeout_ns : int
        It counts as missing when the message has arrived without it for this time, ns.
    """

    def __init__(self, name: str, output: int | None, timeout_ns: int) -> None:
        self.name = name
        self.output = output
        self.signals: list[str] = []
        self.heard = LastHeard()
        self._least_ns = timeout_ns
        self._early_ns = self.timeout_ns = max(timeout_ns, UNKNOWN_NS)
        self._intervals = 0
        self._longest_ns = 0.0

    def update(self, newest: int, message_ns: int) -> float:
        """Time for which the message has arrived without it, relative to its timeout.

        Silence of the message itself does not count: it is reported for the message.

        Parameters
        ----------
        newest : int
            Its newest frame, ns; 0: none yet.
        message_ns : int
            The newest frame of the message, ns.
        """
        if not newest:
            return math.inf
        before = self.heard.at
        if newest > before:  # an excluded stall may have moved it beyond the newest
            self.heard.heard(newest)
            if before:
                self._learn(newest - before)
        return (message_ns - self.heard.at) / self.timeout_ns

    def _learn(self, interval: int) -> None:
        if interval > self.timeout_ns and self._intervals >= KNOWN_AFTER:
            return  # it was missing: not its regular interval
        self._intervals += 1
        longest = self._longest_ns + FORGET * (interval - self._longest_ns)
        self._longest_ns = longest if longest > interval else interval
        timeout = int(SILENT_INTERVALS * self._longest_ns)
        least = self._least_ns if self._intervals >= KNOWN_AFTER else self._early_ns
        self.timeout_ns = timeout if timeout > least else least


def forms_of(message: Message, used: Mapping[str, int | None], timeout_ns: int) -> list[Form]:
    """The forms that contain the used signals; none for a message without multiplexers.

    Parameters
    ----------
    message : Message
    used : mapping of str to int or None
        The signals, each with its output; None for the enable state.
    timeout_ns : int
        Timeout of the message, ns.
    """
    forms: dict[str, Form] = {}
    for signal, output in used.items():
        selected = selectors(message, message.get_signal_by_name(signal))
        if selected:
            key = repr([(switch, sorted(values)) for switch, values in selected])
            name = f"{message.name} with {_text(selected)}"
            forms.setdefault(key, Form(name, output, timeout_ns)).signals.append(signal)
    return list(forms.values())


def _text(selected: list[tuple[str, set[int]]]) -> str:
    """``Page = 2``; nested: ``Page = 2 and Row = 0 or 1``."""
    return " and ".join(f"{switch} = {_values(values)}" for switch, values in reversed(selected))


def _values(values: set[int]) -> str:
    texts = [str(value) for value in sorted(values)]
    return " or ".join(texts) if len(texts) <= MAX_NAMED else f"{texts[0]} to {texts[-1]}"


#: Number of cycle times after which a message counts as silent, if the database has them.
SILENT_CYCLES = 3
#: Frames closer together than this share of their cycle time are catching up after a delay.
CATCH_UP_SHARE = 0.5


class ReceivedMessage:
    """A message with its used signals.

    Parameters
    ----------
    message : Message
    alive : str
        Default name of the counter signal.
    timeout : float
        Age at which it counts as silent, s; longer if its cycle time in the database requires it.
    options : MessageOptions
        Its specific options.
    container : Message, optional
        The message that contains it.

    Attributes
    ----------
    identifier : str
        Identifier of its frames.
    outputs : list of (int, str)
        Index of each of its outputs, with the signal.
    indices : list of int
        The indices alone.
    state : str or None
        The signal of the enable state.
    heard : LastHeard
        Its newest accepted frame.
    timeout_ns : int
        Age at which it counts as silent, ns.
    stats : MessageStats
    """

    def __init__(
        self,
        message: Message,
        alive: str,
        timeout: float,
        options: MessageOptions,
        container: Message | None = None,
    ) -> None:
        self.message = message
        self.container = container
        self.identifier = f"0x{(container or message).frame_id:X}"
        self.outputs: list[tuple[int, str]] = []
        self.indices: list[int] = []
        self.state: str | None = None
        self.heard = LastHeard()
        self.stats = MessageStats()
        self._cycle = (message.cycle_time or 0) / 1e3
        whole = transfer_time(message.length) if is_j1939(message) else 0.0
        timeout = options.timeout or max(timeout, SILENT_CYCLES * self._cycle) + whole
        self.timeout_ns = int(1e9 * timeout)
        self._stalled = False
        self._refused: dict[str, int] = {}  # by reason, since the newest accepted frame
        guard = protection_of(options, message)
        self._check = guard.check if guard else None
        self._header_counter = guard.counter if guard else None
        self._alive = None if self._header_counter else counter_of(options, message, alive)
        self._modulus = 1
        self._counter: int | None = None
        if self._header_counter and guard:
            self._modulus = guard.modulus
        elif self._alive:
            self._modulus = 1 << message.get_signal_by_name(self._alive).length
        half = max(1, self._modulus // 2)
        self._furthest = half if options.max_lost is None else options.max_lost + 1

    def compile(self) -> None:
        """Choose the codec once all used signals are known: outputs, then counter, then state."""
        names = [name for _, name in self.outputs]
        names += [name for name in (self._alive, self.state) if name]
        # A counter uses all its values, and a multiplexed one is not in every frame.
        with_marks = is_j1939(self.message) and not self.message.is_multiplexed()
        marked = [name for name in names if name != self._alive] if with_marks else []
        self._decode = codec(self.message, names, marked=marked).decode
        self._marked = bool(marked)
        self.indices = [i for i, _ in self.outputs]

    def forms(self) -> list[Form]:
        """The forms of a multiplexed message; none for others."""
        used: dict[str, int | None] = {name: i for i, name in self.outputs}
        if self.state:
            used.setdefault(self.state, None)
        return forms_of(self.message, used, self.timeout_ns)

    def receive(self, data: bytes, t: int) -> Sequence[float | None] | None:
        """Values of an accepted frame, outputs first, the state last; None if it is rejected.

        Parameters
        ----------
        data : bytes
        t : int
            Time of reception, ns.
        """
        stats = self.stats
        interval = stats.seen(t)
        if self._check and not self._check(data):
            self._refuse("checksum_errors")
            return None
        try:
            values = self._decode(data)
        except (cantools.database.DecodeError, ValueError):
            self._refuse("decode_errors")
            return None
        if self._marked and None in values:
            self._refuse("not_available")
            return None
        if self._modulus > 1 and not self._is_next(data, values):
            return None
        if self._held_up(t, interval):
            self._refuse("held_up")
            return None
        self.heard.heard(t)
        if self._refused:
            self._refused.clear()
        return values

    def _refuse(self, reason: str) -> None:
        """Count a rejected frame."""
        setattr(self.stats, reason, getattr(self.stats, reason) + 1)
        self._refused[reason] = self._refused.get(reason, 0) + 1

    def silence(self) -> str:
        """Frames rejected since the newest accepted one, as text."""
        parts = [f"{n:,} {reason.replace('_', ' ')}" for reason, n in self._refused.items()]
        return f"received frames were rejected ({', '.join(parts)})" if parts else "none arrived"

    def _is_next(self, data: bytes, values: Sequence[float | None]) -> bool:
        """Whether the counter continues; frames missing before this one count as lost."""
        if self._header_counter:
            count = self._header_counter(data)
        else:
            count = int(values[len(self.indices)] or 0) % self._modulus
        ahead = 1 if self._counter is None else (count - self._counter) % self._modulus
        if ahead == 0:  # the sender repeats its last frame: it counts as silent
            self._refuse("repeated")
            return False
        self._counter = count
        if ahead > self._furthest:  # the next one shows whether the sender restarted
            self._refuse("out_of_order")
            return False
        self.stats.lost += ahead - 1
        return True

    def _held_up(self, t: int, interval: float) -> bool:
        """Whether a frame was delayed by a stall, and is older than it appears.

        After a silence, frames that arrive faster than the message's interval were queued on the
        way; the first one that arrives at the regular interval is accepted again. The first frame
        after the silence may be either, and is rejected, too.
        """
        cycle = self._cycle or (self.stats.mean if self.stats.frames > LEARN_INTERVALS else 0.0)
        if not self.heard.at or not cycle:
            return False
        if not self._stalled:
            self._stalled = interval * 1e9 > self.timeout_ns
            return self._stalled
        self._stalled = interval < CATCH_UP_SHARE * cycle
        return self._stalled


class ReceivedContainer:
    """A container with its used messages.

    Parameters
    ----------
    container : Message
    entries : sequence of ReceivedMessage
        Its used messages.

    Attributes
    ----------
    malformed : int
        Frames whose content extends beyond them; none of their messages is accepted.
    """

    def __init__(self, container: Message, entries: Sequence[ReceivedMessage]) -> None:
        self.malformed = 0
        self._container = container
        self._entries = {id(entry.message): entry for entry in entries}

    def parts(self, data: bytes) -> list[tuple[ReceivedMessage, bytes]]:
        """Used messages in a frame with their bytes, in order."""
        try:
            inside = unpack(self._container, data)
        except ValueError:
            self.malformed += 1
            return []
        found = ((self._entries.get(id(message)), part) for message, part in inside)
        return [(entry, part) for entry, part in found if entry is not None]
