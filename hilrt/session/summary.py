"""The figures of a finished session; see docs/summary.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.exchange.exchange import Exchange
from hilrt.files.formats import json_numbers
from hilrt.reliability.advice import RunAdvice, SendingBench, advice
from hilrt.reliability.causes import INPUT_LIMITED, LEAST_SPREAD
from hilrt.reliability.choose_settings import LATE, Bound, time_bounds
from hilrt.reliability.estimates import (
    PROPAGATED,
    BondError,
    Estimate,
    errors_of,
    spreads,
)
from hilrt.reliability.expected_error import AdviceBasis
from hilrt.reliability.flags import FlagTotal, flag_totals
from hilrt.reliability.guard import DIVERGED
from hilrt.reliability.summary_figures import (
    StepLengths,
    bond_figures,
    defect_figures,
    judged,
    order_figures,
    peer_figures,
    port_figures,
    session_figures,
    timing_figures,
)
from hilrt.reliability.verdict import GOOD, WORDS, SessionCourse
from hilrt.session.result import FORMAT
from hilrt.step.numerics import Numerics
from hilrt.tables.record import Table
from hilrt.tables.state import InputState, OutputState
from hilrt.timing.host import NO_USE, HostUse, host_report
from hilrt.timing.timeline import Progress


class RunFacts(NamedTuple):
    """Facts about the run itself in a summary.

    Attributes
    ----------
    session, end_state : str
        Its name, and its final state.
    wall_s : float
        Wall-clock time for which the loop ran, s.
    real_time : bool
        Whether ticks followed a clock; otherwise there is no lateness.
    fault : str or None
        The fault that ended the session early, if any.
    dropped_rows : int
        Number of rows that the recorder could not accept.
    lost_events : sequence of dict
        Events missing in the log; only the newest if there are many.
    secured : str
        Reason why benches ran their safe profile; empty if they did not.
    host_use : HostUse
        Use of the processors.
    strangers : dict of str to int
        Counts of refused connections and commands, by kind.
    results : sequence of mapping
        Outcomes of expectations and measures.
    columns : sequence of str
        Texts on how columns of stimuli were interpolated.
    alarms : sequence of mapping
        Raised alarms; see `hilrt.reliability.alarms.AlarmHistory`.
    errors : mapping of str to Estimate, optional
        Estimated errors in place of those from the steps.
    deadline : float
        Share of a step within which inputs must be sent; 0: no step is too short in time.
    """

    session: str
    end_state: str
    wall_s: float
    real_time: bool
    fault: str | None
    dropped_rows: int = 0
    lost_events: Sequence[Mapping[str, object]] = ()
    secured: str = ""
    host_use: HostUse = NO_USE
    strangers: Mapping[str, int] = MappingProxyType({})
    results: Sequence[Mapping[str, Any]] = ()
    columns: Sequence[str] = ()
    alarms: Sequence[Mapping[str, Any]] = ()
    errors: Mapping[str, Estimate] | None = None
    deadline: float = 0.0


#: Steps below this share of the session's indicate that step control has collapsed.
COLLAPSED: Final = 1e-4
#: Share of the time for which limits of inputs may be in force without a warning.
OFTEN_LIMITED: Final = 0.2


def remarks(numerics: Numerics, progress: Progress) -> list[str]:
    """Warnings about settings that can only be judged at a session's end."""
    found = _often_limited(numerics, progress), collapsed_step(numerics, progress)
    return [*_without_derivatives(numerics), *filter(None, found)]


def _often_limited(numerics: Numerics, progress: Progress) -> str:
    """Warning if inputs were limited for long; the verdict does not depend on these limits."""
    seconds = float(numerics.state.causes["affected"][INPUT_LIMITED])
    if seconds <= OFTEN_LIMITED * progress.t_ns * 1e-9:
        return ""
    share = seconds / (progress.t_ns * 1e-9)
    places = flag_totals(numerics.checks, numerics.state)["input_limited"].places
    return (
        f"inputs were at their limits of value or rate for {share:.0%} of the time, so the "
        f"subsystems received other values than those of the connections: {', '.join(places[:3])}"
    )


