import pytest

from hilrt.errors import ConfigError
from hilrt.hosting.load_solver import load_solver

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

made = Vehicle(1.0)
"""


@pytest.fixture
def folder(tmp_path, own_modules):
    (tmp_path / "my_vehicle.py").write_text(MODULE)
    (tmp_path / "my_broken.py").write_text("x = 1 / 0\n")
    (tmp_path / "my_script.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "my_hungry.py").write_text("import not_installed_anywhere\n")
    return tmp_path


def test_a_solver_is_made_with_its_parameters(folder):
    solver = load_solver("my_vehicle:Vehicle", {"mass": 5.0, "cycle": "nedc"}, [folder])
    assert (solver.mass, solver.cycle) == (5.0, "nedc")
    assert load_solver("my_vehicle:Anything", {"x": 1}, [folder]).params == {"x": 1}


@pytest.mark.parametrize(
    ("target", "params", "text"),
    [
        ("my_vehicle", {}, "write it as module:Class"),
        (":Vehicle", {}, "write it as module:Class"),
        ("my_vehicle:made", {}, "is an instance; name its class, Vehicle"),
        ("my_vehicl:Vehicle", {}, "no module 'my_vehicl' in .*; did you mean 'my_vehicle'?"),
        ("hilrt.modles:X", {}, "did you mean 'hilrt.models'?"),
        ("my_hungry:X", {}, "'my_hungry' needs the module 'not_installed_anywhere'"),
        ("my_broken:X", {}, r"ZeroDivisionError: division by zero \(.*my_broken.py:1\)"),
        (
            "my_script:X",
            {},
            r"importing module 'my_script' failed: SystemExit: 0 \(.*my_script.py:2",
        ),
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
        load_solver(target, params, [folder])


def test_every_wrong_parameter_is_named_at_once(folder):
    with pytest.raises(ConfigError) as wrong:
        load_solver("my_vehicle:Vehicle", {"a": 1, "b": 2}, [folder])
    assert len(wrong.value.problems) == 3  # two unknown, one missing


TYPED = """
from __future__ import annotations
from pathlib import Path
import numpy as np
from hilrt import Sample, Solver

class Typed(Solver):
    def __init__(
        self,
        gain: float = 1.0,
        steps: int = 1,
        mode: str | None = None,
        table: list[float] = (),
        matrix: np.ndarray = None,
        file: Path | None = None,
        start=np.zeros(2),
        *,
        scale=2.0,
        name="a",
        fast=False,
        free=None,
    ):
        pass
    def initialize(self, t0, u0): return Sample([])
    def advance(self, t, h, u): return Sample([])
"""


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (
            {"gain": "abc"},
            r"^params\.gain = 'abc': expected number, got string; correct the value$",
        ),
        ({"gain": True}, "expected number"),
        ({"steps": 1.5}, "expected whole number"),
        ({"mode": 3}, "expected string"),
        ({"table": [1.0, "x"]}, "expected number, got string at `value"),
        ({"scale": "2"}, "params.scale = '2': is not a number, as its default 2.0 is"),
        ({"scale": True}, "is not a number"),
        ({"name": 3}, "is not a string, as its default 'a' is"),
        ({"fast": 1}, "is not true or false"),
        ({"gain": 2, "steps": 3.0, "mode": "x", "table": [1], "matrix": [[1.0]]}, None),
        ({"file": "x", "scale": 3, "name": "b", "fast": True, "free": "anything"}, None),
        ({"scale": [1.0, 2.0]}, None),
        ({"start": [1.0, 2.0]}, None),
    ],
)
def test_parameters_of_the_wrong_type_are_found(tmp_path, own_modules, params, text):
    (tmp_path / "my_typed.py").write_text(TYPED)
    if text is None:
        load_solver("my_typed:Typed", params, [tmp_path])
        return
    with pytest.raises(ConfigError, match=text):
        load_solver("my_typed:Typed", params, [tmp_path])


def test_a_path_that_is_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        load_solver("my_vehicle:Vehicle", {}, [tmp_path / "nowhere"])
