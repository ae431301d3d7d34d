"""Probing of the subsystems, for the estimate of the coupling's error.

All subsystems are probed before the first tick. As fast as possible, those that can go back are
probed again during the session, because nonlinear systems respond differently away from their
start, for example after a switch or on a limit cycle.
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

#: Response of a subsystem's reference model, from the subsystem's number, macro step [s] and
#: inputs, shape (nu,); None without a model that can be probed.
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

    With more than `MOST_TRIED` coupled outputs no subsystem is probed. If errors pass through
    calculated channels that depend on earlier samples, the responses of the coupled system are
    unknown.

    Parameters
    ----------
    network, tables, links
        The session's.
    u0, y0 : ndarray, shape (nu,), (ny,)
        Inputs and outputs of the initialized subsystems.
    reference : callable
        Called for subsystems that cannot be probed themselves.
    renews : bool
        Whether the pace allows renewal; sensitivities are renewed if every subsystem with any can
        be probed again.
    in_slack : bool
        Whether renewal runs in the slack of the solvers.
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
    channels = ErringChannels(network, tables).about(y0, linear=True) if few else None
    found = sensitivities_of(network, models, step, variable=variable, channels=channels)
    if not renews or not found.states or found.of_reference:
        return found
    if in_slack:  # their results are some steps old: the states have moved on
        models = [None if model is None else model._replace(own=None) for model in models]
    known = (s for s, model in enumerate(models) if model is not None)
    if in_slack and any(links[s].in_slack is None for s in known):
        return found
    for s in _driven(network, models):
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
        Network through which errors pass: without demands.
    tables : Session
    """

    #: Distances at which responses are compared, as shares of the outputs' magnitudes; a channel is
    #: linear if they are equal within the last number.
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
        """Responses about the outputs `y`, shape (ny,), at `t` [s]; unknown with a memory.

        With `linear`, also test whether they are linear.
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
        direction, largest = np.random.default_rng(0).uniform(-1.0, 1.0, len(y)), np.zeros(len(y))
        largest[self._values.read] = self._values.magnitudes(y)
        others = (self._responses(y + far * largest * direction, far) for far in self.FAR)
        most = self.EQUAL * np.abs(about).max(axis=1, keepdims=True, initial=0.0)
        return all(bool((np.abs(other - about) <= most).all()) for other in others)


def _driven(network: Network, models: Sequence[LinearModel | None]) -> list[int]:
    """Subsystems with a model and with inputs driven by others."""
    driven = set(network.inputs.owner[network.connected].tolist())
    return [s for s, model in enumerate(models) if model is not None and s in driven]


def _without_demands(network: Network, tables: Session) -> Network:
    """The network through which errors pass.

    Values set by test sequences have no error, and errors of the signals that sequences read do not
    pass through them.
    """
    of_sequence = np.array([tables.subsystems[name].is_sequence for name in network.subsystems])
    inputs, outputs = ~of_sequence[network.inputs.owner], ~of_sequence[network.outputs.owner]
    return replace(network, L=network.L.where(inputs, outputs))


class SensitivityRenewal:
    """Repeated probing of the subsystems while the session runs; called between two steps.

    The first trial follows after one step. The interval to the next one doubles if nothing has
    changed, and is halved after a large change. A trial is made early when a coupled output has
    moved twice as far since the last trial as it had when a trial found no change: a loop at rest
    does not reveal its response after a jump. When an input is disturbed far more than before,
    something may have switched: the next trial follows at once, and the interval restarts at one
    step. Except for a few in advance, trials make at most six times as many steps as the session,
    and a twelfth while nothing changes. Steps are counted, not timed, so that the result does not
    depend on the host.

    Results arrive with the next step's input, so that they are recorded and replayed. The reported
    change compares the outputs' errors over the time since the last trial, for the same errors of
    the states and disturbances of the inputs, and so does not depend on units. If a trial fails,
    the change is infinite, and the previous sensitivities remain in use.

    Parameters
    ----------
    numerics : Numerics
        Of a session whose plan says that sensitivities are renewed.
    tables, links
        The session's.

    Attributes
    ----------
    count : int
        Number of trials so far.
    """

    #: Number of steps that take as long as evaluating a trial.
    OVERHEAD = 20
    #: Trial steps per step of the session: at most, and while nothing changes.
    MOST, LEAST = 6.0, 1.0 / 12.0
    #: The latter if a mu adapts to the responses, or if the states of a nonlinear subsystem whose
    #: own integration errs are followed: after a change they are wrong until the next trial.
    LEAST_ADAPTING = 1.0
    #: Trials that may be made in advance, with a fixed and with a variable step: variable steps may
    #: be few and long.
    ADVANCE = (8.0, 100.0)
    #: Above these changes, the next trial follows at once, or after half the interval; below the
    #: last one the interval doubles.
    GREAT, MUCH, LITTLE = 0.5, 0.1, 0.02
    #: A trial is made at once if an output has moved this many times as far as when a trial found
    #: no change; smallest such distance, as a share of the output's largest value.
    FARTHER, NEAR = 2.0, 0.1
    #: A disturbance that exceeds the largest one so far by this factor may be due to a switch.
    JOLT = 3.0
    #: Errors below this share of a signal's largest value are rounding errors; below the second
    #: one they do not affect a verdict. Outputs that drive nothing do not affect it either.
    ROUNDING, MATTERS = 1e-6, 0.01

    def __init__(self, numerics: Numerics, tables: Session, links: Sequence[Link]) -> None:
        self._numerics, self._links = numerics, list(links)
        self._network = _without_demands(numerics.network, tables)
        self._step = tables.master.step
        self._variable = tables.master.step_control.method != "fixed"
        #: Steps between two points at which all subsystems communicate.
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
        paths, linear = len(numerics.plan.own_paths), numerics.plan.session[0].error_linear
        self._own_rows = paths + states if paths else 0
        steps += 2 * (states + 2 * inputs) if paths else 0
        #: Steps of the session that take as long as one trial.
        self._cost = steps / len(self._tried)
        adapts = numerics.plan.bonds["adapts"].any() or (paths and not linear)
        self._most = math.ceil(self._cost / (self.LEAST_ADAPTING if adapts else self.LEAST))
        self._ahead = self.ADVANCE[self._variable]
        self._credit, self._every, self._left, self._since = self._ahead, 1, 1, 0.0
        self._coupled = outputs["coupled"] != 0
        #: Values of the coupled outputs at the last trial, and the distance from them at which
        #: trials found no change.
        self._seen, self._reach = np.zeros((2, np.count_nonzero(self._coupled)))
        #: Largest disturbance of each input up to the last trial.
        self._disturbed = np.zeros(len(numerics.plan.inputs))
        #: Steps of the session between two checks of these values.
        self._check_every = math.ceil(self._cost / self.MOST)
        self.count = 0

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Probe again if that is due at `point`; return `point`."""
        session = self._numerics.given.session[0]
        session.answers_renewed = 0
        self._left -= 1
        self._credit = min(self._credit + self.MOST / self._cost, self._ahead)
        due = self._credit >= 1.0 and point.tick % self._together == 0
        if due and (self._left < 0 or self._is_early()):
            await self._try(point.t_ns / 1e9)
        return point

    def _is_early(self) -> bool:
        """Whether a trial should be made early."""
        if self._variable or self._left % self._check_every:  # such a step is short already
            return False
        inputs = self._numerics.state.inputs
        known = np.maximum(self._disturbed, self.MATTERS * inputs["peak"])
        if self.count and (inputs["disturbance_peak"] > self.JOLT * known).any():
            self._every = 1
            return True
        return self._has_moved()

    def _has_moved(self) -> bool:
        """Whether a coupled output has left the region covered by the last trial."""
        outputs = self._numerics.state.outputs
        known = np.maximum(self._reach, self.NEAR * outputs["peak"][self._coupled])
        away = np.abs(outputs["y"][self._coupled] - self._seen)
        return bool((away > self.FARTHER * known).any())

    async def _try(self, t: float) -> None:
        """Update changed responses at `t` [s], and schedule the next trial."""
        self._conclude(await self._renew(t), t)

    def _conclude(self, change: float, t: float) -> None:
        """Store the change found by a trial at `t` [s]; schedule the next trial."""
        state, session = self._numerics.state, self._numerics.given.session[0]
        session.answers_moved = change > self.LITTLE
        switches = self._numerics.given.subsystems["switches"]
        known = state.subsystems["inside"] == SWITCHES
        session.answers_renewed = (
            not self._is_unchanged() or session.answers_moved or bool((switches != known).any())
        )
        session.answers_since = self._since
        y = state.outputs["y"][self._coupled]
        away = np.abs(y - self._seen)
        if change > self.MUCH:
            self._every = 1 if change > self.GREAT else max(self._every // 2, 1)
            self._reach = np.minimum(self._reach, away / self.FARTHER)
        elif change < self.LITTLE:
            if self._left < 0:  # an early trial does not cover the whole interval
                self._every = min(2 * self._every, self._most)
            self._reach = np.maximum(self._reach, away)
        self._seen = y
        self._disturbed = np.maximum(self._disturbed, state.inputs["disturbance_peak"])
        self._since, self._left, self._credit = t, self._every - 1, self._credit - 1.0

    def _is_unchanged(self) -> bool:
        """Whether the first trial, which is the more exact one, holds: of a linear system."""
        plan, state = self._numerics.plan, self._numerics.state
        return bool(plan.session[0].error_linear and not state.session[0].sensitivities_moved)

    async def _renew(self, t: float) -> float:
        """Store the renewed factors; return their change."""
        self._begin()
        for s in self._tried:
            if not self._store(s, await self._links[s].probes.renewed_model(t, *self._about(s, t))):
                return math.inf
        return self._compare(t)

    def _begin(self) -> None:
        """Begin a renewal; earlier results remain in use until all solvers have been probed."""
        given = self._numerics.given
        given.answers[:] = self._numerics.state.answers["factor"]
        given.session["answers_change"] = math.inf
        self.count += 1

    def _about(self, s: int, t: float) -> tuple[float, Floats]:
        """Macro step [s] of subsystem `s`, and its inputs at `t` [s], shape (nu,)."""
        sent = self._numerics.state.inputs[self._network.inputs.slices[s]]
        u = np.array([InputPolynomial(p.t0, p.polynomial[:, None])(t)[0] for p in sent])
        return float(self._network.every[s]) * self._step, u

    def _store(self, s: int, model: LinearModel | None) -> bool:
        """Store the result of a trial of subsystem `s`; return whether there is one."""
        if model is None:
            return False
        self._models[s] = model
        self._numerics.given.subsystems["switches"][s] = model.inside == SWITCHES
        return True

    def _compare(self, t: float, factors: Floats | None = None) -> float:
        """Store the factors of the subsystems' models at `t` [s]; see `_renew`.

        `factors` are the previous ones, if different from those in use.
        """
        numerics, network = self._numerics, self._network
        given, inputs = numerics.given, numerics.state.inputs
        if factors is None:
            factors = np.ascontiguousarray(numerics.state.answers["factor"])
        channels = self._channels.about(np.ascontiguousarray(numerics.state.outputs["y"]), t)
        known = sensitivities_of(network, self._models, self._step, True, self._variable, channels)
        found, first = known.factors(), len(factors) - self._own_rows
        if numerics.plan.session[0].error_linear:  # otherwise its own steps hold no longer
            found = np.append(found[:first], np.zeros(self._own_rows))
        if len(found) != len(factors):
            return math.inf
        if not self._is_unchanged():
            numerics.keep_stiffest(known.open_loop)
        given.answers[:] = found
        steps = max(1, round((t - self._since) / numerics.plan.session[0].error_unit))
        errors = np.append(numerics.state.errors["value"], inputs["disturbance_peak"])
        before, after = (passed_on(numerics.plan, f, errors, steps) for f in (factors, found))
        peaks = np.ascontiguousarray(numerics.state.outputs["peak"])
        peaks[peaks == 0.0] = np.inf  # signals that have not moved yet are unknown
        judged = np.where(numerics.plan.outputs["coupled"] != 0, peaks, np.inf)
        change = relative_change(before, after, self.MATTERS * judged)
        given.session["answers_change"] = change
        return relative_change(before, after, self.ROUNDING * peaks)


def passed_on(plan: Plan, factors: Floats, errors: Floats, steps: int) -> Floats:
    """Errors of the outputs after `steps`, per state error or input disturbance.

    Parameters
    ----------
    plan : Plan
    factors : ndarray, shape (len(answers),)
        As `hilrt.tables.state.AnswerState`.
    errors : ndarray, shape (nx + nu,)
        Initial error of each state, and constant disturbance of each input.
    steps : int

    Returns
    -------
    ndarray, shape (ny, nx + nu)
        Not finite where the error overflows.
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
    """Largest difference of a row relative to the larger of the two norms, or to `least`."""
    with np.errstate(all="ignore"):
        differ = np.linalg.norm(after - before, axis=1)
        size = np.maximum(np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1))
        size = np.maximum(size, least)
        shares = differ / np.where(size > 0.0, size, 1.0)
    return float(np.nan_to_num(shares, nan=np.inf).max(initial=0.0))
