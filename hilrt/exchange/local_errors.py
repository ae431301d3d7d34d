"""Local error of a step, from a second one with the same beginning and other inputs.

Estimators of *Multibody Syst. Dyn.* 09817 (2022), section 4, for outputs of subsystems that can
make a step again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hilrt.config.read_values import names_channel
from hilrt.config.structs import StepControl
from hilrt.coupling.choose_step import scaling_factor
from hilrt.exchange.exchange import Exchange
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.tables.ports import Ints
from hilrt.tables.record import Table
from hilrt.tables.state import OutputState, State


class StepError(NamedTuple):
    """Error of a step over what is tolerated, its scaling factor (eq. 34), and the worst output."""

    error: float
    scaling: float
    worst: str


#: Where nothing is extrapolated: it decides nothing.
NO_ESTIMATE = StepError(math.nan, math.nan, "")


def newton_terms(outputs: Table[OutputState], j: Ints) -> Floats:
    """Taylor coefficients about now of ``y[t_0 ... t_j] (t - t_0) ... (t - t_{j-1})``.

    What the extrapolation polynomial of degree j has beside that of degree j - 1.

    Parameters
    ----------
    outputs : table, n rows
    j : ndarray of int, shape (n,)

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
    """Estimates the error of a step that all subsystems have made.

    Parameters
    ----------
    numerics : Numerics
    exchange : Exchange
        Its links keep the state before each step.
    control : StepControl
        With an estimator of outputs.
    """

    def __init__(self, numerics: Numerics, exchange: Exchange, control: StepControl) -> None:
        plan, network = numerics.plan, numerics.network
        self._plan, self._exchange = plan, exchange
        self._names = network.outputs.names
        self._source, self._target = network.connections.source, network.connections.targets()
        fed = np.zeros(len(network.subsystems), np.bool_)
        fed[network.inputs.owner[network.connected]] = True
        positions = [
            any(names_channel(pattern, name) for pattern in control.positions)
            for name in self._names
        ]
        level = np.where(positions, 2, 1)
        level[network.feedthrough.in_row | ~fed[network.outputs.owner]] = 0
        #: Outputs, and the power of the step that their errors have beyond the degree.
        self._levels = [(np.flatnonzero(level == n), n + 1) for n in (1, 2)]

    def estimate(self, h: float, state: State, sent: Floats) -> StepError:
        """StepError the error of the step of `h` [s] that was made with the inputs `sent`.

        `state` is that of the step's beginning; `sent` has the shape (order + 1, nu).
        """
        found = self.other_inputs(h, state, len(sent) - 1)
        if found is None:
            return NO_ESTIMATE
        degree, inputs = found
        return self._judge(self.differences(h, sent, inputs), self._exchange.answers(), degree)

    def differences(self, h: float, sent: Floats, more: Floats) -> Floats:
        """Magnitudes of what the outputs would differ by with `more` in the inputs, shape (ny,)."""
        y = self._exchange.answers()
        found: Floats = np.zeros(len(y))
        for s, (outputs, part) in enumerate(self._exchange.slices):
            if more[:, part].any():
                other = self._exchange.tried(s, h, padded(sent[:, part], more[:, part]))
                found[outputs] = np.abs(other - y[outputs])
        return found

    def other_inputs(self, h: float, state: State, highest: int) -> tuple[int, Floats] | None:
        """Degree whose error shows (ExLocal, section 4.1), and what the inputs have besides.

        That is one more term; as long as samples do not suffice for that, one less. In the first
        step, which has one sample, it is the line to what the outputs have answered.

        Parameters
        ----------
        h : float
            Length of the step, s.
        state : State
            At its beginning.
        highest : int
            Highest degree of what was sent.
        """
        carried, outputs = state.connections, state.outputs[self._source]
        known = outputs["degree"]
        degree = np.minimum(np.minimum(carried["order"], known), highest)
        counts = (carried["acts"] != 0) & (self._plan.connections["raw"] == 0)
        counts &= state.inputs["limited"][self._target] == 0
        if not counts.any():
            return None
        lowest = int(degree[counts].min())
        if (known[counts] > degree[counts]).all():
            terms = newton_terms(outputs, degree + 1)
        elif lowest > 0:
            lowest, terms = lowest - 1, -newton_terms(outputs, degree)
        else:
            rise = self._exchange.answers()[self._source] - outputs["y"]
            terms = np.array([np.zeros(len(rise)), rise / h])
        inputs: Floats = np.zeros((len(state.inputs), len(terms)))
        np.add.at(inputs, self._target, (terms * (carried["gain"] * counts)).T)
        return lowest, inputs.T

    def _judge(self, difference: Floats, y: Floats, degree: int) -> StepError:
        """Norms of both levels (eq. 26), and the smaller of their scaling factors (eq. 32)."""
        settings = self._plan.session[0]
        tolerated = self._plan.outputs["atol"] + settings.rtol * np.abs(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(tolerated > 0.0, difference / tolerated, 0.0)
        error, scaling = 0.0, math.inf
        for outputs, more in self._levels:
            if len(outputs):
                norm = float(np.sqrt(np.mean(ratio[outputs] ** 2)))
                error = max(error, norm)
                scaling = min(scaling, scaling_factor(norm, degree + more, settings.safety))
        worst = max((i for outputs, _ in self._levels for i in outputs), key=ratio.__getitem__)
        return StepError(error, scaling, self._names[worst])


def padded(sent: Floats, more: Floats) -> Floats:
    """Sum of coefficients of polynomials of different degrees."""
    total: Floats = np.zeros((max(len(sent), len(more)), sent.shape[1]))
    total[: len(sent)] += sent
    total[: len(more)] += more
    return total
