"""Steps that set a port, and steps that wait."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable
from typing import Any

from hilrt.sequences.awaited_step import (
    EPS,
    PAUSE,
    BenchOfSteps,
    SequenceStep,
    SequenceStopped,
    Steps,
    StepTimeout,
    Waited,
)


class Ramp(SequenceStep[Waited]):
    """Ramp of a port at a constant rate [unit/s]; completed when the value has been sent."""

    def __init__(self, bench: BenchOfSteps, port: str, to: float, rate: float) -> None:
        super().__init__(bench, f"ramps {port} to {to:g}, {rate:g} per s")
        self._port, self._to, self._rate = port, to, rate

    def steps(self, began: float) -> Steps[Waited]:
        """Outputs belong to the end of the interval, so the ramp rises from its beginning."""
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
        """Raise `StepTimeout` when the time is over.

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
    the others are ended in order, and the exception is re-raised.
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

        An exception in one does not keep the others from cleaning up: it is noted on the exception
        that ended the branches, or raised if the session's end did.
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
