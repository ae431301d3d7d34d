"""An FMU as a `Solver`, in the master's process or in a separate one."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.config.structs import InputOptions
from hilrt.coupling.jacobian import INSTANT_S, LinearSubsystem, probe_jacobian
from hilrt.errors import SolverError
from hilrt.fmu.derivatives import along, held_jacobian, linearise, partial
from hilrt.fmu.description import Fmu, not_driven, read_fmu
from hilrt.fmu.fmi2 import Instance2
from hilrt.fmu.fmi3 import Instance3
from hilrt.fmu.fmu_options import FmuOptions, together_with, wrong_times
from hilrt.fmu.fmu_ports import select, tunable_parameters, unsupported_variables
from hilrt.fmu.instance import (
    Experiment,
    FmuError,
    Inputs,
    Instance,
    SavedState,
    middle_and_mean,
)
from hilrt.fmu.trial import FmuTrial, run_trial
from hilrt.fmu.values import wrong_starts
from hilrt.fmu.variables import CONTINUOUS, flows, size_of, typed
from hilrt.link import FINDINGS, LinearModel
from hilrt.solver import Floats, InputPolynomial, Sample, Solver

log = logging.getLogger("hilrt.fmu")

_NONE: Floats = np.empty(0)


class FmuSolver(Solver):
    """An FMU for co-simulation, FMI 2.0 or 3.0.

    Parameters
    ----------
    options : FmuOptions
        The standards do not allow reading between setting and stepping, as `end_inputs` does, but
        most FMUs with feedthrough do; `half_steps` requires an even number of substeps.
    folder : Path
        Base of a relative path of the file.

    Raises
    ------
    ConfigError
        For an unusable file, unknown names, or a missing binary.
    """

    def __init__(self, options: FmuOptions, folder: Path) -> None:
        self._options = options
        start_time, stop_time, events = options.start_time, options.stop_time, options.events
        self.fmu: Fmu = read_fmu(folder / options.fmu)
        with together_with(wrong_times(start_time, stop_time)):
            chosen = select(
                self.fmu,
                options.params,
                options.outputs,
                options.feedthrough,
                events,
                options.units,
            )
        self.inputs, self.outputs = chosen.input_ports, chosen.output_ports
        self._start = chosen.start
        self._ins = [(v, size_of(v, chosen.start)) for v in chosen.inputs]
        self._outs = [(v, size_of(v, chosen.start)) for v in chosen.outputs]
        self._real = np.array([flows(v) for v, size in self._ins for _ in range(size)], dtype=bool)
        self._all_real = bool(self._real.all())
        self._half_steps = options.half_steps
        self._substeps = options.substeps + (options.substeps % 2 if self._half_steps else 0)
        self._offset = start_time
        #: Session time of the FMU's stop time, s.
        self.until = math.inf if stop_time is None else stop_time - start_time
        self._order_out = int(self.fmu.interface.maxOutputDerivativeOrder or 0)
        direct = [port.name for port in self.outputs if port.feedthrough]
        self._by_derivative = self.fmu.directional and bool(direct)
        lags = bool(direct) and not self.fmu.directional and not self.fmu.clocks
        self._end_inputs = lags if options.end_inputs is None else options.end_inputs
        #: Warnings, for `hilrt check` and for the log.
        self.remarks = [*chosen.remarks, *not_driven(self.fmu, events)]
        if lags and not self._end_inputs:
            self.remarks.append(
                f"{self.fmu.path.name}: with end_inputs = false its outputs of direct feedthrough "
                f"({', '.join(direct[:10])}) lag by a step; remove it"
            )
        self._variable = self.any_step = self.fmu.variable_step
        self.tells_events = events and self.fmu.event_mode
        #: Whether input derivatives are set in an FMI 2 FMU.
        self._passes_derivatives = options.input_derivatives and bool(
            self.fmu.interface.canInterpolateInputs
        )
        self._passes_derivatives &= self.fmu.major == 2
        self._sent_order = 0
        self._holds_inputs = (
            self._substeps == 1
            and self._variable
            and not (self._passes_derivatives or options.end_inputs or self._order_out)
            and not (options.input_derivatives and self.fmu.interface.providesIntermediateUpdate)
        )
        self.parameters = tunable_parameters(self.fmu, chosen.start)
        self._instance: Instance | None = None
        self._running = False
        self._length: float | None = None
        self._t0 = self._time = 0.0  # start time; present session time, and its inputs, for a probe
        self._last: Inputs = lambda _t: _NONE

    def wrong_starts(self, options: Mapping[str, InputOptions]) -> dict[str, str]:
        """Inputs whose start value in a session file does not fit their variable, and why."""
        names = {port.name for port in self.inputs} & options.keys()
        return wrong_starts(self.fmu, {name: options[name].start for name in names})

    def unsupported_variables(self) -> dict[str, str]:
        """Variables that a port cannot represent, by name, with the reason."""
        return unsupported_variables(self.fmu)

    # -- life --------------------------------------------------------------------------------------

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Outputs at `t0` [s]; may be called again with other inputs until the first step."""
        if self._running:
            raise SolverError("an FMU can be initialized again only before its first step")
        if self._instance is None:
            for remark in self.remarks:
                log.warning(remark)
            self._instance = self._new_instance(t0)
        self._instance.write(u0)
        held = u0.copy()
        self._t0, self._time, self._last = t0, t0, lambda _t: held
        return Sample(self._instance.read())

    def _new_instance(self, t0: float) -> Instance:
        """Create an instance in initialization mode, which begins at session time `t0` [s]."""
        options = self._options
        common = self.fmu, self._ins, self._outs, options.debug
        instance: Instance
        if self.fmu.major == 2:
            instance = Instance2(*common)
        else:
            instance = Instance3(*common, options.events, options.input_derivatives)
        instance.set_start(self._start)
        start = options.start_time + t0
        instance.enter_initialization(Experiment(options.tolerance, start, options.stop_time))
        return instance

    def _ready(self) -> Instance:
        """The instance after initialization mode, which the first step ends."""
        if self._instance is None:
            raise SolverError("the FMU is not initialized")
        if not self._running:
            self._running = True
            self._instance.exit_initialization()
        return self._instance

    def set_parameter(self, name: str, value: float) -> None:
        """Set a tunable parameter between two steps; `ValueError` if the FMU refuses it."""
        instance = self._ready()
        wanted = typed(self.fmu.major, self.fmu.variables[name], value)
        try:
            instance.set_start({name: wanted})
        except FmuError as error:
            raise ValueError(str(error)) from error

    def stop(self, reason: str) -> None:
        """Terminate and free the FMU."""
        if self._instance is not None:
            self._instance.close()

    # -- step --------------------------------------------------------------------------------------

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Step the FMU over ``[t, t + h]`` [s]; see the class for the treatment of inputs."""
        instance = self._instance if self._running else self._ready()
        assert instance is not None
        if instance.ended is not None:
            return self._last_sample(instance, t)
        if self._holds_inputs and len(u.coefficients) == 1:
            return self._hold(instance, t, h, u)
        steps = self._substeps if self._variable else self._steps(h)
        dt = h / steps
        start = t + self._offset
        at = self._inputs_at(u)
        derive = self._derivatives_at(u) if self._passes_derivatives else None
        reads_inside = instance.reads_inside and not self._half_steps
        before = instance.read() if reads_inside else _NONE
        inside: list[tuple[float, Floats]] = []
        events: list[float] = []
        y_mid = y_mean = None
        for i in range(steps):
            now = start + i * dt
            instance.write(at(now))
            if derive is not None:
                instance.set_input_derivatives(derive(now))
            events += instance.step(now, dt, at)
            if instance.ended is not None:
                return self._last_sample(instance, t, events)
            if reads_inside:
                inside += instance.inside
            if self._half_steps and 2 * (i + 1) == steps:
                y_mid = self._read(instance, now + dt, at)
        y = self._read(instance, start + h, at)
        if reads_inside:
            y_mid, y_mean = middle_and_mean(start, h, before, inside, y)
        self._time, self._last = t + h, u
        sample = Sample(y, y_mid=y_mid, y_mean=y_mean)
        if self._order_out:
            sample.dy = instance.derivatives(self._order_out)
        return self._with_event(sample, events)

    def _hold(self, instance: Instance, t: float, h: float, u: InputPolynomial) -> Sample:
        """Step with held inputs: a shorter path, sufficient for most FMUs."""
        held = u.coefficients[0]
        instance.write(held)
        events = instance.step(t + self._offset, h, lambda _t: held)
        if instance.ended is not None:
            return self._last_sample(instance, t, events)
        self._time, self._last = t + h, u
        return self._with_event(Sample(instance.read()), events)

    def _last_sample(self, instance: Instance, t: float, events: Sequence[float] = ()) -> Sample:
        """Outputs of an FMU that ended its simulation in a step from `t` [s] on.

        Its end counts as an event like the earlier ones inside the step, `events` [s].
        """
        assert instance.ended is not None
        at = instance.ended - self._offset
        ended = f"{self.fmu.path.name} ended its simulation at t = {at:.9g} s"
        sample = self._with_event(Sample(instance.read(), ended=ended), events)
        if not events and self.tells_events and at > t:
            sample.event_t = at
        return sample

    def _with_event(self, sample: Sample, events: Sequence[float]) -> Sample:
        """The sample with the time of the first event in its step."""
        if events:
            sample.event_t = events[0] - self._offset
        return sample

    def _inputs_at(self, u: InputPolynomial) -> Any:
        """Inputs as a function of FMU time; non-continuous ones are held."""
        if len(u.coefficients) == 1:
            held = u.coefficients[0]
            return lambda _t: held
        if self._offset == 0.0 and self._all_real:
            return u
        start = u.coefficients[0]

        def at(time: float) -> Floats:
            return np.where(self._real, u(time - self._offset), start)

        return at

    def _derivatives_at(self, u: InputPolynomial) -> Any:
        """Input derivatives as a function of FMU time; None for held inputs."""
        # The FMU keeps derivatives: for a lower order the others are set to zero.
        order = self._sent_order = max(self._sent_order, len(u.coefficients) - 1)
        if order == 0:
            return None
        return lambda time: np.array(
            [u.derivative(time - self._offset, n) for n in range(1, order + 1)]
        )

    def _read(self, instance: Instance, t: float, at: Any) -> Floats:
        """Outputs at `t`, with the inputs of that time if possible."""
        if self._end_inputs:
            instance.write(at(t))
            return instance.read()
        y = instance.read()
        # An FMU that evaluates the polynomial itself uses the inputs of the step's end.
        if self._by_derivative and not (self._passes_derivatives or instance.sets_inside):
            change = at(t) - at(instance.set_at)
            if change.any():
                y += along(instance, self._outs, self._ins, change)
        return y

    def _steps(self, h: float) -> int:
        """Number of FMU steps in a macro step `h`; an FMU of constant step keeps its length."""
        if self._length is None:
            self._length = h / self._substeps
        n = round(h / self._length)
        if n < 1 or abs(n * self._length - h) > 1e-6 * self._length:
            raise SolverError(
                f"{self.fmu.path.name} takes steps of one length only ({self._length:g} s), which "
                f"do not add up to {h:g} s; use a fixed macro step"
            )
        return n

    # -- state and derivatives ---------------------------------------------------------------------

    def can_restore(self) -> bool:
        """Whether the FMU can save and restore its state without changing its results."""
        return bool(self.fmu.interface.canGetAndSetFMUstate) and not self.trial.steps_final

    @functools.cached_property
    def trial(self) -> FmuTrial:
        """Trial with separate instances, at the first access; empty if none may be created.

        Only an FMU that can save its state is probed.
        """
        found = run_trial(
            self.fmu,
            lambda: self._new_instance(0.0),
            self.inputs,
            np.array([v.type in CONTINUOUS for v, size in self._ins for _ in range(size)], bool),
            self._options.start_time,
        )
        self.remarks += [f"{self.fmu.path.name}: {text}" for text in found.remarks()]
        return found

    @property
    def findings(self) -> list[str]:
        """Causes for the verdict that the trial found; see `hilrt.link.FINDINGS`."""
        return [name for name, is_so in zip(FINDINGS, self.trial, strict=True) if is_so]

    def save_state(self) -> SavedState:
        """A copy of the FMU's state, with the solver's own data."""
        saved = self._ready().save()
        saved.of_solver = self._length, self._time, self._last
        return saved

    def restore_state(self, state: SavedState) -> None:
        """Restore a saved state."""
        self._ready().restore(state)
        self._length, self._time, self._last = state.of_solver

    def linearised(self) -> LinearSubsystem | None:
        """Linearise about the present state by directional derivatives; None if it lacks some.

        Some FMUs change their state when queried: it is restored as well as possible.
        """
        saved = self.save_state() if self.can_restore() else None
        linear = linearise(self._ready(), self._ins, self._outs, self._start)
        if saved is not None:
            self.restore_state(saved)
        return linear

    def _linearised_apart(self) -> LinearSubsystem | None:
        """Linearise a separate instance, before the first step; see `linearised`."""
        other = self._new_instance(self._time)
        try:
            other.write(self._last(self._time))
            other.exit_initialization()
            return linearise(other, self._ins, self._outs, self._start)
        finally:
            other.close()

    def linear_model(self, h: float) -> LinearModel | None:
        """Model about the present state, for macro steps `h` [s]; None without enough derivatives.

        Without directional derivatives there is none: the saved state of an FMU is opaque. The FMU
        integrates within its steps; the error of holding its inputs belongs to the coupling.
        """
        if not self.fmu.directional:
            return None
        instance = self._ready()
        try:
            begun = self._time != self._t0
            linear = self.linearised() if begun or self.fmu.needs else self._linearised_apart()
        except FmuError as error:
            if instance.is_dead:
                raise
            log.warning("the FMU's responses to its inputs are unknown: %s", error)
            return None
        if linear is None:
            return None
        n = self._inner_steps(h)
        whole = self._passes_derivatives or instance.sets_inside
        slope = np.where(self._real, 1.0 if whole else (n - 1) / n, 0.0)
        matrices = linear.A, linear.B, linear.C, linear.D
        return LinearModel(*matrices, np.ones(len(slope)), linear=False, slope=slope)

    def _inner_steps(self, h: float) -> int:
        """Number of the FMU's internal steps in a macro step `h` [s], if known."""
        if not self._variable and self._length is not None:
            return max(1, round(h / self._length))
        return self._substeps

    def jacobian(self, h: float, order: int) -> Floats | None:
        """Interface Jacobians from directional derivatives, else by probing; else None.

        If the FMU exposes its state derivatives, they follow from its linearisation;
        otherwise directional derivatives give only the feedthrough, which is all there is in a step
        below `INSTANT_S`.
        """
        instance = self._ready()
        if self.fmu.directional:
            if (linear := self.linearised()) is not None:
                gamma = self._answers(instance, linear, h, order)
                gamma[1:, :, ~self._real] = 0.0  # held over the whole macro step
                return gamma
            if h < INSTANT_S:
                D = partial(instance, self._outs, self._ins)
                return np.broadcast_to(D, (order + 1, *D.shape)).copy()
        if not self.can_restore():
            return None

        def step(t: float, h: float, c: Floats) -> Floats:
            return self.advance(t, h, InputPolynomial(t, c)).y

        time, u = self._time, self._last(self._time)
        return probe_jacobian(self, step, time, h, u, order)

    def _answers(self, instance: Instance, linear: LinearSubsystem, h: float, order: int) -> Floats:
        """Γ_0 … Γ_order of `linear`, with inputs within a step `h` [s] as this FMU uses them."""
        if self._passes_derivatives or instance.sets_inside:
            return linear.jacobian(h, order)
        n = self._inner_steps(h)
        seen = 1.0 if self._end_inputs or self._by_derivative else (n - 1) / n
        return held_jacobian(linear, h, order, n, seen)
