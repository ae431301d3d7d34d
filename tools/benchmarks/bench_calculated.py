"""Cost of calculated channels per tick.

    python -m tools.benchmarks.bench_calculated [--json] [--channels 50] [--steps 20000] [--by-kind]

The channels are typical of benches: powers, low passes, derivatives, efficiencies, means over half
a second, debounced conditions, counters and lookup tables in turn, over ten signals that all have a
new sample at every tick of 1 ms. The figure is the median over runs of one call of `evaluate`, as
made by the stage `calculate`; ``--by-kind`` measures each kind separately.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np

from hilrt.expressions.evaluator import Evaluator

SIGNALS = {f"bench.s{i}": "?" for i in range(10)}
KINDS = {
    "product": "{a} * {b} * {time}",
    "low pass": "lowpass({a}, {time})",
    "derivative": "lowpass(derivative({a}), {time})",
    "share": "{a} / {b} if abs({b}) > 0.01 else 0",
    "mean": "mean({a}, 0.5 + {time})",
    "debounced": "debounce({a} > {time} and {b} < 5, {time})",
    "counter": "count(hysteresis({a}, -{time}, {time}) > 0)",
    "lookup 1-D": "lookup({a}, [-2, -1, 0, 1, 2], [0, 1, 4, {time}, 16])",
    "lookup 2-D": "lookup({a}, {b}, [-1, 0, 1], [-1, 1], [[1, 2], [4, 5], [7, {time}]])",
    "integral": "integral({a} * {b}, reset={a} > 2 + {time})",
}
RUNS = 9


def channels(kinds: list[str], count: int) -> list[str]:
    """Different expressions of those kinds in turn."""
    names = list(SIGNALS)
    return [
        KINDS[kinds[i % len(kinds)]].format(
            a=names[i % 10], b=names[(i + 3) % 10], time=0.01 + 0.001 * i
        )
        for i in range(count)
    ]


def microseconds(texts: list[str], steps: int) -> float:
    """Time per tick, us."""
    rng = np.random.default_rng(1)
    evaluator = Evaluator(texts, SIGNALS, step=0.001)
    columns = rng.normal(size=(steps, len(evaluator.signals)))
    found = []
    for run in range(RUNS):
        t = np.arange(run * steps, (run + 1) * steps, dtype=np.float64) * 0.001
        begun = time.perf_counter()
        evaluator.run(t, columns)
        found.append((time.perf_counter() - begun) / steps * 1e6)
    return statistics.median(found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--channels", type=int, default=50)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--by-kind", action="store_true")
    options = parser.parse_args()
    sets = {"all kinds in turn": list(KINDS)}
    if options.by_kind:
        sets |= {kind: [kind] for kind in KINDS}
    found = {
        name: microseconds(channels(kinds, options.channels), options.steps)
        for name, kinds in sets.items()
    }
    if options.json:
        print(json.dumps({"channels": options.channels, "us_per_tick": found}, indent=1))
        return
    for name, us in found.items():
        print(f"{options.channels} channels, {name}: {us:.2f} us per tick")


if __name__ == "__main__":
    main()
