"""Chain of masses with nonlinear springs and dampers and impulses.

Multibody Syst. Dyn. 09817 (2022), section 6.2. A chain is cut into segments. Each segment owns its
masses and the elements between them, and evaluates the elements to its neighbours itself, from the
neighbours' motion: its outputs are states, without feedthrough, so that the local error of the
inputs can be estimated. (The paper exchanges the forces of the cut elements and computes them again
at every communication point, which a master without the elements cannot.) Integration inside a
macro step is accurate: what is wrong with a coupled run comes from the coupling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hilrt.models.integrate import Integrator, tight_step
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver


class Segment(Solver):
    """Some masses of the chain; at an end of the chain, an input that is not connected is a wall.

    An element of elongation e pulls with ``c e + d e' + C e³ + D e'³``.

    Parameters
    ----------
    x, v : sequence of float
        Initial displacements [m] and velocities [m/s] of the masses, from left to right.
    m : float
        Each mass, kg.
    c, d, C, D : float
        Stiffness [N/m] and damping [N s/m] of every element, and their cubic parts, N/m³ and
        N s³/m³.
    hit : int
        Mass that the impulses act on.
    force : float
        Height of an impulse, N; none by default.
    first, period, length, rise : float
        Start of the first impulse, time from one to the next, duration, and how long it takes to
        rise and fall, s.
    micro_step : float
        Longest step of the integration (classical Runge-Kutta), s.
    integrator : {"paper", "exact"}
        Classical Runge-Kutta, or an adaptive method with a tight tolerance.
    """

    inputs = (
        Port("x_left", "m"),
        Port("v_left", "m/s"),
        Port("x_right", "m"),
        Port("v_right", "m/s"),
    )
    outputs = (
        Port("x_first", "m"),
        Port("v_first", "m/s"),
        Port("x_last", "m"),
        Port("v_last", "m/s"),
    )

    def __init__(
        self,
        x: Sequence[float],
        v: Sequence[float],
        m: float = 1.0,
        c: float = 1e4,
        d: float = 10.0,
        C: float = 1e6,
        D: float = 1.0,
        hit: int = 0,
        force: float = 0.0,
        first: float = 0.0,
        period: float = 0.5,
        length: float = 0.025,
        rise: float = 1e-3,
        micro_step: float = 1e-3,
        integrator: Integrator = "paper",
    ) -> None:
        if len(x) != len(v) or not len(x):
            raise ValueError(f"{len(x)} displacements and {len(v)} velocities: give one per mass")
        self.state = np.array([x, v], dtype=np.float64)
        self.m, self.c, self.d, self.C, self.D = m, c, d, C, D
        self.hit, self.force = hit, force
        self.first, self.period, self.length, self.rise = first, period, length, rise
        self.micro_step = micro_step
        self.exact = integrator == "exact"

    def impulse(self, t: float) -> float:
        """Force of the impulses at `t` [s], N."""
        # The one that begins nearest still counts before it begins, and the previous one after it.
        nearest = round((t - self.first) / self.period)
        total = 0.0
        for i in range(max(nearest - 1, 0), max(nearest, 0) + 1):
            begun = t - self.first - i * self.period
            total += math.tanh(begun / self.rise) - math.tanh((begun - self.length) / self.rise)
        return 0.5 * self.force * total

    def derivative(self, t: float, state: Floats, u: Floats) -> Floats:
        """Time derivative of displacements and velocities, shape (2, n).

        Parameters
        ----------
        t : float
            Time, s.
        state : ndarray, shape (2, n)
        u : ndarray, shape (4,)
            Motion of the masses to the left and to the right, as the inputs.
        """
        line = np.concatenate((u[:2, None], state, u[2:, None]), axis=1)
        stretch, rate = line[:, 1:] - line[:, :-1]
        pull = stretch * (self.c + self.C * stretch * stretch)
        pull += rate * (self.d + self.D * rate * rate)
        change = np.empty_like(state)
        change[0] = state[1]
        change[1] = (pull[1:] - pull[:-1]) / self.m
        if self.force:
            change[1, self.hit] += self.impulse(t) / self.m
        return change

    def _output(self) -> Sample:
        return Sample(np.concatenate((self.state[:, 0], self.state[:, -1])))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Motion of the first and the last mass."""
        return self._output()

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate; by the classical Runge-Kutta method, or with a tight tolerance."""
        if self.exact:
            flat = tight_step(self._rates, self.state.ravel(), t, h, u)
            self.state = flat.reshape(self.state.shape)
            return self._output()
        n = max(1, math.ceil(h / self.micro_step))
        k = h / n
        s, u1 = self.state, u(t)
        for i in range(n):
            t0, t1 = t + i * h / n, t + (i + 1) * h / n
            middle = 0.5 * (t0 + t1)
            u0, um, u1 = u1, u(middle), u(t1)
            a = self.derivative(t0, s, u0)
            b = self.derivative(middle, s + 0.5 * k * a, um)
            c = self.derivative(middle, s + 0.5 * k * b, um)
            d = self.derivative(t1, s + k * c, u1)
            s = s + (k / 6.0) * (a + 2.0 * (b + c) + d)
        self.state = s
        return self._output()

    def _rates(self, t: float, state: Floats, u: Floats) -> Floats:
        return self.derivative(t, state.reshape(2, -1), u).ravel()

    def save_state(self) -> Any:
        """Displacements and velocities."""
        return self.state

    def restore_state(self, state: Any) -> None:
        """Set displacements and velocities."""
        self.state = state
