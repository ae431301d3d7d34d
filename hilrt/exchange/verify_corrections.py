"""Verification of corrections by trials: before the first tick, and while the session runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from hilrt.config.structs import Bond, JacobianOptions, Session
from hilrt.coupling.build_model import highest_order
from hilrt.coupling.correct_outputs import feedthrough_matrices
from hilrt.coupling.jacobian import INSTANT_S
from hilrt.coupling.mu import SideFlow, find_side_flow
from hilrt.coupling.trust import Verification, contradicts
from hilrt.exchange.jacobians import INSTANT
from hilrt.link import Link
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.tables.model import Model
from hilrt.tables.network import Network
from hilrt.tables.plan import UNVERIFIED, VERIFIED, WRONG
from hilrt.tables.ports import Ints
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping

log = logging.getLogger("hilrt.corrections")


async def verify_corrections(
    network: Network, tables: Session, links: Sequence[Link], u0: Floats, model: Model | None
) -> Verification:
    """Compare every bond's correction with the responses of its subsystems; log contradictions.

    Parameters
    ----------
    network, tables, links
        The session's.
    u0 : ndarray, shape (nu,)
        Inputs of the initialized subsystems.
    model : Model, optional
        Corrections of outputs, as the session will use them.
    """
    trial = Trial(network, tables, links, u0)
    found, physical = Verification([], []), np.array([link.physical for link in links], np.bool_)
    for b, bond in enumerate(network.bonds.tables):
        state = VERIFIED
        if bond.correction.method != "none":
            known = await _find_sensitivities(trial, b, found)
            remarks = await find_contradictions(trial, b, bond, model)
            for remark in remarks or ():
                log.warning("bond %r: %s", bond.name, remark)
            if remarks:
                state = WRONG
            elif remarks is None or (bond.correction.method == "energy" and not known):
                state = UNVERIFIED
            if bond.correction.mu_range is not None and not known:
                _warn_of_mu(bond, find_side_flow(network, b, physical))
        found.states.append(state)
    return found


def _warn_of_mu(bond: Bond, side: SideFlow) -> None:
    """Say what an adaptive mu does without probed responses."""
    said = f"bond {bond.name!r}: no trial found how its effort responds, so mu"
    if side.output >= 0:
        log.info("%s follows %s and %s", said, bond.correction.effort_side_flow, bond.flow)
    else:
        log.warning("%s stays; effort_side_flow is not used: %s", said, side.why)


class Trial:
    """Jacobians of the subsystems, determined independently of the corrections.

    Parameters
    ----------
    network, tables, links
        The session's.
    u : ndarray, shape (nu,)
        Inputs of the subsystems.
    t : float
        Session time of their present states, s.
    scales : ndarray, shape (nu,), optional
        Largest magnitudes of the inputs so far; 0 where unknown. Default, before the first tick:
        their values, or 1 where these are 0.
    """

    def __init__(
        self,
        network: Network,
        tables: Session,
        links: Sequence[Link],
        u: Floats,
        t: float = 0.0,
        scales: Floats | None = None,
    ) -> None:
        self.network, self.tables, self.links, self.u, self.t = network, tables, links, u, t
        self.h, self.order = tables.master.step, highest_order(network)
        self.instant = min(INSTANT * self.h, 0.1 * INSTANT_S)
        self.scales = np.where(scales > 0.0, scales, 1.0) if scales is not None else np.ones(len(u))
        if scales is None:
            self.scales = np.array([self.scales, np.where(u != 0.0, np.abs(u), 1.0)])
        self._found: dict[tuple[int, float], Floats | None] = {}

    async def jacobian(self, s: int, h: float, order: int) -> Floats | None:
        """Γ_0 … Γ_order of subsystem `s` for a step `h` [s]; None if there is no independent one.

        Found by probing if the subsystem restores its state; otherwise from an FMU's derivatives,
        or from the solver, if another Jacobian is to be verified.
        """
        if (s, h) not in self._found:
            inputs = self.u[self.network.inputs.slices[s]]
            link, options = self.links[s], self.tables.subsystems[self.links[s].name]
            found = None
            if link.rewinds is not None:
                found = await link.probes.jacobian("probe", self.t, h, order, inputs)
            given = options.jacobian is not None and (
                options.jacobian.source == "given"
                or (options.jacobian.gives and options.jacobian.D is not None)
            )
            if found is None and (given or options.adapter == "fmu"):
                found = await link.probes.jacobian("solver", self.t, h, order, inputs)
            self._found[s, h] = found
        return self._found[s, h]


def _efforts(network: Network, b: int) -> list[tuple[int, int]]:
    """Element and output of all contributions to the efforts of bond `b`."""
    bonds = network.bonds
    elements = bonds.elements(b)
    first = [(i, int(bonds.effort[i])) for i in _span(elements)]
    own = np.flatnonzero((bonds.more_of >= elements.start) & (bonds.more_of < elements.stop))
    return first + [(int(bonds.more_of[k]), int(bonds.more[k])) for k in own]


def sides_of(network: Network, b: int) -> set[int]:
    """Subsystems on both sides of bond `b`."""
    flows = network.bonds.flow[network.bonds.elements(b)].tolist()
    outputs = [output for _, output in _efforts(network, b)] + flows
    return {int(network.outputs.owner[output]) for output in outputs}


async def _find_sensitivities(trial: Trial, b: int, found: Verification) -> bool:
    """Direct responses of the efforts of bond `b` to their inputs, if all can be found.

    Not available if a side communicates less often than the session: between its points there is
    no effort to compare with.
    """
    network = trial.network
    efforts = _efforts(network, b)
    owners = {int(network.outputs.owner[output]) for _, output in efforts}
    flow = int(network.outputs.owner[network.bonds.flow[network.bonds.first[b]]])
    if any(network.every[s] != 1 for s in owners | {flow}):
        return False
    parts = {s: await trial.jacobian(s, trial.instant, 0) for s in sorted(owners)}
    if any(part is None for part in parts.values()):
        return False
    for element, output in efforts:
        s = int(network.outputs.owner[output])
        part, rows = parts[s], network.outputs.slices[s]
        assert part is not None
        columns = _span(network.inputs.slices[s])
        responses = part[0, output - rows.start]
        found.sensitivities.extend(
            (element, int(u), float(response))
            for u, response in zip(columns, responses, strict=True)
            if response != 0.0 and network.connected[u]
        )
    return True


async def find_contradictions(
    trial: Trial, b: int, bond: Bond, model: Model | None
) -> list[str] | None:
    """Entries of a correction's Jacobians that differ from probed ones; None without probing."""
    if model is None or bond.correction.method == "energy":
        return []
    network, owner = trial.network, trial.network.outputs.owner
    outputs = np.array([output for _, output in _efforts(network, b)])
    if bond.correction.method == "feedthrough":
        return await _compare(trial, _feedthrough(model, network)[None], outputs, trial.instant)
    sides = sides_of(network, b)
    outputs = np.flatnonzero(
        np.isin(owner, sorted(sides)) & (model.plan.outputs["correctable"] != 0)
    )
    options = {s: trial.tables.subsystems[trial.links[s].name].jacobian for s in sides}
    stated = [s for s, option in options.items() if is_stated(option)]
    return await _compare(
        trial, model.state.gamma, outputs[np.isin(owner[outputs], stated)], trial.h
    )


