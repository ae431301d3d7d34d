"""Corrections that are right, wrong, and beyond verification, held to the truth.

The two-mass oscillator is undamped: its energy error is known from its motion alone, whatever the
correction believes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hilrt.config.session_file import load_session
from hilrt.coupling.power_bond import fade
from hilrt.coupling.trust import contradicts
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.session.result import Result
from hilrt.session.simulate import simulate
from hilrt.solver import Floats, InputPolynomial, Port, Ports, Sample, Solver
from hilrt.step.apply_changes import apply_changes
from hilrt.step.changes import Changes
from hilrt_adapters.inprocess import InProcessOptions
from tests.stepping import make_numerics

CONFIGS = Path(__file__).parents[2] / "bench_configs"
CORRECTION = "bonds.spring.correction"


def feedthrough(kc: float) -> dict[str, Any]:
    """Correction by a given D: `kc` is the stiffness that it believes in, N/m; 100 is right."""
    return {
        f"{CORRECTION}.method": "feedthrough",
        "subsystems.mass1.jacobian.source": "given",
        "subsystems.mass1.jacobian.D": [[-kc, 0.0], [0.0, 0.0], [0.0, 0.0]],
    }


def model(sign: float, of_mass2: dict[str, Any]) -> dict[str, Any]:
    """Correction by Jacobians; that of mass 1 is given, and right with `sign` 1."""
    dynamics = {
        "A": [[0.0, 1.0], [-110.0, 0.0]],
        "B": [[0.0, 0.0], [sign * 100.0, 0.0]],
        "C": [[100.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
        "D": [[-sign * 100.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
    }
    return {
        f"{CORRECTION}.method": "model",
        "subsystems.mass1.jacobian.source": "given",
        **{f"subsystems.mass1.jacobian.{key}": matrix for key, matrix in dynamics.items()},
        **{f"subsystems.mass2.jacobian.{key}": value for key, value in of_mass2.items()},
    }


def share_of_error(result: Result) -> float:
    """Largest RMS error of the coupled signals against the exact motion, over their spread."""
    log = result.log
    assert log is not None
    rates = np.array([[0, 1, 0, 0], [-110, 0, 100, 0], [0, 0, 0, 1], [100, 0, -1100, 0]], float)
    eigenvalues, modes = np.linalg.eig(rates)
    start = [log[name][0] for name in ("mass1.x", "mass1.v", "mass2.x", "mass2.v")]
    share = np.linalg.solve(modes, start)[:, None] * np.exp(np.outer(eigenvalues, log.t))
    x1, _, x2, v2 = (modes @ share).real
    exact = {"mass1.force": 100.0 * (x1 - x2), "mass2.x": x2, "mass2.v": v2}
    return max(float(np.sqrt(np.mean((log[name] - y) ** 2)) / y.std()) for name, y in exact.items())


def energy_error(result: Result) -> float:
    """Of the oscillator at the end, relative to its energy at the start."""
    log = result.log
    assert log is not None
    x1, v1, x2, v2 = (log[name] for name in ("mass1.x", "mass1.v", "mass2.x", "mass2.v"))
    energy = 0.5 * (v1**2 + v2**2 + 10.0 * x1**2 + 1000.0 * x2**2 + 100.0 * (x1 - x2) ** 2)
    return float(energy[-1] / energy[0] - 1.0)


@pytest.mark.parametrize(
    ("settings", "wrong", "right"),
    [
        ({f"{CORRECTION}.mu": 0.5}, False, True),
        ({f"{CORRECTION}.mu": 0.1}, False, False),
        ({f"{CORRECTION}.mu": 1.0}, False, False),
        (feedthrough(100.0), False, True),
        (feedthrough(0.0), True, False),
        (feedthrough(50.0), True, False),
        (feedthrough(200.0), True, False),
        (feedthrough(-100.0), True, False),
    ],
)
def test_drift_is_the_error_of_the_systems_energy_whatever_the_correction_believes(
    settings: dict[str, Any], wrong: bool, right: bool
) -> None:
    result = simulate(CONFIGS / "two_mass.toml", settings)
    assert result.summary is not None
    drift = result.summary["bonds"]["spring"]["drift_energy_j"] / 10_000.0  # J at the start
    error = energy_error(result)
    assert drift == pytest.approx(error, rel=0.02, abs=0.02)
    assert (abs(error) < 0.02) == right
    assert (result.summary["verdict"] == "unreliable") == (not right)
    assert ("correction_wrong" in result.summary["flags"]) == wrong


class ClosedMass1(Mass1):
    """It cannot go back, so that nothing can be tried out."""

    save_state, restore_state = Solver.save_state, Solver.restore_state


class ClosedMass2(Mass2):
    """As `ClosedMass1`."""

    save_state, restore_state = Solver.save_state, Solver.restore_state


@pytest.mark.parametrize("kc", [0.0, 50.0, 200.0, -100.0, None])
def test_what_nothing_could_verify_is_never_good_where_it_is_wrong(kc: float | None) -> None:
    closed = {f"subsystems.mass{n}.model": f"{__name__}:ClosedMass{n}" for n in (1, 2)}
    correction = {f"{CORRECTION}.mu": 0.1} if kc is None else feedthrough(kc)
    result = simulate(CONFIGS / "two_mass.toml", correction | closed, record=False)
    assert result.summary is not None
    assert result.verdict in ("degraded", "unreliable")
    assert "correction_wrong" not in result.summary["flags"]
    assert ("correction_unverified" in result.summary["flags"]) == (kc != 0.0)  # moves no energy


def test_a_harmful_correction_is_faded_out_and_does_little_more_harm_than_none() -> None:
    # with that D all the time, the error is +377 %; without correction +102 %
    result = simulate(CONFIGS / "two_mass.toml", feedthrough(-100.0))
    assert result.summary is not None
    assert result.log is not None
    assert energy_error(result) < 1.25
    log = result.log
    added = np.abs(log["mass1.force:corrected"] - log["mass1.force"])
    assert added[:200].max() > 1.0
    off = int(np.flatnonzero(added > 0.0)[-1])
    assert log.t[off] < 2.0
    assert np.all(np.diff(added[off - 150 : off + 2]) < 1.0)  # gradually
    assert result.summary["flags"]["correction_harmful"]["count"] == 1


def test_an_operator_may_want_a_correction_back() -> None:
    motion = (Port("force", "N"), Port("v", "m/s"))
    ports = {"a": Ports(motion[1:], motion[:1]), "b": Ports(motion[:1], motion[1:])}
    numerics = make_numerics(
        ports,
        connections=[{"from": "a.force", "to": "b.force"}, {"from": "b.v", "to": "a.v"}],
        bonds=[{"name": "shaft", "effort": "a.force", "flow": "b.v"}],
    )
    bond = numerics.state.bonds[0]
    bond.share, bond.acting_share, bond.harmful = 0.0, 0.0, 1
    changes = Changes(numerics.network)
    changes.add("bonds.shaft.share", 1.0)
    changes.put_into(numerics.given)
    apply_changes(numerics.plan, numerics.state, numerics.given)
    assert (bond.share, bond.acting_share, bond.harmful) == (1.0, 0.0, 0)
    fade(bond, 0.05)
    assert bond.acting_share == pytest.approx(0.25)
    fade(bond, 1.0)
    assert bond.acting_share == 1.0


@pytest.mark.parametrize(
    ("sign", "of_mass2", "error", "word"),
    [
        (-1.0, {"source": "probe"}, 0.12, "degraded"),
        (-1.0, {"source": "given", "gamma": [[[0.0], [0.0]]]}, 0.38, "unreliable"),
        (0.0, {"source": "probe"}, 0.35, "unreliable"),
    ],
)
def test_a_wrong_jacobian_has_the_verdict_of_its_true_error(
    sign: float, of_mass2: dict[str, Any], error: float, word: str
) -> None:
    result = simulate(CONFIGS / "two_mass.toml", model(sign, of_mass2))
    assert result.summary is not None
    assert share_of_error(result) == pytest.approx(error, abs=0.01)
    assert result.verdict == word
    assert "correction_wrong" in result.summary["flags"]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_jacobian_of_the_wrong_sign_is_named(
    sign: float, caplog: pytest.LogCaptureFixture
) -> None:
    own = load_session(CONFIGS / "two_mass_model.toml").tables.subsystems["mass2"]
    assert isinstance(own, InProcessOptions)
    given = {key: np.array(own.params[key]) for key in ("A", "B", "C", "D")}
    given["B"] *= sign
    given["D"] *= sign
    settings = {f"subsystems.mass2.jacobian.{key}": m.tolist() for key, m in given.items()}
    settings |= {"session.duration": 0.05, "subsystems.mass2.jacobian.source": "given"}
    result = simulate(CONFIGS / "two_mass_model.toml", settings)
    assert result.summary is not None
    raised = "correction_wrong" in result.summary["flags"]
    assert raised == (sign < 0.0)
    assert result.verdict == ("degraded" if raised else "good")
    assert ("probed, it is" in caplog.text) == raised


class HardeningMass1(Mass1):
    """Its coupling spring is twice as stiff from 0.1 s to 0.15 s."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.kc = 200.0 if 0.0999 < t < 0.1499 else 100.0
        return super().advance(t, h, u)


