"""The subsystems of a session as linear maps over one interval between communication points.

With the input over the interval written ``u(s) = Σ_m a_m s^m``, s from 0 to 1, the map is a matrix
from (x, a_0, a_1, …) to (x, y, y', y'', …) at its end. It comes from a linear solver's matrices, or
from the solver itself: the state it saves is perturbed, and one step is differentiated. So the
solver's own integration counts, too.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hilrt.coupling.jacobian import PERTURBATION, LinearSubsystem
from hilrt.errors import HilrtError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.solver import Floats, Port, Ports

#: Steps from a far and from a near perturbation that agree this well are those of a linear solver.
LINEAR = 1e-6
#: How far states and inputs are moved to find out, relative to them, or absolute below 1.
WIDE = (10.0, 1000.0)
#: Perturbation in place of `PERTURBATION` where a sensor's noise is on the outputs, and the
#: share of an output's answers that the noise may be.
NOISY_PERTURBATION, NOISE_SHARE = 1e-2, 0.01


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
        Whether it holds for any state, except for rounding.
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
            Derivatives of the outputs that are requested; zero if they are not known.

        Returns
        -------
        ndarray, shape (states + (1 + derivatives) ny, states + rows nu)
        """


class Exact(Dynamics):
    """A linear system, integrated exactly as `Linear` does."""

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
    """A subsystem outside every loop, through which no disturbance returns."""

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
        Inputs that the step is differentiated about.
    h : float
        Interval at which to find out whether the solver is linear, s.
    within : float
        No step is begun later than that, s.
    t : float
        Where the solver stands, s.
    quick : bool
        Do not find out whether the solver is linear; refuse one with noise, too.

    Raises
    ------
    CannotLinearise
        If the solver cannot go back, or its saved state contains anything but numbers, or does not
        hold all of it, or the time is over; from `step_map`, too.
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
        """Continue with larger perturbations where all that differs is little noise on the outputs.

        Of two trials, the second perturbs in the opposite order: what a state that is not saved
        counts on from step to step would else be in both alike.
        """
        self.perturbation = NOISY_PERTURBATION
        one = self._differentiate(h, 1, 0, near=True)
        other = self._differentiate(h, 1, 0, near=True, up_first=False)
        moved = self.perturbation * np.maximum(1.0, np.abs(self._point(1)))
        noise = (np.abs(one - other) * moved).max(axis=1, initial=0.0)
        answers = (np.abs(one) * moved).max(axis=1, initial=0.0)
        same_states = np.array_equal(before[: self.states], again[: self.states])
        if not same_states or (noise > NOISE_SHARE * answers).any():
            raise CannotLinearise(
                "the same step from the same saved state gives different results: the saved state "
                "is incomplete"
            )
        self.noise = noise[self.states :]

    def step_map(self, h: float, rows: int, derivatives: int) -> Floats:
        """See `Dynamics.step_map`."""
        return self._differentiate(h, rows, derivatives, near=not self.linear)

    def held_in(self, parts: int, h: float) -> Floats:
        """Answers of state and outputs to state and held inputs over `h` [s], in equal steps.

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
        """Whether far to either side of its state, too, the solver answers as close to it.

        A relay, a valve at its stop, a gap or a contact answer with a constant, or with nothing,
        until they are left: close to such a state they look linear. Inputs stay within the ranges
        that their ports declare.
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
                            answer = self._respond(h, 1, 0, one) - before
                            found[:, column] = answer / (there[i] - point[i])
                        if not _agree(near[:, moved], found, seen):
                            return False
        except (HilrtError, ArithmeticError, CannotLinearise):
            return False
        return True

    def _find_numbers(self, h: float) -> list[int]:
        """Positions of the real numbers among the leaves: float now, or after a step.

        Everything else (a gear, a flag) is a mode that stays as it is; but an initial value may
        have been written as a whole number.
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
        """Differences; those from far perturbations are exact if the solver is linear."""
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
        """Columns of `step_map` from near perturbations, one after the other, of two steps each."""
        point = self._point(rows)
        steps = np.diag(self.perturbation * np.maximum(1.0, np.abs(point)))
        for step in steps if up_first else -steps:
            ends = [self._respond(h, rows, derivatives, point + way * step) for way in (1.0, -1.0)]
            yield (ends[0] - ends[1]) / (2.0 * step.sum())

    def _respond(
        self, h: float, rows: int, derivatives: int, point: Floats, parts: int = 1
    ) -> Floats:
        """State, outputs and their derivatives after `h` [s]; the solver is left as it was."""
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


def _agree(near: Floats, far: Floats, seen: NDArray[np.bool_]) -> bool:
    """Whether two maps are the same in the rows `seen`, except for rounding."""
    size = np.abs(near).max(axis=1, keepdims=True, initial=0.0)
    return bool((np.abs(near - far) <= LINEAR * size)[seen].all())


def seen_outside(step: Floats, states: int) -> NDArray[np.bool_]:
    """Rows of a step's map from which outputs follow, shape (rows,); the others only keep count.

    A solver may save accumulated values beside its motion: energy, fuel, distance.
    """
    seen = np.arange(len(step)) >= states
    for _ in range(states):
        seen[:states] |= (step[seen, :states] != 0.0).any(axis=0)
    return seen


def leaves(state: Any) -> list[Any]:
    """Everything in a saved state, in order: of arrays, tuples, lists and dicts the elements."""
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
    """A saved state of the same form with other `leaves`, taken from `values` in turn."""
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
    """Silence the solver's log while it is probed: failures are expected there."""
    logger = logging.getLogger("hilrt.solver")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def size(ports: Sequence[Port]) -> int:
    """Number of scalar channels of all `ports`."""
    return sum(port.size for port in ports)
