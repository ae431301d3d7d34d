"""The corrections of outputs alone, in sessions that are given by a coupling matrix."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hilrt.coupling.build_model import Identified, Jacobians, build_model
from hilrt.coupling.correct_model import correction_of, prepare_correction
from hilrt.coupling.correct_outputs import Feedthrough, correct_outputs, renew_jacobians
from hilrt.coupling.identify import adopt, identify, matters, pass_noise, take_sample, take_step
from hilrt.coupling.regression import forget, jacobian_entry, observe, predict
from hilrt.coupling.sum_inputs import excite
from hilrt.coupling.trust import Limits
from hilrt.link import Ports
from hilrt.solver import Floats, Port
from hilrt.step.build_plan import Platform
from hilrt.step.numerics import build_numerics
from hilrt.tables.model import Learning, Regression
from hilrt.tables.network import Network
from hilrt.tables.record import Table, cloned
from tests.stepping import make_network

H = 1e-3  # s


def identified_jacobian(at: Regression, learning: Learning, r: int) -> Floats:
    """G_0 ... G_p as identified, shape (p + 1, outputs, inputs), in the ports' units."""
    gamma = np.empty((int(at.terms), int(at.outputs), int(at.inputs)))
    for m, y, u in np.ndindex(gamma.shape):
        i, j = y + int(at.first_output), u + int(at.first_input)
        gamma[m, y, u] = jacobian_entry(at, learning, r, m, i, j)
    return gamma


def network_of(
    L: Floats,
    order: Any = 0,
    *,
    parts: Sequence[tuple[int, int]] | None = None,
    offset: Any = 0.0,
    feedthrough: Any = None,
    h: float = H,
) -> tuple[Network, Any]:
    """Network of subsystems with these numbers of outputs and inputs, coupled by `L` (nu, ny).

    `order` (nu, ny), or of all connections; `offset` (nu,), or of all connected inputs;
    `feedthrough` (ny, nu), which outputs depend on which inputs directly.
    """
    nu, ny = L.shape
    parts = parts or [(ny, nu)]
    orders, offsets = np.broadcast_to(order, L.shape), np.broadcast_to(offset, nu)
    through = np.zeros((ny, nu), dtype=bool) if feedthrough is None else np.asarray(feedthrough)
    outputs, inputs = [], []
    for s, (n_outputs, n_inputs) in enumerate(parts):
        outputs += [f"s{s}.y{i}" for i in range(n_outputs)]
        inputs += [f"s{s}.u{i}" for i in range(n_inputs)]

    def names(side: list[str], s: int) -> list[str]:
        return [name.partition(".")[2] for name in side if name.startswith(f"s{s}.")]

    ports, row, column = {}, 0, 0
    for s, (n_outputs, n_inputs) in enumerate(parts):
        own = names(inputs, s)
        through_part = through[row : row + n_outputs, column : column + n_inputs]
        ports[f"s{s}"] = Ports(
            tuple(Port(name) for name in own),
            tuple(
                Port(name, feedthrough=tuple(u for u, d in zip(own, depends, strict=True) if d))
                for name, depends in zip(names(outputs, s), through_part, strict=True)
            ),
        )
        row, column = row + n_outputs, column + n_inputs
    connections: list[Mapping[str, Any]] = []
    for u, y in np.argwhere(L != 0.0):
        first = not (L[u, :y] != 0.0).any()
        connections.append(
            {
                "from": outputs[y],
                "to": inputs[u],
                "gain": float(L[u, y]),
                "order": int(orders[u, y]),
                "offset": float(offsets[u]) if first else 0.0,
            }
        )
    return make_network(ports, master={"step": h}, connections=connections)


