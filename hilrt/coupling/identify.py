"""Stage: identify the interface Jacobians of black boxes and benches while the session runs.

METHODS section 5. Each subsystem has a regression (`regression.py`) and a judgement of it
(`trust.py`). What comes out is Γ as the corrector may use it: zero in the rows that are not
trusted, so that there plain extrapolation remains. The stage runs in the slack of a step; where
the budget is short, subsystems learn in turn and the others only take note of their samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hilrt.compiled import compiled
from hilrt.coupling import regression, trust
from hilrt.coupling.regression import Model, Settings
from hilrt.coupling.trust import Limits, Reason, Trust
from hilrt.solver import Floats

#: Γ in use is replaced when the corrections of the last steps would change by more than this
#: share, and by more than their uncertainty.
_STALE = 2e-3
_USED = int(Reason.USED)


@dataclass(frozen=True)
class Part:
    """A subsystem to identify.

    Attributes
    ----------
    outputs, inputs : slice
        Its coupling variables in the flat vectors.
    settings : Settings
    given : ndarray, shape (order + 1, n_outputs, n_inputs), optional
        Γ from the session file or a probe: used from the start, and until the data speak.
    """

    outputs: slice
    inputs: slice
    settings: Settings
    given: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of outputs and inputs."""
        return self.outputs.stop - self.outputs.start, self.inputs.stop - self.inputs.start


@dataclass(frozen=True)
class Plan:
    """Parts, limits, and the squares of the coupling matrix, (nu, ny), that noise passes."""

    parts: tuple[Part, ...]
    limits: Limits
    noise_paths: Floats


@dataclass
class State:
    """Changed in place by `identify`.

    Attributes
    ----------
    models, trusts : list, one per part
    gamma : ndarray, shape (order + 1, ny, nu)
        Γ for the corrector; rows without trust are zero.
    reason : ndarray of int, shape (ny,)
        `trust.Reason` of every output; ``USED`` for outputs that no part identifies.
    noise : ndarray, shape (ny,)
        Standard deviation of the outputs' noise, in their units.
    """

    models: list[Model]
    trusts: list[Trust]
    gamma: Floats
    reason: NDArray[np.int64]
    noise: Floats

    def copy(self) -> State:
        """Independent copy, for a snapshot."""
        return State(
            [model.copy() for model in self.models],
            [judgement.copy() for judgement in self.trusts],
            self.gamma.copy(),
            self.reason.copy(),
            self.noise.copy(),
        )


def prepare(parts: Sequence[Part], L: Floats, limits: Limits | None = None) -> Plan:
    """What the stage takes from the topology; `L` is the coupling matrix, (nu, ny)."""
    return Plan(tuple(parts), limits or Limits(), L * L)


def start(plan: Plan, gamma: Floats) -> State:
    """Nothing identified yet.

    Parameters
    ----------
    plan : Plan
    gamma : ndarray, shape (order + 1, ny, nu)
        Γ of the subsystems that are not identified; zero elsewhere.
    """
    ny = gamma.shape[1]
    state = State([], [], gamma.copy(), np.zeros(ny, dtype=np.int64), np.zeros(ny))
    for part in plan.parts:
        n_outputs, n_inputs = part.shape
        model = regression.start(part.settings, n_outputs, n_inputs, part.given)
        judgement = trust.start(plan.limits, n_outputs, model.gammas, given=part.given is not None)
        state.models.append(model)
        state.trusts.append(judgement)
        state.reason[part.outputs] = judgement.reason
        if part.given is not None:
            state.gamma[:, part.outputs, part.inputs] = part.given
    return state


def identify(
    state: State,
    plan: Plan,
    y: Floats,
    sent: Floats,
    errors: Floats,
    measured: Sequence[bool] | None = None,
    learn: Iterable[int] | None = None,
) -> bool:
    """Take in one macro step.

    Parameters
    ----------
    state : State
        Changed in place.
    plan : Plan
    y : ndarray, shape (ny,)
        Outputs at the end of the step as measured, before any correction.
    sent : ndarray, shape (m, nu)
        Inputs over the step as sent (a bench: as realised), normalised power basis.
    errors : ndarray, shape (order + 1, nu)
        True inputs less inputs as sent (`correct_model.input_errors`).
    measured : sequence of bool, optional
        Per part, whether `y` is its sample of this communication point; default: all are.
    learn : iterable of int, optional
        Parts that learn in this step; default: all.

    Returns
    -------
    bool
        Whether ``state.gamma`` changed, and the corrector needs a new plan.
    """
    learning = range(len(plan.parts)) if learn is None else set(learn)
    noise = np.zeros(len(plan.noise_paths))
    _add_noise(plan.noise_paths, state.noise, noise)
    changed = False
    for i, part in enumerate(plan.parts):
        model, judgement = state.models[i], state.trusts[i]
        step = regression.observe(
            model,
            y[part.outputs],
            sent[:, part.inputs],
            measured=measured is None or measured[i],
            learn=i in learning,
        )
        if step is None:
            continue
        jumped = trust.judge(
            judgement, plan.limits, model, step, errors[:, part.inputs], noise[part.inputs]
        )
        if jumped:
            regression.forget(model)
        state.noise[part.outputs] = trust.residual(judgement)
        state.reason[part.outputs] = judgement.reason
        changed |= _adopt(state, part, model, judgement)
    return changed


