"""Estimated error of every coupling signal over a session, and its reliability."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from hilrt.files.formats import json_numbers
from hilrt.reliability.calibrated import GOOD, HIGH, LOW, UNRELIABLE
from hilrt.reliability.causes import CAUSES, LEAST_SPREAD, SENSITIVITIES_CHANGED
from hilrt.solver import Floats
from hilrt.tables.network import MOST_TRIED, Network
from hilrt.tables.plan import Plan
from hilrt.tables.ports import Ints
from hilrt.tables.record import Table
from hilrt.tables.relation import Relation
from hilrt.tables.state import InputState, OutputState, State
from hilrt.wording import OF_MODEL

#: Methods of estimation.
PROBED: Final = "sensitivities"
PROBED_AT_START: Final = "sensitivities of the start"
#: Probed repeatedly during the session, because they vary.
RENEWED: Final = "sensitivities along the way"
#: Likewise, if they changed abruptly, as at a contact or a relay, for a larger share of the session
#: than the cause `sensitivities_changed` allows.
RENEWED_CHANGED: Final = "sensitivities along the way, which changed"
#: Methods by which errors are propagated through the session's own subsystems.
PROPAGATED: Final = (PROBED, PROBED_AT_START, RENEWED, RENEWED_CHANGED)
GAIN_RANGE: Final = "gain range"
#: Direct feedthrough uses inputs of the beginning of the step, or extrapolated ones. Without
#: probing, this counts as a delay of one step.
GAIN_RANGE_LAG: Final = "gain range, lag of feedthrough as a delay"
#: No subsystem was probed, because there are more coupled outputs than `MOST_TRIED`.
GAIN_RANGE_MANY: Final = "gain range, too many outputs to probe"
#: Errors pass through calculated channels that remember earlier samples.
GAIN_RANGE_CHANNELS: Final = "gain range, as errors pass through channels that use earlier samples"
#: The sensitivities of the start are invalid: errors would grow beyond the signals, or nothing
#: responded to disturbed inputs.
GAIN_RANGE_START: Final = "gain range, as the sensitivities of the start do not hold"
#: An error above this multiple of a signal's variation is impossible: it is the difference between
#: the output and a true signal of similar variation.
BEYOND: Final = 2.0
#: Disturbances of inputs, relative to their variation, large enough for a response.
NOTICED: Final = 1e-3
#: Up to this share of the signals' variation, such disturbances count as errors of the signals:
#: they exclude the verdict `good`, but are no evidence of large errors.
MOST_DOUBTED: Final = 0.05
#: The session was repeated at half and a quarter of its step; its results follow a power of the
#: step, or do not.
REPEATED: Final = "repeated at shorter steps"
IRREGULAR: Final = "repeated at shorter steps, not in the asymptotic range"
#: The step was halved until the limit of the results was known to 1 % of the session's error.
REFERENCE: Final = "against a converged reference"
#: Factors from the estimate to the ends of its interval, by method, and thresholds of small and
#: large estimates; views, as the calibration tries other constants. For repeated sessions: P. J.
#: Roache 1994, "Perspective: a method for uniform reporting of grid refinement studies", safety
#: factors 1.25 for three grids with an observed order and 3 without one.
LOW_ENDS: Final = ChainMap(
    LOW, {REPEATED: 0.8, IRREGULAR: 0.0, RENEWED: 0.0, RENEWED_CHANGED: 0.0, REFERENCE: 0.99}
)
_HIGH: Final = {
    REPEATED: 1.25, IRREGULAR: 3.0, RENEWED: 2.0, RENEWED_CHANGED: 5.0, REFERENCE: 1.01,
}  # fmt: skip
HIGH_ENDS: Final = ChainMap(HIGH, _HIGH)
SMALL_UP_TO: Final = ChainMap(GOOD, {how: 0.05 / high for how, high in _HIGH.items()})
LARGE_ABOVE: Final = ChainMap(UNRELIABLE, dict.fromkeys(_HIGH, 0.2))
#: Number of radians over which an error in a driven loop is assumed to persist: that of a damping
#: ratio of 0.2, because the motion does not show the loop's damping.
MOST_RADIANS: Final = 5.0
LACKING: Final = "unknown: its subsystem's reference model has no such output"
#: Estimates computed between two pauses.
ROWS_PER_PART: Final = 20
#: Errors below this share of a signal's largest value are rounding.
ROUNDING: Final = 1e-9
#: Likewise with renewed sensitivities: quick trials are less exact.
ROUNDING_ALONG: Final = 1e-6
#: Keeps ratios of signals that have always been zero finite.
TINY: Final = 1e-200
#: Share of an error from which it is called that of the subsystems' own integration.
MOSTLY: Final = 0.5


T = TypeVar("T")
#: Computation with pauses: a status is built in the slack of several ticks.
InParts: TypeAlias = Generator[None, None, T]


class Estimate(NamedTuple):
    """Error of a signal, RMS over the session, in the signal's unit; NaN if unknown.

    Attributes
    ----------
    unit : str
    value : float
        Best estimate.
    low, high : float
        Ends of the interval that contains 95 % of the true errors.
    spread : float
        Reference of the relative error: standard deviation, or 5 % of the RMS if that is more.
    how : str
        Method of estimation, or ``unknown: why``.
    order : float
        Observed power of the step; NaN without a repetition at shorter steps.
    own : float
        Part of the error that is due to the subsystems' own integration, as far as trials show it;
        both parts may cancel.
    doubt : str
        Disturbed input that determines the value, with the disturbance, because no evidence shows
        that the signal is more accurate; empty if another rule determines it.
    """

    unit: str
    value: float
    low: float
    high: float
    spread: float
    how: str
    order: float = math.nan
    own: float = 0.0
    doubt: str = ""

    @property
    def is_own(self) -> bool:
        """Whether most of the error is due to the subsystems' own integration."""
        return self.own > MOSTLY * self.value

    @property
    def is_small(self) -> bool:
        """Whether nearly all sessions with such an estimate were within 5 %."""
        return self.how in SMALL_UP_TO and self.value <= SMALL_UP_TO[self.how] * self.spread

    @property
    def is_large(self) -> bool:
        """Whether hardly any session with such an estimate was within 5 %."""
        limit = LARGE_ABOVE[calibrated_as(self.how)] * self.spread
        return self.value > limit if self.value >= 0.0 else False

    @property
    def relative(self) -> float:
        """Upper end relative to the spread; infinite for an error of a signal without spread."""
        if self.spread == 0.0 and self.high > 0.0:
            return math.inf
        return self.high / self.spread if self.high > 0.0 else self.high

    def as_json(self) -> dict[str, Any]:
        """Entry of the summary."""
        names = ("value", "low", "high", "relative")
        known = json_numbers({name: getattr(self, name) for name in names})
        return {"unit": self.unit, **known, "how": self.how}


