import logging
import re

import numpy as np
import pytest

from hilrt import Port, Sample, Solver
from hilrt.errors import SolverError
from hilrt.hosting.hosted_solver import HostedSolver


class Scripted(Solver):
    """Returns or raises what the test says."""

    inputs = (Port("u"),)
    outputs = (Port("y"), Port("v", size=2))

    def __init__(self, result):
        self.result = result
        self.stopped = []

    def initialize(self, t0, u0):
        return self.advance(t0, 0.0, None)

    def advance(self, t, h, u):
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def stop(self, reason):
        self.stopped.append(reason)
        raise OSError("while stopping")


U = np.zeros((1, 1))


def test_lists_and_integers_become_float64_arrays():
    sample = HostedSolver(Scripted(Sample([1, 2, 3], dy=[[1, 2, 3]]))).advance(0.0, 0.1, U)
    assert sample.y.dtype == sample.dy.dtype == np.float64
    assert sample.y.tolist() == [1.0, 2.0, 3.0]
    assert sample.compute_us > 0


def test_the_solvers_own_compute_time_is_kept():
    sample = HostedSolver(Scripted(Sample(np.zeros(3), compute_us=5.5))).advance(0.0, 0.1, U)
    assert sample.compute_us == 5.5


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, "returned NoneType; return hilrt.Sample"),
        (np.zeros(3), "returned ndarray"),
        (Sample(np.zeros(2)), r"y has the shape \(2,\), its outputs need \(3,\)"),
        (Sample(1.0), r"y has the shape \(\)"),
        (Sample(np.zeros(3) + 1j), "y is complex; use two outputs for real and imaginary part"),
        (Sample([0.0, 1j, 0.0]), "y is complex"),
        (Sample(np.zeros(3), y_mid=np.zeros(3, complex)), "y_mid is complex"),
        (Sample("abc"), "y could not convert"),
        (Sample(np.array([0.0, np.nan, np.inf])), r"not finite: v\[0\] = nan, v\[1\] = inf"),
        (Sample(np.zeros(3), dy=np.zeros(3)), r"dy has the shape \(3,\), it needs \(n, 3\)"),
        (Sample(np.zeros(3), y_mid=np.zeros(4)), r"y_mid has the shape \(4,\)"),
        (Sample(np.zeros(3), y_mid=np.full(3, np.nan)), "y_mid is not finite: y = nan"),
        (Sample(np.zeros(3), y_mean=np.zeros(4)), r"y_mean has the shape \(4,\)"),
        (Sample(np.zeros(3), y_mean=np.full(3, np.inf)), "y_mean is not finite: y = inf"),
        (Sample(np.zeros(3), t_valid=np.zeros(1)), r"t_valid has the shape \(1,\)"),
        (Sample(np.zeros(3), t_valid=np.full(3, 9.0)), "t_valid is 9 s: after the end of the step"),
    ],
)
@pytest.mark.parametrize("method", ["initialize", "advance"])
def test_what_cannot_be_used_is_said_with_time_and_place(result, text, method):
    hosted = HostedSolver(Scripted(result))
    arguments = (2.5, 0.1, U) if method == "advance" else (2.5, np.zeros(1))
    with pytest.raises(SolverError, match=text) as error:
        getattr(hosted, method)(*arguments)
    assert f"Scripted.{method} at t = 2.5 s" in str(error.value)


def test_a_jacobian_that_is_not_finite_is_refused():
    solver = Scripted(Sample(np.zeros(3)))
    solver.jacobian = lambda h, order: np.full((1, 3, 1), np.nan)
    with pytest.raises(SolverError, match="values that are not finite"):
        HostedSolver(solver).jacobian("solver", 0.0, 0.1, 0, np.zeros(1))


def test_large_finite_values_pass_although_their_sum_overflows():
    y = np.full(3, 1.7e308)
    assert HostedSolver(Scripted(Sample(y))).advance(0.0, 0.1, U).y is y


def test_an_exception_is_told_with_the_line_and_logged_with_its_traceback(caplog):
    with pytest.raises(SolverError) as error, caplog.at_level(logging.ERROR, "hilrt.solver"):
        HostedSolver(Scripted(KeyError("gear"))).advance(2.5, 0.1, U)
    pattern = r"advance at t = 2.5 s raised KeyError: 'gear' \(.*test_hosted_solver.py:\d+\)"
    assert re.fullmatch(pattern, str(error.value))
    assert caplog.records[0].exc_info is not None


def test_a_solver_that_exits_has_failed_and_does_not_end_the_session():
    with pytest.raises(SolverError, match=r"advance at t = 2.5 s raised SystemExit"):
        HostedSolver(Scripted(SystemExit(0))).advance(2.5, 0.1, U)


def test_stop_is_passed_on_once_and_never_raises():
    hosted = HostedSolver(Scripted(None))
    hosted.stop("first")
    hosted.stop("second")
    assert hosted.solver.stopped == ["first"]