def collapsed_step(numerics: Numerics, progress: Progress) -> str:
    """Message if step control went far below the session's step; empty if it did not."""
    session = numerics.plan.session[0]
    shortest = progress.min_h / 1e9
    if not session.variable_step or not 0.0 < shortest < COLLAPSED * session.step:
        return ""
    return (
        f"step control went down to {shortest:g} s, {progress.steps:,} steps in all: the error "
        "that it controls does not decrease with the step, for example behind outputs with "
        "feedthrough; "
        f"give [master.step_control] minimum = {0.01 * session.step:g}, or another method"
    )


def _without_derivatives(numerics: Numerics) -> list[str]:
    """Warning if sources never gave the derivatives by which inputs are extrapolated."""
    plan = numerics.plan
    if not plan.session["derivatives"][0]:
        return []
    rising = plan.connections["taylor"] * plan.connections["order"] > 0
    sources = np.unique(plan.connections["source"][rising])
    missing = sources[np.isnan(numerics.given.outputs["dy"][sources, 0])]
    names = ", ".join(numerics.network.outputs.names[i] for i in missing)
    if not names:
        return []
    return [
        f"no derivatives from {names}: inputs that use them were held, although the session "
        'extrapolates with source = "taylor"'
    ]


class RunOutcome(NamedTuple):
    """Outcome of a session: its course, its flags by cause, and the energy of its bonds."""

    course: SessionCourse
    totals: Mapping[str, FlagTotal]
    made: Mapping[str, BondError]


def build_summary(
    numerics: Numerics, exchange: Exchange, progress: Progress, run: RunFacts
) -> dict[str, Any]:
    """Contents of `summary.json` for a session that ran."""
    outcome = _outcome(numerics, progress, run)
    course, totals, _ = outcome
    results = _results(numerics, progress, run, outcome)
    plan, state = numerics.plan, numerics.state
    stiffest, growth, stable_s = numerics.stiffest, math.nan, None
    if stiffest is not None and course.time_s > 0.0:
        step, order = float(plan.session["step"][0]), int(plan.connections["order"].max(initial=0))
        growth = stiffest.growth(step, order)
        stable_s = stiffest.longest_stable(step, order, course.time_s)
    advised = RunAdvice([], [])
    sends = {link.name: link.sending_interval for link in exchange.links}
    diverged = state.session[0].alarm_level == DIVERGED
    # There is no advice against a killed process or an exception in a model.
    if results["verdict"] != WORDS[GOOD] and (run.fault is None or diverged):
        benches, errors, t = _sending_benches(exchange, course.steps), course.errors, course.time_s
        bounds = _real_time_bounds(exchange, progress, run.deadline)
        growth_at = None if stiffest is None else stiffest.growth
        ran = AdviceBasis(t, course.steps, growth_at, bounds)
        advised = advice(numerics.network, plan, state, errors, totals, ran, benches)
    host = host_report()
    summary = {
        "format": FORMAT,
        **results,
        "state": run.end_state,
        "repeated": progress.repeated and asdict(progress.repeated),
        **_timing(progress, run.real_time),
        "missed_ticks": progress.missed,
        "stolen_s": run.host_use.stolen_s,
        "processor_share": dict(run.host_use.shares),
        "real_time_priority": run.host_use.real_time_priority,
        "sending_interval_s": {name: every for name, every in sends.items() if every > 0.0},
        "growth_per_s": growth,
        "stable_step_s": stable_s,
        "identification": _identification(progress) if plan.model.settings[0].identifies else None,
        "stretched_s": progress.stretched_ns / 1e9,
        "peers": _peers(exchange),
        "strangers": dict(run.strangers),
        "recorder": {"dropped_rows": run.dropped_rows}
        | ({"lost_events": list(run.lost_events)} if run.lost_events else {}),
        "alarms": list(run.alarms),
        "results": list(run.results),
        "stimulus_columns": list(run.columns),
        "advice": [change.as_json() for change in advised.changes],
        "rejected": advised.rejected,
        "versions": host.pop("versions"),
        "host": host,
    }
    found: dict[str, Any] = json_numbers(summary)
    return found