def test_a_jacobian_is_tried_out_again_while_the_session_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = feedthrough(100.0) | {
        "subsystems.mass1.model": f"{__name__}:HardeningMass1",
        "session.duration": 0.2,
    }
    for refresh, marked in ((0, 0.0), (20, 0.06)):
        result = simulate(
            CONFIGS / "two_mass.toml", settings | {"subsystems.mass1.jacobian.refresh": refresh}
        )
        assert result.summary is not None
        flags = result.summary["flags"]
        affected = flags.get("correction_wrong", {"affected_s": 0.0})["affected_s"]
        assert affected == pytest.approx(marked, abs=1e-9)  # found at 0.1 s, and gone at 0.16 s
        assert ("t = 0.1 s" in caplog.text) == bool(marked)


@pytest.mark.parametrize(
    ("used", "found", "wrong"),
    [
        ([[1.0, 0.0]], [[1.15, 0.0]], [[False, False]]),
        ([[1.0, 0.0]], [[1.3, 0.0]], [[True, False]]),
        ([[1.0, 0.009]], [[1.0, 0.0]], [[False, False]]),
        ([[0.0, 0.02]], [[0.0, 0.0]], [[False, True]]),
        ([[-1.0]], [[1.0]], [[True]]),
    ],
)
def test_contradiction(used: Any, found: Any, wrong: Any) -> None:
    def array(rows: Any) -> Floats:
        return np.array(rows)

    assert contradicts(array(used), array(found)).tolist() == wrong


