"""Build the tables for corrections of outputs, from Jacobians and the topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from hilrt.coupling.correct_outputs import Feedthrough, feedthrough_table
from hilrt.coupling.true_inputs import basis_by_degree
from hilrt.coupling.trust import LEARNING, USED, Limits
from hilrt.errors import ConfigError
from hilrt.solver import Floats
from hilrt.tables import model as rows
from hilrt.tables.model import Model, ModelSettings, no_model_plan, no_model_state
from hilrt.tables.network import Network
from hilrt.tables.ports import Bools
from hilrt.tables.record import Table, table
from hilrt.tables.relation import Relation

#: Maximum number of coupling variables with Jacobians. The correction of the outputs is one system
#: of equations: in a ring of 64 subsystems with 8 variables each it took 31 us of each step, and
#: 1.1 ms when the Jacobians changed; with 8 subsystems 3 us and 6 us.
MAX_VARIABLES = 512
#: Maximum regressors of an identified subsystem: the cost of a sample grows with their square.
MAX_REGRESSORS = 512


@dataclass(frozen=True)
class Identified:
    """A subsystem whose Jacobian is identified.

    Attributes
    ----------
    subsystem : int
    given : ndarray, shape (p + 1, outputs, inputs), optional
        Jacobian from the session file: used until there is enough data.
    dither : float
        Amplitude of the excitation of its inputs relative to their running scale.
    output_lags, input_lags : int
        Past outputs (at least 1) and past inputs in the regression.
    memory : float, optional
        Number of samples after which a sample has lost most of its weight, ``1/(1 - forgetting)``.
        Default: three times the number of regressors, at least 60.
    warm_up : int
        Samples used only to measure the signals' means and spreads.
    excitation : float
        Spread of an input's independent motion, relative to its total spread, below which it is
        treated as zero; the prior then determines the Jacobian.
    """

    subsystem: int
    given: Floats | None = None
    dither: float = 0.0
    output_lags: int = 2
    input_lags: int = 2
    memory: float | None = None
    warm_up: int = 20
    excitation: float = 1e-7

    def regressors(self, order: int, outputs: int, inputs: int) -> int:
        """Number of regressors n."""
        return self.output_lags * outputs + 1 + (self.input_lags + 1) * (order + 1) * inputs


@dataclass(frozen=True)
class Jacobians:
    """Interface Jacobians that correct outputs, with their settings.

    Attributes
    ----------
    h : float
        Macro step for which they are valid, s.
    given : mapping of int to ndarray, shape (p + 1, outputs, inputs)
        By subsystem; p is the highest order of a connection (`highest_order`).
    identified : sequence of Identified
    correctable : ndarray of bool, shape (ny,)
        Outputs that given Jacobians may correct.
    alpha : float
        Share of the accumulated input error that the offset du_c compensates. 0 for subsystems that
        make one explicit integration step per macro step.
    """

    h: float
    given: Mapping[int, Floats]
    identified: Sequence[Identified]
    correctable: Bools
    alpha: float = 1.0


def highest_order(network: Network) -> int:
    """Highest degree of a connection's polynomial, p."""
    return int(network.connections.order.max(initial=0))


