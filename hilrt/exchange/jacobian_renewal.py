"""Jacobians that a session asks for again while it runs, when they no longer predict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.config.structs import Session
from hilrt.coupling.jacobian import PERTURBATION
from hilrt.coupling.sum_inputs import dither
from hilrt.exchange.jacobians import bond_sides
from hilrt.link import Link
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping


class JacobianRenewal:
    """Keeps Jacobians while they predict, and asks for new ones when they do not.

    One of the things to do between two steps, as fast as possible.

    The test is the one that Haid et al. (2022) suggest in their conclusion, on the subsystem
    itself: how the outputs answer to a change of the inputs is compared with what Γ says of it.
    Each input is changed alone, in proportion to its running scale: beside the answer to a stiff
    input, the one to another input would not be seen. An answer that contradicts is tried again, up
    to `ANSWERS` times, and counts as far as it is clear of what these differ by: noise of a solver
    whose saved state does not hold its generator renews nothing.

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

    #: Times that an answer is tried. Of five, noise alone contradicted one in some thousand.
    ANSWERS = 9
    #: Share of the answer to an input by which the prediction may be off.
    TOLERANCE = 0.02
    #: An answer of that share of the outputs is rounding.
    ROUNDING = 1e-9

    def __init__(self, numerics: Numerics, tables: Session, links: Sequence[Link]) -> None:
        self.network, self.links = numerics.network, links
        settings = numerics.plan.model.settings[0]
        self._order, self._h = int(settings.order), float(settings.h)
        self._correctable = numerics.plan.model.outputs["correctable"] != 0
        self._connected = numerics.plan.inputs["connected"] != 0
        self._inputs = numerics.state.inputs["extrapolated"][:, 0]
        self._scales, self._outputs = numerics.state.inputs["scale"], numerics.state.outputs["y"]
        #: Jacobians in use, and those that the next step is given.
        self._known, self._given = numerics.state.model.gamma, numerics.given.gamma
        self._renewed = numerics.given.session["renewed"]
        self.checks = self.refreshed = 0
        self._sources: dict[int, str] = {}
        self._every: dict[int, int] = {}
        self._untested: set[int] = set()
        # No other subsystem is corrected, or needs to take steps of the session's length.
        for s in sorted(set().union(*bond_sides(self.network, "model"))):
            option = tables.subsystems[links[s].name].jacobian
            if option is not None and option.refresh and option.source in ("solver", "probe"):
                self._sources[s] = option.source
                if option.refresh == "always":
                    self._untested.add(s)
                self._every[s] = 1 if option.refresh == "always" else option.refresh

    def due(self, tick: int) -> list[int]:
        """Subsystems to look at before the macro step `tick`."""
        return [s for s, every in self._every.items() if tick and tick % every == 0]

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Compare, and renew where needed, the Jacobians that are due; returns `point`."""
        await self.renew(point.tick, point.t_ns / 1e9)
        return point

    async def renew(self, tick: int, t: float) -> None:
        """Check the subsystems that are due at `t` [s], around the inputs of the step before."""
        self._renewed[0] = False
        for s in self.due(tick):
            if s not in self._untested:
                self.checks += 1
                if await self._predicts(s, tick, t):
                    continue
            rows, columns = self.network.outputs.slices[s], self.network.inputs.slices[s]
            inputs = self._inputs[columns].copy()
            gamma = await self.links[s].probes.jacobian(
                self._sources[s], t, self._h, self._order, inputs
            )
            if gamma is not None:
                if not self._renewed[0]:
                    self._given[...] = self._known
                self._given[:, rows, columns] = gamma
                self._renewed[0] = True
                self.refreshed += 1

    async def _predicts(self, s: int, tick: int, t: float) -> bool:
        """Whether the Jacobian of subsystem `s` says how its outputs answer to each input."""
        rows, columns = self.network.outputs.slices[s], self.network.inputs.slices[s]
        inputs, scales = self._inputs[columns].copy(), self._scales[columns]
        sizes = PERTURBATION * np.where(scales > 0.0, scales, np.maximum(1.0, np.abs(inputs)))
        least = self.ROUNDING * np.abs(self._outputs[rows]).max(initial=0.0)
        for i in np.flatnonzero(self._connected[columns]):
            alone = np.where(np.arange(len(sizes)) == i, sizes, 0.0)
            direction = dither(tick, alone, self._order)
            predicted = np.einsum("mij,mj->i", self._known[:, rows, columns], direction)
            answers: list[Floats] = []
            while len(answers) < self.ANSWERS:
                answer = await self.links[s].probes.response(t, self._h, inputs, direction)
                if answer is None:
                    return False
                answers.append(answer)
                differ = np.ptp(answers, axis=0)  # noise, where the same trial comes out otherwise
                wrong = np.abs(np.mean(answers, axis=0) - predicted) - differ
                right = wrong <= self.TOLERANCE * np.abs(answer).max() + least
                if right[self._correctable[rows]].all():
                    break
                if len(answers) == 2 and not differ.any():
                    return False
            else:
                return False
        return True
