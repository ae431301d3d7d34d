"""Long run of the identification of one subsystem, with checks of its covariance factor.

    python -m tools.qualification.soak_identify [--steps 10000000] [--seed 0]

The input alternates between excitation, quiet (a slow oscillation, or zero), steps of a factor of a
million in amplitude, gaps and jumps of the parameters. Every 5000 steps the covariance must be
finite, positive definite and bounded; if the input was excited for long enough, Γ must be right.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hilrt.compilation.compiled import entry_point
from hilrt.coupling.build_model import Identified, Jacobians, build_model
from hilrt.coupling.regression import forget, observe
from hilrt.solver import Floats
from tests.coupling.corrections import H, identified_jacobian, network_of

CHECK = 5_000
PHASE = 2_500


class Regression:
    """The regression of a subsystem with two outputs and two inputs of first order."""

    def __init__(self) -> None:
        network, _ = network_of(np.eye(2), 1)
        jacobians = Jacobians(H, {}, [Identified(0)], np.ones(2, dtype=bool))
        model = build_model(network, np.zeros(2), jacobians)
        self.at, self.weight = model.plan.regressions[0], model.plan.weight[0]
        self.learning, self.work = model.state.learning, model.state.work
        self._y = self.learning.outputs["y"]
        self._acted = self.learning.inputs["acted"][:, :2].T
        self._tables = (self.at, self.learning, self.work, 0, self.weight)
        self._observe: Callable[..., Any] = entry_point(observe, *self._tables, True)
        self._forget: Callable[..., Any] = entry_point(forget, *self._tables)

    @property
    def factor(self) -> Floats:
        """S of the parameters' covariance S S^T."""
        found: Floats = self.learning.factor[0]
        return found

    @property
    def parameters(self) -> Floats:
        """Shape (regressors, outputs)."""
        found: Floats = self.learning.parameters[0]
        return found

    def observe(self, y: Floats, acted: Floats) -> None:
        """Learn from outputs (2,) under inputs with the coefficients `acted` (2, inputs)."""
        self._y[:], self._acted[:] = y, acted
        self._observe(*self._tables, True)

    def forget(self) -> None:
        """Handle a jump of the parameters."""
        self._forget(*self._tables)

    def jacobian(self) -> Floats:
        """Identified Jacobian, shape (2, outputs, inputs)."""
        return identified_jacobian(self.at, self.learning, 0)


def soak(steps: int, seed: int, *, report: bool = False) -> list[str]:
    """Run; return the problems found, one line each."""
    rng = np.random.default_rng(seed)
    model = Regression()
    A = np.array([[0.9, 0.2], [-0.2, 0.9]])
    gamma = rng.normal(size=(2, 2, 2))
    y, kind, amplitude = np.zeros(2), 0, 1.0
    problems: list[str] = []
    worst, began = [np.inf, 0.0], time.monotonic()
    for n in range(1, steps + 1):
        if n % PHASE == 1:
            kind = int(rng.integers(4))
            amplitude = 10.0 ** rng.uniform(-3.0, 3.0)
            if rng.random() < 0.2:
                gamma = rng.normal(size=(2, 2, 2))
                model.forget()
        if kind < 2:
            a = amplitude * rng.normal(size=(2, 2))
        elif kind == 2:
            a = amplitude * np.array([[np.sin(0.01 * n), np.cos(0.01 * n)], [0.0, 0.0]])
        else:
            a = np.zeros((2, 2))
        y = A @ y + np.einsum("myu,mu->y", gamma, a)
        measured = rng.random() > 1e-3
        model.observe(y if measured else y * np.nan, a)
        if n % CHECK == 0:
            problems += [f"step {n}: {text}" for text in check(model, gamma, kind, worst)]
            if len(problems) > 10:
                break
    if report:
        rate = steps / (time.monotonic() - began)
        print(f"{steps} steps, {rate:.0f}/s; eigenvalues of P {worst[0]:.3g} to {worst[1]:.3g}")
    return problems


def check(model: Regression, gamma: Floats, kind: int, worst: list[float]) -> list[str]:
    """List faults of the current model."""
    if not (np.isfinite(model.factor).all() and np.isfinite(model.parameters).all()):
        return ["the factor or the parameters are not finite"]
    # P = S S^T cannot be indefinite; it must not have lost rank either
    singular = np.linalg.svd(model.factor, compute_uv=False)
    worst[0], worst[1] = min(worst[0], singular[-1] ** 2), max(worst[1], singular[0] ** 2)
    problems = []
    if singular[-1] <= 0.0:
        problems.append("the covariance is singular")
    if singular[0] ** 2 > 1e3 / model.weight.min():
        problems.append(f"the covariance has grown to {singular[0] ** 2:.3g}")
    if kind < 2:
        error = np.abs(model.jacobian() - gamma).max()
        if error > 2e-2:  # the scales need time to adapt to a signal that is decades smaller
            problems.append(f"the Jacobian is off by {error:.3g} under excitation")
    return problems


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    problems = soak(arguments.steps, arguments.seed, report=True)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
