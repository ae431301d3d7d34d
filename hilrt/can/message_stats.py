"""Statistics of one message: frames, intervals, and faults of frames."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

#: Intervals after which a message's mean one replaces a cycle time of the database.
LEARN_INTERVALS = 20
#: From then on, a gap counts as that many mean intervals at most, but as this time at least, s.
LONGEST_GAP = 4.0
SHORTEST_GAP_S = 1e-3
#: The mean interval forgets within some 50 frames.
FORGETTING = 0.02
#: Reasons for which a frame does not count, or is known to be missing.
REASONS = (
    "decode_errors",
    "checksum_errors",
    "repeated",
    "lost",
    "out_of_order",
    "held_up",
    "not_available",
)


@dataclass
class MessageStats:
    """Statistics of one message.

    Attributes
    ----------
    frames : int
        Frames that arrived, whatever was made of them.
    checksum_errors, repeated, lost, out_of_order, held_up, not_available : int
        Damaged; with the counter of the previous one; missing by the counter; with a counter that
        went back or too far ahead; let through only after a stall; with a value that says of itself
        that it is none.
    shortest, longest, mean : float
        Intervals between frames, s.
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
        """Count a frame at `t` [ns]; time since the previous one, s, infinite for the first."""
        self.frames += 1
        last, self._last = self._last, t
        if last is None:
            return math.inf
        interval = 1e-9 * (t - last)
        if interval < self.shortest:
            self.shortest = interval
        if interval > self.longest:
            self.longest = interval
        weight = max(FORGETTING, 1.0 / (self.frames - 1))
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


#: Between two events of one kind about one message, ns.
TELL_EVERY_NS = 1_000_000_000
#: How often the counters are checked, ns.
LOOK_EVERY_NS = 50_000_000


class FrameDefect(NamedTuple):
    """Cause of the event, the counter of `MessageStats` behind it, and the text about them."""

    cause: str
    counter: str
    text: str


#: Without those that were held up: some are after every silence, and its text counts them.
DEFECTS: Final = (
    FrameDefect(
        "can_bad_checksum",
        "checksum_errors",
        "with a wrong checksum: damaged, with another data identifier, or from another sender",
    ),
    FrameDefect(
        "can_bad_sequence",
        "out_of_order",
        "whose counter went back or too far ahead: its sender restarted, or another one sends the "
        "message too",
    ),
    FrameDefect(
        "can_stale",
        "repeated",
        "with the counter of the previous one: the sender repeats an old frame",
    ),
)


class Refusal(NamedTuple):
    """An event about frames that did not count, and how many those are that it tells of."""

    cause: str
    text: str
    frames: int


class RefusedFrames:
    """Makes events of the counters: when a defect begins, and then once a second at most.

    Parameters
    ----------
    stats : mapping of str to MessageStats
        Statistics of each message so far; the objects are updated.
    """

    def __init__(self, stats: Mapping[str, MessageStats]) -> None:
        self._stats = dict(stats)
        self._look_at = 0
        self._told: dict[tuple[str, str], int] = {}  # message and cause: frames
        self._quiet_until: dict[tuple[str, str], int] = {}

    def look(self, now: int) -> list[Refusal]:
        """Report that is due at `now` [ns]."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_EVERY_NS
        found = []
        for name, stats in self._stats.items():
            for defect in DEFECTS:
                key = name, defect.cause
                frames = getattr(stats, defect.counter)
                new = frames - self._told.get(key, 0)
                if new and now >= self._quiet_until.get(key, now):
                    self._told[key], self._quiet_until[key] = frames, now + TELL_EVERY_NS
                    text = (
                        f"{name}: {new:,} frame{'s' * (new > 1)} {defect.text}; {frames:,} so far"
                    )
                    found.append(Refusal(defect.cause, text, new))
        return found
