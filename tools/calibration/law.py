"""The sampling law: the session for each number. Fixed before anything was fitted.

A session is drawn by a generator seeded with (seed, number). Its group is ``number mod 6``.

* *System*: by its group, see the modules of the groups: frequencies, masses, dampings and
  amplitudes log-uniform over one to three decades; excitation by zero to four sines at -1.2 to +0.1
  decades of the fastest motion ω, in 3 of 10 with process noise, and by the initial state. All
  truths of linear systems are stable.
* *Step*: H ω log-uniform in 0.004 … 0.8 (1.6 to 0.008 thousand steps per period).
  *Length*: 200 to 5000 macro steps, log-uniform, at least one period and at most 60 periods of the
  fastest motion if those are more than 200 steps, and at most until a perturbation of 1e-4 of the
  truth has grown to 1 %. Systems in which this happens before the 60th step are redrawn.
* *Integrators*: exact 85 %; one step per macro step of Euler's, Heun's or the classical Runge-Kutta
  method 15 % (the same for both parts). Their own errors count.
* *Restorable* (so that responses can be probed): each part except a bench 65 %.
* *Extrapolation*: order 0, 1, 2, 3 in 35, 40, 15, 10 %; samples with outputs at the middle of the
  step 30 %.
* *Rates*: in 15 % one part communicates every 2nd to 5th macro step.
* *Correction* of each bond: none 40 %, energy 30 % (μ derived 30 %, 0.5 40 %, log-uniform in
  0.03 … 1 30 %; ν 0 or up to 0.4; cap 0.1, 0.3 or 1; residual sent or held), feedthrough 15 %
  (D right 55 %, else times 0, -1, 2 or log-uniform 0.1 … 10), model 15 % (Jacobians by the solver,
  a probe, identified, or given: right 55 %, else as D; renewed never, every 50 steps or always).
* *Control*, as fast as possible without other rates: variable step 12 % (PI, local, ECCO), order
  control 8 %.
* *Limits*: in 10 % every input is bounded at 0.6 to 1.3 times its greatest deviation.
* *Measurement*: noise in 35 %, resolution in 25 %, each 1e-5 to 0.05 of the signal's standard
  deviation, log-uniform.
* *Pace*: 45 % as fast as possible, 55 % by a virtual clock. With the clock, 45 % of the parts that
  may be a bench are one: a cycle of H, H/2 or H/4, latency log-uniform in 0.02 … 2 H, jitter up to
  the same, lost samples in half of them (share 1e-4 … 0.1), late ones in 30 %, set-points that act
  after up to one H, time stamps in 70 %. Other parts answer after up to 0.9 H; of them 35 % are
  occasionally late by up to 4 H (share 1e-4 … 0.2), 10 % always by more than one H, 15 % have
  stalls of 5 to 40 H (share 1e-4 … 5e-3). Late policy extrapolate 60, hold 20, predict 20 %. In 15
  % the master itself stalls for up to 5 H (share 1e-4 … 0.02).

Solvers that catch up, limits of rate and jerk, Taylor polynomials and repaired peers are excluded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hilrt.solver import Floats
from tools.calibration.groups import GROUPS, Build
from tools.calibration.scripted_links import Measurement, Script
from tools.calibration.systems import CoupledSystem, Random, log_uniform
from tools.calibration.truth import Limits, NoTruth, Truth

STEPS = 200, 5000
#: Minimum number of steps before a perturbation has grown too large.
FEWEST = 60
H_OMEGA = 0.004, 0.8
MOST_PERIODS = 60.0


@dataclass
class Draw:
    """A drawn session with its truth.

    Attributes
    ----------
    tables : dict
        Of the session file, without ``[session]``.
    scripts : dict of str to Script
        Parts whose answers are scripted; empty as fast as possible.
    stalls : (float, float)
        Share of the master's sleeps that end late, and their maximum delay, s.
    settings : dict
        Drawn values, for people and the report.
    """

    number: int
    group: str
    system: CoupledSystem
    truth: Truth
    step: float
    duration: float
    tables: dict[str, Any]
    integrator: str
    restorable: dict[str, bool]
    middle: bool
    measurements: dict[str, Measurement]
    scripts: dict[str, Script]
    bench: str
    stalls: tuple[float, float]
    random: Random
    settings: dict[str, Any] = field(default_factory=dict)
    #: State of the generator before the system was drawn.
    seedling: Any = None


def draw(number: int, seed: int = 0, groups: Mapping[str, Build] = GROUPS) -> Draw:
    """Draw the session with a number; the groups take turns."""
    random = np.random.default_rng([seed, number])
    names = list(groups)
    group = names[number % len(names)]
    while True:
        seedling = random.bit_generator.state
        found = _draw_once(number, group, groups[group], random)
        if found is not None:
            found.seedling = seedling
            return found


def _draw_once(number: int, group: str, build: Build, random: Random) -> Draw | None:
    system = build(random)
    h_omega = log_uniform(random, *H_OMEGA)
    step = round(h_omega / system.omega * 1e9) * 1e-9
    steps = max(log_uniform(random, *STEPS), 2.0 * math.pi / h_omega)
    steps = min(steps, max(MOST_PERIODS * 2.0 * math.pi / h_omega, STEPS[0]), STEPS[1])
    duration = round(steps) * step
    limited = bool(random.random() < 0.1)
    try:
        truth = Truth(system, duration, free_limits(system))
        if limited and not _loops(system):
            limits = _draw_limits(truth, random)
            truth = Truth(system, duration, limits)
        levels, std = truth.scales(np.zeros(len(truth.channels.names)))
        duration = math.floor(truth.growth(random, levels) / step) * step
        if duration < FEWEST * step or not np.isfinite(levels).all():
            return None
    except NoTruth:
        return None
    paced = bool(random.random() < 0.55)
    names = [part.name for part in system.parts]
    restorable = {name: bool(random.random() < 0.65) for name in names}
    integrator = "exact"
    if random.random() < 0.15:
        integrator = str(random.choice(["euler", "heun", "runge-kutta"]))
    middle = bool(random.random() < 0.3)
    settings: dict[str, Any] = {
        **system.settings, "h": step, "h_omega": h_omega, "steps": round(duration / step),
        "integrator": integrator, "restorable": restorable, "limited": limited, "middle": middle,
    }  # fmt: skip
    scripts: dict[str, Script] = {}
    bench, stalls = "", (0.0, 0.0)
    if paced:
        scripts, bench, stalls = _draw_scripts(system, step, random, settings)
    restorable |= {bench: False} if bench else {}
    tables = _draw_tables(system, step, paced, bench, restorable, truth.limits, random, settings)
    measurements = _draw_measurements(system, std, random, settings)
    return Draw(
        number, group, system, truth, step, duration, tables, integrator, restorable, middle,
        measurements, scripts, bench, stalls, random, settings,
    )  # fmt: skip


def free_limits(system: CoupledSystem) -> Limits:
    """Limits that bound no input."""
    nu = sum(part.sizes[0] for part in system.parts)
    return Limits(np.full(nu, -math.inf), np.full(nu, math.inf))


def _loops(system: CoupledSystem) -> bool:
    return sum(bool(part.feedthrough.any()) for part in system.parts) > 1


def _draw_limits(truth: Truth, random: Random) -> Limits:
    """Bounds around the mean of each input."""
    u = truth.inputs(np.linspace(0.0, truth.duration, 400))
    share = float(random.uniform(0.6, 1.3))
    middle, reach = u.mean(axis=0), np.abs(u - u.mean(axis=0)).max(axis=0)
    reach = np.maximum(reach, np.abs(u[0] - middle) / share)  # include the start
    return Limits(middle - share * reach, middle + share * reach)


def _draw_measurements(
    system: CoupledSystem, std: Floats, random: Random, settings: dict[str, Any]
) -> dict[str, Measurement]:
    noise = log_uniform(random, 1e-5, 0.05) if random.random() < 0.35 else 0.0
    coarse = log_uniform(random, 1e-5, 0.05) if random.random() < 0.25 else 0.0
    settings |= {"noise": noise, "resolution": coarse}
    found, row = {}, 0
    for part in system.parts:
        rows = slice(row, row + part.sizes[1])
        found[part.name] = Measurement(noise * std[rows], coarse * std[rows])
        row = rows.stop
    return found


def _draw_scripts(
    system: CoupledSystem, h: float, random: Random, settings: dict[str, Any]
) -> tuple[dict[str, Script], str, tuple[float, float]]:
    bench = system.bench if random.random() < 0.45 else ""
    scripts = {}
    for part in system.parts:
        if part.name == bench:
            latency = h * log_uniform(random, 0.02, 2.0)
            scripts[part.name] = Script(
                latency=latency,
                jitter=latency * float(random.random()),
                late_share=log_uniform(random, 1e-4, 0.1) if random.random() < 0.3 else 0.0,
                late_by=5.0 * h,
                lost_share=log_uniform(random, 1e-4, 0.1) if random.random() < 0.5 else 0.0,
                command_latency=h * float(random.random()),
                cycle=h / int(random.choice([1, 2, 4])),
                stamped=bool(random.random() < 0.7),
            )
            continue
        script = Script(latency=h * float(random.uniform(0.0, 0.5)))
        script.jitter = 0.9 * h - script.latency if random.random() < 0.5 else 0.0
        if random.random() < 0.35:
            script.late_share, script.late_by = log_uniform(random, 1e-4, 0.2), 4.0 * h
        if random.random() < 0.1:
            script.latency = h * float(random.uniform(1.05, 2.5))
        if random.random() < 0.15:
            script.stall_share = log_uniform(random, 1e-4, 5e-3)
            script.stall = h * float(random.uniform(5.0, 40.0))
        scripts[part.name] = script
    stalls = (log_uniform(random, 1e-4, 0.02), 5.0 * h) if random.random() < 0.15 else (0.0, 0.0)
    settings |= {"bench": bench, "stalls": stalls}
    settings["scripts"] = {name: vars(script) for name, script in scripts.items()}
    return scripts, bench, stalls


def _draw_tables(
    system: CoupledSystem, h: float, paced: bool, bench: str, restorable: dict[str, bool],
    limits: Limits, random: Random, settings: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    from tools.calibration.methods import draw_methods

    order = int(random.choice(4, p=[0.35, 0.4, 0.15, 0.1]))
    master: dict[str, Any] = {"step": h, "extrapolation": {"order": order}}
    subsystems: dict[str, Any] = {part.name: {} for part in system.parts}
    every = 1
    if random.random() < 0.15:
        slow = str(random.choice([p.name for p in system.parts[:2]]))
        if len(system.parts) > 2 and "two" in subsystems:
            slow = "two"  # the efforts of a sum have the same rate
        if slow != bench:
            every = subsystems[slow]["every"] = int(random.integers(2, 6))
    policy = str(random.choice(["extrapolate", "hold", "predict"], p=[0.6, 0.2, 0.2]))
    for table in subsystems.values():
        table["late"] = {"policy": policy}
    settings |= {"pace": "clock" if paced else "asap", "order": order, "every": every}
    settings["policy"] = policy
    column = 0
    for part in system.parts:
        for port in part.inputs:
            low, high = limits.low[column], limits.high[column]
            if port.size == 1 and np.isfinite(low):
                inputs = subsystems[part.name].setdefault("inputs", {})
                inputs[port.name] = {"min": float(low), "max": float(high)}
            column += port.size
    tables = {
        "master": master,
        "subsystems": subsystems,
        "connections": [{"from": a, "to": b} for a, b in system.connections],
    }
    draw_methods(tables, system, paced, bench, every, restorable, random, settings)
    return tables
