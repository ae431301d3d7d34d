"""True error of a session from an independent exchange, computed before the product runs it.

The exchange here consists of a few lines that share nothing with the master: all parts step at once
with polynomials through the newest samples. The truth is the coupled system, integrated by DOP853.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.solver import Floats, InputPolynomial
from tools.calibration.kinds.listed import NONE, RESTORABLE, TRIALS
from tools.calibration.law import free_limits
from tools.calibration.parts import PartSolver
from tools.calibration.systems import Channels, CoupledSystem, log_uniform
from tools.calibration.truth import NoTruth, Truth, scales

#: Expectations, committed before a trial was run.
EXPECTATIONS = Path(__file__).with_name("expectations.jsonl")
#: Minimum and maximum number of macro steps, and of their adjustments to approach the target error.
STEPS, TURNS, CLOSE = (40, 3000), 6, 1.6
#: Separates the random numbers of these sessions from those of the calibration.
STREAM = 32
#: Relative tolerance of the truth.
TIGHT = 1e-10
#: A session with a larger error counts as diverged.
DIVERGED = 1e3


def settings_of(trial: str, number: int) -> dict[str, Any]:
    """Kind, evidence, order and target error of a session.

    The system is drawn with ``default_rng([STREAM, trial, number])``.
    """
    kinds, evidence = TRIALS[trial]
    name = list(kinds)[number // len(evidence)]
    variant = number % len(evidence)
    random = np.random.default_rng([STREAM + 1, [*TRIALS].index(trial), number])
    low, high = ((1e-4, 8e-3), (8e-3, 2.0), (5e-4, 2.0), (5e-4, 2.0))[variant]
    return {
        "trial": trial, "number": number, "kind": name, "evidence": evidence[variant],
        "order": int(random.choice(3, p=[0.4, 0.5, 0.1])), "middle": bool(random.random() < 0.3),
        "all": bool(random.random() < 0.5), "aim": log_uniform(random, low, high),
    }  # fmt: skip


def system_of(settings: dict[str, Any]) -> tuple[CoupledSystem, Any]:
    """The system, and the state of the generator before it was drawn."""
    trial = [*TRIALS].index(settings["trial"])
    random = np.random.default_rng([STREAM, trial, settings["number"]])
    seedling = random.bit_generator.state
    return TRIALS[settings["trial"]][0][settings["kind"]](random), seedling


def restorable(settings: dict[str, Any], system: CoupledSystem) -> dict[str, bool]:
    """Restorable parts: all; all but the last; or none."""
    names = [part.name for part in system.parts]
    found = dict.fromkeys(names, settings["evidence"] == RESTORABLE)
    if settings["evidence"] != RESTORABLE:
        everyone = settings["all"] and settings["evidence"] == NONE
        found = {name: name != names[-1] and not everyone for name in names}
    return found


def exchange(system: CoupledSystem, step: float, steps: int, order: int) -> Floats:
    """Outputs at all communication points of an explicit exchange, shape (steps + 1, ny)."""
    channels = Channels(system)
    solvers = [PartSolver(part) for part in system.parts]
    u, y = np.zeros(len(channels.L)), np.zeros(len(channels.names))
    for _ in range(3):
        for solver, rows, columns in zip(solvers, channels.rows, channels.columns, strict=True):
            y[rows] = solver.initialize(0.0, u[columns]).y
        u = channels.L @ y
    seen = [y]
    for k in range(steps):
        points = min(order, k) + 1
        back = np.array([[(-i * step) ** j / math.factorial(j) for j in range(points)]
                         for i in range(points)])  # fmt: skip
        taylor = np.linalg.solve(back, np.array(seen[-1 : -points - 1 : -1]) @ channels.L.T)
        y = np.empty_like(y)
        for solver, rows, columns in zip(solvers, channels.rows, channels.columns, strict=True):
            poly = InputPolynomial(k * step, taylor[:, columns])
            y[rows] = solver.advance(k * step, step, poly).y
        seen.append(y)
    return np.array(seen)


def truth_of(system: CoupledSystem, span: float) -> Truth:
    """Truth for `span` [s] and a little more, more accurate than the calibration's truths."""
    return Truth(system, 1.001 * span, free_limits(system), TIGHT)


