"""Subsystems as linear maps over one interval between communication points.

With the input over the interval written ``u(s) = Σ_m a_m s^m``, s from 0 to 1, the map is a matrix
from (x, a_0, a_1, …) to (x, y, y', y'', …) at its end. It comes from a linear solver's matrices, or
from the solver itself: its saved state is perturbed, and one step is differentiated, so that the
solver's own integration is included.
"""

from __future__ import annotations

import abc
import contextlib
import copy
import logging
import math
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hilrt.coupling.jacobian import PERTURBATION, LinearSubsystem
from hilrt.errors import HilrtError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.solver import Floats, Port, Ports

#: Relative agreement of steps from far and near perturbations at which a solver counts as linear.
LINEAR = 1e-6
#: Far perturbation of states and inputs, relative to them, or absolute below 1.
WIDE = (10.0, 1000.0)
#: Length of the short steps relative to the macro step.
SHORT = 1e-3
#: Perturbation instead of `PERTURBATION` if the outputs carry a sensor's noise, and the permitted
#: share of noise in an output's response.
NOISY_PERTURBATION, NOISE_SHARE = 1e-2, 0.01
#: Perturbation instead of `PERTURBATION` where a limit is near, after a larger one as a test; the
#: permitted difference of responses, and the rounding of numbers.
FINEST, FINE, DIFFERENT, ROUNDING = 1e-7, 1e-6, 0.2, 1e-14


class CannotLinearise(Exception):
    """Reason why a solver's step cannot be differentiated."""


class Dynamics(abc.ABC):
    """One step of a subsystem as a matrix.

    Attributes
    ----------
    states : int
        Number of states.
    source : str
        Origin of the matrix, as text.
    linear : bool
        Whether it is valid for any state, except for rounding.
    """

    states: int = 0
    source: str = ""
    linear: bool = True

    @abc.abstractmethod
    def step_map(self, h: float, rows: int, derivatives: int) -> Floats:
        """The map over an interval.

        Parameters
        ----------
        h : float
            Its length, s.
        rows : int
            Coefficients of the input polynomial.
        derivatives : int
            Requested derivatives of the outputs; these are zero if unknown.

        Returns
        -------
        ndarray, shape (states + (1 + derivatives) ny, states + rows nu)
        """


class Exact(Dynamics):
    """A linear system, integrated exactly as by `Linear`."""

    def __init__(self, system: LinearSubsystem, source: str) -> None:
        self.system, self.states, self.source = system, len(system.A), source

    def step_map(self, h: float, rows: int, derivatives: int) -> Floats:
        """See `Dynamics.step_map`."""
        A, B = self.system.discretize(h, rows - 1)
        C, D = self.system.C, self.system.D
        state = np.hstack([A, *B])
        output = np.hstack([C @ A, *(C @ B + D)])
        return np.vstack([state, output, np.zeros((derivatives * len(C), state.shape[1]))])


class Constant(Dynamics):
    """A subsystem outside all loops, through which no disturbance returns."""

    def __init__(self, ports: Ports, source: str) -> None:
        self.nu, self.ny = size(ports.inputs), size(ports.outputs)
        self.source = source

    def step_map(self, h: float, rows: int, derivatives: int) -> Floats:
        """See `Dynamics.step_map`."""
        return np.zeros(((1 + derivatives) * self.ny, rows * self.nu))


