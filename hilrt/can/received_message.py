"""One message that is listened to, and which of its frames count.

A frame counts only if it is whole (checksum), new (counter) and fresh (it was not held up on its
way). What does not count is counted as such, and the message gets older as if nothing had come: a
sender that repeats its last frame, is disturbed or was held up ends like a silent one.
"""

from __future__ import annotations

from collections.abc import Sequence

import cantools
from cantools.database.can import Message

from hilrt.can.codec import codec
from hilrt.can.forms import Form, forms_of
from hilrt.can.id_table import is_j1939
from hilrt.can.j1939_transport import transfer_time
from hilrt.can.message_options import MessageOptions, counter_of, protection_of
from hilrt.can.message_stats import LEARN_INTERVALS, MessageStats
from hilrt.timing.last_heard import LastHeard

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
        Name of the counter signal looked for.
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
        """What has come since the newest frame that counted."""
        parts = [f"{n:,} {reason.replace('_', ' ')}" for reason, n in self._refused.items()]
        return f"what came did not count ({', '.join(parts)})" if parts else "none came"

    def _is_next(self, data: bytes, values: Sequence[float | None]) -> bool:
        """Whether the counter goes on; what is missing before the frame counts as lost."""
        if self._header_counter:
            count = self._header_counter(data)
        else:
            count = int(values[len(self.indices)] or 0) % self._modulus
        ahead = 1 if self._counter is None else (count - self._counter) % self._modulus
        if ahead == 0:  # the sender repeats its last frame: the receiver counts it as silent
            self._refuse("repeated")
            return False
        self._counter = count
        if ahead > self._furthest:  # the next one tells whether the sender just started anew
            self._refuse("out_of_order")
            return False
        self.stats.lost += ahead - 1
        return True

    def _held_up(self, t: int, interval: float) -> bool:
        """Whether a frame is of the burst that ends a stall, and older than it looks.

        After a silence, what comes at less than the pace of the message is what has piled up on the
        way; the first frame that comes at its pace is fresh again. The first one of all cannot be
        told apart, so it does not count either.
        """
        cycle = self._cycle or (self.stats.mean if self.stats.frames > LEARN_INTERVALS else 0.0)
        if not self.heard.at or not cycle:
            return False
        if not self._stalled:
            self._stalled = interval * 1e9 > self.timeout_ns
            return self._stalled
        self._stalled = interval < CATCH_UP_SHARE * cycle
        return self._stalled
