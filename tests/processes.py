"""States of processes, by Linux's /proc."""

from pathlib import Path


def state(pid: int) -> str:
    """Letter of a process's state; X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def ended(pid: int) -> bool:
    """Whether a process is gone; a zombie that nobody reaps counts."""
    return state(pid) in "XZ"
