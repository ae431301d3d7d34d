"""The stage that corrects outputs by Jacobians, alone: fed with outputs and inputs of one's own."""

from __future__ import annotations

import math

import numpy as np

from hilrt.coupling.build_model import Jacobians, build_model
from hilrt.coupling.correct_outputs import correct_outputs
from hilrt.link import Ports
from hilrt.solver import Floats, Port
from hilrt.step.build_plan import Platform
from hilrt.step.numerics import build_numerics
from hilrt.tables.ports import Bools
from tests.stepping import make_network


class CorrectorStage:
    """One subsystem that is all of the session, coupled to itself by `L` (nu, ny).

    Parameters
    ----------
    order : ndarray of int, shape (nu, ny)
        Of every connection.
    gamma : ndarray, shape (p + 1, ny, nu)
    feedthrough : ndarray of bool, shape (ny, nu)
    past : ndarray, shape (samples, ny)
        Corrected outputs so far, newest first.
    """

    def __init__(
        self,
        L: Floats,
        order: np.ndarray,
        gamma: Floats,
        alpha: float,
        feedthrough: Bools,
        past: Floats,
        h: float,
    ) -> None:
        nu, ny = L.shape
        inputs = tuple(f"u{u}" for u in range(nu))
        outputs = (
            Port(f"y{y}", feedthrough=tuple(np.array(inputs)[feedthrough[y]])) for y in range(ny)
        )
        ports = {"all": Ports(tuple(Port(name) for name in inputs), tuple(outputs))}
        connections = [
            {
                "from": f"all.y{y}",
                "to": f"all.u{u}",
                "gain": float(L[u, y]),
                "order": int(order[u, y]),
            }
            for u, y in np.argwhere(L)
        ]
        self.h, self.steps = h, 0
        self.network, tables = make_network(ports, connections=connections, master={"step": h})
        jacobians = Jacobians(h, {0: gamma}, [], np.ones(ny, dtype=bool), alpha)
        self.numerics = build_numerics(
            self.network,
            tables,
            Platform(np.zeros(1, dtype=bool), np.zeros(1)),
            past[0],
            np.zeros(nu),
            model=build_model(self.network, past[0], jacobians),
        )
        self.model = self.numerics.state.model
        self.model.session["samples"] = len(past)
        self.model.outputs["past"][:, : len(past)] = past.T

    def correct(self, y: Floats, sent: Floats) -> tuple[Floats, Floats]:
        """Corrected outputs and offsets after a step with inputs of these coefficients.

        `sent` (p + 1, nu) belongs to powers of (t - start)/h.
        """
        state, given = self.numerics.state, self.numerics.given
        self.steps += 1
        given.session["t"], given.session["elapsed"] = self.steps * self.h, self.h
        for m, coefficients in enumerate(sent):
            state.inputs["previous"][:, m] = coefficients * math.factorial(m) / self.h**m
        state.inputs["previous_t0"] = (self.steps - 1) * self.h
        state.outputs["y"] = y
        correct_outputs(self.numerics.plan, state, given)
        return state.outputs["y"].copy(), state.inputs["offset"].copy()
