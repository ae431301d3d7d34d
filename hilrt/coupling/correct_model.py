"""Model-based corrector: what the extrapolated inputs did wrong, taken out of the outputs.

METHODS section 4; paper 002, eq. 14-25, here for any order, with every connection at its own
order, and against the inputs *as sent* (limits, dither, energy correction and late policy
included), so that it stays right when other stages touched them.

With the interface Jacobians Γ_m, the coupling ``u = L y + offset``, the polynomial as sent
``ũ(s) = Σ_m ã_m s^m`` and the Lagrange basis ℓ_j on the nodes s = 1, 0, −1, … carrying
ȳ_{n+1}, ȳ_n, ȳ_{n−1}, …::

    ȳ_{n+1} = y_{n+1} + Σ_m Γ_m (ū_m − ã_m)          ū: degree p through ȳ_{n+1}, ȳ_n, …
    δu_c   ← δu_c + α · mean over s of (ū − ũ)         ū: degree p + 1

ȳ_{n+1} stands on both sides of the first line; solving for it and gathering all terms leaves one
matrix per number of samples at hand (`Plan`), made when Γ changes and not in the step: the step
is two matrix-vector products over all coupling variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hilrt.compiled import compiled
from hilrt.coupling.true_inputs import Coupling
from hilrt.solver import Floats


@dataclass(frozen=True)
class Plan:
    """Everything about the correction that depends only on Γ, L, the orders and α.

    Attributes
    ----------
    coupling : Coupling
    outputs : tuple of ndarray, shape (ny, (depth + 1) ny + (order + 1) nu)
        By number of past samples at hand (none: nothing is corrected), from the stacked
        (y_{n+1}, ȳ_n, ȳ_{n−1}, …, ã_0, ã_1, …) to ȳ_{n+1}.
    constant : tuple of ndarray, shape (ny,)
        What the connections' offsets add to that.
    means : tuple of ndarray, shape (nu, (depth + 1) ny)
        From the stacked (ȳ_{n+1}, ȳ_n, …) to α times the mean true input over the step.
    mean_offset, alpha, keep : ndarray, shape (nu,)
        α times the offset; α, 0 where no δu_c acts; 1 where one acts.
    mean_power : ndarray, shape (order + 1,)
        Mean of s^m over the step.
    order : int
        Degree p of the input polynomials.
    depth : int
        Past samples that the full formula uses, ``order + 1``.
    singular : bool
        ``I − G L`` cannot be inverted: the plan corrects nothing.
    """

    coupling: Coupling
    outputs: tuple[Floats, ...]
    constant: tuple[Floats, ...]
    means: tuple[Floats, ...]
    mean_offset: Floats
    alpha: Floats
    keep: Floats
    mean_power: Floats
    order: int
    depth: int
    singular: bool


@dataclass
class State:
    """What the corrector carries from step to step; changed in place by `correct`.

    Attributes
    ----------
    stack : ndarray, shape ((depth + 1) ny + (order + 1) nu,)
        Newest output, then the corrected past outputs (newest first), then the sent coefficients.
    du : ndarray, shape (nu,)
        Correction offset δu_c, added to the next inputs; in the inputs' units.
    samples : int
        Past samples at hand, at most `depth`.
    """

    stack: Floats
    du: Floats
    samples: int

    def copy(self) -> State:
        """Independent copy, for a snapshot."""
        return State(self.stack.copy(), self.du.copy(), self.samples)


def build_plan(
    coupling: Coupling, gamma: Floats, alpha: ArrayLike = 1.0, *, start_up: bool = True
) -> Plan:
    """Prepare the correction; to be repeated when Γ changes.

    Parameters
    ----------
    coupling : Coupling
    gamma : ndarray, shape (p + 1, ny, nu)
        Interface Jacobians; zero where not known: an output with zero rows is left as it is, and
        δu_c keeps off where it would rest on such an output.
    alpha : float, or ndarray of shape (nu,)
        Share of the accumulated input error that δu_c makes up in the next step. 0 for
        subsystems that take one explicit integration step per macro step.
    start_up : bool
        Whether to prepare for fewer past samples too. Without, nothing is corrected there: enough
        for a plan that replaces one in the middle of a run, and cheaper.
    """
    p, (nu, ny), L = coupling.order, coupling.L.shape, coupling.L
    if gamma.shape != (p + 1, ny, nu):
        raise ValueError(f"Γ has shape {gamma.shape}; the coupling needs {(p + 1, ny, nu)}")
    # An input without connection was what it should be.
    gamma = np.where(coupling.connected, gamma, 0.0)
    active = _offset_inputs(gamma, L, coupling.feedthrough)
    alphas = np.where(active, alpha, 0.0).astype(np.float64)
    idle = np.eye(ny, (p + 2) * ny + (p + 1) * nu)
    outputs, constants = [idle], [np.zeros(ny)]
    means = [np.zeros((nu, (p + 2) * ny))]
    singular = False
    for samples in range(1, p + 2):
        stage = None
        if start_up or samples == p + 1:
            stage = _solve(gamma, coupling.true_inputs[samples], coupling.offset)
            singular |= stage is None
        outputs.append(idle if stage is None else stage[0])
        constants.append(constants[0] if stage is None else stage[1])
        mean = coupling.means[samples].transpose(1, 0, 2).reshape(nu, -1)
        means.append(means[0] if stage is None else alphas[:, None] * mean)
    return Plan(
        coupling=coupling,
        outputs=tuple(outputs),
        constant=tuple(constants),
        means=tuple(means),
        mean_offset=alphas * coupling.offset,
        alpha=alphas,
        keep=(alphas != 0.0).astype(np.float64),
        mean_power=1.0 / np.arange(1.0, p + 2.0),
        order=p,
        depth=p + 1,
        singular=singular,
    )


def _solve(gamma: Floats, true_inputs: Floats, offset: Floats) -> tuple[Floats, Floats] | None:
    """ȳ_{n+1} from the stack, and its constant part; None if ``I − G L`` is singular."""
    depth, terms, nu, ny = true_inputs.shape
    by_input = gamma.transpose(1, 0, 2).reshape(ny, terms * nu)
    answers = by_input @ true_inputs.transpose(1, 2, 0, 3).reshape(terms * nu, depth * ny)
    try:
        K = np.linalg.inv(np.eye(ny) - answers[:, :ny]).astype(np.float64)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(K).all():
        return None
    gathered = K @ np.hstack([np.eye(ny), answers[:, ny:], -by_input])
    return gathered, K @ (gamma[0] @ offset)


def _offset_inputs(
    gamma: Floats, L: Floats, feedthrough: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Inputs that may get δu_c, shape (nu,).

    The mean true input is only as good as the outputs it comes from: one of them must be
    corrected. And where an offset shows in an output at once, the corrector must be able to take
    it out again: all outputs that the input feeds through to must be corrected.
    """
    corrected = (gamma != 0.0).any(axis=(0, 2))
    sourced = ((L != 0.0) & corrected).any(axis=1)
    removable = (gamma != 0.0).any(axis=(0, 1))
    if feedthrough is not None:
        removable = ~(feedthrough & ~corrected[:, None]).any(axis=0)
    allowed: NDArray[np.bool_] = sourced & removable
    return allowed


