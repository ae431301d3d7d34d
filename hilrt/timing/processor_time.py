"""Which processes had the processors, as Linux counts it, and what the machine's host took.

While the host of a virtual machine has a processor, no process of the machine runs on it, and none
can foresee it: no setting of a session avoids the ticks that are missed for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path

#: Where Linux counts, see proc(5).
PROC = Path("/proc")
#: Field of a processor's line: after its name, and seven of its own doing and waiting.
_STOLEN = 8
#: Fields of a process's line behind its name: in its own code, and in the kernel for it.
_USER, _SYSTEM = 11, 12


def stolen_s(stat: str, cpus: Collection[int]) -> float | None:
    """Time that the host took from processors since the machine started.

    Parameters
    ----------
    stat : str
        What ``/proc/stat`` says.
    cpus : collection of int
        Processors.

    Returns
    -------
    float or None
        Mean over the processors, s; None where it is not told.
    """
    names = {f"cpu{cpu}" for cpu in cpus}
    rows = [row for row in map(str.split, stat.splitlines()) if row and row[0] in names]
    if not rows or any(len(row) <= _STOLEN for row in rows):
        return None
    return sum(float(row[_STOLEN]) for row in rows) / len(rows) / os.sysconf("SC_CLK_TCK")


def used_s(stat: str) -> float:
    """Time that a process with all its threads has had a processor, s, from its ``stat``."""
    fields = stat.rpartition(")")[2].split()
    return float(int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")


class ProcessorTime:
    """Which processes have the processors from now on.

    Parameters
    ----------
    cpus : collection of int
        Processors that the host is watched for.
    processes : mapping of str to int
        Process identifiers by name.
    proc : Path, optional
        Folder to read; a test gives one of its own.
    """

    def __init__(
        self, cpus: Collection[int], processes: Mapping[str, int], proc: Path = PROC
    ) -> None:
        self._cpus, self._processes, self._proc = cpus, processes, proc
        self._began = time.monotonic()
        self._stolen = self._stolen_now()
        self._used = {name: self._used_now(pid) for name, pid in processes.items()}

    def stolen(self) -> float | None:
        """Time the host took, mean over the processors, s; None where it is not told."""
        now = self._stolen_now()
        return None if now is None or self._stolen is None else now - self._stolen

    def shares(self) -> dict[str, float]:
        """Share of one processor that each process had; those that ended are left out."""
        elapsed = time.monotonic() - self._began
        shares = {}
        for name, pid in self._processes.items():
            before, now = self._used[name], self._used_now(pid)
            if before is not None and now is not None:
                shares[name] = (now - before) / elapsed
        return shares

    def _stolen_now(self) -> float | None:
        text = self._read("stat")
        return None if text is None else stolen_s(text, self._cpus)

    def _used_now(self, pid: int) -> float | None:
        text = self._read(f"{pid}/stat")
        return None if text is None else used_s(text)

    def _read(self, path: str) -> str | None:
        try:
            return (self._proc / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
