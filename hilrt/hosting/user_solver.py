"""Bring up a user's `Solver` and call it safely: import it, check what it returns, name what fails.

Shared by the solver process and the in-process link, so that a solver behaves the same in both.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import math
import pkgutil
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.config.from_toml import nearest
from hilrt.coupling.probe import probe_jacobian, probe_response
from hilrt.errors import ConfigError, SolverError
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

_FLOAT64 = np.dtype(np.float64)

log = logging.getLogger("hilrt.solver")


def load_solver(target: str, params: Mapping[str, Any], path: str | Path | None = None) -> Solver:
    """Import a solver's class and make an instance.

    Parameters
    ----------
    target : str
        ``"module:Class"``.
    params : mapping
        Keyword arguments of the class.
    path : str or Path, optional
        Folder that is searched for the module first.

    Raises
    ------
    ConfigError
        If there is no such module, class or parameter, or the class is not a `Solver`.
    """
    module_name, colon, class_name = target.partition(":")
    if not (module_name and colon and class_name):
        raise ConfigError(f"{target!r} does not name a solver; write it as module:Class")
    if path is not None:
        _put_on_path(Path(path))
    cls = _solver_class(_import(module_name, path), class_name)
    _check_params(cls, target, params)
    try:
        solver = cls(**params)
    except ConfigError:
        raise
    except Exception as error:
        log.debug("making %s", target, exc_info=True)
        raise ConfigError(
            f"{target} with the parameters {dict(params)}: {describe(error, cls)}"
        ) from error
    _check_ports(solver, target)
    return solver


def _put_on_path(path: Path) -> None:
    if not path.is_dir():
        raise ConfigError(f"path = {str(path)!r}: is not a folder; name the one with the module")
    folder = str(path.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
        importlib.invalidate_caches()


def _import(name: str, path: str | Path | None) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"module {name!r} needs the module {error.name!r}, which is not installed"
            ) from None
        hint = nearest(name, _modules_beside(name, path))
        raise ConfigError(
            f'there is no module {name!r}{hint} (path = "folder" says where to look)'
        ) from None
    except Exception as error:
        raise ConfigError(f"importing module {name!r} failed: {describe(error)}") from error


def _modules_beside(name: str, path: str | Path | None) -> list[str]:
    """Modules that could have been meant: of the same package, or in the same folder."""
    package, dot, _ = name.rpartition(".")
    try:
        folders: Iterable[str] = importlib.import_module(package).__path__ if dot else [str(path)]
    except (ImportError, AttributeError):
        return []
    if not dot and path is None:
        folders = [str(Path.cwd())]
    return [package + dot + module.name for module in pkgutil.iter_modules(list(folders))]


def _solver_class(module: Any, name: str) -> type[Solver]:
    found = getattr(module, name, None)
    if found is None:
        solvers = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Solver) and value is not Solver
        ]
        raise ConfigError(
            f"module {module.__name__!r} has no solver {name!r}{nearest(name, solvers)}"
        )
    if not isinstance(found, type) or not issubclass(found, Solver):
        raise ConfigError(
            f"{module.__name__}:{name} is not a solver; make it a subclass of hilrt.Solver"
        )
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise ConfigError(f"{module.__name__}:{name} does not implement {missing}; add it")
    return found


def _check_params(cls: type[Solver], target: str, params: Mapping[str, Any]) -> None:
    known = {
        name: parameter
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_any = any(
        parameter.kind is parameter.VAR_KEYWORD
        for parameter in inspect.signature(cls).parameters.values()
    )
    problems = []
    if not takes_any:
        for name in params:
            if name not in known:
                problems.append(f"{target}: unknown parameter {name!r}{nearest(name, known)}")
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in params:
            problems.append(f"{target}: parameter {name!r} is missing; give it")
    if problems:
        raise ConfigError(problems)


def _check_ports(solver: Solver, target: str) -> None:
    inputs, outputs = solver.inputs, solver.outputs
    problems = []
    for kind, ports in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(ports, Sequence) or not all(isinstance(port, Port) for port in ports):
            problems.append(f"{target}: {kind} is {ports!r}; it must be a tuple of hilrt.Port")
            continue
        names = [port.name for port in ports]
        for name in sorted({name for name in names if names.count(name) > 1}):
            problems.append(f"{target}: {kind} has {name!r} twice; rename one")
    if not problems:
        input_names = [port.name for port in inputs]
        for port in outputs:
            for name in port.feedthrough:
                if name not in input_names:
                    problems.append(
                        f"{target}: output {port.name!r} feedthrough {name!r}: "
                        f"there is no such input{nearest(name, input_names)}"
                    )
    if problems:
        raise ConfigError(problems)


def describe(error: BaseException, cls: type | None = None) -> str:
    """``"ValueError: what it says (file.py:12)"``; the line is the deepest one of `cls`'s file."""
    frames = traceback.extract_tb(error.__traceback__)
    here = str(Path(__file__).resolve())
    theirs = [frame for frame in frames if str(Path(frame.filename).resolve()) != here]
    if cls is not None:
        try:
            own = str(Path(inspect.getfile(cls)).resolve())
        except (TypeError, OSError):
            own = ""
        theirs = [f for f in theirs if str(Path(f.filename).resolve()) == own] or theirs
    where = f" ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""
    text = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{text}{where}"


