"""Cost of the macro step and of its stages, for networks of growing size.

    python -m tools.benchmarks.bench_step [--json] [--steps 3000] [--sizes 8,64,512] [--stages]

Each size is a ring of subsystems with 8 coupling variables each (half of them efforts and flows of
power bonds), first order, limits, energy correction on half of the bonds, and feedthrough and model
correction on the others. `critical` is `macro_step`, `slack` is `assess`; `plain` is without any
correction; in `identified` the Jacobians of all subsystems are identified, one subsystem per step,
with dither. Times are medians of this run. The second row is a reference from the same run, one
addition of two arrays of that size; ratios are relative to it, so that figures from different
machines can be compared.

``--stages`` times every stage separately, called repeatedly with the final state of the run with
corrections (`identify`: of the run with identification). Their first compilation takes a minute.
Compiled into one function, the stages cost less than the sum.
"""

from __future__ import annotations

import argparse
import inspect
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hilrt.compilation.compiled import entry_point
from hilrt.config.from_toml import build
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.coupling.build_model import Identified, Jacobians, build_model
from hilrt.coupling.correct_outputs import build_feedthrough
from hilrt.solver import Port, Ports
from hilrt.step import macro_step as step
from hilrt.step.build_plan import Platform
from hilrt.step.numerics import Numerics, build_numerics
from hilrt.tables.network import Network, build_network
from hilrt.tables.record import cloned, copy_tables

VARIABLES = 8  # coupling variables of a subsystem
STEP_S = 1e-3


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
        "master": {"step": STEP_S, "extrapolation": {"order": 1}},
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


def prepare(n: int, correctors: bool, identified: bool) -> Numerics:
    """Numerics of a ring of `n` subsystems."""
    network, session = ring(n)
    ny, nu = len(network.outputs), len(network.inputs)
    rng = np.random.default_rng(1)
    model = None
    if correctors:
        D = np.zeros((ny, nu))
        D[0, :4] = 0.1
        gamma = {s: 0.01 * rng.standard_normal((2, 4, 4)) for s in range(n)}
        learned = [Identified(s, part, 1e-3) for s, part in gamma.items()]
        jacobians = Jacobians(
            STEP_S,
            {} if identified else gamma,
            learned if identified else [],
            correctable=np.ones(ny, dtype=bool),
        )
        model = build_model(
            network, np.zeros(ny), jacobians, build_feedthrough(D, network.L.dense())
        )
    else:
        for bond in session.bonds:
            bond.correction.method = "none"
    platform = Platform(np.zeros(n, bool), np.zeros(n))
    numerics = build_numerics(network, session, platform, np.zeros(ny), np.zeros(nu), model=model)
    numerics.given.outputs["fresh"] = 1
    numerics.load()
    return numerics


def run(numerics: Numerics, steps: int) -> dict[str, float]:
    """Median times per step, us."""
    rng = np.random.default_rng(2)
    given = numerics.given
    session, reached = given.session, given.subsystems["reached"]
    y, t_valid = given.outputs["y"], given.outputs["t_valid"]
    phase = np.arange(len(y))
    given.subsystems["covered"] = STEP_S
    critical, slack = [], []
    for k in range(steps):
        t = k * STEP_S
        session["tick"], session["t"], session["elapsed"] = k, t, STEP_S if k else 0.0
        y[:] = np.sin(t * 10.0 + phase) + rng.random()
        t_valid.fill(t)
        reached.fill(t)
        begun = time.perf_counter_ns()
        numerics.macro_step()
        middle = time.perf_counter_ns()
        numerics.assess()
        slack.append((time.perf_counter_ns() - middle) * 1e-3)
        critical.append((middle - begun) * 1e-3)
    return {"critical_us": statistics.median(critical), "slack_us": statistics.median(slack)}


def stages() -> dict[str, Callable[..., None]]:
    """All stages that `macro_step` and `assess` call."""
    own = {"macro_step", "assess"}
    return {
        name: function
        for name, function in vars(step).items()
        if hasattr(function, "py_func") and name not in own
    }


def time_stage(numerics: Numerics, stage: Callable[..., None], calls: int) -> float:
    """Median time of a stage, us; the state of `numerics` is preserved."""
    arguments = [numerics.plan, numerics.state, numerics.given, numerics.slack]
    arguments = arguments[: len(inspect.signature(stage).parameters)]
    code, before, times = entry_point(stage, *arguments), cloned(numerics.state), []
    for _ in range(calls):
        begun = time.perf_counter_ns()
        code(*arguments)
        times.append((time.perf_counter_ns() - begun) * 1e-3)
        copy_tables(before, numerics.state)
    return statistics.median(times)


def reference(size: int) -> float:
    """One addition of two arrays, us."""
    a, b = np.ones(size), np.ones(size)
    times = []
    for _ in range(2000):
        begun = time.perf_counter_ns()
        a + b
        times.append((time.perf_counter_ns() - begun) * 1e-3)
    return statistics.median(times)


def measure(size: int, steps: int, with_stages: bool) -> dict[str, float]:
    """Figures for about `size` coupling variables, by name."""
    n = max(2, size // VARIABLES)
    row: dict[str, float] = {"variables": n * VARIABLES, "add_us": reference(n * VARIABLES)}
    plain, corrected = prepare(n, False, False), prepare(n, True, False)
    learning = prepare(n, True, True)
    row |= {f"plain_{name}": value for name, value in run(plain, steps).items()}
    row |= run(corrected, steps)
    row |= {f"identified_{name}": value for name, value in run(learning, steps).items()}
    for name in ("critical", "slack", "identified_critical", "identified_slack"):
        row[f"{name}_ratio"] = row[f"{name}_us"] / row["add_us"]
    if with_stages:
        for name, stage in stages().items():
            row[name] = time_stage(learning if name == "identify" else corrected, stage, 300)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--sizes", default="8,64,512", help="coupling variables")
    parser.add_argument("--stages", action="store_true", help="time every stage by itself, too")
    options = parser.parse_args()
    sizes = [int(text) for text in options.sizes.split(",")]
    rows = [measure(size, options.steps, options.stages) for size in sizes]
    if options.json:
        print(json.dumps(rows))
        return
    for key in rows[0]:
        print(f"{key:28}" + "".join(f"{row.get(key, 0.0):10.1f}" for row in rows))


if __name__ == "__main__":
    main()
