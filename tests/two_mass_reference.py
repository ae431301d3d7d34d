"""Case 1 of Rodríguez et al. (2022) in plain floats, to compare the core with.

One loop over base ticks, written from the equations; it shares no code with the package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

M1 = M2 = 1.0
K1, KC, K2 = 10.0, 100.0, 1000.0


@dataclass
class Line:
    """Extrapolation of one signal through its last two samples, or its last one.

    A new sample makes new `nodes`, so that a copy stays what was sent.
    """

    order: int
    nodes: list[tuple[float, float]] = field(default_factory=list)

    def sample(self, t: float, y: float) -> None:
        self.nodes = [*self.nodes[-1:], (t, y)]

    def __call__(self, t: float) -> float:
        t1, y1 = self.nodes[-1]
        if self.order == 0 or len(self.nodes) < 2:
            return y1
        t0, y0 = self.nodes[0]
        return y1 + (t - t1) * (y1 - y0) / (t1 - t0)


@dataclass
class Result:
    """Every communication point of the bond: times, (x1, v1, x2, v2), correction, energy, 𝒰."""

    t: list[float] = field(default_factory=list)
    state: list[tuple[float, float, float, float]] = field(default_factory=list)
    correction: list[float] = field(default_factory=list)
    energy: list[float] = field(default_factory=list)
    uncorrected: list[float] = field(default_factory=list)

    def mean_energy_error(self) -> float:
        """Mean over the last second, relative to the start."""
        end = self.t[-1]
        last = [e for t, e in zip(self.t, self.energy, strict=True) if t >= end - 1.0 - 1e-9]
        return sum(last) / len(last) / self.energy[0] - 1.0


def simulate(
    *,
    duration: float = 10.0,
    base: float = 1e-3,
    every: tuple[int, int] = (1, 1),
    order_force: int = 0,
    order_motion: int = 0,
    mu: float = 0.0,
    nu: float = 0.0,
    cap: float = 1.0,
    held: bool = True,
    output_with_last_micro_input: bool = False,
) -> Result:
    """Non-iterative Jacobi; each side takes one symplectic Euler step per own interval."""
    n1, n2 = every
    bond = max(every)
    x1, v1, x2, v2 = 0.0, 100.0, 0.0, -100.0
    h1, h2, H = n1 * base, n2 * base, bond * base
    force_line = Line(order_force)
    x2_line, v2_line = Line(order_motion), Line(order_motion)
    force_sent, v2_sent = force_line, v2_line
    force = KC * (x1 - x2)
    correction = total = pending = 0.0
    before: tuple[float, float] | None = None
    result = Result()
    for k in range(round(duration / base) + 1):
        t = k * base
        if k % bond == 0:
            if before is not None:
                e_used, f_used = before if held else (force_sent(t), v2_sent(t))
                total += pending + correction * v2 * H
                pending = mu * H * (e_used * v2 - force * f_used)
                wanted = -(pending + nu * total) / (v2 * H)
                correction = math.copysign(min(abs(wanted), cap * abs(force)), wanted)
            before = (force, v2)
            spring = x1 - x2
            result.t.append(t)
            result.state.append((x1, v1, x2, v2))
            result.correction.append(correction)
            result.uncorrected.append(total)
            result.energy.append(
                (M1 * v1**2 + M2 * v2**2 + K1 * x1**2 + K2 * x2**2 + KC * spring**2) / 2.0
            )
        if k % n1 == 0:
            force_line.sample(t, force)
        if k % n2 == 0:
            x2_line.sample(t, x2)
            v2_line.sample(t, v2)
        if k % n1 == 0:
            v2_sent = replace(v2_line)
        if k % n2 == 0:
            force_sent = replace(force_line)
        # Both sides read their inputs before either moves.
        x2_now, force_now = x2_line(t), force_line(t) + correction
        if k % n1 == 0:
            v1 += h1 * (-K1 * x1 - KC * (x1 - x2_now)) / M1
            x1 += h1 * v1
            force = KC * (x1 - (x2_now if output_with_last_micro_input else x2_line(t + h1)))
        if k % n2 == 0:
            v2 += h2 * (-K2 * x2 + force_now) / M2
            x2 += h2 * v2
    return result
