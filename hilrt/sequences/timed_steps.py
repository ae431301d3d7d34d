"""Steps that set a port, and steps that wait."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hilrt.sequences.awaited_step import (
    EPS,
    PAUSE,
    BenchOfSteps,
    SequenceStep,
    Steps,
    StepTimeout,
    Waited,
)


class Ramp(SequenceStep[Waited]):
    """A port to a value, at a constant rate [unit/s]; over when the value has left."""

    def __init__(self, bench: BenchOfSteps, port: str, to: float, rate: float) -> None:
        super().__init__(bench, f"ramps {port} to {to:g}, {rate:g} per s")
        self._port, self._to, self._rate = port, to, rate

    def steps(self, began: float) -> Steps[Waited]:
        """Outputs belong to the end of the interval, so that the ramp rises from the beginning."""
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
    """A port to a value at once; over at the next communication point, where the value leaves."""

    def __init__(self, bench: BenchOfSteps, port: str, to: float) -> None:
        super().__init__(bench, f"steps {port} to {to:g}")
        self._port, self._to = port, to

    def steps(self, began: float) -> Steps[Waited]:
        """Set the output of this interval, and let it pass."""
        self.bench.drive(self._port, self._to)
        yield PAUSE
        return self.waited(began)


class Wait(SequenceStep[Waited]):
    """Time that passes; with a port, that is held."""

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
    """Samples that pass until a condition holds, and has held for as long as it must."""

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
        """`StepTimeout` when the time is over.

        `elapsed` ends with the sample from which on the condition held.
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
