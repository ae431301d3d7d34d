"""Extrapolation: from samples of the outputs to polynomials of the inputs (METHODS section 2).

Every output has nodes of its own (the times its samples are valid at), so that multi-rate
subsystems, variable steps, late samples and bench signals of different age are one case. The
polynomial is built in Newton's form: the one of degree p uses the first p + 1 divided differences,
so connections of different order share one table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.compiled import compiled
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Connections, Ints


@dataclass(slots=True)
class History:
    """The newest samples of every output, newest first.

    Attributes
    ----------
    t, y : ndarray, shape (depth, ny)
        When a sample is valid [s], and its value.
    count : ndarray of int, shape (ny,)
        Number of real samples seen, up to `depth`.
    """

    t: Floats
    y: Floats
    count: Ints

    @classmethod
    def start(cls, depth: int, t0: float, y0: Floats) -> History:
        """History with one sample `y0`, shape (ny,), at `t0` [s]."""
        spacing = np.arange(depth, dtype=np.float64)[:, None]  # keeps differences finite
        return cls(
            t=t0 - np.repeat(spacing, len(y0), axis=1),
            y=np.repeat(y0[None], depth, axis=0),
            count=np.ones(len(y0), dtype=np.intp),
        )


@compiled
def usable_degrees(
    wanted: Ints, count: Ints, owner: Ints, holds: Bools, late: Bools, degree: Ints
) -> None:
    """Degrees that the samples at hand allow, no higher than wanted.

    Parameters
    ----------
    wanted, count, owner, degree : ndarray of int, shape (ny,)
        Wanted degree, samples seen, and the subsystem of each output; `degree` is overwritten.
    holds, late : ndarray of bool, shape (n subsystems,)
        Late policy "hold": such a subsystem's outputs stay as they are while it is late.
    """
    for i in range(len(wanted)):
        held = holds[owner[i]] and late[owner[i]]
        degree[i] = 0 if held else min(wanted[i], count[i] - 1)


def divided_differences(history: History, now: float) -> tuple[Floats, Floats]:
    """Newton's form of every output's interpolation polynomial.

    Returns
    -------
    differences, nodes : ndarray, shape (depth, ny)
        ``y[t_0 … t_j]``, and the node times relative to `now` [s].
    """
    differences, nodes = np.empty_like(history.y), np.empty_like(history.t)
    newton_form(history.t, history.y, now, differences, nodes)
    return differences, nodes


def newton_value(differences: Floats, nodes: Floats, degree: Ints) -> Floats:
    """Value at `now` of each output's polynomial of its own `degree` (ny,), shape (ny,)."""
    value: Floats = np.empty_like(differences[0])
    _newton_value(differences, nodes, degree, value)
    return value


@compiled
def connection_polynomials(
    differences: Floats, nodes: Floats, order: Ints, degree: Ints, source: Ints, out: Floats
) -> None:
    """Taylor coefficients about `now` of what every connection carries (before its gain).

    Parameters
    ----------
    differences, nodes : ndarray, shape (depth, ny)
        From `divided_differences`.
    order, degree : ndarray of int, shape (nc,), (ny,)
        Order of each connection, and degree that the samples of each output suffice for.
    source : ndarray of int, shape (nc,)
        The output each connection starts from.
    out : ndarray, shape (order + 1, nc)
        Overwritten.
    """
    # Horner's scheme on Newton's form: p <- p (tau - node_j) + difference_j, from the innermost on.
    for c in range(len(source)):
        i = source[c]
        top = min(order[c], degree[i], len(out) - 1)
        out[:, c] = 0.0
        out[0, c] = differences[top, i]
        for j in range(top - 1, -1, -1):
            for m in range(top - j, 0, -1):
                out[m, c] = out[m - 1, c] - nodes[j, i] * out[m, c]
            out[0, c] = differences[j, i] - nodes[j, i] * out[0, c]
        factorial = 1.0
        for m in range(2, len(out)):
            factorial *= m
            out[m, c] *= factorial