class Differentiated(Dynamics):
    """A solver whose saved state consists of numbers, differentiated about its present state.

    Parameters
    ----------
    hosted : HostedSolver
        Initialized.
    u0 : ndarray, shape (nu,)
        Inputs about which the step is differentiated.
    h : float
        Interval over which linearity is tested, s.
    within : float
        No step is begun after this time, s.
    t : float
        The solver's present time, s.
    quick : bool
        Skip the linearity test; refuse noisy solvers, too.

    Raises
    ------
    CannotLinearise
        If the solver cannot go back, if its saved state contains anything but numbers or is
        incomplete, or if the time limit is reached; also raised by `step_map`.
    """

    def __init__(
        self,
        hosted: HostedSolver,
        u0: Floats,
        h: float,
        within: float = math.inf,
        *,
        t: float = 0.0,
        quick: bool = False,
    ) -> None:
        self._end, self._t = time.monotonic() + within, t
        if not hosted.solver.can_restore():
            raise CannotLinearise("its solver does not save and restore its state")
        self.hosted, self.u0 = hosted, u0
        self.saved = hosted.solver.save_state()
        self.kept = leaves(self.saved)
        self.numbers = self._find_numbers(h)
        self.states = len(self.numbers)
        self.perturbation, self.noise = PERTURBATION, np.zeros(hosted.n_outputs)
        self.x0 = np.array([self.kept[i] for i in self.numbers], dtype=np.float64)
        before = self._respond(h, 1, 0, self._point(1))
        if quick:
            if not np.array_equal(before, self._respond(h, 1, 0, self._point(1))):
                raise CannotLinearise("the same step gives different results")
            self.linear, self.source = False, "its solver's step differentiated"
            return
        near = self._differentiate(h, 1, 0, near=True)
        far = None
        with contextlib.suppress(HilrtError, ArithmeticError, CannotLinearise), unlogged():
            far = self._differentiate(h, 1, 0, near=False)
        again = self._respond(h, 1, 0, self._point(1))
        noisy = not np.array_equal(before, again)
        if noisy:
            self._measure_noise(before, again, h)
        seen = seen_outside(near, self.states)
        alike = not noisy and far is not None and _agree(near, far, seen)
        self.linear = alike and self._holds_widely(h, before, near, seen)
        about = "linear" if self.linear else "not linear: about its initial state"
        self.source = f"its solver's step differentiated ({about})"

    def _measure_noise(self, before: Floats, again: Floats, h: float) -> None:
        """Continue with larger perturbations if the only difference is small noise on the outputs.

        The second trial perturbs in the opposite order: otherwise an unsaved state that counts from
        step to step would have the same effect in both.
        """
        self.perturbation = NOISY_PERTURBATION
        one = self._differentiate(h, 1, 0, near=True)
        other = self._differentiate(h, 1, 0, near=True, up_first=False)
        moved = self.perturbation * np.maximum(1.0, np.abs(self._point(1)))
        noise = (np.abs(one - other) * moved).max(axis=1, initial=0.0)
        responses = (np.abs(one) * moved).max(axis=1, initial=0.0)
        same_states = np.array_equal(before[: self.states], again[: self.states])
        if not same_states or (noise > NOISE_SHARE * responses).any():
            raise CannotLinearise(
                "the same step from the same saved state gives different results: the saved state "
                "is incomplete"
            )
        self.noise = noise[self.states :]

    def step_map(self, h: float, rows: int, derivatives: int) -> Floats:
        """See `Dynamics.step_map`."""
        return self._differentiate(h, rows, derivatives, near=not self.linear)

    def held(self, h: float) -> Floats:
        """State and outputs after a step of `h` [s] with held inputs, shape (states + ny,)."""
        return self._respond(h, 1, 0, self._point(1))

    def later(self, by: float) -> Differentiated:
        """The same solver, as if in the same state `by` [s] later."""
        other = copy.copy(self)
        other._t += by
        return other

    def held_in(self, parts: int, h: float) -> Floats:
        """Responses of state and outputs to state and held inputs over `h` [s], in equal steps.

        Parameters
        ----------
        parts : int
            Number of steps.

        Returns
        -------
        ndarray, shape (states + ny, states + nu)
        """
        point = self._point(1)
        moves = np.diag(self.perturbation * np.maximum(1.0, np.abs(point)))
        columns = []
        for move in moves:
            ends = [self._respond(h, 1, 0, point + side * move, parts) for side in (1.0, -1.0)]
            columns.append((ends[0] - ends[1]) / (2.0 * move.sum()))
        return np.array(columns).reshape(-1, self.states + self.hosted.n_outputs).T

    def _holds_widely(
        self, h: float, before: Floats, near: Floats, seen: NDArray[np.bool_]
    ) -> bool:
        """Whether the solver's response is the same far to either side of its state.

        Near its state, a relay, a valve at its stop, a gap or a contact has a constant response, or
        none, and looks linear. Inputs stay within their ports' ranges.
        """
        point, free = self._point(1), np.full(self.states, np.inf)
        ports = self.hosted.solver.inputs
        low = np.append(-free, [port.min for port in ports for _ in range(port.size)])
        high = np.append(free, [port.max for port in ports for _ in range(port.size)])
        try:
            with np.errstate(all="ignore"), unlogged():
                for reach in WIDE:
                    for side in (-reach, reach):
                        there = np.clip(point + side * np.maximum(1.0, np.abs(point)), low, high)
                        moved = np.flatnonzero(there != point)
                        found = np.empty((len(near), len(moved)))
                        for column, i in enumerate(moved):
                            one = point.copy()
                            one[i] = there[i]
                            change = self._respond(h, 1, 0, one) - before
                            found[:, column] = change / (there[i] - point[i])
                        if not _agree(near[:, moved], found, seen):
                            return False
        except (HilrtError, ArithmeticError, CannotLinearise):
            return False
        return True

    def _find_numbers(self, h: float) -> list[int]:
        """Positions of real numbers among the leaves: those that are float now or after a step.

        An initial value may be an integer although the state is real. Anything else (a gear, a
        flag) is a mode and stays unchanged.
        """
        solver = self.hosted.solver
        try:
            self.hosted.advance(self._t, h, self.u0[None])
            after = leaves(solver.save_state())
        finally:
            solver.restore_state(self.saved)
        if len(after) != len(self.kept):
            raise CannotLinearise("the size of its saved state changes from step to step")
        pairs = enumerate(zip(self.kept, after, strict=True))
        return [i for i, pair in pairs if any(isinstance(leaf, float) for leaf in pair)]

    def _point(self, rows: int) -> Floats:
        return np.concatenate([self.x0, self.u0, np.zeros((rows - 1) * len(self.u0))])

    def _differentiate(
        self, h: float, rows: int, derivatives: int, *, near: bool, up_first: bool = True
    ) -> Floats:
        """Differences; exact from far perturbations if the solver is linear."""
        point = self._point(rows)
        if not near:
            origin = self._respond(h, rows, derivatives, np.zeros_like(point))
            unit = np.eye(len(point))
            columns = [self._respond(h, rows, derivatives, e) - origin for e in unit]
        else:
            columns = list(self.columns(h, rows, derivatives, up_first=up_first))
        rows_of_map = self.states + (1 + derivatives) * self.hosted.n_outputs
        return np.array(columns).reshape(-1, rows_of_map).T

    def columns(
        self, h: float, rows: int, derivatives: int, *, up_first: bool = True
    ) -> Iterator[Floats]:
        """Columns of `step_map` from near perturbations, of two steps each."""
        point = self._point(rows)
        steps = np.diag(self.perturbation * np.maximum(1.0, np.abs(point)))
        for step in steps if up_first else -steps:
            ends = [self._respond(h, rows, derivatives, point + way * step) for way in (1.0, -1.0)]
            yield (ends[0] - ends[1]) / (2.0 * step.sum())

    def needs_finer(self, h: float, near: Floats) -> Generator[None, None, bool]:
        """Whether a limit lies within the perturbations of a step of `h` [s].

        In parts of two steps. A rate-limited output looks like an integrator if its target is moved
        farther than it can follow. Responses to smaller moves then differ, but not those to even
        smaller ones. `near`: `columns` of this step, side by side.
        """
        way = self._direction()
        each = near @ way
        each[: self.states] -= way[: self.states]
        finer = self._to_all(h, FINE)
        if _alike((each, finer[1]), finer):
            return False
        yield  # a kink at the present state has the same effect, but for moves of any size
        usual = self._to_all(h, self.perturbation)
        if _alike(usual, finer):
            return False
        yield
        return _alike(finer, self._to_all(h, FINEST))

    def _direction(self) -> Floats:
        """A move of all numbers, relative to a perturbation, shape (states + nu,)."""
        point = self._point(1)
        signs = np.random.default_rng(0).choice((-1.0, 1.0), len(point))
        return signs * np.maximum(1.0, np.abs(point))

    def _to_all(self, h: float, size: float) -> tuple[Floats, Floats]:
        """Response to a move of all numbers, per `size`, and its rounding, by row."""
        point, way = self._point(1), self._direction()
        ends = [self._respond(h, 1, 0, point + side * size * way) for side in (1.0, -1.0)]
        found = (ends[0] - ends[1]) / (2.0 * size)
        found[: self.states] -= way[: self.states]
        return found, ROUNDING * np.maximum(1.0, np.abs(ends[0])) / size

    def _respond(
        self, h: float, rows: int, derivatives: int, point: Floats, parts: int = 1
    ) -> Floats:
        """State, outputs and their derivatives after `h` [s]; the solver's state is restored."""
        if time.monotonic() > self._end:
            raise CannotLinearise("its steps take too long")
        solver, hosted = self.hosted.solver, self.hosted
        values = list(self.kept)
        for i, value in zip(self.numbers, point[: self.states].tolist(), strict=True):
            values[i] = value
        powers = np.array([math.factorial(m) / h**m for m in range(rows)])[:, None]
        coefficients = point[self.states :].reshape(rows, hosted.n_inputs) * powers
        try:
            solver.restore_state(rebuilt(self.saved, iter(values)))
            for part in range(parts):
                sample = hosted.advance(self._t + part * h / parts, h / parts, coefficients)
            after = leaves(solver.save_state())
        except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
            raise CannotLinearise(
                f"its saved state cannot be perturbed ({type(error).__name__}: {error})"
            ) from None
        finally:
            solver.restore_state(self.saved)
        if len(after) != len(self.kept):
            raise CannotLinearise("the size of its saved state changes from step to step")
        state = [float(after[i]) for i in self.numbers]
        dy = np.zeros((derivatives, hosted.n_outputs))
        if sample.dy is not None:
            known = sample.dy[:derivatives]
            finite = np.logical_and.accumulate(np.isfinite(known), axis=0)
            dy[: len(known)] = np.where(finite, known, 0.0)
        return np.concatenate([state, sample.y, dy.ravel()])


