"""The subsystems are probed, for the estimate of the coupling's error.

All of them before the first tick; those that can go back also while the session runs, as fast as
possible: products, switches and limit cycles have other answers there than about the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hilrt.config.structs import Session
from hilrt.coupling.closed_loop import Channels, Sensitivities, sensitivities_of
from hilrt.expressions.session_program import ChannelValues
from hilrt.link import SWITCHES, LinearModel, Link
from hilrt.solver import Floats, InputPolynomial
from hilrt.step.numerics import Numerics
from hilrt.tables.network import MOST_TRIED, Network
from hilrt.tables.plan import Plan
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping

#: From the number of a subsystem, its macro step [s] and its inputs, shape (nu,), to the answers of
#: its reference model; None if it has none that can be probed.
Reference = Callable[[int, float, Floats], LinearModel | None]


async def find_sensitivities(
    network: Network,
    tables: Session,
    links: Sequence[Link],
    u0: Floats,
    y0: Floats,
    reference: Reference,
    renews: bool = False,
    in_slack: bool = False,
) -> Sensitivities:
    """Probe the responses of the subsystems to their inputs, as far as possible.

    Beyond `MOST_TRIED` coupled outputs no subsystem is probed. Where errors pass through calculated
    channels that remember earlier samples, the responses of the coupled system are unknown.

    Parameters
    ----------
    network, tables, links
        The session's.
    u0, y0 : ndarray, shape (nu,), (ny,)
        Inputs and outputs of the initialized subsystems.
    reference : callable
        Asked for what cannot be probed itself.
    renews : bool
        The pace is one in which sensitivities can be renewed; they will be if
        every subsystem that has any can be tried out again.
    in_slack : bool
        That is to be while they make their steps.
    """
    models: list[LinearModel | None] = []
    few = np.count_nonzero(network.L.transposed.in_row) <= MOST_TRIED
    for s, link in enumerate(links if few else ()):
        h, inputs = float(network.every[s]) * tables.master.step, network.inputs.slices[s]
        own = None if link.physical else await link.probes.linear_model(h, u0[inputs])
        models.append(reference(s, h, u0[inputs]) if own is None else own)
    models += [None] * (len(links) - len(models))
    network, step = _without_demands(network, tables), tables.master.step
    variable = tables.master.step_control.method != "fixed"
    channels = ErringChannels(network, tables).about(y0, linear=True)
    found = sensitivities_of(network, models, step, variable=variable, channels=channels)
    if not renews or not found.states or found.of_reference:
        return found
    known = (s for s, model in enumerate(models) if model is not None)
    if in_slack and any(links[s].in_slack is None for s in known):
        return found
    for s in _moving(network, models):
        h = float(network.every[s]) * step
        again = await links[s].probes.renewed_model(0.0, h, u0[network.inputs.slices[s]])
        model = models[s]
        if model is None or again is None or again.A.shape != model.A.shape:
            return found
    return sensitivities_of(
        network, models, step, renewed=True, variable=variable, channels=channels
    )


class ErringChannels:
    """Calculated channels that carry errors of outputs to inputs.

    Parameters
    ----------
    network : Network
        Through which errors pass: without demands.
    tables : Session
    """

    #: Shares of the outputs' magnitudes that responses are compared at; they are those of a line if
    #: they are equal to within the last.
    FAR, EQUAL = (1e-3, 1.0, 30.0, 1e3), 1e-6

    def __init__(self, network: Network, tables: Session) -> None:
        values = self._values = ChannelValues(network, tables)
        driven = set(network.inputs.owner[network.connected].tolist())
        errs = [
            s in driven and not tables.subsystems[name].is_sequence
            for s, name in enumerate(network.subsystems)
        ]
        self._sources = values.sources.where(columns=np.array(errs)[network.outputs.owner])
        taken, channels = network.L.transposed.in_row, values.outputs.tolist()
        acts = [taken[i] & np.isin(values.read, self._sources.neighbours(i)) for i in channels]
        self._acts = np.array(acts, np.bool_).reshape(len(channels), len(values.read))
        self._unknown = values.remembers[values.outputs] & self._acts.any(axis=1)

    def about(self, y: Floats, t: float = 0.0, *, linear: bool = False) -> Channels:
        """Responses about the outputs `y`, shape (ny,), at `t` [s]; `linear`: whether they are.

        Those of channels that remember earlier samples are unknown.
        """
        values, found = self._values, self._responses(y, t)
        linear = linear and self._are_linear(y, found)
        return Channels(values.outputs, values.read, found, self._sources, linear)

    def _responses(self, y: Floats, t: float) -> Floats:
        found = np.where(self._acts, self._values.responses(y, t), 0.0)
        found[self._unknown] = np.nan
        return found

    def _are_linear(self, y: Floats, about: Floats) -> bool:
        """Whether the responses are the same far from `y`, and at other times."""
        way, largest = np.random.default_rng(0).uniform(-1.0, 1.0, len(y)), np.zeros(len(y))
        largest[self._values.read] = self._values.magnitudes(y)
        others = (self._responses(y + far * largest * way, far) for far in self.FAR)
        most = self.EQUAL * np.abs(about).max(axis=1, keepdims=True, initial=0.0)
        return all(bool((np.abs(other - about) <= most).all()) for other in others)


def _moving(network: Network, models: Sequence[LinearModel | None]) -> list[int]:
    """Subsystems with a model whose inputs others drive: of the others errors do not change."""
    taking = set(network.inputs.owner[network.connected].tolist())
    return [s for s, model in enumerate(models) if model is not None and s in taking]


def _without_demands(network: Network, tables: Session) -> Network:
    """The network through which errors pass: values set by test sequences are demands, without
    error.

    Nor do errors of the signals that they read pass through them.
    """
    of_sequence = np.array([tables.subsystems[name].is_sequence for name in network.subsystems])
    inputs, outputs = ~of_sequence[network.inputs.owner], ~of_sequence[network.outputs.owner]
    return replace(network, L=network.L.where(inputs, outputs))


class SensitivityRenewal:
    """Tries the subsystems out again while the session runs; one of the things between two steps.

    First after one step, then at twice the distance each time that nothing has changed, and after
    half of it where much has; and at once where a coupled output has moved twice as far from the
    last trial as it had when one found nothing changed: a loop at rest, however long, says nothing
    of where a jump takes it. But for a few in advance, trials make at most six times as many
    steps as the session, and a twelfth where nothing changes; they are counted, not timed, so
    that what is found depends on the session alone, and not on the host.

    What it finds arrives with the next step's input, so that it is recorded and replayed. By how
    much it is other than before is reported of what becomes of the outputs' errors over the time
    since the last trial, with the states' errors and the inputs' disturbances as they are: units
    have no part in it. Where nothing can be found it is infinite, and what was known stays.

    Parameters
    ----------
    numerics : Numerics
        Of a session whose plan says that sensitivities are renewed.
    tables, links
        The session's.

    Attributes
    ----------
    count : int
        Trials so far.
    """

    #: Number of steps that take as long as evaluating a trial.
    OVERHEAD = 20
    #: Steps of trials per step of the session: at most, and where nothing changes.
    MOST, LEAST = 6.0, 1.0 / 12.0
    #: The latter where a mu follows the responses: after a change of one it is wrong until a trial.
    LEAST_ADAPTING = 1.0
    #: Trials that may be made in advance, with a fixed and with a variable step: the latter may be
    #: few and long.
    ADVANCE = (8.0, 100.0)
    #: Beyond these changes the next trial comes at once, or after half the distance; below the last
    #: after twice.
    GREAT, MUCH, LITTLE = 0.5, 0.1, 0.02
    #: Times the distance of an output at which a trial found no change, and the least such
    #: distance, as a share of its largest value: what moves farther is probed again at once.
    FARTHER, NEAR = 2.0, 0.1
    #: Errors below that share of a signal's largest value are rounding, and below that one nothing
    #: that a verdict depends on; nor does it on outputs that nothing takes.
    ROUNDING, MATTERS = 1e-6, 0.01

    def __init__(self, numerics: Numerics, tables: Session, links: Sequence[Link]) -> None:
        self._numerics, self._links = numerics, list(links)
        self._network = _without_demands(numerics.network, tables)
        self._step = tables.master.step
        self._variable = tables.master.step_control.method != "fixed"
        #: Steps between two points that all subsystems communicate at: no other is under way then.
        self._together = math.lcm(*self._network.every.tolist())
        self._models: list[LinearModel | None] = [None] * len(links)
        self._channels = ErringChannels(self._network, tables)
        outputs = numerics.plan.outputs
        known = (outputs["answers_known"] != 0) & (outputs["calculated"] == 0)
        owner = numerics.network.outputs.owner
        self._tried = sorted(set(owner[known].tolist()))
        states = int(numerics.plan.session["error_states"][0])
        inputs = sum(part.stop - part.start for part in self._network.inputs.slices)
        steps = 2 * (states + inputs) + 9 * len(self._tried) + self.OVERHEAD
        #: Steps of the session that a trial takes as long as.
        self._cost = steps / len(self._tried)
        adapts = numerics.plan.bonds["adapts"].any()
        self._most = math.ceil(self._cost / (self.LEAST_ADAPTING if adapts else self.LEAST))
        self._ahead = self.ADVANCE[self._variable]
        self._credit, self._every, self._left, self._since = self._ahead, 1, 1, 0.0
        self._coupled = outputs["coupled"] != 0
        #: Values of the coupled outputs at the last trial, and how far from such values nothing
        #: was found changed.
        self._seen, self._reach = np.zeros((2, np.count_nonzero(self._coupled)))
        #: Steps of the session between two looks at them.
        self._look = math.ceil(self._cost / self.MOST)
        self.count = 0

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Update the Jacobians due at `point`, and return it."""
        session = self._numerics.given.session[0]
        session.answers_renewed = 0
        self._left -= 1
        self._credit = min(self._credit + self.MOST / self._cost, self._ahead)
        due = self._credit >= 1.0 and point.tick % self._together == 0
        if due and (self._left < 0 or self._has_moved()):
            await self._try(point.t_ns / 1e9)
        return point

    def _has_moved(self) -> bool:
        """Whether a coupled output is farther from the last trial than such trials tell of."""
        if self._variable or self._left % self._look:  # a variable step is short where much moves
            return False
        outputs = self._numerics.state.outputs
        known = np.maximum(self._reach, self.NEAR * outputs["peak"][self._coupled])
        away = np.abs(outputs["y"][self._coupled] - self._seen)
        return bool((away > self.FARTHER * known).any())

    async def _try(self, t: float) -> None:
        """Update changed responses at `t` [s], and choose the time of the next trial."""
        self._conclude(await self._renew(t), t)

    def _conclude(self, change: float, t: float) -> None:
        """Tell the next step by how much a trial at `t` [s] has changed them."""
        plan, state = self._numerics.plan, self._numerics.state
        session = self._numerics.given.session[0]
        # Of a linear system the first trial, which is the more exact one, holds until it moves.
        same = plan.session[0].error_linear and not state.session[0].sensitivities_moved
        session.answers_moved = change > self.LITTLE
        switches = self._numerics.given.subsystems["switches"]
        known = state.subsystems["inside"] == SWITCHES
        session.answers_renewed = (
            not same or session.answers_moved or bool((switches != known).any())
        )
        session.answers_since = self._since
        y = state.outputs["y"][self._coupled]
        away = np.abs(y - self._seen)
        if change > self.MUCH:
            self._every = 1 if change > self.GREAT else max(self._every // 2, 1)
            self._reach = np.minimum(self._reach, away / self.FARTHER)
        elif change < self.LITTLE:
            if self._left < 0:  # an early one says nothing of the whole distance
                self._every = min(2 * self._every, self._most)
            self._reach = np.maximum(self._reach, away)
        self._seen = y
        self._since, self._left, self._credit = t, self._every - 1, self._credit - 1.0

    async def _renew(self, t: float) -> float:
        """Fill in the renewed factors; by how much they are others than before."""
        self._begin()
        for s in self._tried:
            if not self._takes(s, await self._links[s].probes.renewed_model(t, *self._about(s, t))):
                return math.inf
        return self._compare(t)

    def _begin(self) -> None:
        """Begin a renewal; earlier results stay until all solvers have been probed."""
        given = self._numerics.given
        given.answers[:] = self._numerics.state.answers["factor"]
        given.session["answers_change"] = math.inf
        self.count += 1

    def _about(self, s: int, t: float) -> tuple[float, Floats]:
        """Macro step [s] of subsystem `s`, and its inputs at `t` [s], shape (nu,)."""
        sent = self._numerics.state.inputs[self._network.inputs.slices[s]]
        u = np.array([InputPolynomial(p.t0, p.polynomial[:, None])(t)[0] for p in sent])
        return float(self._network.every[s]) * self._step, u

    def _takes(self, s: int, model: LinearModel | None) -> bool:
        """Take what a trial of subsystem `s` has found; whether that is anything."""
        if model is None:
            return False
        self._models[s] = model
        self._numerics.given.subsystems["switches"][s] = model.inside == SWITCHES
        return True

    def _compare(self, t: float, factors: Floats | None = None) -> float:
        """Fill in the factors of the subsystems' models at `t` [s]; see `_renew`.

        `factors` are those before, if others than those that are in use.
        """
        numerics, network = self._numerics, self._network
        given, inputs = numerics.given, numerics.state.inputs
        if factors is None:
            factors = np.ascontiguousarray(numerics.state.answers["factor"])
        channels = self._channels.about(np.ascontiguousarray(numerics.state.outputs["y"]), t)
        found = sensitivities_of(
            network, self._models, self._step, True, self._variable, channels
        ).factors()
        if len(found) != len(factors):
            return math.inf
        given.answers[:] = found
        steps = max(1, round((t - self._since) / numerics.plan.session[0].error_unit))
        errors = np.append(numerics.state.errors["value"], inputs["disturbance_peak"])
        before, after = (passed_on(numerics.plan, f, errors, steps) for f in (factors, found))
        peaks = np.ascontiguousarray(numerics.state.outputs["peak"])
        peaks[peaks == 0.0] = np.inf  # nothing is known of what has not moved yet
        judged = np.where(numerics.plan.outputs["coupled"] != 0, peaks, np.inf)
        change = relative_change(before, after, self.MATTERS * judged)
        given.session["answers_change"] = change
        return relative_change(before, after, self.ROUNDING * peaks)


def passed_on(plan: Plan, factors: Floats, errors: Floats, steps: int) -> Floats:
    """Errors of the outputs after steps, from the error of one state or disturbance of one input.

    Parameters
    ----------
    plan : Plan
    factors : ndarray, shape (len(answers),)
        As `hilrt.tables.state.AnswerState`.
    errors : ndarray, shape (nx + nu,)
        Of each state at the beginning, and the disturbance of each input, which stays.
    steps : int

    Returns
    -------
    ndarray, shape (ny, nx + nu)
        Not finite where the error grows beyond all numbers.
    """
    nx, nu, ny = int(plan.session["error_states"][0]), len(plan.inputs), len(plan.outputs)
    whole, seen = np.eye(nx + nu), np.zeros((ny, nx + nu))
    whole[:nx] = 0.0
    paths, answers = plan.error_paths, plan.error_answers
    columns = paths["source"] + nx * paths["of_input"]
    whole[paths["to"], columns] = factors[: len(paths)]
    columns = answers["source"] + nx * answers["of_input"]
    seen[answers["output"], columns] = factors[len(paths) : len(paths) + len(answers)]
    with np.errstate(all="ignore"):
        found: Floats = seen @ np.linalg.matrix_power(whole, steps) * errors
    return found


def relative_change(before: Floats, after: Floats, least: Floats) -> float:
    """Largest difference of a row, relative to its norm in the larger of the two, or to `least`."""
    with np.errstate(all="ignore"):
        differ = np.linalg.norm(after - before, axis=1)
        size = np.maximum(np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1))
        size = np.maximum(size, least)
        shares = differ / np.where(size > 0.0, size, 1.0)
    return float(np.nan_to_num(shares, nan=np.inf).max(initial=0.0))
