"""Response of the coupled system to disturbances of its inputs.

Apart from interpolation, a co-simulation is the coupled system with disturbed inputs, ``u = L y +
Δu``. About its initial state, the errors e of each subsystem's states and outputs follow

    e_x' = A e_x + B e_u,   e_y = C e_x + D e_u,   e_u = L e_y + Δu,

from which e_u is eliminated: ``e_u = (I − L D)⁻¹ (L C e_x + Δu)``. The errors of calculated
channels are those of the outputs that they read, times the derivatives K of their expressions: K y
replaces y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem, block_diagonal, discretize
from hilrt.coupling.open_loop import OpenLoop
from hilrt.link import LinearModel
from hilrt.solver import Floats
from hilrt.tables.network import Network
from hilrt.tables.plan import OF_CHANGE, OF_CONSTANT, OF_START, OF_STATE
from hilrt.tables.ports import Bools, Ints
from hilrt.tables.relation import Relation

#: Maximum number of states of the error: the cost of a step grows with its square.
MOST_STATES = 64
#: A variable step is composed of lengths from 2^-FINER to 2^COARSER times the nominal one.
FINER, COARSER = 10, 6
LARGEST_FACTOR = 1e100


#: Row of `hilrt.tables.plan.OwnPath`, with a factor.
OwnRow: TypeAlias = tuple[int, int, int, int, int, float]


class Channels(NamedTuple):
    """Responses of calculated channels.

    Attributes
    ----------
    outputs, read : ndarray of int, shape (channels,), (read,)
        Numbers of the channels, and of the outputs that they read.
    responses : ndarray, shape (channels, read)
        Derivatives by these outputs; NaN if unknown, 0 if no error passes.
    sources : Relation, shape (ny, ny)
        From a channel to the outputs with errors from which it is calculated.
    linear : bool
        Whether the derivatives are the same everywhere.
    """

    outputs: Ints
    read: Ints
    responses: Floats
    sources: Relation
    linear: bool = False

    def calculated(self, of_outputs: Floats) -> Floats:
        """Rows of all outputs, shape (ny, …), with those of the channels filled in."""
        found = of_outputs.copy()
        found[self.outputs] = self.responses @ of_outputs[self.read]
        return found

    def directly(
        self, direct: Sequence[tuple[int, int, float]], whole: bool
    ) -> list[tuple[int, int, float]]:
        """Direct responses of the channels from those of the outputs; with `whole`, also zeros."""
        of_output = dict[int, list[tuple[int, float]]]()
        for i, u, factor in direct:
            of_output.setdefault(i, []).append((u, factor))
        found = dict[tuple[int, int], float]()
        for channel, responses in zip(self.outputs.tolist(), self.responses.tolist(), strict=True):
            reads = set(self.sources.neighbours(channel).tolist())
            for i, response in zip(self.read.tolist(), responses, strict=True):
                for u, factor in of_output.get(i, ()) if i in reads else ():
                    found[channel, u] = found.get((channel, u), 0.0) + response * factor
        kept = ((at, f) for at, f in found.items() if math.isfinite(f) and (f != 0.0 or whole))
        return [(*at, factor) for at, factor in kept]

    def known(self, network: Network, known: Sequence[int]) -> list[int]:
        """Channels whose direct responses follow from those of the `known` outputs."""
        unknown = np.isin(network.outputs.owner, network.inputs.owner[network.connected])
        unknown[[*known]] = False
        lacking = self.sources.where(columns=unknown).in_row
        lacking[self.outputs] |= ~np.isfinite(self.responses).all(axis=1)
        return np.flatnonzero(self.sources.in_row & ~lacking).tolist()


class Sensitivities(NamedTuple):
    """Sensitivities of the subsystems, from trials before the first tick.

    Attributes
    ----------
    states : int
        Number of states of the coupled error; 0 if a subsystem in a loop is unknown.
    paths, answers : list of (int, int, int, float)
        Rows of `hilrt.tables.plan.ErrorPath` and `ERROR_ANSWERS`, with a factor each.
    direct : list of (int, int, float)
        Rows of `hilrt.tables.plan.DirectAnswer`, likewise.
    answers_known : list of int
        Outputs whose direct responses are all known.
    fineness : list of float
        By input: κ = 1 − 1/n with n internal steps (see `measure_disturbances`).
    linear : bool
        Whether they are valid for any state.
    of_reference : bool
        Whether a reference model was probed in place of a subsystem.
    memory : sequence of float
        By subsystem: longest time constant if known and damped, s; else 0.
    renewed : bool
        Whether the factors are renewed while the session runs; all of them then have rows.
    slope : sequence of float
        By input: share of its polynomial's change within a macro step that acts; empty: all of it.
    unit : float
        Length of the step for which `paths` are valid, s; 0: the macro step.
    inside : sequence of int
        By subsystem: how much a trial revealed of its outputs within a step (`hilrt.link.UNSEEN`,
        …).
    powers : sequence of float
        Factors of the same paths over 2, 4, 8, … such steps, consecutively; used for a variable
        step, which is composed of these lengths.
    open_loop : OpenLoop, optional
        The same responses before they are coupled.
    own : list of (int, int, int, int, int, float)
        Rows of `hilrt.tables.plan.OwnPath`, with a factor each: steps of the subsystems whose own
        integration errs, and the errors of these steps.
    reached : sequence of float
        States of the subsystems, if there are such rows.
    """

    states: int
    paths: list[tuple[int, int, int, float]]
    answers: list[tuple[int, int, int, float]]
    direct: list[tuple[int, int, float]]
    answers_known: list[int]
    fineness: list[float]
    linear: bool = False
    of_reference: bool = False
    memory: Sequence[float] = ()
    renewed: bool = False
    slope: Sequence[float] = ()
    unit: float = 0.0
    powers: Sequence[float] = ()
    inside: Sequence[int] = ()
    open_loop: OpenLoop | None = None
    own: Sequence[OwnRow] = ()
    reached: Sequence[float] = ()

    def without_loop(self) -> Sensitivities:
        """Copy without the responses of the coupled system, where these are invalid."""
        lost = self._replace(states=0, paths=[], answers=[], unit=0.0, powers=(), open_loop=None)
        lost = lost._replace(own=(), reached=())
        return lost._replace(of_reference=False, renewed=False)

    def factors(self) -> Floats:
        """Factors, as in the rows of `hilrt.tables.state.AnswerState`."""
        single = [row[-1] for row in (*self.paths, *self.answers, *self.direct, *self.own)]
        return np.array([*single, *self.reached, *self.powers], float)


def sensitivities_of(
    network: Network,
    models: Sequence[LinearModel | None],
    step: float,
    renewed: bool = False,
    variable: bool = False,
    channels: Channels | None = None,
) -> Sensitivities:
    """Sensitivity tables from the subsystems' models, for a macro step of `step` [s].

    Reference models are used only if with them the whole loop is known. If the factors will be
    `renewed`, zero factors have rows, too. A `variable` step has lengths around `step`.
    """
    channels = channels or _no_channels(network)
    fineness, slope = np.ones((2, len(network.inputs)))
    memory = [0.0] * len(models)
    direct: list[tuple[int, int, float]] = []
    known: list[int] = []
    for s, model in enumerate(models):
        if model is None:
            continue
        rows, columns = network.outputs.slices[s], network.inputs.slices[s]
        fineness[columns], memory[s] = model.fineness, _memory(model)
        slope[columns] = 1.0 if model.slope is None else model.slope
        known += [i for i in range(rows.start, rows.stop) if i - rows.start not in model.lacking]
        for i, j in np.argwhere((model.D != 0.0) | renewed).tolist():
            if network.connected[columns.start + j]:
                direct.append((rows.start + i, columns.start + j, float(model.D[i, j])))
    direct += channels.directly(direct, renewed)
    known += channels.known(network, known)
    inside = [0 if model is None else model.inside for model in models]
    by_input = {"fineness": fineness.tolist(), "slope": slope.tolist()}
    found = Sensitivities(0, [], [], direct, known, **by_input, memory=memory, inside=inside)
    unit = step / 2.0**FINER if variable else step
    open_loop = _open_loop(network, models, channels, slope)
    loop = None if open_loop is None else _discretized(open_loop, unit)
    of_reference = any(model is not None and model.of_reference for model in models)
    if loop is None and of_reference:
        own = [None if model is None or model.of_reference else model for model in models]
        return sensitivities_of(network, own, step, variable=variable, channels=channels)
    if loop is None:
        return found
    doubled = _doubled(loop.A, loop.B, FINER + COARSER if variable else 0)
    A_rows, B_rows = (np.abs([power[i] for power in doubled]).max(axis=0) for i in (0, 1))
    paths = _entries(loop.A, 0, A_rows, renewed) + _entries(loop.B, 1, B_rows, renewed)
    linear = channels.linear and all(model is None or model.linear for model in models)
    # Of a nonlinear subsystem, the step holds only until the next trial.
    errs = any(model is not None and model.own is not None for model in models)
    followed = errs and (linear or renewed) and not variable
    steps, reached = _own_steps(network, models, renewed) if followed else ([], [])
    return found._replace(
        own=steps,
        reached=reached,
        states=len(loop.A),
        paths=paths,
        unit=unit,
        powers=[
            float(power[of_input][to, source])
            for power in doubled[1:]
            for to, source, of_input, _ in paths
        ],
        answers=_entries(loop.C, 0, loop.C, renewed) + _entries(loop.D, 1, loop.D, renewed),
        renewed=renewed,
        linear=linear,
        of_reference=of_reference,
        open_loop=open_loop,
    )


def _own_steps(
    network: Network, models: Sequence[LinearModel | None], whole: bool
) -> tuple[list[OwnRow], list[float]]:
    """Rows of `Sensitivities.own`, and the states that they begin from; `whole`: zeros, too."""
    rows, reached, first = list[OwnRow](), list[float](), 0
    for s, model in enumerate(models):
        if model is None:
            continue
        nx, columns = len(model.A), network.inputs.slices[s]
        own = model.own
        reached += [0.0] * nx if own is None else own[:, 0].tolist()
        if own is not None:
            inputs = range(columns.start, columns.stop)
            sources = [(OF_STATE, first + i) for i in range(nx)]
            sources += [(kind, i) for kind in (OF_START, OF_CHANGE) for i in inputs]
            sources.append((OF_CONSTANT, 0))
            for erring, part in enumerate(np.hsplit(own[:, 1:], 2)):
                for row, column in np.argwhere((part != 0.0) | whole).tolist():
                    kind, source = sources[column]
                    factor = float(part[row, column])
                    rows.append((s, first + row, source, kind, erring, factor))
        first += nx
    return rows, reached


def _no_channels(network: Network) -> Channels:
    none, ny = np.zeros(0, np.intp), len(network.outputs)
    return Channels(none, none, np.zeros((0, 0)), Relation.of((), (), (ny, ny)), True)


def _memory(model: LinearModel) -> float:
    """Longest time constant of the responses, s; 0 if there is none or it is not damped.

    States that no input reaches, or that affect no output, transmit no error: an excitation, a
    clock, an integrated energy. They are excluded by the pattern of the matrices, so that no mode
    is lost.
    """
    links = model.A != 0.0
    passing = _reached(links, (model.B != 0.0).any(axis=1))
    passing &= _reached(links.T, (model.C != 0.0).any(axis=0))
    slowest = np.linalg.eigvals(model.A[np.ix_(passing, passing)]).real.max(initial=-np.inf)
    return float(-1.0 / slowest) if -np.inf < slowest < 0.0 else 0.0


def _reached(links: Bools, found: Bools) -> Bools:
    """States reached from those `found`, shape (nx,); ``links[i, j]``: from j to i."""
    while (more := found | (links @ found)).sum() > found.sum():
        found = more
    return found


def _entries(
    matrix: Floats, of_input: int, needed: Floats, whole: bool
) -> list[tuple[int, int, int, float]]:
    """Rows of the entries that are non-zero in `needed`, or with `whole` of all entries."""
    return [
        (row, column, of_input, float(matrix[row, column]))
        for row, column in np.argwhere((needed != 0.0) | whole).tolist()
    ]


def _doubled(A: Floats, B: Floats, times: int) -> list[tuple[Floats, Floats]]:
    """A and B over 1, 2, 4, … steps; entries are bounded, so that they do not overflow."""
    found = [(A, B)]
    with np.errstate(all="ignore"):
        for _ in range(times):
            A, B = (
                np.clip(np.nan_to_num(part, nan=LARGEST_FACTOR), -LARGEST_FACTOR, LARGEST_FACTOR)
                for part in (A @ A, A @ B + B)
            )
            found.append((A, B))
    return found


def _discretized(open_loop: OpenLoop, step: float) -> LinearSubsystem | None:
    """The coupled system over steps of `step` [s]; None if that is not finite."""
    try:
        with np.errstate(all="ignore"):  # a peer may report absurdly large values
            loop = open_loop.coupled()
            if loop is None:
                return None
            A, B = discretize(loop.A, loop.B, step, 0)
    except ValueError:
        return None
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        return None
    return LinearSubsystem(A, B[0], loop.C, loop.D)


def _open_loop(
    network: Network, models: Sequence[LinearModel | None], channels: Channels, slope: Floats
) -> OpenLoop | None:
    """The subsystems side by side; None if too little is known.

    A subsystem without inputs from others has no error, and one without outputs to others transmits
    none: only the others need a model.
    """
    gives, takes = np.zeros((2, len(models)), dtype=bool)
    taken = network.L.transposed.in_row
    taken |= channels.sources.where(rows=taken).transposed.in_row
    gives[network.outputs.owner[taken]] = True
    takes[network.inputs.owner[network.connected]] = True
    if any(model is None and gives[s] and takes[s] for s, model in enumerate(models)):
        return None
    if not 0 < sum(len(model.A) for model in models if model is not None) <= MOST_STATES:
        return None
    if not np.isfinite(channels.responses).all():
        return None
    parts = []
    for s, model in enumerate(models):
        rows, columns = network.outputs.slices[s], network.inputs.slices[s]
        nu, ny = columns.stop - columns.start, rows.stop - rows.start
        if model is None:
            none = np.zeros((0, 0))
            parts.append(
                LinearSubsystem(none, np.zeros((0, nu)), np.zeros((ny, 0)), np.zeros((ny, nu)))
            )
        else:
            parts.append(LinearSubsystem(model.A, model.B, model.C, model.D))
    whole = block_diagonal(parts)
    C, D = channels.calculated(whole.C), channels.calculated(whole.D)
    every = int(network.every.max(initial=1))
    return OpenLoop(LinearSubsystem(whole.A, whole.B, C, D), network.L.dense(), slope, every)
