"""μ that follows the efforts' direct answers: energies of oscillators that conserve theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hilrt
from hilrt.check.check import check
from hilrt.config.session_file import load_session
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.solver import Floats, InputPolynomial, Sample
from tests.coupling.test_energy_table import required_mu

H = 1e-3
#: k1, kc, k2 [N/m] and m2 [kg]; m1 = 1 kg. Those for which μ = 0.5 fails.
SETS = {
    "100/100/100": (100.0, 100.0, 100.0, 1.0),
    "1000/1000/1000": (1000.0, 1000.0, 1000.0, 1.0),
    "m2=10": (10.0, 100.0, 1000.0, 10.0),
    "10/100/10": (10.0, 100.0, 10.0, 1.0),
}
HALF = "mu = 0.5"
ADAPTIVE = "mu = 0.5, mu_range = [0.0, 1.0]"
#: When the stiffness of `Stiffening` jumps, s, and to how many times what it was.
JUMP_S, STIFFER = 1.0, 2.0


def noise(t: float, kind: int) -> float:
    """0.1 % of noise that is the same whenever a step is made again."""
    return 1.0 + 1e-3 * float(np.random.default_rng([kind, round(t / H) + 1]).standard_normal())


class Noisy1(Mass1):
    """Its force is measured with noise."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        sample = super().advance(t, h, u)
        return Sample(sample.y * noise(t, 1))


class Noisy2(Mass2):
    """Its motion is measured with noise."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        sample = super().advance(t, h, u)
        return Sample(sample.y * np.array([noise(t, 2), noise(t, 3)]))


class Stiffening(Mass1):
    """Its coupling spring becomes stiffer at `JUMP_S`."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        soft = self.kc
        if t > JUMP_S - H / 2:
            self.kc = STIFFER * soft
        sample = super().advance(t, h, u)
        self.kc = soft
        return sample


class NoisyStiffening(Stiffening):
    """Its force is measured with noise, too."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        sample = super().advance(t, h, u)
        return Sample(sample.y * noise(t, 1))


class OneWay(Mass1):
    """It cannot go back."""

    def can_restore(self) -> bool:
        return False


def session(
    folder: Path, values: tuple[float, ...], correction: str, kinds: tuple[Any, Any]
) -> Path:
    k1, kc, k2, m2 = values
    one, two = (f"{kind.__module__}:{kind.__name__}" for kind in kinds)
    file = folder / "masses.toml"
    file.write_text(
        f"""