def sum_at_inputs(connections: Connections, carried: Floats, base: Floats, out: Floats) -> Floats:
    """Input polynomials: gains applied and connections to one input added up.

    Parameters
    ----------
    carried : ndarray, shape (order + 1, nc)
        From `connection_polynomials`.
    base : ndarray, shape (nu,)
        Offsets of connected inputs, start values of unconnected ones.
    out : ndarray, shape (order + 1, nu)
        Overwritten.
    """
    _sum_at_inputs(carried, connections.gain, connections.first, connections.target, base, out)
    return out


def taylor_polynomials(connections: Connections, y: Floats, dy: Floats, out: Floats) -> None:
    """Overwrite the connections of source "taylor" with the output derivatives `dy` (n, ny).

    Coefficients beyond the derivatives that are known (finite) are zero.
    """
    taylor = connections.taylor
    source = connections.source[taylor]
    out[:, taylor] = 0.0
    out[0, taylor] = y[source]
    known = np.ones(len(source), dtype=bool)
    for m in range(1, min(len(out) - 1, len(dy)) + 1):
        derivative = dy[m - 1, source]
        known &= np.isfinite(derivative) & (connections.order[taylor] >= m)
        out[m, taylor] = np.where(known, derivative, 0.0)


@compiled
def push(
    t: Floats, y: Floats, fresh: Bools, spacing: Floats, t_past: Floats, y_past: Floats, count: Ints
) -> None:
    """Take the samples marked `fresh` into a history; arrays of shape (ny,), and the history's.

    A sample no farther than `spacing` [s] from the newest node takes its place: two frames of a
    bench that arrive back to back would otherwise make any slope. One that is older than the newest
    node is dropped.
    """
    depth = len(t_past)
    for i in range(len(t)):
        if fresh[i] and t[i] >= t_past[0, i]:
            if t[i] - t_past[0, i] > spacing[i]:
                for j in range(depth - 1, 0, -1):
                    t_past[j, i] = t_past[j - 1, i]
                    y_past[j, i] = y_past[j - 1, i]
                count[i] = min(count[i] + 1, depth)
            t_past[0, i] = t[i]
            y_past[0, i] = y[i]


@compiled
def newton_form(t: Floats, y: Floats, now: float, differences: Floats, nodes: Floats) -> None:
    """`divided_differences` of the samples `y` at `t`, (depth, ny), into the last two arrays."""
    depth, n = y.shape
    for i in range(n):
        for j in range(depth):
            differences[j, i] = y[j, i]
            nodes[j, i] = t[j, i] - now
        for j in range(1, depth):
            for k in range(depth - 1, j - 1, -1):
                rise = differences[k - 1, i] - differences[k, i]
                differences[k, i] = rise / (nodes[k - j, i] - nodes[k, i])


@compiled
def newton_value_of(differences: Floats, nodes: Floats, i: int, degree: int) -> float:
    """Value at `now` of the polynomial of the given degree of output `i`."""
    above = 0.0
    for j in range(degree, 0, -1):
        above = (differences[j, i] + above) * -nodes[j - 1, i]
    return float(differences[0, i] + above)


@compiled
def _newton_value(differences: Floats, nodes: Floats, degree: Ints, value: Floats) -> None:
    for i in range(len(value)):
        value[i] = newton_value_of(differences, nodes, i, degree[i])


@compiled
def _sum_at_inputs(
    carried: Floats, gain: Floats, first: Ints, target: Ints, base: Floats, out: Floats
) -> None:
    out[:] = 0.0
    for g in range(len(first)):
        stop = first[g + 1] if g + 1 < len(first) else len(gain)
        for c in range(first[g], stop):
            for m in range(len(out)):
                out[m, target[g]] += carried[m, c] * gain[c]
    for i in range(len(base)):
        out[0, i] += base[i]
