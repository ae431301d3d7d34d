"""Trials in the time between two steps: what they find, how long they take, and what they leave."""

import numpy as np
import pytest

from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import renew_linear_model
from hilrt.hosting.slack_trial import SlackTrial
from hilrt.solver import InputPolynomial, Sample
from tests.reliability.changing_systems import Prey

H, STEP_NS, TICK_NS = 0.005, 100_000, 5_000_000
Y = np.array([7.0])


class Timed(Prey):
    """Prey whose steps take 0.1 ms, or `slow` times as long, on a clock of its own."""

    def __init__(self, slow: int = 1) -> None:
        super().__init__()
        self.now_ns, self.steps, self.slow = 0, 0, slow

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.now_ns += self.slow * STEP_NS
        self.steps += 1
        return super().advance(t, h, u)


class Noisy(Timed):
    """The same, counted with noise from a generator that is not saved."""

    random = np.random.default_rng(1)

    def sample(self) -> Sample:
        return Sample(np.array(self.state) * (1.0 + 1e-6 * self.random.standard_normal(1)))


class Unsaved(Timed):
    """The same, where the state cannot be saved."""

    def save_state(self) -> tuple[float, ...]:
        raise ValueError("not now")


class Driven:
    """A solver that makes a step every 5 ms, and the trial that it has between them."""

    def __init__(self, solver: Timed) -> None:
        self.solver, self.hosted = solver, HostedSolver(solver)
        self.trial = SlackTrial(self.hosted, lambda: solver.now_ns)
        self.hosted.initialize(0.0, Y)
        self.ticks, self.took_ns, self.states = 0, list[int](), list[tuple[float, ...]]()

    def tick(self) -> bool:
        """One step; whether a trial ended after it."""
        self.solver.now_ns = self.ticks * TICK_NS
        self.trial.step_begins()
        self.hosted.advance(self.ticks * H, H, Y[None])
        answered_ns = self.solver.now_ns
        self.ticks += 1
        self.trial.step_ended(self.ticks * H)
        self.states.append(self.solver.state)
        ended = self.trial.work()
        assert self.solver.state == self.states[-1]
        self.took_ns.append(self.solver.now_ns - answered_ns)
        return ended


def test_a_trial_of_several_parts_finds_what_one_at_once_does_and_leaves_the_session_as_it_is():
    driven = Driven(Timed(slow=5))  # 0.5 ms a step: half of the 4.5 ms between are four steps
    for _ in range(5):
        assert not driven.tick()
    driven.trial.begin(Y, H)
    ticks = next(k for k in range(1, 50) if driven.tick())
    assert ticks > 3  # 16 steps: 2 (nx + nu) + 11, and one to find the numbers
    assert max(driven.took_ns) <= (TICK_NS - 5 * STEP_NS) // 2
    begun = next(k for k in range(5, 50) if driven.took_ns[k])
    found, model = driven.trial.found, Prey()
    model.restore_state(driven.states[begun])
    at_once = renew_linear_model(HostedSolver(model), (begun + 1) * H, Y, H)
    for part, expected in zip(found[:5], at_once[:5], strict=True):
        np.testing.assert_array_equal(part, expected)
    x = driven.states[begun][0]
    np.testing.assert_allclose([found.A[0, 0], found.B[0, 0]], [0.3, -0.1 * x], rtol=1e-4)
    alone = Prey()
    for k, state in enumerate(driven.states):
        alone.advance(k * H, H, InputPolynomial(k * H, Y[None]))
        assert alone.state == state


def test_what_leaves_no_time_is_given_up_and_never_begun():
    driven = Driven(Timed(slow=40))  # 4 ms of 5
    driven.trial.begin(Y, H)
    ticks = next(k for k in range(1, 500) if driven.tick())
    assert driven.solver.steps == ticks
    assert driven.trial.found is None
    assert SlackTrial.PATIENCE <= ticks <= 2 * SlackTrial.PATIENCE
    assert not driven.tick()


def test_a_parameter_that_changes_begins_it_again():
    driven = Driven(Timed(slow=5))
    for _ in range(5):
        driven.tick()
    driven.trial.begin(Y, H)
    driven.tick()
    begun = driven.solver.state
    driven.trial.restart()
    while not driven.tick():
        assert driven.ticks < 50
    assert driven.trial.found.B[0, 0] != pytest.approx(-0.1 * begun[0], rel=1e-4)


@pytest.mark.parametrize("solver", [Noisy, Unsaved])
def test_what_cannot_be_tried_is_no_evidence_and_goes_on(solver: type[Timed]):
    """Noise is from a generator that is not saved."""
    driven = Driven(solver())
    driven.trial.begin(Y, H)
    while not driven.tick():
        assert driven.ticks < 50
    assert driven.trial.found is None
