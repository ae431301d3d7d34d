"""Groups in host processes: cost of a subsystem for the master per tick, and of two hosts or one.

    python -m tools.benchmarks.bench_groups [--json] [--sizes 10,50,191,1000,2399] [--steps 200]

A ring of masses between springs, each a member, first order, as fast as possible, in two groups
hosted by `hilrt solver --group` that step all their members in one call. Processor time of the
master per subsystem and tick:

* ``receive_us``, ``cut_us``, ``step_us``, ``dispatch_us``: decoding answers into the inbox, the
  cut, the macro step, and encoding and sending; ``sum_us`` is the sum of the four;
* ``tick_us``: from one tick to the next, wall clock, with members of negligible cost;
* ``whole_us``: the same masses integrated as one system, without a session, wall clock;
* ``assess_us``: assessment in the slack; ``record_us``: the row of the log;
* ``bytes``: inputs and outputs on the wire, per subsystem and tick.

``two_over_one`` is the time per tick of one host divided by that of two, with members of 15 us
each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hilrt
from hilrt.exchange.exchange import Exchange
from hilrt.peers.remote_peer import RemotePeer
from hilrt.step.numerics import Numerics
from hilrt.step_log.signals import RowWriter
from hilrt_adapters.zeromq import ZeroMQLink
from tools.benchmarks.timed import Cell

STEP_S = 1e-3
COST_S = 15e-6
#: Steps of the warm-up.
WARM_UP = 20


class Cells(hilrt.Group):
    """All members in one call."""

    def __init__(self, members: Mapping[str, Cell], cost: float = 0.0) -> None:
        super().__init__(members)
        self.x = np.array([one.x for one in members.values()])
        self.v, self.cost = np.zeros_like(self.x), cost * len(self.x)

    def initialize(self, t0: float, u0: Any) -> hilrt.Sample:
        return hilrt.Sample(self.x)

    def advance(self, t: float, h: float, u: hilrt.InputPolynomial) -> hilrt.Sample:
        end = time.perf_counter() + self.cost
        inputs = u.coefficients[0].reshape(-1, 2)
        self.v = self.v + h * 100.0 * (inputs.sum(axis=1) - 2.0 * self.x)
        self.x = self.x + h * self.v
        while time.perf_counter() < end:
            pass
        return hilrt.Sample(self.x)


class CostlyCells(Cells):
    """Members that compute for 15 us each."""

    def __init__(self, members: Mapping[str, Cell]) -> None:
        super().__init__(members, COST_S)


def ring(n: int, hosts: int, steps: int, together: str) -> hilrt.SessionBuilder:
    """Session of `n` masses in a ring, divided among `hosts` groups."""
    builder = hilrt.SessionBuilder("ring", duration=steps * STEP_S, step=STEP_S, pace="asap")
    builder.set("master", extrapolation={"order": 1}, connect_timeout=60.0)
    for host, part in enumerate(np.array_split(np.arange(n), hosts)):
        names = [f"m{i}" for i in part]
        model, spawn = "tools.benchmarks.timed:Cell", ["hilrt", "solver", "--group", "session.toml"]
        each = {"x": [0.01 * float(i % 7) for i in part]}
        keys = {"adapter": "zeromq", "spawn": spawn, "each": each}
        builder.group(f"host{host}", model, names, together=together, **keys)
    for i in range(n):
        right = (i + 1) % n
        builder.connect(f"m{i}.x", f"m{right}.left").connect(f"m{right}.x", f"m{i}.right")
    return builder


def whole(n: int, steps: int = 1000) -> float:
    """Time of a step of the ring as one system, us, median."""
    x, v, times = 0.01 * (np.arange(n) % 7), np.zeros(n), []
    for _ in range(steps):
        begun = time.perf_counter_ns()
        v = v + STEP_S * 100.0 * (np.roll(x, 1) + np.roll(x, -1) - 2.0 * x)
        x = x + STEP_S * v
        times.append((time.perf_counter_ns() - begun) * 1e-3)
    return statistics.median(times)


def noted(costs: dict[str, list[float]], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a call so that its processor time is recorded under `name`, us."""

    def timed(*arguments: Any, **more: Any) -> Any:
        begun = time.thread_time_ns()
        try:
            return call(*arguments, **more)
        finally:
            costs[name].append((time.thread_time_ns() - begun) * 1e-3)

    return timed


def run(n: int, hosts: int, steps: int, together: str) -> dict[str, float]:
    """Costs of one session, us per tick."""
    costs: dict[str, list[float]] = defaultdict(list)
    for name, owner, method in (
        ("receive", RemotePeer, "receive"),
        ("receive", ZeroMQLink, "received"),
        ("cut", Exchange, "cut"),
        ("step", Numerics, "macro_step"),
        ("dispatch", Exchange, "dispatch"),
        ("assess", Numerics, "assess"),
        ("record", RowWriter, "fill"),
    ):
        setattr(owner, method, noted(costs, name, getattr(owner, method)))
    ticks = costs["ticks"]
    plain = Numerics.macro_step

    def stepped(self: Numerics) -> None:
        ticks.append(time.perf_counter_ns() * 1e-3)
        plain(self)

    Numerics.macro_step = stepped  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "session.toml"
        file.write_text(ring(n, hosts, steps, together).text(), encoding="utf-8")
        options = hilrt.RunOptions(folder=Path(folder) / "run")
        result = hilrt.run_session(file, options=options)
    if result.fault:
        sys.exit(f"the session ended early: {result.fault}")
    found = {
        f"{name}_us": statistics.median(costs[name][WARM_UP:])
        for name in ("cut", "step", "dispatch", "assess", "record")
    }
    found["receive_us"] = sum(costs["receive"]) / steps
    found["tick_us"] = statistics.median(np.diff(ticks[WARM_UP:]).tolist())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", default="10,50,191,1000,2399")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # in a separate process
    arguments = parser.parse_args()
    if arguments.one:
        n, hosts, together = arguments.one
        print(json.dumps(run(int(n), int(hosts), arguments.steps, together)))
        return

    def measured(n: int, hosts: int, together: str) -> dict[str, float]:
        argv = [sys.executable, "-m", "tools.benchmarks.bench_groups", "--steps"]
        argv += [str(arguments.steps), "--one", str(n), str(hosts), f"{__spec__.name}:{together}"]
        done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found

    table: dict[int, dict[str, float]] = {}
    for n in map(int, arguments.sizes.split(",")):
        costs = measured(n, 2, "Cells")
        row = {name: us / n for name, us in (costs | {"whole_us": whole(n)}).items()}
        row["sum_us"] = sum(row[f"{key}_us"] for key in ("receive", "cut", "step", "dispatch"))
        row["bytes"] = 8.0 * (2 * 2 + 1)  # two inputs of first order, one output
        one, two = (measured(n, hosts, "CostlyCells")["tick_us"] for hosts in (1, 2))
        table[n] = row | {"two_over_one": one / two}
    if arguments.json:
        print(json.dumps(table, indent=1))
        return
    print(f"{'subsystems':>12}" + "".join(f"{name:>14}" for name in next(iter(table.values()))))
    for n, row in table.items():
        print(f"{n:12}" + "".join(f"{value:14.3f}" for value in row.values()))


if __name__ == "__main__":
    main()