def test_entries_of_different_units_are_compared_by_what_they_change() -> None:
    """100 N/m at an input of millimetres beside 1 N/V at one of volts: of the same weight."""
    used, found = np.array([[1000.0, 0.0]]), np.array([[1000.0, 1.0]])
    assert contradicts(used, found).tolist() == [[False, False]]
    assert contradicts(used, found, np.array([1e-3, 10.0])).tolist() == [[False, True]]
    assert contradicts(used, found, np.array([1.0, 1e-3])).tolist() == [[False, False]]
    either = np.array([[1.0, 1e-3], [1e-3, 10.0]])
    assert contradicts(used, found, either).tolist() == [[False, True]]


class StiffDamper(Solver):
    """1e5 N s/m at 1 mm/s, and 10 N/V at 20 V: of the same size, in other units."""

    inputs = (Port("v", "m/s", start=1e-3), Port("control", "V", start=20.0))
    outputs = (Port("force", "N", feedthrough=("v", "control")),)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.array([-1e5 * u0[0] + 10.0 * u0[1]]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return self.initialize(t, u(t + h))

    def save_state(self) -> float:
        return 0.0

    def restore_state(self, state: float) -> None:
        pass


class Constants(Solver):
    """1 mm/s and 20 V."""

    inputs = (Port("force", "N"),)
    outputs = (Port("v", "m/s"), Port("control", "V"))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.array([1e-3, 20.0]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return self.initialize(t, u(t + h))


@pytest.mark.parametrize(("gain", "wrong"), [(10.0, False), (0.0, True), (-10.0, True)])
def test_before_the_first_tick_inputs_count_by_their_values_too(
    tmp_path: Path, gain: float, wrong: bool
) -> None:
    path = tmp_path / "units.toml"
    path.write_text(
        f"""
[session]
name = "units"
duration = 0.01
pace = "asap"
[master]
step = 1e-3
[subsystems.spring]
adapter = "inprocess"
model = "{__name__}:StiffDamper"
jacobian = {{ source = "given", D = [[-1e5, {gain}]] }}
[subsystems.source]
adapter = "inprocess"
model = "{__name__}:Constants"
[[connections]]
from = "source.v"
to = "spring.v"
[[connections]]
from = "source.control"
to = "spring.control"
[[connections]]
from = "spring.force"
to = "source.force"
[[bonds]]
name = "spring"
effort = "spring.force"
flow = "source.v"
correction = {{ method = "feedthrough" }}
"""
    )
    result = simulate(path)
    assert result.summary is not None
    assert ("correction_wrong" in result.summary["flags"]) == wrong


class NoisyMass(Mass1):
    """The first mass with noise on its force, N; its saved state does not hold the generator."""

    def __init__(self, noise: float = 0.0, **params: Any) -> None:
        super().__init__(**params)
        self.noise, self._random = noise, np.random.default_rng(5)

    def _sample(self, u: Floats) -> Sample:
        sample = super()._sample(u)
        sample.y[0] += self.noise * self._random.standard_normal()
        return sample


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.1, 1.0])
def test_noise_of_a_solvers_own_generator_makes_no_right_correction_wrong(noise: float) -> None:
    """The force varies by a thousand: the largest noise is 0.1 % of it."""
    noisy = {
        "subsystems.mass1.model": "tests.reliability.test_verified_corrections:NoisyMass",
        "subsystems.mass1.params.noise": noise,
        "session.duration": 0.2,
    }
    right = simulate(CONFIGS / "two_mass.toml", feedthrough(100.0) | noisy)
    assert "correction_wrong" not in right.summary["flags"]
    wrong = simulate(CONFIGS / "two_mass.toml", feedthrough(-100.0) | noisy)
    assert ("correction_wrong" in wrong.summary["flags"]) is (noise == 1e-6)


def test_little_noise_on_an_output_leaves_the_estimate_and_the_verdict() -> None:
    """A millionth of the force made the errors a range of gains, and the session degraded.

    The masses integrate in short steps: noise would hide the error of their own integration.
    """
    settings = {"master.extrapolation.order": 2, f"{CORRECTION}.method": "none"}
    settings |= {f"subsystems.mass{i}.params.micro_step": 2e-5 for i in (1, 2)}
    mass = {"subsystems.mass1.model": "tests.reliability.test_verified_corrections:NoisyMass"}
    quiet = simulate(CONFIGS / "two_mass.toml", settings)
    noisy = {**settings, **mass, "subsystems.mass1.params.noise": 1e-3}
    found = simulate(CONFIGS / "two_mass.toml", noisy)
    assert found.verdict == quiet.verdict == "good", found.summary["reasons"]
    for name, estimate in found.summary["estimated_error"].items():
        assert estimate["how"] == "sensitivities of the start"
        before = quiet.summary["estimated_error"][name]["value"]
        assert estimate["value"] == pytest.approx(before, rel=0.5)