def build_model(
    network: Network,
    y0: Floats,
    jacobians: Jacobians | None = None,
    feedthrough: Feedthrough | None = None,
    limits: Limits | None = None,
) -> Model:
    """Constants and initial state of the corrections of a session's outputs.

    Parameters
    ----------
    network : Network
    y0 : ndarray, shape (ny,)
        Outputs at the start.
    jacobians : Jacobians, optional
    feedthrough : Feedthrough, optional
    limits : Limits, optional
        Limits of the trust in identified Jacobians.

    Raises
    ------
    ConfigError
        If the session is too large for the corrections.
    ValueError
        If a Jacobian does not have the shape of its subsystem, or their order is too high.
    """
    plan, state = no_model_plan(), no_model_state()
    ny, nu = len(network.outputs), len(network.inputs)
    if feedthrough is not None:
        plan.settings["feedthrough"] = 1
        plan = plan._replace(feedthrough=feedthrough_table(feedthrough))
        state = state._replace(outputs=table(rows.CorrectedOutput, ny))
    if jacobians is None:
        return Model(plan, state)
    if ny + nu > MAX_VARIABLES:
        raise ConfigError(
            f"[[bonds]] method = 'model': the session has {ny + nu} coupling variables, the "
            f"correction by Jacobians at most {MAX_VARIABLES}; use method = 'energy' instead"
        )
    _fill_settings(plan.settings, jacobians, highest_order(network), limits or Limits())
    model = _build_correction(network, y0, jacobians, Model(plan, state))
    if not jacobians.identified:
        return model
    return _build_identification(network, jacobians.identified, model)


def _build_correction(network: Network, y0: Floats, jacobians: Jacobians, model: Model) -> Model:
    (plan, state), order = model, highest_order(network)
    ny, nu = len(network.outputs), len(network.inputs)
    plan = plan._replace(
        outputs=table(rows.ModelOutput, ny),
        inputs=table(rows.ModelInput, nu),
        dependencies=_dependencies(network),
    )
    state = state._replace(
        outputs=table(rows.CorrectedOutput, ny),
        inputs=table(rows.CorrectedInput, nu),
        gamma=np.zeros((order + 1, ny, nu)),
        triangles=np.zeros((order + 1, ny, ny)),
        pivots=np.zeros((order + 1, ny), dtype=np.int64),
        work=rows.workspace(ny),
    )
    plan.outputs["correctable"] = jacobians.correctable
    state.session["samples"] = 1
    state.outputs["past"][:, 0] = y0
    for s, gamma in jacobians.given.items():
        state.gamma[_block(network, s)] = _fitting(gamma, network, s, order)
    state.gamma[:, ~jacobians.correctable] = 0.0
    return Model(plan, state)


def _fill_settings(
    settings: Table[ModelSettings], jacobians: Jacobians, order: int, limits: Limits
) -> None:
    settings["corrects"], settings["identifies"] = 1, len(jacobians.identified) > 0
    settings["dithers"] = any(one.dither > 0.0 for one in jacobians.identified)
    settings["order"], settings["h"], settings["alpha"] = order, jacobians.h, jacobians.alpha
    basis, means = basis_by_degree(order)
    settings["basis"][0, : order + 2, : order + 2, : order + 2] = basis
    settings["means"][0, : order + 2, : order + 2] = means
    for field in fields(limits):
        settings[field.name] = getattr(limits, field.name)


def _dependencies(network: Network) -> Table[rows.Dependency]:
    found = table(rows.Dependency, len(network.feedthrough))
    found["output"], found["input"] = network.feedthrough.row, network.feedthrough.column
    return found


def _block(network: Network, s: int) -> tuple[slice, slice, slice]:
    return slice(None), network.outputs.slices[s], network.inputs.slices[s]


def _size(network: Network, s: int) -> tuple[int, int]:
    _, outputs, inputs = _block(network, s)
    return outputs.stop - outputs.start, inputs.stop - inputs.start


def _fitting(gamma: Floats, network: Network, s: int, order: int) -> Floats:
    needed = (order + 1, *_size(network, s))
    if gamma.shape != needed:
        name = network.subsystems[s]
        raise ValueError(f"the Jacobian of {name} has shape {gamma.shape}; it must be {needed}")
    return gamma


# -- identification ------------------------------------------------------------------------------


