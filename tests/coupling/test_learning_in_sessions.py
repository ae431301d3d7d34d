"""Identification in a session: what it is given, and late samples predicted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from bench_configs.models.mass_chain import two_mass_chain
from hilrt.coupling.compensate import predict_late
from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.coupling.trust import Reason
from hilrt.exchange.jacobians import find_jacobians
from hilrt.models.linear import Linear
from hilrt.solver import Floats, InputPolynomial, Sample
from tests.coupling.corrections import identified_jacobian
from tests.stepping import MemoryLink, Stepping

H = 2e-4  # s
SIZE = np.array([0.5, 200.0])  # of mass 1's motion


def matrices(subsystem: LinearSubsystem) -> list[list[list[float]]]:
    return [m.tolist() for m in (subsystem.A, subsystem.B, subsystem.C, subsystem.D)]


class Sluggish(Linear):
    """A bench that reaches 0.8 of each demand by the end of the step, on a line, and says so."""

    made = None

    def advance(self, t, h, u):
        before, self.made = self.made, 0.8 * u(t + h)
        before = self.made if before is None else before
        line = InputPolynomial(t, np.stack((before, (self.made - before) / h)))
        sample = super().advance(t, h, line)
        return Sample(sample.y, t_valid=np.full(len(sample.y), t + h), realised=self.made)


class Learning(Stepping):
    """The oscillator of Haid et al. (2022), both sides identified; mass 2 may be late."""

    def __init__(
        self,
        policy: str = "predict",
        hold_back: Callable[[int], int] = lambda tick: 0,
        order: int = 1,
        bench: bool = False,
        stimuli: Sequence[dict[str, Any]] = (),
    ) -> None:
        first, second = two_mass_chain(2e5, 5e2)[0]
        names = {"inputs": ["force [N]"], "outputs": ["s [m]", "v [m/s]"], "x0": [1.0, 0.0]}
        more = {"inputs": names["outputs"], "outputs": ["force [N]"], "x0": [0.6, 0.0]}
        kind = Sluggish if bench else Linear
        links = {
            "one": MemoryLink("one", kind(*matrices(first), **names), physical=bench),
            "two": MemoryLink("two", Linear(*matrices(second), **more), hold_back=hold_back),
        }
        tables = {
            "master": {"step": H, "extrapolation": {"order": order}},
            "subsystems": {
                name: {
                    "jacobian": {"source": "identify", "dither": 0.0 if stimuli else 1e-3},
                    "late": {"policy": policy},
                }
                for name in links
            },
            "stimuli": list(stimuli),
            "connections": [
                {"from": "two.force", "to": "one.force"},
                {"from": "one.s", "to": "two.s"},
                {"from": "one.v", "to": "two.v"},
            ],
            "bonds": [
                {
                    "name": "b",
                    "effort": "two.force",
                    "flow": "one.v",
                    "correction": {"method": "model"},
                }
            ],
        }
        super().__init__(links, **tables)
        found = find_jacobians(self.network, self.tables, list(links.values()), self.u0)
        self.correct(jacobians=asyncio.run(found))
        self.learning = self.state.model.learning

    def jacobian(self, r: int) -> Floats:
        """Of a subsystem, as identified."""
        return identified_jacobian(self.plan.model.regressions[r], self.learning, r)

    def motion(self) -> np.ndarray:
        return np.concatenate([link.solver.x for link in self.links.values()])


CHAIN, _ = two_mass_chain(2e5, 5e2)
LATE_FROM = 250


def whole_step() -> np.ndarray:
    """One macro step of the oscillator in one piece, states s1, v1, s2, v2."""
    one, two = CHAIN
    A = np.block([[one.A + one.B @ two.D, one.B @ two.C], [two.B, two.A]])
    step: np.ndarray = expm(A * H)
    return step


def while_late(policy: str, ticks: int, order: int) -> tuple[float, float]:
    """Largest error of mass 2's force while it is late, and of mass 1's motion afterwards.

    Against the exact solution from the last state of which the master has a sample.
    """
    s = Learning(policy, lambda tick: ticks if tick == LATE_FROM else 0, order)
    seen = s.run((LATE_FROM + ticks + 3) * H, lambda s: (s.state.outputs["y"].copy(), s.motion()))
    # The sample that ends it is that of the tick it was late for: one more is without its own.
    assert s.exchange.channels["late"].tolist() == [0, ticks + 1]
    exact, errors = seen[LATE_FROM + 1][1], []
    for y, _ in seen[LATE_FROM + 1 : LATE_FROM + 1 + ticks]:
        errors.append(abs(y[2] - (CHAIN[1].C @ exact[2:] + CHAIN[1].D @ exact[:2])[0]))
        exact = whole_step() @ exact
    moved = seen[LATE_FROM + 1 + ticks][1]
    return max(errors), float(np.abs((moved - exact)[:2] / SIZE).max())


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_late_subsystem_is_predicted_better_than_extrapolated(order):
    force, motion = while_late("predict", 8, order)
    force_extrapolated, motion_extrapolated = while_late("extrapolate", 8, order)
    assert force < 0.5 * force_extrapolated
    assert motion < 0.7 * motion_extrapolated


def test_before_anything_is_learned_it_is_extrapolated():
    def early(policy):
        s = Learning(policy, lambda tick: 3 if tick == 30 else 0)
        return s.run(40 * H, lambda s: s.state.outputs["y"].copy())

    np.testing.assert_array_equal(early("predict"), early("extrapolate"))


@pytest.mark.parametrize("policy", ["predict", "extrapolate"])
def test_a_gap_does_not_spoil_what_was_learned(policy):
    s = Learning(policy, lambda tick: 3 if tick in (200, 240, 260) else 0)
    s.run(400 * H)
    exact = [subsystem.jacobian(H, 1) for subsystem in CHAIN]
    for r, gamma in enumerate(exact):
        np.testing.assert_allclose(s.jacobian(r), gamma, rtol=0.02)


def test_stimuli_excite_the_identification_instead_of_dither():
    noise = {"shape": "noise", "distribution": "uniform", "duration": 1.0}
    sizes = {"one.force": 100.0, "two.s": 1e-3, "two.v": 0.2}
    stimuli = [
        {"name": f"s{k}", "input": name, "segments": [{**noise, "amplitude": size, "seed": k}]}
        for k, (name, size) in enumerate(sizes.items())
    ]
    s = Learning(order=0, stimuli=stimuli)
    s.run(400 * H)
    for r, subsystem in enumerate(CHAIN):
        np.testing.assert_allclose(s.jacobian(r), subsystem.jacobian(H, 0), rtol=0.02)
    assert s.state.outputs["reason"].tolist() == [Reason.USED] * 3


def test_steps_of_another_length_are_no_past_to_predict_from():
    s = Learning()
    s.run(200 * H)
    memory = s.learning.regressions
    assert memory["unbroken"].tolist() == [200, 200]
    s.go()
    s.t_ns += round(H * 1e9)  # a skipped tick
    s.elapsed_ns += round(H * 1e9)
    s.look()
    assert memory["unbroken"].tolist() == memory["known"].tolist() == [0, 0]
    s.state.outputs["y"] = 3.0
    s.given.session["elapsed"], s.given.subsystems["late"] = H, 1
    predict_late(s.plan, s.state, s.given)
    assert np.isnan(s.learning.outputs["predicted"]).all()
    assert (s.state.outputs["y"] == 3.0).all()


def test_steps_without_time_to_learn_are_no_gap_and_take_no_turn():
    s = Learning()
    session, slack, turns = s.state.model.session, s.numerics.slack, []
    for tick in range(400):
        slack["learns"] = tick % 4 == 1  # always at odd ticks: both have their turn
        before, turn = s.learning.parameters.copy(), session["turn"][0]
        s.look()
        moved = [bool((a != b).any()) for a, b in zip(s.learning.parameters, before, strict=True)]
        if tick % 4 == 1:
            turns.append(turn)
            assert not moved[1 - turn]
        else:
            assert moved == [False, False]
            assert session["turn"] == turn
        s.go()
    assert turns == [0, 1] * 50
    # the first point has no step behind it
    assert s.learning.regressions["unbroken"].tolist() == [399, 399]
    exact = [subsystem.jacobian(H, 1) for subsystem in CHAIN]
    for r, gamma in enumerate(exact):
        np.testing.assert_allclose(s.jacobian(r), gamma, rtol=0.05)


def test_a_bench_is_identified_by_what_it_made_of_its_inputs():
    s = Learning(order=0, bench=True)
    s.run(300 * H)
    found = s.jacobian(0)  # of the velocity: the mean force counts
    np.testing.assert_allclose(found[:, 1], CHAIN[0].jacobian(H, 0)[:, 1], rtol=0.01)


def test_an_input_without_jumps_tells_only_what_its_slope_does():
    # where each step begins follows from the one before: Γ_0 is not to be had, and not used
    s = Learning(order=1, bench=True)
    s.run(300 * H)
    found = s.jacobian(0)
    np.testing.assert_allclose(found[1], CHAIN[0].jacobian(H, 1)[1], rtol=0.01)
    assert s.state.outputs["reason"][:2].tolist() == [Reason.UNEXCITED] * 2
    assert not s.state.model.gamma[:, :2].any()


def test_after_a_gap_offsets_rest_on_corrected_outputs():
    """The Jacobians have changed since the start; the past that corrects begins anew."""
    s = Learning("extrapolate", lambda tick: 1 if tick == 300 else 0)
    s.run(298 * H)
    for _ in range(6):
        s.go()
        s.look()
        sent = np.abs(s.state.inputs["polynomial"][:, 0])
        assert (np.abs(s.state.model.inputs["offset"]) < 0.2 * sent).all()
