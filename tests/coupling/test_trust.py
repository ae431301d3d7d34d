from __future__ import annotations

import numpy as np
import pytest

from hilrt.coupling.regression import forget
from hilrt.coupling.trust import Limits, Reason, judge
from tests.coupling.corrections import Learner

LIMITS = Limits(window=20, hold=5)


class Bench:
    """``y ← 0.9 y + 3 u`` under white inputs, judged with the input errors it is given."""

    def __init__(self, *, noise: float = 0.0, given: float | None = None) -> None:
        prior = None if given is None else np.array([[[given]]])
        self.model = Learner(1, 1, limits=LIMITS, given=prior)
        self.rng, self.y, self.gain, self.noise = np.random.default_rng(0), 0.0, 3.0, noise
        self.jumps = 0

    def run(self, n: int, *, error: float = 0.1, noise: float = 0.0, quiet: bool = False) -> Reason:
        model, learning = self.model, self.model.learning
        for i in range(n):
            u = np.cos(0.1 * i) if quiet else self.rng.normal()
            self.y = np.sin(0.1 * i + 0.1) if quiet else 0.9 * self.y + self.gain * u
            seen = self.y + self.noise * self.rng.normal()
            if not model.observe(np.array([seen]), np.array([[u]])):
                continue
            learning.inputs["error"][0, 0] = error * self.rng.choice([-1.0, 1.0])
            learning.inputs["noise"] = noise
            if judge(model.settings, model.at, learning, model.work, 0):
                forget(model.at, learning, model.work, 0, model.weight[0])
                self.jumps += 1
        return Reason(int(learning.outputs["reason"][0]))


def test_nothing_is_trusted_before_a_window_has_passed() -> None:
    bench = Bench()
    assert bench.run(19 + LIMITS.window) == Reason.LEARNING
    assert bench.run(60) == Reason.USED


def test_a_loop_that_follows_itself_is_not_excited() -> None:
    assert Bench().run(400, quiet=True) == Reason.UNEXCITED


def test_excitation_that_ends_ends_the_trust() -> None:
    bench = Bench()
    assert bench.run(200) == Reason.USED
    assert bench.run(800, quiet=True) != Reason.USED


def test_noise_of_the_measurement_makes_it_unsure_or_unproven() -> None:
    assert Bench(noise=30.0).run(400) in (Reason.UNSURE, Reason.UNPROVEN)


def test_noise_of_the_sources_outweighs_small_corrections() -> None:
    bench = Bench()
    assert bench.run(200, error=0.1, noise=0.01) == Reason.USED
    assert bench.run(50, error=0.1, noise=0.5) == Reason.NOISY


def test_a_limit_is_loosened_for_what_is_in_use() -> None:
    edge = 0.1 * (1.5 * LIMITS.noise_limit) ** 0.5  # between the limit and `loosened` times it
    bench, other = Bench(), Bench()
    assert bench.run(200, noise=0.0) == Reason.USED
    assert bench.run(12, noise=edge) == Reason.USED
    assert other.run(200, noise=edge) != Reason.USED


def test_a_jump_is_seen_at_once_and_learned_anew() -> None:
    bench = Bench()
    bench.run(200)
    assert bench.jumps == 0
    bench.gain = -2.0
    assert bench.run(3) == Reason.LEARNING
    assert bench.jumps == 1
    assert bench.run(120) == Reason.USED
    np.testing.assert_allclose(bench.model.jacobian(), [[[-2.0]]], rtol=1e-3)


@pytest.mark.parametrize("given", [3.0, 3.3])
def test_a_given_jacobian_is_used_from_the_start(given: float) -> None:
    bench = Bench(given=given)
    for _ in range(60):
        assert bench.run(5) == Reason.USED


def test_a_given_jacobian_stays_in_use_when_it_is_quiet() -> None:
    bench = Bench(given=3.0)
    assert bench.run(400, quiet=True) in (Reason.USED, Reason.UNSURE)


def test_every_reason_has_a_text() -> None:
    assert len({reason.text for reason in Reason}) == len(Reason)


def test_a_copy_is_independent() -> None:
    bench = Bench()
    bench.run(100)
    snapshot = bench.model.copy().learning
    bench.run(30)
    assert snapshot.regressions["judged"] < bench.model.memory.judged
    assert (snapshot.errors != bench.model.learning.errors).any()