def _build_identification(
    network: Network, identified: Sequence[Identified], model: Model
) -> Model:
    plan, state = model
    order, window = int(plan.settings["order"][0]), int(plan.settings["window"][0])
    ny, nu = len(network.outputs), len(network.inputs)
    sizes = [_size(network, one.subsystem) for one in identified]
    n = max(one.regressors(order, *size) for one, size in zip(identified, sizes, strict=True))
    if n > MAX_REGRESSORS:
        raise ConfigError(
            f"[subsystems] jacobian.source = 'identify': a subsystem needs {n} regressors, at most "
            f"{MAX_REGRESSORS} are allowed; use fewer lags, or split it"
        )
    w, g = max(outputs for outputs, _ in sizes), (order + 1) * max(inputs for _, inputs in sizes)
    r, lags = len(identified), max(one.output_lags for one in identified)
    plan = plan._replace(
        regressions=table(rows.Regression, r),
        noise_paths=_noise_paths(network.L),
        weight=np.zeros((r, n)),
    )
    learning = rows.Learning(
        outputs=table(rows.LearnedOutput, ny),
        inputs=table(rows.LearnedInput, nu),
        regressions=table(rows.LearnedRegression, r),
        factor=np.zeros((r, n, n)),
        parameters=np.zeros((r, n, w)),
        prior=np.zeros((r, n, w)),
        past_outputs=np.zeros((lags, ny)),
        past_inputs=np.zeros((max(one.input_lags for one in identified), order + 1, nu)),
        errors=np.zeros((window, ny)),
        errors_without=np.zeros((window, ny)),
        mismatch=np.zeros((window, order + 1, nu)),
    )
    learning.outputs["scale"] = learning.inputs["scale"] = 1.0
    learning.outputs["predicted"] = learning.inputs["realised"] = np.nan
    model = Model(plan, state._replace(learning=learning, work=rows.workspace(ny, n, w, g)))
    for number, one in enumerate(identified):
        _start_regression(network, one, number, model)
    return model


def _noise_paths(L: Relation) -> Table[rows.NoisePath]:
    found = table(rows.NoisePath, len(L))
    found["input"], found["output"], found["square"] = L.row, L.column, L.weight**2
    return found


def _start_regression(network: Network, one: Identified, r: int, model: Model) -> None:
    plan, learning, s = model.plan, model.state.learning, one.subsystem
    order, (ny, nu) = int(plan.settings["order"][0]), _size(network, s)
    n, g, given = one.regressors(order, ny, nu), (order + 1) * nu, one.given is not None
    _, own, inputs = _block(network, s)
    plan.outputs["identified"][own] = 1
    plan.inputs["dither"][inputs] = one.dither
    # The Jacobian's prior has a hundred times the weight of the other parameters' priors, so that
    # these explain what both could explain; the prior of a given Jacobian a hundred times more.
    relative = np.full(n, one.excitation / 100.0)
    relative[n - g :] = one.excitation * (100.0 if given else 1.0)
    memory = one.memory or max(60.0, 3.0 * n)
    at, forgetting = plan.regressions[r], 1.0 - 1.0 / memory
    at.subsystem, at.first_output, at.first_input = s, own.start, inputs.start
    at.outputs, at.inputs, at.terms = ny, nu, order + 1
    at.output_lags, at.input_lags, at.warm_up = one.output_lags, one.input_lags, one.warm_up
    at.regressors, at.coefficients = n, g
    at.forgetting, at.recalled = forgetting, 1.0 - forgetting**n
    plan.weight[r, :n] = memory * relative**2
    at.weight = plan.weight[r, n - 1]
    learning.regressions["given"][r] = given
    learning.outputs["reason"][own] = USED if given else LEARNING
    learning.factor[r, range(n), range(n)] = 1.0 / np.sqrt(plan.weight[r, :n])
    learning.prior[r, :ny, :ny] = np.eye(ny)  # persistence: the output does not change
    if one.given is not None:
        gamma = _fitting(one.given, network, s, order)
        learning.prior[r, n - g : n, :ny] = gamma.transpose(0, 2, 1).reshape(g, ny)
        model.state.gamma[_block(network, s)] = gamma
    learning.parameters[r] = learning.prior[r]
