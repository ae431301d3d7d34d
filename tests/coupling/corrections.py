"""The corrections of outputs alone, in sessions that are given by a coupling matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hilrt.coupling.build_model import Identified, Jacobians, build_model
from hilrt.coupling.correct_feedthrough import Feedthrough
from hilrt.coupling.correct_outputs import correct_outputs
from hilrt.coupling.identify import identify
from hilrt.coupling.trust import Limits
from hilrt.link import Ports
from hilrt.solver import Floats, Port
from hilrt.step.build_plan import Platform
from hilrt.step.numerics import build_numerics
from hilrt.tables.network import Network
from hilrt.tables.record import Table
from tests.stepping import make_network

H = 1e-3  # s


def network_of(
    L: Floats,
    order: Any = 0,
    *,
    parts: Sequence[tuple[int, int]] | None = None,
    offset: float = 0.0,
    feedthrough: Any = None,
    h: float = H,
) -> tuple[Network, Any]:
    """Network of subsystems with these numbers of outputs and inputs, coupled by `L` (nu, ny).

    `order` (nu, ny), or of all connections; `offset` of every connected input; `feedthrough`
    (ny, nu), which outputs depend on which inputs directly.
    """
    nu, ny = L.shape
    parts = parts or [(ny, nu)]
    orders = np.broadcast_to(np.asarray(order), L.shape)
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
                "offset": offset if first else 0.0,
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
        self.given.outputs["t_valid"] = t
        with np.errstate(all="ignore"):
            correct_outputs(self.plan, self.state, self.given)
        return self.outputs["corrected"].copy(), self.state.inputs["offset"].copy()

    def identify(self, learns: bool = True) -> None:
        """The stage of the slack."""
        self.slack["learns"] = learns
        with np.errstate(all="ignore"):
            identify(self.plan, self.state, self.given, self.slack)
