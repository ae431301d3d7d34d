"""Whether a solver's own integration errs within a macro step, and by how much.

A probed step is compared with the exact one of the same linear dynamics (A, B).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.coupling.jacobian import discretize
from hilrt.errors import HilrtError
from hilrt.hosting.group import Group
from hilrt.hosting.linearise import LINEAR, SHORT, CannotLinearise, Differentiated, seen_outside
from hilrt.link import LinearModel
from hilrt.solver import Floats

#: A step counts as exact if its error is below this share of that of one explicit Euler step, or
#: below the rounding of the probed response, relative to the largest one.
EXACT, _ROUNDING = 0.1, 1e-7
#: Fineness below which a solver takes at most two explicit Euler steps: these read their starts.
LIKE_EULER = 0.6
#: Times at which a step is repeated to see whether time matters, in macro steps.
LATER = (0.37, 7.3, 113.0, 1999.0)


def exact_when_held(model: LinearModel, step: Floats, h: float) -> bool:
    """Whether the state follows held inputs exactly over a step of `h` [s].

    Such a solver may read its inputs only at the step's beginning and still integrate exactly, as
    an exponential does. `step`, shape (nx, nx + nu), is the response of its state to state and
    inputs. About a point of a nonlinear solver, the response to the inputs is not that of a
    constant system: see `gains_nothing`.
    """
    A, B = model.A, model.B
    transition, (held, _) = discretize(A, B, h, 1)
    nx = len(A)
    euler = np.eye(nx) + h * A
    return _agrees(step[:, :nx], transition, euler) and _agrees(step[:, nx:], held, h * B)


def gains_nothing(model: LinearModel, step: Floats, shorter: Floats, h: float) -> bool:
    """Whether a nonlinear solver's state is as accurate in one step of `h` [s] as in several.

    Inputs are held in all of them. `step` and `shorter`, shape (nx, nx + nu), are the responses of
    its state in one and in several steps. A solver with fine internal steps gains nothing from
    shorter steps of the session; Euler's method gains as much as its error.
    """
    nx = len(model.A)
    euler = np.hstack([np.eye(nx) + h * model.A, h * model.B])
    return all(
        _agrees(step[:, part], shorter[:, part], euler[:, part])
        for part in (slice(nx), slice(nx, None))
    )


def own_steps(found: Differentiated, model: LinearModel, whole: Floats, h: float) -> Floats:
    """`LinearModel.own` about the solver's state; `whole` is the map of a step of `h` [s].

    The exact step is that of the linearised solver, whose rates at the present state are found with
    two short steps. States that only accumulate have no error.
    """
    A, B, nx = model.A, model.B, found.states
    ends = [found.held(length)[:nx] - found.x0 for length in (SHORT * h, 2.0 * SHORT * h)]
    rate = (2.0 * ends[0] - 0.5 * ends[1]) / (SHORT * h)
    about = np.concatenate([found.x0, found.u0, np.zeros(len(found.u0) + 1)])
    step = np.column_stack([whole[:nx], np.zeros(nx)])
    step[:, -1] = found.held(h)[:nx] - step @ about
    transition, inputs = discretize(A, B, h, 1)
    constant = discretize(A, np.eye(nx), h, 0)[1][0] @ (rate - A @ found.x0 - B @ found.u0)
    exact = np.column_stack([transition, *inputs, constant])
    error = np.where(seen_outside(whole, nx)[:nx, None], step - exact, 0.0)
    return np.column_stack([found.x0, step, error])


def errs(model: LinearModel, own: Floats, h: float) -> bool:
    """Whether the errors `own` of a step are known, and matter in states that outputs show.

    The exact step of the linearised solver differs from a nonlinear one's in the third order of
    `h`, as do methods of higher order than Euler's, which are therefore not judged.
    """
    nx, nu = model.B.shape
    like_euler = bool((model.fineness < LIKE_EULER).all())
    if not np.isfinite(own).all() or not (model.linear or like_euler):
        return False
    step, error = np.hsplit(own[:, 1:], 2)
    seen = error.any(axis=1)
    euler = np.hstack([np.eye(nx) + h * model.A, h * model.B])
    parts = slice(nx), slice(nx, nx + nu)
    return not all(
        _agrees(step[seen, part], (step - error)[seen, part], euler[seen, part]) for part in parts
    )


def depends_on_time(found: Differentiated, h: float) -> bool:
    """Whether a step of `h` [s] from the same state has other results at other times."""
    before = found.held(h)
    rounding = LINEAR * np.abs(before[: found.states] - found.x0).max(initial=0.0)
    try:
        return not all(
            np.allclose(found.later(k * h).held(h), before, rtol=LINEAR, atol=rounding)
            for k in LATER
        )
    except (HilrtError, ArithmeticError, CannotLinearise):
        return True


def own_of_group(group: Group, models: Sequence[LinearModel | None], nx: int) -> Floats | None:
    """`LinearModel.own` of `nx` states; zero for members whose own integration does not err."""
    if all(model is None or model.own is None for model in models):
        return None
    nu = sum(port.size for port in group.inputs)
    numbers, width, at = np.arange(nu), nx + 2 * nu + 1, 0
    found = np.zeros((nx, 1 + 2 * width))
    for part, model in zip(group.parts, models, strict=True):
        if model is None:
            continue
        states, inputs = np.arange(at, at := at + len(model.A)), nx + numbers[part.inputs]
        if model.own is not None:
            step = np.concatenate([states, inputs, nu + inputs, [width - 1]])
            columns = np.concatenate([[0], 1 + step, 1 + width + step])
            found[np.ix_(states, columns)] = model.own
    return found


def _agrees(found: Floats, exact: Floats, euler: Floats) -> bool:
    """Whether the error of `found` is small relative to that of one explicit Euler step."""
    noise = _ROUNDING * np.abs(exact).max(initial=0.0)
    most = EXACT * np.abs(exact - euler).max(initial=0.0) + noise
    return bool(np.abs(found - exact).max(initial=0.0) <= most)
