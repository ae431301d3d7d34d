"""A solver's continuous dynamics about its initial state, probed by steps that are undone.

If a solver saves its state as numbers, its step is a matrix (`linearise`). Very short steps give
A and B; the macro step shows how finely the solver follows its inputs within it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from hilrt.coupling.jacobian import discretize
from hilrt.errors import SolverError
from hilrt.hosting.group import Group, Part
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.import_module import describe
from hilrt.hosting.linearise import (
    FINEST,
    SHORT,
    CannotLinearise,
    Differentiated,
    leaves,
    unlogged,
)
from hilrt.hosting.own_integration import (
    depends_on_time,
    errs,
    exact_when_held,
    gains_nothing,
    own_of_group,
    own_steps,
)
from hilrt.link import LARGEST_STATE, SMOOTH, SWITCHES, UNSEEN, LinearModel
from hilrt.solver import Floats

#: Direct responses below this multiple of their output's noise count as noise.
CLEAR_OF_NOISE = 5.0
log = logging.getLogger("hilrt.solver")
T = TypeVar("T")
#: Responses to a ramp below this share of the largest do not show how finely it is followed.
_CLEAR = 1e-3
#: Number of steps into which a nonlinear solver's macro step is divided, as a test of its accuracy.
PARTS = 3
#: Shares of a step at which outputs are observed: switching at a fraction of the step cannot have
#: the same phase at all of them; and number of whole steps before, in which transients decay.
INSIDE, SETTLES = (0.07, 0.19, 0.36, 0.57, 0.81, 1.0), 2
#: Deviation from a parabola at which an output is not smooth, relative to its largest value.
ROUGH = 0.1


class StateLost(SolverError):
    """Error: a trial has left the solver in an unknown state."""


@runtime_checkable
class KnowsItsMatrices(Protocol):
    """A solver that provides its matrices, such as an FMU with directional derivatives."""

    def linear_model(self, h: float) -> LinearModel | None:
        """A, B, C, D about the present state, for macro steps `h` [s]; None if unknown.

        Raises `SolverError` if the solver cannot continue.
        """


def may_have_linear_model(hosted: HostedSolver) -> bool:
    """Whether `find_linear_model` may succeed."""
    return hosted.can_go_back or isinstance(hosted.solver, KnowsItsMatrices)


def find_linear_model(
    hosted: HostedSolver, u: Floats, h: float, within: float = math.inf
) -> LinearModel | None:
    """A, B, C, D about the solver's state; None if it cannot be probed.

    Parameters
    ----------
    hosted : HostedSolver
        Initialized, before its first step; its state is left unchanged.
    u : ndarray, shape (nu,)
        Inputs about which to differentiate.
    h : float
        Macro step, s.
    within : float
        No step is begun after this time, s; results missing by then are omitted.

    Raises
    ------
    StateLost
        If the solver's state cannot be restored.
    """
    if isinstance(hosted.solver, Group):
        return _of_members(
            hosted.solver,
            within,
            lambda part, left: find_linear_model(part.hosted, u[part.inputs], h, left),
        )
    try:
        return probe(hosted, u, h, within)
    except StateLost:
        raise
    except (Exception, SystemExit) as error:  # a failed trial must not end the session
        log.debug("%s was not probed: %s", type(hosted.solver).__name__, error)
        return None


def can_be_renewed(hosted: HostedSolver) -> bool:
    """Whether `renew_linear_model` may succeed.

    This includes FMUs: some change their state when derivatives are requested, and must restore it.
    """
    return hosted.can_go_back


def can_be_renewed_in_parts(hosted: HostedSolver) -> bool:
    """Whether `renewal` may succeed."""
    return can_be_renewed(hosted) and not isinstance(hosted.solver, Group)


def renew_linear_model(
    hosted: HostedSolver, t: float, u: Floats, h: float, within: float = math.inf
) -> LinearModel | None:
    """A, B, C, D about the solver's present state at `t` [s]; None if not available.

    Like `find_linear_model`, in ``2 (nx + nu) + 11`` steps instead of about ten times as many, and
    in ``2 (nx + nu) + 4`` more where a limit is near, or ``2 (nx + 2 nu) + 2`` more if its own
    integration errs. The fineness of following inputs is not probed. A noisy solver is not probed
    again: trials would draw numbers from a generator that is not saved. A solver that provides its
    matrices is not probed at all.
    """
    if isinstance(hosted.solver, Group):
        return _of_members(
            hosted.solver,
            within,
            lambda part, left: renew_linear_model(part.hosted, t, u[part.inputs], h, left),
        )
    if not can_be_renewed(hosted):
        return None
    saved = hosted.solver.save_state()
    try:
        with unlogged():
            return at_once(renewal(hosted, t, u, h, within, own=hosted.errs))
    except (Exception, SystemExit) as error:  # a failed trial must not end the session
        restore(hosted, saved)
        log.debug("%s was not probed at t = %g s: %s", type(hosted.solver).__name__, t, error)
        return None


def renewal(
    hosted: HostedSolver,
    t: float,
    u: Floats,
    h: float,
    within: float = math.inf,
    *,
    own: bool = False,
) -> Generator[None, None, LinearModel]:
    """`renew_linear_model` in parts of a few steps each; raises all failures.

    With `own`, the error of its own integration is probed, too. At the beginning and end of each
    part, the solver is in its state at `t` [s].
    """
    if isinstance(hosted.solver, KnowsItsMatrices):
        known = hosted.solver.linear_model(h)
        if known is None:
            raise CannotLinearise("it does not provide its matrices")
        return known._replace(inside=(yield from _inside_parts(hosted, t, u, h, 0)))
    if len(leaves(hosted.solver.save_state())) > LARGEST_STATE:
        raise CannotLinearise(f"its state has more than {LARGEST_STATE} numbers")
    found = Differentiated(hosted, u, h, within, t=t, quick=True)
    yield
    short = yield from _map(found, SHORT * h, 1)
    if (yield from found.needs_finer(SHORT * h, short)):
        found.perturbation = FINEST
        short = yield from _map(found, SHORT * h, 1)
    nx = found.states
    inside = yield from _inside_parts(hosted, t, u, h, 0)
    rates = (short[:nx] - np.eye(nx, short.shape[1])) / (SHORT * h)
    C, D = _outputs(short, nx)
    fineness = np.ones(hosted.n_inputs)
    model = LinearModel(rates[:, :nx], rates[:, nx:], C, D, fineness, False, inside=inside)
    if own:
        whole = yield from _map(found, h, 2)
        model = model._replace(own=own_steps(found, model, whole, h))
        yield
    if not all(
        np.isfinite(matrix).all() for matrix in (*model[:4], model.own) if matrix is not None
    ):
        raise CannotLinearise("its responses to its inputs are not finite")
    return model


def _map(found: Differentiated, h: float, rows: int) -> Generator[None, None, Floats]:
    """Map of a step of `h` [s], shape (nx + ny, nx + rows nu)."""
    columns = list[Floats]()
    for column in found.columns(h, rows, 0):
        columns.append(column)
        yield
    return np.array(columns).reshape(-1, found.states + found.hosted.n_outputs).T


def next_part(parts: Generator[None, None, T]) -> T | None:
    """Run the next part of a `renewal`; return its result after the last one."""
    try:
        next(parts)
    except StopIteration as end:
        found: T = end.value
        return found
    return None


def at_once(parts: Generator[None, None, T]) -> T:
    """Run all parts; return their result."""
    while (found := next_part(parts)) is None:
        pass
    return found


def _of_members(
    group: Group, within: float, find: Callable[[Part, float], LinearModel | None]
) -> LinearModel | None:
    """Combined responses of a group; `find` probes each member in the remaining time [s]."""
    if group.can_restore() and group.any_step:
        group.bring_members()
    end = time.monotonic() + within
    return _of_group(group, [find(part, end - time.monotonic()) for part in group.parts])


def _of_group(group: Group, models: Sequence[LinearModel | None]) -> LinearModel | None:
    """Combined responses of a group's members, which do not interact within a step."""
    if all(model is None for model in models):
        return None
    nx = sum(0 if model is None else len(model.A) for model in models)
    ny, nu = (sum(port.size for port in side) for side in (group.outputs, group.inputs))
    A, B, C, D = (np.zeros(shape) for shape in ((nx, nx), (nx, nu), (ny, nx), (ny, nu)))
    fineness, slope = np.ones((2, nu))
    lacking, at = list[int](), 0
    for part, model in zip(group.parts, models, strict=True):
        if model is None:
            lacking += range(part.outputs.start, part.outputs.stop)
            continue
        own = slice(at, at := at + len(model.A))
        A[own, own], B[own, part.inputs] = model.A, model.B
        C[part.outputs, own], D[part.outputs, part.inputs] = model.C, model.D
        fineness[part.inputs] = model.fineness
        if model.slope is not None:
            slope[part.inputs] = model.slope
        lacking += [part.outputs.start + i for i in model.lacking]
    known = [model for model in models if model is not None]
    seen = [UNSEEN if model is None else model.inside for model in models]
    return LinearModel(
        *(A, B, C, D, fineness),
        linear=all(model.linear for model in known),
        lacking=tuple(lacking),
        slope=None if all(model.slope is None for model in known) else slope,
        inside=SWITCHES if SWITCHES in seen else min(seen),
        own=own_of_group(group, models, nx),
    )


