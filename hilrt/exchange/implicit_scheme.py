"""The implicit scheme: predictor and corrector, for subsystems that can all repeat a step.

The explicit step is the predictor. The corrector repeats the step with inputs that are
interpolated: polynomials of degree k through ``(t_{k+1}, u*)`` and the samples before, where u*
solves the coupling conditions ``u* - L y(t_{k+1}; u*) = 0`` by Newton's method (Multibody Syst.
Dyn. 09817 (2022), section 3.2, eq. 11). The macro step receives the corrected outputs, so a log is
replayed like any other. Outputs with feedthrough are evaluated with u* itself, without lag.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np

from hilrt.errors import HilrtError
from hilrt.exchange.exchange import Exchange
from hilrt.link import LinearModel
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.tables.ports import Ints
from hilrt.tables.state import State
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping
from hilrt.timing.timeline import RepeatedCounts

#: Residual of a coupling condition that may remain, relative to the input's largest value.
RESIDUAL: Final = 1e-10
#: Likewise, relative to the tolerance of a local error where that controls the step.
SHARE_OF_TOLERANCE: Final = 1e-3
#: Maximum number of corrector iterations; slower convergence means that the step is too long.
MAX_CORRECTIONS: Final = 12
#: Perturbation of an input for finite differences, relative to its largest value.
PERTURBATION: Final = 1e-6
#: A Jacobian from an earlier step is recomputed after this number of iterations.
MAX_WITH_OLD_JACOBIAN: Final = 3


def basis(degree: int, times: Floats, h: float) -> Floats:
    """Taylor coefficients about now of the polynomial that is 1 at `h` and 0 at `times`.

    ``L^k(t) = prod_{j<k} (t - T_{N-j}) / (T_{N+1} - T_{N-j})`` (eq. 17): the term that an
    interpolation polynomial through one more value, at the step's end, adds to the previous one.

    Parameters
    ----------
    degree : int
    times : ndarray, shape (degree,) or more
        The newest communication points relative to now, s: 0 and below.
    h : float
        Macro step, s.

    Returns
    -------
    ndarray, shape (degree + 1,)
        ``sum_m c[m] t^m / m!``.
    """
    powers = np.polynomial.polynomial.polyfromroots(times[:degree])
    powers /= np.polynomial.polynomial.polyval(h, powers)
    factorials = [math.factorial(m) for m in range(degree + 1)]
    return np.asarray(powers * factorials, dtype=np.float64)


def integrals(coefficients: Floats, h: float) -> tuple[float, float]:
    """First and second integral of such a polynomial over the step.

    The constants ``H C_vel`` and ``H^2 C_pos`` of eqs. 17 and 20.
    """
    m = np.arange(len(coefficients))
    once = [h ** (k + 1) / math.factorial(k + 1) for k in m]
    twice = [h ** (k + 2) / math.factorial(k + 2) for k in m]
    return float(coefficients @ once), float(coefficients @ twice)


def shapes(degree: Ints, times: Floats, h: float, columns: int) -> Floats:
    """Coefficients added to inputs by a unit change at the step's end, shape (columns, nu).

    `degree`, shape (nu,), is the degree of each input; `times` and `h` as for `basis`.
    """
    found: Floats = np.zeros((columns, len(degree)))
    for k in np.unique(degree).tolist():
        found[: k + 1, degree == k] = basis(k, times, h)[:, None]
    return found


class Attempt(NamedTuple):
    """A step with other inputs: its length and end [s], initial state, and inputs as sent.

    The attempt's inputs have coefficients ``sent + changes * shift``, with `changes` of shape
    (m, nu); at the step's end they differ from `sent` by `shift`, shape (nu,).
    """

    h: float
    t: float
    state: State
    sent: Floats
    changes: Floats
    shift: Floats


class Corrected(NamedTuple):
    """Outputs of the predictor, shape (ny,); the worst input if the corrector did not converge."""

    predicted: Floats
    unsettled: str = ""


class ImplicitScheme:
    """Corrector of each step, before its samples are accepted; called between two steps.

    Parameters
    ----------
    numerics : Numerics
    exchange : Exchange
        Its links keep the state before each step from now on.
    counts : RepeatedCounts
    low_order : bool
        Approximate the interface Jacobian by a low-order expansion of the subsystems' linear models
        about their start (appendix A.2) instead of finite differences (A.1).

    Raises
    ------
    ConfigError
        If a subsystem cannot repeat a step.
    """

    def __init__(
        self,
        numerics: Numerics,
        exchange: Exchange,
        counts: RepeatedCounts,
        low_order: bool = False,
    ) -> None:
        exchange.keep_states("[master] scheme = 'implicit'", "'explicit'")
        self._numerics, self._exchange, self._low_order = numerics, exchange, low_order
        plan, network = numerics.plan, numerics.network
        self._coupled: Ints = np.flatnonzero(plan.inputs["connected"])
        self._owner = network.inputs.owner
        self._trials = list(self._independent())
        self._source, self._target = network.connections.source, network.connections.targets()
        self._times: deque[int] = deque(maxlen=int(plan.session["coefficients"][0]) + 1)
        self._largest = np.zeros(len(network.inputs))
        self._models: list[LinearModel | None] = []
        #: Its inverse, with the step and the changes that it is valid for.
        self._jacobian: tuple[object, Floats] | None = None
        self._counts = counts

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Correct the step to `point`, which all subsystems have reached."""
        if not point.elapsed_ns:
            await self.begin()
        else:
            found = self.correct(point, self._numerics.state, self._exchange.sent)
            if found.unsettled:
                raise HilrtError(
                    f"the corrector has not converged at t = {point.t_ns / 1e9:g} s, worst at "
                    f"{found.unsettled}; use a shorter [master] step"
                )
        self.accept(point)
        return point

    def _independent(self) -> Iterator[tuple[int, list[tuple[int, slice]]]]:
        """Inputs that may be perturbed in one trial, by subsystem, with the outputs that respond.

        One input of each independent part, for example of each member of a group.
        """
        coupled = set(self._coupled.tolist())
        for s in range(len(self._exchange.links)):
            parts = [
                [(i, outputs) for i in range(inputs.start, inputs.stop) if i in coupled]
                for inputs, outputs in self._exchange.parts(s)
            ]
            for trial in zip_longest(*parts):
                yield s, [one for one in trial if one is not None]

    async def begin(self) -> None:
        """Compute the subsystems' linear models about their start, if required."""
        h = float(self._numerics.plan.session["first_step"][0])
        for link, (_, inputs) in zip(self._exchange.links, self._exchange.slices, strict=True):
            if self._low_order:
                u = self._numerics.state.inputs["extrapolated"][inputs, 0].copy()
                self._models.append(await link.probes.linear_model(h, u))

    def accept(self, point: CommunicationPoint) -> None:
        """Begin the next step at `point`."""
        self._times.appendleft(point.t_ns)

    def correct(self, point: CommunicationPoint, state: State, sent: Floats) -> Corrected:
        """Solve the coupling conditions at `point` by Newton's method.

        `state` is the state at the step's beginning, `sent` the inputs used, shape (m, nu).
        """
        h, t = point.elapsed_ns / 1e9, point.t_ns / 1e9
        changes = self._bases(h, state, len(sent))
        powers = np.array([h**m / math.factorial(m) for m in range(len(sent))])
        predicted: Floats = powers @ sent
        carried = state.connections["polynomial"][:, : len(powers)] @ powers
        other = predicted - self._sum(state, carried)
        u, y = predicted.copy(), self._exchange.waiting_outputs(t)
        first = Corrected(y)
        key, old = (h, changes.tobytes()), self._jacobian
        inverse = None if old is None or old[0] != key else old[1]
        for done in range(MAX_CORRECTIONS + 1):
            residual = (u - other - self._sum(state, y[self._source]))[self._coupled]
            # The predictor alone is never accepted: with degree 0 it only holds the old value.
            if not len(residual) or (done and (np.abs(residual) <= self._allowed(u)).all()):
                return first
            if done == MAX_CORRECTIONS or not np.isfinite(residual).all():
                break
            if inverse is None or (done == MAX_WITH_OLD_JACOBIAN and not self._low_order):
                attempt = Attempt(h, t, state, sent, changes, u - predicted)
                inverse = np.linalg.inv(self._find_jacobian(attempt, y)).astype(np.float64)
                self._jacobian = key, inverse
            u[self._coupled] -= inverse @ residual
            self._exchange.repeat(point.t_ns, h, sent + changes * (u - predicted))
            self._counts.corrections += 1
            y = self._exchange.waiting_outputs(t)
        worst = self._coupled[np.argmax(np.abs(residual))]
        return first._replace(unsettled=self._numerics.network.inputs.names[worst])

    def _allowed(self, u: Floats) -> Floats:
        """Residuals of the coupled inputs that may remain."""
        inputs, session = self._numerics.plan.inputs[self._coupled], self._numerics.plan.session[0]
        self._largest = np.maximum(self._largest, np.abs(u))
        least: Floats = RESIDUAL * np.maximum(self._largest[self._coupled], 1e-300)
        if not session.variable_step or not session.has_tolerances:
            return least
        tolerated = inputs["atol"] + inputs["rtol"] * np.abs(u[self._coupled])
        return np.maximum(least, SHARE_OF_TOLERANCE * np.asarray(tolerated))

    def _bases(self, h: float, state: State, columns: int) -> Floats:
        """Coefficients added to each input by a change at the step's end, shape (m, nu).

        The degree is that of the input's connections, as far as there are enough samples: one more
        than that of the predictor.
        """
        degree = np.zeros(len(self._owner), np.int64)
        known = state.outputs["degree"][self._source] + 1
        np.maximum.at(degree, self._target, np.minimum(state.connections["order"], known))
        degree = np.minimum(degree, min(len(self._times), columns - 1))
        times = (np.array(self._times) - self._times[0]) / 1e9
        return shapes(degree, times, h, columns)

    def _sum(self, state: State, carried: Floats) -> Floats:
        """Sum of the connections at each input, shape (nu,)."""
        connections = state.connections
        total: Floats = np.zeros(len(self._owner))
        np.add.at(total, self._target, carried * connections["gain"] * connections["acts"])
        return total

    def _find_jacobian(self, attempt: Attempt, y: Floats) -> Floats:
        """Derivative of the residuals with respect to the coupled inputs at the step's end.

        Members of a group are perturbed in one trial.
        """
        h, t, state, sent, changes, shift = attempt
        through = np.zeros((len(self._owner),) * 2)
        by = PERTURBATION * np.maximum(self._largest, 1e-12)
        for s, together in self._trials:
            outputs, inputs = self._exchange.slices[s]
            model = self._models[s] if self._low_order else None
            if model is None:
                moved = shift.copy()
                columns = [i for i, _ in together]
                moved[columns] += by[columns]
                tried = self._exchange.tried(s, h, (sent + changes * moved)[:, inputs])
            for i, responding in together:
                after = y.copy()
                if model is None:
                    own = slice(responding.start - outputs.start, responding.stop - outputs.start)
                    after[responding] = tried[own]
                else:
                    once, twice = integrals(changes[:, i], h)
                    B, D = model.B[:, i - inputs.start], model.D[:, i - inputs.start]
                    response = D + model.C @ (once * B + twice * (model.A @ B))
                    after[outputs] += response * by[i]
                self._exchange.calculated.fill(after, t)
                through[:, i] = self._sum(state, ((after - y) / by[i])[self._source])
        coupled = np.ix_(self._coupled, self._coupled)
        jacobian: Floats = np.eye(len(self._coupled)) - through[coupled]
        return jacobian
