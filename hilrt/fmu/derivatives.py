"""Directional derivatives of an FMU: its feedthrough, and its linearisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.fmu.instance import Instance
from hilrt.fmu.variables import CONTINUOUS, size_of
from hilrt.solver import Floats

Sized = Sequence[tuple[Any, int]]


def along(instance: Instance, unknowns: Sized, knowns: Sized, change: Floats) -> Floats:
    """First-order change of `unknowns`, shape (n_unknowns,), for a `change` of the `knowns`.

    Variables that are not real are treated as constant.
    """
    rows, real_unknowns = _real(unknowns)
    columns, real_knowns = _real(knowns)
    found = np.zeros(len(rows))
    if real_unknowns and real_knowns:
        size = int(rows.sum())
        seed = change[columns]
        found[rows] = instance.directional(real_unknowns, real_knowns, seed, size)
    return found


def partial(instance: Instance, unknowns: Sized, knowns: Sized) -> Floats:
    """Matrix of partial derivatives, shape (n_unknowns, n_knowns)."""
    n = sum(size for _, size in knowns)
    columns = [along(instance, unknowns, knowns, column) for column in np.eye(n)]
    rows = sum(size for _, size in unknowns)
    matrix: Floats = np.array(columns).reshape(n, rows).T
    return matrix


def states_and_rates(instance: Instance, start: Mapping[str, Any]) -> tuple[Sized, Sized] | None:
    """Continuous states and their derivatives; None if the FMU does not expose them.

    Start values of structural parameters, `start`, determine the sizes of arrays.
    """
    rates = [unknown.variable for unknown in instance.fmu.model.derivatives]
    states = [rate.derivative for rate in rates]
    if not rates or any(state is None or isinstance(state, str) for state in states):
        return None
    # A state has the size of its derivative.
    sizes = [size_of(rate, start) for rate in rates]
    return list(zip(states, sizes, strict=True)), list(zip(rates, sizes, strict=True))


def linearise(
    instance: Instance, ins: Sized, outs: Sized, start: Mapping[str, Any]
) -> LinearSubsystem | None:
    """Matrices A, B, C, D about the present state; None if the FMU does not expose its states."""
    exposed = states_and_rates(instance, start)
    if exposed is None:
        return None
    states, rates = exposed
    return LinearSubsystem(
        partial(instance, rates, states),
        partial(instance, rates, ins),
        partial(instance, outs, states),
        partial(instance, outs, ins),
    )


def held_jacobian(linear: LinearSubsystem, h: float, order: int, n: int, seen: float) -> Floats:
    """Γ_0 … Γ_order, shape (order + 1, ny, nu), over `h` [s] with inputs held over `n` equal steps.

    The direct feedthrough uses the inputs at the share `seen` of `h`, from 0 to 1.
    """
    A, (B,) = linear.discretize(h / n, 0)
    power = np.arange(order + 1)[:, None, None]
    effect = np.zeros((order + 1, *B.shape))
    for i in range(n):  # (t / h)^m is held at its value at the substep's start
        effect = A @ effect + B * (i / n) ** power
    gamma: Floats = linear.C @ effect + linear.D * seen**power
    return gamma


def _real(variables: Sized) -> tuple[Any, list[Any]]:
    """Mask of the real elements, shape (sum of sizes,), and the real variables."""
    mask = [variable.type in CONTINUOUS for variable, size in variables for _ in range(size)]
    return np.array(mask, dtype=bool), [v for v, _ in variables if v.type in CONTINUOUS]
