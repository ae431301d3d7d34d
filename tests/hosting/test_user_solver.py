import logging
import re

import numpy as np
import pytest

from hilrt import Port, Sample, Solver
from hilrt.errors import ConfigError, SolverError
from hilrt.hosting.user_solver import HostedSolver, load_solver

MODULE = """
from hilrt import Port, Sample, Solver

class Vehicle(Solver):
    inputs = (Port("torque", "N*m"),)
    outputs = (Port("speed", "rad/s"),)
    def __init__(self, mass, *, cycle="wltc"):
        if mass <= 0:
            raise ValueError(f"mass is {mass}")
        self.mass, self.cycle = mass, cycle
    def initialize(self, t0, u0): return Sample([0.0])
    def advance(self, t, h, u): return Sample([t + h])

class Half(Solver):
    def initialize(self, t0, u0): return Sample([0.0])

class Anything(Vehicle):
    def __init__(self, **params): self.params = params

class BadPorts(Vehicle):
    inputs = ("torque",)
    def __init__(self): pass

class TwiceNamed(Vehicle):
    outputs = (Port("y"), Port("y"))
    def __init__(self): pass

class BadFeedthrough(Vehicle):
    outputs = (Port("y", feedthrough=("torqe",)),)
    def __init__(self): pass

def function(): pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "my_vehicle", raising=False)
    (tmp_path / "my_vehicle.py").write_text(MODULE)
    (tmp_path / "my_broken.py").write_text("x = 1 / 0\n")
    (tmp_path / "my_hungry.py").write_text("import not_installed_anywhere\n")
    return tmp_path


def test_a_solver_is_made_with_its_parameters(folder):
    solver = load_solver("my_vehicle:Vehicle", {"mass": 5.0, "cycle": "nedc"}, folder)
    assert (solver.mass, solver.cycle) == (5.0, "nedc")
    assert load_solver("my_vehicle:Anything", {"x": 1}, folder).params == {"x": 1}


@pytest.mark.parametrize(
    ("target", "params", "text"),
    [
        ("my_vehicle", {}, "write it as module:Class"),
        (":Vehicle", {}, "write it as module:Class"),
        ("my_vehicl:Vehicle", {}, "no module 'my_vehicl'; did you mean 'my_vehicle'?"),
        ("hilrt.modles:X", {}, "did you mean 'hilrt.models'?"),
        ("my_hungry:X", {}, "'my_hungry' needs the module 'not_installed_anywhere'"),
        ("my_broken:X", {}, r"ZeroDivisionError: division by zero \(.*my_broken.py:1\)"),
        ("my_vehicle:Vehicel", {}, "no solver 'Vehicel'; did you mean 'Vehicle'?"),
        ("my_vehicle:function", {}, "function is not a solver; make it a subclass"),
        ("my_vehicle:Sample", {}, "Sample is not a solver"),
        ("my_vehicle:Half", {}, "does not implement advance"),
        ("my_vehicle:Vehicle", {}, "parameter 'mass' is missing"),
        ("my_vehicle:Vehicle", {"mass": 1, "cycel": 2}, "'cycel'; did you mean 'cycle'?"),
        ("my_vehicle:Vehicle", {"mass": -1}, r"ValueError: mass is -1 \(.*my_vehicle.py:9\)"),
        ("my_vehicle:BadPorts", {}, "inputs is .*must be a tuple of hilrt.Port"),
        ("my_vehicle:TwiceNamed", {}, "outputs has 'y' twice"),
        ("my_vehicle:BadFeedthrough", {}, "'torqe': there is no such input; did you mean 'torque'"),
    ],
)
def test_what_is_wrong_is_named_with_the_remedy(folder, target, params, text):
    with pytest.raises(ConfigError, match=text):
        load_solver(target, params, folder)


def test_every_wrong_parameter_is_named_at_once(folder):
    with pytest.raises(ConfigError) as wrong:
        load_solver("my_vehicle:Vehicle", {"a": 1, "b": 2}, folder)
    assert len(wrong.value.problems) == 3  # two unknown, one missing


def test_a_path_that_is_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        load_solver("my_vehicle:Vehicle", {}, tmp_path / "nowhere")


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
        if isinstance(self.result, Exception):
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
        (Sample("abc"), "y could not convert"),
        (Sample(np.array([0.0, np.nan, np.inf])), r"not finite: v\[0\] = nan, v\[1\] = inf"),
        (Sample(np.zeros(3), dy=np.zeros(3)), r"dy has the shape \(3,\), it needs \(n, 3\)"),
        (Sample(np.zeros(3), y_mid=np.zeros(4)), r"y_mid has the shape \(4,\)"),
    ],
)
@pytest.mark.parametrize("method", ["initialize", "advance"])
def test_what_cannot_be_used_is_said_with_time_and_place(result, text, method):
    hosted = HostedSolver(Scripted(result))
    arguments = (2.5, 0.1, U) if method == "advance" else (2.5, np.zeros(1))
    with pytest.raises(SolverError, match=text) as error:
        getattr(hosted, method)(*arguments)
    assert f"Scripted.{method} at t = 2.5 s" in str(error.value)


def test_large_finite_values_pass_although_their_sum_overflows():
    y = np.full(3, 1.7e308)
    assert HostedSolver(Scripted(Sample(y))).advance(0.0, 0.1, U).y is y


def test_an_exception_is_told_with_the_line_and_logged_with_its_traceback(caplog):
    with pytest.raises(SolverError) as error, caplog.at_level(logging.ERROR, "hilrt.solver"):
        HostedSolver(Scripted(KeyError("gear"))).advance(2.5, 0.1, U)
    pattern = r"advance at t = 2.5 s raised KeyError: 'gear' \(.*test_user_solver.py:\d+\)"
    assert re.fullmatch(pattern, str(error.value))
    assert caplog.records[0].exc_info is not None


def test_stop_is_passed_on_once_and_never_raises():
    hosted = HostedSolver(Scripted(None))
    hosted.stop("first")
    hosted.stop("second")
    assert hosted.solver.stopped == ["first"]
