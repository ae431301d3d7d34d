"""Tables of the corrections of outputs: by feedthrough, by Jacobians, and their identification.

Sizes differ from session to session; all arrays are C-contiguous, and empty where nothing is
corrected or identified. Numbers of rows and columns below: ny outputs, nu inputs, p the order of
the polynomials that the Jacobians belong to, r identified subsystems; of these the largest numbers
of outputs w, of regressors n, and of input coefficients g.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats
from hilrt.tables.record import COEFFICIENTS, Table, table

# -- constants -----------------------------------------------------------------------------------

#: One record.
SETTINGS: Final = np.dtype(
    [
        ("feedthrough", "i8"),  # bonds are corrected by their feedthrough
        ("corrects", "i8"),  # outputs are corrected by Jacobians
        ("identifies", "i8"),  # some of which are identified online
        ("dithers", "i8"),  # inputs are excited for identification
        ("order", "i8"),  # p: degree of the polynomials that the Jacobians belong to
        ("h", "f8"),  # macro step that they belong to, s
        ("alpha", "f8"),  # share of the accumulated input error that the offset makes up
        # By degree, for the newest samples from now backwards: power coefficients of the Lagrange
        # polynomials on their nodes, and the means of these over the step
        ("basis", "f8", (COEFFICIENTS, COEFFICIENTS, COEFFICIENTS)),
        ("means", "f8", (COEFFICIENTS, COEFFICIENTS)),
        # When an identified Jacobian is trusted; one in use is given up beyond `loosened` times a
        # limit.
        ("prior_limit", "f8"),  # share of the input errors' energy along which the prior decides
        ("variance_limit", "f8"),  # variance of the correction over its mean square
        ("unexplained_limit", "f8"),  # mean square error with the Jacobian over that without
        ("noise_limit", "f8"),  # noise put in over the mean square of the correction
        ("loosened", "f8"),
        ("window", "i8"),  # samples that all means are taken over
        ("hold", "i8"),  # samples in a row that must pass before a Jacobian is used
    ]
)
OUTPUTS: Final = np.dtype(
    [
        ("correctable", "i8"),  # no effort of a bond that is corrected in another way
        ("identified", "i8"),  # of a subsystem whose Jacobian is identified
    ]
)
INPUTS: Final = np.dtype(
    [
        ("dither", "f8"),  # amplitude of the excitation relative to the running scale
    ]
)
#: Identified subsystems.
REGRESSIONS: Final = np.dtype(
    [
        ("subsystem", "i8"),
        ("first_output", "i8"),
        ("outputs", "i8"),
        ("first_input", "i8"),
        ("inputs", "i8"),
        ("terms", "i8"),  # coefficients of each input: p + 1
        ("output_lags", "i8"),  # past outputs in the regression, at least 1
        ("input_lags", "i8"),  # past inputs
        ("regressors", "i8"),
        ("coefficients", "i8"),  # of all inputs; the Jacobian belongs to as many regressors
        ("forgetting", "f8"),  # factor: what a sample leaves of the past
        ("recalled", "f8"),  # 1 - forgetting^regressors: lost until a prior is shown again
        ("weight", "f8"),  # information that the prior of a Jacobian counts for
        ("warm_up", "i8"),  # samples that only measure the signals' means and spreads
    ]
)
#: Outputs that depend on an input directly.
DEPENDENCIES: Final = np.dtype([("output", "i8"), ("input", "i8")])
#: What the feedthrough correction adds to an output, per unit of a source: an output, of (K - I),
#: or the difference of true and sent value of an input, of (K D).
FEEDTHROUGH: Final = np.dtype(
    [("output", "i8"), ("source", "i8"), ("of_input", "i8"), ("factor", "f8")]
)
#: Squared gain from an output's noise to an input.
NOISE_PATHS: Final = np.dtype([("input", "i8"), ("output", "i8"), ("square", "f8")])


class ModelPlan(NamedTuple):
    """Constants; see the comments at the fields of each table.

    `weight`, shape (r, n): information that the prior of each parameter counts for.
    """

    settings: Table
    outputs: Table
    inputs: Table
    regressions: Table
    dependencies: Table
    feedthrough: Table
    noise_paths: Table
    weight: Floats


# -- state ---------------------------------------------------------------------------------------

#: One record.
SESSION: Final = np.dtype(
    [
        ("samples", "i8"),  # past corrected outputs at hand, at most p + 1
        ("stepped", "i8"),  # a step of the Jacobians' length has ended here
        ("regular", "i8"),  # and all outputs behind it are samples
        ("turn", "i8"),  # regression that learns next
        ("prepared", "i8"),  # the matrices that follow from the Jacobians are those of `gamma`
        # by number of samples at hand, less 1: the corrected outputs can be solved for
        ("solvable", "i8", COEFFICIENTS),
    ]
)
CORRECTED_OUTPUTS: Final = np.dtype(
    [
        ("y", "f8"),  # as it goes into the correction by Jacobians
        ("corrected", "f8"),  # as it comes out of the corrections
        ("past", "f8", COEFFICIENTS),  # corrected, newest first
        ("has_jacobian", "i8"),  # not zero: it is corrected
    ]
)
CORRECTED_INPUTS: Final = np.dtype(
    [
        # over the step that ended, coefficients of powers of (t - start)/h
        ("sent", "f8", COEFFICIENTS),  # as it left
        ("own", "f8", COEFFICIENTS),  # what acts beside connections, where anything may
        ("error", "f8", COEFFICIENTS),  # true input less input as sent
        ("offset", "f8"),  # delta u_c, whether it is applied or not
        ("alpha", "f8"),  # in force; 0 where no offset may act
    ]
)
LEARNED_OUTPUTS: Final = np.dtype(
    [
        ("y", "f8"),  # as measured
        ("predicted", "f8"),  # by the regression of a late subsystem; NaN where there is none
        ("extrapolation_error", "f8"),  # mean square of plain extrapolation, one step ahead
        ("centre", "f8"),  # offset and spread of the signal; the scale is a power of two
        ("scale", "f8"),
        ("average", "f8"),  # running, about the centre
        ("mean_square", "f8"),
        ("error", "f8"),  # of the newest prediction, in units of the scale
        ("noise", "f8"),  # root mean square of the prediction errors
        ("variance", "f8"),  # of the correction, summed over the window
        ("passed", "i8"),  # samples in a row without objection to its Jacobian
        ("reason", "i8"),  # why its Jacobian is not used; 0: it is (`trust.Reason`)
    ]
)
LEARNED_INPUTS: Final = np.dtype(
    [
        # over the step that ended, coefficients of powers of (t - start)/h
        ("acted", "f8", COEFFICIENTS),  # as sent; a bench: as it realised it
        ("error", "f8", COEFFICIENTS),  # true input less input as sent
        ("realised", "f8"),  # by a bench at the previous point; NaN where it is not measured
        ("centre", "f8"),
        ("scale", "f8"),
        ("average", "f8"),
        ("mean_square", "f8"),
        ("noise", "f8"),  # standard deviation that the outputs' noise gives it
    ]
)
LEARNED: Final = np.dtype(
    [
        ("known", "i8"),  # samples in the past, without a gap
        ("seen", "i8"),  # samples since the start
        ("recall", "i8"),  # parameter whose prior is shown next
        ("unbroken", "i8"),  # steps without a gap in the past, predicted ones included
        ("judged", "i8"),  # samples judged since the start or the last jump of the parameters
        ("given", "i8"),  # a Jacobian was given, and nothing has spoken against it yet
        # of the newest sample that was learned, over the window and in scaled units
        ("motion", "f8"),  # sum of squares of the input errors
        ("spread", "f8"),  # variance of a correction for noise variance 1
    ]
)


class CorrectionTables(NamedTuple):
    """Tables that the correction by Jacobians works on, of a plan and a state.

    `ports` are the inputs of the plan, `carried` the connections of the state; the others have the
    names that they have there, in the model, and in its workspace.
    """

    settings: Table
    subsystems: Table
    ports: Table
    connections: Table
    carried: Table
    dependencies: Table
    session: Table
    outputs: Table
    inputs: Table
    gamma: Floats
    triangles: Floats
    pivots: NDArray[np.int64]
    solution: Floats


class Learning(NamedTuple):
    """What the identification remembers; see the comments at the fields of each table.

    Attributes
    ----------
    factor : ndarray, shape (r, n, n)
        S of the covariance P = S S^T of each regression's parameters.
    parameters, prior : ndarray, shape (r, n, w)
        Of each regression, and what they are drawn to. Regressors: past outputs (newest first),
        past inputs, bias, then the inputs' coefficients, to which the Jacobian belongs.
    past_outputs : ndarray, shape (lags, ny)
    past_inputs : ndarray, shape (lags, p + 1, nu)
        As the regressions know them, newest first.
    errors, errors_without : ndarray, shape (window, ny)
        Rings of prediction errors, and of those if the answer to unpredicted motion of the inputs
        is left out; in the outputs' units.
    mismatch : ndarray, shape (window, p + 1, nu)
        Ring of input errors.
    """

    outputs: Table
    inputs: Table
    regressions: Table
    factor: Floats
    parameters: Floats
    prior: Floats
    past_outputs: Floats
    past_inputs: Floats
    errors: Floats
    errors_without: Floats
    mismatch: Floats


class Workspace(NamedTuple):
    """Arrays that a stage fills before it reads them.

    Attributes
    ----------
    solution : ndarray, shape (ny,)
        Right side, then solution of the correction.
    phi, projected, rest : ndarray, shape (n,)
        Regressors, S^T phi, and what of it is not yet explained.
    error : ndarray, shape (w,)
        Of a prediction.
    innovation, scaled : ndarray, shape (g,)
        The part of a step's input coefficients that the other regressors did not predict, and
        input errors; both in scaled units.
    covariance, products, r : ndarray, shape (g, g)
        Of the Jacobian, for noise variance 1; of each two input errors, summed; triangular factor.
    q : ndarray, shape (g, n)
        Orthogonal factor.
    """

    solution: Floats
    phi: Floats
    projected: Floats
    rest: Floats
    error: Floats
    innovation: Floats
    scaled: Floats
    covariance: Floats
    products: Floats
    r: Floats
    q: Floats


class ModelState(NamedTuple):
    """What the corrections remember; see the comments at the fields of each table.

    Attributes
    ----------
    gamma : ndarray, shape (p + 1, ny, nu)
        Jacobians in use; zero where not known or not trusted.
    triangles : ndarray, shape (p + 1, ny, ny)
        By number of samples at hand, less 1: the factorised matrix whose solution is the corrected
        outputs, stored by columns. It follows from `gamma`.
    pivots : ndarray of int, shape (p + 1, ny)
    """

    session: Table
    outputs: Table
    inputs: Table
    gamma: Floats
    triangles: Floats
    pivots: NDArray[np.int64]
    learning: Learning
    work: Workspace


def no_model_plan() -> ModelPlan:
    """Nothing is corrected by feedthrough or Jacobians."""
    return ModelPlan(
        settings=table(SETTINGS, 1),
        outputs=table(OUTPUTS, 0),
        inputs=table(INPUTS, 0),
        regressions=table(REGRESSIONS, 0),
        dependencies=table(DEPENDENCIES, 0),
        feedthrough=table(FEEDTHROUGH, 0),
        noise_paths=table(NOISE_PATHS, 0),
        weight=np.zeros((0, 0)),
    )


def no_model_state() -> ModelState:
    """Nothing is remembered."""
    return ModelState(
        session=table(SESSION, 1),
        outputs=table(CORRECTED_OUTPUTS, 0),
        inputs=table(CORRECTED_INPUTS, 0),
        gamma=np.zeros((0, 0, 0)),
        triangles=np.zeros((0, 0, 0)),
        pivots=np.zeros((0, 0), dtype=np.int64),
        learning=nothing_learned(),
        work=workspace(),
    )


def nothing_learned() -> Learning:
    """Nothing is identified."""
    return Learning(
        outputs=table(LEARNED_OUTPUTS, 0),
        inputs=table(LEARNED_INPUTS, 0),
        regressions=table(LEARNED, 0),
        factor=np.zeros((0, 0, 0)),
        parameters=np.zeros((0, 0, 0)),
        prior=np.zeros((0, 0, 0)),
        past_outputs=np.zeros((0, 0)),
        past_inputs=np.zeros((0, 0, 0)),
        errors=np.zeros((0, 0)),
        errors_without=np.zeros((0, 0)),
        mismatch=np.zeros((0, 0, 0)),
    )


def workspace(outputs: int = 0, n: int = 0, w: int = 0, g: int = 0) -> Workspace:
    """A `Workspace` of these sizes."""
    return Workspace(
        solution=np.zeros(outputs),
        phi=np.zeros(n),
        projected=np.zeros(n),
        rest=np.zeros(n),
        error=np.zeros(w),
        innovation=np.zeros(g),
        scaled=np.zeros(g),
        covariance=np.zeros((g, g)),
        products=np.zeros((g, g)),
        r=np.zeros((g, g)),
        q=np.zeros((g, n)),
    )


class Model(NamedTuple):
    """Constants of the corrections, and what they remember before the first step."""

    plan: ModelPlan
    state: ModelState
