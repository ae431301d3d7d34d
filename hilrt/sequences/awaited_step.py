"""What `run` awaits: a step of the sequence, which lasts from one communication point to another.

A step is a generator that yields `PAUSE` wherever it needs the next communication point. The
stepper resumes the coroutine there, and with it the step; no event loop takes part.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Generator
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from hilrt.sequences.where import Where

T = TypeVar("T")
#: Times are compared to within this, s.
EPS: Final = 1e-9


class Pause:
    """What steps yield; anything else that reaches the stepper was awaited by mistake."""


PAUSE: Final = Pause()
Steps = Generator[Pause, None, T]


class StepTimeout(TimeoutError):
    """A condition did not hold in time."""


class SequenceStopped(BaseException):
    """The session ends; not an `Exception`, so that a sequence's own handlers let it through."""


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a step has taken.

    Attributes
    ----------
    t : float
        Session time of the sample at which it was over, s.
    elapsed : float
        From the sample at which it began to that one, s.
    """

    t: float
    elapsed: float


class BenchOfSteps(Protocol):
    """The bench as its steps see it; see `SequenceBench` for what these are."""

    now: float
    end: float
    closing: bool
    forgotten: list[str]
    where: Where

    def begin_step(self, where: str, text: str) -> None:
        """Tell a step before it acts."""

    def driven_value(self, port: str) -> float:
        """What a port is set to."""
        ...

    def drive(self, port: str, value: float) -> None:
        """Set an output of the present interval."""

    def readings(self, names: Collection[str] = ()) -> str:
        """What is read now, in words; of these signals, or of the first ones."""
        ...


class SequenceStep(abc.ABC, Generic[T]):
    """One step, made by a method of `SequenceBench` and begun by ``await``.

    Parameters
    ----------
    bench : BenchOfSteps
    text : str
        What it does or waits for, told before it begins.
    timeout : float, optional
        Session time that it may take, s: until when is told with it.
    """

    def __init__(self, bench: BenchOfSteps, text: str, timeout: float | None = None) -> None:
        self.bench, self.text, self.where = bench, text, bench.where.caller()
        self._limit = timeout
        self._begun = False

    def __await__(self) -> Generator[Any, None, T]:
        """Tell the line, and do the step."""
        self._begun = True
        began, text = self.bench.now, self.text
        if self._limit is not None:
            text += f", at most {self._limit:g} s, until {began + self._limit:.1f} s"
        self.bench.begin_step(self.where, text)
        result = yield from self.steps(began)
        return result

    @abc.abstractmethod
    def steps(self, began: float) -> Steps[T]:
        """The step itself, which begins at the sample of `began` [s]."""

    def taken(self) -> None:
        """Note that it will be begun, by what it was given to."""
        self._begun = True

    def waited(self, began: float) -> Waited:
        """Until the present sample."""
        return Waited(self.bench.now, self.bench.now - began)

    def __del__(self) -> None:
        if not getattr(self, "_begun", True):
            self.bench.forgotten.append(f"{self.where}: {self.text}")
