"""Cost of the macro step per stage, for networks of growing size.

    python tools/bench_step.py [--json] [--steps 3000] [--sizes 8,64,512]

Each size is a ring of subsystems with 8 coupling variables each (half of them efforts and flows of
power bonds), first order, limits, energy correction on half of the bonds and feedthrough or model
correction on the others. `identify` and `critical_identified_us` belong to a run in which the
Jacobians of all subsystems are learned, one subsystem per step, and dithered. Times are medians of
this run; the first row is a reference measured in it, one addition of two arrays of that size, so
that figures of different machines compare.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from hilrt.coupling.model_corrector import Identified, ModelCorrector, build_model_corrector
from hilrt.step.plan import build_plan
from hilrt.step.step_state import StepInput, start

from hilrt.config.from_toml import build
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.coupling.correct_feedthrough import build_feedthrough
from hilrt.coupling.regression import Settings
from hilrt.reliability.flags import Monitor
from hilrt.solver import Port, Ports
from hilrt.step import macro_step as macro
from hilrt.tables.network import Network, build_network

VARIABLES = 8  # coupling variables of a subsystem
#: Stages, each with the object that has it.
STAGES: dict[str, tuple[Any, str]] = {
    "guard": (macro, "guard"),
    "compensate": (macro, "compensate"),
    "correct_outputs": (macro, "correct_outputs"),
    "build_polynomials": (macro, "build_polynomials"),
    "add_energy_correction": (macro, "add_energy_correction"),
    "send": (macro, "send"),
    "measure_defects": (macro, "measure_defects"),
    "measure_bonds": (macro, "measure_bonds"),
    "reliability": (Monitor, "update"),
    "identify": (ModelCorrector, "learn"),
}


def ring(n: int) -> tuple[Network, Session]:
    """`n` subsystems in a ring, each with 4 inputs and 4 outputs: two bonds to either neighbour."""
    inputs = tuple(Port(f"u{i}", "N" if i < 2 else "m/s", min=-1e6, max=1e6) for i in range(4))
    outputs = tuple(Port(f"y{i}", "N" if i < 2 else "m/s") for i in range(4))
    connections, bonds = [], []
    for s in range(n):
        other = (s + 1) % n
        for i in range(2):
            connections.append({"from": f"s{s}.y{i}", "to": f"s{other}.u{i}"})
            connections.append({"from": f"s{other}.y{i + 2}", "to": f"s{s}.u{i + 2}"})
            method = {"method": "energy", "mu": 0.5, "cap": 0.5} if i else {"method": "model"}
            bonds.append(
                {
                    "name": f"b{s}_{i}",
                    "effort": f"s{s}.y{i}",
                    "flow": f"s{other}.y{i + 2}",
                    "correction": method,
                }
            )
    problems: list[str] = []
    tables: dict[str, Any] = {
        "session": {"name": "bench", "duration": 1.0},
        "master": {"step": 1e-3, "extrapolation": {"order": 1}},
        "connections": connections,
        "bonds": bonds,
        "subsystems": {},
    }
    session = build(Session, tables, "", problems)
    assert session is not None, problems
    options = build(SubsystemOptions, {"adapter": "inprocess"}, "", problems)
    assert options is not None, problems
    session.subsystems = {f"s{i}": options for i in range(n)}
    return build_network({f"s{i}": Ports(inputs, outputs) for i in range(n)}, session), session


def prepare(n: int, correctors: bool, identified: bool) -> tuple[Any, Any, Any]:
    """Plan, state and input of a ring of `n` subsystems."""
    network, session = ring(n)
    ny, nu = len(network.outputs), len(network.inputs)
    rng = np.random.default_rng(1)
    model = feedthrough = None
    if correctors:
        D = np.zeros((ny, nu))
        D[0, :4] = 0.1
        feedthrough = build_feedthrough(D, network.L)
        gamma = {s: 0.01 * rng.standard_normal((2, 4, 4)) for s in range(n)}
        learned = [Identified(s, Settings(order=1), gamma[s], 1e-3) for s in range(n)]
        keep = np.ones(ny, dtype=bool)
        given = {} if identified else gamma
        learned = learned if identified else []
        model = build_model_corrector(network, given, learned, keep, 1.0, 1e-3, np.zeros(ny))
    else:
        for bond in session.bonds:
            bond.correction.method = "none"
    plan = build_plan(network, session, np.zeros(n, bool), np.zeros(n), feedthrough=feedthrough)
    state = start(plan, 0.0, np.zeros(ny), np.zeros(nu), model)
    point = StepInput.empty(ny, nu, n, 0)
    point.fresh[:] = True
    point.due[:] = True
    return plan, state, point


class Stopwatch:
    """Collects how long functions of the step module take."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {name: [] for name in STAGES}
        self._saved = {name: getattr(where, what) for name, (where, what) in STAGES.items()}

    def __enter__(self) -> Stopwatch:
        for name, function in self._saved.items():
            setattr(*STAGES[name], self._timed(name, function))
        return self

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        times = self.times[name]

        def timed(*arguments: Any) -> Any:
            begun = time.perf_counter_ns()
            result = function(*arguments)
            times.append((time.perf_counter_ns() - begun) * 1e-3)
            return result

        return timed

    def __exit__(self, *_: object) -> None:
        for name, function in self._saved.items():
            setattr(*STAGES[name], function)