def start(plan: Plan, y0: Floats) -> State:
    """State at the first communication point, with the initial outputs `y0` (ny,) as past."""
    ny, nu = len(y0), len(plan.alpha)
    stack = np.zeros((plan.depth + 1) * ny + (plan.order + 1) * nu)
    stack[ny : 2 * ny] = y0
    return State(stack, np.zeros(nu), samples=1)


def correct(state: State, plan: Plan, y: Floats, sent: Floats) -> tuple[Floats, Floats]:
    """Correct the outputs of a macro step, and advance the state.

    Parameters
    ----------
    state : State
        Changed in place.
    plan : Plan
    y : ndarray, shape (ny,)
        Outputs at the end of the step as the subsystems returned them.
    sent : ndarray, shape (m, nu)
        Coefficients ã of the inputs over the step as sent, in the normalised power basis;
        m at most ``plan.order + 1``.

    Returns
    -------
    y_corrected : ndarray, shape (ny,)
    du : ndarray, shape (nu,)
        δu_c, to be added to the inputs of the next step.

    Notes
    -----
    Values that are not finite are passed on uncorrected, and the history starts anew: one bad
    sample must not reach the outputs of other subsystems through the coupled correction.
    """
    samples, corrected = state.samples, np.empty(len(y))
    finite = _correct(
        state.stack,
        state.du,
        y,
        np.ascontiguousarray(sent),
        plan.outputs[samples],
        plan.constant[samples],
        plan.means[samples],
        plan.mean_offset,
        plan.mean_power,
        plan.keep,
        plan.alpha,
        samples > 0,
        corrected,
    )
    state.samples = min(samples + 1, plan.depth) if finite else 0
    return corrected, state.du.copy()


