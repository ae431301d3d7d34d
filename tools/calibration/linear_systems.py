"""Draws of linear systems: masses and inertias with springs and dampers; random pairs."""

from __future__ import annotations

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.solver import Floats, Port
from tools.calibration.parts import Part, excite, linear_part
from tools.calibration.systems import (
    CoupledSystem,
    Random,
    coupled_eigenvalues,
    draw_sines,
    log_uniform,
)

#: Damping ratios; one system in ten is undamped.
LEAST_DAMPING, MOST_DAMPING = 2e-3, 0.4


def draw_damping(random: Random) -> float:
    """A damping ratio."""
    zeta = log_uniform(random, LEAST_DAMPING, MOST_DAMPING)
    return 0.0 if random.random() < 0.1 else zeta


def translation_or_rotation(random: Random) -> CoupledSystem:
    """Two or three masses, or inertias, coupled by springs and dampers."""
    units = ("N", "m", "m/s") if random.random() < 0.5 else ("N*m", "rad", "rad/s")
    kind = str(random.choice(["two", "speed", "three", "drive"], p=[0.4, 0.25, 0.15, 0.2]))
    omega = 2.0 * np.pi * log_uniform(random, 0.3, 50.0)
    mass = log_uniform(random, 0.05, 200.0)
    masses = [mass, mass * log_uniform(random, 0.1, 10.0), mass * log_uniform(random, 0.1, 10.0)]
    reduced = masses[0] * masses[1] / (masses[0] + masses[1])
    k, zeta = reduced * omega**2, draw_damping(random)
    c = 2.0 * zeta * reduced * omega
    owner = _owner("one", units, masses[0], omega, (k, c), random, speed=kind in ("speed", "drive"))
    if kind == "drive":
        other = _drive("two", units, omega, random)
        connections = [("one.force", "two.load"), ("two.v", "one.v2")]
    else:
        other = _driven("two", units, masses[1], omega, random)
        connections = [("one.force", "two.force"), ("two.v", "one.v2")]
        if kind != "speed":
            connections.append(("two.x", "one.x2"))
    parts, bonds = [owner, other], [("one.force", "two.v")]
    if kind == "three":
        between = masses[0] * masses[2] / (masses[0] + masses[2])
        k3 = between * (omega * log_uniform(random, 0.2, 1.5)) ** 2
        third = _owner(
            "three", units, masses[2], omega, (k3, 2.0 * zeta * between * omega), random, False
        )
        parts.append(third)
        connections += [("three.force", "two.force"), ("two.v", "three.v2"), ("two.x", "three.x2")]
        bonds = [("one.force+three.force", "two.v")]
    system = CoupledSystem(parts, connections, bonds, omega, bench="two")
    system.omega = _fastest(system)
    system.settings = {"kind": kind, "omega": omega, "zeta": zeta, "masses": masses}
    return system


def _fastest(system: CoupledSystem) -> float:
    """Fastest oscillation of the coupled system, rad/s; overdamped: by the eigenvalue."""
    values = coupled_eigenvalues(system)
    oscillating = np.abs(values[np.abs(values.imag) > 1e-3 * np.abs(values)])
    return float(oscillating.max(initial=1e-3))


def _owner(
    name: str,
    units: tuple[str, str, str],
    m: float,
    omega: float,
    coupling: tuple[float, float],
    random: Random,
    speed: bool,
) -> Part:
    """Mass on a wall spring that computes the coupling force; `speed`: deflection is a state."""
    force, length, rate = units
    k, c = coupling
    wall = m * (omega * log_uniform(random, 0.02, 1.0)) ** 2
    drag = 2.0 * draw_damping(random) * np.sqrt(wall * m)
    A = np.array([[0.0, 1.0], [-(wall + k) / m, -(drag + c) / m]])
    B = np.array([[0.0, 0.0], [k / m, c / m]])
    C = np.array([[k, c], [1.0, 0.0], [0.0, 1.0]])
    D = np.array([[-k, -c], [0.0, 0.0], [0.0, 0.0]])
    x0 = [float(random.normal()), float(random.normal()) * omega]
    into = np.array([0.0, 1.0 / m])
    inputs = [Port("x2", length), Port("v2", rate)]
    if speed:  # x2 is the integral of v2
        A = np.block([[A, B[:, :1]], [np.zeros((1, 3))]])
        B = np.array([[0.0], [c / m], [1.0]])
        C = np.hstack((C, [[-k], [0.0], [0.0]]))
        D = np.array([[-c], [0.0], [0.0]])
        x0.append(float(random.normal()))
        into, inputs = np.append(into, 0.0), inputs[1:]
    outputs = [Port("force", force), Port("x", length), Port("v", rate)]
    sines = draw_sines(random, 0.5 * k, omega, fewest=0)
    return linear_part(name, inputs, outputs, *excite(LinearSubsystem(A, B, C, D), x0, into, sines))


