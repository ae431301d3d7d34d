"""Jacobians for corrections of outputs: computed before a session starts, and renewed later."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.config.structs import JacobianOptions, Session
from hilrt.coupling.build_model import Identified, Jacobians, build_model, highest_order
from hilrt.coupling.correct_outputs import Feedthrough, build_feedthrough
from hilrt.coupling.jacobian import INSTANT_S, PERTURBATION, LinearSubsystem
from hilrt.coupling.sum_inputs import dither
from hilrt.errors import ConfigError
from hilrt.link import Link
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.tables.model import Model
from hilrt.tables.network import Network
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping

#: A step this much shorter than the session's shows only the direct feedthrough.
INSTANT = 1e-6
#: Maximum number of coupling variables with correction by feedthrough: its matrices are dense.
MAX_FEEDTHROUGH = 2048
#: Reason when probing yields no Jacobian.
NOT_PROBED = "it cannot restore its state, or responds differently to the same step"


def bond_sides(network: Network, method: str) -> tuple[set[int], set[int]]:
    """Subsystems on the effort and on the flow side of the bonds corrected by `method`."""
    bonds, owner = network.bonds, network.outputs.owner
    chosen = [
        i for i, b in enumerate(bonds.of_element) if bonds.tables[b].correction.method == method
    ]
    efforts = np.flatnonzero(network.corrected_efforts(method))
    return {int(owner[i]) for i in efforts}, {int(owner[bonds.flow[i]]) for i in chosen}


async def find_model(
    network: Network, tables: Session, links: Sequence[Link], u0: Floats, y0: Floats
) -> Model | None:
    """Corrections of the session's outputs; None if no bond requests one.

    Parameters
    ----------
    network, tables, links
        The session's.
    u0, y0 : ndarray, shape (nu,), (ny,)
        Inputs and outputs of the initialized subsystems.

    Raises
    ------
    ConfigError
        If a subsystem's D or Jacobian is neither given nor available from the solver.
    """
    feedthrough = await find_feedthrough(network, tables, links, u0)
    jacobians = await find_jacobians(network, tables, links, u0)
    if feedthrough is None and jacobians is None:
        return None
    return build_model(network, y0, jacobians, feedthrough)


async def find_feedthrough(
    network: Network, tables: Session, links: Sequence[Link], u0: Floats
) -> Feedthrough | None:
    """Feedthrough correction of the session's bonds; None if no bond requests it.

    Raises
    ------
    ConfigError
        If a subsystem's D is neither given nor available from the solver.
    """
    efforts, _ = bond_sides(network, "feedthrough")
    if not efforts:
        return None
    shape = len(network.outputs), len(network.inputs)
    if sum(shape) > MAX_FEEDTHROUGH:
        raise ConfigError(
            f"[[bonds]] method = 'feedthrough': the session has {sum(shape)} coupling variables, "
            f"this correction allows at most {MAX_FEEDTHROUGH}; use method = 'energy' instead"
        )
    D = np.zeros(shape)
    for s in sorted(efforts):
        rows, columns = network.outputs.slices[s], network.inputs.slices[s]
        D[rows, columns] = await _feedthrough_of(links[s], tables, u0[columns], _shape(network, s))
    D[~network.corrected_efforts("feedthrough")] = 0.0
    try:
        return build_feedthrough(D, network.L.dense())
    except ValueError as error:
        raise ConfigError(f"[[bonds]] method = 'feedthrough': {error}; correct one side") from None


async def _feedthrough_of(
    link: Link, tables: Session, u0: Floats, shape: tuple[int, int]
) -> Floats:
    options = tables.subsystems[link.name].jacobian
    where = f"[subsystems.{link.name}.jacobian]"
    if options is not None and options.gives and options.D is not None:
        return _matrix(options.D, shape, f"{where} D")
    source = "probe" if options is None or options.source != "solver" else "solver"
    # Shorter than any time constant of the solvers, also with a long session step.
    instant = min(INSTANT * tables.master.step, 0.1 * INSTANT_S)
    gamma = await link.probes.jacobian(source, 0.0, instant, 0, u0)
    if gamma is None:
        raise ConfigError(
            f"{where}: bond correction 'feedthrough' needs D, and the solver neither provides it "
            "nor can be probed: it cannot restore its state, cannot vary its step, or responds "
            "differently to the same step; give D here"
        )
    D: Floats = gamma[0]
    return D


async def find_jacobians(
    network: Network, tables: Session, links: Sequence[Link], u0: Floats
) -> Jacobians | None:
    """Jacobians that correct the session's bonds; None if no bond requests it."""
    members = set().union(*bond_sides(network, "model"))
    if not members:
        return None
    order, h = highest_order(network), tables.master.step
    given: dict[int, Floats] = {}
    identified: list[Identified] = []
    for s in sorted(members):
        options = tables.subsystems[links[s].name].jacobian
        if options is None:
            continue
        part = _given(options, network, s, h, order)
        if options.source == "identify":
            identified.append(
                Identified(
                    s,
                    part,
                    options.dither,
                    output_lags=options.lags_y,
                    input_lags=options.lags_u,
                    memory=options.memory,
                )
            )
        elif options.source == "given":
            given[s] = _required(part, links[s].name, "gives neither A, B, C, D nor gamma")
        else:
            inputs = u0[network.inputs.slices[s]]
            part = await links[s].probes.jacobian(options.source, 0.0, h, order, inputs)
            reason = {"solver": "the solver provides none", "probe": NOT_PROBED}
            given[s] = _required(part, links[s].name, reason[options.source])
    if not given and not identified:
        names = ", ".join(links[s].name for s in sorted(members))
        raise ConfigError(
            f"[[bonds]] method = 'model': no Jacobian for {names}; "
            "add [subsystems.NAME.jacobian] with a source"
        )
    methods = [b.correction for b in tables.bonds if b.correction.method == "model"]
    correctable = ~network.corrected_efforts("energy") & ~network.corrected_efforts("feedthrough")
    alpha = min(correction.alpha for correction in methods)
    return Jacobians(h, given, identified, correctable, alpha)


