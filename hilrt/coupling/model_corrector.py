"""The model-based corrector of a session: Jacobians given or identified, and what it corrects.

Joins `correct_model` (the correction) and `identify` (learning Γ while the session runs) into the
two things the macro step needs: `correct` on the critical path and `learn` in the slack. What has
been learned also foretells the outputs of a subsystem that is late: `predict`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hilrt.coupling import correct_model, identify, regression, trust
from hilrt.coupling.past import follow_error, lay_realised
from hilrt.coupling.regression import Model, Settings
from hilrt.coupling.true_inputs import couple
from hilrt.coupling.trust import Reason
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints, Network

#: An enumeration's member costs numpy ten times the comparison.
_USED = int(Reason.USED)


@dataclass(slots=True)
class ModelCorrector:
    """State of the correction; changed in place.

    Attributes
    ----------
    h : float
        Macro step that the Jacobians belong to, s.
    plan, state
        Of the correction.
    learning, learned
        Of the identification; None where every Jacobian is given.
    dither : ndarray, shape (nu,)
        Amplitude of the excitation relative to each input's running scale.
    offset : ndarray, shape (nu,)
        δu_c, to be added to the inputs.
    alpha : float
    gamma, keep : ndarray, shape (order + 1, ny, nu), (ny,)
        Jacobians that were given, and the outputs that may be corrected.
    carried : ndarray, shape (ny,)
        Running mean square of the error of plain extrapolation, one step ahead.
    chain : ndarray of int, shape (identified subsystems,)
        Steps without a gap in the past that the regression has of each, predicted ones included.
    turn : int
        Identified subsystem that learns next.
    """

    h: float
    plan: correct_model.Plan
    state: correct_model.State
    alpha: float
    gamma: Floats
    keep: Bools
    learning: identify.Plan | None
    learned: identify.State | None
    dither: Floats
    offset: Floats
    carried: Floats
    chain: Ints
    _power: Floats
    _parts: list[int]
    _predicted: Floats
    _realised: Floats
    turn: int = 0
    _regular: bool = False
    _y: Floats = field(default_factory=lambda: np.zeros(0))
    _sent: Floats = field(default_factory=lambda: np.zeros(0))

    def fits(self, elapsed: float) -> bool:
        """Whether a step of that length [s] is the one that the Jacobians belong to."""
        return abs(elapsed - self.h) < 0.5e-9

    def correct(self, y: Floats, sent: Floats) -> Floats:
        """Corrected outputs, shape (ny,); `offset` is updated.

        Parameters
        ----------
        y : ndarray, shape (ny,)
            Outputs as measured.
        sent : ndarray, shape (order + 1, nu)
            Taylor coefficients of the inputs as sent, about the start of the step.
        """
        self._y, self._sent, self._regular = y, sent * self._power, True
        corrected, self.offset = correct_model.correct(self.state, self.plan, y, self._sent)
        return corrected

    def restart(self, y: Floats, sent: Floats | None = None) -> None:
        """Forget the past: the step was not `h` long, or (with `sent`) some outputs are missing."""
        self.state = correct_model.start(self.plan, y)
        self.offset = np.zeros_like(self.offset)
        self._regular = False
        self._y = np.zeros(0) if sent is None else y
        self._sent = np.zeros(0) if sent is None else sent * self._power

    def predict(self, late: Bools, sent: Floats) -> Floats:
        """Outputs of late subsystems after one more step, from the identified model, shape (ny,).

        NaN where there is none whose past is complete, or where plain extrapolation has been
        better. A model may foretell well whose Γ is not to be trusted: it is asked all the same.

        Parameters
        ----------
        late : ndarray of bool, shape (n subsystems,)
        sent : ndarray, shape (order + 1, nu)
            As for `correct`.
        """
        self._predicted[:] = np.nan
        y = np.full_like(self._predicted, np.nan)
        if self.learning is None or self.learned is None:
            return y
        sent = sent * self._power
        for i, part in enumerate(self.learning.parts):
            model = self.learned.models[i]
            ready = self.learned.trusts[i].samples >= self.learning.limits.window
            if not late[self._parts[i]] or not ready or self.chain[i] < _past(model):
                continue
            rows = part.outputs
            self._predicted[rows] = regression.predict(
                model, np.ascontiguousarray(sent[:, part.inputs])
            )
            better = trust.residual(self.learned.trusts[i]) < np.sqrt(self.carried[rows])
            y[rows] = np.where(better, self._predicted[rows], np.nan)
        return y

    def learn(self, measured: Sequence[bool], realised: Floats, turns: bool = True) -> None:
        """Take in the step that ended; subsystems learn in turn, one per tick.

        Parameters
        ----------
        measured : sequence of bool
            For every subsystem, whether its outputs were sampled at this communication point.
        realised : ndarray, shape (nu,)
            What a bench made of each input at this point; NaN where it is not measured.
        turns : bool
            False where there is no time to learn: samples are only noted as part of the past.
        """
        if self.learning is None or self.learned is None:
            return
        if not len(self._y):
            self.chain[:] = 0
            self._realised = realised.copy()
            for model in self.learned.models:
                model.known = 0
            return
        acted = self._as_realised(realised)
        sampled = [measured[s] for s in self._parts]
        if not self._regular:
            self._go_on(acted, sampled)
            return
        learn: list[int] = []
        if turns:
            learn = [self.turn]
            if sampled[self.turn]:
                self._extrapolated(self.turn)
            self.turn = (self.turn + 1) % len(self._parts)
        changed = identify.identify(
            self.learned,
            self.learning,
            self._y,
            acted,
            correct_model.input_errors(self.state, self.plan, self._sent),
            measured=sampled,
            learn=learn,
        )
        for i, is_sampled in enumerate(sampled):
            self.chain[i] = self.chain[i] + 1 if is_sampled else 0
        if changed:
            self.plan = correct_model.build_plan(
                self.plan.coupling, self.learned.gamma, self.alpha, start_up=False
            )

    def _as_realised(self, realised: Floats) -> Floats:
        """Inputs of the step that ended, as benches realised them where that is measured.

        A line between the measurements at its two ends, since what has inertia does not jump with
        its demand; with order 0 the mean.
        """
        before, self._realised = self._realised, realised.copy()
        acted: Floats = self._sent.copy()
        lay_realised(before, self._realised, acted)
        return acted

    def _extrapolated(self, i: int) -> None:
        """Error of plain extrapolation for the newest sample of an identified subsystem."""
        assert self.learning is not None
        assert self.learned is not None
        rows, past = self.learning.parts[i].outputs, self.learned.models[i].past_y
        if self.chain[i] < len(past):
            return
        follows_line = self.plan.order > 0 and len(past) > 1
        share = 1.0 / self.learning.limits.window
        follow_error(self._y[rows], past, follows_line, share, self.carried[rows])

    def _go_on(self, acted: Floats, sampled: Sequence[bool]) -> None:
        """Past of the regressions over a step of which nothing is learned."""
        assert self.learning is not None
        assert self.learned is not None
        for i, part in enumerate(self.learning.parts):
            model, rows = self.learned.models[i], part.outputs
            inputs = acted[:, part.inputs]
            if sampled[i]:
                regression.observe(model, self._y[rows], inputs, learn=False)
                self.chain[i] += 1
            elif np.isfinite(self._predicted[rows]).all():
                regression.assume(model, self._predicted[rows], inputs)
                self.chain[i] += 1
            else:
                model.known, self.chain[i] = 0, 0
        self._predicted[:] = np.nan

    def replace(self, rows: slice, columns: slice, gamma: Floats) -> None:
        """Use another Γ for one subsystem, shape (order + 1, n_outputs, n_inputs)."""
        if self.learned is None:
            self.gamma = self.gamma.copy()
            self.gamma[:, rows, columns] = np.where(self.keep[None, rows, None], gamma, 0.0)
            self.plan = correct_model.build_plan(
                self.plan.coupling, self.gamma, self.alpha, start_up=False
            )

    def excitation(self, tick: int, scale: Floats) -> Floats:
        """Dither to add to the inputs, Taylor coefficients (order + 1, nu)."""
        amplitude = self.dither * scale
        coefficients: Floats = identify.dither(tick, amplitude, self.plan.order) / self._power
        return coefficients

    def untrusted(self) -> Bools:
        """Outputs whose correction is inactive because their Jacobian is not trusted, (ny,)."""
        if self.learned is None:
            return np.zeros(len(self.plan.constant[0]), dtype=bool)
        inactive: Bools = self.learned.reason != _USED
        return inactive


@dataclass(frozen=True)
class Identified:
    """A subsystem whose Γ is identified: its number, its settings, and a Γ to start from."""

    subsystem: int
    settings: Settings
    given: Floats | None
    dither: float = 0.0


def build_model_corrector(
    network: Network,
    given: Mapping[int, Floats],
    identified: Sequence[Identified],
    keep: Bools,
    alpha: float,
    h: float,
    y0: Floats,
) -> ModelCorrector:
    """Corrector of a session at its first communication point.

    Parameters
    ----------
    given : mapping of int to ndarray, shape (order + 1, n_outputs, n_inputs)
        Γ by subsystem; zero elsewhere.
    identified : sequence of Identified
    keep : ndarray of bool, shape (ny,)
        Outputs that may be corrected.
    alpha : float
        Share of the accumulated input error that δu_c makes up.
    h : float
        Macro step, s.
    y0 : ndarray, shape (ny,)
        Outputs at the start.
    """
    orders = connection_orders(network)
    order = int(orders.max(initial=0))
    nu, ny = network.L.shape
    gamma = np.zeros((order + 1, ny, nu))
    for s, part in given.items():
        gamma[:, network.outputs.slices[s], network.inputs.slices[s]] = part
    gamma[:, ~keep] = 0.0
    coupling = couple(network.L, orders, offset=network.offset, feedthrough=network.feedthrough)
    learning = learned = None
    dither = np.zeros(nu)
    if identified:
        parts = [
            identify.Part(
                network.outputs.slices[i.subsystem],
                network.inputs.slices[i.subsystem],
                i.settings,
                i.given,
            )
            for i in identified
        ]
        learning = identify.prepare(parts, network.L)
        learned = identify.start(learning, gamma)
        gamma = learned.gamma
        for one in identified:
            dither[network.inputs.slices[one.subsystem]] = one.dither
    plan = correct_model.build_plan(coupling, gamma, alpha)
    return ModelCorrector(
        h=h,
        plan=plan,
        state=correct_model.start(plan, y0),
        alpha=alpha,
        gamma=gamma,
        keep=keep,
        learning=learning,
        learned=learned,
        dither=dither,
        offset=np.zeros(nu),
        carried=np.zeros(ny),
        chain=np.zeros(len(identified), dtype=np.intp),
        _power=np.array([h**m / math.factorial(m) for m in range(order + 1)])[:, None],
        _parts=[i.subsystem for i in identified],
        _predicted=np.full(ny, np.nan),
        _realised=np.full(nu, np.nan),
    )


def _past(model: Model) -> int:
    """Samples in a row that a prediction rests on."""
    return max(model.settings.lags_y, model.settings.lags_u + 1)


def connection_orders(network: Network) -> Ints:
    """Extrapolation degree from every output to every input, shape (nu, ny)."""
    connections = network.connections
    orders = np.zeros(network.L.shape, dtype=np.intp)
    count = np.diff(np.append(connections.first, len(connections.source)))
    np.maximum.at(
        orders, (np.repeat(connections.target, count), connections.source), connections.order
    )
    return orders
