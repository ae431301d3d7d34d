"""One message that is listened to, and which of its frames count.

A frame counts only if it is whole (checksum), new (counter) and fresh (it was not held up on its
way). Rejected frames are counted as such, and the message gets older as if nothing had arrived: a
sender that repeats its last frame, is disturbed or was held up ends like a silent one.
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

#: A form is missed after that many of its intervals, if that is longer than the message's timeout.
SILENT_INTERVALS = 3
#: The interval is known after so many …
KNOWN_AFTER = 10
#: … and until then no form is missed earlier than this, ns: so long the first one is awaited.
UNKNOWN_NS = 10_000_000_000
#: What counts is the longest of the newest intervals; this share of it is forgotten with each one.
FORGET = 0.02
#: More values of a multiplexer than these are shown as the first and the last.
TOLD = 4


class Form:
    """One form of a message, as far as its signals are used.

    It does not see every frame: a look at the time of the newest one now and then costs nothing
    beside the decoding.

    Parameters
    ----------
    name : str
        Message and multiplexer values.
    output : int or None
        One of the outputs that it carries; None: it carries the enable state alone.
    timeout_ns : int
        Of the message, ns: the form is missed no earlier.

    Attributes
    ----------
    signals : list of str
        Those of its signals that are used.
    heard : LastHeard
        Its newest frame that counted, as far as it has been looked at.
    timeout_ns : int
        It is missed when the message has arrived without it for so long, ns.
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

    def look(self, newest: int, message_ns: int) -> float:
        """Time for which the message has arrived without it, relative to its timeout.

        The message's own silence makes it no older: that is reported of the message.

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
        if newest > before:  # a stall that is left out may have moved it beyond the newest
            self.heard.heard(newest)
            if before:
                self._learn(newest - before)
        return (message_ns - self.heard.at) / self.timeout_ns

    def _learn(self, interval: int) -> None:
        if interval > self.timeout_ns and self._intervals >= KNOWN_AFTER:
            return  # it was missed: that is not its pace
        self._intervals += 1
        longest = self._longest_ns + FORGET * (interval - self._longest_ns)
        self._longest_ns = longest if longest > interval else interval
        timeout = int(SILENT_INTERVALS * self._longest_ns)
        least = self._least_ns if self._intervals >= KNOWN_AFTER else self._early_ns
        self.timeout_ns = timeout if timeout > least else least


def forms_of(message: Message, used: Mapping[str, int | None], timeout_ns: int) -> list[Form]:
    """The forms that carry the signals in use; none of a message without multiplexers.

    Parameters
    ----------
    message : Message
    used : mapping of str to int or None
        The signals, each with its output; None for the enable state.
    timeout_ns : int
        Of the message, ns.
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
    """``Page = 2``, of nested ones ``Page = 2 and Row = 0 or 1``."""
    return " and ".join(f"{switch} = {_values(values)}" for switch, values in reversed(selected))


def _values(values: set[int]) -> str:
    told = [str(value) for value in sorted(values)]
    return " or ".join(told) if len(told) <= TOLD else f"{told[0]} to {told[-1]}"


#: A message counts as silent after that many of its cycle times, if the database tells them.
SILENT_CYCLES = 3
#: Frames closer together than this share of their cycle time are catching up.
CATCH_UP_SHARE = 0.5


class ReceivedMessage:
    """A message with the signals in use.

    Parameters
    ----------
    message : Message
    alive : str
        Name of the counter signal searched for.
    timeout : float
        Age at which it counts as silent, s; longer if the database says that it comes more rarely.
    options : MessageOptions
        What is particular about it.
    container : Message, optional
        The one that contains it.

    Attributes
    ----------
    identifier : str
        Of the frames that carry it.
    outputs : list of (int, str)
        Index of each output that it carries, and the signal.
    indices : list of int
        Of these outputs, alone.
    state : str or None
        Its signal that is the enable state.
    heard : LastHeard
        Its newest frame that counted.
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
        self._refused: dict[str, int] = {}  # by reasons, since the newest frame that counted
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
        """Choose the codec when all used signals are known: outputs, then counter, then state."""
        names = [name for _, name in self.outputs]
        names += [name for name in (self._alive, self.state) if name]
        # A counter may run through all its values, and what is multiplexed is not in every frame.
        with_marks = is_j1939(self.message) and not self.message.is_multiplexed()
        marked = [name for name in names if name != self._alive] if with_marks else []
        self._decode = codec(self.message, names, marked=marked).decode
        self._marked = bool(marked)
        self.indices = [i for i, _ in self.outputs]

    def forms(self) -> list[Form]:
        """The forms of a multiplexed message; none of others."""
        used: dict[str, int | None] = {name: i for i, name in self.outputs}
        if self.state:
            used.setdefault(self.state, None)
        return forms_of(self.message, used, self.timeout_ns)

    def take(self, data: bytes, t: int) -> Sequence[float | None] | None:
        """Values of a frame that counts, outputs first, the state last; else None.

        Parameters
        ----------
        data : bytes
        t : int
            When it was received, ns.
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
        """Count a frame that does not count."""
        setattr(self.stats, reason, getattr(self.stats, reason) + 1)
        self._refused[reason] = self._refused.get(reason, 0) + 1

    def silence(self) -> str:
        """Frames refused since the newest one that counted, as text."""
        parts = [f"{n:,} {reason.replace('_', ' ')}" for reason, n in self._refused.items()]
        return f"received frames were rejected ({', '.join(parts)})" if parts else "none came"

    def _is_next(self, data: bytes, values: Sequence[float | None]) -> bool:
        """Whether the counter continues; frames missing before this one count as lost."""
        if self._header_counter:
            count = self._header_counter(data)
        else:
            count = int(values[len(self.indices)] or 0) % self._modulus
        ahead = 1 if self._counter is None else (count - self._counter) % self._modulus
        if ahead == 0:  # the sender repeats its last frame: the receiver counts it as silent
            self._refuse("repeated")
            return False
        self._counter = count
        if ahead > self._furthest:  # the next one tells whether the sender just restarted
            self._refuse("out_of_order")
            return False
        self.stats.lost += ahead - 1
        return True

    def _held_up(self, t: int, interval: float) -> bool:
        """Whether a frame is of the burst that ends a stall, and older than it looks.

        After a silence, what comes at less than the pace of the message is what has piled up on the
        way; the first frame that comes at its pace is fresh again. The first one of all cannot be
        distinguished, so it does not count either.
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
    """A container with its messages in use.

    Parameters
    ----------
    container : Message
    entries : sequence of ReceivedMessage
        Messages in it that are used.

    Attributes
    ----------
    malformed : int
        Frames whose messages extend beyond them; none of their messages counts.
    """

    def __init__(self, container: Message, entries: Sequence[ReceivedMessage]) -> None:
        self.malformed = 0
        self._container = container
        self._entries = {id(entry.message): entry for entry in entries}

    def parts(self, data: bytes) -> list[tuple[ReceivedMessage, bytes]]:
        """Messages in use that a frame contains, with their bytes, in its order."""
        try:
            inside = unpack(self._container, data)
        except ValueError:
            self.malformed += 1
            return []
        found = ((self._entries.get(id(message)), part) for message, part in inside)
        return [(entry, part) for entry, part in found if entry is not None]