def _driven(name: str, units: tuple[str, str, str], m: float, omega: float, random: Random) -> Part:
    """Mass on a wall spring under the coupling force."""
    wall = m * (omega * log_uniform(random, 0.02, 1.0)) ** 2
    drag = 2.0 * draw_damping(random) * np.sqrt(wall * m)
    matrices = LinearSubsystem(
        np.array([[0.0, 1.0], [-wall / m, -drag / m]]),
        np.array([[0.0], [1.0 / m]]),
        np.array([[0.0, 1.0], [1.0, 0.0]]),
        np.zeros((2, 1)),
    )
    x0 = [float(random.normal()), float(random.normal()) * omega]
    sines = draw_sines(random, 0.5 * wall, omega, fewest=0)
    excited = excite(matrices, x0, np.array([0.0, 1.0 / m]), sines)
    outputs = [Port("v", units[2]), Port("x", units[1])]
    return linear_part(name, [Port("force", units[0])], outputs, *excited)


def _drive(name: str, units: tuple[str, str, str], omega: float, random: Random) -> Part:
    """Speed-controlled drive: it follows a reference speed and yields slightly to the load."""
    lag = omega * log_uniform(random, 0.5, 5.0)
    stiffness = lag * log_uniform(random, 0.5, 5.0)
    inertia = log_uniform(random, 0.05, 200.0)
    matrices = LinearSubsystem(
        np.array([[-lag, stiffness], [-stiffness, 0.0]]),
        np.array([[1.0 / inertia], [0.0]]),
        np.array([[1.0, 0.0]]),
        np.zeros((1, 1)),
    )
    sines = draw_sines(random, omega * lag, omega)
    excited = excite(matrices, [float(random.normal()) * omega, 0.0], np.array([1.0, 0.0]), sines)
    return linear_part(name, [Port("load", units[0])], [Port("v", units[2])], *excited)


def random_linear(random: Random) -> CoupledSystem:
    """Two random linear parts, redrawn until their coupling is stable."""
    omega = 2.0 * np.pi * log_uniform(random, 0.3, 50.0)
    through = str(random.choice(["none", "one", "both"], p=[0.4, 0.4, 0.2]))
    while True:
        first = _random_part("one", omega, random, through in ("one", "both"))
        second = _random_part("two", omega, random, through == "both")
        connections = [("one.y", "two.u"), ("two.y", "one.u")]
        system = CoupledSystem([first, second], connections, [], omega, bench="two")
        if abs(float(first.feedthrough[0, 0] * second.feedthrough[0, 0])) > 0.8:
            continue
        values = coupled_eigenvalues(system)
        if values.real.max() < 1e-9 * omega:
            system.omega = max(_fastest(system), 0.1 * omega)
            system.settings = {"omega": omega, "through": through}
            return system


def _random_part(name: str, omega: float, random: Random, direct: bool) -> Part:
    """One input, one output, two to four states."""
    n = int(random.integers(1, 3))
    A = np.zeros((2 * n, 2 * n))
    for i in range(n):
        w = omega * log_uniform(random, 0.05, 1.0)
        zeta = log_uniform(random, 5e-3, 1.5)
        A[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[0.0, w], [-w, -2.0 * zeta * w]]
    turn: Floats = random.normal(size=(2 * n, 2 * n)) + 2.0 * np.eye(2 * n)
    A = turn @ A @ np.linalg.inv(turn)
    B = random.normal(size=(2 * n, 1)) * np.sqrt(omega)
    C = random.normal(size=(1, 2 * n)) * np.sqrt(omega) * log_uniform(random, 0.05, 1.0)
    D = np.array([[float(random.normal())]]) if direct else np.zeros((1, 1))
    x0 = random.normal(size=2 * n).tolist()
    into = random.normal(size=2 * n) * omega
    sines = draw_sines(random, 1.0, omega)
    excited = excite(LinearSubsystem(A, B, C, D), x0, into, sines)
    return linear_part(name, [Port("u")], [Port("y")], *excited)