def _required(gamma: Floats | None, name: str, reason: str) -> Floats:
    if gamma is None:
        raise ConfigError(
            f"[subsystems.{name}.jacobian]: there is no Jacobian: {reason}; choose another source"
        )
    return gamma


def _given(
    options: JacobianOptions, network: Network, s: int, h: float, order: int
) -> Floats | None:
    """Γ from the session file's matrices or list; None if it gives none."""
    where = f"[subsystems.{network.subsystems[s]}.jacobian]"
    shape = _shape(network, s)
    if options.gamma is not None:
        if len(options.gamma) <= order:
            raise ConfigError(
                f"{where} gamma: has {len(options.gamma)} matrices; order {order} needs {order + 1}"
            )
        parts = [_matrix(g, shape, f"{where} gamma") for g in options.gamma[: order + 1]]
        return np.array(parts)
    if options.A is None or options.B is None or options.C is None:
        return None
    try:
        subsystem = LinearSubsystem(
            A=np.array(options.A),
            B=np.array(options.B),
            C=np.array(options.C),
            D=np.zeros(shape) if options.D is None else np.array(options.D),
        )
        return _matrix_stack(subsystem.jacobian(h, order), shape)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}; the subsystem has shape {shape}") from None


def _matrix_stack(gamma: Floats, shape: tuple[int, int]) -> Floats:
    if gamma.shape[1:] != shape:
        raise ValueError(f"A, B, C, D give Jacobians of shape {gamma.shape[1:]}")
    return gamma


def _matrix(rows: Sequence[Sequence[float]], shape: tuple[int, int], where: str) -> Floats:
    try:
        matrix = np.array(rows, dtype=np.float64)
    except ValueError:
        matrix = np.zeros(0)
    if matrix.shape != shape:
        raise ConfigError(f"{where}: has the shape {matrix.shape}; outputs × inputs is {shape}")
    return matrix


def _shape(network: Network, s: int) -> tuple[int, int]:
    rows, columns = network.outputs.slices[s], network.inputs.slices[s]
    return rows.stop - rows.start, columns.stop - columns.start


