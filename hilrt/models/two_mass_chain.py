"""Linear two-mass oscillator with force-displacement coupling (Haid et al. 2022, 3.1).

Subsystem I is mass m1 on its spring and damper: force in, displacement and velocity out.
Subsystem II is mass m2 with the coupling spring and damper: displacement and velocity in, the
force on m1 out, with direct feedthrough.
"""

from __future__ import annotations

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.solver import Floats


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
