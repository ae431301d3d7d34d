"""Frames that came and did not count, told apart by what is wrong with them. No I/O.

A damaged or forged frame, one that is out of order, and an old one end alike, in a message that
gets older; what is to be done about them does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hilrt.can.message_stats import MessageStats

#: Between two events of one kind about one message, ns.
TELL_EVERY_NS = 1_000_000_000
#: How often the counters are looked at, ns.
LOOK_EVERY_NS = 50_000_000


class FrameDefect(NamedTuple):
    """Cause of the event, the counter of `MessageStats` behind it, and what is said of them."""

    cause: str
    counter: str
    text: str


#: Without those that were held up: some are after every silence, and its text counts them.
DEFECTS: Final = (
    FrameDefect(
        "can_bad_checksum",
        "checksum_errors",
        "with a wrong checksum: damaged, of another data identifier, or from another sender",
    ),
    FrameDefect(
        "can_bad_sequence",
        "out_of_order",
        "whose counter went back or too far ahead: its sender started anew, or another one sends "
        "the message, too",
    ),
    FrameDefect(
        "can_stale",
        "repeated",
        "with the counter of the one before: the sender repeats an old one",
    ),
)


class Refusal(NamedTuple):
    """An event about frames that did not count."""

    cause: str
    text: str


class RefusedFrames:
    """Makes events of the counters: when a defect begins, and then once a second at most.

    Parameters
    ----------
    stats : mapping of str to MessageStats
        What has been seen of each message; the objects are counted on.
    """

    def __init__(self, stats: Mapping[str, MessageStats]) -> None:
        self._stats = dict(stats)
        self._look_at = 0
        self._told: dict[tuple[str, str], int] = {}  # message and cause: frames
        self._quiet_until: dict[tuple[str, str], int] = {}

    def look(self, now: int) -> list[Refusal]:
        """What is to be told at `now` [ns]."""
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
                    found.append(Refusal(defect.cause, text))
        return found
