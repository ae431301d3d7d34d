from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hilrt.analyze.subsystem_models import SubsystemModel, find_subsystem_models, matrices
from hilrt.config.session_file import load_session
from hilrt.config.structs import JacobianOptions, SubsystemOptions
from hilrt.errors import ConfigError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.link import Ports
from hilrt.models.linear import Linear
from hilrt.models.two_mass import Mass1
from hilrt.solver import InputPolynomial, Port, Sample

PORTS = Ports((Port("force"),), (Port("x"), Port("v", start=2.0)))
MATRICES = {"A": [[0.0, 1.0], [-4.0, -1.0]], "B": [[0.0], [1.0]], "C": [[1.0, 0.0], [0.0, 1.0]]}
HEAD = """
[session]
name = "s"
duration = 1.0
pace = "asap"
[master]
step = 0.001
"""


def session(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "s.toml"
    file.write_text(HEAD + text)
    return file


def subsystem(jacobian: JacobianOptions | None = None) -> SubsystemModel:
    options = SubsystemOptions(adapter="memory", jacobian=jacobian)
    return SubsystemModel("one", options, Path(), PORTS, "is a bench")


def test_solvers_of_this_process_and_of_spawned_ones(tmp_path: Path) -> None:
    file = session(
        tmp_path,
        """
[subsystems.one]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass1"
params = { kc = 7.0 }
[subsystems.two]
adapter = "zeromq"
spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass2", "--param", "m=3", "--param", "k=5.0"]
""",
    )
    one, two = find_subsystem_models(load_session(file))
    assert one.hosted is not None
    assert one.hosted.solver.kc == 7.0
    assert two.hosted is not None
    assert (two.hosted.solver.m, two.hosted.solver.k) == (3, 5.0)
    assert [port.name for port in two.outputs] == ["v", "x"]


def test_every_subsystem_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    file = session(
        tmp_path,
        """
[subsystems.one]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass3"
[subsystems.two]
adapter = "zeromq"
""",
    )
    with pytest.raises(ConfigError) as caught:
        find_subsystem_models(load_session(file))
    first, second = caught.value.problems
    assert first.startswith("[subsystems.one]: module 'hilrt.models.two_mass' has no solver")
    assert "[subsystems.two]: its ports are only known while it runs; use" in second


def test_matrices_of_the_session_file_are_checked_against_the_ports() -> None:
    found = matrices(JacobianOptions(source="given", **MATRICES), "one", PORTS)
    assert found is not None
    np.testing.assert_array_equal(found.D, np.zeros((2, 1)))
    assert matrices(JacobianOptions(source="given", A=MATRICES["A"]), "one", PORTS) is None
    assert matrices(None, "one", PORTS) is None
    more = Ports(PORTS.inputs, (*PORTS.outputs, Port("a")))
    with pytest.raises(ConfigError, match=r"one.jacobian.*2 outputs and 1 inputs.*has 3 and 1"):
        matrices(JacobianOptions(source="given", D=[[0.0], [0.0]], **MATRICES), "one", more)
    ragged = {**MATRICES, "A": [[0.0, 1.0], [1.0]]}
    with pytest.raises(ConfigError, match=r"one.jacobian.*correct the matrices"):
        matrices(JacobianOptions(source="given", **ragged), "one", PORTS)


async def test_a_bench_starts_from_its_ports_and_knows_its_matrices() -> None:
    bench = subsystem(JacobianOptions(source="given", **MATRICES))
    sample = await bench.initialize(0.0, np.zeros(1))
    np.testing.assert_array_equal(sample.y, [0.0, 2.0])
    assert bench.linearise(np.zeros(1), 0.01, in_loop=True) is None
    assert bench.dynamics.states == 2
    gamma = await bench.jacobian("probe", 0.0, 0.01, 1, np.zeros(1))
    expected = Linear(**MATRICES).jacobian(0.01, 1)
    np.testing.assert_array_equal(gamma, expected)


async def test_a_bench_without_matrices_is_in_the_way_of_a_loop_only() -> None:
    bench = subsystem()
    problem = bench.linearise(np.zeros(1), 0.01, in_loop=True)
    assert problem is not None
    assert "is a bench" in problem
    assert "give A, B, C, D in [subsystems.one.jacobian]" in problem
    assert bench.linearise(np.zeros(1), 0.01, in_loop=False) is None
    assert bench.dynamics.states == 0
    assert await bench.jacobian("probe", 0.0, 0.01, 1, np.zeros(1)) is None


class Clipped(Linear):
    """Not what its matrices say."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        sample = super().advance(t, h, u)
        return Sample(np.clip(sample.y, -1.0, 1.0))


@pytest.mark.parametrize(
    ("solver", "source"),
    [
        (Linear(**MATRICES), "its matrices"),
        (Clipped(**MATRICES), "differentiated"),
        (Mass1(), "differentiated (linear)"),
    ],
)
def test_the_solver_itself_comes_before_matrices_that_stand_for_it(
    solver: Linear | Mass1, source: str
) -> None:
    ports = Ports(tuple(solver.inputs), tuple(solver.outputs))
    found = SubsystemModel("one", SubsystemOptions(adapter="memory"), Path(), ports)
    found.hosted = HostedSolver(solver)
    assert found.linearise(np.zeros(len(ports.inputs)), 0.01, in_loop=True) is None
    assert source in found.dynamics.source
