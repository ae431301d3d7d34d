"""Statistics of one message: frames, intervals, and faults of frames."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

#: Number of intervals after which their mean replaces the database's cycle time.
LEARN_INTERVALS = 20
#: Limit of longer intervals in the mean from then on: mean intervals, and lower bound of that, s.
LONGEST_GAP = 4.0
SHORTEST_GAP_S = 1e-3
#: Weight of a new interval in the mean, which follows changes within some 50 frames.
FORGETTING = 0.02
#: Reasons for which a frame is rejected, or known to be missing.
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
        Frames received, including rejected ones.
    checksum_errors, repeated, lost, out_of_order, held_up, not_available : int
        Damaged frames; with the counter of the previous one; missing according to the counter; with
        a counter that went back or too far ahead; accepted only after a stall; values marked as not
        available.
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
        """Count a frame at `t` [ns]; return the time since the previous one, s, or infinity."""
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
        if self.frames > LEARN_INTERVALS:  # a stall must not determine the interval
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


#: Minimum time between two events of one kind about one message, ns.
REPORT_EVERY_NS = 1_000_000_000
#: Interval of checking the counters, ns.
POLL_EVERY_NS = 50_000_000


class FrameDefect(NamedTuple):
    """Cause of the event, counter of `MessageStats`, and text for it."""

    cause: str
    counter: str
    text: str


#: Held-up frames are omitted: some follow every silence, which has its own event.
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
    """An event about rejected frames, with their number."""

    cause: str
    text: str
    frames: int


class RefusedFrames:
    """Converter of counters to events: when a defect begins, then at most once a second.

    Parameters
    ----------
    stats : mapping of str to MessageStats
        Statistics of each message; the objects are updated elsewhere.
    """

    def __init__(self, stats: Mapping[str, MessageStats]) -> None:
        self._stats = dict(stats)
        self._poll_at = 0
        self._reported: dict[tuple[str, str], int] = {}  # message and cause: frames
        self._quiet_until: dict[tuple[str, str], int] = {}

    def poll(self, now: int) -> list[Refusal]:
        """Events that are due at `now` [ns]."""
        if now < self._poll_at:
            return []
        self._poll_at = now + POLL_EVERY_NS
        found = []
        for name, stats in self._stats.items():
            for defect in DEFECTS:
                key = name, defect.cause
                frames = getattr(stats, defect.counter)
                new = frames - self._reported.get(key, 0)
                if new and now >= self._quiet_until.get(key, now):
                    self._reported[key], self._quiet_until[key] = frames, now + REPORT_EVERY_NS
                    text = (
                        f"{name}: {new:,} frame{'s' * (new > 1)} {defect.text}; {frames:,} so far"
                    )
                    found.append(Refusal(defect.cause, text, new))
        return found
