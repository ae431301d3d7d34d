"""Runs of the stages that correct, predict and identify, with everything that may come in between.

``python -m tests.coupling.corrected_runs FILE`` writes what they leave in the state; with
``NUMBA_DISABLE_JIT=1`` they run interpreted.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hilrt.coupling.build_model import Identified
from hilrt.coupling.compensate import predict_late
from hilrt.coupling.correct_outputs import build_feedthrough
from hilrt.coupling.trust import Limits
from hilrt.tables.record import Tables, blocks
from tests.coupling.corrections import Corrections, network_of
from tests.interpreted import numbers

ORDERS = (0, 1, 2)
STEPS = 150
#: Two subsystems are identified, the Jacobian of the third is given.
PARTS = [(2, 1), (1, 2), (1, 1)]
NY, NU = 4, 4
FEEDTHROUGH = np.zeros((NY, NU), dtype=bool)
FEEDTHROUGH[2, 1] = FEEDTHROUGH[3, 3] = True


def build(order: int) -> Corrections:
    """Every input fed by two outputs, orders mixed, feedthrough and Jacobians together."""
    rng = np.random.default_rng(order)
    L = rng.normal(size=(NU, NY)) * (rng.random((NU, NY)) < 0.6)
    L[range(NU), [2, 3, 0, 1]] = rng.normal(size=NU)
    orders = rng.integers(0, order + 1, L.shape)
    orders[0, 2] = order
    D = np.zeros((NY, NU))
    D[3, 3] = 0.1
    gamma = rng.normal(scale=0.2, size=(order + 1, NY, NU))
    run = Corrections(
        network_of(L, orders, parts=PARTS, offset=0.3, feedthrough=FEEDTHROUGH),
        gamma,
        0.7,
        identified=[
            Identified(0, dither=1e-2, warm_up=8),
            Identified(1, gamma[:, 2:3, 1:3], output_lags=1, input_lags=1, warm_up=5),
        ],
        feedthrough=build_feedthrough(D, L),
        limits=Limits(window=12, hold=3, unexplained_limit=0.9, noise_limit=4.0),
    )
    run.plan.subsystems["predicts_when_late"] = 1
    return run


def play(order: int) -> tuple[Corrections, dict[str, Any], dict[str, int]]:
    """A run to its end; what its state was on the way, and how often what happened."""
    run, rng, left = build(order), np.random.default_rng(20 + order), {}
    answer = np.zeros((order + 1, NY, NU))  # of each subsystem to its own inputs
    answer[:, :2, :1] = rng.normal(size=(order + 1, 2, 1))
    answer[:, 2:3, 1:3] = rng.normal(size=(order + 1, 1, 2))
    y, seen = np.ones(NY), {"predicted": 0, "used": 0, "offsets": 0}
    for step in range(STEPS):
        sent = rng.normal(size=(order + 1, NU)) + run.dither(step, np.ones(NU))
        if step == 135:
            answer = -2.0 * answer  # a jump of the parameters
        y = 0.8 * y + np.einsum("myu,mu->y", answer, sent) + 1e-5 * rng.normal(size=NY)
        late = step in (110, 111, 126)
        run.given.session["regular"] = not late
        run.given.subsystems["late"][1] = late
        run.given.outputs["fresh"][2] = not late
        run.given.inputs["realised"] = np.where(rng.random(NU) < 0.3, sent[0], np.nan)
        run.given.session["renewed"] = step == 33
        run.given.session["apply"] = step % 11 != 10
        run.given.gamma[...] = 0.5 * answer
        run.h = 2.0 * run.plan.session["step"][0] if step == 100 else run.plan.session["step"][0]
        predict(run)
        measured = y * (np.nan if step == 120 else 1.0)
        bridged = run.state.outputs["bridged"]
        run.correct(measured + np.nan_to_num(bridged), sent)
        seen["predicted"] += int(bridged.any())
        bridged[...] = 0.0
        run.identify(learns=step % 5 != 4)
        seen["used"] += int(run.model.gamma[:, :2].any())
        seen["offsets"] += int(run.state.inputs["offset"].any())
        if step % 10 == 9 or step > 98:
            for name, table in blocks(run.state):
                left[f"{order}/{step}/{name}"] = numbers(table)
    return run, left, seen


def predict(run: Corrections) -> None:
    """The stage of late subsystems, at the point that the next correction is for."""
    now = run.given.session
    t = (run.tick + 1) * run.h
    now["t"], now["elapsed"] = t, run.h
    with np.errstate(all="ignore"):
        predict_late(run.plan, run.state, run.given)


def inputs_of(run: Corrections) -> Tables:
    """Tables that stages must not write."""
    return run.plan, run.given, run.slack


def main(path: str) -> None:
    """Write what is left on the way of every order."""
    left: dict[str, Any] = {}
    for order in ORDERS:
        left |= play(order)[1]
    np.savez(path, **left)


if __name__ == "__main__":
    main(sys.argv[1])