def case_summary(numerics: Numerics, progress: Progress, run: RunFacts) -> dict[str, Any]:
    """The part of a summary that a case of a study needs: effects of its models and settings."""
    found: dict[str, Any] = json_numbers(
        _results(numerics, progress, run, _outcome(numerics, progress, run))
    )
    return found


def _outcome(numerics: Numerics, progress: Progress, run: RunFacts) -> RunOutcome:
    errors: Mapping[str, Estimate]
    errors, made = errors_of(numerics.network, numerics.plan, numerics.state)
    course = SessionCourse(
        progress.t_ns / 1e9,
        run.fault,
        progress.missed if run.real_time else 0,
        steps=progress.steps,
        unrecorded=run.dropped_rows,
        secured=run.secured,
        collapsed=collapsed_step(numerics, progress),
        errors=run.errors or errors,
        bonds=made,
    )
    return RunOutcome(course, flag_totals(numerics.checks, numerics.state), made)


def _results(
    numerics: Numerics, progress: Progress, run: RunFacts, outcome: RunOutcome
) -> dict[str, Any]:
    course, totals, made = outcome
    plan, state = numerics.plan, numerics.state
    lengths = StepLengths(progress.first_h, progress.min_h, progress.max_h)
    return {
        **session_figures(run.session, course, lengths, totals),
        "wall_s": run.wall_s,
        "order": _order(state.session["points_of_order"][0])
        if plan.session[0].controls_order
        else None,
        "ports": port_summary(numerics),
        "bonds": bond_summary(numerics, made),
        "estimated_error": {name: error.as_json() for name, error in course.errors.items()},
        "own_integration": _own_integration(numerics, course.errors),
        **judged(course, totals),
    }


def _own_integration(numerics: Numerics, errors: Mapping[str, Estimate]) -> list[str]:
    """Subsystems whose own integration errors the estimates include, to the session's end."""
    if not any(error.how in PROPAGATED for error in errors.values()):
        return []
    plan, names = numerics.plan, numerics.network.subsystems
    first = len(plan.error_paths) + len(plan.error_answers) + len(plan.direct)
    factors = numerics.state.answers["factor"][first : first + len(plan.own_paths)]
    return [names[s] for s in np.unique(plan.own_paths["subsystem"][factors != 0.0])]


def _sending_benches(exchange: Exchange, steps: int) -> list[SendingBench]:
    """Benches whose sending interval is known."""
    return [
        SendingBench(
            link.name,
            s,
            link.sending_interval,
            link.fastest_interval,
            float(exchange.channels["late"][s]) / max(steps, 1),
        )
        for s, link in enumerate(exchange.links)
        if link.sending_interval > 0.0
    ]


def _real_time_bounds(exchange: Exchange, progress: Progress, deadline: float) -> list[Bound]:
    """Shortest steps by the measured times; none if the session does not run in real time."""
    if not deadline > 0.0:
        return []
    times = {link.name: exchange.times_of(s).compute for s, link in enumerate(exchange.links)}
    computes = {name: compute.quantile_us(LATE) for name, compute in times.items() if compute.n}
    return [*time_bounds(progress.lateness.quantile_us(LATE), deadline, computes)]


def _timing(progress: Progress, real_time: bool) -> dict[str, Any]:
    """Breakdown of the ticks' time; lateness exists only in real time."""
    late = (progress.lateness.quantiles(), progress.lateness.histogram())
    return {
        **timing_figures(late if real_time else None, progress.timeline.slowest()),
        "compute_us": progress.timeline.compute.quantiles(),
        "timeline_us": progress.timeline.quantiles(),
        "missed_because": dict(progress.timeline.causes),
    }


