"""Correction by Jacobians: removes the effect of the inputs' extrapolation error from the outputs.

Haid et al. (2022), eqs. 14 and 22, here for any order, with an order per connection, and relative
to the inputs *as sent* (including limits, dither, energy correction and late policy), so that it
remains correct when other stages have changed them (docs/methods.md, "Model-based correction").

With the interface Jacobians G_m, the coupling ``u = L y + offset`` and the polynomial as sent
``sum_m a_m s^m`` over the normalised step::

    y*_{n+1} = y_{n+1} + sum_m G_m (u_m - a_m)       u: degree p through y*_{n+1}, y*_n, ...
    du_c    <- du_c + alpha * mean over s of (u - a)      u: degree p + 1

y*_{n+1} appears on both sides of the first line. Moving its terms to the left gives one system of
linear equations for each number of available past samples. It is factorised when G changes; the
step only evaluates the connections, the blocks of G, and two triangular systems. Rejected:
multiplying all matrices in advance, because the product of the sparse factors is dense and several
times as large.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.extrapolate import copy, shift
from hilrt.coupling.true_inputs import finish_errors, mean_error, start_errors
from hilrt.solver import Floats
from hilrt.tables.given import GivenSession
from hilrt.tables.model import (
    CorrectedInput,
    CorrectedOutput,
    ModelSession,
    ModelSettings,
)
from hilrt.tables.plan import InputPlan, Plan, SubsystemPlan
from hilrt.tables.record import Table
from hilrt.tables.state import CorrectionTables, DriveState, InputState, State


@stage
def correction_of(plan: Plan, state: State) -> CorrectionTables:
    """Select the tables of the correction from a plan and a state."""
    model = state.model
    return CorrectionTables(
        plan.model.settings,
        plan.subsystems,
        plan.inputs,
        plan.connections,
        state.connections,
        plan.model.dependencies,
        model.session,
        model.outputs,
        model.inputs,
        model.gamma,
        model.triangles,
        model.pivots,
        model.work.solution,
    )


@compiled
def prepare_correction(parts: CorrectionTables) -> None:
    """Compute values that depend only on the Jacobians; call it when these change."""
    session, settings = parts.session[0], parts.settings[0]
    triangles, pivots = parts.triangles, parts.pivots
    session.prepared = 1
    allow_offsets(parts)
    for samples in range(1, settings.order + 2):
        fill_matrix(parts, samples)
        session.solvable[samples - 1] = factorise(triangles[samples - 1], pivots[samples - 1])


@stage
def allow_offsets(parts: CorrectionTables) -> None:
    """Mark inputs that may have an offset du_c.

    The mean true input is only as accurate as the outputs from which it is computed: at least one
    of them must be corrected. All outputs that depend directly on the input must be corrected, so
    that the direct effect of the offset is removed from them.
    """
    outputs, inputs, connections = parts.outputs, parts.inputs, parts.connections
    subsystems, dependencies = parts.subsystems, parts.dependencies
    ports, gamma = parts.ports, parts.gamma
    for s in range(len(subsystems)):
        own = subsystems[s]
        for i in range(own.first_output, own.first_output + own.outputs):
            outputs[i].has_jacobian = has_jacobian(own, ports, gamma, i)
    for u in range(len(inputs)):
        inputs[u].alpha = 0.0
    for c in range(len(connections)):
        if parts.carried[c].gain == 0.0 or not parts.carried[c].acts:
            continue
        if outputs[connections[c].source].has_jacobian:
            inputs[connections[c].target].alpha = parts.settings[0].alpha
    for k in range(len(dependencies)):
        if not outputs[dependencies[k].output].has_jacobian:
            inputs[dependencies[k].input].alpha = 0.0


@compiled
def has_jacobian(own: SubsystemPlan, ports: Table[InputPlan], gamma: Floats, i: int) -> bool:
    """Whether the Jacobian of output `i` is non-zero for any connected input."""
    for m in range(len(gamma)):
        for u in range(own.first_input, own.first_input + own.inputs):
            if ports[u].connected and gamma[m, i, u] != 0.0:
                return True
    return False


@stage
def fill_matrix(parts: CorrectionTables, samples: int) -> None:
    """Fill the matrix, by columns, of the equations for y*_{n+1} with a number of past samples."""
    columns, gamma = parts.triangles[samples - 1], parts.gamma
    connections, subsystems, ports = parts.connections, parts.subsystems, parts.ports
    basis = parts.settings[0].basis
    for j in range(len(columns)):
        for i in range(len(columns)):
            columns[j, i] = 1.0 if i == j else 0.0
    for c in range(len(connections)):
        if not parts.carried[c].acts:
            continue
        u, degree = connections[c].target, min(connections[c].order, samples)
        own = subsystems[ports[u].subsystem]
        for i in range(own.first_output, own.first_output + own.outputs):
            share = 0.0
            for m in range(degree + 1):
                share += gamma[m, i, u] * basis[degree, 0, m]
            columns[connections[c].source, i] -= share * parts.carried[c].gain


@compiled
def fits(elapsed: float, h: float) -> bool:
    """Whether a step of `elapsed` [s] has the length `h` [s] for which the Jacobians are valid."""
    return abs(elapsed - h) < 0.5e-9


@compiled
def read_over_step(
    settings: ModelSettings, now: GivenSession, p: Floats, t0: float, found: Floats
) -> None:
    """Convert a polynomial about `t0` [s] to powers of (t - start)/h over the step that ended.

    `now` is the record of the given session.
    """
    count, power = settings.order + 1, 1.0
    copy(p, count, found)
    shift(found, count, now.t - now.elapsed - t0)
    for m in range(1, count):
        power *= settings.h / m
        found[m] *= power


@compiled
def correct_by_jacobians(
    parts: CorrectionTables,
    sent: Table[InputState],
    drives: Table[DriveState],
    now: GivenSession,
) -> None:
    """Compute `corrected` and the offsets du_c from the outputs' `y`.

    If the step had another length, or outputs are missing, nothing is corrected and the past
    restarts; likewise after values that are not finite, so that one bad sample does not reach the
    outputs of other subsystems through the correction. `sent` are the session's inputs, with the
    polynomials that were sent; `drives` are the other sources of some of them; `now` is the record
    of the given session.
    """
    settings, session = parts.settings[0], parts.session[0]
    outputs, inputs = parts.outputs, parts.inputs
    session.stepped = fits(now.elapsed, settings.h)
    session.regular = session.stepped and now.regular
    if session.stepped:
        for u in range(len(inputs)):
            read_over_step(settings, now, sent[u].previous, sent[u].previous_t0, inputs[u].sent)
            if parts.ports[u].drive >= 0:
                drive = drives[parts.ports[u].drive]
                read_over_step(settings, now, drive.own, drive.t0, inputs[u].own)
    if not session.regular:
        start_past(outputs, inputs, session, 1)
        return
    start_errors(parts)
    if corrects(session):
        solve_outputs(parts)
    if not are_finite(outputs, inputs, settings.order + 1):
        start_past(outputs, inputs, session, 0)
        return
    if session.samples > 0 or settings.order == 0:
        finish_errors(parts)
    else:
        clear_errors(inputs)
    move_offsets(parts)
    keep_past(outputs, settings.order)
    session.samples = min(session.samples + 1, settings.order + 1)


@compiled
def corrects(session: ModelSession) -> bool:
    """Whether there are past samples and a solvable system for a correction."""
    return session.samples > 0 and session.solvable[session.samples - 1] != 0


@compiled
def start_past(
    outputs: Table[CorrectedOutput],
    inputs: Table[CorrectedInput],
    session: ModelSession,
    samples: int,
) -> None:
    """Correct nothing; restart the past with the newest outputs, or with none (0 samples)."""
    session.samples = samples
    for i in range(len(outputs)):
        outputs[i].corrected = outputs[i].past[0] = outputs[i].y
    for u in range(len(inputs)):
        inputs[u].offset = 0.0
    clear_errors(inputs)


@compiled
def clear_errors(inputs: Table[CorrectedInput]) -> None:
    """Clear all input errors: none are known."""
    for u in range(len(inputs)):
        for m in range(len(inputs[u].error)):
            inputs[u].error[m] = 0.0


@compiled
def are_finite(outputs: Table[CorrectedOutput], inputs: Table[CorrectedInput], terms: int) -> bool:
    """Whether corrected outputs and their corrections are finite numbers."""
    for i in range(len(outputs)):
        if not math.isfinite(outputs[i].corrected):
            return False
    for u in range(len(inputs)):
        for m in range(terms):
            if not math.isfinite(inputs[u].error[m]):
                return False
    return True


@stage
def solve_outputs(parts: CorrectionTables) -> None:
    """Compute corrected outputs: responses to known input errors, then the linear system."""
    subsystems, outputs, inputs = parts.subsystems, parts.outputs, parts.inputs
    x, gamma, samples = parts.solution, parts.gamma, parts.session[0].samples
    for s in range(len(subsystems)):
        own = subsystems[s]
        for i in range(own.first_output, own.first_output + own.outputs):
            x[i] = outputs[i].y
            if outputs[i].has_jacobian:
                x[i] += response(own, inputs, gamma, i)
    solve(parts.triangles[samples - 1], parts.pivots[samples - 1], x)
    for i in range(len(outputs)):
        outputs[i].corrected = x[i]


@compiled
def response(own: SubsystemPlan, inputs: Table[CorrectedInput], gamma: Floats, i: int) -> float:
    """Response of output `i` of a subsystem to the errors of its inputs."""
    change = 0.0
    for m in range(len(gamma)):
        for u in range(own.first_input, own.first_input + own.inputs):
            change += gamma[m, i, u] * inputs[u].error[m]
    return change


@stage
def move_offsets(parts: CorrectionTables) -> None:
    """Update offsets du_c by the mean input errors; clear them if nothing is corrected."""
    inputs, moves = parts.inputs, corrects(parts.session[0])
    for u in range(len(inputs)):
        if moves and inputs[u].alpha != 0.0:
            inputs[u].offset += inputs[u].alpha * mean_error(parts, u)
        else:
            inputs[u].offset = 0.0


@compiled
def keep_past(outputs: Table[CorrectedOutput], order: int) -> None:
    """Append the corrected outputs to the past samples."""
    for i in range(len(outputs)):
        past = outputs[i].past
        for j in range(order, 0, -1):
            past[j] = past[j - 1]
        past[0] = outputs[i].corrected


# Gauss elimination with partial pivoting, in place, for matrices of some tens of rows.
#
# A matrix is stored by columns, shape (n, n): ``columns[j, i]`` is its element in row i, column j,
# so that every inner loop accesses consecutive memory. Zero multipliers are skipped, because the
# matrices of the corrections are sparse (Golub and Van Loan 2013, section 3.4).


@compiled
def factorise(columns: Floats, pivots: NDArray[np.int64]) -> bool:
    """Factorise in place, with exchanged rows in `pivots`; False if singular."""
    n = len(pivots)
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(columns[k, i]) > abs(columns[k, best]):
                best = i
        pivots[k] = best
        for j in range(n):
            columns[j, k], columns[j, best] = columns[j, best], columns[j, k]
        pivot = columns[k, k]
        if pivot == 0.0 or not math.isfinite(pivot):
            return False
        for i in range(k + 1, n):
            columns[k, i] /= pivot
        for j in range(k + 1, n):
            multiplier = columns[j, k]
            if multiplier != 0.0:
                for i in range(k + 1, n):
                    columns[j, i] -= columns[k, i] * multiplier
    return True


@compiled
def solve(columns: Floats, pivots: NDArray[np.int64], x: Floats) -> None:
    """Solve the factorised system for the right side `x`, shape (n,), in place."""
    n = len(pivots)
    for k in range(n):
        x[k], x[pivots[k]] = x[pivots[k]], x[k]
    for j in range(n):
        value = x[j]
        for i in range(j + 1, n):
            x[i] -= columns[j, i] * value
    for j in range(n - 1, -1, -1):
        x[j] /= columns[j, j]
        value = x[j]
        for i in range(j):
            x[i] -= columns[j, i] * value
