"""Drives a sequence's coroutine: a `Solver` that resumes it once in every step."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np

from hilrt.errors import SolverError
from hilrt.sequences.awaited_step import PAUSE, SequenceStopped
from hilrt.sequences.bench import LOG, SequenceBench, Setting, Tell
from hilrt.sequences.sequence import Sequence, ports_of
from hilrt.sequences.together import refuse
from hilrt.solver import Floats, InputPolynomial, Sample, Solver

log = logging.getLogger("hilrt.sequence")


class SequenceStepper(Solver):
    """A sequence as something that is stepped.

    In the step from `t` to ``t + h`` the coroutine goes on with the samples of `t`; what it sets
    are the outputs at ``t + h``.

    Parameters
    ----------
    sequence : Sequence
    setting : Setting

    Attributes
    ----------
    bench : SequenceBench
        What `run` is given.
    on_step : callable
        Called with True before the coroutine goes on, and with False when it waits again.
    """

    def __init__(self, sequence: Sequence, setting: Setting = Setting()) -> None:  # noqa: B008
        ports = ports_of(sequence)
        self.inputs, self.outputs = ports
        self.bench = SequenceBench(ports, setting)
        self.on_step: Callable[[bool], None] = lambda busy: None
        self._sequence, self._step = sequence, setting.step
        self._run: Coroutine[Any, Any, None] | None = None

    def hand_on_to(self, tell: Tell) -> None:
        """Where the events of the sequence go."""
        self.bench.hand_on = tell

    def take_answer(self, number: int, answer: str, who: str) -> None:
        """An operator's answer to a prompt, between two steps; one that is too late is told."""
        if not self.bench.prompts.take(number, answer, who):
            self.bench.tell(LOG, f"the answer {answer!r} of {who} came when nothing waited for it")

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Outputs at their start values; the coroutine begins with the first step."""
        if self._run is not None:
            raise SolverError("a sequence cannot begin again")
        self.bench.take(t0, t0, u0)
        self.bench.prepare()
        return Sample(np.array(self.bench.outputs()))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Let the coroutine go on until it waits for the next communication point.

        After ticks that were late, the interval is longer, and the samples are those of the
        beginning of its last part.
        """
        now = t if self._step is None else max(t, t + h - self._step)
        self.bench.take(now, t + h, u(t))
        if self._run is None:
            self._run = self._begin()
        self.on_step(True)
        try:
            ended = self._resume(self._run)
        except SolverError:
            raise
        except (Exception, SystemExit) as error:
            cls = type(self._sequence)
            log.error("%s.run raised at t = %g s", cls.__name__, now, exc_info=error)
            raise SolverError(self.bench.where.error(error, cls)) from error
        finally:
            self.on_step(False)
        if self.bench.forgotten:
            raise SolverError(f"{self.bench.forgotten[0]}: is not awaited; write await before it")
        y = np.array(self.bench.outputs())
        if ended:
            y[len(y) // 2 :] = 0.0
        return Sample(y, ended="the sequence has ended" if ended else "")

    def _begin(self) -> Coroutine[Any, Any, None]:
        run = self._sequence.run(self.bench)
        if not inspect.iscoroutine(run):
            raise SolverError(f"{type(self._sequence).__name__}.run: write it as `async def run`")
        return run

    def _resume(self, run: Coroutine[Any, Any, None]) -> bool:
        """Whether the coroutine has ended."""
        try:
            yielded = run.send(None)
            if yielded is not PAUSE:
                refuse(run, yielded)
        except StopIteration:
            return True
        return False

    def stop(self, reason: str) -> None:
        """Let a coroutine that has not ended clean up; no session time passes for that."""
        run, self._run = self._run, None
        if run is None or inspect.getcoroutinestate(run) == inspect.CORO_CLOSED:
            return
        self.bench.closing = True
        with contextlib.suppress(SequenceStopped, StopIteration):
            run.throw(SequenceStopped())
        with contextlib.suppress(SequenceStopped, RuntimeError):
            run.close()
