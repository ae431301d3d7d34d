"""Linear oscillator of n masses around one: several forces on a summing junction.

Rodríguez et al. (2022), section 4.1.

The first mass of the two-mass oscillator is divided into n − 1, each with its share of the wall and
coupling springs. Each of them owns its coupling spring and outputs the force on the last mass,
which receives their sum and sends its motion to all. One bond carries the summed effort, and one
correction acts on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.solver import Floats, Solver

LAST = "last"


def masses(
    n: int,
    *,
    m: float = 1.0,
    k: float = 10.0,
    kc: float = 100.0,
    k_last: float = 1000.0,
    mass_shares: Sequence[float] | None = None,
    stiffness_shares: Sequence[float] | None = None,
) -> dict[str, Solver]:
    """Subsystems ``mass1`` … and ``last``.

    Parameters
    ----------
    n : int
        Number of masses, at least 2.
    m, k, kc : float
        Mass [kg], wall and coupling stiffness [N/m] that the first n − 1 masses have together.
    k_last : float
        Wall stiffness of the last mass (1 kg), N/m.
    mass_shares, stiffness_shares : sequence of float, optional
        Share of each of the n − 1 masses; default equal ones. With the same shares of both, the
        masses move like the one that they were divided from.
    """
    if n < 2:
        raise ValueError(f"n is {n}; an oscillator needs at least 2 masses")
    equal = [1.0 / (n - 1)] * (n - 1)
    for shares in (mass_shares, stiffness_shares):
        if shares is not None and len(shares) != n - 1:
            raise ValueError(f"{len(shares)} shares for {n - 1} masses")
    both = zip(mass_shares or equal, stiffness_shares or equal, strict=True)
    solvers: dict[str, Solver] = {
        f"mass{i}": Mass1(m=m * a, k=k * b, kc=kc * b) for i, (a, b) in enumerate(both, 1)
    }
    return {**solvers, LAST: Mass2(k=k_last)}


def topology(n: int, correction: Mapping[str, Any], *, summed: bool = True) -> dict[str, Any]:
    """The session file's connections and bonds for `masses`.

    Parameters
    ----------
    correction : mapping
        Of every bond.
    summed : bool
        One bond on the summed effort; otherwise one for each of the n − 1 forces.
    """
    first = [f"mass{i}" for i in range(1, n)]
    connections = [
        {"from": source, "to": target}
        for name in first
        for source, target in (
            (f"{name}.force", f"{LAST}.force"),
            (f"{LAST}.x", f"{name}.x2"),
            (f"{LAST}.v", f"{name}.v2"),
        )
    ]
    bond = {"flow": f"{LAST}.v", "correction": dict(correction)}
    if summed:
        bonds = [{"name": "springs", "effort": [f"{name}.force" for name in first], **bond}]
    else:
        bonds = [{"name": name, "effort": f"{name}.force", **bond} for name in first]
    return {"connections": connections, "bonds": bonds}


def energy(solvers: Mapping[str, Solver]) -> float:
    """Mechanical energy of all masses and springs, J."""
    last = solvers[LAST]
    assert isinstance(last, Mass2)
    total = 0.5 * (last.m * last.v**2 + last.k * last.x**2)
    for mass in solvers.values():
        if isinstance(mass, Mass1):
            total += 0.5 * (mass.m * mass.v**2 + mass.k * mass.x**2)
            total += 0.5 * mass.kc * (mass.x - last.x) ** 2
    return total


# Linear two-mass oscillator with force-displacement coupling (Haid et al. 2022, 3.1).
#
# Subsystem I is mass m1 on its spring and damper: force in, displacement and velocity out.
# Subsystem II is mass m2 with the coupling spring and damper: displacement and velocity in, the
# force on m1 out, with direct feedthrough.


def two_mass_chain(
    ck: float,
    dk: float,
    *,
    m1: float = 10.0,
    m2: float = 10.0,
    c1: float = 1e6,
    c2: float = 1e7,
    d1: float = 1.0,
    d2: float = 2.0,
) -> tuple[list[LinearSubsystem], Floats]:
    """Matrices of the two subsystems and of their coupling (Haid et al. 2022, eq. 27).

    Parameters
    ----------
    ck, dk : float
        Coupling stiffness [N/m] and damping [N s/m].
    m1, m2 : float
        Masses, kg.
    c1, c2, d1, d2 : float
        Stiffnesses [N/m] and dampings [N s/m] to the ground.

    Returns
    -------
    subsystems : list of two LinearSubsystem
        States (s1, v1) and (s2, v2) in m and m/s.
    L : ndarray, shape (3, 3)
        From outputs (s1, v1, F) to inputs (F | s1, v1).
    """
    first = LinearSubsystem(
        A=np.array([[0.0, 1.0], [-c1 / m1, -d1 / m1]]),
        B=np.array([[0.0], [1.0 / m1]]),
        C=np.eye(2),
        D=np.zeros((2, 1)),
    )
    second = LinearSubsystem(
        A=np.array([[0.0, 1.0], [-(ck + c2) / m2, -(dk + d2) / m2]]),
        B=np.array([[0.0, 0.0], [ck / m2, dk / m2]]),
        C=np.array([[ck, dk]]),
        D=np.array([[-ck, -dk]]),
    )
    L = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    return [first, second], L
