"""Cost of monitoring for the master, delay of a flag on the page, and load time of the page.

    python -m tools.benchmarks.bench_monitor [--json] [--pairs 5] [--duration 40] [--channels 200]
                                  [--faults 5] [--loads 5] [--set KEY=VALUE …]

*Cost*: two solver processes with 200 outputs in total at 1 kHz, alternately without any monitor and
watched by the relay, the web page, three clients of the page (WebSocket, niced, echoing like a
browser) and a subscriber to everything that is frozen after its first message. All of these run on
other processors than the master, as if on another machine. Both runs record. Median lateness and
missed ticks are compared after the first `--settle` seconds, when the clients are connected. Goal:
a median of at most 1.1 times that without, and missed ticks within the variation between runs.

*Flag*: the page in a headless Chromium, while a solver is repeatedly stopped for half a second. The
time of the raised flag is taken from the log, that of the lamp from the browser, in the frame in
which it is drawn; both use the same wall clock. Goal: 0.5 s. Faults during a raised flag do not
count.

*Start*: the page is loaded repeatedly while the session runs. The times are the browser's, from the
start of the navigation until the lamp shows a state, and until the last figure is drawn; at the
first load the browser's cache is empty. Goal: the lamp within 2 s.

Times depend on the load of the machine; the pairs alternate, so that ratios are meaningful.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hilrt
from tools.audience import Audience
from tools.watched_session import Run, browser, until

TIME_OVER_DURATION_S = 300.0
#: Duration of a solver's stop, and of its run after that, s.
FAULT_S, PAUSE_S = 0.5, 3.0
#: Step that no solver misses on a busy machine: a flag already raised would hide the fault.
FLAG_STEP = "master.step=0.01"
WATCH_LAMP = """
  window.lamps = [];
  const lamp = Bokeh.documents[0].get_model_by_name("lamp");
  lamp.properties.text.change.connect(() =>
    requestAnimationFrame(() => window.lamps.push([Date.now() / 1e3, lamp.text])));
"""
#: `lampAt` and `plotsAt` become the times from the start of the navigation [ms] to the frame with
#: the first state and to the frame with all figures.
WATCH_START = """
  const look = () => {
    const lamp = window.Bokeh?.documents[0]?.get_model_by_name("lamp");
    const view = lamp && window.Bokeh.index.find_one(lamp);
    const shown = view?.shadow_el?.querySelector(".lamp")?.textContent;
    if (!shown || shown.includes("NO DATA")) requestAnimationFrame(look);
    else requestAnimationFrame(() => { window.lampAt = performance.now(); });
  };
  const lookAtPlots = () => {
    const areas = ["figures", "timing"].map(
      (name) => window.Bokeh?.documents[0]?.get_model_by_name(name));
    const drawn = (area) => {
      const views = area && window.Bokeh.index.find_one(area)?.child_views;
      return views?.length && views.every((view) => view.has_finished());
    };
    if (!areas.every(drawn)) requestAnimationFrame(lookAtPlots);
    else requestAnimationFrame(() => { window.plotsAt = performance.now(); });
  };
  requestAnimationFrame(look);
  requestAnimationFrame(lookAtPlots);
"""


@contextlib.contextmanager
def running(*arguments: Any) -> Iterator[Run]:
    """A `Run` that ends with the block."""
    run = Run(*arguments)
    try:
        yield run
    finally:
        run.close()


# -- cost ----------------------------------------------------------------------------------------


def one_run(folder: Path, watched: bool, options: argparse.Namespace) -> dict[str, Any]:
    """Run once; return lateness and missed ticks after the settling time."""
    load = os.getloadavg()[0]
    given = folder, options.channels, options.duration, watched, *options.overrides
    with running(*given) as run:
        updates: list[int] = []
        if watched:
            run.until_page()
            audience = Audience(run)
            try:
                audience.gather()
                run.wait(options.duration + TIME_OVER_DURATION_S)
                updates = audience.updates()
            finally:
                audience.close()
        else:
            run.wait(options.duration + TIME_OVER_DURATION_S)
        log = hilrt.load_log(run.folder / "session.mcap")
    settled = log.time("master:lateness") >= options.settle
    lateness = np.asarray(log["master:lateness"])[settled]
    elapsed = np.asarray(log["cut:elapsed"])[settled]
    step = float(np.median(elapsed))
    skipped = int(np.sum(np.maximum(np.round(elapsed / step) - 1, 0)))
    missed = int(np.sum(np.asarray(log["master:missed"])[settled] > 0)) + skipped
    return {
        "lateness_us": {q: float(np.nanpercentile(lateness, p))
                        for q, p in (("p50", 50), ("p99", 99), ("p999", 99.9))},
        "missed": missed,
        "missed_share": missed / (len(lateness) + skipped),
        "updates_per_client": updates,
        "load_before": load,
    }  # fmt: skip


def cost(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run pairs in alternating order; return them with their statistics."""
    pairs = []
    for i in range(options.pairs):
        order = (False, True) if i % 2 == 0 else (True, False)
        pair = {
            "watched" if watched else "alone": one_run(folder / f"{i}-{watched}", watched, options)
            for watched in order
        }
        pairs.append(pair)
        if not options.json:
            show_pair(pair)
    alone, watched = ([pair[kind] for pair in pairs] for kind in ("alone", "watched"))
    medians = {kind: [run["lateness_us"]["p50"] for run in runs]
               for kind, runs in (("alone", alone), ("watched", watched))}  # fmt: skip
    shares = [run["missed_share"] for run in alone]
    return {
        "pairs": pairs,
        "ratio_of_medians": float(np.median(medians["watched"]) / np.median(medians["alone"])),
        "ratios": [w / a for a, w in zip(medians["alone"], medians["watched"], strict=True)],
        "missed_share_alone": {"min": min(shares), "max": max(shares)},
        "missed_share_watched": [run["missed_share"] for run in watched],
    }


