"""The implicit scheme: predictor and corrector, for subsystems that can all make a step again.

The explicit step is the predictor. The corrector makes the same step again with inputs that are
interpolated: polynomials of degree k through ``(t_{k+1}, u*)`` and the samples before, where u*
solves the coupling conditions ``u* - L y(t_{k+1}; u*) = 0`` by Newton's method (Multibody Syst.
Dyn. 09817 (2022), section 3.2, eq. 11). What the step of the master is given are the corrected
outputs, so that a log is replayed as ever. Outputs with feedthrough have been evaluated with u*
itself: there is no lag.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import numpy as np

from hilrt.errors import HilrtError
from hilrt.exchange.exchange import Exchange
from hilrt.link import LinearModel
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.tables.ports import Ints
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping

#: Residual of a coupling condition that is left, relative to the largest value of the input.
LEFT: Final = 1e-10
#: Corrector steps; a contraction as slow as that is a sign of too long a step.
MOST_CORRECTIONS: Final = 12
#: Perturbation of an input for its differences, relative to its largest value.
PERTURBATION: Final = 1e-6
#: A Jacobian of an earlier step that needed more corrections than this is found anew.
MOST_OF_OLD: Final = 3


def basis(degree: int, times: Floats, h: float) -> Floats:
    """Taylor coefficients about now of the polynomial that is 1 at `h` and 0 at `times`.

    ``L^k(t) = prod_{j<k} (t - T_{N-j}) / (T_{N+1} - T_{N-j})`` (eq. 17): what an interpolation
    polynomial through another value at the step's end has beside the one before.

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
    """Integral, and integral of the integral, of such a polynomial over the step.

    The constants ``H C_vel`` and ``H^2 C_pos`` of eqs. 17 and 20.
    """
    m = np.arange(len(coefficients))
    once = [h ** (k + 1) / math.factorial(k + 1) for k in m]
    twice = [h ** (k + 2) / math.factorial(k + 2) for k in m]
    return float(coefficients @ once), float(coefficients @ twice)


