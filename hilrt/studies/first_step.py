"""The first step of a session with a variable step, from its models' responses at the start.

Glumac and Kovačić (2023) leave it to the user. Until there are two samples every input is held, so
its local error over a step ``h`` is the change of the coupled input. With the outputs ``y_held(h)``
after a step with held inputs, and the interface Jacobian Γ₁ of their response to a ramp ``a₁``:

    y(h) - y(0) = y_held(h) - y(0) + Γ₁(h) a₁,    a₁ = L (y(h) - y(0))
    a₁ = (I - L Γ₁(h))⁻¹ L (y_held(h) - y(0))

The first step is the longest one at which that error, in the norm of the session's own control, is
tolerated: there the control neither lengthens nor shortens it. The derivatives at the start would
not suffice, because they are 0 in a session that starts at rest.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hilrt.analyze.propagation import initialize
from hilrt.analyze.subsystem_models import SubsystemModel, find_subsystem_models
from hilrt.config.read_values import has_tolerances
from hilrt.config.session_file import SessionFile
from hilrt.errors import HilrtError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linearise import unlogged
from hilrt.solver import Floats, Ports
from hilrt.step.fill_controls import SAFETY, per_channel
from hilrt.tables.network import Network, build_network

#: Shortest step tested, relative to the longest, above rounding errors.
SHORTEST: Final = 1e-8
#: Factor by which each tested step is longer until the error is too large, and number of halvings
#: of the interval after that, on a logarithmic scale.
LONGER, HALVINGS = 2.0, 6


class FirstStep(NamedTuple):
    """A first step, s, and the channel whose error bounds it; empty if there is none."""

    step_s: float
    signal: str


def first_step_by_tolerance(file: SessionFile, longest: float) -> FirstStep | None:
    """Find the first step that the session's step control tolerates.

    Parameters
    ----------
    file : SessionFile
        Its subsystems are models in this process.
    longest : float
        Longest useful step, s.

    Returns
    -------
    FirstStep or None
        None if the step is fixed or controlled by ``"ecco"``, ``"local"`` estimates another error
        than that of the inputs, or a model is not a Python solver that saves its state.
    """
    control = file.tables.master.step_control
    by_defects = control.method == "pi"
    if not by_defects and (control.method != "local" or not has_tolerances(file.tables.master)):
        return None
    if control.method == "local" and control.estimator != "inputs":
        return None
    models: list[SubsystemModel] = []
    try:
        models = find_subsystem_models(file)
        with unlogged():
            found = _search(StartErrors(file, models), min(longest, control.maximum))
        return found._replace(step_s=max(found.step_s, control.minimum))
    except (HilrtError, ArithmeticError, np.linalg.LinAlgError):
        return None
    finally:
        for model in models:
            if model.hosted is not None:
                with contextlib.suppress(HilrtError):
                    model.hosted.stop("the first step is known")


def _search(errors: StartErrors, longest: float) -> FirstStep:
    low = high = SHORTEST * longest
    while (found := errors.at(high))[0] <= 1.0:
        if high >= longest:
            return FirstStep(longest, "")
        low, high = high, min(LONGER * high, longest)
    signal = found[1]
    for _ in range(HALVINGS if high > low else 0):
        middle = math.sqrt(low * high)
        share, name = errors.at(middle)
        low, high, signal = (middle, high, signal) if share <= 1.0 else (low, middle, name)
    return FirstStep(float(f"{low:.3g}"), signal)


class StartErrors:
    """Errors of held inputs at the end of a first step; solvers are left at their start.

    `HilrtError` if a subsystem is not a solver that saves and restores its state.
    """

    def __init__(self, file: SessionFile, models: list[SubsystemModel]) -> None:
        tables = file.tables
        self._control = tables.master.step_control
        self._solvers: list[HostedSolver] = []
        for model in models:
            if model.hosted is None or not model.hosted.can_go_back:
                raise HilrtError(f"{model.name} is not a solver that saves and restores its state")
            self._solvers.append(model.hosted)
        ports = {model.name: Ports(tuple(model.inputs), tuple(model.outputs)) for model in models}
        self._net: Network = build_network(ports, tables)
        self._u0, self._y0 = initialize(self._net, models)
        self._L = self._net.L.dense()
        self._relative = has_tolerances(tables.master)

    def at(self, h: float) -> tuple[float, str]:
        """Ratio of the error after a step of `h` [s] to its tolerance, and the worst channel."""
        net = self._net
        y, middle, gamma = self._answers(h)
        seen = self._L @ (y - self._y0)
        loop = np.eye(len(seen)) - self._L @ gamma
        error = np.maximum(np.abs(seen), np.abs(np.linalg.solve(loop, seen)))
        names = list(net.inputs.names)
        shares = self._share(names, np.where(net.connected, error, 0.0), self._u0 + seen)
        if self._control.method == "pi":
            # Middle compared with held end: RMS of Glumac and Kovačić (2023), eq. 32, order 0.
            defects = np.nan_to_num(2.0 / math.sqrt(3.0) * np.abs(middle - y))
            coupled = self._L.any(axis=0)
            outputs = self._share(net.outputs.names, np.where(coupled, defects, 0.0), y)
            shares, names = np.concatenate([shares, outputs]), names + list(net.outputs.names)
            worst = int(np.argmax(shares))
            return float(shares[worst]) / self._control.tolerance, names[worst]
        worst = int(np.argmax(shares))
        norm = math.sqrt(float(np.sum(shares**2)) / max(int(net.connected.sum()), 1))
        safety = SAFETY["local"] if self._control.safety is None else self._control.safety
        return safety * norm, names[worst]

    def _share(self, names: Sequence[str], error: Floats, values: Floats) -> Floats:
        """Ratios of errors to their tolerances; 0 for channels without a tolerance."""
        if not self._relative:
            return error
        atol, rtol = (
            per_channel(given or 0.0, names) for given in (self._control.atol, self._control.rtol)
        )
        weight = atol + rtol * np.abs(values)
        return np.divide(error, weight, out=np.zeros_like(error), where=weight > 0.0)

    def _answers(self, h: float) -> tuple[Floats, Floats, Floats]:
        """Outputs at the end and in the middle of a held step (NaN: unknown), and Γ₁."""
        net, ny = self._net, len(self._y0)
        y, middle = np.empty(ny), np.full(ny, np.nan)
        gamma = np.zeros((ny, len(self._u0)))
        for s, hosted in enumerate(self._solvers):
            own, inputs = net.outputs.slices[s], net.inputs.slices[s]
            u, saved = self._u0[inputs], hosted.solver.save_state()
            try:
                sample = hosted.advance(0.0, h, u[None])
            finally:
                hosted.solver.restore_state(saved)
            y[own] = sample.y
            if sample.y_mid is not None:
                middle[own] = sample.y_mid
            own_gamma = hosted.jacobian("probe", 0.0, h, 1, u)
            if own_gamma is not None:
                gamma[own, inputs] = own_gamma[1]
        return y, middle, gamma