def probe(hosted: HostedSolver, u: Floats, h: float, within: float = math.inf) -> LinearModel:
    """Probe the solver; `CannotLinearise`, or the solver's own error, if that fails."""
    solver = hosted.solver
    if isinstance(solver, KnowsItsMatrices):
        try:
            model = solver.linear_model(h)
        except SolverError as error:
            raise StateLost(str(error)) from error
        if model is not None:
            return model._replace(inside=_seen_inside(hosted, u, h))
    if not hosted.can_go_back:
        raise CannotLinearise("it does not save and restore its state, or cannot vary its step")
    saved = solver.save_state()
    numbers = len(leaves(saved))
    if numbers > LARGEST_STATE:
        raise CannotLinearise(f"its state has {numbers} numbers, more than {LARGEST_STATE}")
    try:
        with unlogged():
            found = _differentiated(hosted, u, h, within)
            return found._replace(inside=_seen_inside(hosted, u, h))
    except (Exception, SystemExit):
        restore(hosted, saved)
        raise


def restore(hosted: HostedSolver, saved: Any) -> None:
    """Restore a saved state; raise `StateLost` if that fails."""
    try:
        hosted.solver.restore_state(saved)
    except (Exception, SystemExit) as error:
        raised = describe(error, type(hosted.solver))
        raise StateLost(f"restore_state raised after a probe: {raised}") from error


