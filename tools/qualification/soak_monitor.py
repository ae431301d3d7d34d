"""Memory of the page and of its server over an hour of streaming, which must not grow.

    python -m tools.qualification.soak_monitor [--json] [--duration 3600] [--every 10] \\
        [--channels 200]
                                 [--set KEY=VALUE …]

A session with 200 outputs at 1 kHz and its web page, open in a headless Chromium. The samples
contain the resident memory of the page's server, of the relay and of the browser's renderers (from
/proc), and, after a garbage collection (DevTools), the live memory of the page: its JavaScript
heap, the browser's related objects (styles, layout, canvases), its array buffers, and the number of
DOM nodes. A line is fitted after the first fifth of the run, because plots, caches and histories
fill at first; a slope below two standard errors is not significant.

A browser keeps unused pages of its heaps. Therefore the renderers are also measured after a
simulated low-memory notification, after the first fifth and at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tools.watched_session import Run, browser, children, command_of, rss_mb

#: Time allowed for the start besides the sampled time, s.
START_ALLOWANCE_S = 60.0
WARM_UP_SHARE = 0.2
#: Time for the browser to release memory, s.
SQUEEZE_S = 5.0
SERVERS = ("page", "relay")


def heap(driver: Any) -> dict[str, float]:
    """Memory of the page after a garbage collection, MB, and its DOM nodes."""
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    used = driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    nodes = next(entry["value"] for entry in metrics if entry["name"] == "Nodes")
    return {
        "page_heap_mb": used["usedSize"] / 2**20,
        "page_objects_mb": used["embedderHeapUsedSize"] / 2**20,
        "page_buffers_mb": used["backingStorageSize"] / 2**20,
        "page_nodes": float(nodes),
    }


def renderers_mb(driver: Any) -> float:
    """Resident memory of the browser's renderer processes, MB."""
    started = children(driver.service.process.pid)
    return sum(rss_mb(pid) for pid in started if "--type=renderer" in " ".join(command_of(pid)))


def squeezed_mb(driver: Any) -> float:
    """Resident memory of the renderers after a simulated low-memory notification, MB."""
    driver.execute_cdp_cmd("Memory.simulatePressureNotification", {"level": "critical"})
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    time.sleep(SQUEEZE_S)
    return renderers_mb(driver)


def sample(run: Run, driver: Any, servers: dict[str, int]) -> dict[str, float]:
    """Take one sample of all quantities."""
    row = {f"{name}_rss_mb": rss_mb(pid) for name, pid in servers.items()}
    row["browser_rss_mb"] = renderers_mb(driver)
    row |= heap(driver)
    row["points"] = float(driver.execute_script(
        "let n = 0; for (const m of Bokeh.documents[0]._all_models.values())"
        " if (m.type === 'ColumnDataSource') n += m.get_length() ?? 0; return n"
    ))  # fmt: skip
    return row


def slope_per_hour(t: list[float], values: list[float]) -> dict[str, float]:
    """Slope of a fitted line and its standard error, per hour, after the warm-up."""
    keep = np.asarray(t) >= WARM_UP_SHARE * t[-1]
    x, y = np.asarray(t)[keep] / 3600.0, np.asarray(values)[keep]
    if len(x) < 4:
        return {"slope": math.nan, "error": math.nan}
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    error = math.sqrt(float(rest @ rest) / (len(x) - 2) / float(x @ x))
    return {"slope": slope, "error": error, "first": float(y[0]), "last": float(y[-1])}


def watch(
    run: Run, driver: Any, duration: float, every: float, show: bool
) -> tuple[list[float], list[dict[str, float]], list[float]]:
    """Times [s] of the samples, the samples, and the renderers' memory [MB] when it is low."""
    times: list[float] = []
    rows: list[dict[str, float]] = []
    squeezed: list[float] = []
    servers = {k: pid for k, pid in run.processes().items() if k in SERVERS}
    driver.execute_cdp_cmd("Performance.enable", {})
    began = time.monotonic()
    while (now := time.monotonic() - began) < duration:
        if run.process.poll() is not None:
            print("the session ended early", file=sys.stderr)
            return times, rows, squeezed
        if not squeezed and now >= WARM_UP_SHARE * duration:
            squeezed.append(squeezed_mb(driver))
        times.append(now)
        rows.append(sample(run, driver, servers))
        if show and len(rows) % 6 == 1:
            cells = (f"{key} {value:,.1f}" for key, value in rows[-1].items())
            print(f"{now:6.0f} s: {', '.join(cells)}", flush=True)
        time.sleep(every)
    squeezed.append(squeezed_mb(driver))
    return times, rows, squeezed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--duration", type=float, default=3600.0, help="s")
    parser.add_argument("--every", type=float, default=10.0, help="s between two samples")
    parser.add_argument("--channels", type=int, default=200)
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        length = options.duration + START_ALLOWANCE_S
        run = Run(Path(folder) / "run", options.channels, length, True, *options.overrides)
        try:
            run.until_page()
            run.until_running()
            with browser(Path(folder) / "browser", run.page) as driver:
                times, rows, squeezed = watch(
                    run, driver, options.duration, options.every, not options.json
                )
        finally:
            run.close()
    slopes = {key: slope_per_hour(times, [row[key] for row in rows]) for key in rows[0]}
    if options.json:
        found = {"t_s": times, "samples": rows, "slopes_per_hour": slopes, "squeezed_mb": squeezed}
        print(json.dumps(found, indent=1))
        return
    for key, fit in slopes.items():
        print(f"{key:16} {fit['slope']:+10.2f} ± {fit['error']:.2f} per hour")
    print("renderers when memory runs short, MB: " + ", ".join(f"{mb:.1f}" for mb in squeezed))


if __name__ == "__main__":
    main()