[session]
name = "masses"
duration = 2.0
pace = "asap"
[master]
step = {H}
extrapolation = {{ order = 0 }}
[subsystems.one]
adapter = "inprocess"
model = "{one}"
params = {{ m = 1.0, k = {k1}, kc = {kc}, x = 0.0, v = 100.0 }}
[subsystems.two]
adapter = "inprocess"
model = "{two}"
params = {{ m = {m2}, k = {k2}, x = 0.0, v = -100.0 }}
[[connections]]
from = "one.force"
to = "two.force"
[[connections]]
from = "two.x"
to = "one.x2"
[[connections]]
from = "two.v"
to = "one.v2"
[[bonds]]
name = "spring"
effort = "one.force"
flow = "two.v"
correction = {{ {correction} }}
""",
        encoding="utf-8",
    )
    return file


def energy(log: Any, values: tuple[float, ...], stiffness: Any, noisy: bool = False) -> Floats:
    """True energy at the ends of the steps, from what was exchanged."""
    k1, _, k2, m2 = values
    force, sent, v2 = (np.asarray(log[name]) for name in ("one.force", "two.x", "two.v"))
    x2 = sent
    if noisy:
        factors = [[noise(k * H, kind) for k in range(-1, len(sent) - 1)] for kind in (1, 2, 3)]
        force, x2, v2 = force / factors[0], sent / factors[1], v2 / factors[2]
    x1 = np.append(0.0, (force / stiffness)[1:] + sent[:-1])
    v1 = np.diff(x1, prepend=0.0) / H
    springs = k1 * x1**2 + k2 * x2**2 + stiffness * (x1 - x2) ** 2
    found: Floats = (v1**2 + m2 * v2**2 + springs)[1:] / 2.0
    return found


def energy_error(log: Any, values: tuple[float, ...], noisy: bool = False) -> float:
    """Mean over the last 0.2 s, relative to the start."""
    made = energy(log, values, values[1], noisy)
    return float(made[-200:].mean() / (0.5e4 * (1.0 + values[3])) - 1.0)


def run(
    folder: Path, values: tuple[float, ...], correction: str, kinds: Any = (Mass1, Mass2)
) -> Any:
    if correction:
        correction = f'method = "energy", residual = "held", cap = 1.0, {correction}'
    return hilrt.simulate(session(folder, values, correction, kinds)).log


@pytest.mark.parametrize("name", SETS)
def test_it_finds_the_share_that_is_needed(tmp_path, name):
    values = SETS[name]
    log = run(tmp_path, values, ADAPTIVE)
    if name != "10/100/10":
        assert log["spring:mu"][-1] == pytest.approx(required_mu(name), abs=0.03)
    found = abs(energy_error(log, values))
    assert found < 0.03
    assert found < 0.25 * abs(energy_error(run(tmp_path, values, ""), values))
    half = run(tmp_path, values, f'{HALF}, when_harmful = "keep"')
    assert found < 0.25 * abs(energy_error(half, values))


@pytest.mark.parametrize("name", SETS)
def test_noise_changes_little(tmp_path, name):
    values, kinds = SETS[name], (Noisy1, Noisy2)
    found = abs(energy_error(run(tmp_path, values, ADAPTIVE, kinds), values, noisy=True))
    assert found < 0.03
    assert found < abs(energy_error(run(tmp_path, values, "", kinds), values, noisy=True))


@pytest.mark.parametrize("noisy", [False, True], ids=["exact", "noise"])
@pytest.mark.parametrize("name", SETS)
def test_it_follows_a_stiffness_that_jumps(tmp_path, name, noisy):
    # A jump changes the energy, so that what comes after it counts alone.
    values, kinds = SETS[name], (NoisyStiffening, Noisy2) if noisy else (Stiffening, Mass2)

    def change(correction: str) -> float:
        log = run(tmp_path, values, correction, kinds)
        t = np.asarray(log["t"]) if "t" in log else H * np.arange(len(log["two.v"]))
        after = np.where(t > JUMP_S + H / 2, STIFFER * values[1], values[1])
        made = energy(log, values, after, noisy)
        first, last = made[1010:1210].mean(), made[-200:].mean()
        return abs(float(last / first - 1.0))

    found = change(ADAPTIVE)
    assert found < 0.03  # 175 % uncorrected with 1000/1000/1000
    assert found < change("")


def test_a_correction_found_harmful_keeps_its_mu_and_is_faded_out(tmp_path):
    """Bounds far above what is needed make energy; the harm check then ends the adaptation."""
    values = SETS["1000/1000/1000"]
    log = run(tmp_path, values, "mu = 4.0, mu_range = [2.0, 4.0], nu = 0.0")
    harmful = [event.t for event in log.events if event.cause == "correction_harmful"]
    assert harmful
    changes = [event.t for event in log.events if event.cause == "mu_adapted"]
    assert all(t <= harmful[0] for t in changes)
    assert (
        np.count_nonzero(np.diff(np.asarray(log["spring:mu"])[log.time("spring:mu") > harmful[0]]))
        == 0
    )


def test_its_changes_are_events_and_stay_within_the_bounds(tmp_path):
    log = run(tmp_path, SETS["m2=10"], "mu = 0.5, mu_range = [0.3, 0.6]")
    mu = np.asarray(log["spring:mu"])
    assert mu.min() == 0.3
    assert mu.max() <= 0.6
    told = [event for event in log.events if event.cause == "mu_adapted"]
    assert len(told) == np.count_nonzero(np.diff(mu))
    assert told[-1].text == f"mu is {mu[-1]:.3g} from now on"


def test_where_no_trial_can_be_made_mu_stays_and_that_is_said(tmp_path, caplog):
    log = run(tmp_path, SETS["m2=10"], ADAPTIVE, (OneWay, Mass2))
    assert set(log["spring:mu"]) == {0.5}
    assert "no trial shows how its effort responds, so mu is constant" in caplog.text


@pytest.mark.parametrize(
    ("correction", "said"),
    [
        ('method = "feedthrough", mu_range = [0.0, 1.0]', 'is for method = "energy"'),
        ('method = "energy", mu_range = [1.0, 0.0]', "the lower one first"),
        ('method = "energy", mu = 0.7, mu_range = [0.0, 0.5]', "with mu between them"),
    ],
)
def test_wrong_bounds_are_refused(tmp_path, correction, said):
    file = session(tmp_path, SETS["m2=10"], correction, (Mass1, Mass2))
    assert any(said in str(problem) for problem in check(load_session(file)))
