"""States and settings of a bench's guard, its safe profile, and settling after the ramps."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hilrt.bench.set_points import RampedSetPoints, Values
from hilrt.config.structs import InputOptions

NS = 1_000_000_000
#: Period at which the guardian sends on its own: ramps, and repeats of an unchanged demand, ns.
CYCLE_NS = 2_000_000
#: An input counts as realised within this share of its range.
TOLERANCE = 0.02

Level = Literal["info", "warning", "error"]


class GuardState(enum.Enum):
    """State of the guardian; the transitions are in `hilrt.bench.guardian`."""

    OFF = "off"
    ENABLING = "enabling"
    RAMPING = "ramping"
    ARMED = "armed"
    ACTIVE = "active"
    SECURING = "securing"
    WITHDRAWING = "withdrawing"
    SECURED = "secured"


#: States in which the bench follows the master's demands, or is about to.
DRIVING = frozenset({GuardState.ENABLING, GuardState.RAMPING, GuardState.ARMED, GuardState.ACTIVE})
#: States in which nothing is sent.
SILENT = frozenset({GuardState.OFF, GuardState.SECURED})


@dataclass(frozen=True)
class GuardSettings:
    """Time limits of the guard, and the order of its safe profile.

    Parameters
    ----------
    order : sequence of int
        Inputs in the order in which the safe profile moves them.
    step_timeout : float
        Time limit for one input of the safe profile, s.
    master_timeout : float
        Age of the newest set-points above which the master counts as silent, s.
    idle_timeout : float
        Likewise for the newest message of any kind while no set-points are due, s.
    enable_timeout : float
        Time limit for the bench to confirm the enable request, s.
    enable_text : str
        Name of the confirming signal, for messages.
    """

    order: Sequence[int]
    step_timeout: float = 2.0
    master_timeout: float = 0.05
    idle_timeout: float = 2.0
    enable_timeout: float = 5.0
    enable_text: str = "the enable state"


@dataclass
class BenchView:
    """State of the bench as last measured.

    Parameters
    ----------
    realised : sequence of float
        The bench's measurement of each input, in its unit; NaN if not measured.
    enabled : bool
        Whether it confirms the enable request (True for a bench that has no such signal).
    overdue : float
        Age of the most overdue message divided by the age at which it counts as silent; infinite if
        one has never been received.
    text : str
        Name of that message, and how long it has been missing.
    """

    realised: Values
    enabled: bool = True
    overdue: float = 0.0
    text: str = ""


class Notice(NamedTuple):
    """A message for the master."""

    kind: Literal["armed", "secured", "failed", "event"]
    text: str = ""
    level: Level = "info"
    cause: str = ""
    complete: bool = True
    value: float | None = None


class SafeProfileRun:
    """One run of the safe profile.

    Parameters
    ----------
    settings : GuardSettings
        Gives the order of the inputs and the time limit for each.
    tolerance : sequence of float
        Tolerance of each input, in its unit.
    now : int
        Start time, ns.

    Attributes
    ----------
    given_up : list of int
        Inputs that did not reach their safe value in time; the caller clears the list.
    """

    def __init__(self, settings: GuardSettings, tolerance: Sequence[float], now: int) -> None:
        self._settings = settings
        self._tolerance = tolerance
        self._step = 0
        self._since = now  # start of the current step
        self.given_up: list[int] = []

    def advance(self, now: int, points: RampedSetPoints, bench: BenchView) -> bool:
        """Start the next input when the previous one has arrived or timed out; True at the end.

        Parameters
        ----------
        now : int
            Current time, ns.
        points : RampedSetPoints
            Set-points whose targets are set.
        bench : BenchView
        """
        order, safe = self._settings.order, points.limits.safe
        while self._step < len(order):
            i = order[self._step]
            points.target[i] = safe[i]
            arrived = points.sent[i] == safe[i]
            if arrived and bench.overdue < 1.0:  # otherwise only the demand is known
                arrived = not abs(bench.realised[i] - safe[i]) > self._tolerance[i]
            if not arrived and now - self._since < self._settings.step_timeout * NS:
                return False
            if not arrived:
                self.given_up.append(i)
            self._step += 1
            self._since = now
        return True


#: The bench has settled when all inputs have been realised for this long …
SETTLE_NS = NS // 5
#: … and after this long, arming continues with a warning about the inputs that are not.
SETTLE_TIMEOUT_NS = 5 * NS


def longest_ramp(inputs: Iterable[InputOptions]) -> float:
    """Longest time in which one of `inputs` crosses its range, s; 0 if none has bounds."""
    longest = 0.0
    for entry in inputs:
        if entry.min is not None and entry.max is not None and entry.max_rate is not None:
            build_up = 0.0 if entry.max_jerk is None else entry.max_rate / entry.max_jerk
            longest = max(longest, (entry.max - entry.min) / entry.max_rate + build_up)
    return longest


class Settled(NamedTuple):
    """Result of settling; `unrealised` are the inputs that the bench does not follow."""

    unrealised: list[int]


class Settling:
    """Detector of the end of the ramps after arming.

    Parameters
    ----------
    tolerance : sequence of float
        Tolerance of each input, in its unit.
    """

    def __init__(self, tolerance: Sequence[float]) -> None:
        self._tolerance = tolerance
        self._arrived_at: int | None = None  # when the demands arrived
        self._since: int | None = None  # since when the bench follows all of them

    def check(self, now: int, points: RampedSetPoints, realised: Values) -> Settled | None:
        """Return the result at `now` [ns]; None while settling."""
        if not points.arrived:
            return None
        if self._arrived_at is None:
            self._arrived_at = now
        off = [
            i
            for i, value in enumerate(realised)
            if abs(value - points.target[i]) > self._tolerance[i]  # False for NaN (not measured)
        ]
        if off:
            self._since = None
            return Settled(off) if now - self._arrived_at >= SETTLE_TIMEOUT_NS else None
        if self._since is None:
            self._since = now
        if now - self._since < SETTLE_NS and any(map(math.isfinite, realised)):
            return None
        return Settled([])
