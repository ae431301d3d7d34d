"""Mass with a coupling spring and a nonlinear coupling damper (Haid et al. 2022, section 5).

The second subsystem of the linear two-mass oscillator (`bench_configs.models.mass_chain`), with a
damping that depends on the speed difference across the damper::

    d(w) = clip(d_k |w|^(n_d − 1), d_min, d_max)

(Equation 43 of the article has the stiffness c_k on its left side; its text makes clear that the
damping is meant.) Integration inside a macro step is accurate: what is wrong with a coupled run
comes from the coupling.
"""

from __future__ import annotations

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.models.integrate import Integrator, tight_step
from hilrt.models.two_mass import micro_steps
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver


class NonlinearCoupling(Solver):
    """Mass 2 on its spring and damper; owns the coupling to mass 1 and outputs the force on it.

    Parameters
    ----------
    nonlinearity : float
        n_d; 1 is a linear damper.
    m, c, d : float
        Mass [kg], stiffness [N/m] and damping [N s/m] to the ground.
    ck, dk : float
        Stiffness [N/m] and damping [N s/m at 1 m/s] of the coupling.
    d_min, d_max : float
        Bounds of the coupling damping, N s/m.
    s, v : float
        Initial displacement [m] and velocity [m/s].
    micro_step : float
        Longest step of the integrator (classical Runge-Kutta), s.
    integrator : {"paper", "exact"}
        Classical Runge-Kutta, or an adaptive method with a tight tolerance.
    """

    inputs = (Port("s", "m"), Port("v", "m/s"))
    outputs = (
        Port("force", "N", feedthrough=("s", "v"), description="coupling force on mass 1"),
        Port("s", "m"),
        Port("v", "m/s"),
    )

    def __init__(
        self,
        nonlinearity: float = 1.0,
        m: float = 10.0,
        c: float = 1e7,
        d: float = 2.0,
        ck: float = 2e5,
        dk: float = 500.0,
        d_min: float = 10.0,
        d_max: float = 1e4,
        s: float = 0.6,
        v: float = 0.0,
        micro_step: float = 1e-4,
        integrator: Integrator = "paper",
    ) -> None:
        self.nonlinearity, self.ck, self.dk = nonlinearity, ck, dk
        self.d_min, self.d_max = d_min, d_max
        self.m, self.c, self.d = m, c, d
        self.s, self.v = s, v
        self.micro_step = micro_step
        self.exact = integrator == "exact"
        self._v1 = 0.0  # of mass 1, as last heard

    def damping(self, w: float) -> float:
        """Coupling damping [N s/m] at the speed difference `w` [m/s].

        Haid et al. (2022), eq. 43.
        """
        rising: float = self.dk * abs(w) ** (self.nonlinearity - 1.0)
        return max(min(rising, self.d_max), self.d_min)

    def slope(self, w: float) -> float:
        """Derivative of the damper's force with respect to `w`, N s/m."""
        d = self.damping(w)
        return d * self.nonlinearity if self.d_min < d < self.d_max else d

    def force(self, s: float, v: float, s1: float, v1: float) -> float:
        """Coupling force on mass 1, N."""
        return self.ck * (s - s1) + self.damping(v - v1) * (v - v1)

    def _acceleration(self, s: float, v: float, s1: float, v1: float) -> float:
        return -(self.c * s + self.d * v + self.force(s, v, s1, v1)) / self.m

    def _sample(self, u: Floats) -> Sample:
        s1, v1 = u.tolist()
        self._v1 = v1
        return Sample(np.array([self.force(self.s, self.v, s1, v1), self.s, self.v]))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Coupling force and motion at `t0`."""
        return self._sample(u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate; by the classical Runge-Kutta method, or with a tight tolerance."""
        if self.exact:
            state = np.array([self.s, self.v])
            self.s, self.v = tight_step(self._rates, state, t, h, u).tolist()
            return self._sample(u(t + h))
        n = micro_steps(h, self.micro_step)
        k = h / n
        s, v, end = self.s, self.v, u(t).tolist()
        for i in range(n):
            start, middle = end, u(t + (i + 0.5) * k).tolist()
            end = u(t + (i + 1) * k).tolist()
            a1 = self._acceleration(s, v, *start)
            v2 = v + 0.5 * k * a1
            a2 = self._acceleration(s + 0.5 * k * v, v2, *middle)
            v3 = v + 0.5 * k * a2
            a3 = self._acceleration(s + 0.5 * k * v2, v3, *middle)
            v4 = v + k * a3
            a4 = self._acceleration(s + k * v3, v4, *end)
            s += k / 6.0 * (v + 2.0 * (v2 + v3) + v4)
            v += k / 6.0 * (a1 + 2.0 * (a2 + a3) + a4)
        self.s, self.v = s, v
        return self._sample(u(t + h))

    def _rates(self, t: float, state: Floats, u: Floats) -> Floats:
        s, v = state.tolist()
        return np.array([v, self._acceleration(s, v, *u.tolist())])

    def save_state(self) -> tuple[float, float, float]:
        """Displacement, velocity, and the speed of mass 1 as last heard."""
        return self.s, self.v, self._v1

    def restore_state(self, state: tuple[float, float, float]) -> None:
        """Restore a state from `save_state`."""
        self.s, self.v, self._v1 = state

    def jacobian(self, h: float, order: int) -> Floats:
        """Interface Jacobians of the system linearised where it is now."""
        slope = self.slope(self.v - self._v1)
        stiffness, damping = self.ck + self.c, slope + self.d
        return LinearSubsystem(
            A=np.array([[0.0, 1.0], [-stiffness / self.m, -damping / self.m]]),
            B=np.array([[0.0, 0.0], [self.ck / self.m, slope / self.m]]),
            C=np.array([[self.ck, slope], [1.0, 0.0], [0.0, 1.0]]),
            D=np.array([[-self.ck, -slope], [0.0, 0.0], [0.0, 0.0]]),
        ).jacobian(h, order)
