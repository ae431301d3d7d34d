"""Stages that judge a step and choose the next one, on tables of random numbers.

``python -m tests.random_stages FILE`` writes what they leave in the state; with
``NUMBA_DISABLE_JIT=1`` they run interpreted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hilrt.compilation.compiled import bound
from hilrt.coupling.choose_step import choose_step
from hilrt.coupling.compensate import compensate
from hilrt.coupling.control_order import control_order
from hilrt.coupling.drive_inputs import advance_stimuli, drive_inputs
from hilrt.coupling.estimate_signals import estimate_signals
from hilrt.coupling.inject_faults import take_samples
from hilrt.coupling.measure_defects import measure_defects
from hilrt.coupling.measure_disturbances import measure_disturbances
from hilrt.link import Ports
from hilrt.reliability.guard import guard, judge_ranges
from hilrt.reliability.measure import measure_reliability
from hilrt.reliability.move_flags import count_affected, move_flags
from hilrt.solver import Port
from hilrt.step.apply_changes import apply_changes
from hilrt.step.numerics import Numerics
from hilrt.tables.given import BOND_SETTINGS, CHANGES, THRESHOLDS
from hilrt.tables.record import blocks, cloned
from tests.interpreted import numbers
from tests.stepping import make_numerics

STAGES: tuple[Callable[..., None], ...] = (
    apply_changes,
    take_samples,
    advance_stimuli,
    compensate,
    guard,
    judge_ranges,
    measure_defects,
    measure_disturbances,
    estimate_signals,
    choose_step,
    drive_inputs,
    control_order,
    measure_reliability,
    move_flags,
    count_affected,
)
ROUNDS = 20
ORDERS = {"method": "derivatives", "maximum": 4}
SEGMENTS = [
    {"shape": "ramp", "to": 1.0, "rate": 3.0},
    {"shape": "sine", "amplitude": 0.5, "frequency": 3.0, "duration": 0.4},
    {"shape": "chirp", "amplitude": 0.5, "frequency": 2.0, "to_frequency": 9.0, "duration": 0.4},
    {"shape": "prbs", "amplitude": 0.2, "bits": 4, "interval": 0.02},
    {"shape": "noise", "amplitude": 0.2, "duration": 0.1},
    {"shape": "points", "points": [[0.0, 1.0], [0.1, 2.0], [0.2, -1.0]]},
]
#: Faults: kind, value and place.
KINDS: dict[str, tuple[str, float, dict[str, str]]] = {
    "rough": ("quantise", 0.25, {"output": "load.level"}),
    "noisy": ("noise", 0.1, {"output": "load.flow"}),
    "frozen": ("stuck", 0.0, {"output": "load.flow[1]"}),
    "weak": ("gain", 0.5, {"connection": "load.level -> driver.level"}),
    "creeping": ("drift", 2.0, {"connection": "load.level -> driver.level"}),
    "away": ("offset", 0.3, {"input": "load.valve"}),
    "slow": ("delay", 0.02, {"output": "load.level"}),
    "unsteady": ("jitter", 0.02, {"connection": "load.level -> driver.level"}),
    "broken-off": ("loss", 0.3, {"input": "load.valve"}),
    "fixed": ("constant", 0.7, {"input": "driver.level"}),
}
#: What is chosen in ``[master]``.
METHODS: dict[str, dict[str, Any]] = {
    "fixed": {"step_control": {"atol": 0.1, "rtol": 0.2}, "order_control": ORDERS},
    "fixed, orders by scales": {"order_control": ORDERS},
    "pi": {"step_control": {"method": "pi", "tolerance": 0.1}},
    "pi with tolerances": {"step_control": {"method": "pi", "atol": 0.1, "rtol": 0.1}},
    "local": {"step_control": {"method": "local", "atol": 0.3}, "order_control": ORDERS},
    "ecco": {"step_control": {"method": "ecco", "atol": 0.1, "rtol": 0.2}},
}
#: Largest values of integers; of others it is 1.
LARGEST = {
    "segment": 5,
    "source": 3,
    "phase": 3,
    "order": 4,
    "degree": 6,
    "count": 7,
    "failures": 7,
    "successes": 7,
    "reason": 2,
    "operated": 2,
}


def build(method: str) -> Numerics:
    """Three subsystems with a vector bond, a summing junction, feedthrough and alarms."""
    ports = {
        "motor": Ports((Port("flow", "m/s", size=2),), (Port("effort", "N", size=2),)),
        "load": Ports(
            (Port("effort", "N", size=2), Port("valve")),
            (
                Port("flow", "m/s", size=2, feedthrough=("effort",), min=-1.0, max=1.0),
                Port("level", min=0.0),
            ),
        ),
        "driver": Ports((Port("level"),), (Port("valve"),)),
    }
    return make_numerics(
        ports,
        physical=("load",),
        master={"step": 0.01, **METHODS[method]},
        subsystems={
            "motor": {},
            "load": {
                "out_of_range": {"level": "safe"},
                "late": {"max_misses": 1},
                "allow_faults": list(KINDS),
            },
            "driver": {},
        },
        connections=[
            {"from": "motor.effort", "to": "load.effort"},
            {"from": "load.flow", "to": "motor.flow", "order": 2},
            {"from": "load.level", "to": "driver.level"},
            {"from": "driver.valve", "to": "load.valve", "gain": -2.0},
        ],
        bonds=[
            {
                "name": "shaft",
                "effort": "motor.effort",
                "flow": "load.flow",
                "correction": {"method": "energy", "mu": 0.5},
            }
        ],
        stimuli=[
            {"name": "sweep", "input": "load.valve", "mode": "replace", "segments": SEGMENTS},
            {
                "name": "pushed",
                "input": "driver.level",
                "start_when": "load.level > 0.5",
                "end_when": "driver.valve < 0",
                "segments": SEGMENTS[:2],
            },
            {"name": "offset", "input": "driver.level", "repeat": 2, "segments": SEGMENTS[::-1]},
        ],
        faults=[
            {"name": name, "kind": kind, "seed": 5, **place, **({"value": value} if value else {})}
            for name, (kind, value, place) in KINDS.items()
        ],
        alarms=[
            {"signal": "load.level", "max": 0.5, "action": "stop"},
            {"signal": "load.flow", "min": -1.0, "max_rate": 30.0, "delay": 0.02},
        ],
    )


def shuffle(tables: Any, rng: np.random.Generator) -> None:
    """Random numbers into every field: some of them zero, infinite or none."""
    for _, block in blocks(tables):
        for name in block.dtype.names or ():
            values = block[name]
            if values.dtype.kind == "i":
                values[...] = rng.integers(0, LARGEST.get(name, 1) + 1, values.shape)
                continue
            values[...] = rng.normal(size=values.shape)
            rare = rng.random(values.shape)
            values[rare < 0.03] = 0.0
            values[rare > 0.99] = np.nan
            values[(rare > 0.98) & (rare < 0.99)] = np.inf


def prepare(numerics: Numerics, rng: np.random.Generator) -> None:
    """A state and an input that the stages may meet, however unlikely."""
    state, given, slack = numerics.state, numerics.given, numerics.slack
    shuffle(state, rng)
    shuffle(given, rng)
    now, cut = state.session[0], given.session[0]
    for name in THRESHOLDS:
        now[name] = rng.uniform(0.05, 0.5)
    now.controlled_step, now.h_next = rng.uniform(1e-4, 0.1, 2)
    now.step_integral = np.log(now.controlled_step)
    cut.t, cut.elapsed = rng.uniform(1.0, 2.0), rng.choice([0.0, 0.01, 0.02])
    cut.rest = rng.choice([0.0, 0.0, 0.004])
    cut.changes = rng.integers(0, 3)
    for change in given.changes[:CHANGES]:
        change.row = rng.integers(-1, 1)
        change.what = rng.integers(0, len(THRESHOLDS if change.row < 0 else BOND_SETTINGS))
    state.outputs["nodes"] = -np.cumsum(rng.uniform(0.01, 0.02, state.outputs["nodes"].shape), 1)
    slack["missed"] = rng.integers(0, 2)


def left_by_stages(method: str) -> Iterator[tuple[str, Any, Any]]:
    """Name of what it is, and tables before and after: of the state, and of what only is read."""
    rng = np.random.default_rng(list(METHODS).index(method))
    numerics = build(method)
    for i in range(ROUNDS):
        prepare(numerics, rng)
        for stage in STAGES:
            arguments = [numerics.plan, numerics.state, numerics.given]
            if stage is measure_reliability:
                arguments.append(numerics.slack)
            before = cloned(numerics.plan), cloned(numerics.given), numerics.slack.copy()
            with np.errstate(all="ignore"):
                bound(stage, *arguments)()
            after = numerics.plan, numerics.given, numerics.slack
            yield f"{method} {i} {stage.__name__}", (before, after), numerics.state


def states(method: str) -> dict[str, np.ndarray]:
    """Every table of the state after every stage, as plain numbers."""
    found: dict[str, np.ndarray] = {}
    for name, _, state in left_by_stages(method):
        for block, values in blocks(state):
            found[f"{name} {block}"] = numbers(values)
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **{k: v for method in METHODS for k, v in states(method).items()})
