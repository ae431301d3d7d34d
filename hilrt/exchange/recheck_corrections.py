"""What corrections rest on, compared with the subsystems again while a session runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from hilrt.config.structs import Session
from hilrt.exchange.verify_corrections import Trial, find_contradictions, is_stated, sides_of
from hilrt.link import Link
from hilrt.step.numerics import Numerics
from hilrt.tables.model import Model
from hilrt.tables.plan import WRONG
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping

#: Steps between two trials of a Jacobian that is renewed in every step.
ALWAYS_EVERY = 100

log = logging.getLogger("hilrt.corrections")


class RecheckCorrections:
    """Holds what the session file or a solver states against a trial, every `refresh` steps.

    One of the things to do between two steps, as fast as possible, after Jacobians were renewed.
    Bonds that were wrong before the first tick stay so. What it finds arrives with the next step's
    input, so that it is recorded and replayed.

    Parameters
    ----------
    numerics : Numerics
    tables, links
        The session's.
    """

    def __init__(self, numerics: Numerics, tables: Session, links: Sequence[Link]) -> None:
        self.numerics, self.tables, self.links = numerics, tables, links
        verified = (numerics.plan.bonds["verification"] != WRONG).tolist()
        self._wrong = [False] * len(verified)
        self._every = {
            b: every
            for b, right in enumerate(verified)
            if right and (every := self._steps_between_trials(b))
        }

    @property
    def needed(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self._every)

    def _steps_between_trials(self, b: int) -> int:
        """Of bond `b`: the least `refresh` of the subsystems whose word is kept; 0 for never."""
        found = []
        network = self.numerics.network
        method = network.bonds.tables[b].correction.method
        if method not in ("feedthrough", "model"):
            return 0
        for s in sides_of(network, b):
            options = self.tables.subsystems[self.links[s].name].jacobian
            given = options is not None and options.gives and options.D is not None
            # A feedthrough correction keeps the D of the start, wherever it came from.
            stated = given or is_stated(options) or method == "feedthrough"
            if options is not None and stated and options.refresh:
                found.append(ALWAYS_EVERY if options.refresh == "always" else options.refresh)
        return min(found, default=0)

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Compare what is due; returns `point`."""
        due = [b for b, every in self._every.items() if point.tick and point.tick % every == 0]
        if due:
            await self._compare(due, point.t_ns / 1e9)
        return point

    async def _compare(self, bonds: list[int], t: float) -> None:
        numerics, network = self.numerics, self.numerics.network
        inputs = np.ascontiguousarray(numerics.state.inputs["extrapolated"][:, 0])
        scales = np.ascontiguousarray(numerics.state.inputs["scale"])
        trial = Trial(network, self.tables, self.links, inputs, t, scales)
        remembered = numerics.state.model
        if numerics.given.session["renewed"][0]:
            remembered = remembered._replace(gamma=numerics.given.gamma)
        model = Model(numerics.plan.model, remembered)
        for b in bonds:
            bond = network.bonds.tables[b]
            remarks = await find_contradictions(trial, b, bond, model)
            if remarks is None or bool(remarks) == self._wrong[b]:
                continue
            self._wrong[b] = bool(remarks)
            for remark in remarks:
                log.warning("bond %r at t = %.6g s: %s", bond.name, t, remark)
            numerics.changes.add(f"bonds.{bond.name}.contradicted", float(self._wrong[b]))
