"""What would make a verdict better: the changes with the greatest expected effect on the error.

The error of a signal is proportional to the disturbances of the inputs, and these to the step to
the power p + 1 for extrapolation of order p. At order 0 a disturbance is that of a value held for a
step, ``Δu = H u'/2``, which tells how fast the input moves; along a line it would be
``(5/12) H² u''``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from hilrt.config.structs import Bond
from hilrt.reliability.calibrated import GOOD
from hilrt.reliability.estimates import Estimate, disturbed_shares
from hilrt.reliability.flags import FlagTotal
from hilrt.tables.network import Network
from hilrt.tables.plan import WRONG, Plan
from hilrt.tables.state import State
from hilrt.wording import number

#: Changes that are named, at most.
MOST: Final = 2
#: By what a step is shortened, the least that suffices.
SHORTER: Final = (2, 4, 10)
#: An error that falls by less is not worth a change.
WORTHWHILE: Final = 0.7
#: Beyond this share at order 0 an input moves too fast for the expectation to hold.
SLOW: Final = 0.2
#: Late samples and missed ticks in this share of the session are named before its settings.
OFTEN: Final = 0.05


class Improvement(NamedTuple):
    """A change and what it would do.

    Attributes
    ----------
    text : str
    settings : dict
        The same as keys of the session file, where it is one: ``table.key`` to a value.
    expected : float
        Error of the worst signal after it, relative to what that varies by; NaN where unknown.
    """

    text: str
    settings: dict[str, Any]
    expected: float = math.nan

    def as_json(self) -> dict[str, Any]:
        """For the summary."""
        expected = self.expected if math.isfinite(self.expected) else None
        return {"text": str(self), "settings": self.settings, "expected": expected}

    def __str__(self) -> str:
        if not math.isfinite(self.expected):
            return self.text
        share = f"{number(100.0 * self.expected, 2)} %"
        return f"{self.text}: expected error {share} of what the worst signal varies by"


def advice(
    network: Network,
    plan: Plan,
    state: State,
    errors: Mapping[str, Estimate],
    totals: Mapping[str, FlagTotal],
    time_s: float,
) -> list[Improvement]:
    """Changes for a session whose verdict is not `good`, the most effective one first.

    Parameters
    ----------
    network, plan, state
        At its end.
    errors : mapping of str to Estimate
    totals : mapping of str to FlagTotal
        Of the causes.
    time_s : float
        How long it was, s.
    """
    found = _corrections(network.bonds.tables, plan, state)
    known = [error for error in errors.values() if error.value >= 0.0 and error.spread > 0.0]
    worst = max(known, key=lambda error: error.value / error.spread, default=None)
    if worst is None or worst.is_small:
        return found[:MOST]
    late = max(totals[name].affected_s for name in ("sample_late", "deadline_missed"))
    if late > OFTEN * time_s:
        slow = "processors of their own or a higher priority for master and solvers"
        found.append(Improvement(f"{slow}: samples were late or ticks missed", {}))
    share = worst.value / worst.spread
    settings = []
    if not (late > OFTEN * time_s or plan.session["variable_step"][0]):  # it would be later still
        settings.append(_shorter(plan, share, GOOD[worst.how]))
    if (higher := _higher_order(plan, state, share)) is not None:
        settings.append(higher)
    settings.sort(key=lambda change: change.expected)
    found += [change for change in settings if change.expected < WORTHWHILE * share]
    return found[:MOST]


def _corrections(bonds: list[Bond], plan: Plan, state: State) -> list[Improvement]:
    """Corrections that are wrong or do harm are the first to go."""
    return [
        Improvement(
            f"bond {bond.name}: correct what its correction rests on, or switch it off",
            {f"bonds.{bond.name}.correction.method": "none"},
        )
        for b, bond in enumerate(bonds)
        if plan.bonds[b].verification == WRONG or state.bonds[b].harmful
    ]


def _shorter(plan: Plan, share: float, small: float) -> Improvement:
    """The longest of a few shorter steps with which the error is small."""
    order = int(plan.connections["order"].min(initial=5))
    step = float(plan.session["step"][0])
    for factor in SHORTER:
        expected = share / float(factor) ** (order + 1)
        if expected <= small:
            break
    shorter = float(f"{step / factor:.3g}")
    text = f"a step of {number(1e3 * shorter, 3)} ms instead of {number(1e3 * step, 3)}"
    return Improvement(text, {"master.step": shorter}, expected)


def _higher_order(plan: Plan, state: State, share: float) -> Improvement | None:
    """Order 1 instead of 0, where no bench's noise is extrapolated and no step is too long."""
    sources = plan.outputs["subsystem"][plan.connections["source"]]
    if plan.session["controls_order"][0]:
        return None
    if plan.connections["order"].any() or plan.subsystems["physical"][sources].any():
        return None
    connected = np.flatnonzero(plan.inputs["connected"])
    moves = float(disturbed_shares(state.inputs[connected]).max(initial=0.0))
    if not 0.0 < moves < SLOW:
        return None
    turned = 2.0 * moves  # by this angle an oscillation turns in a step
    expected = share * (5.0 / 12.0) * turned * turned / moves
    return Improvement("extrapolation of order 1", {"master.extrapolation.order": 1}, expected)