class ImplicitScheme:
    """Corrects each step before its samples are taken; one of the things to do between two steps.

    Parameters
    ----------
    numerics : Numerics
    exchange : Exchange
        Its links keep the state before each step from now on.
    low_order : bool
        The interface Jacobian is that of a low-order expansion of the subsystems' linear models
        about their start (appendix A.2), instead of finite differences (A.1).

    Attributes
    ----------
    corrections : int
        Corrector steps so far.

    Raises
    ------
    ConfigError
        If a subsystem cannot make a step again.
    """

    def __init__(self, numerics: Numerics, exchange: Exchange, low_order: bool = False) -> None:
        exchange.keep_states("[master] scheme = 'implicit'", "'explicit'")
        self._numerics, self._exchange, self._low_order = numerics, exchange, low_order
        plan, network = numerics.plan, numerics.network
        self._coupled: Ints = np.flatnonzero(plan.inputs["connected"])
        self._owner = network.inputs.owner
        self._source, self._target = network.connections.source, network.connections.targets()
        self._times: deque[int] = deque(maxlen=int(plan.session["coefficients"][0]) + 1)
        self._largest = np.zeros(len(network.inputs))
        self._models: list[LinearModel | None] = []
        self._jacobian: tuple[object, Floats] | None = None
        self.corrections = 0

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Correct the step that has led to `point`, which all subsystems have reached."""
        if point.elapsed_ns and len(self._coupled):
            self._correct(point)
        elif self._low_order:
            h = float(self._numerics.plan.session["first_step"][0])
            for link, (_, inputs) in zip(self._exchange.links, self._exchange.slices, strict=True):
                u = self._numerics.state.inputs["extrapolated"][inputs, 0].copy()
                self._models.append(await link.probes.linear_model(h, u))
        self._times.appendleft(point.t_ns)
        return point

    def _correct(self, point: CommunicationPoint) -> None:
        """Newton's method on the coupling conditions at the end of the step."""
        h, sent = point.elapsed_ns / 1e9, self._exchange.sent
        shapes = self._bases(h)
        powers = np.array([h**m / math.factorial(m) for m in range(len(sent))])
        predicted: Floats = powers @ sent
        other = predicted - self._carried(powers)
        u, y = predicted.copy(), self._exchange.answers()
        key, old = (h, shapes.tobytes()), self._jacobian
        jacobian = None if old is None or old[0] != key else old[1]
        for done in range(MOST_CORRECTIONS + 1):
            residual = (u - other - self._summed(y))[self._coupled]
            self._largest = np.maximum(self._largest, np.abs(u))
            allowed = LEFT * np.maximum(self._largest[self._coupled], 1e-300)
            # The predictor itself is never let stand: with degree 0 it has held the old value.
            if done and (np.abs(residual) <= allowed).all():
                self.corrections += done
                return
            if done == MOST_CORRECTIONS or not np.isfinite(residual).all():
                break
            if jacobian is None or (done == MOST_OF_OLD and not self._low_order):
                jacobian = self._find_jacobian(h, sent, shapes, u - predicted, y)
                self._jacobian = key, jacobian
            u[self._coupled] -= np.linalg.solve(jacobian, residual)
            self._exchange.repeat(point.t_ns, h, sent + shapes * (u - predicted))
            y = self._exchange.answers()
        worst = self._numerics.network.inputs.names[self._coupled[np.argmax(np.abs(residual))]]
        raise HilrtError(
            f"the corrector has not converged at t = {point.t_ns / 1e9:g} s, worst at {worst}; "
            "take a shorter [master] step"
        )

    def _bases(self, h: float) -> Floats:
        """Coefficients of what a change at the step's end adds to each input, shape (m, nu).

        The degree is that of the input's connections, as far as there are points for it.
        """
        orders = self._numerics.state.connections["order"]
        degree = np.zeros(len(self._owner), np.int64)
        np.maximum.at(degree, self._target, orders)
        degree = np.minimum(degree, len(self._times))
        times = (np.array(self._times) - self._times[0]) / 1e9
        shapes: Floats = np.zeros(self._exchange.sent.shape)
        for k in np.unique(degree).tolist():
            shapes[: k + 1, degree == k] = basis(k, times, h)[:, None]
        return shapes

    def _carried(self, powers: Floats) -> Floats:
        """Extrapolated values of the connections at the step's end, summed at the inputs."""
        polynomials = self._numerics.state.connections["polynomial"]
        carried: Floats = polynomials[:, : len(powers)] @ powers
        return self._sum(carried)

    def _summed(self, y: Floats) -> Floats:
        """Outputs as the connections carry them, summed at the inputs."""
        return self._sum(y[self._source])

    def _sum(self, carried: Floats) -> Floats:
        connections = self._numerics.state.connections
        total: Floats = np.zeros(len(self._owner))
        np.add.at(total, self._target, carried * connections["gain"] * connections["acts"])
        return total

    def _find_jacobian(
        self, h: float, sent: Floats, shapes: Floats, shift: Floats, y: Floats
    ) -> Floats:
        """Derivative of the residuals by the inputs at the step's end, both of the coupled ones."""
        response = np.zeros((len(y), len(self._coupled)))
        for column, i in enumerate(self._coupled.tolist()):
            s = int(self._owner[i])
            outputs, inputs = self._exchange.slices[s]
            model = self._models[s] if self._low_order else None
            if model is not None:
                own = i - inputs.start
                once, twice = integrals(shapes[:, i], h)
                B = model.B[:, own]
                response[outputs, column] = model.D[:, own] + model.C @ (
                    once * B + twice * (model.A @ B)
                )
                continue
            by = PERTURBATION * max(float(self._largest[i]), 1e-12)
            moved = shift.copy()
            moved[i] += by
            coefficients = (sent + shapes * moved)[:, inputs]
            response[outputs, column] = (self._exchange.tried(s, h, coefficients) - y[outputs]) / by
        through = np.array([self._summed(column)[self._coupled] for column in response.T]).T
        found: Floats = np.eye(len(self._coupled)) - through
        return found
