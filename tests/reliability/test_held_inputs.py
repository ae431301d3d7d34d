"""Solvers that read their inputs once in a step: that these are held is the coupling's error.

Sessions of physics that neither the calibration nor its rules have seen. They and the words that
they deserve were written down before the first of them was run; two were wrong: an epidemic by the
hour is 1.00 % off, and a line helps none that reads its start alone. The truth has the same
equations as one system, by scipy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import find_linear_model
from hilrt.session.simulate import simulate
from hilrt.solver import InputPolynomial, Sample, Solver
from tests.reliability import held_systems as systems
from tests.reliability.test_unseen_sessions import (
    GOOD,
    NOT_GOOD,
    NOT_WRONG,
    RIGHT,
    SMALL,
    UNRELIABLE,
    Case,
    Whole,
)


def pair(
    one: type[Solver],
    other: type[Solver],
    step: float,
    duration: float,
    words: tuple[str, ...],
    order: int = 0,
) -> Case:
    """Two subsystems of one output each that drive each other's first input."""
    parts: dict[str, type[Solver]] = {"one": one, "other": other}
    ends = {name: (part.inputs[0].name, part.outputs[0].name) for name, part in parts.items()}
    (into, out), (back, gives) = ends["one"], ends["other"]
    connections = {f"one.{out}": f"other.{back}", f"other.{gives}": f"one.{into}"}
    return Case(step, duration, order, dict(parts), connections, words)


CASES: Final = {
    "a ringing circuit, held far too long": pair(
        systems.Coil, systems.Capacitor, 1e-4, 0.1, UNRELIABLE
    ),
    "a ringing circuit": pair(systems.Coil, systems.Capacitor, 2e-6, 0.02, NOT_WRONG),
    "a ringing circuit along lines": pair(systems.Coil, systems.Capacitor, 1e-5, 0.05, NOT_GOOD, 1),
    "an epidemic by the week": pair(systems.Susceptible, systems.Infected, 7.0, 84.0, UNRELIABLE),
    "algae that are fed rarely": pair(systems.Algae, systems.Nutrient, 0.6, 12.0, NOT_GOOD),
    "a pendulum on a motor": pair(systems.Pendulum, systems.Armature, 1e-3, 5.0, NOT_WRONG),
    "a nerve": pair(systems.Membrane, systems.Recovery, 0.02, 60.0, NOT_WRONG),
    "a laser, held far too long": pair(systems.Photons, systems.Carriers, 2e-2, 3.0, UNRELIABLE),
    "two rooms": pair(systems.Room, systems.Neighbour, 60.0, 36000.0, GOOD),
    "a furnace": pair(systems.Radiator, systems.Furnace, 0.02, 30.0, NOT_WRONG),
    "a furnace that is looked at rarely": pair(
        systems.Radiator, systems.Furnace, 2.0, 60.0, NOT_GOOD
    ),
    "the Brusselator": pair(systems.Activator, systems.Inhibitor, 0.005, 20.0, NOT_WRONG),
}
#: What answers otherwise on its way than at the start: these are repeated at shorter steps.
REPEATED: Final = {
    "an epidemic by the hour": pair(systems.Susceptible, systems.Infected, 0.04, 80.0, NOT_WRONG),
    "algae": pair(systems.Algae, systems.Nutrient, 0.01, 10.0, NOT_WRONG),
    "van der Pol's oscillator": pair(systems.Place, systems.Speed, 0.005, 20.0, NOT_GOOD),
    "van der Pol's oscillator, held long": pair(systems.Place, systems.Speed, 0.2, 20.0, NOT_GOOD),
    "a laser": pair(systems.Photons, systems.Carriers, 2e-4, 3.0, NOT_WRONG),
    "an oscillator that a switch closes": pair(
        systems.Late, systems.Always, 0.02, 60.0, UNRELIABLE
    ),
}


@pytest.mark.parametrize("name", CASES | REPEATED)
def test_verdict_is_that_of_the_true_error(name: str, tmp_path: Path) -> None:
    case = (CASES | REPEATED)[name]
    path = tmp_path / "held.toml"
    path.write_text(case.text(), "utf-8")
    result = simulate(path, {"reliability.repeat": "half" if name in REPEATED else "off"})
    error = Whole(case).error(result)
    right = next(words for end, words in RIGHT if error < end)
    right = GOOD if error < SMALL else right
    assert result.verdict in right, (error, result.summary["estimated_error"])
    assert result.verdict in case.words


@pytest.mark.parametrize("step", [2e-6, 1e-5])
@pytest.mark.parametrize("order", [0, 1])
def test_a_line_helps_no_solver_that_reads_its_start_alone(
    step: float, order: int, tmp_path: Path
) -> None:
    case = pair(systems.Coil, systems.Capacitor, step, 0.02, (), order)
    path = tmp_path / "held.toml"
    path.write_text(case.text(), "utf-8")
    result = simulate(path)
    errors = result.summary["estimated_error"].values()
    worst = max(e["value"] / e["high"] * e["relative"] for e in errors)
    assert worst == pytest.approx(Whole(case).error(result), rel=0.2)


class Eulers(systems.Algae):
    """The same in one explicit step of Euler's method."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.x = self.x + h * np.array(self.f(t, self.x, u(t)))
        return Sample(self.x.copy())


class Within(systems.Algae):
    """The same with its inputs read inside the step, too."""

    advance = systems.Restoring.advance


@pytest.mark.parametrize(
    ("made", "fineness", "slope"),
    [(systems.Algae, 1.0, 0.0), (Within, 1.0, 1.0), (Eulers, 0.0, None), (systems.Coil, 1.0, 0.0)],
)
def test_a_trial_tells_what_acts_of_an_input(
    made: Any, fineness: float, slope: float | None
) -> None:
    hosted, u = HostedSolver(made()), np.array([2.0])
    hosted.initialize(0.0, u)
    model = find_linear_model(hosted, u, 1e-5 if made is systems.Coil else 0.1)
    assert model is not None
    assert model.fineness == pytest.approx(fineness, abs=1e-3)
    if slope is None:
        assert model.slope is None
    else:
        assert model.slope == pytest.approx(slope, abs=1e-2)