class Corrections:
    """Plan, state and input of a network with Jacobians or feedthrough, and its stages.

    Parameters
    ----------
    network : (Network, Session)
        From `network_of`.
    gamma : ndarray, shape (p + 1, ny, nu), optional
        Jacobians that are given.
    identified : sequence of Identified
    y0 : ndarray, shape (ny,), optional
        Outputs at the start; default: ones.
    """

    def __init__(
        self,
        network: tuple[Network, Any],
        gamma: Floats | None = None,
        alpha: float = 1.0,
        *,
        y0: Floats | None = None,
        identified: Sequence[Identified] = (),
        feedthrough: Feedthrough | None = None,
        limits: Limits | None = None,
    ) -> None:
        net, session = network
        self.network, self.h = net, session.master.step
        ny, nu = len(net.outputs), len(net.inputs)
        y0 = np.ones(ny) if y0 is None else y0
        jacobians = None
        if gamma is not None or identified:
            given = {}
            own = {one.subsystem for one in identified}
            for s in range(len(net.subsystems)):
                if gamma is not None and s not in own:
                    given[s] = gamma[:, net.outputs.slices[s], net.inputs.slices[s]]
            correctable = np.ones(ny, dtype=bool)
            jacobians = Jacobians(self.h, given, identified, correctable, alpha)
        model = build_model(net, y0, jacobians, feedthrough, limits)
        n = len(net.subsystems)
        platform = Platform(np.zeros(n, dtype=bool), np.zeros(n))
        self.numerics = build_numerics(net, session, platform, y0, np.zeros(nu), model=model)
        self.plan, self.state = self.numerics.plan, self.numerics.state
        self.given, self.slack = self.numerics.given, self.numerics.slack
        self.model = self.state.model
        self.tick = 0
        self.given.outputs["fresh"] = 1

    @property
    def outputs(self) -> Table:
        """What the model remembers of the outputs."""
        return self.model.outputs

    @property
    def inputs(self) -> Table:
        """What the model remembers of the inputs."""
        return self.model.inputs

    def correct(self, y: Floats, sent: Floats) -> tuple[Floats, Floats]:
        """Corrected outputs (ny,) and offsets (nu,) after a step with the inputs `sent` (m, nu).

        `sent` are coefficients in the normalised power basis.
        """
        self.tick += 1
        t = self.tick * self.h
        session = self.given.session
        session["tick"], session["t"], session["elapsed"] = self.tick, t, self.h
        self.state.inputs["previous"] = 0.0
        for m, coefficients in enumerate(sent):
            taylor = coefficients * math.factorial(m) / self.h**m
            self.state.inputs["previous"][:, m] = taylor
        self.state.inputs["previous_t0"] = t - self.h
        self.state.outputs["y"] = y
        self.state.outputs["arrived"] = self.given.outputs["fresh"]
        self.given.outputs["t_valid"] = t
        with np.errstate(all="ignore"):
            correct_outputs(self.plan, self.state, self.given)
        return self.outputs["corrected"].copy(), self.state.inputs["offset"].copy()

    def renew(self, gamma: Floats) -> None:
        """Use these Jacobians from now on, where none are identified."""
        self.given.gamma[...] = gamma
        parts = correction_of(self.plan, self.state)
        renew_jacobians(parts, self.plan.model.outputs, self.given.gamma)

    def dither(self, tick: int, amplitude: Floats) -> Floats:
        """What the stage adds to the inputs at a tick, in the normalised power basis, (m, nu)."""
        terms = len(self.model.gamma)
        self.given.session["tick"] = tick
        self.plan.model.inputs["dither"], self.state.inputs["scale"] = 1.0, amplitude
        self.state.inputs["polynomial"] = 0.0
        with np.errstate(all="ignore"):
            excite(self.plan, self.state, self.given)
        power = np.array([self.h**m / math.factorial(m) for m in range(terms)])
        added: Floats = (self.state.inputs["polynomial"][:, :terms] * power).T
        return added

    def learn_all(self) -> None:
        """As the stage of the slack, with all subsystems at once."""
        model, plan = self.model, self.plan.model
        learning, settings = model.learning, plan.settings[0]
        take_step(self.plan, self.state, self.given, len(model.gamma))
        pass_noise(plan.noise_paths, learning.outputs, learning.inputs)
        for r, at in enumerate(plan.regressions):
            take_sample(settings, at, learning, model.work, r, plan.weight[r], True)
            if matters(at, learning, model.gamma, r):
                adopt(at, learning, model.gamma, r)
                prepare_correction(correction_of(self.plan, self.state))

    def identify(self, learns: bool = True) -> None:
        """The stage of the slack."""
        self.slack["learns"] = learns
        with np.errstate(all="ignore"):
            identify(self.plan, self.state, self.given, self.slack)


class Learner:
    """The regression of one subsystem, alone.

    Parameters
    ----------
    ny, nu : int
        Numbers of outputs and inputs.
    order : int
        Degree of the inputs' polynomials.
    limits : Limits, optional
    options
        Those of `Identified`.
    """

    def __init__(
        self, ny: int, nu: int, *, order: int = 0, limits: Limits | None = None, **options: Any
    ) -> None:
        network, one = network_of(np.eye(nu, ny), order), Identified(0, **options)
        session = Corrections(network, identified=[one], limits=limits)
        model = session.plan.model
        self.settings, self.at, self.weight = model.settings[0], model.regressions[0], model.weight
        self.learning, self.work = session.model.learning, session.model.work
        self.memory = self.learning.regressions[0]
        n = int(self.at.regressors)
        self.factor, self.parameters = self.learning.factor[0, :n], self.learning.parameters[0, :n]
        self.prior = self.learning.prior[0, :n]

    def take(self, y: Floats, sent: Floats) -> None:
        """Outputs (ny,), and inputs (m, nu) that acted, of a step, for what is called next."""
        self.learning.outputs["y"] = y
        self.learning.inputs["acted"] = 0.0
        self.learning.inputs["acted"][:, : len(sent)] = np.transpose(sent)

    def observe(self, y: Floats, sent: Floats, *, learn: bool = True) -> bool:
        """Take in a step; whether anything was learned."""
        self.take(y, sent)
        with np.errstate(all="ignore"):
            return bool(observe(self.at, self.learning, self.work, 0, self.weight[0], learn))

    def predict(self, sent: Floats) -> Floats:
        """Outputs after one more step under these inputs."""
        self.take(self.learning.outputs["y"], sent)
        predict(self.at, self.learning, self.work.phi, 0)
        predicted: Floats = self.learning.outputs["predicted"].copy()
        return predicted

    def forget(self) -> None:
        """The parameters have jumped."""
        forget(self.at, self.learning, self.work, 0, self.weight[0])

    def jacobian(self) -> Floats:
        """As identified, shape (order + 1, ny, nu)."""
        return identified_jacobian(self.at, self.learning, 0)

    def copy(self) -> Learner:
        """An independent copy."""
        other = copy.copy(self)
        other.learning = cloned(self.learning)
        other.memory = other.learning.regressions[0]
        n = int(self.at.regressors)
        other.factor, other.prior = other.learning.factor[0, :n], other.learning.prior[0, :n]
        other.parameters = other.learning.parameters[0, :n]
        return other
