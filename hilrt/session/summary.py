"""The figures of a finished session; see docs/summary.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hilrt.exchange.exchange import Exchange
from hilrt.reliability.verdict import verdict
from hilrt.step.plan import Plan
from hilrt.step.step_state import StepState
from hilrt.timing.host import host_report
from hilrt.timing.progress import Progress

FORMAT = "hilrt-summary-1"


class RunFacts(NamedTuple):
    """What a summary says of the run itself.

    Attributes
    ----------
    session, end_state : str
        Its name, and the state it ended in.
    wall_s : float
        Time the loop ran on the wall clock, s.
    real_time : bool
        Without it there is no lateness.
    fault : str or None
        Why the session ended early, if it did by a fault.
    dropped_rows : int
        Ticks that the recorder could not take.
    stolen_s : float or None
        Time of it that the host took the master's processors away, s; None where it is not told.
    processor_share : dict of str to float
        Share of one processor that each process of the session had.
    """

    session: str
    end_state: str
    wall_s: float
    real_time: bool
    fault: str | None
    dropped_rows: int = 0
    stolen_s: float | None = None
    processor_share: Mapping[str, float] = MappingProxyType({})


def build_summary(
    plan: Plan, state: StepState, exchange: Exchange, progress: Progress, run: RunFacts
) -> dict[str, Any]:
    """Everything `summary.json` says of a session that ran."""
    time_s = progress.t_ns * 1e-9
    missed = progress.missed if run.real_time else 0
    judgement = verdict(state.monitor, time_s, run.fault, missed, progress.steps)
    host = host_report()
    return {
        "format": FORMAT,
        "session": run.session,
        "state": run.end_state,
        "steps": progress.steps,
        "time_s": time_s,
        "wall_s": run.wall_s,
        "step_size_s": _step_sizes(progress, time_s),
        "order": _order(state) if plan.controls.orders else None,
        "ports": _ports(plan, state, time_s),
        "bonds": _bonds(plan, state),
        "flags": _flags(plan, state),
        **_timing(progress, run.real_time),
        "missed_ticks": progress.missed,
        "stolen_s": run.stolen_s,
        "processor_share": dict(run.processor_share),
        "identification": _identification(state, progress),
        "stretched_s": progress.stretched_ns * 1e-9,
        "peers": _peers(exchange),
        "recorder": {"dropped_rows": run.dropped_rows},
        "verdict": judgement.word,
        "reasons": judgement.reasons,
        "versions": host.pop("versions"),
        "host": host,
    }


def _step_sizes(progress: Progress, time_s: float) -> dict[str, float]:
    return {
        "first": progress.first_h * 1e-9,
        "min": progress.min_h * 1e-9,
        "mean": time_s / progress.steps if progress.steps else 0.0,
        "max": progress.max_h * 1e-9,
    }


def _timing(progress: Progress, real_time: bool) -> dict[str, Any]:
    """Where the time of the ticks went; lateness is a matter of real time alone."""
    edges, counts = progress.lateness.histogram()
    return {
        "lateness_us": progress.lateness.quantiles() if real_time else None,
        "compute_us": progress.compute.quantiles(),
        "timeline_us": progress.timeline.quantiles(),
        "slowest_ticks": progress.timeline.slowest() if real_time else [],
        "missed_because": dict(progress.timeline.causes),
        "lateness_histogram": {"edges_us": edges.tolist(), "counts": counts} if real_time else None,
    }


def _flags(plan: Plan, state: StepState) -> dict[str, Any]:
    """How often and how long each cause was up, of those that ever were."""
    monitor = state.monitor
    totals = zip(plan.checks.causes, monitor.count, monitor.seconds, strict=True)
    return {
        cause: {"count": int(count), "seconds": float(seconds)}
        for cause, count, seconds in totals
        if count
    }


def _peers(exchange: Exchange) -> dict[str, Any]:
    return {
        link.name: {
            "lost": link.lost,
            "dropped": link.dropped,
            "late": int(exchange.channels["late"][s]),
            "rejoined": int(exchange.channels["rejoined"][s]),
            **exchange.times.of(s).summary(),
        }
        for s, link in enumerate(exchange.links)
    }


def _identification(state: StepState, progress: Progress) -> dict[str, int] | None:
    """Turns of the identification that were made, and left out for lack of time."""
    if state.model is None or state.model.learned is None:
        return None
    return {"turns": progress.learning.made, "skipped": progress.learning.skipped}


def _order(state: StepState) -> dict[str, float]:
    """Orders that the control chose, over the steps."""
    counts = state.control.steps_of_order
    used = [order for order, count in enumerate(counts) if count]
    if not used:
        return {"min": 0, "mean": 0.0, "max": 0}
    mean = sum(order * count for order, count in enumerate(counts)) / sum(counts)
    return {"min": used[0], "mean": mean, "max": used[-1]}


def _ports(plan: Plan, state: StepState, time_s: float) -> dict[str, Any]:
    totals, net = state.defects, plan.network

    def defect(square: float, largest: float) -> dict[str, float]:
        return {"rms": math.sqrt(square / time_s) if time_s > 0 else 0.0, "max": float(largest)}

    ports: dict[str, Any] = {}
    for i, name in enumerate(net.inputs.names):
        ports[name] = {
            "connection_defect": defect(totals.u_square[i], totals.u_max[i]),
            "output_defect": None,
            "last": float(state.measured[0, i]),
        }
    for i, name in enumerate(net.outputs.names):
        port = ports.setdefault(name, {"connection_defect": None})  # an input may share the name
        known = bool(totals.y_known[i])
        port["output_defect"] = defect(totals.y_square[i], totals.y_max[i]) if known else None
        port["last"] = _finite(state.y[i])
    return ports


def _finite(value: np.float64) -> float | None:
    return float(value) if math.isfinite(value) else None


def _bonds(plan: Plan, state: StepState) -> dict[str, Any]:
    energy = state.energy
    return {
        table.name: {
            "residual_energy_j": float(energy.residual[b]),
            "tracking_energy_j": float(energy.tracking[b]),
            "corrected_energy_j": float(energy.corrected[b]),
            "uncorrected_energy_j": float(energy.uncorrected[b]),
            "shadow_energy_j": float(energy.shadow[b]),
            "cap_share": float(energy.capped[b] / max(energy.steps[b], 1.0)),
            "applied": bool(plan.energy.active[b]),
        }
        for b, table in enumerate(plan.network.bonds.tables)
    }
