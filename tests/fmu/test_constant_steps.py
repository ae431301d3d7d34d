"""FMUs that can only take steps of one length."""

import numpy as np
import pytest

import hilrt
from hilrt import RunOptions
from hilrt.errors import ConfigError, SolverError
from hilrt.fmu.fmu_solver import FmuSolver
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.solver import InputPolynomial
from tests.fmu.build import mass, needs_compiler
from tests.fmu.driving import made, trace


@needs_compiler
def test_constant_steps_are_kept():
    solver = made(2, canHandleVariableCommunicationStepSize="false")
    solver.initialize(0.0, np.zeros(2))
    u = np.zeros((1, 2))
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, u))
    trace(solver)
    solver.advance(1e-3, 3e-3, InputPolynomial(1e-3, u))  # a merged step after a late one
    steps = [call for call in trace(solver) if call.startswith("step")]
    assert steps == ["step(0.001,0.001,1)", "step(0.002,0.001,1)", "step(0.003,0.001,1)"]
    with pytest.raises(SolverError, match="do not add up"):
        solver.advance(4e-3, 1.5e-3, InputPolynomial(4e-3, u))
    solver.stop("done")


CONSTANT = {"canHandleVariableCommunicationStepSize": "false", "canGetAndSetFMUstate": "true"}


@needs_compiler
def test_a_probe_of_constant_steps_leaves_no_trace():
    solver = made(2, **CONSTANT)
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(2))
    assert hosted.jacobian("probe", 0.0, 1e-9, 0, np.zeros(2)) is None  # not even a step of it
    assert "save" not in trace(solver)
    assert hosted.jacobian("probe", 0.0, 1e-3, 0, np.zeros(2)) is not None
    trace(solver)
    hosted.advance(0.0, 2e-3, np.zeros((1, 2)))
    assert [call for call in trace(solver) if call.startswith("step")] == ["step(0,0.002,1)"]
    hosted.stop("done")


SESSION = """
[session]
name = "constant"
duration = {duration}
pace = "asap"
[master]
step = {step}
[subsystems.first]
{first}
jacobian = {{ source = "probe" }}
[subsystems.second]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass2"
[[connections]]
from = "first.force"
to = "second.force"
[[connections]]
from = "second.x"
to = "first.x2"
[[connections]]
from = "second.v"
to = "first.v2"
[[bonds]]
name = "spring"
effort = "first.force"
flow = "second.v"
correction = {{ method = "{method}" }}
"""
PYTHON = 'adapter = "inprocess"\nmodel = "hilrt.models.two_mass:Mass1"'


def constant(params, *lines):
    """Table of an FMU of constant steps that can be probed."""
    table = f'adapter = "fmu"\nfmu = "{mass(2, **CONSTANT)}"\nparams = {params}'
    return "\n".join([table, 'outputs = ["force", "x", "v"]', *lines])


@pytest.fixture
def calls(monkeypatch):
    """Calls that FMUs have seen by the time they are stopped, with the lengths of steps."""
    seen = []
    stop = FmuSolver.stop

    def told(solver, reason):
        for call in trace(solver):
            name, _, arguments = call.partition("(")
            seen.append((name, float(arguments.split(",")[1]) if name == "step" else 0.0))
        stop(solver, reason)

    monkeypatch.setattr(FmuSolver, "stop", told)
    return seen


def run(folder, text):
    file = folder / "session.toml"
    file.write_text(text)
    return hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=folder))


@needs_compiler
@pytest.mark.parametrize("step", [1e-3, 0.5])
def test_the_feedthrough_of_constant_steps_is_to_be_given(step, tmp_path):
    first = constant("{ F = 0.0 }")
    text = SESSION.format(step=step, duration=2 * step, first=first, method="feedthrough")
    with pytest.raises(ConfigError, match=r"cannot vary its step, .*give D"):
        run(tmp_path, text)


@needs_compiler
@pytest.mark.parametrize("every", [2, 3])
def test_only_who_is_corrected_is_probed_again(every, tmp_path, calls):
    """Another one, slower than the session, has steps of its own and no Jacobian for its step."""
    slow = constant("{ v2 = 0.0, F = 0.0 }", f"every = {every}")
    more = '[[connections]]\nfrom = "second.x"\nto = "slow.x2"\n'
    text = SESSION.format(step=1e-3, duration=0.02, first=PYTHON, method="model")
    logs = []
    for line in ("", 'jacobian = { source = "probe", refresh = 4 }'):
        result = run(tmp_path, f"{text}[subsystems.slow]\n{slow}\n{line}\n{more}")
        assert not result.fault, result.fault
        logs.append(hilrt.load_log(result.folder))
    for signal in ("first.force", "first.x2:sent", "slow.force", "slow.x"):
        np.testing.assert_array_equal(*(log[signal] for log in logs), err_msg=signal)
    assert {h for name, h in calls if name == "step"} == {1e-3 * every}
    assert "save" not in dict(calls)


@needs_compiler
def test_several_rates_with_a_correction_of_one_are_refused(tmp_path):
    text = SESSION.format(
        step=1e-3, duration=0.02, first=constant("{ F = 0.0 }", "every = 2"), method="model"
    )
    with pytest.raises(ConfigError, match=r"'first' communicates every 2; set every = 1"):
        run(tmp_path, text)


@needs_compiler
def test_a_probe_takes_the_step_of_the_session(tmp_path, calls):
    text = SESSION.format(step=1e-3, duration=0.02, first=constant("{ F = 0.0 }"), method="model")
    result = run(tmp_path, text)
    assert not result.fault, result.fault
    assert "save" in dict(calls)
    assert {h for name, h in calls if name == "step"} == {1e-3}
