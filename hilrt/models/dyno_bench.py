"""The common part of emulated benches with a dynamometer: drive, demands, sequence control.

The machine at the other end of the shaft is a subclass's, with the messages that belong to it.
"""

from __future__ import annotations

import abc
import random
from collections.abc import Callable, Mapping

from hilrt.models.bench_sequence import BenchSequence
from hilrt.models.dynamometer import Dynamometer, DynoData, DynoDemand


class DynoBench(abc.ABC):
    """A machine on a dynamometer.

    Parameters
    ----------
    data : DynoData
        Of the dynamometer, its shaft and the machine.
    seed : int
        Of the sensor noise.

    Attributes
    ----------
    sequence : BenchSequence
    dyno : Dynamometer
    """

    def __init__(self, data: DynoData, seed: int) -> None:
        self._noise: Callable[[float, float], float] = random.Random(seed).gauss
        self._dyno_demand = DynoDemand()
        self.sequence = BenchSequence()
        self.dyno = Dynamometer(data)

    @property
    def requested(self) -> bool:
        """Whether enable is requested."""
        return self._dyno_demand.enable

    def receive(self, message: str, values: Mapping[str, float], now: float) -> None:
        """Take the signals of a message received by `now` [s], before the cycle that ends then."""
        if message == "DynoDemand":
            self._dyno_demand.take(values, now)

    def advance(self, now: float) -> None:
        """One control cycle, ending at `now` [s]; the clock may jump, the physics does not."""
        demand, age = self._dyno_demand, now - self._demands_moved_at()
        if self.sequence.advance(now, requested=demand.enable, demand_age=age, trip=self._trip()):
            self.dyno.start()
        self.dyno.advance(
            self._advance_machine(),
            enabled=self.sequence.enabled,
            speed=demand.speed,
            torque=demand.torque,
            mode=demand.mode,
        )

    @abc.abstractmethod
    def _demands_moved_at(self) -> float:
        """Time of the last change of the oldest demand's counter, s."""

    @abc.abstractmethod
    def _trip(self) -> int:
        """The bench's own cause for a fault, or 0."""

    @abc.abstractmethod
    def _advance_machine(self) -> float:
        """The machine over one cycle; returns the torque that accelerates its inertia, N m."""
