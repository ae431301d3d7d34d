"""Lateness of the master's clock compared with a bare timer loop and a bare spin loop.

    python -m tools.benchmarks.bench_pacing [--json] [--seconds 5] [--priority 0] [--cpu N]

For 100 Hz, 1 kHz and 2 kHz, with the host as it is and with a busy process on another processor.
The loops alternate in short blocks, so that the load of the host affects all of them:

    timerfd        blocking read of a timerfd, nothing else: the floor of a timer
    clock          `WallClock` without spin: the same timer, on an event loop
    spin           wake early by a blocking timerfd, busy-wait for the rest: the floor with spin
    clock_spin     `WallClock` with the same spin

Both bare loops also run a second time, as separate loops. Figures are us; `ratio` is the clock's
figure over that of its floor; `itself` is the ratio of a bare loop's two runs, at least 1: the
uncertainty due to the host. p50 and p99 are means over the blocks, without the worst quarter of
them: over all blocks, p99 would show only which loop the host interrupted, as p99.9 and max do.
Fractions of a microsecond are limited by reading the clock: their ratios mean little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hilrt.solver import Floats
from hilrt.timing.clock import WallClock, _timerfd_create, _timerfd_settime, measure_spin_ns
from hilrt.timing.host import available_cpus, freeze_gc, other_cpus, set_affinity
from hilrt.timing.monotonic import monotonic_ns
from hilrt.timing.realtime import set_priority

RATES_HZ = (100, 1000, 2000)
BLOCK_S = 0.25
#: Share of the calmest blocks, which count for p50 and p99.
CALM = 0.75
BUSY = "while True: pass"
Loop = Callable[[int, int, int], list[int]]


def bare_loop(count: int, step_ns: int, spin_ns: int) -> list[int]:
    """Lateness [ns] of `count` wake-ups by a blocking timerfd and `spin_ns` of busy-waiting."""
    fd = _timerfd_create()
    os.set_blocking(fd, True)
    lateness = []
    target = monotonic_ns() + step_ns
    for _ in range(count):
        wake = target - spin_ns
        if wake > monotonic_ns():
            _timerfd_settime(fd, wake)
            os.read(fd, 8)
        while (now := monotonic_ns()) < target:
            pass
        lateness.append(now - target)
        target += step_ns
        if target < now:  # like the master: skip to the next grid point
            target += -(-(now - target) // step_ns) * step_ns
    os.close(fd)
    return lateness


def clock_loop(count: int, step_ns: int, spin_ns: int) -> list[int]:
    """Likewise with `WallClock` on an event loop."""

    async def run() -> list[int]:
        clock = WallClock(spin_ns)
        lateness = []
        target = monotonic_ns() + step_ns
        for _ in range(count):
            now = await clock.sleep_until(target)
            lateness.append(now - target)
            target += step_ns
            if target < now:
                target += -(-(now - target) // step_ns) * step_ns
        clock.close()
        return lateness

    return asyncio.run(run())


def measure(rate_hz: int, seconds: float, spin_ns: int) -> dict[str, Any]:
    """Run all four loops alternately at one rate."""
    step_ns = 1_000_000_000 // rate_hz
    loops: dict[str, tuple[Loop, int]] = {
        "timerfd": (bare_loop, 0),
        "clock": (clock_loop, 0),
        "spin": (bare_loop, spin_ns),
        "clock_spin": (clock_loop, spin_ns),
        "timerfd_again": (bare_loop, 0),
        "spin_again": (bare_loop, spin_ns),
    }
    found: dict[str, list[list[int]]] = {name: [] for name in loops}
    count = round(BLOCK_S * rate_hz)
    with freeze_gc():
        for _ in range(max(1, round(seconds / BLOCK_S))):
            for name, (loop, spin) in loops.items():
                found[name].append(loop(count, step_ns, spin))
    result: dict[str, Any] = {name: _quantiles(np.array(ns)) for name, ns in found.items()}
    for clock, floor in (("clock", "timerfd"), ("clock_spin", "spin")):
        again = result.pop(f"{floor}_again")
        result[f"{clock}_ratio"] = _ratios(result[clock], result[floor])
        result[f"{clock}_itself"] = {
            p: max(ratio, round(1.0 / max(ratio, 1e-3), 2))
            for p, ratio in _ratios(again, result[floor]).items()
        }
    return result


def _ratios(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {p: round(one[p] / max(other[p], 1e-3), 2) for p in ("p50", "p99")}


def _quantiles(ns: Floats) -> dict[str, float]:
    """Statistics of lateness, shape (blocks, ticks)."""
    of_blocks = np.sort(np.quantile(ns, (0.5, 0.99), axis=1), axis=1)
    p50, p99 = of_blocks[:, : math.ceil(CALM * len(ns))].mean(axis=1) * 1e-3
    p999 = np.quantile(ns, 0.999) * 1e-3
    return {
        "p50": round(float(p50), 2),
        "p99": round(float(p99), 2),
        "p99.9": round(float(p999), 2),
        "max": round(float(ns.max()) * 1e-3, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0, help="per loop, rate and load")
    parser.add_argument("--priority", type=int, default=0, help="SCHED_FIFO, 1 to 99")
    parser.add_argument("--cpu", type=int, default=available_cpus()[-1], help="for the loops")
    arguments = parser.parse_args()
    notes = [set_affinity([arguments.cpu]), set_priority(arguments.priority)]
    for note in filter(None, notes):
        print(f"warning: {note}", file=sys.stderr)
    spin_ns = asyncio.run(measure_spin_ns())
    result: dict[str, Any] = {
        "spin_us": spin_ns / 1e3,
        "cpu": arguments.cpu,
        "load_average": os.getloadavg()[0],
    }
    for load in ("idle", "loaded"):
        busy = None
        if load == "loaded":
            busy = subprocess.Popen([sys.executable, "-c", BUSY])
            os.sched_setaffinity(busy.pid, other_cpus([arguments.cpu]))
            time.sleep(0.2)
        try:
            for rate in RATES_HZ:
                result[f"{load}_{rate}hz"] = measure(rate, arguments.seconds, spin_ns)
        finally:
            if busy is not None:
                busy.kill()
                busy.wait()
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(
        f"spin {result['spin_us']:.0f} us, processor {result['cpu']}, load before the run "
        f"{result['load_average']:.1f}; lateness in us"
    )
    for key, row in result.items():
        if not isinstance(row, dict):
            continue
        print(key)
        for name in ("timerfd", "clock", "spin", "clock_spin"):
            figures = "  ".join(f"{p} {v:9.2f}" for p, v in row[name].items())
            ratio, itself = row.get(f"{name}_ratio"), row.get(f"{name}_itself")
            print(
                f"  {name:11} {figures}"
                + (f"  ratio {ratio['p50']} {ratio['p99']}" if ratio else "")
                + (f"  itself {itself['p50']} {itself['p99']}" if itself else "")
            )


if __name__ == "__main__":
    main()
