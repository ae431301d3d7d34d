"""Objects to await in `run`: a step of the sequence lasts from one communication point to a later.

A step is a generator that yields `PAUSE` to wait for the next communication point, at which the
stepper resumes the coroutine. There is no event loop.
"""

from __future__ import annotations

import abc
import contextlib
import inspect
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable
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
        Limit of session time, s; its end is also reported.
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
        """Record that another object will start this step."""
        self._begun = True

    def waited(self, began: float) -> Waited:
        """Time waited until the current sample."""
        return Waited(self.bench.now, self.bench.now - began)

    def __del__(self) -> None:
        if not getattr(self, "_begun", True):
            self.bench.forgotten.append(f"{self.where}: {self.text}")


# Steps that set a port, and steps that wait.


class Ramp(SequenceStep[Waited]):
    """Ramp of a port at a constant rate [unit/s]; completed when the value has been sent."""

    def __init__(self, bench: BenchOfSteps, port: str, to: float, rate: float) -> None:
        super().__init__(bench, f"ramps {port} to {to:g}, {rate:g} per s")
        self._port, self._to, self._rate = port, to, rate

    def steps(self, began: float) -> Steps[Waited]:
        """Ramp from the beginning of the interval, as outputs belong to its end."""
        bench, start = self.bench, self.bench.driven_value(self._port)
        way = self._to - start
        lasts = abs(way) / self._rate
        while bench.now - began < lasts - EPS:
            share = min((bench.end - began) / lasts, 1.0)
            arrives = bench.end - began >= lasts - EPS
            bench.drive(self._port, self._to if arrives else start + way * share)
            yield PAUSE
        bench.drive(self._port, self._to)
        return self.waited(began)


class Jump(SequenceStep[Waited]):
    """Jump of a port; completed at the next communication point, where the value is sent."""

    def __init__(self, bench: BenchOfSteps, port: str, to: float) -> None:
        super().__init__(bench, f"steps {port} to {to:g}")
        self._port, self._to = port, to

    def steps(self, began: float) -> Steps[Waited]:
        """Set the output of this interval, and let the interval pass."""
        self.bench.drive(self._port, self._to)
        yield PAUSE
        return self.waited(began)


class Wait(SequenceStep[Waited]):
    """Waiting time; with a port, the port is held."""

    def __init__(self, bench: BenchOfSteps, duration: float, port: str = "") -> None:
        what = f"holds {port} for" if port else "waits"
        super().__init__(bench, f"{what} {duration:g} s")
        self._port, self._duration = port, duration

    def steps(self, began: float) -> Steps[Waited]:
        """Let communication points pass."""
        if self._port:
            self.bench.drive(self._port, self.bench.driven_value(self._port))
        while self.bench.now - began < self._duration - EPS:
            yield PAUSE
        return self.waited(began)


class Until(SequenceStep[Waited]):
    """Wait until a condition has held for the required time."""

    def __init__(
        self,
        bench: BenchOfSteps,
        holds: Callable[[], bool],
        text: str,
        timeout: float,
        stays: float,
        reads: Collection[str] = (),
    ) -> None:
        long = f" for {stays:g} s" if stays > 0.0 else ""
        super().__init__(bench, f"waits for {text}{long}", timeout)
        self._holds, self._timeout, self._stays = holds, timeout, stays
        self._condition, self._reads = text, reads

    def steps(self, began: float) -> Steps[Waited]:
        """Raise `StepTimeout` at the time limit.

        `elapsed` ends with the sample from which the condition held.
        """
        bench = self.bench
        since: float | None = None
        while True:
            if not self._holds():
                since = None
            elif since is None:
                since = bench.now
            if since is not None and bench.now - since >= self._stays - EPS:
                return Waited(since, since - began)
            if bench.now - began >= self._timeout - EPS:
                text = f"{self._condition} did not hold within {self._timeout:g} s"
                raise StepTimeout(f"{text} ({bench.readings(self._reads)})")
            yield PAUSE


# Several branches of a sequence at the same time, in the order of their creation.

Branch = Awaitable[Any]


class Together(SequenceStep[list[Any]]):
    """Branches that continue at the same communication points; completed when all are.

    At each point the first branch runs until it waits, then the second, and so on. If one raises,
    the others are closed, and the exception is re-raised.
    """

    def __init__(self, bench: BenchOfSteps, branches: tuple[Branch, ...]) -> None:
        super().__init__(bench, f"does {len(branches)} things together")
        self._branches = branches
        for branch in branches:
            if isinstance(branch, SequenceStep):
                branch.taken()

    def steps(self, began: float) -> Steps[list[Any]]:
        """Resume every branch that has not ended."""
        running: dict[int, Generator[Any, None, Any]] = {
            i: branch.__await__() for i, branch in enumerate(self._branches)
        }
        results: list[Any] = [None] * len(running)
        try:
            while running:
                for i in list(running):
                    try:
                        yielded = running[i].send(None)
                    except StopIteration as end:
                        results[i] = end.value
                        del running[i]
                    else:
                        if yielded is not PAUSE:
                            refuse(running[i], yielded)
                if running:
                    yield PAUSE
        finally:
            self._end(running.values())
        return results

    def _end(self, branches: Iterable[Generator[Any, None, Any]]) -> None:
        """Let unfinished branches clean up; they have no more time for steps.

        An exception in one does not prevent the clean-up of the others: it becomes a note of the
        exception that ended the branches, or is raised if the session's end did.
        """
        bench, ended_by = self.bench, sys.exception()
        before, bench.closing = bench.closing, True
        errors = [error for branch in branches if (error := _close(branch)) is not None]
        bench.closing = before
        if not errors:
            return
        first = ended_by if isinstance(ended_by, Exception) else errors.pop(0)
        for error in errors:
            first.add_note(f"the clean-up of a branch raised {type(error).__name__}: {error}")
        if first is not ended_by:
            raise first


def _close(branch: Generator[Any, None, Any]) -> Exception | SystemExit | None:
    """Let a branch clean up; return its exception."""
    try:
        branch.close()
    except SequenceStopped:
        pass
    except (Exception, SystemExit) as error:
        return error
    return None


def refuse(run: Generator[Any, Any, Any] | Coroutine[Any, Any, Any], yielded: object) -> None:
    """Raise, at the line of `run` that awaits it, that `yielded` is not a step."""
    wrong = not_a_step(yielded)
    with contextlib.suppress(StopIteration):
        run.throw(wrong)
    raise wrong  # it has been caught


def not_a_step(yielded: object) -> TypeError:
    """Error for awaiting something other than a step."""
    what = "something from another library" if yielded is None else f"{yielded!r:.80}"
    return TypeError(
        f"awaits {what}; a sequence has no event loop, await only results of bench's methods: "
        "bench.wait(…) instead of asyncio.sleep(…)"
    )
