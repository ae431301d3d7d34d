"""Numbers of buses, for formats that do not name them."""

from __future__ import annotations

import re

#: Larger numbers, as in ``bench2026``, are no channel; MF4 has a byte for them.
_MOST = 254


class BusNumbers:
    """Gives each bus a number of its own.

    A bus that is called by a number keeps it, others get the number at the end of their name if it
    is free (``can1`` is 1), else the smallest free one. So do those of a number above 254.

    Parameters
    ----------
    first : int
        Smallest number.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._numbers: dict[str, int] = {}
        self._taken: dict[int, str] = {}

    def number(self, bus: str) -> int:
        """Number of a bus."""
        known = self._numbers.get(bus)
        if known is not None:
            return known
        digits = re.search(r"(?<!\d)\d{1,9}$", bus)  # a longer number is none that fits
        wanted = self._first if digits is None else int(digits[0])
        if wanted > _MOST:
            wanted = self._first
        while wanted in self._taken:
            wanted += 1
        self._numbers[bus] = wanted
        self._taken[wanted] = bus
        return wanted

    def notes(self, count_from: int = 0) -> list[str]:
        """Which of several buses is which channel, where their names do not say it.

        Formats whose channels count from 1 have number 0 as channel 1: `count_from`.
        """
        numbers = self._numbers
        if len(numbers) < 2 or all(bus == str(number) for bus, number in numbers.items()):
            return []
        named = ", ".join(f"{bus or 'unnamed'}: {n + count_from}" for bus, n in numbers.items())
        return [f"names of the buses; they are the channels {named}"]
