"""Awaitables of `run`: a step of the sequence lasts from one communication point to a later one.

A step is a generator that yields `PAUSE` wherever it needs the next communication point, where the
stepper resumes the coroutine. No event loop is involved.
"""

from __future__ import annotations

import abc
import inspect
import os
import sys
import traceback
from collections.abc import Collection, Generator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, Generic, Protocol, TypeVar

# Lines of a sequence, in messages.

#: Frames of this package are not shown to users.
_HERE = str(Path(__file__).parent)


class Where:
    """Names source lines of a sequence.

    Parameters
    ----------
    folder : Path
        Files below it are named relative to it, so that logs do not depend on its location.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder.resolve())
        self._names: dict[str, str] = {}

    def caller(self) -> str:
        """``file:line`` of the code that called this package."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_HERE):
            frame = frame.f_back
        return "" if frame is None else self.of(frame)

    def of(self, frame: FrameType) -> str:
        """``file:line`` of a frame, or of the nearest enclosing one in user code."""
        return f"{self.name(frame.f_code.co_filename)}:{frame.f_lineno}"

    def error(self, error: BaseException, cls: type) -> str:
        """``"ValueError: message (file.py:12)"``; the deepest line of the class's own file.

        Without a line of that file, the deepest one outside this package.
        """
        frames = [f for f in traceback.extract_tb(error.__traceback__) if _HERE not in f.filename]
        own = [f for f in frames if f.filename == inspect.getsourcefile(cls)]
        place = [f"{self.name(f.filename)}:{f.lineno}" for f in own or frames][-1:]
        text = f": {error}" if str(error) else ""
        text += "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        return f"{type(error).__name__}{text}{''.join(f' ({line})' for line in place)}"

    def name(self, file: str) -> str:
        """Name of a file, relative to the folder if it is below it."""
        if file not in self._names:
            path = os.path.relpath(os.path.realpath(file), self._folder)
            self._names[file] = file if path.startswith("..") else path
        return self._names[file]


T = TypeVar("T")
#: Tolerance of comparisons of times, s.
EPS: Final = 1e-9


class Pause:
    """Object that steps yield; the stepper refuses anything else."""


PAUSE: Final = Pause()
Steps = Generator[Pause, None, T]


class StepTimeout(TimeoutError):
    """A condition was not fulfilled in time."""


class SequenceStopped(BaseException):
    """The session ends; not an `Exception`, so that a sequence's own handlers do not catch it."""


@dataclass(frozen=True, slots=True)
class Waited:
    """Duration of a step.

    Attributes
    ----------
    t : float
        Session time at the end of the step, s.
    elapsed : float
        Session time from the beginning of the step to `t`, s.
    """

    t: float
    elapsed: float


class BenchOfSteps(Protocol):
    """The bench for steps; see `SequenceBench` for the methods."""

    now: float
    end: float
    closing: bool
    forgotten: list[str]
    where: Where

    def begin_step(self, where: str, text: str) -> None:
        """Report a step before it acts."""

    def driven_value(self, port: str) -> float:
        """Present value of a port."""
        ...

    def drive(self, port: str, value: float) -> None:
        """Set an output of the present interval."""

    def readings(self, names: Collection[str] = ()) -> str:
        """Current readings as text: of given signals, or of the first ones."""
        ...


class SequenceStep(abc.ABC, Generic[T]):
    """One step, created by a method of `SequenceBench` and started by ``await``.

    Parameters
    ----------
    bench : BenchOfSteps
    text : str
        Its action or condition, reported before it starts.
    timeout : float, optional
        Session time allowed, s; its end is reported as well.
    """

    def __init__(self, bench: BenchOfSteps, text: str, timeout: float | None = None) -> None:
        self.bench, self.text, self.where = bench, text, bench.where.caller()
        self._limit = timeout
        self._begun = False

    def __await__(self) -> Generator[Any, None, T]:
        """Report the line, and perform the step."""
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
        """Note that another object will start this step."""
        self._begun = True

    def waited(self, began: float) -> Waited:
        """Time waited until the current sample."""
        return Waited(self.bench.now, self.bench.now - began)

    def __del__(self) -> None:
        if not getattr(self, "_begun", True):
            self.bench.forgotten.append(f"{self.where}: {self.text}")
