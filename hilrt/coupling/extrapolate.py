"""Stage: input polynomials from samples of the outputs.

Every output has its own nodes, the times at which its samples are valid, so that multi-rate
subsystems, variable steps, late samples and bench signals of different age need no special cases.
The polynomial is in Newton's form: degree p uses the first p + 1 divided differences, so that
connections of different order share one table.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.compilation.compiled import compiled, stage
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import ConnectionStateRow, OutputState, State


@stage
def extrapolate(plan: Plan, state: State, given: StepInput) -> None:
    """``u~ = L y~``: extrapolate through the newest samples per connection, and sum at the inputs.

    If another source acts on an input, the sum uses the connections and the own part of the
    interval that ended.
    """
    coefficients = plan.session[0].coefficients
    for c in range(len(plan.connections)):
        source = plan.connections[c].source
        if plan.connections[c].raw:
            take_sample(plan, state, given, c)
        elif plan.connections[c].taylor:
            take_derivatives(plan, state, given, c)
        else:
            through_samples(state.connections[c], state.outputs[source], coefficients)
    for i in range(len(plan.inputs)):
        at, u = plan.inputs[i], state.inputs[i].extrapolated
        if at.drive < 0:
            sum_connections(plan, state, i, u)
            u[0] += at.constant
        else:
            drive = state.drives[at.drive]
            shift(drive.own, coefficients, given.session[0].t - drive.t0)
            drive.t0 = given.session[0].t
            sum_connections(plan, state, i, u)
            for m in range(coefficients):
                u[m] += drive.own[m]


@stage
def sum_connections(plan: Plan, state: State, i: int, u: Floats) -> None:
    """Sum the values of active connections to input `i` into its polynomial `u`."""
    at, coefficients = plan.inputs[i], plan.session[0].coefficients
    for m in range(coefficients):
        u[m] = 0.0
    for c in range(at.first_connection, at.first_connection + at.connections):
        if state.connections[c].acts:
            for m in range(coefficients):
                u[m] += state.connections[c].polynomial[m] * state.connections[c].gain


@compiled
def through_samples(connection: ConnectionStateRow, out: OutputState, coefficients: int) -> None:
    """Compute Taylor coefficients of a connection's value about now, by Horner's scheme.

    ``p <- p (tau - node_j) + difference_j`` on Newton's form, starting with the innermost term; the
    order is the connection's, limited by the number of samples of its output.
    """
    p = connection.polynomial
    top = min(connection.order, out.degree, coefficients - 1)
    for m in range(coefficients):
        p[m] = 0.0
    p[0] = out.differences[top]
    for j in range(top - 1, -1, -1):
        for m in range(top - j, 0, -1):
            p[m] = p[m - 1] - out.nodes[j] * p[m]
        p[0] = out.differences[j] - out.nodes[j] * p[0]
    factorial = 1.0
    for m in range(2, coefficients):
        factorial *= m
        p[m] *= factorial


@stage
def take_sample(plan: Plan, state: State, given: StepInput, c: int) -> None:
    """Hold the newest sample."""
    p = state.connections[c].polynomial
    for m in range(plan.session[0].coefficients):
        p[m] = 0.0
    p[0] = state.outputs[plan.connections[c].source].sample


@stage
def take_derivatives(plan: Plan, state: State, given: StepInput, c: int) -> None:
    """Taylor coefficients from the output's own derivatives, as far as they are known."""
    source, p = plan.connections[c].source, state.connections[c].polynomial
    p[0], known = state.outputs[source].y, not state.outputs[source].withheld
    for m in range(1, plan.session[0].coefficients):
        p[m] = 0.0
        known = known and m <= plan.session[0].derivatives and m <= plan.connections[c].order
        if known:
            derivative = given.outputs[source].dy[m - 1]
            known = math.isfinite(derivative)
            if known:
                p[m] = derivative


@compiled
def newton_form(out: OutputState, samples: int, now: float) -> None:
    """Compute divided differences ``y[t_0 ... t_j]`` of an output's samples, and relative nodes."""
    for j in range(samples):
        out.differences[j] = out.y_past[j]
        out.nodes[j] = out.t_past[j] - now
    for j in range(1, samples):
        for k in range(samples - 1, j - 1, -1):
            rise = out.differences[k - 1] - out.differences[k]
            out.differences[k] = rise / (out.nodes[k - j] - out.nodes[k])


@compiled
def newton_value(out: OutputState, degree: int) -> float:
    """Value now of an output's polynomial of that degree."""
    above = 0.0
    for j in range(degree, 0, -1):
        above = (out.differences[j] + above) * -out.nodes[j - 1]
    return float(out.differences[0] + above)


# Polynomials as Taylor coefficients about their own reference time.
#
# ``u(t) = sum_m c[m] (t - t0)^m / m!``, times in seconds. Functions receive the coefficients of one
# channel, shape (`COEFFICIENTS`,) or more, and the number of those in use.


@compiled
def value_at(c: Floats, count: int, dt: float) -> float:
    """Value of the polynomial of `count` coefficients at ``t0 + dt``."""
    value: float = c[count - 1]
    for m in range(count - 1, 0, -1):
        value = c[m - 1] + value * (dt / m)
    return value


@compiled
def shift(c: Floats, count: int, dt: float) -> None:
    """Re-expand the polynomial about ``t0 + dt``, in place."""
    if dt == 0.0:
        return
    for k in range(count - 1):
        value = c[count - 1]
        for m in range(count - 1 - k, 0, -1):
            value = c[k + m - 1] + value * (dt / m)
        c[k] = value


@compiled
def copy(source: Floats, count: int, target: Floats) -> None:
    """Copy coefficients into another polynomial."""
    for m in range(count):
        target[m] = source[m]


def gram_factor(n: int) -> Floats:
    """Upper triangular W, shape (n, n), for the mean square of a polynomial over an interval.

    ``|W c|^2 = 1/h integral over [-h, 0] of u(t)^2 dt`` where column m of W is scaled by h^m. The
    leading block of W is the factor for fewer coefficients.
    """
    i = np.arange(n)
    power = i[:, None] + i
    factorial = np.array([math.factorial(m) for m in range(n)])
    gram = (-1.0) ** power / ((power + 1.0) * np.outer(factorial, factorial))
    factor: Floats = np.ascontiguousarray(np.linalg.cholesky(gram).T)
    return factor