def _differentiated(hosted: HostedSolver, u: Floats, h: float, within: float) -> LinearModel:
    found = Differentiated(hosted, u, h, within)
    short, double = (found.step_map(k * SHORT * h, 1, 0) for k in (1, 2))
    whole = found.step_map(h, 2, 0)
    nx, nu = found.states, hosted.n_inputs
    A, B = _rates(short, double, nx, SHORT * h)
    C, D = _outputs(short, nx)
    moved = found.perturbation * np.maximum(1.0, np.abs(u))
    D[np.abs(D) < CLEAR_OF_NOISE * found.noise[:, None] / moved] = 0.0
    model = LinearModel(A, B, C, D, np.ones(nu), found.linear)
    if not all(np.isfinite(matrix).all() for matrix in model[:4]):
        raise CannotLinearise("its responses to its inputs are not finite")
    fineness = _fineness(A, B, whole[:nx, nx + nu :], h)
    held = whole[:nx, : nx + nu]
    if model.linear:
        exact = exact_when_held(model, held, h)
    else:
        exact = gains_nothing(model, held, found.held_in(PARTS, h)[:nx], h)
    if exact:  # reading a held input only once loses nothing
        return model._replace(slope=fineness)
    own, model = own_steps(found, model, whole, h), model._replace(fineness=fineness)
    hosted.errs = errs(model, own, h)
    # The state of a linear solver is followed without further trials: only its inputs may drive it.
    linear = model.linear and not (hosted.errs and depends_on_time(found, h))
    return model._replace(linear=linear, own=own if hosted.errs else None)


