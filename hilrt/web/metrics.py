"""``/metrics``: the session's figures for Prometheus, computed at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from hilrt.monitor.session_state import SessionState
from hilrt.monitor.viewer import Viewer
from hilrt.reliability.causes import CAUSES
from hilrt.web.plots import TIMING_SIGNAL
from hilrt.web.shared_session import FULL_SAMPLES, Ring, SignalHistory

#: Upper ends of the lateness's buckets, µs.
BUCKETS_US = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


class Lateness:
    """Counts the lateness of every tick in buckets, also between two scrapes."""

    def __init__(self, viewer: Viewer, history: SignalHistory) -> None:
        viewer.want_full(TIMING_SIGNAL)
        self._ring = history.full.setdefault(TIMING_SIGNAL, Ring(FULL_SAMPLES, 2))
        self._seen = 0
        self._counts = np.zeros(len(BUCKETS_US) + 1, np.int64)
        self._sum_us = 0.0

    def count(self) -> None:
        """Count new ticks; to be called more often than the ring is filled."""
        late = self._ring.since(self._seen)[:, 1]
        self._seen = self._ring.total
        late = late[np.isfinite(late)]
        self._counts += np.bincount(np.searchsorted(BUCKETS_US, late), minlength=len(self._counts))
        self._sum_us += float(late.sum())

    def metric(self) -> Metric:
        """Format a distribution as a histogram."""
        self.count()
        ends = [*(f"{end * 1e-6:g}" for end in BUCKETS_US), "+Inf"]
        buckets = list(zip(ends, np.cumsum(self._counts).tolist(), strict=True))
        text = "Tick to dispatch complete."
        return HistogramMetricFamily(
            "hilrt_lateness_seconds", text, buckets, sum_value=self._sum_us * 1e-6
        )


class SessionCollector(Collector):
    """Metrics from a `Viewer`; `up` is 0 while the session is silent."""

    def __init__(self, viewer: Viewer, history: SignalHistory) -> None:
        self._viewer, self._history = viewer, history
        self.lateness = Lateness(viewer, history)

    def collect(self) -> Iterator[Metric]:
        """All metrics with their present values."""
        viewer, status = self._viewer, self._viewer.status
        alive = status is not None and not viewer.silent
        yield GaugeMetricFamily("hilrt_up", "Whether the session is heard.", float(alive))
        yield CounterMetricFamily(
            "hilrt_monitor_missed_messages", "Messages this page did not take.", viewer.missed
        )
        yield CounterMetricFamily(
            "hilrt_record_lost_rows", "Ticks missing in the telemetry.", self._history.lost
        )
        if status is None:
            return
        state = GaugeMetricFamily("hilrt_state", "1 for the present state.", labels=["state"])
        for name in SessionState:
            state.add_metric([str(name)], float(status.state == name))
        yield state
        yield GaugeMetricFamily("hilrt_time_seconds", "Session time.", status.t)
        yield CounterMetricFamily("hilrt_ticks", "Ticks.", status.tick)
        yield GaugeMetricFamily("hilrt_rate_hertz", "Macro steps per second.", status.rate_hz)
        yield CounterMetricFamily("hilrt_missed_ticks", "Ticks past their deadline.", status.missed)
        yield GaugeMetricFamily("hilrt_shadow", "1: no correction acts.", float(status.shadow))
        if status.lateness_us is not None:
            yield self.lateness.metric()
        flags = GaugeMetricFamily("hilrt_flags", "Flags that are up.", labels=["cause"])
        up = [flag.cause for flag in viewer.flags]
        for cause in CAUSES:
            flags.add_metric([cause], up.count(cause))
        yield flags
        yield from self._peers()
        yield from self._bonds()

    def _peers(self) -> Iterator[Metric]:
        peers = self._viewer.status.peers if self._viewer.status is not None else {}
        late = CounterMetricFamily("hilrt_late_samples", "Late ticks.", labels=["subsystem"])
        lost = CounterMetricFamily("hilrt_lost_samples", "Lost messages.", labels=["subsystem"])
        dropped = CounterMetricFamily(
            "hilrt_dropped_samples", "Messages that came and did not count.", labels=["subsystem"]
        )
        age = GaugeMetricFamily("hilrt_sample_age_seconds", "Newest sample.", labels=["subsystem"])
        for name, peer in peers.items():
            late.add_metric([name], peer.late)
            lost.add_metric([name], peer.lost)
            dropped.add_metric([name], peer.dropped)
            age.add_metric([name], peer.age_ms * 1e-3)
        yield from (late, lost, dropped, age)

    def _bonds(self) -> Iterator[Metric]:
        bonds = self._viewer.status.bonds if self._viewer.status is not None else {}
        power = GaugeMetricFamily("hilrt_bond_power_watts", "Power.", labels=["bond"])
        energy = GaugeMetricFamily(
            "hilrt_bond_energy_joules", "Energy ledger.", labels=["bond", "entry"]
        )
        for name, bond in bonds.items():
            power.add_metric([name], bond.power_w)
            energy.add_metric([name, "residual"], bond.residual_energy_j)
            energy.add_metric([name, "tracking"], bond.tracking_energy_j)
            energy.add_metric([name, "corrected"], bond.corrected_energy_j)
        yield from (power, energy)
