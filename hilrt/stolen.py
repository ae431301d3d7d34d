"""Time that the host of a virtual machine took from its processors, as Linux counts it.

No process of this machine runs meanwhile and none can see it coming: ticks that are missed for it
are missed by nothing that a session could do better.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

#: Where Linux counts what its processors did.
STAT = Path("/proc/stat")
#: Fields of a processor's line: its name, seven of its own doing and waiting, and the stolen one.
_STOLEN = 8


def stolen_s(text: str, cpus: Collection[int]) -> float | None:
    """Time taken from `cpus` since the machine started.

    Parameters
    ----------
    text : str
        What ``/proc/stat`` says (proc(5)): ticks of ``sysconf(_SC_CLK_TCK)``.
    cpus : collection of int
        Processors.

    Returns
    -------
    float or None
        Mean over the processors, s; None where it is not told.
    """
    names = {f"cpu{cpu}" for cpu in cpus}
    rows = [row for row in map(str.split, text.splitlines()) if row and row[0] in names]
    if not rows or any(len(row) <= _STOLEN for row in rows):
        return None
    return sum(float(row[_STOLEN]) for row in rows) / len(rows) / os.sysconf("SC_CLK_TCK")


class StolenTime:
    """What is taken from processors from now on.

    Parameters
    ----------
    cpus : collection of int
    stat : Path, optional
        File to read; a test gives one of its own.
    """

    def __init__(self, cpus: Collection[int], stat: Path = STAT) -> None:
        self._cpus, self._stat = cpus, stat
        self._before = self._read()

    def seconds(self) -> float | None:
        """Mean over the processors, s; None where it is not told."""
        now = self._read()
        return None if now is None or self._before is None else now - self._before

    def _read(self) -> float | None:
        try:
            return stolen_s(self._stat.read_text(encoding="ascii"), self._cpus)
        except OSError:
            return None
