"""Base class of users' sequences: signals to read, ports to drive, and `run`.

::

    class TipIn(hilrt.Sequence):
        reads = ("engine.speed", "engine.torque")
        drives = (Port("pedal", "%"),)

        async def run(self, bench):
            await bench.ramp("pedal", to=20.0, rate=50.0)
            await bench.until("engine.speed > 120", timeout=10.0)
"""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Coroutine
from collections.abc import Sequence as Several
from typing import TYPE_CHECKING, Any

import numpy as np

from hilrt.errors import ConfigError, SolverError
from hilrt.sequences.bench import LOG, Report, SequenceBench, Setting
from hilrt.sequences.steps import PAUSE, SequenceStopped, refuse
from hilrt.solver import Floats, InputPolynomial, Port, Ports, Sample, Solver

if TYPE_CHECKING:
    from hilrt.sequences.bench import SequenceBench

#: Suffix of a port's name for the output that is 1 while the sequence drives it, else 0.
DRIVEN = ".driven"


class Sequence:
    """A test sequence; subclass it, and write `run`.

    The constructor gets `params` of the session file as keyword arguments. `run` continues at
    every communication point, with the samples of that point; the values that it sets act from the
    next one on. When it returns, the session ends normally. An exception ends the session with the
    stop sequence of the benches.
    """

    #: Outputs of other subsystems, ``subsystem.port``. They are connected by these names and read
    #: as raw samples, never extrapolated or corrected.
    reads: Several[str] = ()
    #: Ports whose values the sequence sets; they are held between communication points.
    drives: Several[Port] = ()
    #: Session file that ``hilrt test`` uses, relative to the sequence's own file.
    session: str | None = None

    async def run(self, bench: SequenceBench) -> None:
        """Run the test; see `SequenceBench` for what to await and call."""
        raise NotImplementedError(f"{type(self).__name__} has no run; write `async def run`")


def ports_of(sequence: Sequence) -> Ports:
    """Inputs, named like the signals read, and outputs with their companions; `ConfigError`."""
    target = type(sequence).__name__
    problems = []
    reads, drives = sequence.reads, sequence.drives
    if isinstance(reads, str) or not all(isinstance(name, str) for name in reads):
        problems.append(f"{target}: reads = {reads!r}; write a tuple of texts, ('a.x',)")
    elif wrong := [name for name in reads if not all(name.partition("."))]:
        problems.append(f"{target}: reads {wrong[0]!r}; write it as subsystem.port")
    elif len({*reads}) < len(reads):
        problems.append(f"{target}: reads names a signal twice; remove one")
    if isinstance(drives, Port) or not all(isinstance(port, Port) for port in drives):
        problems.append(f"{target}: drives = {drives!r}; write a tuple, (hilrt.Port('x'),)")
    elif vectors := [port.name for port in drives if port.size != 1]:
        problems.append(f"{target}: drives {vectors[0]!r} with several elements; name each one")
    elif len({port.name for port in drives}) < len(drives):
        problems.append(f"{target}: drives a port twice; remove one")
    if problems:
        raise ConfigError(problems)
    inputs = tuple(Port(name) for name in reads)
    companions = tuple(
        Port(port.name + DRIVEN, description=f"1 while the sequence drives {port.name}")
        for port in drives
    )
    return Ports(inputs, (*drives, *companions))


# Drives a sequence's coroutine: a `Solver` that resumes it once per step.

log = logging.getLogger("hilrt.sequence")


class SequenceStepper(Solver):
    """A sequence as a steppable solver.

    In the step from `t` to ``t + h`` the coroutine continues with the samples of `t`; the values it
    sets are the outputs at ``t + h``.

    Parameters
    ----------
    sequence : Sequence
    setting : Setting

    Attributes
    ----------
    bench : SequenceBench
        Argument of `run`.
    on_step : callable
        Called with True before the coroutine continues, and with False when it waits again.
    """

    def __init__(self, sequence: Sequence, setting: Setting = Setting()) -> None:  # noqa: B008
        ports = ports_of(sequence)
        self.inputs, self.outputs = ports
        self.bench = SequenceBench(ports, setting)
        self.on_step: Callable[[bool], None] = lambda busy: None
        self._sequence, self._step = sequence, setting.step
        self._run: Coroutine[Any, Any, None] | None = None

    def report_to(self, report: Report) -> None:
        """Set the consumer of the sequence's events."""
        self.bench.forward = report

    def answer(self, number: int, answer: str, who: str) -> None:
        """Pass on an operator's answer to a prompt, between two steps; report a late one."""
        if not self.bench.prompts.take(number, answer, who):
            self.bench.report(
                LOG, f"the answer {answer!r} of {who} arrived when no question was open for it"
            )

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Outputs at their start values; the coroutine starts with the first step."""
        if self._run is not None:
            raise SolverError("a sequence cannot restart")
        self.bench.take(t0, t0, u0)
        self.bench.prepare()
        return Sample(np.array(self.bench.outputs()))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Resume the coroutine until it waits for the next communication point.

        After late ticks the interval is longer, and the samples are those at the beginning of its
        last part.
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
        """Resume the coroutine; return whether it has ended."""
        try:
            yielded = run.send(None)
            if yielded is not PAUSE:
                refuse(run, yielded)
        except StopIteration:
            return True
        return False

    def stop(self, reason: str) -> None:
        """Let an unfinished coroutine clean up; no session time passes."""
        run, self._run = self._run, None
        if run is None or inspect.getcoroutinestate(run) == inspect.CORO_CLOSED:
            return
        self.bench.closing = True
        with contextlib.suppress(SequenceStopped, StopIteration):
            run.throw(SequenceStopped())
        with contextlib.suppress(SequenceStopped, RuntimeError):
            run.close()
