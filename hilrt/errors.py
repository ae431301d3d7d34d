"""The exceptions that `hilrt` raises, in one tree, and the exit statuses of its commands.

::

    HilrtError
    ├── ConfigError          a session file, a database or an argument is wrong     exit 2
    ├── ProtocolError        a message breaks docs/protocol.md
    ├── SolverError          a user's solver raised or returned something unusable
    │   └── SolverCannot     it lacks an optional ability
    ├── RecordError          a log cannot be written or read
    ├── CommandRefused       a session refuses a command
    └── SessionFault         the session cannot continue; the safe profile has run     exit 3
        └── PeerLost         a subsystem died, fell silent or missed too often
            └── NoAnswer     it is connected, and has not answered in time

Every message states the problem, its location, and a remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar


class HilrtError(Exception):
    """Base of all exceptions that `hilrt` raises on purpose.

    Attributes
    ----------
    page : str
        File of the documentation page about it; empty: that of its base, or of the command.
    """

    page: ClassVar[str] = ""


class ConfigError(HilrtError):
    """One or more problems in a session file, a database or an argument.

    Parameters
    ----------
    problems : sequence of str
        One line each, naming table, key, value and remedy.
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class ProtocolError(HilrtError):
    """A message that does not follow the wire protocol.

    Parameters
    ----------
    text : str
        The problem.
    kind : str
        Kind under which it is counted: ``malformed``, ``unknown_type`` or ``oversized``.
    """

    def __init__(self, text: str, kind: str = "malformed") -> None:
        super().__init__(text)
        self.kind = kind


class SolverError(HilrtError):
    """A solver raised, or returned something that is not a sample of its outputs."""


class SolverCannot(SolverError):
    """The solver lacks an optional ability."""


class RecordError(HilrtError):
    """A recorded log cannot be written or read."""


class CommandRefused(HilrtError):
    """A session refuses a command: it is not permitted, or not in the current state."""


class SessionFault(HilrtError):
    """The session cannot continue; its benches have run their safe profile."""


class PeerLost(SessionFault):
    """A subsystem died, fell silent, or missed more steps than its policy allows.

    Parameters
    ----------
    name : str
        The subsystem's name in the session file.
    reason : str
        Observation, and what to check.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"subsystem {name!r}: {reason}")


class NoAnswer(PeerLost):
    """A subsystem that is connected has not answered in time."""


# Exit statuses of the commands, and their order of precedence.


class ExitStatus(IntEnum):
    """Exit statuses of commands."""

    FINISHED = 0
    #: An expectation failed, or a comparison or replay gave another result.
    FAILED = 1
    #: A session file, a database or an argument is wrong.
    INPUT = 2
    #: Ended by a fault, in the safe state.
    FAULT = 3
    #: It cannot be decided whether an expectation holds.
    INCONCLUSIVE = 4
    #: Finished with less than was requested: rows are missing in the log, or the verdict is worse.
    LESS = 5
    #: A defect of the program.
    INTERNAL = 70
    INTERRUPTED = 130


#: In order of precedence.
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
    """The status that takes precedence over the others."""
    return next(status for status in _ORDER if status in statuses)
