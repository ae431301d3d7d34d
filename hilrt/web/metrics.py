"""``/metrics``: the session in numbers for Prometheus, computed when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hilrt.journal import State
from hilrt.monitor.viewer import Viewer
from hilrt.reliability import CAUSES
from hilrt.web.history import History


class SessionCollector(Collector):
    """Metrics from what a `Viewer` knows; `up` is 0 while the session is silent."""

    def __init__(self, viewer: Viewer, history: History) -> None:
        self._viewer, self._history = viewer, history

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
        for name in State:
            state.add_metric([str(name)], float(status.state == name))
        yield state
        yield GaugeMetricFamily("hilrt_time_seconds", "Session time.", status.t)
        yield CounterMetricFamily("hilrt_ticks", "Ticks.", status.tick)
        yield GaugeMetricFamily("hilrt_rate_hertz", "Macro steps per second.", status.rate_hz)
        yield CounterMetricFamily("hilrt_missed_ticks", "Ticks past their deadline.", status.missed)
        yield GaugeMetricFamily("hilrt_shadow", "1: no correction acts.", float(status.shadow))
        if status.lateness_us is not None:
            late = GaugeMetricFamily(
                "hilrt_lateness_seconds", "Tick to dispatch complete.", labels=["quantile"]
            )
            for quantile, key in (("0.5", "p50"), ("0.99", "p99"), ("1", "max")):
                late.add_metric([quantile], getattr(status.lateness_us, key) * 1e-6)
            yield late
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
        age = GaugeMetricFamily("hilrt_sample_age_seconds", "Newest sample.", labels=["subsystem"])
        for name, peer in peers.items():
            late.add_metric([name], peer.late)
            lost.add_metric([name], peer.lost)
            age.add_metric([name], peer.age_ms * 1e-3)
        yield from (late, lost, age)

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
