"""Where the time of a remote solver's answers goes: computing, on the wire, and waited for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hilrt.solver import Floats
from hilrt.timing.count_times import count_times
from hilrt.timing.histogram import BINS, Distribution, Quantiles

#: Times of each answer.
_KINDS = 3


@dataclass(frozen=True)
class PeerTimes:
    """Distributions over a session's answers of one solver.

    Attributes
    ----------
    compute : Distribution
        What the solver says it took.
    wire : Distribution
        On the wire: as fast as possible the round trip less the computing. In real time the way to
        the solver, by its own clock: the master does not look at the moment an answer arrives.
    wait : Distribution
        How long the master waited for the answer, as fast as possible; 0 if it was there.
    """

    compute: Distribution
    wire: Distribution
    wait: Distribution

    def summary(self) -> dict[str, Quantiles | None]:
        """What summaries show, µs; None where nothing was measured."""
        named = {
            "compute_us": self.compute,
            "wire_us": self.wire,
            "collect_wait_us": self.wait,
        }
        return {key: d.quantiles() if d.n else None for key, d in named.items()}


class AnswerTimes:
    """Times of all remote solvers: kept on the critical path, counted in the slack.

    Parameters
    ----------
    wire_us : ndarray, shape (n subsystems,)
        Filled with the times of the newest answers on the wire; NaN where unknown.

    Attributes
    ----------
    waits_from : float
        Session time since which the master has waited for answers [s]; NaN in real time, where it
        waits for none.
    """

    def __init__(self, wire_us: Floats) -> None:
        n = len(wire_us)
        self._counts = np.zeros((n, _KINDS, BINS), dtype=np.int64)
        self._longest_ns = np.zeros((n, _KINDS), dtype=np.int64)
        self.wire_us = wire_us
        self.waits_from = math.nan
        self._new: list[tuple[int, float, float, float]] = []

    def keep(
        self, s: int, compute_us: float, round_trip_us: float, way_us: float, t_arrived: float
    ) -> None:
        """Note one answer; `RemoteLink` explains the times, `t_arrived` is session time [s]."""
        wire, wait = way_us, math.nan
        if not math.isnan(self.waits_from):
            wait = max(0.0, t_arrived - self.waits_from) * 1e6
            # An answer that was there before the master looked has a round trip of unknown length.
            wire = round_trip_us - compute_us if wait else math.nan
        self.wire_us[s] = wire
        self._new.append((s, compute_us, wire, wait))

    def count(self) -> None:
        """Count the answers noted since the last call."""
        if self._new:
            count_times(np.array(self._new), self._counts, self._longest_ns)
            self._new.clear()

    def of(self, s: int) -> PeerTimes:
        """What has been counted of subsystem number `s`."""
        found = zip(self._counts[s].tolist(), self._longest_ns[s].tolist(), strict=True)
        return PeerTimes(*(Distribution(counts, max_ns) for counts, max_ns in found))
