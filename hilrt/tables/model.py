"""Tables of the corrections of outputs: by feedthrough, by Jacobians, and their identification.

Sizes differ between sessions; all arrays are C-contiguous, and empty if nothing is corrected or
identified. Numbers of rows and columns below: ny outputs, nu inputs, p the order of the polynomials
that the Jacobians refer to, r identified subsystems; and over these the maxima of outputs w,
regressors n, and input coefficients g.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats
from hilrt.tables.record import COEFFICIENTS, Coefficients, Integers, Table, TableRow, f8, i8, table

# -- constants -----------------------------------------------------------------------------------


class ModelSettings(TableRow):
    """Settings of the corrections; one record."""

    feedthrough: i8  # bonds are corrected by their feedthrough
    corrects: i8  # outputs are corrected by Jacobians
    identifies: i8  # some of these are identified online
    dithers: i8  # inputs are excited for identification
    order: i8  # p: degree of the polynomials that the Jacobians refer to
    h: f8  # macro step that they are valid for, s
    alpha: f8  # share of the accumulated input error that the offset compensates
    # By degree, for the newest samples from now backwards: power coefficients of the Lagrange
    # polynomials on their nodes, and the means of these over the step
    basis: Annotated[Floats, (COEFFICIENTS, COEFFICIENTS, COEFFICIENTS)]
    means: Annotated[Floats, (COEFFICIENTS, COEFFICIENTS)]
    # Limits for trusting an identified Jacobian; one in use is dropped beyond `loosened` times
    # a limit.
    prior_limit: f8  # share of the input errors' energy that is determined by the prior
    variance_limit: f8  # variance of the correction over its mean square
    unexplained_limit: f8  # mean square error with the Jacobian over that without
    noise_limit: f8  # noise added by the correction over its mean square
    loosened: f8
    window: i8  # samples over which means are computed
    hold: i8  # consecutive samples that must pass before a Jacobian is used


class ModelOutput(TableRow):
    """Constants of an output for the corrections."""

    correctable: i8  # not an effort of a bond corrected by another method
    identified: i8  # of a subsystem whose Jacobian is identified


class ModelInput(TableRow):
    """Constants of an input for the corrections."""

    dither: f8  # amplitude of the excitation relative to the running scale


class Regression(TableRow):
    """Constants of an identified subsystem."""

    subsystem: i8
    first_output: i8
    outputs: i8
    first_input: i8
    inputs: i8
    terms: i8  # coefficients of each input: p + 1
    output_lags: i8  # past outputs in the regression, at least 1
    input_lags: i8  # past inputs
    regressors: i8
    coefficients: i8  # of all inputs: the number of regressors of the Jacobian
    forgetting: f8  # factor on the past's weight per sample
    recalled: f8  # 1 - forgetting^regressors: loss until a prior is presented again
    weight: f8  # information content of a Jacobian's prior
    warm_up: i8  # first samples, used only for the signals' means and spreads


class Dependency(TableRow):
    """Output that depends on an input directly."""

    output: i8
    input: i8


class FeedthroughTerm(TableRow):
    """Term of the feedthrough correction, added to an output per unit of a source.

    The source is an output, of (K - I), or the difference of true and sent value of an input, of
    (K D).
    """

    output: i8
    source: i8
    of_input: i8
    factor: f8


class NoisePath(TableRow):
    """Squared gain from an output's noise to an input."""

    input: i8
    output: i8
    square: f8


class ModelPlan(NamedTuple):
    """Constants; see the comments of each table's fields.

    `weight`, shape (r, n): information content of each parameter's prior.
    """

    settings: Table[ModelSettings]
    outputs: Table[ModelOutput]
    inputs: Table[ModelInput]
    regressions: Table[Regression]
    dependencies: Table[Dependency]
    feedthrough: Table[FeedthroughTerm]
    noise_paths: Table[NoisePath]
    weight: Floats


# -- state ---------------------------------------------------------------------------------------


class ModelSession(TableRow):
    """State of the corrections; one record."""

    samples: i8  # past corrected outputs available, at most p + 1; correct_outputs
    stepped: i8  # a step of the Jacobians' length has ended here; correct_outputs
    regular: i8  # and all its outputs are samples; correct_outputs
    turn: i8  # regression that learns next; identify
    # The matrices computed from the Jacobians match `gamma`:
    prepared: i8  # apply_changes, stimulate_parameters, correct_outputs, drive_inputs, identify
    # by number of available samples, less 1: the corrected outputs can be solved for
    solvable: Annotated[Integers, COEFFICIENTS]  # correct_outputs, identify


class CorrectedOutput(TableRow):
    """State of a corrected output; in the output's unit unless stated."""

    y: f8  # input of the correction by Jacobians; correct_outputs
    corrected: f8  # result of the corrections; correct_outputs
    past: Coefficients  # corrected, newest first; correct_outputs
    has_jacobian: i8  # not all zero: it is corrected; correct_outputs, identify


class CorrectedInput(TableRow):
    """State of an input of the corrections; in the input's unit unless stated."""

    # over the step that ended, coefficients of powers of (t - start)/h
    sent: Coefficients  # as sent; predict_late, correct_outputs
    own: Coefficients  # contributions besides connections, if possible; correct_outputs
    error: Coefficients  # true input less input as sent; correct_outputs
    offset: f8  # delta u_c, applied or not; correct_outputs
    alpha: f8  # in force; 0 if no offset may act; correct_outputs, identify


