"""Extrapolation: from samples of the outputs to polynomials of the inputs (METHODS section 2).

Every output has nodes of its own (the times its samples are valid at), so that multi-rate
subsystems, variable steps, late samples and bench signals of different age are one case. The
polynomial is built in Newton's form: the one of degree p uses the first p + 1 divided differences,
so connections of different order share one table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hilrt.network import Bools, Connections, Ints
from hilrt.solver import Floats


@dataclass(slots=True)
class History:
    """The newest samples of every output, newest first.

    Attributes
    ----------
    t, y : ndarray, shape (depth, ny)
        When a sample is valid [s], and its value.
    count : ndarray of int, shape (ny,)
        Number of real samples seen, up to `depth`.
    full : bool
        Every output has `depth` samples.
    """

    t: Floats
    y: Floats
    count: Ints
    full: bool = False

    @classmethod
    def start(cls, depth: int, t0: float, y0: Floats) -> History:
        """History with one sample `y0`, shape (ny,), at `t0` [s]."""
        spacing = np.arange(depth, dtype=np.float64)[:, None]  # keeps differences finite
        return cls(
            t=t0 - np.repeat(spacing, len(y0), axis=1),
            y=np.repeat(y0[None], depth, axis=0),
            count=np.ones(len(y0), dtype=np.intp),
            full=depth == 1,
        )

    def push(self, t: Floats, y: Floats, fresh: Bools, spacing: Floats) -> None:
        """Take the samples marked `fresh`, all arrays of shape (ny,).

        A sample no farther than `spacing` [s] from the newest node takes its place: two frames
        of a bench that arrive back to back would otherwise make any slope. One that is older than
        the newest node is dropped.
        """
        newest = self.t[0]
        later = fresh & (t >= newest)
        if len(self.t) > 1:
            new = later & (t - newest > spacing)
            for j in range(len(self.t) - 1, 0, -1):
                np.copyto(self.t[j], self.t[j - 1], where=new)
                np.copyto(self.y[j], self.y[j - 1], where=new)
            if not self.full:
                np.minimum(self.count + new, len(self.t), out=self.count)
                self.full = np.count_nonzero(self.count == len(self.t)) == len(self.count)
        np.copyto(newest, t, where=later)
        np.copyto(self.y[0], y, where=later)

    def degree(self, wanted: Ints) -> Ints:
        """`wanted` degrees (ny,), as far as the samples suffice; not to be changed in place."""
        return wanted if self.full else np.minimum(wanted, self.count - 1)


def divided_differences(history: History, now: float) -> tuple[Floats, Floats]:
    """Newton's form of every output's interpolation polynomial.

    Returns
    -------
    differences, nodes : ndarray, shape (depth, ny)
        ``y[t_0 … t_j]``, and the node times relative to `now` [s].
    """
    nodes = history.t - now
    d = history.y.copy()
    for j in range(1, len(d)):
        d[j:] = (d[j - 1 : -1] - d[j:]) / (nodes[: len(d) - j] - nodes[j:])
    return d, nodes


def newton_value(differences: Floats, nodes: Floats, degree: Ints) -> Floats:
    """Value at `now` of each output's polynomial of its own `degree` (ny,), shape (ny,)."""
    value = np.zeros_like(differences[0])
    for j in range(len(differences) - 1, 0, -1):
        value = np.where(degree >= j, (differences[j] + value) * -nodes[j - 1], 0.0)
    result: Floats = differences[0] + value
    return result


def connection_polynomials(
    differences: Floats, nodes: Floats, degree: Ints, source: Ints, out: Floats
) -> Floats:
    """Taylor coefficients about `now` of what every connection carries (before its gain).

    Parameters
    ----------
    differences, nodes : ndarray, shape (depth, ny)
        From `divided_differences`.
    degree : ndarray of int, shape (nc,)
        Degree of each connection, already limited by the samples available.
    source : ndarray of int, shape (nc,)
        The output each connection starts from.
    out : ndarray, shape (order + 1, nc)
        Overwritten.
    """
    # Horner's scheme on Newton's form: p <- p (tau - node_j) + difference_j, from the innermost on.
    last = len(out) - 1
    out[1:] = 0.0
    if last == 0:
        np.take(differences[0], source, out=out[0])
        return out
    out[0] = np.where(degree >= last, differences[last, source], 0.0)
    for j in range(last - 1, -1, -1):
        node = nodes[j, source]
        for m in range(last - j, 0, -1):
            out[m] = out[m - 1] - node * out[m]
        difference = differences[j, source]
        out[0] = (difference if j == 0 else np.where(degree >= j, difference, 0.0)) - node * out[0]
    for m in range(2, len(out)):
        out[m] *= math.factorial(m)
    return out


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
    out[:] = 0.0
    if len(connections.first):
        weighted = carried * connections.gain
        if len(connections.first) < len(connections.source):  # some inputs are sums
            weighted = np.add.reduceat(weighted, connections.first, axis=1)
        out[:, connections.target] = weighted
    out[0] += base
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