def show_pair(pair: dict[str, dict[str, Any]]) -> None:
    """Print one line per pair."""
    alone, watched = pair["alone"], pair["watched"]
    late = [run["lateness_us"]["p50"] for run in (alone, watched)]
    print(
        f"median lateness {late[0]:.1f} µs alone, {late[1]:.1f} watched: {late[1] / late[0]:.3f}; "
        f"missed {alone['missed_share']:.3%} and {watched['missed_share']:.3%}; "
        f"updates {watched['updates_per_client']} "
        f"(load before {alone['load_before']:.1f}, {watched['load_before']:.1f})",
        flush=True,
    )


# -- flag ----------------------------------------------------------------------------------------


def flag_delays(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Stop a solver `faults` times; delays of its flag on the page, s."""
    duration = 60.0 + options.faults * (FAULT_S + PAUSE_S)
    given = folder, options.channels, duration, True, FLAG_STEP, *options.overrides
    with running(*given) as run:
        run.until_page()
        with browser(folder / "browser", run.page) as driver:
            run.until_running()
            driver.execute_script(WATCH_LAMP)
            until(lambda: driver.execute_script("return window.lamps.length > 0"), "updates")
            solver = run.processes()["solver a"]
            stopped_at = []
            for _ in range(options.faults):
                time.sleep(PAUSE_S)
                stopped_at.append(time.time())
                os.kill(solver, signal.SIGSTOP)
                time.sleep(FAULT_S)
                os.kill(solver, signal.SIGCONT)
            time.sleep(PAUSE_S)
            lamps = driver.execute_script("return window.lamps")
            where = run.folder
            run.process.send_signal(signal.SIGINT)
            run.process.wait(TIME_OVER_DURATION_S)
    log = hilrt.load_log(where / "session.mcap")
    epoch = int(log.metadata["epoch_ns"]) * 1e-9
    raised = [epoch + e.t for e in log.events
              if e.source == "a" and e.text.startswith("sample_late raised")]  # fmt: skip
    return delays(stopped_at, raised, [(t, "sample late (a" in text) for t, text in lamps])


def delays(
    stopped_at: list[float], raised: list[float], lamps: list[tuple[float, bool]]
) -> dict[str, Any]:
    """Delays from each fault to its flag in the log, and from there to the lamp, s."""
    to_flag, to_lamp = [], []
    for fault in stopped_at:
        up_before = [up for t, up in lamps if t < fault][-1:] == [True]
        lamp = next((t for t, up in lamps if up and t >= fault), math.inf)
        # None in between: the flag shown was raised before the fault, for another reason.
        flag = next((t for t in raised if fault <= t <= lamp < math.inf), None)
        if flag is not None and not up_before:
            to_flag.append(flag - fault)
            to_lamp.append(lamp - flag)
    return {
        "faults": len(stopped_at),
        "counted": len(to_lamp),
        "fault_to_flag_s": to_flag,
        "flag_to_page_s": to_lamp,
    }


# -- start ---------------------------------------------------------------------------------------


def load_times(folder: Path, options: argparse.Namespace) -> list[tuple[float, float]]:
    """Load the page `loads` times; times from each navigation's start to lamp and figures, s."""
    duration = 60.0 + options.loads * 60.0
    given = folder, options.channels, duration, True, FLAG_STEP, *options.overrides
    times: list[tuple[float, float]] = []
    with running(*given) as run:
        run.until_page()
        run.until_running()
        with browser(folder / "browser", run.page, WATCH_START) as driver:
            while len(times) < options.loads:
                plots = until(lambda: driver.execute_script("return window.plotsAt"), "plots")
                lamp = driver.execute_script("return window.lampAt")
                times.append((1e-3 * float(lamp), 1e-3 * float(plots)))
                time.sleep(PAUSE_S)
                driver.get(run.page)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=5, help="0: no cost")
    parser.add_argument("--duration", type=float, default=40.0, help="session time of a run, s")
    parser.add_argument("--settle", type=float, default=15.0, help="not counted at the start, s")
    parser.add_argument("--channels", type=int, default=200)
    parser.add_argument("--faults", type=int, default=5, help="0: no flag")
    parser.add_argument("--loads", type=int, default=5, help="0: no start of the page")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    options = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.pairs:
            result["cost"] = cost(Path(folder), options)
        if options.faults:
            result["flag"] = flag_delays(Path(folder) / "flag", options)
        if options.loads:
            result["start_s"] = load_times(Path(folder) / "start", options)
    if options.json:
        print(json.dumps(result, indent=1))
        return
    if "cost" in result:
        found = result["cost"]
        spread = found["missed_share_alone"]
        print(f"median of the runs' medians: {found['ratio_of_medians']:.3f} times that without; "
              f"missed without {spread['min']:.3%} … {spread['max']:.3%}, "
              f"watched {max(found['missed_share_watched']):.3%} at most")  # fmt: skip
    if "flag" in result:
        shown = [f"{1e3 * t:.0f}" for t in result["flag"]["flag_to_page_s"]]
        flags = [f"{1e3 * t:.0f}" for t in result["flag"]["fault_to_flag_s"]]
        print(f"fault to flag {', '.join(flags)} ms, flag to page {', '.join(shown)} ms; "
              f"{result['flag']['counted']} of {result['flag']['faults']} faults")  # fmt: skip
    if "start_s" in result:
        for what, of_load in (("lamp", 0), ("figures", 1)):
            times = ", ".join(f"{load[of_load]:.2f}" for load in result["start_s"])
            print(f"navigation to {what} {times} s; nothing was cached for the first")


if __name__ == "__main__":
    main()