class LearnedOutput(TableRow):
    """State of an output in the identification; in the output's unit unless stated."""

    y: f8  # as measured; identify
    predicted: f8  # by the regression of a late subsystem; NaN if there is none; predict_late
    extrapolation_error: f8  # mean square of extrapolation alone, one step ahead; identify
    centre: f8  # offset and spread of the signal; the scale is a power of two; identify
    scale: f8  # identify
    average: f8  # running, about the centre; identify
    mean_square: f8  # identify
    error: f8  # of the newest prediction, in units of the scale; identify
    noise: f8  # root mean square of the prediction errors; identify
    variance: f8  # of the correction, summed over the window; identify
    # Consecutive samples at which its Jacobian met all conditions
    passed: i8  # count; apply_changes, stimulate_parameters, identify
    # Reason why its Jacobian is not used; 0: it is used
    reason: i8  # of `trust.Reason`; apply_changes, stimulate_parameters, identify


class LearnedInput(TableRow):
    """State of an input in the identification; in the input's unit unless stated."""

    # over the step that ended, coefficients of powers of (t - start)/h
    acted: Coefficients  # as sent; for a bench, as realised; predict_late, identify
    error: Coefficients  # true input less input as sent; identify
    realised: f8  # by a bench at the previous point; NaN if not measured; identify
    centre: f8  # identify
    scale: f8  # identify
    average: f8  # identify
    mean_square: f8  # identify
    noise: f8  # standard deviation due to the outputs' noise; identify


class LearnedRegression(TableRow):
    """State of a regression; its signals are in units of their scales."""

    known: i8  # past samples without a gap; apply_changes, stimulate_parameters, identify
    seen: i8  # samples since the start; identify
    recall: i8  # parameter whose prior is presented next; identify
    unbroken: i8  # steps without a gap in the past, predicted ones included; identify
    # Samples assessed since the start or the last jump of the parameters:
    judged: i8  # apply_changes, stimulate_parameters, identify
    # A Jacobian was given, and has not been refuted yet:
    given: i8  # apply_changes, stimulate_parameters, identify
    # of the newest sample that was learned, over the window and in scaled units
    motion: f8  # sum of squares of the input errors; identify
    spread: f8  # variance of a correction for noise variance 1; identify


class Learning(NamedTuple):
    """Memory of the identification; see the comments of each table's fields.

    Attributes
    ----------
    factor : ndarray, shape (r, n, n)
        S of the covariance P = S S^T of each regression's parameters.
    parameters, prior : ndarray, shape (r, n, w)
        Of each regression, and their targets without data. Regressors: past outputs (newest first),
        past inputs, bias, then the inputs' coefficients, which the Jacobian refers to.
    past_outputs : ndarray, shape (lags, ny)
    past_inputs : ndarray, shape (lags, p + 1, nu)
        As the regressions use them, newest first.
    errors, errors_without : ndarray, shape (window, ny)
        Rings of prediction errors, and of those without the response to unpredicted motion of the
        inputs; in the outputs' units.
    mismatch : ndarray, shape (window, p + 1, nu)
        Ring of input errors.
    """

    outputs: Table[LearnedOutput]
    inputs: Table[LearnedInput]
    regressions: Table[LearnedRegression]
    factor: Floats
    parameters: Floats
    prior: Floats
    past_outputs: Floats
    past_inputs: Floats
    errors: Floats
    errors_without: Floats
    mismatch: Floats


class Workspace(NamedTuple):
    """Scratch arrays, which a stage fills before it reads them.

    Attributes
    ----------
    solution : ndarray, shape (ny,)
        Right side, then solution of the correction.
    phi, projected, rest : ndarray, shape (n,)
        Regressors, S^T phi, and its part that is not yet explained.
    error : ndarray, shape (w,)
        Of a prediction.
    innovation, scaled : ndarray, shape (g,)
        The part of a step's input coefficients that the other regressors did not predict, and
        input errors; both in scaled units.
    covariance, products, r : ndarray, shape (g, g)
        Of the Jacobian, for noise variance 1; sums of products of input errors; triangular factor.
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
    """Memory of the corrections; see the comments of each table's fields.

    Attributes
    ----------
    gamma : ndarray, shape (p + 1, ny, nu)
        Jacobians in use; zero where unknown or not trusted.
    triangles : ndarray, shape (p + 1, ny, ny)
        By number of available samples, less 1: the factorised matrix whose solution is the
        corrected outputs, stored by columns. It follows from `gamma`.
    pivots : ndarray of int, shape (p + 1, ny)
    """

    session: Table[ModelSession]
    outputs: Table[CorrectedOutput]
    inputs: Table[CorrectedInput]
    gamma: Floats
    triangles: Floats
    pivots: NDArray[np.int64]
    learning: Learning
    work: Workspace


def no_model_plan() -> ModelPlan:
    """Plan without corrections by feedthrough or Jacobians."""
    return ModelPlan(
        settings=table(ModelSettings, 1),
        outputs=table(ModelOutput, 0),
        inputs=table(ModelInput, 0),
        regressions=table(Regression, 0),
        dependencies=table(Dependency, 0),
        feedthrough=table(FeedthroughTerm, 0),
        noise_paths=table(NoisePath, 0),
        weight=np.zeros((0, 0)),
    )


def no_model_state() -> ModelState:
    """Empty state."""
    return ModelState(
        session=table(ModelSession, 1),
        outputs=table(CorrectedOutput, 0),
        inputs=table(CorrectedInput, 0),
        gamma=np.zeros((0, 0, 0)),
        triangles=np.zeros((0, 0, 0)),
        pivots=np.zeros((0, 0), dtype=np.int64),
        learning=nothing_learned(),
        work=workspace(),
    )


def nothing_learned() -> Learning:
    """State without identified Jacobians."""
    return Learning(
        outputs=table(LearnedOutput, 0),
        inputs=table(LearnedInput, 0),
        regressions=table(LearnedRegression, 0),
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
    """Constants of the corrections, and their memory before the first step."""

    plan: ModelPlan
    state: ModelState
