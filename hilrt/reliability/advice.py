"""Advice for a better verdict: the changes with the greatest expected effect on the error.

Step and order are chosen by the code of `hilrt advise` (`choose_settings`), with errors that
`expected_error` expects from those of the run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from hilrt.config.structs import Bond
from hilrt.reliability.choose_settings import longest_of
from hilrt.reliability.estimates import (
    GAIN_RANGE_LAG,
    IRREGULAR,
    SMALL_UP_TO,
    Estimate,
    bond_errors,
    calibrated_as,
    disturbed_shares,
)
from hilrt.reliability.expected_error import AdviceBasis, ExpectedError, Improvement
from hilrt.reliability.flags import FlagTotal
from hilrt.reliability.verdict import BOND_DEGRADED
from hilrt.tables.channels import BENCH_PATIENCE
from hilrt.tables.network import Network
from hilrt.tables.plan import ECCO, PI, WRONG, Plan
from hilrt.tables.state import State
from hilrt.wording import number

#: Maximum number of changes that are suggested.
MOST: Final = 2
#: Factors by which a step may be shortened; the smallest sufficient one is suggested.
SHORTER: Final = (2, 4, 10)
#: Share of the session above which late samples, missed ticks and limits are named before settings.
OFTEN: Final = 0.05
#: Estimate above which an error is no longer small and proportional to the disturbances.
LARGE: Final = 1.0
#: A variable step whose mean is above this share of its `maximum` is limited by it.
AT_MAXIMUM: Final = 0.5
#: Factor by which the tolerances of a variable step are lowered.
STRICTER: Final = 10.0


class SendingBench(NamedTuple):
    """Sending interval of a bench, and its effect.

    Attributes
    ----------
    name : str
    s : int
        Number of the subsystem.
    longest, shortest : float
        Time between two values of its rarest and its most frequent output, s; 0 if unknown.
    late : float
        Share of the communication points at which its samples were late.
    """

    name: str
    s: int
    longest: float
    shortest: float
    late: float


class RunAdvice(NamedTuple):
    """Changes that would help, the most effective one first, and alternatives that would not."""

    changes: list[Improvement]
    rejected: list[str]


def advice(
    network: Network,
    plan: Plan,
    state: State,
    errors: Mapping[str, Estimate],
    totals: Mapping[str, FlagTotal],
    run: AdviceBasis,
    benches: Collection[SendingBench] = (),
) -> RunAdvice:
    """Changes for a session whose verdict is not `good`.

    Parameters
    ----------
    network, plan, state
        At the end of the session.
    errors : mapping of str to Estimate
    totals : mapping of str to FlagTotal
        By cause.
    run : AdviceBasis
    benches : collection of SendingBench
    """
    time_s = run.time_s
    variable = bool(plan.session["variable_step"][0])
    found = _corrections(network.bonds.tables, plan, state)
    known = {k: error for k, error in errors.items() if error.value >= 0.0 and error.spread > 0.0}
    name = max(known, key=lambda name: known[name].value / known[name].spread, default="")
    bonds = [bond.share for bond in bond_errors(network, plan, state).values()]
    energy = max((share for share in bonds if share > BOND_DEGRADED), default=0.0)
    if not known or (known[name].is_small and not energy):
        return RunAdvice(found[:MOST], [])
    limited = totals["input_limited"].affected_s > OFTEN * time_s
    if limited and (limit := _limit(network, plan, state)) is not None:
        return RunAdvice([*found, limit][:MOST], [])
    late = max(totals[cause].affected_s for cause in ("sample_late", "deadline_missed"))
    if late > OFTEN * time_s:
        found.append(_rarer_steps(plan, benches) or PROCESSORS)
    worst = known[name]
    if worst.is_small:  # what matters is the bonds' energy
        worst = worst._replace(own=0.0)
    share = worst.value / worst.spread
    if worst.how == GAIN_RANGE_LAG:
        found.append(_lag(variable))
    if worst.is_own:
        found.append(OWN_STEP)
    small = SMALL_UP_TO[calibrated_as(worst.how)]
    if energy:  # the energy decreases with the disturbances, like the errors
        small = min(small, share * BOND_DEGRADED / energy)
    shorter: Sequence[float] = ()
    if variable:
        found.append(_stricter_control(plan, time_s / max(run.steps, 1)))
    elif late <= OFTEN * time_s:  # else it would be later still
        shorter, instead = _shorter_steps(plan, run, benches)
        found += instead
    expected = ExpectedError(plan, state, name, worst, run)
    choice = expected.choose(shorter, small)
    worthwhile = expected.improvements(choice)
    # The direction of their effect is known, but not its size.
    if share > LARGE or worst.how in (GAIN_RANGE_LAG, IRREGULAR):
        worthwhile = [change._replace(expected=math.nan) for change in worthwhile]
    return RunAdvice([*found, *worthwhile][:MOST], choice.rejected)


PROCESSORS: Final = Improvement(
    "dedicated processors, or a real-time priority for the master: samples were late or ticks "
    "missed",
    {},
)


OWN_STEP: Final = Improvement(
    "a shorter integration step inside the models, or a method of higher order: most of the error "
    "is their own",
    {},
)


def _lag(variable: bool) -> Improvement:
    """Change that shows the lag of direct feedthrough."""
    runs = 'reference = "before"' if variable else 'repeat = "half"'
    return Improvement(
        "the lag of direct feedthrough is treated as a delay of one step: give the solver "
        "save_state and restore_state, the FMU directional derivatives of its states, or name a "
        f"reference_model; keep an FMU's end_inputs on; without a bench, {runs} shows it",
        {},
    )


def _stricter_control(plan: Plan, mean_step: float) -> Improvement:
    """A lower maximum of a variable step if that limits it, otherwise a stricter tolerance.

    The resulting error is unknown: tolerances apply to a step, not to a session.
    """
    session, control = plan.session[0], "master.step_control"
    if mean_step > AT_MAXIMUM * session.maximum_step:
        shorter = float(f"{0.5 * session.maximum_step:.3g}")
        text = f"step_control.maximum = {shorter:g} s: the steps are as long as it permits"
        return Improvement(text, {f"{control}.maximum": shorter})
    if session.step_method == PI:
        least = float(f"{session.tolerance / STRICTER:.3g}")
        settings: dict[str, Any] = {f"{control}.tolerance": least}
    else:
        settings = {
            f"{control}.{key}": float(f"{given / STRICTER:.3g}")
            for key, given in _tolerances(plan).items()
        }
    if not settings:
        text = "a tenth of the step_control's rtol and atol, in all their entries"
        return Improvement(text, settings)
    words = " and ".join(f"{key.rpartition('.')[2]} = {value:g}" for key, value in settings.items())
    return Improvement(f"step_control: {words}", settings)


def _tolerances(plan: Plan) -> dict[str, float]:
    """``rtol`` and ``atol`` of the step control where they are not 0; empty if by port."""
    session = plan.session[0]
    if session.step_method == ECCO:
        given = {"rtol": session.energy_rtol, "atol": session.energy_atol}
    else:
        ports = {key: np.unique(plan.inputs[key]) for key in ("rtol", "atol")}
        if any(len(values) > 1 for values in ports.values()):
            return {}
        given = {key: float(values[0]) for key, values in ports.items()}
    return {key: float(value) for key, value in given.items() if value > 0.0}


def _rarer_steps(plan: Plan, benches: Collection[SendingBench]) -> Improvement | None:
    """Step as long as a bench's sending interval, if only that makes its samples late."""
    step = float(plan.session["step"][0])
    for bench in benches:
        own = step * float(plan.subsystems[bench.s].every)
        if bench.late > OFTEN and bench.shortest > BENCH_PATIENCE * own:
            every = math.ceil(bench.shortest / step - 1e-9)
            return Improvement(
                f"{bench.name}: every = {every}, or a step of {number(1e3 * bench.shortest, 3)} ms:"
                " its sending interval; it counts as late after "
                f"{number(1e3 * BENCH_PATIENCE * own, 3)} ms",
                {f"subsystems.{bench.name}.every": every},
            )
    return None


