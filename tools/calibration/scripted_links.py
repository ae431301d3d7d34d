"""Links with scripted arrival times of samples on a virtual clock, and a clock with stalls."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hilrt.config.structs import SubsystemOptions
from hilrt.solver import Floats, Sample, Solver
from hilrt.timing.early_reception import EarlyReception
from hilrt_adapters.inprocess import InProcessLink
from tests.virtual_clock import VirtualClock


@dataclass
class Measurement:
    """Path from a quantity to its sample: noise and resolution, shapes (ny,)."""

    noise: Floats
    step: Floats

    def of(self, y: Floats, random: np.random.Generator) -> Floats:
        """Return the value as sent."""
        measured: Floats = y + self.noise * random.normal(size=len(y))
        coarse = self.step > 0.0
        measured[coarse] = np.round(measured[coarse] / self.step[coarse]) * self.step[coarse]
        return measured

    @property
    def exact(self) -> bool:
        """Whether values are sent unchanged."""
        return not (self.noise.any() or self.step.any())


@dataclass
class Script:
    """Delays of samples and stalls, s.

    Attributes
    ----------
    latency, jitter : float
        Minimum delay of a sample after its time or after the dispatch of a step, and its maximum
        addition.
    late_share, late_by : float
        Share of the samples with an additional delay, and its maximum.
    stall_share, stall : float
        Share of the steps with a stall, and its duration.
    lost_share : float
        Share of a bench's samples that never arrive.
    command_latency, cycle, stamped
        For a bench: delay until a set-point acts, control cycle, and whether samples have time
        stamps.
    """

    latency: float = 0.0
    jitter: float = 0.0
    late_share: float = 0.0
    late_by: float = 0.0
    stall_share: float = 0.0
    stall: float = 0.0
    lost_share: float = 0.0
    command_latency: float = 0.0
    cycle: float = 0.0
    stamped: bool = True

    def delay(self, random: np.random.Generator) -> float:
        """Delay of one sample."""
        delay = self.latency + self.jitter * float(random.random())
        if self.late_share and random.random() < self.late_share:
            delay += self.late_by * float(random.random())
        if self.stall_share and random.random() < self.stall_share:
            delay += self.stall
        return delay


class StallingClock(VirtualClock):
    """A virtual clock whose sleeper occasionally wakes late, as on a busy host.

    Parameters
    ----------
    share, longest : float, int
        Share of the sleeps that end late, and maximum delay, ns.
    """

    def __init__(self, share: float, longest: int, random: np.random.Generator) -> None:
        super().__init__()
        self.share, self.longest, self.random = share, longest, random

    async def sleep_until(
        self,
        target_ns: int,
        *,
        stand_still: bool = True,
        reception: EarlyReception | None = None,
    ) -> int:
        await super().sleep_until(target_ns, stand_still=stand_still, reception=reception)
        if self.share and self.random.random() < self.share:
            self.advance(int(self.longest * self.random.random()))
        return self.now_ns()


class MeasuredLink(InProcessLink):
    """A solver in this process whose samples are measured; it answers immediately."""

    def __init__(
        self, name: str, solver: Solver, measurement: Measurement, random: np.random.Generator
    ) -> None:
        super().__init__(name, SubsystemOptions(adapter="inprocess"), Path())
        self.measurement, self.random = measurement, random
        self.host(solver)

    async def open(self) -> None:
        """Do nothing: the solver already exists."""

    def step(self) -> tuple[Sample, float]:
        sample, t = super().step()
        return self.measured(sample), t

    def measured(self, sample: Sample) -> Sample:
        """Return the sample with its values as sent."""
        if not self.measurement.exact:
            sample.y = self.measurement.of(sample.y, self.random)
            if sample.y_mid is not None:
                sample.y_mid = self.measurement.of(sample.y_mid, self.random)
        return sample


class SteppedLink(MeasuredLink):
    """A solver in another process: its answers arrive after a delay."""

    clock: VirtualClock
    script: Script
    _held: tuple[Sample, float] | None = None
    _due_ns = 0

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        super().dispatch(tick, t, h, coefficients)
        self._held = self.step()
        self._due_ns = self.clock.now_ns() + round(1e9 * self.script.delay(self.random))

    def receive(self) -> None:
        if self._held is not None and self.clock.now_ns() >= self._due_ns:
            self.inbox.put(*self._held)
            self._held = None


class BenchLink(MeasuredLink):
    """A part that runs by itself in its own cycle and holds the newest set-point."""

    physical = True
    clock: VirtualClock
    script: Script

    def begin(self, u0: Floats) -> None:
        """Set the first set-points."""
        self._cycles, self._u = 0, u0.copy()
        self._demands: deque[tuple[float, Floats]] = deque()
        self._way: deque[tuple[float, Sample]] = deque()

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        self.begin(u0)
        return await super().initialize(t0, u0)

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        acts = self.clock.now_ns() * 1e-9 + self.script.command_latency
        self._demands.append((acts, coefficients[0].copy()))

    def receive(self) -> None:
        now, cycle = self.clock.now_ns() * 1e-9, self.script.cycle
        for _ in range(math.floor(now / cycle + 1e-6) - self._cycles):
            self._turn(self._cycles * cycle, cycle)
            self._cycles += 1
        while self._way and self._way[0][0] <= now + 1e-9:
            t_arrived, sample = self._way.popleft()
            self.inbox.put(sample, t_arrived)

    def _turn(self, t: float, cycle: float) -> None:
        """Run one cycle of the bench and send its sample."""
        while self._demands and self._demands[0][0] <= t + 1e-9:
            _, self._u = self._demands.popleft()
        sample = self._hosted.advance(t, cycle, self._u[None])
        if self.script.lost_share and self.random.random() < self.script.lost_share:
            return
        arrives = t + cycle + self.script.delay(self.random)
        if self._way:  # messages do not overtake one another
            arrives = max(arrives, self._way[-1][0])
        if self.script.stamped:
            sample.t_valid = np.full(len(sample.y), t + cycle)
        self._way.append((arrives, self.measured(sample)))
