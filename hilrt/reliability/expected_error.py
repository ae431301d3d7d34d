"""Errors to expect with another step or order, from those of a finished run.

The error of a signal is proportional to the disturbances of the inputs, and these are proportional
to the step to the power p + 1 for extrapolation of order p. If the session was repeated at shorter
steps and showed a lower order, that order is used; an observed order above the formal one is a
coincidence (W. L. Oberkampf and C. J. Roy 2010, "Verification and Validation in Scientific
Computing", chapter 8). At order 0 the disturbance is that of a value held for a step, ``Δu = H
u'/2``, from which the speed of the input follows; at order 1 it is ``(5/12) H² u''``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from hilrt.reliability.choose_settings import (
    ORDER,
    STEP,
    Bound,
    Candidate,
    Choice,
    Prediction,
    Tested,
    choose,
    grows,
    percent,
)
from hilrt.reliability.estimates import Estimate, disturbed_shares
from hilrt.tables.plan import Plan
from hilrt.tables.state import State
from hilrt.wording import number

#: A change is suggested only if it reduces the error to at most this share.
WORTHWHILE: Final = 0.7
#: Order 1 must be stable at a step that is longer by this factor, too.
LONGER: Final = 1.25
#: Above this share at order 0 an input moves too fast for the expectation to hold.
SLOW: Final = 0.2


class AdviceBasis(NamedTuple):
    """Facts about a session's run besides its state.

    Attributes
    ----------
    time_s : float
        Duration, s.
    steps : int
        Number of macro steps; 0 if unknown.
    growth : function, optional
        From a macro step [s] and an order to the rate by which the exchange makes errors grow, 1/s,
        with the stiffest responses that trials have shown (`hilrt.coupling.open_loop`).
    bounds : sequence of Bound
        Shortest steps by the times measured in real time.
    """

    time_s: float
    steps: int = 0
    growth: Callable[[float, int], float] | None = None
    bounds: Sequence[Bound] = ()


class Improvement(NamedTuple):
    """A change and its expected effect.

    Attributes
    ----------
    text : str
    settings : dict
        The same as keys of the session file, if it is a setting: ``table.key`` to a value.
    expected : float
        Error of the worst signal after the change, relative to its variation; NaN if unknown.
    """

    text: str
    settings: dict[str, Any]
    expected: float = math.nan

    def as_json(self) -> dict[str, Any]:
        """Entry of the summary."""
        expected = self.expected if math.isfinite(self.expected) else None
        return {"text": str(self), "settings": self.settings, "expected": expected}

    def __str__(self) -> str:
        if not math.isfinite(self.expected):
            return self.text
        return (
            f"{self.text}: expected error {percent(self.expected)} of the worst signal's variation"
        )


class ExpectedError:
    """Error of the worst signal with another step or order, expected from that of the run.

    Parameters
    ----------
    plan, state
        At the end of the session.
    name : str
        The worst signal.
    worst : Estimate
        Its error.
    run : AdviceBasis
    """

    def __init__(
        self, plan: Plan, state: State, name: str, worst: Estimate, run: AdviceBasis
    ) -> None:
        self._plan, self._name, self._run = plan, name, run
        self._step = float(plan.session["step"][0])
        self._share = worst.value / worst.spread
        power = float(plan.connections["order"].min(initial=5)) + 1.0
        power = power if math.isnan(worst.order) else min(worst.order, power)
        self._is_own, self._own = worst.is_own, worst.own / worst.spread
        self._power = min(power, 1.0) if worst.is_own else power  # that of explicit Euler
        self._order = int(plan.connections["order"].max(initial=0))
        connected = np.flatnonzero(plan.inputs["connected"])
        self._moves = float(disturbed_shares(state.inputs[connected]).max(initial=0.0))

    def choose(self, shorter: Sequence[float], small: float) -> Choice:
        """Choose the order and the longest step at which the error is `small`."""
        own = Candidate(f"order {self._order}", {ORDER: self._order})
        others = {order: self._unexpected(order) for order in range(3) if order != self._order}
        present = (self._step,)  # one setting at a time
        candidates = [
            Candidate(f"order {o}", {ORDER: o}, present) for o, why in others.items() if not why
        ]

        def predict(candidate: Candidate, step: float) -> Prediction:
            error = self.of(candidate.settings[ORDER], step)
            unstable = self._grows(candidate.settings[ORDER], step)
            return Prediction(error / small, error, self._name, unstable=unstable)

        found = choose([own, *candidates], [*shorter, self._step], predict)
        rejected = [f"order {order}: {why}" for order, why in others.items() if why]
        return Choice(found.best, found.tested, [*found.rejected, *rejected])

    def of(self, order: int, step: float) -> float:
        """Expected error, relative to the variation of the signal."""
        if order == self._order:
            return float(self._share * (step / self._step) ** self._power)
        turned = 2.0 * self._moves  # phase angle of an oscillation per step
        change = (5.0 / 12.0) * turned * turned / self._moves
        own = self._own * step / self._step  # explicit Euler; the order does not change it
        return self._share * change * (step / self._step) ** 2 + own

    def improvements(self, choice: Choice) -> list[Improvement]:
        """Changes that are worthwhile: the chosen one first, then by their expected errors."""
        tested = sorted(choice.tested, key=lambda one: (one != choice.best, one.predicted.error))
        changes = [self._change(one) for one in tested if not one.predicted.unstable]
        return [c for c in changes if c.settings and c.expected < WORTHWHILE * self._share]

    def _change(self, tested: Tested) -> Improvement:
        order = int(tested.candidate.settings[ORDER])
        if order != self._order:
            text = f"extrapolation of order {order}"
            return Improvement(text, {ORDER: order}, tested.predicted.error)
        if tested.step_s == self._step:
            return Improvement("", {})
        text = f"a step of {number(1e3 * tested.step_s, 3)} ms instead of"
        text = f"{text} {number(1e3 * self._step, 3)}"
        return Improvement(text, {STEP: tested.step_s}, tested.predicted.error)

    def _unexpected(self, order: int) -> str:
        """Reason why the error of another order cannot be expected; empty if it can.

        It is known for order 1 after a run at order 0, if no bench's noise would be extrapolated.
        """
        plan = self._plan
        if plan.session["controls_order"][0]:
            return "the session controls the order"
        if self._is_own:
            return "most of the error is that of the models' own integration"
        if order != 1 or self._order != 0:
            return "this run does not show its error; `hilrt advise` measures it"
        sources = plan.outputs["subsystem"][plan.connections["source"]]
        if plan.subsystems["physical"][sources].any():
            return "would extrapolate the noise of a bench"
        if not 0.0 < self._moves < SLOW:
            return "the inputs move too far in a step for a prediction; `hilrt advise` measures it"
        return ""

    def _grows(self, order: int, step: float) -> bool:
        """Whether another order makes errors grow e-fold within the session, and faster.

        At a step that is a little longer, too: responses between two trials may be stiffer.
        """
        if self._run.growth is None or order == self._order:
            return False
        longer = LONGER * step
        own, other = (self._run.growth(longer, each) for each in (self._order, order))
        return grows(other, max(self._run.time_s, longer), own)
