"""Jacobians that a session asks for again while it runs, when they no longer predict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.config.structs import Session
from hilrt.coupling.excite import dither
from hilrt.coupling.probe import PERTURBATION
from hilrt.exchange.jacobians import bond_sides
from hilrt.link import Link
from hilrt.step.numerics import Numerics
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping


class JacobianRenewal:
    """Keeps Jacobians while they predict, and asks for new ones when they do not.

    One of the things to do between two steps, as fast as possible.

    The test is the one that Haid et al. (2022) suggest in their conclusion, on the subsystem
    itself: how the outputs answer to one change of the inputs is compared with what Γ says of it.

    Parameters
    ----------
    numerics : Numerics
        Of a session whose outputs are corrected by Jacobians.
    tables, links
        The session's.

    Attributes
    ----------
    checks, refreshed : int
        Comparisons made, and Jacobians replaced.
    """

    #: Share of the answer by which the prediction may be off.
    TOLERANCE = 0.02

    def __init__(self, numerics: Numerics, tables: Session, links: Sequence[Link]) -> None:
        self.network, self.links = numerics.network, links
        settings = numerics.plan.model.settings[0]
        self._order, self._h = int(settings.order), float(settings.h)
        self._correctable = numerics.plan.model.outputs["correctable"] != 0
        self._inputs = numerics.state.inputs["extrapolated"][:, 0]
        #: Jacobians in use, and those that the next step is given.
        self._known, self._given = numerics.state.model.gamma, numerics.given.gamma
        self._renewed = numerics.given.session["renewed"]
        self.checks = self.refreshed = 0
        self._every = {}
        # No other subsystem is corrected, or needs to take steps of the session's length.
        for s in sorted(set().union(*bond_sides(self.network, "model"))):
            option = tables.subsystems[links[s].name].jacobian
            if option is not None and option.refresh and option.source in ("solver", "probe"):
                self._every[s] = (option.refresh, option.source)

    def due(self, tick: int) -> list[int]:
        """Subsystems to look at before the macro step `tick`."""
        return [s for s, (every, _) in self._every.items() if tick and tick % every == 0]

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Compare, and renew where needed, the Jacobians that are due; returns `point`."""
        await self.renew(point.tick, point.t_ns * 1e-9)
        return point

    async def renew(self, tick: int, t: float) -> None:
        """Check the subsystems that are due at `t` [s], around the inputs of the step before."""
        self._renewed[0] = False
        for s in self.due(tick):
            self.checks += 1
            rows, columns = self.network.outputs.slices[s], self.network.inputs.slices[s]
            inputs = self._inputs[columns].copy()
            direction = dither(tick, PERTURBATION * np.maximum(1.0, np.abs(inputs)), self._order)
            answer = await self.links[s].response(t, self._h, inputs, direction)
            if answer is not None:
                predicted = np.einsum("mij,mj->i", self._known[:, rows, columns], direction)
                wrong = np.abs(answer - predicted)[self._correctable[rows]]
                if (wrong <= self.TOLERANCE * np.abs(answer).max()).all():
                    continue
            source = self._every[s][1]
            gamma = await self.links[s].jacobian(source, t, self._h, self._order, inputs)
            if gamma is not None:
                if not self._renewed[0]:
                    self._given[...] = self._known
                self._given[:, rows, columns] = gamma
                self._renewed[0] = True
                self.refreshed += 1
