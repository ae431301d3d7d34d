"""Jacobians that a session asks for again while it runs, when they no longer predict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.config.structs import Session
from hilrt.coupling.identify import dither
from hilrt.coupling.probe import PERTURBATION
from hilrt.exchange.jacobians import bond_sides
from hilrt.link import Link
from hilrt.solver import Floats
from hilrt.step.step_state import StepState
from hilrt.tables.network import Network
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping


class JacobianRenewal:
    """Keeps Jacobians while they predict, and asks for new ones when they do not.

    One of the things to do between two steps, as fast as possible.

    The test is the one that Haid et al. (2022) suggest in their conclusion, on the subsystem
    itself: how the outputs answer to one change of the inputs is compared with what Γ says of it.

    Parameters
    ----------
    network, tables, links
        The session's.
    state : StepState
        Of a session with a model corrector.

    Attributes
    ----------
    checks, refreshed : int
        Comparisons made, and Jacobians replaced.
    """

    #: Share of the answer by which the prediction may be off.
    TOLERANCE = 0.02

    def __init__(
        self, network: Network, tables: Session, links: Sequence[Link], state: StepState
    ) -> None:
        assert state.model is not None
        self.network, self.links, self.model, self._state = network, links, state.model, state
        self.checks = self.refreshed = 0
        self._every = {}
        # No other subsystem is corrected, or needs to take steps of the session's length.
        for s in sorted(set().union(*bond_sides(network, "model"))):
            option = tables.subsystems[links[s].name].jacobian
            if option is not None and option.refresh and option.source in ("solver", "probe"):
                self._every[s] = (option.refresh, option.source)

    def due(self, tick: int) -> list[int]:
        """Subsystems to look at before the macro step `tick`."""
        return [s for s, (every, _) in self._every.items() if tick and tick % every == 0]

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Compare, and renew where needed, the Jacobians that are due; returns `point`."""
        await self.renew(point.tick, point.t_ns * 1e-9, self._state.measured[0])
        return point

    async def renew(self, tick: int, t: float, u: Floats) -> None:
        """Check the subsystems that are due at `t` [s], around the inputs `u`, shape (nu,)."""
        for s in self.due(tick):
            self.checks += 1
            rows, columns = self.network.outputs.slices[s], self.network.inputs.slices[s]
            order, inputs = self.model.plan.order, u[columns]
            direction = dither(tick, PERTURBATION * np.maximum(1.0, np.abs(inputs)), order)
            answer = await self.links[s].response(t, self.model.h, inputs, direction)
            if answer is not None:
                known = self.model.gamma[:, rows, columns]
                predicted = np.einsum("mij,mj->i", known, direction)
                wrong = np.abs(answer - predicted)[self.model.keep[rows]]
                if (wrong <= self.TOLERANCE * np.abs(answer).max()).all():
                    continue
            source = self._every[s][1]
            gamma = await self.links[s].jacobian(source, t, self.model.h, order, inputs)
            if gamma is not None:
                self.model.replace(rows, columns, gamma)
                self.refreshed += 1