def _peers(exchange: Exchange) -> dict[str, Any]:
    return {
        link.name: {
            "lost": link.lost,
            "dropped": link.dropped,
            **peer_figures(exchange.channels["late"][s], exchange.channels["rejoined"][s]),
            **exchange.times_of(s).summary(),
        }
        for s, link in enumerate(exchange.links)
    }


def _identification(progress: Progress) -> dict[str, int]:
    """Turns of the identification made, and skipped for lack of time."""
    return {"turns": progress.learning.made, "skipped": progress.learning.skipped}


def _order(points: NDArray[np.int64]) -> dict[str, float]:
    """Statistics of the highest order in force; `points` counts communication points by order."""
    counts = points.tolist()
    used = [order for order, count in enumerate(counts) if count]
    if not used:
        return order_figures(0, 0.0, 0)
    mean = sum(order * count for order, count in enumerate(counts)) / sum(counts)
    return order_figures(used[0], mean, used[-1])


def port_summary(numerics: Numerics) -> dict[str, Any]:
    """Defects and values of all ports."""
    network, state = numerics.network, numerics.state
    ports: dict[str, Any] = {}
    for name, u, spread in zip(
        network.inputs.names, state.inputs, _spreads(state.inputs), strict=True
    ):
        ports[name] = {
            **port_figures(u.polynomial[0], _defect(u) or (0.0, 0.0)),
            "disturbance": _disturbance(u),
            "spread": spread,
        }
    limits = numerics.plan.outputs
    ranges = np.isfinite(limits["low"]) | np.isfinite(limits["high"])
    columns = (network.outputs.names, state.outputs, ranges, _spreads(state.outputs))
    for name, out, declared, spread in zip(*columns, strict=True):
        of_input = ports.get(name, {})  # an input and an output may share a name
        outside = out.outside_samples if declared else None
        ports[name] = {
            **port_figures(out.y, None, _defect(out), outside),
            "connection_defect": of_input.get("connection_defect"),
            "disturbance": of_input.get("disturbance"),
            "spread": spread,
        }
    return ports


def _defect(port: InputState | OutputState) -> tuple[float, float] | None:
    """RMS and largest value of a port's defect; None before the end of an interval."""
    seconds = port.defect_seconds
    return (math.sqrt(port.defect_square / seconds), float(port.defect_max)) if seconds else None


def _disturbance(u: InputState) -> dict[str, float] | None:
    seconds = u.disturbance_seconds
    if not seconds > 0.0:
        return None
    rms = math.sqrt(u.disturbance_square / seconds)
    return defect_figures(rms, float(u.disturbance_max))


def _spreads(ports: Table[InputState] | Table[OutputState]) -> list[dict[str, float] | None]:
    """Standard deviation and RMS of each port over time; None if nothing was measured."""
    values = zip(*(v.tolist() for v in spreads(ports)), strict=True)
    return [
        None if math.isnan(deviation) else {"std": deviation, "rms": least / LEAST_SPREAD}
        for deviation, least in values
    ]


def bond_summary(numerics: Numerics, made: Mapping[str, BondError]) -> dict[str, Any]:
    """Energy ledgers of all bonds."""
    network, plan, state = numerics.network, numerics.plan, numerics.state
    rows = zip(network.bonds.tables, plan.bonds, state.bonds, strict=True)
    return {
        table.name: {
            **bond_figures(
                {
                    "residual": bond.residual_energy,
                    "tracking": bond.tracking_energy,
                    "corrected": bond.corrected_energy,
                    "uncorrected": bond.uncorrected,
                    "shadow": bond.shadow_energy,
                    "drift": bond.drift,
                },
                bond.capped_steps,
                bond.steps,
            ),
            "interface_energy_j": made[table.name].made,
            "carried_energy_j": made[table.name].carried,
            "applied": bool(settings.active),
        }
        for table, settings, bond in rows
    }
