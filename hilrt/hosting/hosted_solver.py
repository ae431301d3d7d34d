"""Safe calls to a user's solver: check its results, and name the method that fails.

The solver process and the in-process link share it, so that a solver behaves the same in both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hilrt.config.from_toml import nearest
from hilrt.coupling.jacobian import probe_jacobian, probe_response
from hilrt.errors import SolverError
from hilrt.hosting.import_module import describe
from hilrt.solver import Floats, InputPolynomial, Parameter, Sample, Solver

_FLOAT64 = np.dtype(np.float64)
#: Tolerance of comparisons of times, s.
_NS = 1e-9

log = logging.getLogger("hilrt.solver")


@runtime_checkable
class HasMembers(Protocol):
    """A group, whose members are probed individually: they do not influence each other."""

    def jacobians(self, source: str, t: float, h: float, order: int, u: Floats) -> Floats | None:
        """See `HostedSolver.jacobian`."""


class HostedSolver:
    """A solver whose failures all become a `SolverError` that says what to check.

    Parameters
    ----------
    solver : Solver
        As created by `load_solver`.

    Attributes
    ----------
    n_inputs, n_outputs : int
        Scalar inputs and outputs.
    keeps : bool
        Whether the state before each step is kept, for `go_back`.
    initialized : bool
        Whether a session has started with it.
    errs : bool
        Whether a trial has shown that its own integration errs.
    """

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.inputs = tuple(solver.inputs)
        self.outputs = tuple(solver.outputs)
        self.n_inputs = sum(port.size for port in self.inputs)
        self.n_outputs = sum(port.size for port in self.outputs)
        self._y_shape = (self.n_outputs,)
        self._stopped = False
        self._t = 0.0
        self.initialized = False
        self.keeps = False
        self.errs = False
        self._before: tuple[Any, float, Floats] | None = None

    @property
    def can_go_back(self) -> bool:
        """Whether a step can be undone and repeated with a shorter length."""
        return self.solver.can_restore() and self.solver.any_step

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The solver's parameters, with its current attributes as defaults."""
        found = []
        for parameter in self.solver.parameters:
            value = getattr(self.solver, parameter.name, parameter.default)
            if isinstance(value, (int, float)) and parameter.min <= value <= parameter.max:
                parameter = dataclasses.replace(parameter, default=float(value))
            found.append(parameter)
        return tuple(found)

    @property
    def findings(self) -> list[str]:
        """Findings that the solver reports: names of `link.FINDINGS`."""
        return list(getattr(self.solver, "findings", ()))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Outputs at `t0` [s] for the inputs `u0`, shape (n_inputs,)."""
        self.initialized = True
        try:
            sample = self.solver.initialize(t0, u0)
        except SolverError as error:  # its text is complete
            raise SolverError(f"initialize at t = {t0:g} s: {error}") from error
        except (Exception, SystemExit) as error:
            raise self._failure("initialize", t0, error) from error
        return self._checked(sample, "initialize", t0, t0)

    def advance(self, t: float, h: float, coefficients: Floats) -> Sample:
        """Integrate over ``[t, t + h]`` [s]; `coefficients` has the shape (order + 1, n_inputs).

        The sample's `compute_us` is measured here unless the solver gave its own.
        """
        if self.keeps:
            with self._named("save_state", t):
                self._before = (self.solver.save_state(), t, coefficients)
        u = InputPolynomial(t, coefficients)
        start_ns = time.perf_counter_ns()
        try:
            sample = self.solver.advance(t, h, u)
        except SolverError as error:
            raise SolverError(f"advance at t = {t:g} s: {error}") from error
        except (Exception, SystemExit) as error:
            raise self._failure("advance", t, error) from error
        compute_us = (time.perf_counter_ns() - start_ns) * 1e-3
        self._t = t + h
        sample = self._checked(sample, "advance", t, t + h)
        if not sample.compute_us:
            sample.compute_us = compute_us
        return sample

    def go_back(self, h: float, inputs: Floats | None = None) -> Sample:
        """Undo the last step, and repeat it with the length `h` [s].

        With other inputs, shape (order + 1, n_inputs), or the same by default.
        """
        if self._before is None:
            raise SolverError("go_back: the state before the last step was not kept")
        state, t, coefficients = self._before
        with self._named("restore_state", t):
            self.solver.restore_state(state)
        return self.advance(t, h, coefficients if inputs is None else inputs)

    def tried(self, h: float, inputs: Floats) -> Floats:
        """Outputs of the last step with other inputs, shape (n_outputs,); changes nothing."""
        before = self._before
        with self._named("save_state", self._t):
            after = self.solver.save_state()
        y = self.go_back(h, inputs).y
        with self._named("restore_state", self._t):
            self.solver.restore_state(after)
        self._before = before
        return y

    def jacobian(self, source: str, t: float, h: float, order: int, u: Floats) -> Floats | None:
        """Γ_0 … Γ_order, shape (order + 1, n_outputs, n_inputs); None if there are none.

        Parameters as for `Probes.jacobian`; `t` [s] is the solver's present time.
        """
        with self._named("jacobian", t):
            if source == "probe":
                if not self.solver.can_restore():
                    return None
                if isinstance(self.solver, HasMembers):
                    return self.solver.jacobians(source, t, h, order, u)
                return probe_jacobian(
                    self.solver, lambda t, h, c: self.advance(t, h, c).y, t, h, u, order
                )
            gamma = self.solver.jacobian(h, order)
        if gamma is not None and np.iscomplexobj(gamma):
            raise SolverError("jacobian returned complex values; they must be real")
        shape = (order + 1, self.n_outputs, self.n_inputs)
        if gamma is not None and np.shape(gamma) != shape:
            raise SolverError(f"jacobian returned the shape {np.shape(gamma)}; it must be {shape}")
        if gamma is not None and not np.isfinite(gamma).all():
            raise SolverError("jacobian returned values that are not finite")
        return None if gamma is None else _array(gamma)

    def response(self, t: float, h: float, u: Floats, direction: Floats) -> Floats | None:
        """Change of the outputs along `direction`; None if the solver cannot go back.

        Parameters as for `Probes.response`.
        """
        if not self.solver.can_restore():
            return None
        return probe_response(
            self.solver, lambda t, h, c: self.advance(t, h, c).y, t, h, u, direction
        )

    def set_parameter(self, name: str, value: float) -> str:
        """Change a parameter; return the solver's reason for a refusal, or an empty text.

        Raises `SolverError` if the solver fails other than by a refusal.
        """
        known = {parameter.name: parameter for parameter in self.solver.parameters}
        if name not in known:
            return f"there is no parameter {name!r}{nearest(name, known)}"
        low, high = known[name].min, known[name].max
        if not low <= value <= high:
            return f"{value:g} is outside {low:g} to {high:g}"
        with self._named("set_parameter", self._t):
            try:
                self.solver.set_parameter(name, value)
            except ValueError as error:
                return str(error) or "the solver refused it"
        return ""

    def stop(self, reason: str) -> None:
        """Release the solver's resources, once; exceptions are only logged."""
        if self._stopped:
            return
        self._stopped = True
        try:
            self.solver.stop(reason)
        except (Exception, SystemExit):
            log.exception("%s.stop raised", type(self.solver).__name__)

    @contextlib.contextmanager
    def _named(self, what: str, t: float) -> Iterator[None]:
        """Convert the solver's exceptions to a `SolverError` that names the method."""
        try:
            yield
        except SolverError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failure(what, t, error) from error

    def _failure(self, what: str, t: float, error: BaseException) -> SolverError:
        name = type(self.solver).__name__
        log.error("%s.%s raised at t = %g s", name, what, t, exc_info=error)
        return SolverError(f"{what} at t = {t:g} s raised {describe(error, type(self.solver))}")

    def _checked(self, sample: Sample, what: str, t: float, end: float) -> Sample:
        """Check a sample: finite float64 arrays of the right shapes, and no time after `end`.

        `t` is the start of the step, s.
        """
        if not isinstance(sample, Sample):
            returned = type(sample).__name__
            raise self._unusable(what, t, f"returned {returned}; return hilrt.Sample(y=...)")
        n, name = self.n_outputs, "y"
        try:
            y = _array(sample.y)
            if y.shape != self._y_shape:
                raise ValueError(f"has the shape {y.shape}, its outputs need ({n},)")
            if not _all_finite(y):
                raise ValueError(f"is not finite: {self._not_finite(y)}")
            sample.y = y
            if sample.dy is not None:
                name = "dy"
                sample.dy = _array(sample.dy)
                if sample.dy.ndim != 2 or sample.dy.shape[1] != n:
                    raise ValueError(f"has the shape {sample.dy.shape}, it needs (n, {n})")
            if sample.t_valid is not None:
                name = "t_valid"
                sample.t_valid = _array(sample.t_valid)
                if sample.t_valid.shape != self._y_shape:
                    raise ValueError(f"has the shape {sample.t_valid.shape}, it needs ({n},)")
                if (sample.t_valid > end + _NS).any():
                    newest = float(np.nanmax(sample.t_valid))
                    raise ValueError(f"is {newest:g} s: after the end of the step at {end:g} s")
            if sample.event_t is not None:
                name = "event_t"
                sample.event_t = float(sample.event_t)
                if not math.isfinite(sample.event_t):
                    raise ValueError(f"is {sample.event_t}; it must be a time, or None")
            if not isinstance(sample.ended, str):
                name = "ended"
                raise ValueError(f"is {sample.ended!r}; it must be the reason, a text")
            if sample.y_mid is not None:
                name = "y_mid"
                sample.y_mid = self._inside(sample.y_mid)
            if sample.y_mean is not None:
                name = "y_mean"
                sample.y_mean = self._inside(sample.y_mean)
        except (TypeError, ValueError) as error:
            raise self._unusable(what, t, f"{name} {error}") from None
        return sample

    def _inside(self, given: Any) -> Floats:
        """Outputs inside the step; `ValueError` if they are invalid."""
        values = _array(given)
        if values.shape != self._y_shape:
            raise ValueError(f"has the shape {values.shape}, it needs ({self.n_outputs},)")
        if not _all_finite(values):
            raise ValueError(f"is not finite: {self._not_finite(values)}")
        return values

    def _unusable(self, what: str, t: float, text: str) -> SolverError:
        return SolverError(f"{type(self.solver).__name__}.{what} at t = {t:g} s: {text}")

    def _not_finite(self, y: Floats) -> str:
        names = [name for port in self.outputs for name in port.channels()]
        return ", ".join(f"{names[i]} = {y[i]}" for i in np.flatnonzero(~np.isfinite(y))[:5])


def _all_finite(values: Floats) -> bool:
    """Whether all values are finite.

    The sum of a few finite numbers is finite, and cheaper than numpy's test.
    """
    return math.isfinite(sum(values.tolist())) or bool(np.isfinite(values).all())


def _array(values: Any) -> Floats:
    """Float64 array; `TypeError` or `ValueError` if not convertible."""
    if type(values) is np.ndarray and values.dtype is _FLOAT64:
        return values
    given = np.asarray(values)
    if np.iscomplexobj(given):
        raise TypeError("is complex; use two outputs for real and imaginary part")
    return given.astype(np.float64, copy=False)
