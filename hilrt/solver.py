"""Interface for users' solvers: a `Solver` has ports, and is stepped with input polynomials."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.errors import SolverCannot

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a subsystem.

    Parameters
    ----------
    name : str
        Name, unique among the subsystem's inputs, and among its outputs.
    unit : str
        Any unit that pint reads (``"rad/s"``, ``"N*m"``, ``"%"``); empty for dimensionless;
        ``"?"`` fits every unit, and its numbers are never converted.
    start : float
        Value before the first exchange, in `unit`.
    min, max : float
        Bounds of the value, in `unit`. Inputs are limited to them before they are sent. Outputs
        outside them are flagged; `out_of_range` in the session file says whether they are used.
    max_rate : float
        Largest rate of change, in `unit` per second.
    max_jerk : float
        Largest change of the rate, in `unit` per second².
    safe : float, optional
        Value to which the safe profile brings an input, in `unit`.
    feedthrough : tuple of str
        Outputs only: the inputs on which this output depends directly, without a state between.
    size : int
        Number of elements; a vector port counts as `size` coupling variables.
    description : str
        For people.
    """

    name: str
    unit: str = ""
    start: float = 0.0
    min: float = -math.inf
    max: float = math.inf
    max_rate: float = math.inf
    max_jerk: float = math.inf
    safe: float | None = None
    feedthrough: tuple[str, ...] = ()
    size: int = 1
    description: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a port needs a name")
        if self.size < 1:
            raise ValueError(f"port {self.name!r}: size is {self.size}; it must be at least 1")
        if not self.min <= self.max:
            raise ValueError(f"port {self.name!r}: min {self.min} is above max {self.max}")

    def channels(self) -> list[str]:
        """Names of the port's scalar elements: ``name``, or ``name[0]``, ``name[1]``, …"""
        if self.size == 1:
            return [self.name]
        return [f"{self.name}[{i}]" for i in range(self.size)]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of a subsystem that may change while a session runs.

    Parameters
    ----------
    name : str
        Name, unique among the subsystem's parameters.
    unit : str
        Any unit that pint reads; empty for dimensionless.
    default : float
        Value at the start, in `unit`.
    min, max : float
        Bounds, in `unit`; values outside are refused.
    description : str
        For people.
    """

    name: str
    unit: str = ""
    default: float = 0.0
    min: float = -math.inf
    max: float = math.inf
    description: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a parameter needs a name")
        if not self.min <= self.default <= self.max:
            bounds = f"{self.min:g} to {self.max:g}"
            raise ValueError(f"parameter {self.name!r}: {self.default:g} is outside {bounds}")


class Ports(NamedTuple):
    """The ports of a subsystem."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class InputPolynomial:
    """A subsystem's inputs over one macro step, as a Taylor polynomial about its start.

    ``u(t) = sum_j coefficients[j] * (t - t0)**j / j!``

    Parameters
    ----------
    t0 : float
        Start of the step, s.
    coefficients : ndarray, shape (order + 1, n_inputs)
        Value and derivatives of every input at `t0`, in the ports' units (per s, per s², …).
    """

    __slots__ = ("coefficients", "t0")

    def __init__(self, t0: float, coefficients: Floats) -> None:
        self.t0 = t0
        self.coefficients = coefficients

    def __call__(self, t: float) -> Floats:
        """Inputs at time `t` [s], shape (n_inputs,)."""
        c = self.coefficients
        last = len(c) - 1
        if last == 0 or t == self.t0:
            constant: Floats = c[0].copy()
            return constant
        dt = t - self.t0
        if last == 1:  # as below, without the loop, for the usual first order
            line: Floats = c[1] * dt
            line += c[0]
            return line
        value: Floats = c[last] * (dt / last)
        for j in range(last - 1, 0, -1):
            value = (c[j] + value) * (dt / j)
        value += c[0]
        return value

    def derivative(self, t: float, order: int = 1) -> Floats:
        """Time derivative of the given order at `t` [s], shape (n_inputs,)."""
        if order >= len(self.coefficients):
            return np.zeros(self.coefficients.shape[1])
        return InputPolynomial(self.t0, self.coefficients[order:])(t)


@dataclass(slots=True)
class Sample:
    """Outputs of a subsystem, normally at the end of a step. Only `y` is required.

    Parameters
    ----------
    y : ndarray, shape (n_outputs,)
        Output values, in the ports' units.
    t_valid : ndarray, shape (n_outputs,), optional
        Session time at which each value is valid, s. Default: the end of the step.
    dy : ndarray, shape (n, n_outputs), optional
        First to n-th time derivative of the outputs.
    y_mid : ndarray, shape (n_outputs,), optional
        Outputs in the middle of the step, for the output defect and the estimated error.
    y_mean : ndarray, shape (n_outputs,), optional
        Outputs averaged over the step, for the output defect and the estimated error.
    event_t : float, optional
        Session time of the first discontinuity in the step, s.
    realised : ndarray, shape (n_inputs,), optional
        The bench's measurement of each input; NaN if not measured.
    compute_us : float
        Computing time of the step, µs.
    ended : str
        Reason why the subsystem's simulation has ended with this sample; empty while it continues.
        The session then ends as ``when_ended`` in the subsystem's table says.
    info : dict
        Further values from the link, such as counters.
    """

    y: Floats
    t_valid: Floats | None = None
    dy: Floats | None = None
    y_mid: Floats | None = None
    y_mean: Floats | None = None
    event_t: float | None = None
    realised: Floats | None = None
    compute_us: float = 0.0
    ended: str = ""
    info: dict[str, Any] = field(default_factory=dict)