class HostedSolver:
    """A solver whose every failure becomes a `SolverError` that says what to look at.

    Parameters
    ----------
    solver : Solver
        As made by `load_solver`.

    Attributes
    ----------
    n_inputs, n_outputs : int
        Scalar inputs and outputs.
    keeps : bool
        Whether the state before each step is kept, for `go_back`.
    initialized : bool
        Whether a session has begun with it.
    """

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self.inputs = tuple(solver.inputs)
        self.outputs = tuple(solver.outputs)
        self.n_inputs = sum(port.size for port in self.inputs)
        self.n_outputs = sum(port.size for port in self.outputs)
        self._y_shape = (self.n_outputs,)
        self._stopped = False
        self.initialized = False
        self.keeps = False
        self._before: tuple[Any, float, Floats] | None = None

    @property
    def can_go_back(self) -> bool:
        """Whether a step can be undone and made again, shorter."""
        return self.solver.can_restore() and self.solver.any_step

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Outputs at `t0` [s] for the inputs `u0`, shape (n_inputs,)."""
        self.initialized = True
        try:
            sample = self.solver.initialize(t0, u0)
        except SolverError as error:  # says all there is to say
            raise SolverError(f"initialize at t = {t0:g} s: {error}") from error
        except Exception as error:
            raise self._failure("initialize", t0, error) from error
        return self._checked(sample, "initialize", t0)

    def advance(self, t: float, h: float, coefficients: Floats) -> Sample:
        """Integrate over ``[t, t + h]`` [s]; `coefficients` has the shape (order + 1, n_inputs).

        The sample's `compute_us` is measured here unless the solver gave its own.
        """
        if self.keeps:
            self._before = (self._save(t), t, coefficients)
        u = InputPolynomial(t, coefficients)
        start_ns = time.perf_counter_ns()
        try:
            sample = self.solver.advance(t, h, u)
        except SolverError as error:
            raise SolverError(f"advance at t = {t:g} s: {error}") from error
        except Exception as error:
            raise self._failure("advance", t, error) from error
        compute_us = (time.perf_counter_ns() - start_ns) * 1e-3
        sample = self._checked(sample, "advance", t)
        if not sample.compute_us:
            sample.compute_us = compute_us
        return sample

    def go_back(self, h: float) -> Sample:
        """Undo the last step, and make it again with the same inputs and the length `h` [s]."""
        if self._before is None:
            raise SolverError("go_back without a step whose state before was kept")
        state, t, coefficients = self._before
        try:
            self.solver.restore_state(state)
        except SolverError:
            raise
        except Exception as error:
            raise self._failure("restore_state", t, error) from error
        return self.advance(t, h, coefficients)

    def _save(self, t: float) -> Any:
        try:
            return self.solver.save_state()
        except SolverError:
            raise
        except Exception as error:
            raise self._failure("save_state", t, error) from error

    def jacobian(self, source: str, t: float, h: float, order: int, u: Floats) -> Floats | None:
        """Γ_0 … Γ_order, shape (order + 1, n_outputs, n_inputs); None if there are none.

        Parameters as for `Link.jacobian`; `t` [s] is where the solver stands.
        """
        try:
            if source == "probe":
                if not self.solver.can_restore():
                    return None
                return probe_jacobian(
                    self.solver, lambda t, h, c: self.advance(t, h, c).y, t, h, u, order
                )
            gamma = self.solver.jacobian(h, order)
        except SolverError:
            raise
        except Exception as error:
            raise self._failure("jacobian", t, error) from error
        shape = (order + 1, self.n_outputs, self.n_inputs)
        if gamma is not None and np.shape(gamma) != shape:
            raise SolverError(f"jacobian returned the shape {np.shape(gamma)}; it needs {shape}")
        return None if gamma is None else _array(gamma)

    def response(self, t: float, h: float, u: Floats, direction: Floats) -> Floats | None:
        """Change of the outputs along `direction`; None if the solver cannot go back.

        Parameters as for `Link.response`.
        """
        if not self.solver.can_restore():
            return None
        return probe_response(
            self.solver, lambda t, h, c: self.advance(t, h, c).y, t, h, u, direction
        )

    def stop(self, reason: str) -> None:
        """Let the solver release what it holds, once; what it raises is only logged."""
        if self._stopped:
            return
        self._stopped = True
        try:
            self.solver.stop(reason)
        except Exception:
            log.exception("%s.stop raised", type(self.solver).__name__)

    def _failure(self, what: str, t: float, error: Exception) -> SolverError:
        name = type(self.solver).__name__
        log.error("%s.%s raised at t = %g s", name, what, t, exc_info=error)
        return SolverError(f"{what} at t = {t:g} s raised {describe(error, type(self.solver))}")

    def _checked(self, sample: Sample, what: str, t: float) -> Sample:
        """The sample with float64 arrays of the right shapes and a finite `y`."""
        if not isinstance(sample, Sample):
            returned = type(sample).__name__
            raise self._unusable(what, t, f"returned {returned}; return hilrt.Sample(y=...)")
        n, name = self.n_outputs, "y"
        try:
            y = _array(sample.y)
            if y.shape != self._y_shape:
                raise ValueError(f"has the shape {y.shape}, its outputs need ({n},)")
            # The sum of a few numbers is finite if they are, and found without numpy's machinery.
            if not math.isfinite(sum(y.tolist())) and not np.isfinite(y).all():
                raise ValueError(f"is not finite: {self._not_finite(y)}")
            sample.y = y
            if sample.dy is not None:
                name = "dy"
                sample.dy = _array(sample.dy)
                if sample.dy.ndim != 2 or sample.dy.shape[1] != n:
                    raise ValueError(f"has the shape {sample.dy.shape}, it needs (n, {n})")
            if sample.event_t is not None:
                name = "event_t"
                sample.event_t = float(sample.event_t)
                if not math.isfinite(sample.event_t):
                    raise ValueError(f"is {sample.event_t}; it is a time, or None")
            if sample.y_mid is not None:
                name = "y_mid"
                sample.y_mid = _array(sample.y_mid)
                if sample.y_mid.shape != self._y_shape:
                    raise ValueError(f"has the shape {sample.y_mid.shape}, it needs ({n},)")
        except (TypeError, ValueError) as error:
            raise self._unusable(what, t, f"{name} {error}") from None
        return sample

    def _unusable(self, what: str, t: float, text: str) -> SolverError:
        return SolverError(f"{type(self.solver).__name__}.{what} at t = {t:g} s: {text}")

    def _not_finite(self, y: Floats) -> str:
        names = [name for port in self.outputs for name in port.channels()]
        return ", ".join(f"{names[i]} = {y[i]}" for i in np.flatnonzero(~np.isfinite(y))[:5])


def _array(values: Any) -> Floats:
    """Float64 array; `TypeError` or `ValueError` if it cannot be one."""
    if type(values) is np.ndarray and values.dtype is _FLOAT64:
        return values
    array: Floats = np.asarray(values, dtype=np.float64)
    return array
