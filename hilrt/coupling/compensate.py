"""Compensation: from what has arrived to the outputs at the communication point.

METHODS section 8. A sample valid at the communication point is taken as it is; an older one is
carried on by the polynomial through the newest samples, degree 0 being hold.
"""

from __future__ import annotations

import numpy as np

from hilrt.compiled import compiled
from hilrt.coupling import extrapolate as ex
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints


@compiled
def take_samples(
    now: float,
    y: Floats,
    t_valid: Floats,
    fresh: Bools,
    late: Bools,
    spacing: Floats,
    wanted: Ints,
    order: Ints,
    owner: Ints,
    holds: Bools,
    event: Bools,
    passes: Bools,
    jumps: Bools,
    t_past: Floats,
    y_past: Floats,
    count: Ints,
    implausible: Bools,
    differences: Floats,
    nodes: Floats,
    degree: Ints,
    y_now: Floats,
) -> None:
    """Samples into the history, Newton's form of the polynomials through it, and the outputs now.

    A sample that is not a finite number does not act: the output counts as not arrived. Where an
    output has jumped, the samples before are forgotten: a polynomial through both sides of a
    discontinuity is that of neither.

    Parameters
    ----------
    now : float
        The communication point, s.
    y, t_valid, fresh : ndarray, shape (ny,)
        Newest sample of every output, when it is valid [s], and whether it has arrived anew; the
        last is cleared where a sample is not finite.
    late, holds : ndarray of bool, shape (n subsystems,)
        Without the sample that was due; late policy "hold".
    spacing, wanted, order, owner : ndarray, shape (ny,)
        As in `extrapolate.push`; degree wanted of the polynomials; degree that the outputs are
        brought to `now` with; the subsystem of each.
    event, passes : ndarray of bool, shape (n subsystems,), (ny, n subsystems)
        Subsystems with a discontinuity in the interval that ended; outputs that depend directly on
        inputs that another subsystem gives.
    jumps : ndarray of bool, shape (ny,)
        Outputs that jump at this point because another one did at the point before; overwritten
        with those of the next point.
    t_past, y_past, count : ndarray
        The `History`, changed in place.
    implausible, differences, nodes, degree, y_now : ndarray
        Overwritten: samples that are no numbers (ny,); Newton's form, (depth, ny) each; degree that
        the samples suffice for (ny,); outputs at `now` (ny,).
    """
    for i in range(len(y)):
        finite = np.isfinite(y[i])
        implausible[i] = fresh[i] and not finite
        fresh[i] = fresh[i] and finite
    ex.push(t_valid, y, fresh, spacing, t_past, y_past, count)
    forget_before_jumps(event, passes, fresh, owner, jumps, count)
    ex.newton_form(t_past, y_past, now, differences, nodes)
    ex.usable_degrees(wanted, count, owner, holds, late, degree)
    outputs_at(differences, nodes, order, degree, y_now)


@compiled
def forget_before_jumps(
    event: Bools, passes: Bools, fresh: Bools, owner: Ints, jumps: Bools, count: Ints
) -> None:
    """Leave one sample, the newest, of outputs that have jumped; parameters as above."""
    for i in range(len(fresh)):
        if fresh[i] and (event[owner[i]] or jumps[i]):
            count[i] = 1
        jumps[i] = False
        for s in range(len(event)):
            jumps[i] |= event[s] and passes[i, s]


@compiled
def sampled_at(
    t: float, tolerance: float, t_valid: Floats, fresh: Bools, owner: Ints, sampled: Bools
) -> None:
    """Subsystems (n,) all of whose outputs have a new sample that is valid at `t` [s].

    Within `tolerance` [s]; `t_valid`, `fresh` and `owner` as for `take_samples`.
    """
    sampled[:] = True
    for i in range(len(fresh)):
        if not (fresh[i] and abs(t_valid[i] - t) < tolerance):
            sampled[owner[i]] = False


@compiled
def outputs_at(
    differences: Floats, nodes: Floats, order: Ints, degree: Ints, y_now: Floats
) -> None:
    """Value of every output at the communication point, shape (ny,), into `y_now`.

    `order` and `degree` (ny,) both limit the degree of the polynomial; `differences` and `nodes`
    (depth, ny) are Newton's form about the communication point.
    """
    for i in range(len(y_now)):
        y_now[i] = ex.newton_value_of(differences, nodes, i, min(order[i], degree[i]))