# Renewal of Jacobians while a session runs.


class JacobianRenewal:
    """Test of the Jacobians' predictions, and renewal of those that fail.

    Runs between two steps, as fast as possible.

    The test is suggested by Haid et al. (2022) in their conclusion and applied to the subsystem
    itself: the response of the outputs to a change of the inputs is compared with the one that Γ
    predicts. Each input is changed alone, in proportion to its running scale, because the response
    to a stiff input would hide the others. A response that contradicts Γ is measured up to
    `TRIALS` times, and only a deviation beyond the scatter of these measurements counts: a noisy
    solver whose saved state does not contain its random generator triggers no renewal.

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

    #: Measurements of a response. With five, noise alone contradicted about one in a thousand.
    TRIALS = 9
    #: Permitted error of a prediction, as a share of the response to the input.
    TOLERANCE = 0.02
    #: Responses below this share of the outputs are rounding errors.
    ROUNDING = 1e-9

    def __init__(self, numerics: Numerics, tables: Session, links: Sequence[Link]) -> None:
        self.network, self.links = numerics.network, links
        settings = numerics.plan.model.settings[0]
        self._order, self._h = int(settings.order), float(settings.h)
        self._correctable = numerics.plan.model.outputs["correctable"] != 0
        self._connected = numerics.plan.inputs["connected"] != 0
        self._inputs = numerics.state.inputs["extrapolated"][:, 0]
        self._scales, self._outputs = numerics.state.inputs["scale"], numerics.state.outputs["y"]
        #: Jacobians in use, and those for the next step.
        self._known, self._given = numerics.state.model.gamma, numerics.given.gamma
        self._renewed = numerics.given.session["renewed"]
        self.checks = self.refreshed = 0
        self._sources: dict[int, str] = {}
        self._every: dict[int, int] = {}
        self._untested: set[int] = set()
        # Other subsystems are not corrected, and need not take steps of the session's length.
        for s in sorted(set().union(*bond_sides(self.network, "model"))):
            option = tables.subsystems[links[s].name].jacobian
            if option is not None and option.refresh and option.source in ("solver", "probe"):
                self._sources[s] = option.source
                if option.refresh == "always":
                    self._untested.add(s)
                self._every[s] = 1 if option.refresh == "always" else option.refresh

    def due(self, tick: int) -> list[int]:
        """Subsystems to check before the macro step `tick`."""
        return [s for s, every in self._every.items() if tick and tick % every == 0]

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Check the Jacobians that are due, renew them if necessary, and return `point`."""
        await self.renew(point.tick, point.t_ns / 1e9)
        return point

    async def renew(self, tick: int, t: float) -> None:
        """Check the subsystems due at `t` [s], about the inputs of the previous step."""
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
        """Whether the Jacobian of subsystem `s` predicts the response to each of its inputs."""
        rows, columns = self.network.outputs.slices[s], self.network.inputs.slices[s]
        inputs, scales = self._inputs[columns].copy(), self._scales[columns]
        sizes = PERTURBATION * np.where(scales > 0.0, scales, np.maximum(1.0, np.abs(inputs)))
        least = self.ROUNDING * np.abs(self._outputs[rows]).max(initial=0.0)
        for i in np.flatnonzero(self._connected[columns]):
            alone = np.where(np.arange(len(sizes)) == i, sizes, 0.0)
            direction = dither(tick, alone, self._order)
            predicted = np.einsum("mij,mj->i", self._known[:, rows, columns], direction)
            responses: list[Floats] = []
            while len(responses) < self.TRIALS:
                response = await self.links[s].probes.response(t, self._h, inputs, direction)
                if response is None:
                    return False
                responses.append(response)
                differ = np.ptp(responses, axis=0)  # noise: scatter of repeated trials
                wrong = np.abs(np.mean(responses, axis=0) - predicted) - differ
                right = wrong <= self.TOLERANCE * np.abs(response).max() + least
                if right[self._correctable[rows]].all():
                    break
                if len(responses) == 2 and not differ.any():
                    return False
            else:
                return False
        return True
