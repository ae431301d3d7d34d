"""Identified Jacobians in the loop: the linear two-mass oscillator of Haid et al. (2022), 4.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from hilrt.analyze.stability import reference_matrix
from hilrt.coupling import correct_model, identify
from hilrt.coupling.correct_model import build_plan, correct, input_errors
from hilrt.coupling.jacobian import block_diagonal, discretize
from hilrt.coupling.regression import Settings
from hilrt.coupling.true_inputs import couple, lagrange_basis
from hilrt.coupling.trust import Limits, Reason
from hilrt.models.two_mass_chain import two_mass_chain
from hilrt.solver import Floats

H, SYNC, STEPS = 2e-4, 250, 500  # s; 0.05 s
SUBSTEPS = 10  # of the random force: it is not constant over a macro step
SCALE = np.array([0.5, 200.0, 1e5])  # of displacement, velocity, force
FEEDTHROUGH = np.array([[False] * 3, [False] * 3, [False, True, True]])


@dataclass
class Errors:
    local: Floats  #: (steps,): RMS over the outputs, from the step's own start
    globally: float  #: RMS after 0.05 s against the exact solution from there
    used: Any  #: (steps, ny) bool
    gamma: Floats


class Loop:
    """Two exact subsystems coupled by extrapolation and the corrector with some Γ."""

    def __init__(
        self,
        jacobians: str,
        *,
        order: int = 0,
        force: float = 0.0,
        noise: float = 0.0,
        dither: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.jacobians, self.order = jacobians, order
        self.force, self.noise, self.amplitude = force, noise, dither
        self.rng = np.random.default_rng(seed)
        self.x = np.array([1.0, 0.0, 0.6, 0.0])
        self.change(2e5, 5e2)
        self.coupling = couple(self.L, order, feedthrough=FEEDTHROUGH)
        settings = Settings(order=order)
        parts = [
            identify.Part(slice(0, 2), slice(0, 1), settings),
            identify.Part(slice(2, 3), slice(1, 3), settings),
        ]
        self.id_plan = identify.prepare(parts, self.L)
        self.found = identify.start(self.id_plan, np.zeros_like(self.exact))
        self.plan = build_plan(self.coupling, self.found.gamma)
        if jacobians == "exact":
            self.plan = build_plan(self.coupling, self.exact)
        self.past = [self.C @ self.x]
        self.du = np.zeros(3)
        self.state = correct_model.start(self.plan, self.past[0])
        self.tick = 0

    def change(self, ck: float, dk: float) -> None:
        chain, self.L = two_mass_chain(ck, dk)
        self.system = block_diagonal(chain)
        self.A_d, self.B_s = self.system.discretize(H, self.order)
        self.exact = self.system.C @ self.B_s + self.system.D
        self.whole, self.C = reference_matrix(chain, self.L, H)
        push = np.array([[0.0], [0.1], [0.0], [0.0]])
        closed = self.system.A + self.system.B @ self.L @ self.C
        self.pushed = [
            np.hstack([np.linalg.matrix_power(a, SUBSTEPS - 1 - i) @ b[0] for i in range(SUBSTEPS)])
            for a, b in (discretize(A, push, H / SUBSTEPS, 0) for A in (self.system.A, closed))
        ]

    def step(self) -> tuple[Floats, Floats, Floats]:
        degree = min(self.order, len(self.past) - 1)
        basis = lagrange_basis(-np.arange(degree + 1.0))
        sent = identify.dither(self.tick, self.amplitude * (self.L @ SCALE), self.order)
        sent[: degree + 1] += np.einsum("jm,ju->mu", basis, self.past[: degree + 1] @ self.L.T)
        sent[0] += self.du
        force = self.force * self.rng.normal(size=SUBSTEPS)
        truth = self.C @ (self.whole @ self.x + self.pushed[1] @ force)
        self.x = self.A_d @ self.x + np.einsum("mxu,mu->x", self.B_s, sent) + self.pushed[0] @ force
        y = self.system.C @ self.x + self.system.D @ sent.sum(axis=0)
        y += self.noise * SCALE * self.rng.normal(size=3)
        corrected, self.du = correct(self.state, self.plan, y, sent)
        self.past = [corrected, *self.past[: self.order + 1]]
        if self.jacobians == "identified":
            errors = input_errors(self.state, self.plan, sent)
            if identify.identify(self.found, self.id_plan, y, sent, errors):
                self.plan = build_plan(self.coupling, self.found.gamma, start_up=False)
        self.tick += 1
        return corrected, truth, force

    def run(self, steps: int = STEPS, change: Any = None) -> Errors:
        local, globally, used = [], [], []
        exact = self.x
        for n in range(steps):
            if change is not None:
                change(n, self)
            if n == SYNC:
                exact = self.x
            corrected, truth, force = self.step()
            exact = self.whole @ exact + self.pushed[1] @ force
            local.append(np.sqrt((((corrected - truth) / SCALE) ** 2).mean()))
            globally.append((((corrected - self.C @ exact) / SCALE) ** 2).mean())
            used.append(self.found.gamma.any(axis=(0, 2)))
        rms = float(np.sqrt(np.mean(globally[SYNC:])))
        return Errors(np.array(local), rms, np.array(used), self.found.gamma)


def rms(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_with_dither_it_is_as_good_as_the_exact_jacobians(order: int) -> None:
    exact = Loop("exact", order=order, dither=1e-3).run()
    loop = Loop("identified", order=order, dither=1e-3)
    found = loop.run()
    assert found.used[SYNC:].all()
    assert rms(found.local[SYNC:]) <= 1.1 * rms(exact.local[SYNC:])
    assert found.globally <= 1.1 * exact.globally
    np.testing.assert_allclose(found.gamma, loop.exact, rtol=1e-2)


def test_with_an_unknown_random_force() -> None:
    kind = {"force": 1e4, "seed": 1}
    plain, exact = Loop("none", **kind).run(), Loop("exact", **kind).run()
    found = Loop("identified", **kind).run()
    assert found.used[SYNC:, 2].mean() > 0.7
    assert rms(found.local[SYNC:]) <= 2.0 * rms(exact.local[SYNC:])
    assert found.globally <= 2.0 * exact.globally
    assert found.globally <= 0.1 * plain.globally


def test_signs_are_right_whenever_it_is_used() -> None:
    for kind in ({"force": 1e4, "seed": 2}, {"dither": 1e-3, "noise": 1e-4}):
        loop = Loop("identified", **kind)
        steps_used = 0
        for _ in range(300):
            loop.step()
            in_use = loop.found.gamma != 0.0
            steps_used += in_use.any()
            assert (np.sign(loop.found.gamma) == np.sign(loop.exact))[in_use].all()
        assert steps_used > 100


@pytest.mark.parametrize(
    ("order", "noise"),
    [(0, 0.0), (1, 0.0), (2, 0.0), (0, 1e-3), (1, 1e-3), (0, 1e-2), (1, 1e-2), (2, 1e-2)],
)
def test_without_excitation_it_does_no_harm(order: int, noise: float) -> None:
    plain = Loop("none", order=order, noise=noise).run()
    found = Loop("identified", order=order, noise=noise).run()
    assert rms(found.local[SYNC:]) <= 1.05 * rms(plain.local[SYNC:])
    assert found.globally <= 1.05 * plain.globally
    if noise == 0.0:
        assert not found.used.any()  # a loop by itself tells nothing about Γ


def test_a_noisy_loop_is_helped_where_the_correction_outweighs_the_noise() -> None:
    plain = Loop("none", noise=1e-4, dither=1e-3).run()
    found = Loop("identified", noise=1e-4, dither=1e-3).run()
    assert found.used[:, 2].any()
    assert found.globally < 0.2 * plain.globally


@pytest.mark.parametrize(("order", "ck", "dk"), [(0, 4e5, 8e2), (0, 5e4, 2e2), (1, 4e5, 8e2)])
def test_recovers_from_a_jump(order: int, ck: float, dk: float) -> None:
    at = 260

    def jump(n: int, loop: Loop) -> None:
        if n == at:
            loop.change(ck, dk)
            if loop.jacobians == "exact":
                loop.plan = build_plan(loop.coupling, loop.exact)

    plain, exact, found = (
        Loop(kind, order=order, dither=1e-3).run(at + 240, change=jump)
        for kind in ("none", "exact", "identified")
    )
    assert found.used[at - 1].all()
    after = slice(at + 200, None)
    assert rms(found.local[after]) <= 2.0 * rms(exact.local[after])
    # a few steps with the old Γ in the history cannot be avoided; then it is plain extrapolation
    assert found.local[at : at + 4].max() <= 10.0 * plain.local[at:].max()
    assert found.local[at + 4 :].max() <= 1.1 * plain.local[at + 4 :].max()


def test_survives_a_drift() -> None:
    def drift(n: int, loop: Loop) -> None:
        if 300 <= n < 400 and n % 10 == 0:
            factor = 1.0 + (n - 290) / 400
            loop.change(2e5 * factor, 5e2 * factor)
            if loop.jacobians == "exact":
                loop.plan = build_plan(loop.coupling, loop.exact)

    plain, exact, found = (
        Loop(kind, dither=1e-3).run(700, change=drift) for kind in ("none", "exact", "identified")
    )
    assert found.local[300:].max() <= 1.05 * plain.local[300:].max()
    assert rms(found.local[590:]) <= 2.0 * rms(exact.local[590:])


def test_given_jacobians_act_from_the_start_and_are_dropped_when_wrong() -> None:
    loop = Loop("identified", force=1e4)
    parts = [
        identify.Part(p.outputs, p.inputs, p.settings, loop.exact[:, p.outputs, p.inputs])
        for p in loop.id_plan.parts
    ]
    loop.id_plan = identify.prepare(parts, loop.L)
    loop.found = identify.start(loop.id_plan, np.zeros_like(loop.exact))
    loop.plan = build_plan(loop.coupling, loop.found.gamma)
    np.testing.assert_array_equal(loop.found.gamma[0], loop.exact[0])
    right = loop.run(400)
    assert right.used[:, 2].all()
    exact = Loop("exact", force=1e4).run(400)
    assert rms(right.local[20:]) <= 2.0 * rms(exact.local[20:])

    loop = Loop("identified", dither=1e-3)
    wrong = [
        identify.Part(p.outputs, p.inputs, p.settings, -loop.exact[:, p.outputs, p.inputs])
        for p in loop.id_plan.parts
    ]
    loop.id_plan = identify.prepare(wrong, loop.L)
    loop.found = identify.start(loop.id_plan, np.zeros_like(loop.exact))
    loop.run(300)
    in_use = loop.found.gamma != 0.0
    assert (np.sign(loop.found.gamma) == np.sign(loop.exact))[in_use].all()


def test_subsystems_may_learn_in_turn() -> None:
    loop = Loop("identified", dither=1e-3)
    for n in range(300):
        loop.jacobians = "none"  # the stage is called here
        before = [m.theta.copy() for m in loop.found.models]
        corrected, _, _ = loop.step()
        assert np.isfinite(corrected).all()
        sent = loop.state.stack[-3:].reshape(1, 3)
        y = loop.system.C @ loop.x + loop.system.D @ sent.sum(axis=0)
        errors = input_errors(loop.state, loop.plan, sent)
        if identify.identify(loop.found, loop.id_plan, y, sent, errors, learn=[n % 2]):
            loop.plan = build_plan(loop.coupling, loop.found.gamma, start_up=False)
        resting = loop.found.models[1 - n % 2]
        np.testing.assert_array_equal(resting.theta, before[1 - n % 2] if n > 25 else resting.theta)
    np.testing.assert_allclose(loop.found.gamma, loop.exact, rtol=0.02)


def test_reasons_are_named_per_output() -> None:
    loop = Loop("identified")
    assert set(loop.found.reason) == {Reason.LEARNING}
    loop.run(300)
    texts = identify.texts(loop.found, ["s", "v", "F"])
    assert set(texts) == {"s", "v", "F"}
    assert "too little" in texts["F"]
    assert (
        identify.texts(identify.start(identify.prepare([], np.eye(1)), np.zeros((1, 1, 1))), ["y"])
        == {}
    )


def test_outputs_that_no_part_identifies_keep_their_jacobian() -> None:
    gamma = np.ones((1, 3, 3))
    part = identify.Part(slice(0, 2), slice(0, 1), Settings())
    plan = identify.prepare([part], np.eye(3), Limits())
    state = identify.start(plan, gamma)
    for n in range(100):
        identify.identify(state, plan, np.full(3, np.sin(n)), np.ones((1, 3)), np.zeros((1, 3)))
    np.testing.assert_array_equal(state.gamma[:, 2], 1.0)
    assert state.reason[2] == Reason.USED


def test_missing_samples_are_bridged() -> None:
    loop = Loop("identified", dither=1e-3)
    loop.run(300)
    y, sent, errors = loop.past[0], np.zeros((1, 3)), np.zeros((1, 3))
    thetas = [m.theta.copy() for m in loop.found.models]
    identify.identify(loop.found, loop.id_plan, y, sent, errors, measured=[False, False])
    for model, theta in zip(loop.found.models, thetas, strict=True):
        np.testing.assert_array_equal(model.theta, theta)


def test_a_snapshot_continues_bit_for_bit() -> None:
    loop = Loop("identified", dither=1e-3)
    loop.run(300)
    snapshot = loop.found.copy()
    y, sent, errors = loop.past[0], np.zeros((1, 3)), np.ones((1, 3))
    identify.identify(loop.found, loop.id_plan, y, sent, errors)
    identify.identify(snapshot, loop.id_plan, y, sent, errors)
    for a, b in zip(loop.found.models, snapshot.models, strict=True):
        np.testing.assert_array_equal(a.S, b.S)
    np.testing.assert_array_equal(loop.found.gamma, snapshot.gamma)


def test_dither_is_bounded_white_and_repeatable() -> None:
    amplitude = np.array([1.0, 0.0, 5.0])
    signal = np.array([identify.dither(n, amplitude, 1) for n in range(4000)])
    np.testing.assert_array_equal(signal[7], identify.dither(7, amplitude, 1))
    s = np.linspace(0.0, 1.0, 5)
    values = signal[:, 0, None, :] + s[:, None] * signal[:, 1, None, :]
    assert (np.abs(values) <= amplitude + 1e-12).all()
    assert not signal[:, :, 1].any()
    flat = signal[:, :, [0, 2]].reshape(4000, 4) / (amplitude[[0, 2, 0, 2]] / 2)
    for lag in (0, 1, 2, 5):
        correlation = flat[: 4000 - lag].T @ flat[lag:] / (4000 - lag)
        np.testing.assert_allclose(correlation, np.eye(4) * (lag == 0), atol=0.07)