def run(
    n: int, steps: int, correctors: bool, stages: bool = False, identified: bool = False
) -> dict[str, float]:
    """Median times per step, µs."""
    plan, state, given = prepare(n, correctors, identified)
    rng = np.random.default_rng(2)
    critical, slack = [], []
    with Stopwatch() if stages else NoStopwatch() as watch:
        for k in range(steps):
            given.tick, given.t = k, k * 1e-3
            given.elapsed = 1e-3 if k else 0.0
            given.y[:] = np.sin(given.t * 10.0 + np.arange(len(given.y))) + rng.random()
            given.t_valid[:] = given.t
            given.reached[:] = given.t
            given.fresh[:] = True
            begun = time.perf_counter_ns()
            macro.macro_step(plan, state, given)
            middle = time.perf_counter_ns()
            macro.assess(plan, state, given)
            slack.append((time.perf_counter_ns() - middle) * 1e-3)
            critical.append((middle - begun) * 1e-3)
            state.monitor.changes.clear()
    result = {"critical_us": statistics.median(critical), "slack_us": statistics.median(slack)}
    if watch is not None:
        result |= {name: statistics.median(times) for name, times in watch.times.items() if times}
    return result


class NoStopwatch:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def reference(size: int) -> float:
    """One addition of two arrays, µs."""
    a, b = np.ones(size), np.ones(size)
    times = []
    for _ in range(2000):
        begun = time.perf_counter_ns()
        a + b
        times.append((time.perf_counter_ns() - begun) * 1e-3)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--sizes", default="8,64,512", help="coupling variables")
    options = parser.parse_args()
    rows = []
    for size in (int(text) for text in options.sizes.split(",")):
        n = max(2, size // VARIABLES)
        row: dict[str, float] = {"variables": n * VARIABLES, "add_us": reference(n * VARIABLES)}
        row |= {f"plain_{k}": v for k, v in run(n, options.steps, False).items()}
        row |= run(n, options.steps, True)
        row |= {k: v for k, v in run(n, options.steps, True, stages=True).items() if k in STAGES}
        learning = run(n, options.steps, True, stages=True, identified=True)
        row["identify"] = learning["identify"]
        row["critical_identified_us"] = run(n, options.steps, True, identified=True)["critical_us"]
        rows.append(row)
    if options.json:
        print(json.dumps(rows))
        return
    for key in rows[0]:
        print(f"{key:24}" + "".join(f"{row.get(key, 0.0):10.1f}" for row in rows))


if __name__ == "__main__":
    main()
