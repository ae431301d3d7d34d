"""Advice before the first run, judged on unseen sessions of the calibration's law.

    python -m tools.calibration.advise_unseen --sessions 60 --out advised.jsonl

Each session is advised for its own target, log-uniform in 0.3 … 10 %, from runs of its parts: ideal
ones, and ones with its measurements, delays and stalls from other random numbers than the judged
run. A repeated call with the same file continues with the missing sessions. With ``--physics`` the
sessions have physics that the law excludes, see `groups.PHYSICS`. Searches are limited in processor
time, so that a busy host gets the same result.

The cost of advised settings is held against random ones (``--random``). Only those that cost less
than half as much are run, the cheapest first: whether one of them meets the target is the question.
Where nothing corrects, they are run without trials along the way, which change no signal.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.errors import HilrtError
from hilrt.reliability.choose_settings import STEP
from hilrt.solver import Floats
from hilrt.studies.axes import Settings
from hilrt.studies.model_trials import ModelTrial
from hilrt.studies.settings_advice import Wish, advise_settings, alternatives
from tools.calibration.advised import apply
from tools.calibration.compare import compare
from tools.calibration.groups import GROUPS, PHYSICS
from tools.calibration.law import Draw, draw
from tools.calibration.runs import plain, read_lines
from tools.calibration.scripted_links import Measurement
from tools.calibration.sessions import Made, make_session, tables_of
from tools.calibration.systems import Channels

#: Seed of sessions that are used neither by the calibration nor by its tests.
SEED = 34_034
TARGETS = 0.003, 0.1
#: Range of the macro steps of random settings compared with the advised cost, over the session's.
RANDOM_STEPS = 1.0 / 32.0, 32.0
MOST_STEPS = 20_000
#: The advised cost may be so many times that of the best random settings.
CHEAP = 2.0
#: Alternatives that correct nothing.
PLAIN = "order 0", "order 1", "order 2"


def with_settings(drawn: Draw, settings: Settings, ideal: bool, stream: int) -> Draw:
    """Return the session with other settings; its delays and noise come from another stream."""
    changed = replace(drawn, tables=copy.deepcopy(drawn.tables), step=settings[STEP])
    changed.random = np.random.default_rng([drawn.number, SEED, stream])
    apply(changed, settings)
    if ideal:
        changed.scripts, changed.bench, changed.stalls = {}, "", (0.0, 0.0)
        changed.measurements = {
            name: Measurement(np.zeros_like(m.noise), np.zeros_like(m.step))
            for name, m in drawn.measurements.items()
        }
    return changed


class DrawnRun:
    """Runs a drawn session, see `hilrt.studies.model_trials.Run`."""

    def __init__(self, drawn: Draw) -> None:
        self.drawn, self.streams, self.steps = drawn, 0, 0
        self.coupled = set(Channels(drawn.system).coupled())

    def __call__(self, settings: Settings, ideal: bool) -> ModelTrial:
        self.streams += 1
        changed = with_settings(self.drawn, settings, ideal, self.streams)
        began = time.perf_counter()
        made = make_session(changed)
        steps = max(int(made.summary.get("steps", 0)), 1)
        self.steps += steps
        fault = made.fault or ""
        return ModelTrial(self.seen(made), (time.perf_counter() - began) / steps, fault)

    def seen(self, made: Made) -> dict[str, tuple[Floats, Floats]]:
        """Outputs of the parts, by the names of coupled channels."""
        channels, found = Channels(self.drawn.system), {}
        for part, rows in zip(self.drawn.system.parts, channels.rows, strict=True):
            seen = [(t, y) for t, y in made.solvers[part.name].seen if t <= self.drawn.duration]
            if len(seen) < 2:
                return {}
            times, y = np.array([t for t, _ in seen]), np.array([y for _, y in seen])
            for i in range(rows.start, rows.stop):
                if i in self.coupled:
                    found[channels.names[i]] = (times, y[:, i - rows.start])
        return found


def true_error(drawn: Draw, settings: Settings, stream: int, renews: bool = True) -> float:
    """Largest relative error of a coupled signal against the truth."""
    changed = with_settings(drawn, settings, False, stream)
    made = make_session(changed, renews)
    if made.fault is not None:
        return math.inf
    signals = compare(changed, made)["signals"]
    return max(float(signal["relative"]) for signal in signals.values())


def judge(number: int, randoms: int = 0, physics: bool = False) -> dict[str, Any]:
    """Judge the advice for one session; return its line."""
    drawn = draw(number, SEED, PHYSICS if physics else GROUPS)
    random = np.random.default_rng([SEED, number, 1])
    target = float(np.exp(random.uniform(*np.log(TARGETS))))
    line: dict[str, Any] = {"number": number, "group": drawn.group, "target": target}
    line |= {k: drawn.settings[k] for k in ("pace", "noise", "resolution", "integrator", "steps")}
    line["bench"] = drawn.bench
    began, run = time.process_time(), DrawnRun(drawn)
    tables = tables_of(drawn)
    try:
        wish = Wish(target, budget=math.inf, clock=time.process_time)
        found = advise_settings(run, tables, wish)
    except HilrtError as error:
        return line | {"refused": str(error), "cpu_s": time.process_time() - began}
    line |= {"cpu_s": time.process_time() - began, "runs": run.streams, "run_steps": run.steps}
    line |= {"settings": found.settings, "predicted": found.error, "rejected": found.rejected}
    if found.settings:
        line["error"] = true_error(drawn, found.settings, 0)
        line["cost"] = 1.0 / found.settings[STEP]
        if randoms:
            most = line["cost"] / CHEAP
            line["cheapest_random"] = _cheapest_random(drawn, random, randoms, target, most)
    return line | {"all_s": time.process_time() - began}


def _cheapest_random(
    drawn: Draw, random: np.random.Generator, count: int, target: float, most: float
) -> float:
    """Steps per second of the cheapest random settings that meet the target; at most `most`."""
    options, drawings = alternatives(tables_of(drawn)), []
    for _ in range(count):
        option = options[int(random.integers(len(options)))]
        step = drawn.step * float(np.exp(random.uniform(*np.log(RANDOM_STEPS))))
        step = min(max(step, drawn.duration / MOST_STEPS), drawn.duration / 40.0)
        drawings.append((round(step, 9), option))
    for step, option in sorted(drawings, key=lambda drawing: -drawing[0]):
        if 1.0 / step >= most:
            break
        settings = {STEP: step, **option.settings, "master.step_control.method": "fixed"}
        corrects = option.name not in PLAIN
        if true_error(drawn, settings, 0, renews=corrects) <= target:
            return 1.0 / step
    return most


def _attempt(job: tuple[int, int, bool]) -> dict[str, Any]:
    try:
        return judge(*job)
    except Exception as error:  # a failed session does not end the others
        return {"number": job[0], "failed": f"{type(error).__name__}: {error}"}


def figures(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Statistics of the advised sessions."""
    advised = [line for line in lines if "error" in line]
    if not advised:
        return {"sessions": len(lines), "advised": 0}
    share = np.array([line["error"] / line["target"] for line in advised])
    within = [line["predicted"][0] <= line["error"] <= line["predicted"][1] for line in advised]
    held = [line for line in advised if "cheapest_random" in line]
    cheap = [line["cost"] <= CHEAP * line["cheapest_random"] for line in held]
    return {
        "sessions": len(lines),
        "advised": len(advised),
        "meet": float(np.mean(share <= 1.0)),
        "miss_by_4": float(np.mean(share > 4.0)),
        "within_interval": float(np.mean(within)),
        "cost_within_2": float(np.mean(cheap)) if cheap else None,
        "held_against_random": len(held),
        "cpu_s": np.quantile([line["cpu_s"] for line in advised], [0.5, 1.0]).tolist(),
    }


def main() -> None:
    """Judge, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="number of the first session")
    parser.add_argument("--physics", action="store_true", help="left out of the law")
    parser.add_argument("--random", type=int, default=100, help="settings to hold the cost against")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    lines = read_lines(given.out) if given.out.exists() else []
    known = {line["number"] for line in lines}
    numbers = range(given.first, given.first + given.sessions)
    jobs = [(n, given.random, given.physics) for n in numbers if n not in known]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with context.Pool(given.workers) as pool, given.out.open("a") as file:
        for line in pool.imap_unordered(_attempt, jobs):
            file.write(json.dumps(line, default=plain) + "\n")
            file.flush()
            lines.append(line)
    print(json.dumps(figures(lines), indent=1))
    for line in lines:
        if "error" not in line or line["error"] > line["target"]:
            kept = ("settings", "rejected")
            print({key: value for key, value in line.items() if key not in kept})


if __name__ == "__main__":
    main()
