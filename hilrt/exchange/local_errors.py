"""Local error of a step, by the five estimators of *Multibody Syst. Dyn.* 09817 (2022), section 4.

The estimators of inputs (ExSLocal, ImSLocal) compare the inputs as sent with the resulting outputs;
those of outputs (ExLocal, ExMilne, ImMilne) compare two steps from the same state.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hilrt.config.read_values import names_channel
from hilrt.config.structs import StepControl
from hilrt.coupling.choose_step import scaling_factor
from hilrt.exchange.exchange import Exchange
from hilrt.exchange.implicit_scheme import basis, integrals, shapes
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.tables.plan import InputPlan, OutputPlan
from hilrt.tables.ports import Bools, Ints
from hilrt.tables.record import Table
from hilrt.tables.state import OutputState, State
from hilrt.timing.grid import CommunicationPoint


class StepError(NamedTuple):
    """Error of a step over its tolerance, factor on the step (eq. 32), and the worst signal."""

    error: float
    scaling: float
    worst: str


#: Result if nothing is extrapolated; it does not influence the step.
NO_ESTIMATE = StepError(math.nan, math.nan, "")


def newton_terms(outputs: Table[OutputState], j: Ints) -> Floats:
    """Taylor coefficients about the present time of ``y[t_0 ... t_j] (t - t_0) ... (t - t_{j-1})``.

    Terms of the extrapolation polynomial of degree j that are missing in that of degree j - 1.

    Parameters
    ----------
    outputs : table, n rows
    j : ndarray of int, shape (n,)
        Degree by output.

    Returns
    -------
    ndarray, shape (max(j) + 1, n)
    """
    highest = int(j.max())
    powers: Floats = np.zeros((highest + 1, len(j)))
    powers[0] = np.take_along_axis(outputs["differences"], j[:, None], axis=1)[:, 0]
    for i in range(highest):
        raised = -outputs["nodes"][:, i] * powers
        raised[1:] += powers[:-1]
        powers = np.where(i < j, raised, powers)
    factorials = [math.factorial(m) for m in range(highest + 1)]
    return powers * np.array(factorials, np.float64)[:, None]


class LocalErrors:
    """Estimator of the error of a step that all subsystems have completed.

    Parameters
    ----------
    numerics : Numerics
    exchange : Exchange
        Its links keep the state before each step.
    control : StepControl
    """

    def __init__(self, numerics: Numerics, exchange: Exchange, control: StepControl) -> None:
        plan, network = numerics.plan, numerics.network
        self._plan, self._exchange, self._estimator = plan, exchange, control.estimator
        self._names, self._inputs = network.outputs.names, network.inputs.names
        self._source, self._target = network.connections.source, network.connections.targets()
        self._judged = np.flatnonzero((plan.inputs["connected"] != 0) & (plan.inputs["exact"] == 0))
        fed = np.zeros(len(network.subsystems), np.bool_)
        fed[network.inputs.owner[network.connected]] = True
        positions = [
            any(names_channel(pattern, name) for pattern in control.positions)
            for name in self._names
        ]
        level = np.where(positions, 2, 1)
        level[network.feedthrough.in_row | ~fed[network.outputs.owner]] = 0
        #: Outputs of velocity and of position level.
        self._levels = [np.flatnonzero(level == n) for n in (1, 2)]

    def estimate(
        self, point: CommunicationPoint, state: State, sent: Floats, predicted: Floats | None
    ) -> StepError:
        """Estimate the error of the step to `point`.

        Parameters
        ----------
        point : CommunicationPoint
        state : State
            At the beginning of the step.
        sent : ndarray, shape (order + 1, nu)
            Taylor coefficients of the inputs of the step, or of its predictor.
        predicted : ndarray, shape (ny,), or None
            Outputs of the predictor, if a corrector has repeated the step.
        """
        h, y = point.elapsed_ns / 1e9, self._exchange.waiting_outputs(point.t_ns / 1e9)
        degree, known, counts = self._degrees(state, len(sent) - 1)
        if not counts.any():
            return NO_ESTIMATE
        lowest = int(degree[counts].min())
        if self._estimator == "inputs":
            return self._of_inputs(h, state, sent, y, lowest)
        if predicted is not None:
            ratios = self.error_constants(h, state, lowest)
            if (known[counts] < state.connections["order"][counts]).any():
                # The corrector has one degree more: the difference is the error.
                ratios = np.zeros(2)
            return self._judge(np.abs(predicted - y), y, lowest, np.abs(1.0 - ratios))
        lowest, inputs, ratios = self.other_inputs(h, state, len(sent) - 1, y)
        return self._judge(self.differences(h, sent, inputs, y), y, lowest, ratios)

    def _degrees(self, state: State, highest: int) -> tuple[Ints, Ints, Bools]:
        """By connection: degree, degree that its samples permit, whether its error is estimated."""
        carried, known = state.connections, state.outputs["degree"][self._source]
        counts = (carried["acts"] != 0) & (self._plan.connections["raw"] == 0)
        counts &= state.inputs["limited"][self._target] == 0
        return np.minimum(np.minimum(carried["order"], known), highest), known, counts

    def differences(self, h: float, sent: Floats, more: Floats, y: Floats) -> Floats:
        """Magnitudes of the outputs' changes, shape (ny,), if `more` is added to the inputs."""
        found: Floats = np.zeros(len(y))
        for s, (outputs, part) in enumerate(self._exchange.slices):
            if more[:, part].any():
                other = self._exchange.tried(s, h, padded(sent[:, part], more[:, part]))
                found[outputs] = np.abs(other - y[outputs])
        return found

    def error_constants(self, h: float, state: State, degree: int) -> Floats:
        """``C^{k+1} / C^k`` of velocities and positions (eqs. 17 and 20), shape (2,)."""
        outputs = state.outputs[self._source]
        nodes = outputs["nodes"][np.argmax(outputs["degree"])]
        lower, higher = (integrals(basis(degree + n, nodes, h), h) for n in (0, 1))
        return np.divide(higher, lower)

    def other_inputs(
        self, h: float, state: State, highest: int, y: Floats
    ) -> tuple[int, Floats, Floats]:
        """Terms by which the inputs of the second step differ from those of the first.

        ExLocal (section 4.1): one more term of Newton's form; one term less while there are too few
        samples; in the first step, with one sample, the line to the resulting outputs. ExMilne
        (section 4.2): an interpolation of the same degree through the value that one more term
        gives at the end.

        Parameters
        ----------
        h : float
            Length of the step, s.
        state : State
            State at its beginning.
        highest : int
            Highest degree of the inputs as sent.
        y : ndarray, shape (ny,)
            Resulting outputs.

        Returns
        -------
        int, ndarray of shape (n, nu), ndarray of shape (2,)
            Degree of the estimated error, Taylor coefficients, and the factors from the difference
            of the two steps to the error, for velocities and positions.
        """
        outputs = state.outputs[self._source]
        degree, known, counts = self._degrees(state, highest)
        lowest, ratios = int(degree[counts].min()), np.ones(2)
        enough = bool((known[counts] > degree[counts]).all())
        if enough:
            terms = newton_terms(outputs, degree + 1)
        elif lowest > 0:
            lowest, terms = lowest - 1, -newton_terms(outputs, degree)
        else:
            rise = y[self._source] - outputs["y"]
            terms = np.array([np.zeros(len(rise)), rise / h])
        terms *= state.connections["gain"] * counts
        inputs: Floats = np.zeros((len(state.inputs), len(terms)))
        np.add.at(inputs, self._target, terms.T)
        more: Floats = inputs.T
        if enough and self._estimator == "milne":
            ratios = self.error_constants(h, state, lowest)
            at_inputs = np.zeros(len(inputs), np.int64)
            np.maximum.at(at_inputs, self._target, degree)
            powers = [h**m / math.factorial(m) for m in range(len(more))]
            nodes = outputs["nodes"][np.argmax(known)]
            more = shapes(at_inputs, nodes, h, len(more) - 1) * (np.array(powers) @ more)
        return lowest, more, ratios

    def _of_inputs(self, h: float, state: State, sent: Floats, y: Floats, degree: int) -> StepError:
        """Error of the inputs as sent against the outputs of their sources (eqs. 21 and 24)."""
        powers = np.array([h**m / math.factorial(m) for m in range(len(sent))])
        connections = state.connections
        deviation = connections["polynomial"][:, : len(sent)] @ powers - y[self._source]
        error = np.zeros(sent.shape[1])
        np.add.at(error, self._target, deviation * connections["gain"] * connections["acts"])
        ratio = weighted(np.abs(error), self._plan.inputs, powers @ sent - error)[self._judged]
        norm = root_mean_square(ratio)
        scaling = scaling_factor(norm, degree + 1, self._plan.session[0].safety)
        return StepError(norm, scaling, self._inputs[self._judged[np.argmax(ratio)]])

    def _judge(self, difference: Floats, y: Floats, degree: int, ratios: Floats) -> StepError:
        """Larger norm of both levels (eq. 26), and the smaller of their factors (eq. 32)."""
        safety, found = self._plan.session[0].safety, StepError(0.0, math.inf, "")
        ratio = weighted(difference, self._plan.outputs, y)
        for level, outputs in enumerate(self._levels):
            if len(outputs):
                own = ratio[outputs] * ratios[level]
                norm = root_mean_square(own)
                scaling = min(found.scaling, scaling_factor(norm, degree + level + 2, safety))
                found = found._replace(scaling=scaling)
                if norm >= found.error:
                    found = found._replace(error=norm, worst=self._names[outputs[np.argmax(own)]])
        return found


def weighted(error: Floats, ports: Table[InputPlan] | Table[OutputPlan], values: Floats) -> Floats:
    """Errors divided by ``atol + rtol |value|``; 0 where there is no tolerance."""
    tolerated = ports["atol"] + ports["rtol"] * np.abs(values)
    ratio: Floats = np.zeros(len(error))
    np.divide(error, tolerated, out=ratio, where=tolerated > 0.0)
    return ratio


def root_mean_square(values: Floats) -> float:
    """WRMS norm (eq. 25) of weighted errors."""
    return float(np.sqrt(np.mean(values**2)))


def padded(sent: Floats, more: Floats) -> Floats:
    """Sum of coefficients of polynomials of different degrees."""
    total: Floats = np.zeros((max(len(sent), len(more)), sent.shape[1]))
    total[: len(sent)] += sent
    total[: len(more)] += more
    return total
