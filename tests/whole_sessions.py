"""Small sessions of every method: two oscillators, each of two coupled masses, for 300 steps.

``python -m tests.whole_sessions FILE`` writes what they leave in the state; with
``NUMBA_DISABLE_JIT=1`` they run interpreted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from hilrt.coupling.build_model import Identified, Jacobians
from hilrt.coupling.correct_outputs import build_feedthrough
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.tables.plan import RANGE_POLICIES
from hilrt.tables.record import blocks, cloned
from tests.interpreted import numbers
from tests.stepping import MemoryLink, Stepping

STEPS = 300
H = 1e-3
NAMES = ("one", "two", "other_one", "other_two")
ENERGY = {"method": "energy", "mu": 0.5, "nu": 0.25, "cap": 0.1}

#: Keys of the session file, and which correction of outputs there is.
METHODS: dict[str, dict[str, Any]] = {
    "zero order": {"order": 0},
    "energy": {"order": 0, "correction": ENERGY},
    "energy, held, shadow": {"correction": {**ENERGY, "residual": "held"}, "shadow": True},
    "third order, rates": {"order": 3, "every": 3},
    "orders": {"master": {"order_control": {"method": "derivatives"}}},
    "pi": {"master": {"step_control": {"method": "pi", "tolerance": 0.05}}},
    "local": {"master": {"step_control": {"method": "local", "atol": 0.01, "rtol": 0.01}}},
    "ecco": {"master": {"step_control": {"method": "ecco", "rtol": 0.01}}},
    "limits": {"inputs": {"force": {"min": -5.0, "max": 5.0, "max_rate": 200.0}}},
    "jerk": {"inputs": {"force": {"max_rate": 500.0, "max_jerk": 1e4}}},
    "late": {"late": 7},
    "late, held": {"late": 7, "policy": "hold"},
    "bench": {"physical": True, "lead": {"one": 2e-3}},
    "ranges": {"physical": True, "range": 0.4},
    "feedthrough": {"model": "feedthrough"},
    "jacobians": {"model": "given"},
    "identified": {"model": "identified"},
    "stimuli": {"order": 2, "stimuli": True, "correction": ENERGY, "every": 3},
    "stimuli, jacobians": {"model": "given", "stimuli": True},
    "stimuli, feedthrough, lead": {"model": "feedthrough", "stimuli": True, "lead": {"one": 2e-3}},
}
#: On a bond's effort and flow, and in place of a connection of a bond.
STIMULI = [
    {
        "name": "shaker",
        "input": "two.force",
        "segments": [
            {"shape": "sine", "amplitude": 5.0, "frequency": 40.0, "duration": 0.05},
            {"shape": "prbs", "amplitude": 2.0, "bits": 4, "interval": 0.004},
            {"shape": "noise", "amplitude": 1.0, "duration": 0.05},
            {"shape": "step", "to": 3.0, "duration": 0.02},
        ],
    },
    {
        "name": "chirp",
        "input": "one.v2",
        "repeat": "forever",
        "segments": [
            {
                "shape": "chirp",
                "amplitude": 0.1,
                "frequency": 5.0,
                "to_frequency": 80.0,
                "sweep": "logarithmic",
                "duration": 0.07,
            },
            {"shape": "ramp", "to": 0.2, "rate": 10.0},
        ],
    },
    {
        "name": "instead",
        "input": "other_two.force",
        "mode": "replace",
        "start": 0.1,
        "end": 0.2,
        "segments": [{"shape": "points", "points": [[0.0, 0.0], [0.05, 20.0], [0.08, 1.0]]}],
        "then": "hold",
    },
]


def build(method: str) -> Stepping:
    """The session before its first step."""
    keys = METHODS[method]
    masses = (Mass1(), Mass2(), Mass1(k=20.0), Mass2(m=2.0))
    links: dict[str, Any] = dict(zip(NAMES, masses, strict=True))
    if "late" in keys:
        held_back = keys["late"]
        links["two"] = MemoryLink("two", masses[1], hold_back=lambda t: int(t % held_back == 3))
    if "physical" in keys:
        links["one"] = MemoryLink("one", masses[0], physical=True)
    pairs = (("one", "two"), ("other_one", "other_two"))
    ways = [(f"{a}.force", f"{b}.force") for a, b in pairs]
    ways += [(f"{b}.{x}", f"{a}.{x}2") for a, b in pairs for x in ("x", "v")]
    correction = keys.get("correction", {"method": "none"})
    subsystems: dict[str, Any] = {name: {} for name in NAMES}
    subsystems["two"] = {"inputs": keys.get("inputs", {}), "every": keys.get("every", 1)}
    subsystems["two"]["late"] = {"policy": keys.get("policy", "extrapolate")}
    session = Stepping(
        links,
        shadow=keys.get("shadow", False),
        lead=keys.get("lead"),
        master={
            "step": H,
            "extrapolation": {"order": keys.get("order", 1)},
            **keys.get("master", {}),
        },
        subsystems=subsystems,
        connections=[{"from": a, "to": b} for a, b in ways],
        bonds=[
            {"name": b, "effort": f"{a}.force", "flow": f"{b}.v", "correction": correction}
            for a, b in pairs
        ],
        stimuli=STIMULI if "stimuli" in keys else [],
        alarms=[{"signal": "two.x", "max": 1e3, "max_rate": 1e4, "action": "log"}],
    )
    if "range" in keys:
        outputs = session.numerics.plan.outputs
        outputs["low"], outputs["high"] = -keys["range"], keys["range"]
        outputs["range_policy"] = np.arange(len(outputs)) % len(RANGE_POLICIES)
    if "model" in keys:
        session.correct(**_corrections(session, keys["model"]))
    return session


def _corrections(session: Stepping, kind: str) -> dict[str, Any]:
    network = session.network
    ny, nu = len(network.outputs), len(network.inputs)
    if kind == "feedthrough":
        D = -100.0 * network.feedthrough.dense()
        return {"feedthrough": build_feedthrough(D, network.L.dense())}
    outputs, inputs = network.outputs.slices[0], network.inputs.slices[0]
    gamma = np.full((2, outputs.stop, inputs.stop), -50.0)
    assert (outputs.start, inputs.start, gamma.shape[1] <= ny, gamma.shape[2] <= nu) == (0, 0, 1, 1)
    correctable = np.ones(ny, dtype=bool)
    if kind == "given":
        return {"jacobians": Jacobians(H, {0: gamma}, [], correctable)}
    identified = [Identified(0, dither=0.01), Identified(1, gamma[:, :1, :1].repeat(2, 1))]
    return {"jacobians": Jacobians(H, {}, identified, correctable)}


def left_by_steps(method: str) -> Iterator[tuple[str, Any, Stepping]]:
    """Name, what was read and must not be written (before, after), and the session at each step."""
    session = build(method)
    numerics = session.numerics
    for step in range(STEPS):
        session.exchange.cut(session.tick, session.t_ns, session.elapsed_ns)
        before = cloned(numerics.plan), cloned(numerics.given)
        numerics.macro_step()
        numerics.assess()
        yield f"{method} {step}", (before, (numerics.plan, numerics.given)), session
        session.go()


def states(method: str) -> dict[str, np.ndarray]:
    """Every table of the state after every 20th step, and after the last, as plain numbers."""
    found: dict[str, np.ndarray] = {}
    for i, (name, _, session) in enumerate(left_by_steps(method)):
        if i % 20 == 0 or i == STEPS - 1:
            for block, values in blocks(session.state):
                found[f"{name} {block}"] = numbers(values)
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **{k: v for method in METHODS for k, v in states(method).items()})