def true_error(system: CoupledSystem, truth: Truth, step: float, steps: int, order: int) -> float:
    """Error of the worst connected signal: RMS relative to its variation."""
    try:
        with np.errstate(all="raise"):
            y = exchange(system, step, steps, order)
    except (ArithmeticError, ValueError):
        return DIVERGED
    right = truth.outputs((np.arange(steps + 1) * step).tolist())
    error = np.sqrt(np.mean((y - right) ** 2, axis=0)) / scales(right, np.zeros(y.shape[1]))[0]
    worst = float(error[truth.channels.coupled()].max())
    return min(worst, DIVERGED) if math.isfinite(worst) else DIVERGED


def right_words(error: float, evidence: str) -> list[str]:
    """Words that docs/reliability.md assigns to a true error, best first.

    Without evidence, `unverified` is right for any error: it means that nothing is known.
    """
    word = ["good"], ["good", "degraded"], ["degraded"], ["unreliable"]
    found = word[int(np.searchsorted((0.01, 0.05, 0.2), error, side="right"))]
    return [*found, "unverified"] if evidence == NONE else found


def expect(trial: str, number: int) -> dict[str, Any]:
    """Settings of a session with its step, its true error, and the right words.

    The step is adjusted until the error is close to the target.
    """
    settings = settings_of(trial, number)
    system, _ = system_of(settings)
    span, order, aim = system.settings["span"], settings["order"], settings["aim"]
    truth = truth_of(system, span)
    rough = Truth(system, 1.001 * span, free_limits(system))
    tried: dict[int, float] = {}
    steps = 300.0
    for _ in range(TURNS):
        n = round(min(max(steps, STEPS[0]), STEPS[1]))
        if n in tried:
            break
        tried[n] = true_error(system, truth, round(span / n * 1e9) * 1e-9, n, order)
        if max(tried[n] / aim, aim / tried[n]) < CLOSE:
            break
        steps = n * min(max((tried[n] / aim) ** (1.0 / (order + 1)), 0.1), 10.0)
        below, above = [k for k in tried if tried[k] > aim], [k for k in tried if tried[k] <= aim]
        if below and above:
            steps = math.sqrt(max(below) * min(above))
    n = min(tried, key=lambda k: abs(math.log(tried[k] / aim)))
    times = np.linspace(0.0, span, 500)
    right, coupled = truth.outputs(times), truth.channels.coupled()
    level, _ = scales(right, np.zeros(right.shape[1]))
    apart = (np.abs(rough.outputs(times) - right) / level)[:, coupled]
    return settings | {
        "steps": n, "step": round(span / n * 1e9) * 1e-9, "true": tried[n],
        "tolerances_differ_by": float(apart.max()),
        "right": right_words(tried[n], settings["evidence"]),
    }  # fmt: skip


def expectations(trial: str) -> list[dict[str, Any]]:
    """Committed expectations of a trial."""
    lines = [json.loads(text) for text in EXPECTATIONS.read_text().splitlines()]
    return [line for line in lines if line["trial"] == trial]


def write_expectations() -> None:
    """Append missing expectations to the file; existing ones are not changed."""
    known = set()
    if EXPECTATIONS.exists():
        known = {
            (line["trial"], line["number"]) for trial in TRIALS for line in expectations(trial)
        }
    with EXPECTATIONS.open("a") as file:
        for trial, (kinds, evidence) in TRIALS.items():
            for number in range(len(kinds) * len(evidence)):
                if (trial, number) in known:
                    continue
                try:
                    line = expect(trial, number)
                except NoTruth:
                    line = settings_of(trial, number) | {"error": "no truth"}
                print(line, flush=True)
                file.write(json.dumps(line) + "\n")
                file.flush()


if __name__ == "__main__":
    write_expectations()
