"""Converters that switch in step with the exchange, held to the truth: what points cannot see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hilrt.session.result import Result
from hilrt.session.simulate import simulate
from hilrt.solver import Floats, InputPolynomial, Port, Sample
from tests.reliability.equations import Opaque, Restoring, turns

STEP, DURATION, SOURCE = 1e-3, 0.2, 24.0


def switched_on(t: float, period: float) -> bool:
    """Half of each period, in the middle of which stands every multiple of it."""
    return (t / period + 0.25 + 1e-9) % 1.0 < 0.5


class Switching(Opaque):
    """A battery behind 1 ohm and 5 mF, switched on and off for the load."""

    inputs = (Port("current", "A"),)
    outputs = (Port("voltage", "V"),)
    start = (SOURCE,)
    period, fine, tells_middle, tells_mean = STEP, 40, False, False

    def f(self, t, x, u):
        drawn = u[0] if switched_on(t, self.period) else 0.0
        return [(SOURCE + 2.0 * turns(t, 10.0) - x[0] - drawn) / 5e-3]

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(self.voltage(t0))

    def voltage(self, t: float) -> Floats:
        return self.x * switched_on(t, self.period)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        values, part = [self.voltage(t)], h / self.fine
        for i in range(self.fine):
            super().advance(t + i * part, part, u)
            values.append(self.voltage(t + (i + 1) * part))
        middle = values[self.fine // 2] if self.tells_middle else None
        mean = np.mean(values[:-1], axis=0) if self.tells_mean else None
        return Sample(values[-1], y_mid=middle, y_mean=mean)

    def g(self, x, u):
        return x


class SwitchingMiddle(Switching):
    tells_middle = True


class SwitchingMean(Switching):
    tells_mean = True


class SwitchingRestoring(SwitchingMiddle, Restoring):
    pass


class StaysOn(SwitchingRestoring):
    """It would switch later than the session lasts."""

    period, fine = 8.0 * DURATION, 4


class Coil(Restoring):
    """10 mH and 2 ohm."""

    inputs = (Port("voltage", "V"),)
    outputs = (Port("current", "A"),)
    start = (0.0,)

    def f(self, t, x, u):
        return [(u[0] - 2.0 * x[0]) / 10e-3]

    def g(self, x, u):
        return x


def run(converter: type[Switching], step: float, folder: Path, reference: str = "") -> Result:
    path = folder / "converter.toml"
    beside = f', reference_model = "{__name__}:{reference}"' if reference else ""
    path.write_text(
        f"""
session = {{ name = "converter", duration = {DURATION}, pace = "asap" }}
master = {{ step = {step}, extrapolation = {{ order = 0 }} }}
connections = [
    {{ from = "converter.voltage", to = "coil.voltage" }},
    {{ from = "coil.current", to = "converter.current" }},
]