class BondError(NamedTuple):
    """Energy that a bond's interface has created, and energy that the bond has carried, J."""

    made: float
    carried: float

    @property
    def share(self) -> float:
        """Ratio of created to carried energy; 0 if none was created, NaN if either is unknown."""
        if not math.isfinite(self.made + self.carried):
            return math.nan
        return abs(self.made) / self.carried if self.carried > 0.0 else 0.0


def estimates(network: Network, plan: Plan, state: State) -> dict[str, Estimate]:
    """Estimates of every coupled output, by its name; empty before a step has ended.

    They include outputs that coupled calculated channels read.
    """
    return whole(estimates_in_parts(network, plan, state))


def whole(parts: InParts[T]) -> T:
    """Result of a computation in parts, without pauses."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            result: T = end.value
            return result


def estimates_in_parts(network: Network, plan: Plan, state: State) -> InParts[dict[str, Estimate]]:
    """`estimates` with pauses for other work, in which the state may also change."""
    if not (state.outputs["moment_seconds"] > 0.0).any():
        return {}
    coupled = _coupled(plan)
    inputs = np.flatnonzero(plan.inputs["connected"])
    outputs = state.outputs[coupled]
    yield
    how = how_estimated(plan, moved=bool(state.session["sensitivities_moved"][0]))
    if how == RENEWED and _changed(state):
        how = RENEWED_CHANGED
    spread, doubts = np.maximum(*spreads(outputs)), np.full(len(coupled), "", np.object_)
    yield
    unknown = _unknown(network, state.inputs, inputs)
    if how != GAIN_RANGE:
        unknown = unknown or _reparametrised(network, state)
    if unknown:
        value, how = np.full(len(coupled), np.nan), f"unknown: {unknown}"
    elif how == GAIN_RANGE:
        value, how = yield from _gain_range(network, plan, state, spread)
    else:
        value = np.sqrt(outputs["error_square"] / outputs["moment_seconds"])
        if how != PROBED:
            # A signal without response about the start may respond later, such as a pedal that is
            # not yet pressed.
            worst = np.max(value / np.maximum(spread, TINY), initial=0.0)
            least = ROUNDING_ALONG if how in (RENEWED, RENEWED_CHANGED) else ROUNDING
            value = np.where(value <= least * outputs["peak"], worst * spread, value)
        if not plan.session["error_renewed"][0]:
            followed = value
            value, how, doubt = yield from _tried_once(network, plan, state, value, how)
            doubts = np.where(value > followed, doubt, "")
    yield
    value = np.maximum(value, ROUNDING * outputs["peak"])
    demanded = plan.outputs["error_high"][coupled] == 0.0
    value = np.where(demanded, 0.0, value)
    lacking = np.isnan(plan.outputs["error_high"][coupled])
    value, hows = np.where(lacking, np.nan, value), np.where(lacking, LACKING, how)
    own = np.sqrt(outputs["own_square"] / outputs["moment_seconds"])
    own = np.where(np.isin(hows, PROPAGATED), own, 0.0)
    columns = (coupled, value, spread, hows, own, doubts)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    names, units, found = network.outputs.names, network.outputs.units, dict[str, Estimate]()
    for k, (i, v, s, how, part, doubt) in enumerate(rows):
        if k % ROWS_PER_PART == 0:
            yield
        found[names[i]] = make_estimate(units[i], v, s, how)._replace(own=part, doubt=doubt)
    return found


def _coupled(plan: Plan) -> Ints:
    """Numbers of the coupled outputs, and of those that coupled calculated channels read."""
    coupled, pairs = plan.outputs["coupled"] != 0, plan.channel_sources
    coupled[pairs["source"][coupled[pairs["channel"]]]] = True
    return np.flatnonzero(coupled)


def _changed(state: State) -> bool:
    """Whether renewed sensitivities changed for longer than the verdict `good` allows."""
    seconds = np.max(state.outputs["moment_seconds"])
    affected = state.causes[SENSITIVITIES_CHANGED].affected
    return bool(affected > CAUSES["sensitivities_changed"].degraded * seconds)


def _tried_once(
    network: Network, plan: Plan, state: State, value: Floats, how: str
) -> InParts[tuple[Floats, str, str]]:
    """Estimates of the coupled outputs, their method and doubt, if only the start was probed.

    They are invalid if they exceed the signals, or if nothing responded to inputs that were
    disturbed later (an open clutch, a relay that has not switched). Unless everything is linear, no
    signal counts as more accurate than the inputs, up to `MOST_DOUBTED`.
    """
    yield
    coupled = _coupled(plan)
    spread = np.maximum(*spreads(state.outputs[coupled]))
    yield
    inputs, giving = network.inputs, network.outputs.member[coupled]
    passing = np.flatnonzero((plan.inputs["connected"] != 0) & np.isin(inputs.member, giving))
    shares = disturbed_shares(state.inputs[passing])
    disturbed = np.max(shares, initial=0.0)
    worst = np.max(value / np.maximum(spread, TINY), initial=0.0)
    silent = worst <= ROUNDING_ALONG and disturbed > NOTICED
    if silent or (how != PROBED and worst > BEYOND):
        value, _ = yield from _gain_range(network, plan, state, spread)
        return value, GAIN_RANGE_START, ""
    if how == PROBED or disturbed == 0.0:
        return value, how, ""
    doubt = f"{inputs.names[passing[np.argmax(shares)]]} ({disturbed:.1%} of its variation)"
    return np.maximum(value, min(disturbed, MOST_DOUBTED) * spread), how, doubt


def _gain_range(
    network: Network, plan: Plan, state: State, spread: Floats
) -> InParts[tuple[Floats, str]]:
    """Estimates of the coupled outputs from the disturbances alone, and their method."""
    inputs = np.flatnonzero(plan.inputs["connected"])
    coupled = _coupled(plan)
    bonds = [bond.share for bond in bond_errors(network, plan, state).values()]
    yield
    shares = disturbed_shares(state.inputs[inputs])
    # An unknown value of one input or bond makes all signals unknown (NaN).
    value = spread * np.hypot(np.max(shares, initial=0.0), np.max(bonds, initial=0.0))
    how = GAIN_RANGE
    is_coupled, connected = np.zeros(len(plan.outputs), np.bool_), plan.inputs["connected"] != 0
    is_coupled[coupled] = True
    if len(network.feedthrough.where(is_coupled, connected)):
        how = GAIN_RANGE_LAG
        accumulated = yield from _accumulated(network, plan, state)
        value = np.maximum(value, spread * accumulated[coupled])
    if len(coupled) > MOST_TRIED:
        how = GAIN_RANGE_MANY
    elif (plan.outputs["calculated"][coupled] == 2).any():
        how = GAIN_RANGE_CHANNELS
    return value, how


def make_estimate(unit: str, value: float, spread: float, how: str) -> Estimate:
    """Create the estimate of a method with its interval; NaN and a reason if it is unknown."""
    way = how if how in LOW_ENDS else calibrated_as(how)
    low, high = LOW_ENDS.get(way, math.nan), HIGH_ENDS.get(way, math.nan)
    return Estimate(unit, value, low * value, high * value, spread, how)


def calibrated_as(how: str) -> str:
    """Method whose limits of small and large estimates apply."""
    return GAIN_RANGE if how.startswith(GAIN_RANGE) else how


def errors_of(
    network: Network, plan: Plan, state: State
) -> tuple[dict[str, Estimate], dict[str, BondError]]:
    """Both errors that a verdict requires: `estimates` and `bond_errors`."""
    return whole(errors_in_parts(network, plan, state))


def errors_in_parts(
    network: Network, plan: Plan, state: State
) -> InParts[tuple[dict[str, Estimate], dict[str, BondError]]]:
    """`errors_of` with pauses; see `estimates_in_parts`."""
    found = yield from estimates_in_parts(network, plan, state)
    yield
    return found, bond_errors(network, plan, state)


def how_estimated(plan: Plan, *, moved: bool = False) -> str:
    """Method of estimation of a session; `moved` if its sensitivities have changed."""
    session = plan.session[0]
    if not session.error_states:
        return GAIN_RANGE
    if session.error_of_reference:
        return OF_MODEL
    if session.error_linear and not moved:
        return PROBED
    return RENEWED if session.error_renewed else PROBED_AT_START


def bond_errors(network: Network, plan: Plan, state: State) -> dict[str, BondError]:
    """Errors of all bonds, by name; as integrated, or else by the residual at the points."""
    rows = zip(network.bonds.tables, plan.bonds, state.bonds, strict=True)
    return {
        table.name: BondError(
            float(bond.interface if settings.integrated else bond.drift), float(bond.through)
        )
        for table, settings, bond in rows
    }


def spreads(ports: Table[OutputState] | Table[InputState]) -> tuple[Floats, Floats]:
    """Standard deviation of ports over time, and its lower bound, shape (n,)."""
    seconds = np.where(ports["moment_seconds"] > 0.0, ports["moment_seconds"], np.nan)
    mean = ports["moment"] / seconds
    square = np.maximum(ports["square_moment"] / seconds - mean * mean, 0.0)
    rms = np.sqrt(square + (ports["origin"] + mean) ** 2)
    return np.sqrt(square), LEAST_SPREAD * rms


def _unknown(network: Network, ports: Table[InputState], inputs: Ints) -> str:
    """Reason why the errors are unknown; empty if they are known."""
    never = inputs[~(ports["disturbance_seconds"][inputs] > 0.0)]
    if not len(never):
        return ""
    return f"{network.inputs.names[never[0]]} was never compared with its sources"


def _reparametrised(network: Network, state: State) -> str:
    """Reason why probed responses are no longer valid; empty if they are."""
    changed = np.flatnonzero(state.subsystems["reparametrised"])
    if not len(changed):
        return ""
    name = network.subsystems[changed[0]]
    return (
        f"a parameter of {name} was changed during the session, after its responses had been probed"
    )


def _accumulated(network: Network, plan: Plan, state: State) -> InParts[Floats]:
    """Errors that accumulate from delays in loops, relative to the outputs' spreads, shape (ny,).

    In a loop that oscillates at the angular frequency w, a total delay of tau changes the growth by
    ``w² tau / 2`` (the perturbation of ``m x'' = -k x(t - tau)``), and a motion is wrong by that
    share per second since its start. With the disturbance ``-tau u'`` of an input, ``w² tau`` is
    the mean of ``-du u'`` over the variance of u; the largest counts among a subsystem's inputs,
    and those of the subsystems in a loop add up. In a loop with a damped member, as shown by a
    trial, errors decay at half of that damping; a motion that lasts longer is driven from within.
    """
    owner, inputs = network.inputs.member, state.inputs
    n, found = len(network.members), np.zeros(len(network.outputs))
    pairs = plan.channel_sources
    shape = (len(network.outputs), len(network.outputs))
    read = Relation.of(pairs["channel"], pairs["source"], shape)
    through = (network.L.pattern() @ read).pattern()
    rows = np.concatenate((network.L.row, through.row))
    columns = np.concatenate((network.L.column, through.column))
    takes = Relation.of(owner[rows], network.outputs.member[columns], (n, n))
    yield
    subsystem = np.zeros(n, np.intp)
    subsystem[network.outputs.member] = network.outputs.owner
    subsystem[owner] = network.inputs.owner
    spread = np.maximum(np.maximum(*spreads(inputs)), TINY)
    seconds = np.maximum(inputs["disturbance_seconds"], TINY)
    # Divide twice, because the square of the smallest spread is 0.
    pull = np.maximum(inputs["delay_work"] / seconds / spread / spread, 0.0)
    strongest = np.zeros(n)
    np.maximum.at(strongest, owner, np.where(plan.inputs["connected"] != 0, pull, 0.0))
    lagging = np.isin(np.arange(n), owner[plan.inputs["lags"] != 0])
    driven = np.isin(np.arange(n), owner[plan.inputs["drive"] >= 0])
    driven |= plan.subsystems["physical"][subsystem] != 0
    yield
    remembered = _remembered(state.outputs)
    for loop in takes.loops():
        yield
        if not lagging[loop].any():
            continue
        members = [np.flatnonzero(np.isin(network.outputs.member, s)) for s in loop]
        rate, decay = 0.5 * strongest[loop].sum(), 0.0
        memory = plan.subsystems["memory"][subsystem[loop]]
        if (memory > 0.0).any():  # half of its damping, if another member has as much energy
            decay = 0.5 / memory[memory > 0.0].min()
        lasted = max(remembered[mine].max(initial=0.0) for mine in members)
        into = np.concatenate([takes.neighbours(s) for s in loop])
        if decay * lasted > 1.0 or driven[loop].any() or not np.isin(into, loop).all():
            decay += math.sqrt(strongest[loop].max() / plan.session["step"][0]) / MOST_RADIANS
        longest = 1.0 / max(decay, TINY)
        for mine in members:
            found[mine] = rate * np.minimum(remembered[mine], longest)
    return found


def _remembered(outputs: Table[OutputState]) -> Floats:
    """RMS of the time since the start, weighted by the squared deviations of the outputs, s."""
    seconds = np.maximum(outputs["moment_seconds"], TINY)
    mean = outputs["moment"] / seconds
    square = outputs["square_moment"] - mean * outputs["moment"]
    late = outputs["late_square_moment"] - 2.0 * mean * outputs["late_moment"]
    late += mean * mean * seconds**3 / 3.0
    share = np.maximum(late, 0.0) / np.maximum(square, TINY)
    remembered: Floats = np.sqrt(np.minimum(share, seconds * seconds))
    return remembered


def disturbed_shares(inputs: Table[InputState]) -> Floats:
    """Disturbances of inputs relative to their spreads, both RMS over the session, shape (n,).

    NaN if a disturbance is unknown.
    """
    rms = np.sqrt(inputs["disturbance_square"] / inputs["disturbance_seconds"])
    spread = np.maximum(*spreads(inputs))
    shares: Floats = np.where(rms <= ROUNDING * inputs["peak"], 0.0, rms / np.maximum(spread, TINY))
    return shares