class Solver(abc.ABC):
    """A model that can be stepped; subclass it for your own model.

    1. Give the instance `inputs` and `outputs`: class attributes, or set in ``__init__``, which
       receives the session file's ``params`` as keyword arguments.
    2. `initialize` returns the outputs at `t0` for the inputs `u0`. In a loop of direct feedthrough
       it is called again with other inputs, until outputs and inputs agree.
    3. `advance` integrates from `t` to ``t + h``, with inputs from the polynomial `u`, and returns
       the outputs at ``t + h``. An explicit integrator reads ``u(t_i)`` at the start of each of its
       internal steps; outputs with direct feedthrough are evaluated with ``u(t + h)``.
    4. An exception in any method ends the session in the safe state, and is in the log.
    """

    #: Input ports, in the order of the elements of `u`.
    inputs: Sequence[Port] = ()
    #: Output ports, in the order of the elements of `y`.
    outputs: Sequence[Port] = ()
    #: Numbers that may change while a session runs; see `set_parameter`.
    parameters: Sequence[Parameter] = ()
    #: Whether samples may have an `event_t`, the time of a discontinuity.
    tells_events: bool = False
    #: Whether a step may have any length.
    any_step: bool = True

    def __init_subclass__(cls, **settings: Any) -> None:
        """Copy saved states: a model may change its arrays in place."""
        super().__init_subclass__(**settings)
        own = vars(cls)
        if own.get("save_state", Solver.save_state) is not Solver.save_state:
            cls.save_state = _saves_copies(cls.save_state)  # type: ignore[method-assign, assignment]
        if own.get("restore_state", Solver.restore_state) is not Solver.restore_state:
            cls.restore_state = _restores_copies(cls.restore_state)  # type: ignore[method-assign, assignment]

    @abc.abstractmethod
    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Return the outputs at `t0` [s] for the inputs `u0`, shape (n_inputs,)."""

    @abc.abstractmethod
    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate from `t` to ``t + h`` [s] and return the outputs there."""

    def save_state(self) -> Any:
        """Return the state, from which `restore_state` can continue.

        Implement both methods if your model can go back to an earlier state: this allows trials
        for the estimated error, corrections by probed Jacobians, and repeated steps. Arrays, lists
        and dicts in the state are copied, and copied again for `restore_state`.
        """
        raise SolverCannot(f"{type(self).__name__} does not save its state")

    def restore_state(self, state: Any) -> None:
        """Restore a state that `save_state` returned."""
        raise SolverCannot(f"{type(self).__name__} does not restore a state")

    def jacobian(self, h: float, order: int) -> Floats | None:
        """Return the interface Jacobians Γ_0 … Γ_order for a macro step `h` [s].

        Returns
        -------
        ndarray, shape (order + 1, n_outputs, n_inputs), or None
            ``Γ_m = (m!/h^m) C B_dm + D`` (Haid et al. 2022, eq. 14); None if they are not known.
        """
        return None

    def set_parameter(self, name: str, value: float) -> None:
        """Change one of the `parameters` between two steps; by default, set the attribute.

        Raise a `ValueError` with the reason to refuse the value.
        """
        setattr(self, name, value)

    def stop(self, reason: str) -> None:
        """Release the solver's resources; called once, whatever ends the session."""

    def can_restore(self) -> bool:
        """Return whether the class implements both `save_state` and `restore_state`."""
        cls = type(self)
        return (
            cls.save_state is not Solver.save_state
            and cls.restore_state is not Solver.restore_state
        )


def _saves_copies(save_state: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(save_state)
    def save(self: Any) -> Any:
        return _copied(save_state(self))

    return save


def _restores_copies(restore_state: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    @functools.wraps(restore_state)
    def restore(self: Any, state: Any) -> None:
        restore_state(self, _copied(state))

    return restore


def _copied(state: Any) -> Any:
    """Copy of a saved state with its own arrays, lists and dicts; other objects are shared."""
    if isinstance(state, np.ndarray):
        return state.copy()
    if isinstance(state, dict):
        return {key: _copied(entry) for key, entry in state.items()}
    if isinstance(state, (tuple, list)):
        entries = [_copied(entry) for entry in state]
        return type(state)(*entries) if hasattr(state, "_fields") else type(state)(entries)
    return state