[subsystems]
converter = {{ adapter = "inprocess", model = "{__name__}:{converter.__name__}"{beside} }}
coil = {{ adapter = "inprocess", model = "{__name__}:Coil" }}
""",
        "utf-8",
    )
    return simulate(path)


def true_current(t: Floats, period: float) -> Floats:
    """Current of converter and coil as one system, shape as `t`."""
    found, x, edge = [np.zeros(1)], np.array([SOURCE, 0.0]), 0.25 * period
    edges = np.arange(edge, t[-1] + period, 0.5 * period)

    def rates(s: float, x: Floats, on: bool) -> list[float]:
        drawn, voltage = (x[1], x[0]) if on else (0.0, 0.0)
        into = SOURCE + 2.0 * turns(s, 10.0) - x[0] - drawn
        return [into / 5e-3, (voltage - 2.0 * x[1]) / 10e-3]

    begin = 0.0
    for k, end in enumerate(edges):
        at = t[(t > begin + 1e-9) & (t <= end + 1e-9)]
        solved = solve_ivp(
            rates, (begin, end), x, t_eval=[*at, end], args=(k % 2 == 0,), rtol=1e-9, atol=1e-9
        )
        found.append(solved.y[1][: len(at)])
        x, begin = solved.y[:, -1], end
    return np.concatenate(found)


def errors(result: Result, period: float) -> tuple[float, float]:
    """RMS error of the current, A, and that relative to what it varies by."""
    y = true_current(result.log.t, period)
    error = float(np.sqrt(np.mean((result.log["coil.current"] - y) ** 2)))
    return error, error / float(y.std())


@pytest.mark.parametrize("converter", [SwitchingMiddle, SwitchingMean, SwitchingRestoring])
def test_a_converter_that_switches_in_step_is_wrong_and_called_so(
    converter: type[Switching], tmp_path: Path
) -> None:
    result = run(converter, STEP, tmp_path)
    error, relative = errors(result, STEP)
    found = result.summary["estimated_error"]["coil.current"]
    assert relative > 1.0
    assert result.verdict == "unreliable"
    assert any(reason.startswith("output_defect") for reason in result.summary["reasons"])
    assert found["low"] <= error <= found["high"]


def test_one_that_does_not_switch_stays_good(tmp_path: Path) -> None:
    result = run(StaysOn, 1e-4, tmp_path)
    error, relative = errors(result, StaysOn.period)
    assert result.verdict == "good", result.summary["reasons"]
    assert relative < 0.05
    assert error <= result.summary["estimated_error"]["coil.current"]["high"]


class SwitchingSilently(Switching, Restoring):
    """It tells nothing of the inside of its steps, but can be tried out."""


class SwitchingTwice(SwitchingSilently):
    period = STEP / 2.0


class SwitchingThrice(SwitchingSilently):
    period = STEP / 3.0


class StaysOnOpaque(Switching):
    period, fine = StaysOn.period, StaysOn.fine


class StartsLate(SwitchingSilently):
    """It switches from the middle of the session on."""

    def voltage(self, t: float) -> Floats:
        return super().voltage(t) if t > 0.5 * DURATION else self.x.copy()


@pytest.mark.parametrize("converter", [SwitchingSilently, SwitchingTwice, SwitchingThrice])
def test_a_trial_shows_what_the_ends_of_steps_do_not(
    converter: type[Switching], tmp_path: Path
) -> None:
    result = run(converter, STEP, tmp_path)
    _, relative = errors(result, converter.period)
    assert relative > 0.5
    assert result.verdict == "unreliable"
    assert any(reason.startswith("switches_inside") for reason in result.summary["reasons"])


def test_one_that_begins_to_switch_is_found_along_the_way(tmp_path: Path) -> None:
    result = run(StartsLate, STEP, tmp_path)
    assert result.verdict in ("degraded", "unreliable")
    flags = result.summary["flags"]["switches_inside"]
    assert flags["affected_s"] == pytest.approx(0.5 * DURATION, rel=0.3)


@pytest.mark.parametrize("step", [1e-3, 1e-4])
def test_one_that_nothing_shows_is_unverified(step: float, tmp_path: Path) -> None:
    """Neither one that switches nor one that does not: nobody can tell them apart."""
    for converter in (Switching, StaysOnOpaque):
        result = run(converter, step, tmp_path)
        assert result.verdict != "good"
        assert any(reason.startswith("inside_unknown") for reason in result.summary["reasons"])


@pytest.mark.parametrize(
    ("reference", "flag"), [("StaysOn", None), ("SwitchingSilently", "switches_inside")]
)
def test_a_reference_model_shows_the_inside_of_its_solver(
    reference: str, flag: str | None, tmp_path: Path
) -> None:
    found = run(StaysOnOpaque, 1e-4 if flag is None else STEP, tmp_path, reference).summary
    assert "inside_unknown" not in found["flags"]
    assert ("switches_inside" in found["flags"]) == (flag is not None)
    assert (found["verdict"] == "good") == (flag is None), found["reasons"]
