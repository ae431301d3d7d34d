"""Several branches of a sequence at the same time, in the order of their creation."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Coroutine, Generator, Iterable
from typing import Any

from hilrt.sequences.awaited_step import PAUSE, BenchOfSteps, SequenceStep, SequenceStopped, Steps

Branch = Awaitable[Any]


class Together(SequenceStep[list[Any]]):
    """Branches that go on at the same communication points; over when all are.

    At each point the first branch goes on until it waits, then the second, and so on. What one
    raises ends the others, in their order, and is raised.
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
        """Let branches that have not ended clean up; they have no more time for steps.

        What one raises there keeps no other from it: it is noted with what has ended the branches,
        or raised if the session's end has.
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
    """Let a branch clean up; what it raises."""
    try:
        branch.close()
    except SequenceStopped:
        pass
    except (Exception, SystemExit) as error:
        return error
    return None


def refuse(run: Generator[Any, Any, Any] | Coroutine[Any, Any, Any], yielded: object) -> None:
    """Raise, at the line of `run` that awaits it, that `yielded` is no step."""
    wrong = not_a_step(yielded)
    with contextlib.suppress(StopIteration):
        run.throw(wrong)
    raise wrong  # it has been caught


def not_a_step(yielded: object) -> TypeError:
    """What is raised where something else than a step is awaited."""
    what = "something of another library" if yielded is None else f"{yielded!r:.80}"
    return TypeError(
        f"awaits {what}; a sequence has no event loop, await only what bench returns: "
        "bench.wait(…) instead of asyncio.sleep(…)"
    )
