"""Several branches of a sequence at the same time, in the order of their creation."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Generator, Iterable
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
                            running[i].throw(not_a_step(yielded))
                if running:
                    yield PAUSE
        finally:
            self._end(running.values())
        return results

    def _end(self, branches: Iterable[Generator[Any, None, Any]]) -> None:
        """Let branches that have not ended clean up; they have no more time for steps."""
        bench = self.bench
        before, bench.closing = bench.closing, True
        try:
            for branch in branches:
                with contextlib.suppress(SequenceStopped):
                    branch.close()
        finally:
            bench.closing = before


def not_a_step(yielded: object) -> TypeError:
    """What is raised where something else than a step is awaited."""
    what = "something of another library" if yielded is None else f"{yielded!r:.80}"
    return TypeError(
        f"awaits {what}; a sequence has no event loop, await only what bench returns: "
        "bench.wait(…) instead of asyncio.sleep(…)"
    )
