"""Exit statuses of the commands, and which one counts where several apply."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of commands."""

    FINISHED = 0
    #: An expectation failed: a comparison or a replay came out otherwise.
    FAILED = 1
    #: A session file, a database or an argument is wrong.
    INPUT = 2
    #: Ended by a fault, in the safe state.
    FAULT = 3
    #: It cannot be said whether an expectation holds.
    INCONCLUSIVE = 4
    #: Finished with less than was requested: rows are missing in the log, or the verdict is worse.
    LESS = 5
    #: A defect of the program.
    INTERNAL = 70
    INTERRUPTED = 130


#: From the gravest on.
_ORDER = (
    ExitStatus.INTERNAL,
    ExitStatus.INTERRUPTED,
    ExitStatus.FAULT,
    ExitStatus.INPUT,
    ExitStatus.FAILED,
    ExitStatus.INCONCLUSIVE,
    ExitStatus.LESS,
    ExitStatus.FINISHED,
)


def gravest(*statuses: int) -> ExitStatus:
    """The one that counts where several apply."""
    return next(status for status in _ORDER if status in statuses)