def _adopt(state: State, part: Part, model: Model, judgement: Trust) -> bool:
    """Put Γ into use where it is trusted and new enough to matter."""
    in_use = np.ascontiguousarray(state.gamma[:, part.outputs, part.inputs])
    new = np.empty_like(in_use)
    _propose(model.theta[-model.gammas :], model.scale_y, model.scale_u, judgement.reason, new)
    if not _matters(new, in_use, judgement.reason, judgement.mismatch, judgement.doubt):
        return False
    state.gamma[:, part.outputs, part.inputs] = new
    return True


@compiled
def _add_noise(paths: Floats, noise: Floats, at_inputs: Floats) -> None:
    """Standard deviations at the inputs, zero so far, of the outputs' independent noise (ny,)."""
    nu, ny = paths.shape
    for u in range(nu):
        for y in range(ny):
            at_inputs[u] += paths[u, y] * (noise[y] * noise[y])
        at_inputs[u] = math.sqrt(at_inputs[u])


@compiled
def _propose(
    theta: Floats, scale_y: Floats, scale_u: Floats, reason: NDArray[np.int64], new: Floats
) -> None:
    """Γ as identified (`Model.jacobian`), zero in rows that are not trusted."""
    terms, ny, nu = new.shape
    for m in range(terms):
        for y in range(ny):
            for u in range(nu):
                trusted = reason[y] == _USED
                new[m, y, u] = theta[m * nu + u, y] * (scale_y[y] / scale_u[u]) if trusted else 0.0


@compiled
def _matters(
    new: Floats, in_use: Floats, reason: NDArray[np.int64], mismatch: Floats, doubt: Floats
) -> bool:
    """Whether other rows are trusted than before, or the corrections of the last steps change."""
    terms, ny, nu = new.shape
    for y in range(ny):
        trusted = reason[y] == _USED
        if np.any(in_use[:, y] != 0.0) != trusted:
            return True
        if not trusted:
            continue
        moved = size = 0.0
        for w in range(len(mismatch)):
            change = wanted = 0.0
            for m in range(terms):
                for u in range(nu):
                    error = mismatch[w, m * nu + u]
                    change += error * (new[m, y, u] - in_use[m, y, u])
                    wanted += error * new[m, y, u]
            moved += change * change
            size += wanted * wanted
        if not moved <= _STALE**2 * size + 0.1 * doubt[y]:  # nor if it is not a number
            return True
    return False


def dither(tick: int, amplitude: Floats, order: int) -> Floats:
    """Small random polynomials to excite identification; a pure function of the tick.

    Parameters
    ----------
    tick : int
        Number of the macro step.
    amplitude : ndarray, shape (nu,)
        Bound of the dither over the step, in the inputs' units; 0 for none.
    order : int
        Degree p of the inputs.

    Returns
    -------
    ndarray, shape (order + 1, nu)
        Coefficients to add to the inputs, normalised power basis: each of independent random
        sign, since coefficients that always move together cannot be told apart.
    """
    shape = (order + 1, len(amplitude))
    n = shape[0] * shape[1]
    # splitmix64 of a counter: the same on every machine, and nothing to carry along
    z = (np.uint64(tick * n) + np.arange(1, n + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    signs = np.where((z >> np.uint64(63)).reshape(shape) == 0, 1.0, -1.0)
    coefficients: Floats = signs * amplitude / shape[0]
    return coefficients


def texts(state: State, names: Sequence[str]) -> dict[str, str]:
    """Why outputs are not corrected: ``{output: reason}``, outputs in use left out."""
    return {
        name: Reason(int(code)).text
        for name, code in zip(names, state.reason, strict=True)
        if code != Reason.USED
    }