@compiled
def _correct(
    stack: Floats,
    du: Floats,
    y: Floats,
    sent: Floats,
    outputs: Floats,
    constant: Floats,
    means: Floats,
    mean_offset: Floats,
    mean_power: Floats,
    keep: Floats,
    alpha: Floats,
    has_past: bool,
    corrected: Floats,
) -> bool:
    """Make the step in `stack` and `du`; False, and the history empty, if it is not finite."""
    ny, (terms, nu) = len(y), sent.shape
    past = means.shape[1]
    stack[:ny] = y
    stack[past:] = 0.0
    for m in range(terms):
        stack[past + m * nu : past + (m + 1) * nu] = sent[m]
    finite = True
    for i in range(ny):
        value = constant[i]
        for k in range(len(stack)):
            value += outputs[i, k] * stack[k]
        finite &= np.isfinite(value)
        corrected[i] = value
    if not finite:
        stack[:], du[:], corrected[:] = 0.0, 0.0, y
        return False
    stack[:ny] = corrected
    if has_past:
        for u in range(nu):
            gained, mean_sent = mean_offset[u], 0.0
            for k in range(past):
                gained += means[u, k] * stack[k]
            for m in range(terms):
                mean_sent += mean_power[m] * sent[m, u]
            du[u] = keep[u] * du[u] + gained - alpha[u] * mean_sent
    for k in range(past - 1, ny - 1, -1):
        stack[k] = stack[k - ny]
    return True


def input_errors(state: State, plan: Plan, sent: Floats) -> Floats:
    """Coefficients of (true input − input as sent) over the step just corrected.

    Parameters
    ----------
    state : State
        After `correct`.
    plan : Plan
    sent : ndarray, shape (m, nu)
        As given to `correct`.

    Returns
    -------
    ndarray, shape (order + 1, nu)
        In the inputs' units; zero for inputs without connection and before there is a past.
    """
    coupling, ny = plan.coupling, plan.coupling.L.shape[1]
    errors = np.zeros((plan.order + 1, len(coupling.L)))
    samples = state.samples - 1
    if samples > 0 or (samples == 0 and plan.order == 0):
        newest = state.stack[ny : (plan.depth + 1) * ny].reshape(plan.depth, ny)
        weights = coupling.true_inputs[max(samples, 1)][: plan.depth]
        _less_sent(weights, newest, coupling.offset, coupling.connected, sent, errors)
    return errors


@compiled
def _less_sent(
    weights: Floats,
    newest: Floats,
    offset: Floats,
    connected: NDArray[np.bool_],
    sent: Floats,
    errors: Floats,
) -> None:
    """True inputs less inputs as sent, (order + 1, nu), of inputs that have a connection."""
    depth, terms, nu, ny = weights.shape
    for m in range(terms):
        for u in range(nu):
            if not connected[u]:
                continue
            true = offset[u] if m == 0 else 0.0
            for j in range(depth):
                for y in range(ny):
                    true += weights[j, m, u, y] * newest[j, y]
            errors[m, u] = true - sent[m, u] if m < len(sent) else true
