"""Work that can wait: done in the slack of a tick only if it fits into what is left of it."""

from __future__ import annotations

#: A turn begins only if this many times what one usually takes is left.
MARGIN = 1.5


class SlackBudget:
    """Whether one more turn of some work fits, going by how long its turns took.

    Attributes
    ----------
    took_ns : int
        What a turn takes by experience: quick to rise, slow to fall, ns.
    made, skipped : int
        Turns that were made, and that were left out for lack of time.
    """

    __slots__ = ("made", "skipped", "took_ns")

    def __init__(self) -> None:
        self.took_ns = self.made = self.skipped = 0

    def fits(self, left_ns: float) -> bool:
        """Whether a turn may begin with `left_ns` until the next tick wants the processor."""
        if MARGIN * self.took_ns < left_ns:
            return True
        self.skipped += 1
        self.took_ns -= self.took_ns >> 6  # some slow turns must not end them all
        return False

    def add(self, took_ns: int) -> None:
        """Take note of a turn; one that was held up by something else counts as twice as long."""
        self.made += 1
        if self.made == 1:
            self.took_ns = took_ns
        elif took_ns > self.took_ns:
            self.took_ns = min(took_ns, 2 * self.took_ns)
        else:
            self.took_ns -= (self.took_ns - took_ns) >> 3