def is_stated(options: JacobianOptions | None) -> bool:
    """Whether a subsystem's Jacobian is stated by the session file or the solver.

    A probed Jacobian is already independent, and an identified one is tested elsewhere.
    """
    return options is not None and options.source in ("given", "solver")


async def _compare(trial: Trial, used: Floats, outputs: Ints, h: float) -> list[str] | None:
    """Entries of `used`, shape (orders, ny, nu), in the rows `outputs` that are contradicted."""
    network, remarks = trial.network, []
    for s in sorted({int(network.outputs.owner[output]) for output in outputs}):
        rows, columns = network.outputs.slices[s], network.inputs.slices[s]
        found = await trial.jacobian(s, h, len(used) - 1)
        if found is None:
            return None
        wrong = contradicts(used[:, rows, columns], found, trial.scales[..., columns])
        wrong &= network.connected[columns]
        for m, i, j in np.argwhere(wrong).tolist():
            output, u = rows.start + i, columns.start + j
            if output in outputs:
                remarks.append(
                    f"the correction assumes {used[m, output, u]:.4g} for the response of "
                    f"{network.outputs.names[output]} to {network.inputs.names[u]}"
                    f"{f' (coefficient {m})' if m else ''}; probed, it is {found[m, i, j]:.4g}"
                )
    return remarks


def _feedthrough(model: Model, network: Network) -> Floats:
    """D of the correction by feedthrough, shape (ny, nu)."""
    ny, nu = len(network.outputs), len(network.inputs)
    correction = feedthrough_matrices(model.plan, ny, nu)
    if correction is None:
        return np.zeros((ny, nu))
    return np.linalg.solve(correction.K, correction.KD).astype(np.float64)


def _span(part: slice) -> range:
    return range(part.start, part.stop)


#: Steps between two trials of a Jacobian that is renewed in every step.
ALWAYS_EVERY = 100


class RecheckCorrections:
    """Comparison of a session file's or solver's statements with trials, every `refresh` steps.

    Runs between two steps, as fast as possible, after Jacobians were renewed. Bonds found wrong
    before the first tick are not checked again. Results arrive with the next step's input, so that
    they are recorded and replayed.

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
        """Smallest `refresh` of the subsystems whose statements bond `b` relies on; 0: never."""
        found = []
        network = self.numerics.network
        method = network.bonds.tables[b].correction.method
        if method not in ("feedthrough", "model"):
            return 0
        for s in sides_of(network, b):
            options = self.tables.subsystems[self.links[s].name].jacobian
            given = options is not None and options.gives and options.D is not None
            stated = given or is_stated(options)
            if options is not None and stated and options.refresh:
                found.append(ALWAYS_EVERY if options.refresh == "always" else options.refresh)
        return min(found, default=0)

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Verify the corrections that are due; return `point`."""
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
