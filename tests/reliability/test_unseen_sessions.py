"""Sessions that nothing was tuned for, right and deliberately wrong, held to their truth.

They and the verdicts that they deserve were written down before the first of them was run. The
truth has the same equations of all subsystems as one system, by scipy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hilrt.config.parse_toml import toml_value
from hilrt.models.linear import Linear
from hilrt.reliability.estimates import LEAST_SPREAD
from hilrt.session.result import Result
from hilrt.session.simulate import simulate
from hilrt.solver import Floats, Solver
from tests.reliability import unseen_systems as systems
from tests.reliability.equations import turns

GOOD, NOT_WRONG, NOT_GOOD, UNRELIABLE = (
    ("good",),
    ("good", "degraded"),
    ("degraded", "unreliable"),
    ("unreliable",),
)
#: Upper ends of true errors, and what may be said of them.
RIGHT: Final = ((0.05, NOT_WRONG), (0.2, NOT_GOOD), (np.inf, UNRELIABLE))
NONE: Final[Mapping[str, Any]] = MappingProxyType({})
#: Below this a session whose subsystems were all probed is good.
SMALL: Final = 0.01


class Case(NamedTuple):
    """A session: its subsystems by their classes or matrices, connections as `from` to `to`."""

    step: float
    duration: float
    order: int
    subsystems: dict[str, type[Solver] | dict[str, Any]]
    connections: dict[str, str]
    words: tuple[str, ...]  #: what its author thought that it deserves
    gain: float = 1.0
    bonds: Sequence[dict[str, Any]] = ()
    keys: Mapping[str, dict[str, Any]] = NONE  #: further keys of the subsystems' tables
    stimuli: Sequence[dict[str, Any]] = ()
    given: Mapping[str, float] = NONE  #: inputs without a connection: the swing's, or a constant

    def text(self) -> str:
        """The session file."""
        tables: dict[str, dict[str, Any]] = {}
        for name, made in self.subsystems.items():
            linear = isinstance(made, dict)
            model = "hilrt.models.linear:Linear" if linear else f"{made.__module__}:{made.__name__}"
            tables[name] = {"adapter": "inprocess", "model": model, **self.keys.get(name, {})}
            if isinstance(made, dict):
                tables[name]["params"] = made
        master = {"step": self.step, "extrapolation": {"order": self.order}}
        ends = self.connections.items()
        file = {
            "session": {"name": "unseen", "duration": self.duration, "pace": "asap"},
            "master": master,
            "subsystems": tables,
            "connections": [{"from": a, "to": b, "gain": self.gain} for a, b in ends],
            "bonds": self.bonds,
            "stimuli": self.stimuli,
        }
        return "".join(f"{key} = {toml_value(value)}\n" for key, value in file.items() if value)


FILTERED = {
    "subsystems": {"filter": systems.FILTER, "motor": systems.MOTOR},
    "connections": {"filter.voltage": "motor.voltage", "motor.current": "filter.current"},
    "given": {"filter.source": 48.0},
}
SOURCE = {"inputs": {"source": {"start": 48.0}}}
LINK = {"name": "link", "effort": "filter.voltage", "flow": "motor.current"}
ROAD = {"shape": "sine", "amplitude": 0.02, "frequency": 1.5}

RIGHT_ONES = {
    "a motor behind a filter": Case(
        1e-4, 0.1, 1, words=GOOD, bonds=[LINK], keys={"filter": SOURCE}, **FILTERED
    ),
    "the same held, corrected by its model": Case(
        2e-4,
        0.1,
        0,
        words=GOOD,
        bonds=[LINK | {"correction": {"method": "model"}}],
        keys={
            "filter": SOURCE | {"jacobian": {"source": "solver"}},
            "motor": {"jacobian": {"source": "solver"}},
        },
        **FILTERED,
    ),
    "heat of a battery that cannot be probed": Case(
        1.0,
        600.0,
        1,
        {"cells": systems.Cells, "coolant": systems.Coolant},
        {"cells.heat": "coolant.heat", "coolant.temperature": "cells.coolant"},
        NOT_WRONG,
    ),
    "a fan behind gear wheels": Case(
        1e-3,
        1.0,
        1,
        {"motor": systems.GearMotor, "fan": systems.Fan},
        {"motor.speed": "fan.speed", "fan.torque": "motor.load"},
        GOOD,
        gain=0.25,
    ),
    "two tanks": Case(
        0.25,
        150.0,
        1,
        {"upper": systems.UpperTank, "lower": systems.LowerTank},
        {"upper.level": "lower.level", "lower.flow": "upper.outflow"},
        GOOD,
    ),
    "a quarter of a car": Case(
        2e-3,
        1.0,
        1,
        {"body": systems.Body, "wheel": systems.Wheel},
        {"wheel.force": "body.force", "body.x": "wheel.x", "body.v": "wheel.v"},
        GOOD,
        bonds=[
            {
                "name": "suspension",
                "effort": "wheel.force",
                "flow": "body.v",
                "correction": {"method": "feedthrough"},
            }
        ],
        keys={"wheel": {"inputs": {"road": {"start": 0.0}}}},
        stimuli=[{"name": "road", "input": "wheel.road", "segments": [ROAD]}],
        given={"wheel.road": 0.02},
    ),
}
WRONG_ONES = {
    "a stiff link with a step far too long": Case(
        2.5e-4,
        0.06,
        0,
        {"converter": systems.Converter, "load": systems.PowerLoad},
        {"converter.voltage": "load.voltage", "load.current": "converter.current"},
        UNRELIABLE,
        bonds=[{"name": "link", "effort": "converter.voltage", "flow": "load.current"}],
    ),
    "a feedthrough of the wrong sign": Case(
        3e-3,
        1.0,
        0,
        {"drive": systems.Drive, "load": systems.DrivenLoad},
        {
            "drive.torque": "load.torque",
            "load.angle": "drive.angle",
            "load.speed": "drive.speed",
        },
        UNRELIABLE,
        bonds=[
            {
                "name": "coupling",
                "effort": "drive.torque",
                "flow": "load.speed",
                "correction": {"method": "feedthrough"},
            }
        ],
        keys={"drive": {"jacobian": {"source": "given", "D": [[2000.0, 8.0]]}}},
    ),
    "order 4 with six samples a period": Case(
        4e-4,
        0.04,
        4,
        {"generator": systems.Generator, "load": systems.InductiveLoad},
        {"generator.voltage": "load.voltage", "load.current": "generator.current"},
        UNRELIABLE,
        bonds=[{"name": "terminals", "effort": "generator.voltage", "flow": "load.current"}],
    ),
    "a control that communicates far too rarely": Case(
        0.02,
        20.0,
        0,
        {"vessel": systems.Vessel, "control": systems.PressureControl},
        {"vessel.pressure": "control.pressure", "control.valve": "vessel.valve"},
        UNRELIABLE,
        keys={"control": {"every": 50}},
    ),
    "an absurd energy correction": Case(
        2e-3,
        1.5,
        0,
        {"drum": systems.Drum, "load": systems.HungLoad},
        {"drum.force": "load.force", "load.x": "drum.x", "load.v": "drum.v"},
        UNRELIABLE,
        bonds=[
            {
                "name": "rope",
                "effort": "drum.force",
                "flow": "load.v",
                "correction": {"method": "energy", "mu": 4.0, "cap": 3.0},
            }
        ],
    ),
    "a rate limit in a wrong unit": Case(
        0.01,
        6.0,
        1,
        {"planner": systems.Planner, "axis": systems.Axis},
        {"planner.speed": "axis.speed", "axis.position": "planner.position"},
        UNRELIABLE,
        keys={"axis": {"inputs": {"speed": {"max_rate": 0.3}}}},
    ),
    "heat held for too long": Case(
        15.0,
        2400.0,
        0,
        {"heater": systems.Heater, "shell": systems.Shell},
        {"heater.temperature": "shell.heater", "shell.temperature": "heater.shell"},
        NOT_GOOD,
    ),
    "contact after a gap": Case(
        2e-3,
        1.0,
        0,
        {"hammer": systems.Hammer, "anvil": systems.Anvil},
        {"anvil.force": "hammer.force", "hammer.x": "anvil.x", "hammer.v": "anvil.v"},
        UNRELIABLE,
        bonds=[{"name": "contact", "effort": "anvil.force", "flow": "hammer.v"}],
    ),
}
CASES = RIGHT_ONES | WRONG_ONES


class Whole:
    """All subsystems of a session as one system of equations."""

    def __init__(self, case: Case) -> None:
        self.case, self.states, start = case, {}, []
        self.parts: dict[str, Any] = {}
        for name, made in case.subsystems.items():
            self.parts[name] = Linear(**made) if isinstance(made, dict) else made()
            self.states[name] = slice(len(start), len(start) + len(self.parts[name].x))
            start += self.parts[name].x.tolist()
        self.start = start

    @property
    def can_be_tried(self) -> bool:
        return all(part.can_restore() for part in self.parts.values())

    def values(self, t: float, x: Floats) -> dict[str, float]:
        """Inputs and outputs by their names; again until what depends directly has followed."""
        found = dict(self.case.given)
        if self.case.stimuli:
            found = {name: a * turns(t, ROAD["frequency"]) for name, a in found.items()}
        for _ in range(len(self.parts) + 1):
            for name, part in self.parts.items():
                state, u = x[self.states[name]], self.inputs(name, found)
                linear = isinstance(part, Linear)
                y = part.system.C @ state + part.system.D @ u if linear else part.g(state, u)
                names = (f"{name}.{port.name}" for port in part.outputs)
                found |= dict(zip(names, y, strict=True))
            for source, to in self.case.connections.items():
                found[to] = self.case.gain * found[source]
        return found

    def inputs(self, name: str, values: dict[str, float]) -> Floats:
        ports = self.parts[name].inputs
        return np.array([values.get(f"{name}.{port.name}", 0.0) for port in ports])

    def rates(self, t: float, x: Floats) -> Floats:
        values, rates = self.values(t, x), []
        for name, part in self.parts.items():
            state, u = x[self.states[name]], self.inputs(name, values)
            linear = isinstance(part, Linear)
            system = part.system if linear else None
            rates.append(system.A @ state + system.B @ u if system else part.f(t, state, u))
        return np.concatenate(rates)

    def error(self, result: Result) -> float:
        """RMS error of the worst coupling signal, relative to what it varies by."""
        log = result.log
        t, longest = log.t, self.case.duration / 50.0
        tight = {"method": "LSODA", "rtol": 1e-10, "atol": 1e-10, "max_step": longest}
        solved = solve_ivp(self.rates, (0.0, t[-1]), self.start, t_eval=t, **tight)
        true = [self.values(*point) for point in zip(t, solved.y.T, strict=True)]
        errors = []
        for name in self.case.connections:
            y = np.array([values[name] for values in true])
            spread = max(y.std(), LEAST_SPREAD * np.sqrt(np.mean(y**2)))
            errors.append(np.sqrt(np.nanmean((log[name] - y) ** 2)) / spread)
        return float(max(errors))


def run(name: str, folder: Path) -> Result:
    path = folder / "unseen.toml"
    path.write_text(CASES[name].text(), "utf-8")
    return simulate(path)


@pytest.mark.parametrize("name", CASES)
def test_verdict_is_that_of_the_true_error(name: str, tmp_path: Path) -> None:
    case, result = CASES[name], run(name, tmp_path)
    whole = Whole(case)
    error = whole.error(result)
    right = next(words for end, words in RIGHT if error < end)
    if whole.can_be_tried and error < SMALL:
        right = GOOD
    assert result.verdict in right, (error, result.summary["estimated_error"])
    assert result.verdict in case.words
    assert (error < RIGHT[0][0]) == (name in RIGHT_ONES)


def test_nothing_is_expected_of_advice_where_a_session_has_left_its_truth(tmp_path: Path) -> None:
    advice = run("a feedthrough of the wrong sign", tmp_path).summary["advice"]
    assert [change["expected"] for change in advice] == [None, None]
    assert advice[0]["settings"] == {"subsystems.drive.jacobian.source": "probe"}
