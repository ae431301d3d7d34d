"""A long chain of masses with impulses and contacts, in segments that forces couple.

Multibody Syst. Dyn. 09817 (2022), sections 6.2, 6.3 and 6.5. `session` builds the session of a
chain: 10,000 masses in 191 segments by default. The element between two segments belongs to neither
of them: the session calculates its force from the motion of both. What the paper leaves open is
settled here: both ends of the chain are on walls. By default it begins at rest, and is first hit
after 0.1 ms: with random velocities of 10 m/s the first step would have to be shorter than 1 ns,
the resolution of session time.

Segments are integrated by the linearly implicit Euler method with extrapolation (P. Deuflhard 1985,
"Recent progress in extrapolation methods for ordinary differential equations"), whose linear
systems are tridiagonal. Each chooses its steps by itself, all in one compiled call: with numpy, a
step of 100 masses takes 2.4 ms; scipy's BDF would begin with order 1 at every macro step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np

from hilrt import Group, InputPolynomial, Port, Sample, SessionBuilder, Solver
from hilrt.solver import Floats
from hilrt.tables.ports import Ints

#: Impulses: the first, time from one to the next, duration, and half of how long it rises, s.
FIRST, PERIOD, LENGTH, RISE = 1e-4, 0.05, 2.5e-3, 1e-5
#: Share of the masses that are hit, and the least and the largest force, N.
HIT, FORCES = 0.3, (1e6, 5e6)
#: Contact force at x = 0 [N], how fast it grows [1/m], and the share of the masses that have one.
CONTACT, GROWTH, TOUCHING = -1e-2, 5e5, 0.1
#: Growth of a contact force's logarithm in a step above which substeps may have missed it.
UNSEEN = 3.0
#: Exponent at which a contact force stops growing: a trial step may go far beyond the wall.
LARGEST = 100.0
#: Section 6.5: share of the masses under ``F sin(w t)^95``, forces [N] and frequencies [1/s].
DRIVEN, WAVES, FREQUENCIES, POWER = 0.5, (1e6, 1e7), (5e2, 5e3), 95
#: Tolerances of the integration: displacements [m], velocities [m/s], and relative.
ATOL_X, ATOL_V, RTOL = 1e-9, 1e-6, 1e-6
#: Rows of the extrapolation, and the shortest step [s].
ROWS, SHORTEST = 6, 1e-15
#: Of masses and elements (section 6.2), and in section 6.5.
PROPERTIES: Final = {"m": 0.1, "c": 1e7, "d": 1e4, "C": 1e14, "D": 1e2}
DRIVEN_PROPERTIES: Final = {"m": 0.05, "c": 2.5e6, "d": 25.0, "C": 1e10, "D": 1e-4}

#: Rows of a table of masses: mass, contact force at x = 0, impulse, wave, its frequency; the
#: element to the next mass and that to a wall, as c, d, C and D.
M, TOUCH, FORCE, WAVE, FREQUENCY, ELEMENT, WALL, KINDS = 0, 1, 2, 3, 4, 5, 9, 13


Function = TypeVar("Function", bound=Callable[..., Any])


def fast(function: Function) -> Function:
    """Compile a function of numbers and arrays at its first call, or load it."""
    return cast(Function, numba.njit(cache=True, error_model="numpy")(function))


@fast
def pull(masses: Floats, kind: int, i: int, e: float, w: float) -> float:
    """Force of an element under its elongation and its rate (eq. 37)."""
    c, d, C, D = masses[kind, i], masses[kind + 1, i], masses[kind + 2, i], masses[kind + 3, i]
    force: float = e * (c + C * e * e) + w * (d + D * w * w)
    return force


@fast
def push(masses: Floats, t: float, x: Floats, v: Floats, u: Floats, total: Floats) -> None:
    """Force on each mass of a segment at `t` [s] with the inputs `u`, shape (2,), N."""
    n = len(x)
    begun = t - FIRST - PERIOD * max(round((t - FIRST) / PERIOD), 0.0)
    pulse = 0.5 * (math.tanh(begun / RISE) - math.tanh((begun - LENGTH) / RISE))
    for i in range(n):
        total[i] = masses[FORCE, i] * pulse - pull(masses, WALL, i, x[i], v[i])
        if masses[WAVE, i] != 0.0:
            total[i] += masses[WAVE, i] * math.sin(masses[FREQUENCY, i] * t) ** POWER
        if masses[TOUCH, i] != 0.0:
            total[i] += masses[TOUCH, i] * math.exp(min(GROWTH * x[i], LARGEST))
    for i in range(n - 1):
        between = pull(masses, ELEMENT, i, x[i + 1] - x[i], v[i + 1] - v[i])
        total[i] += between
        total[i + 1] -= between
    total[0] += u[0]
    total[n - 1] += u[1]


@fast
def tangents(masses: Floats, x: Floats, v: Floats, found: Floats) -> None:
    """Diagonals of stiffness and damping matrix, and what stands beside them, shape (4, n)."""
    n = len(x)
    for i in range(n):
        e, w = x[i], v[i]
        found[0, i] = masses[WALL, i] + 3.0 * masses[WALL + 2, i] * e * e
        found[1, i] = masses[WALL + 1, i] + 3.0 * masses[WALL + 3, i] * w * w
        if masses[TOUCH, i] != 0.0:
            found[0, i] -= masses[TOUCH, i] * GROWTH * math.exp(min(GROWTH * e, LARGEST))
    for i in range(n - 1):
        e, w = x[i + 1] - x[i], v[i + 1] - v[i]
        for level, slope in (
            (0, masses[ELEMENT, i] + 3.0 * masses[ELEMENT + 2, i] * e * e),
            (1, masses[ELEMENT + 1, i] + 3.0 * masses[ELEMENT + 3, i] * w * w),
        ):
            found[level, i] += slope
            found[level, i + 1] += slope
            found[level + 2, i] = -slope


@fast
def attempt(
    masses: Floats, state: Floats, t: float, done: float, part: float, u: Floats, rows: Floats
) -> int:
    """A step of `part` [s] from ``t + done``; the row of `rows` with its end, -1 if it is too long.

    `u`, shape (order + 1, 2), are the inputs' Taylor coefficients about `t`; `rows` has the shape
    (2, ROWS, 2, n).
    """
    n = state.shape[1]
    tangent, factor, total, inputs = (
        np.zeros((4, n)),
        np.empty((2, n)),
        np.empty(n),
        np.empty(2),
    )
    tangents(masses, state[0], state[1], tangent)
    for count in range(1, ROWS + 1):
        s = part / count
        new, old = rows[count % 2], rows[1 - count % 2]
        new[0] = state
        x, v = new[0, 0], new[0, 1]
        for i in range(n):  # L D L^T
            factor[0, i] = masses[M, i] + s * (tangent[1, i] + s * tangent[0, i])
            if i > 0:
                factor[0, i] -= factor[1, i - 1] * s * (tangent[3, i - 1] + s * tangent[2, i - 1])
            factor[1, i] = s * (tangent[3, i] + s * tangent[2, i]) / factor[0, i]
        for k in range(1, count + 1):
            at, power = done + k * s, 1.0
            inputs[:] = 0.0
            for m in range(len(u)):
                inputs += u[m] * power
                power *= at / (m + 1)
            push(masses, t + at, x, v, inputs, total)
            for i in range(n):
                drag = tangent[0, i] * v[i]
                if i > 0:
                    drag += tangent[2, i - 1] * v[i - 1]
                if i < n - 1:
                    drag += tangent[2, i] * v[i + 1]
                total[i] = s * (total[i] - s * drag)
            for i in range(1, n):
                total[i] -= factor[1, i - 1] * total[i - 1]
            for i in range(n - 1, -1, -1):
                total[i] /= factor[0, i]
                if i < n - 1:
                    total[i] -= factor[1, i] * total[i + 1]
            v += total
            x += s * v
        for i in range(count - 1):
            new[i + 1] = new[i] + (new[i] - old[i]) * ((count - i - 1) / (i + 1))
        if count > 1 and close(new[count - 1], new[count - 2]):
            return -1 if passes_wall(masses, state, new[count - 1], part) else count
    return -1


@fast
def passes_wall(masses: Floats, before: Floats, after: Floats, part: float) -> bool:
    """Whether a contact force that matters has grown by more than a factor e^`UNSEEN` in a step.

    Forces are only evaluated at the beginning of substeps: a fast mass would pass a wall unseen.
    """
    for i in range(before.shape[1]):
        if masses[TOUCH, i] != 0.0 and GROWTH * (after[0, i] - before[0, i]) > UNSEEN:
            force = masses[TOUCH, i] * math.exp(min(GROWTH * after[0, i], LARGEST))
            change = abs(force) * part / masses[M, i]
            if change > ATOL_V + RTOL * abs(after[1, i]):
                return True
    return False


@fast
def close(one: Floats, other: Floats) -> bool:
    """Whether two states differ by no more than is tolerated; not so where they are not finite."""
    for i in range(one.shape[1]):
        fits = abs(one[0, i] - other[0, i]) <= ATOL_X + RTOL * abs(one[0, i])
        if not (fits and abs(one[1, i] - other[1, i]) <= ATOL_V + RTOL * abs(one[1, i])):
            return False
    return True


@fast
def integrate(
    first: Ints, masses: Floats, state: Floats, t: float, h: float, coefficients: Floats
) -> int:
    """Bring `state`, shape (2, n), from `t` to ``t + h``; the segment that cannot, or -1.

    Parameters
    ----------
    first : ndarray of int, shape (r + 1,)
        First mass of each segment, and n.
    masses : ndarray, shape (KINDS, n)
    coefficients : ndarray, shape (order + 1, 2 r)
        Forces on the first and the last mass of each segment in turn, N; Taylor coefficients.
    """
    for segment in range(len(first) - 1):
        a, b = first[segment], first[segment + 1]
        own = state[:, a:b]
        rows = np.empty((2, ROWS, 2, b - a))
        done, part = 0.0, h
        while h - done > 1e-9 * h:
            if part < SHORTEST:
                return segment
            u = coefficients[:, 2 * segment : 2 * segment + 2]
            row = attempt(masses[:, a:b], own, t, done, part, u, rows)
            if row < 0:
                part *= 0.25
            else:
                own[:] = rows[row % 2, row - 1]
                done += part
                part = min(2.0 * part, h - done)
    return -1


class Segment(Solver):
    """A part of the chain, with initial state and external forces that are drawn at random.

    Parameters
    ----------
    number : int
        Of the segment; its part of the random numbers.
    masses : int
        Number of its masses.
    seed : int
        Of the chain.
    walls : {"", "left", "right", "both"}
        Which end is on a wall.
    m, c, d, C, D : float
        Each mass [kg], stiffness [N/m] and damping [N s/m] of each element, and their cubic parts.
    displacement, velocity : float
        Largest random displacement [m] and velocity [m/s] at the start.
    driven : bool
        The forces are those of section 6.5, and there are no contacts.
    """

    inputs = (Port("f_left", "N"), Port("f_right", "N"))
    outputs = (
        Port("x_first", "m"),
        Port("v_first", "m/s"),
        Port("x_last", "m"),
        Port("v_last", "m/s"),
    )

    def __init__(
        self,
        number: int,
        masses: int,
        seed: int = 1,
        walls: str = "",
        displacement: float = 0.0,
        velocity: float = 0.0,
        driven: bool = False,
        **properties: float,
    ) -> None:
        draw = np.random.default_rng((seed, number))
        x, v = draw.uniform(-1.0, 1.0, (2, masses))
        hit, touching, running, sign = draw.uniform(size=(4, masses))
        sign = np.sign(sign - 0.5)
        force, wave = draw.uniform(*FORCES, masses), draw.uniform(*WAVES, masses)
        self.table = np.zeros((KINDS, masses))
        of, table = PROPERTIES | properties, self.table
        if unknown := of.keys() - PROPERTIES.keys():
            raise TypeError(f"{', '.join(sorted(unknown))}: give {', '.join(PROPERTIES)}")
        table[FREQUENCY] = draw.uniform(*FREQUENCIES, masses)
        table[M] = of["m"]
        if driven:
            table[WAVE] = np.where(running < DRIVEN, sign * wave, 0.0)
        else:
            table[TOUCH] = np.where(touching < TOUCHING, CONTACT, 0.0)
            table[FORCE] = np.where(hit < HIT, sign * force, 0.0)
        element = [of["c"], of["d"], of["C"], of["D"]]
        table[ELEMENT:WALL, :-1] = np.reshape(element, (4, 1))
        for side, mass in (("left", 0), ("right", -1)):
            if walls in (side, "both"):
                table[WALL:, mass] += element
        x = np.where(table[TOUCH] < 0.0, -np.abs(x), x)  # on the free side
        self.state = np.array([displacement * x, velocity * v])
        self.first = np.array([0, masses])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Motion of the first and the last mass."""
        return _sample(self.first, self.state)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate."""
        step(self.first, self.table, self.state, t, h, u)
        return _sample(self.first, self.state)

    def save_state(self) -> Any:
        """Displacements and velocities."""
        return self.state

    def restore_state(self, state: Any) -> None:
        """Set displacements and velocities."""
        self.state = state


def step(
    first: Ints, masses: Floats, state: Floats, t: float, h: float, u: InputPolynomial
) -> None:
    """As `integrate`; `ValueError` names the segment that is torn apart."""
    failed = integrate(first, masses, state, t, h, np.ascontiguousarray(u.coefficients))
    if failed >= 0:
        raise ValueError(f"segment {failed}: no step is short enough at t = {t:g} s")


def _sample(first: Ints, state: Floats) -> Sample:
    ends = np.stack((first[:-1], first[1:] - 1), axis=1)
    return Sample(np.moveaxis(state[:, ends], 0, -1).ravel())


class Segments(Group):
    """The segments of a chain, all in one call.

    Parameters
    ----------
    members : mapping of str to Segment
    """

    def __init__(self, members: Mapping[str, Segment]) -> None:
        super().__init__(members)
        segments = list(members.values())
        self.table = np.concatenate([one.table for one in segments], axis=1)
        self.state = np.concatenate([one.state for one in segments], axis=1)
        self.first = np.cumsum([0] + [len(one.state.T) for one in segments])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Motion of the first and the last mass of each segment."""
        return _sample(self.first, self.state)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate."""
        step(self.first, self.table, self.state, t, h, u)
        return _sample(self.first, self.state)

    def save_state(self) -> Any:
        """Displacements and velocities of each segment."""
        return [self.state[:, a:b] for a, b in pairwise(self.first.tolist())]

    def restore_state(self, state: Any) -> None:
        """Set displacements and velocities."""
        self.state = np.concatenate(state, axis=1)


def own_arguments(segments: int, masses: int) -> dict[str, list[Any]]:
    """Arguments of `Segment` that differ, for each segment of a chain."""
    walls = ["left", *[""] * (segments - 2), "right"] if segments > 1 else ["both"]
    sizes = [(masses + i) // segments for i in range(segments)]
    return {"number": list(range(segments)), "masses": sizes, "walls": walls}


def chain(segments: int, masses: int, **params: Any) -> Segments:
    """The segments that `session` makes, without a session."""
    rows = zip(*own_arguments(segments, masses).values(), strict=True)
    return Segments({f"s{i}": Segment(i, n, walls=walls, **params) for i, n, walls in rows})


def session(
    segments: int = 191,
    masses: int = 10_000,
    *,
    duration: float = 0.5,
    hosts: int = 0,
    **params: Any,
) -> SessionBuilder:
    """Session of a chain by ExSLocal with order control, as in section 6.2.

    Parameters
    ----------
    segments, masses : int
        How many of them, at least one mass for each segment.
    duration : float
        Session time, s.
    hosts : int
        Number of processes that the segments are divided among; steps are then not repeated. 0: all
        are in this process.
    **params
        Of `Segment`, for all.
    """
    builder = SessionBuilder("long-chain", duration=duration, step=1e-8, pace="asap")
    builder.set(
        "master",
        step_control={
            "method": "local",
            "repeat": not hosts,
            "safety": 6.0,
            "rtol": 1e-3,
            "atol": {"*.f_*": 0.1},
        },
        order_control={"method": "derivatives", "maximum": 5},
    )
    spawn = ["hilrt", "solver", "--group", "session.toml"]
    keys = {"adapter": "zeromq", "spawn": spawn} if hosts else {}
    each, walls = own_arguments(segments, masses), ("s0.f_left", f"s{segments - 1}.f_right")
    for number, part in enumerate(np.array_split(np.arange(segments), max(hosts, 1))):
        names = [f"s{i}" for i in part]
        builder.group(
            f"host{number}" if hosts else "chain",
            f"{__name__}:Segment",
            names,
            together=f"{__name__}:Segments",
            params=params,
            each={name: values[part[0] : part[-1] + 1] for name, values in each.items()},
            inputs={end: {"start": 0.0} for end in walls if end.partition(".")[0] in names},
            **keys,
        )
    of = PROPERTIES | params
    for i in range(segments - 1):
        e, w = f"(s{i + 1}.x_first - s{i}.x_last)", f"(s{i + 1}.v_first - s{i}.v_last)"
        terms = (
            f"unit({of['c']!r}, 'N/m') * {e}",
            f"unit({of['C']!r}, 'N/m^3') * {e} ** 3",
            f"unit({of['d']!r}, 'N*s/m') * {w}",
            f"unit({of['D']!r}, 'N*s^3/m^3') * {w} ** 3",
        )
        builder.add("calculated", {"name": f"f{i}", "unit": "N", "expression": " + ".join(terms)})
        builder.connect(f"calculated.f{i}", f"s{i}.f_right")
        builder.connect(f"calculated.f{i}", f"s{i + 1}.f_left", gain=-1.0)
    return builder
