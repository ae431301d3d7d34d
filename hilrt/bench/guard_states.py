"""What the guardian of a bench is told, and what it says: states, settings, views, notices."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hilrt.bench.set_points import Values

NS = 1_000_000_000
#: Period of the guardian's own sending: ramps, and repetition of a demand that stands still.
CYCLE_NS = 2_000_000
#: An input counts as realised within this share of its range.
TOLERANCE = 0.02

Level = Literal["info", "warning", "error"]


class GuardState(enum.Enum):
    """Where the guardian is; `hilrt.bench.guardian` draws the transitions."""

    OFF = "off"
    ENABLING = "enabling"
    RAMPING = "ramping"
    ARMED = "armed"
    ACTIVE = "active"
    SECURING = "securing"
    WITHDRAWING = "withdrawing"
    SECURED = "secured"


#: States in which the bench is, or is about to be, under the master's demands.
DRIVING = frozenset({GuardState.ENABLING, GuardState.RAMPING, GuardState.ARMED, GuardState.ACTIVE})
#: States in which nothing is sent.
SILENT = frozenset({GuardState.OFF, GuardState.SECURED})


@dataclass(frozen=True)
class GuardSettings:
    """Times and orders of the guard.

    Parameters
    ----------
    order : sequence of int
        Inputs in the order in which the safe profile takes them.
    step_timeout : float
        How long one input of the safe profile is waited for, s.
    master_timeout : float
        Age of the newest set-points at which the master counts as silent, s.
    idle_timeout : float
        Age of the newest message of any kind for that while no set-points are due, s.
    enable_timeout : float
        How long the bench may take to confirm the enable request, s.
    enable_text : str
        What confirms it, for texts.
    """

    order: Sequence[int]
    step_timeout: float = 2.0
    master_timeout: float = 0.05
    idle_timeout: float = 2.0
    enable_timeout: float = 5.0
    enable_text: str = "the enable state"


@dataclass
class BenchView:
    """What is known of the bench now.

    Parameters
    ----------
    realised : sequence of float
        What the bench made of each input, in its unit; NaN where that is not measured.
    enabled : bool
        Whether it confirms the enable request (True for a bench that has no such signal).
    overdue : float
        Age of the most overdue message over the age at which it counts as silent; below 1 all is
        well, infinite when one has never been received.
    text : str
        Which message that is, and since when.
    """

    realised: Values
    enabled: bool = True
    overdue: float = 0.0
    text: str = ""


class Notice(NamedTuple):
    """Something that the master should be told."""

    kind: Literal["armed", "secured", "failed", "event"]
    text: str = ""
    level: Level = "info"
    cause: str = ""
    complete: bool = True
