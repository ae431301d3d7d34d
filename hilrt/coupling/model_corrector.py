"""The model-based corrector of a session: Jacobians given or identified, and what it corrects.

Joins `correct_model` (the correction) and `identify` (learning Γ while the session runs) into the
two things the macro step needs: `correct` on the critical path and `learn` in the slack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hilrt.coupling import correct_model, identify
from hilrt.coupling.regression import Settings
from hilrt.coupling.trust import Reason
from hilrt.network import Bools, Ints, Network
from hilrt.solver import Floats


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
    _power: Floats
    _parts: list[int]
    _y: Floats = field(default_factory=lambda: np.zeros(0))
    _sent: Floats = field(default_factory=lambda: np.zeros(0))

    def correct(self, y: Floats, sent: Floats) -> Floats:
        """Corrected outputs, shape (ny,); `offset` is updated.

        Parameters
        ----------
        y : ndarray, shape (ny,)
            Outputs as measured.
        sent : ndarray, shape (order + 1, nu)
            Taylor coefficients of the inputs as sent, about the start of the step.
        """
        self._y, self._sent = y, sent * self._power
        corrected, self.offset = correct_model.correct(self.state, self.plan, y, self._sent)
        return corrected

    def restart(self, y: Floats) -> None:
        """Forget the past after a step that was not `h` long."""
        self.state = correct_model.start(self.plan, y)
        self.offset = np.zeros_like(self.offset)
        self._y = np.zeros(0)

    def learn(self, tick: int, measured: Sequence[bool]) -> None:
        """Take in the step just corrected; subsystems learn in turn, one per tick.

        `measured` says for every subsystem whether its outputs were sampled at this communication
        point.
        """
        if self.learning is None or self.learned is None or not len(self._y):
            return
        changed = identify.identify(
            self.learned,
            self.learning,
            self._y,
            self._sent,
            correct_model.input_errors(self.state, self.plan, self._sent),
            measured=[measured[s] for s in self._parts],
            learn=[tick % len(self._parts)],
        )
        if changed:
            self.plan = correct_model.build_plan(
                self.plan.coupling, self.learned.gamma, self.alpha, start_up=False
            )

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
        inactive: Bools = self.learned.reason != Reason.USED
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
    coupling = correct_model.couple(
        network.L, orders, offset=network.offset, feedthrough=network.feedthrough
    )
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
        _power=np.array([h**m / math.factorial(m) for m in range(order + 1)])[:, None],
        _parts=[i.subsystem for i in identified],
    )


def connection_orders(network: Network) -> Ints:
    """Extrapolation degree from every output to every input, shape (nu, ny)."""
    connections = network.connections
    orders = np.zeros(network.L.shape, dtype=np.intp)
    count = np.diff(np.append(connections.first, len(connections.source)))
    np.maximum.at(
        orders, (np.repeat(connections.target, count), connections.source), connections.order
    )
    return orders
