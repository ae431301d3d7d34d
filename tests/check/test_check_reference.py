"""Reference models of subsystems that cannot be probed: what `hilrt check` says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hilrt.check.check import check_file, names_code

CONFIGS = Path(__file__).parents[2] / "bench_configs"
BENCH = CONFIGS / "engine_in_the_loop.toml"
ENGINE = "subsystems.engine"
MODELS = """
from hilrt import Port, Sample, Solver

class Engine(Solver):
    inputs = (Port("speed_demand", "rpm"), Port("pedal", "%"))
    outputs = (Port("torque", "kN*m"),)
    def __init__(self, gain=1.0): pass
    def initialize(self, t0, u0): return Sample([0.0])
    def advance(self, t, h, u): return Sample([0.0])
    def save_state(self): return 0.0
    def restore_state(self, state): pass

class Forgetful(Engine):
    def can_restore(self): return False

class OtherPorts(Engine):
    inputs = (Port("speed_demnd", "rad/s"), Port("pedal", "%", size=2))
    outputs = (Port("torque", "J"),)
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """The demonstration, with models of the engine in a module beside it."""
    (tmp_path / "engine_bench.dbc").write_bytes((CONFIGS / "engine_bench.dbc").read_bytes())
    (tmp_path / "reference_engines.py").write_text(MODELS, "utf-8")
    copy = tmp_path / BENCH.name
    copy.write_bytes(BENCH.read_bytes())
    return copy


def found(session: Path, level: str, *overrides: str, code: bool = True) -> list[str]:
    problems = check_file(session, overrides, code=code)
    return [str(p) for p in problems if p.level == level and "reference" in str(p)]


def of(name: str) -> str:
    return f"{ENGINE}.reference_model=reference_engines:{name}"


def test_units_convert_and_outputs_that_nothing_takes_may_lack(session: Path) -> None:
    for level in ("error", "warning", "not checked"):
        assert found(session, level, of("Engine")) == []


def test_ports_that_do_not_fit_are_named_with_a_remedy(session: Path) -> None:
    lines = found(session, "error", of("OtherPorts"))
    assert [line.partition("OtherPorts': ")[2] for line in lines] == [
        "has no input 'speed_demand' (rad/s), which is connected; did you mean 'speed_demnd'?",
        "has an input 'speed_demnd' that the subsystem lacks; did you mean 'speed_demand'?",
        "its input 'pedal' has 2 elements, the subsystem's 1; use the same number",
        "its output 'torque': unit 'J' does not convert to 'N*m': a torque is not an energy; "
        "give both ports the intended unit; give the model's port the unit of the subsystem's "
        "port, or a compatible one",
    ]
    assert all(line.startswith("[subsystems.engine] reference_model = ") for line in lines)


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ([of("Forgetful")], "cannot be probed; give it save_state and restore_state"),
        ([of("Engin")], "has no solver 'Engin'; did you mean 'Engine'?"),
        ([of("Engine"), f"{ENGINE}.reference_params.gian=2.0"], "did you mean 'gain'?"),
    ],
)
def test_models_that_cannot_stand_for_the_bench(
    session: Path, overrides: list[str], text: str
) -> None:
    (line,) = found(session, "error", *overrides)
    assert text in line


def test_it_is_code_which_a_check_without_code_does_not_run(session: Path) -> None:
    assert "engine" in names_code(session)
    (line,) = found(session, "not checked", of("NoSuchModel"), code=False)
    assert "only a check that imports its module and calls its constructor" in line


def test_parameters_without_a_model_and_models_without_a_need() -> None:
    params = "subsystems.vehicle.reference_params.cycle=x"
    (line,) = found(CONFIGS / "engine_models.toml", "error", params)
    assert "has no model to apply to; add reference_model, or leave it out" in line
    model = "subsystems.engine.reference_model=hilrt.models.engine_on_dyno:EngineOnDyno"
    (line,) = found(CONFIGS / "engine_models.toml", "warning", model)
    assert "is used only if the subsystem, a solver in the master's process" in line