def _corrections(bonds: list[Bond], plan: Plan, state: State) -> list[Improvement]:
    """Removal of wrong or harmful corrections, which comes first."""
    return [
        _correction(bond, bool(plan.bonds[b].verification == WRONG and plan.bonds[b].tried))
        for b, bond in enumerate(bonds)
        if plan.bonds[b].verification == WRONG or state.bonds[b].harmful
    ]


def _correction(bond: Bond, refuted: bool) -> Improvement:
    """Use of the probed D instead of one that a trial has refuted; otherwise no correction."""
    if refuted and bond.correction.method == "feedthrough":
        givers = sorted({effort.partition(".")[0] for effort in bond.efforts})
        return Improvement(
            f"bond {bond.name}: correct it by the D of {', '.join(givers)} as probed",
            {f"subsystems.{name}.jacobian.source": "probe" for name in givers},
        )
    return Improvement(
        f"bond {bond.name}: fix the values that its correction uses, or turn it off",
        {f"bonds.{bond.name}.correction.method": "none"},
    )


def _limit(network: Network, plan: Plan, state: State) -> Improvement | None:
    """Smaller demands on the input that is disturbed most, if its rate or jerk is limited.

    The effect of such a limit does not depend on the step. A limit of the value, `min` or `max`, is
    part of the system and not a disturbance.
    """
    connected = np.flatnonzero(plan.inputs["connected"])
    shares = np.nan_to_num(disturbed_shares(state.inputs[connected]))
    worst = int(connected[np.argmax(shares)])
    names = ("max_rate", "max_jerk")
    limits = [name for name in names if math.isfinite(plan.inputs[name][worst])]
    if not limits:
        return None
    return Improvement(
        f"input {network.inputs.names[worst]}: {' and '.join(limits)} limit how it follows its "
        "sources: demand less, or raise it if the hardware can tolerate that",
        {},
    )


def _shorter_steps(
    plan: Plan, run: AdviceBasis, benches: Collection[SendingBench]
) -> tuple[list[float], list[Improvement]]:
    """Shorter steps that are possible and useful, ascending; what else helps if there are none.

    Never shorter than a bench's sending interval, because nothing new arrives between its values,
    nor than the times measured in real time permit.
    """
    step = float(plan.session["step"][0])
    slowest = max((bench.longest for bench in benches), default=0.0)
    bound = longest_of(run.bounds)
    least = max(slowest, 0.0 if bound is None else bound.step_s)
    found = [
        float(f"{step / factor:.3g}")
        for factor in reversed(SHORTER)
        if step / factor > least * (1.0 - 1e-9)
    ]
    if found:
        return found, []
    if bound is not None and bound.step_s > slowest:
        text = f"less time for a step, so that it can be shorter: {bound.basis}"
        return [], [Improvement(text, {})]
    every = number(1e3 * slowest, 3)
    text = f"a bench that sends more often: no step below the {every} ms of this one helps"
    return [], [Improvement(text, {})]