def _alike(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> bool:
    """Whether two responses, each with its rounding, are the same."""
    largest = np.maximum(np.abs(one[0]), np.abs(other[0]))
    return bool((np.abs(one[0] - other[0]) <= DIFFERENT * largest + one[1] + other[1]).all())


def _agree(near: Floats, far: Floats, seen: NDArray[np.bool_]) -> bool:
    """Whether two maps agree in the rows `seen`, except for rounding."""
    size = np.abs(near).max(axis=1, keepdims=True, initial=0.0)
    return bool((np.abs(near - far) <= LINEAR * size)[seen].all())


def seen_outside(step: Floats, states: int) -> NDArray[np.bool_]:
    """Rows of a step's map that affect outputs, shape (rows,); the others only accumulate.

    A solver may save accumulated values in addition to its motion: energy, fuel, distance.
    """
    seen = np.arange(len(step)) >= states
    for _ in range(states):
        seen[:states] |= (step[seen, :states] != 0.0).any(axis=0)
    return seen


def leaves(state: Any) -> list[Any]:
    """All scalar values in a saved state, in order: elements of arrays, tuples, lists and dicts."""
    if isinstance(state, np.ndarray) and state.dtype.kind in "fiub":
        return list(state.ravel().tolist())
    if isinstance(state, dict):
        state = list(state.values())
    if isinstance(state, (tuple, list)):
        return [leaf for entry in state for leaf in leaves(entry)]
    if isinstance(state, np.generic):
        return [state.item()]
    if state is None or isinstance(state, (bool, int, float, str, bytes)):
        return [state]
    raise CannotLinearise(
        f"its saved state contains a {type(state).__name__}; save numbers and arrays of numbers"
    )


def rebuilt(state: Any, values: Iterator[Any]) -> Any:
    """A saved state of the same structure with other `leaves`, taken from `values` in order."""
    if isinstance(state, np.ndarray):
        return np.array([next(values) for _ in range(state.size)]).reshape(state.shape)
    if isinstance(state, (tuple, list)):
        entries = [rebuilt(entry, values) for entry in state]
        named = isinstance(state, tuple) and hasattr(state, "_fields")
        return type(state)(*entries) if named else type(state)(entries)
    if isinstance(state, dict):
        return {key: rebuilt(entry, values) for key, entry in state.items()}
    return next(values)


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Silence the solver's log while it is probed: failures are expected then."""
    logger = logging.getLogger("hilrt.solver")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def size(ports: Sequence[Port]) -> int:
    """Number of scalar channels of all `ports`."""
    return sum(port.size for port in ports)