def _seen_inside(hosted: HostedSolver, u: Floats, h: float) -> int:
    """Whether the outputs are smooth within a step of `h` [s], after `SETTLES` such steps.

    A converter that switches in step with the exchange has the same value at every step's end.
    """
    return at_once(_inside_parts(hosted, 0.0, u, h, SETTLES))


def _inside_parts(
    hosted: HostedSolver, t: float, u: Floats, h: float, settles: int
) -> Generator[None, None, int]:
    """`_seen_inside` in parts of a step each; see `renewal`."""
    if not hosted.can_go_back:
        return UNSEEN
    ends = [*range(settles + 1), *(settles + share for share in INSIDE)]
    saved, values = hosted.solver.save_state(), []
    reached = saved
    for begin, end in pairwise(ends):
        try:
            hosted.solver.restore_state(reached)
            values.append(hosted.advance(t + begin * h, (end - begin) * h, u[None]).y)
            reached = hosted.solver.save_state()
        finally:
            hosted.solver.restore_state(saved)
        yield
    y = np.array(values[settles:])
    powers = np.vander(INSIDE, 3)
    away = np.abs(y - powers @ np.linalg.lstsq(powers, y, rcond=None)[0]).max(axis=0)
    return SWITCHES if (away > ROUGH * np.abs(y).max(axis=0)).any() else SMOOTH


def _rates(short: Floats, double: Floats, nx: int, h: float) -> tuple[Floats, Floats]:
    """A and B from a step of `h` [s] and one twice as long; terms of first order in h cancel."""
    identity = np.eye(nx, short.shape[1])
    rates = 2.0 * (short[:nx] - identity) / h - (double[:nx] - identity) / (2.0 * h)
    return rates[:, :nx], rates[:, nx:]


def _outputs(short: Floats, nx: int) -> tuple[Floats, Floats]:
    """C and D from the outputs at the end of a step, which follow from the state there."""
    # A step may overwrite a state: then use the smallest matrices that explain the outputs.
    C = np.linalg.lstsq(short[:nx, :nx].T, short[nx:, :nx].T, rcond=None)[0].T
    D = short[nx:, nx:] - C @ short[:nx, nx:]
    D[np.abs(D) < 1e-6 * np.abs(short[nx:, nx:]).max(initial=0.0)] = 0.0
    # Below `SHORT` times the response through the states in a macro step, a direct response is
    # indistinguishable from that path in so short a step, and from the error of the differences.
    D[np.abs(D) < np.abs(C @ short[:nx, nx:])] = 0.0
    return C.astype(np.float64), D


def _fineness(A: Floats, B: Floats, ramp: Floats, h: float) -> Floats:
    """Response of the state to a ramp over the step, relative to that of the continuous system.

    `ramp`, shape (nx, nu), is the response of the solver's own step.
    """
    expected = discretize(A, B, h, 1)[1][1]
    found = np.full(B.shape[1], np.nan)
    for i in range(len(found)):
        clear = np.abs(expected[:, i]) > _CLEAR * np.abs(expected[:, i]).max(initial=0.0)
        if clear.any():
            ratios = ramp[clear, i] / expected[clear, i]
            found[i] = min(max(float(np.median(ratios)), 0.0), 1.0)
    known = found[np.isfinite(found)]
    # Inputs without effect on any state are treated like the others.
    return np.where(np.isfinite(found), found, known.mean() if len(known) else 1.0)
