"""An FMU that ends its own simulation: a regular end, with its last outputs."""

import numpy as np
import pytest
from fmpy import simulate_fmu

import hilrt
from hilrt.config.session_file import load_session
from hilrt.hosting.hosted_solver import HostedSolver
from tests.fmu.build import mass, needs_compiler
from tests.fmu.driving import fmu_solver

pytestmark = needs_compiler

END = 9e-3
STEP = 2e-3
#: `fault` of the C FMU.
ENDS = 8
PARAMS = {"x2": 0.0, "v2": 0.0, "F": 0.0, "v": 100.0, "fault": ENDS}
EVENTS = {"hasEventMode": "true", "mightReturnEarlyFromDoStep": "true"}
RESTORES = EVENTS | {"canGetAndSetFMUState": "true"}
HOW = {
    "FMI 2": lambda: mass(2, flags=(f"-DLATE={END}",)),
    "FMI 3": lambda: mass(3, flags=(f"-DLATE={END}",)),
    "not said to be early": lambda: mass(3, flags=(f"-DLATE={END}", "-DENDS_AS_IF_IN_TIME")),
    "in event mode": lambda: mass(3, flags=(f"-DLATE={END}", "-DENDS_IN_EVENT"), **EVENTS),
}


@pytest.mark.parametrize("how", HOW)
def test_its_last_sample_has_the_outputs_of_its_end(how):
    path = HOW[how]()
    solver = HostedSolver(fmu_solver(path, PARAMS))
    solver.initialize(0.0, np.empty(0))
    samples = [solver.advance(i * STEP, STEP, np.empty((1, 0))) for i in range(5)]
    text = "mass.fmu ended its simulation at t = 0.009 s"
    assert [sample.ended for sample in samples] == ["", "", "", "", text]
    again = solver.advance(5 * STEP, STEP, np.empty((1, 0)))
    assert (again.ended, again.y.tolist()) == (text, samples[-1].y.tolist())
    solver.stop("done")
    # The same FMU in FMPy, up to where it ends.
    whole = {**PARAMS, "fault": 0}
    table = simulate_fmu(
        str(mass(3 if how != "FMI 2" else 2)),
        stop_time=END,
        output_interval=1e-3,
        start_values=whole,
        output=["force", "x", "v"],
    )
    assert samples[-1].y.tolist() == pytest.approx(list(table[-1])[1:], rel=1e-12)


SESSION = """
[session]
name = "ends"
duration = 0.012
pace = "asap"
[master]
step = {step}
[subsystems.model]
adapter = "fmu"
fmu = "{path}"
params = {{ x2 = 0.0, v2 = 0.0, F = 0.0, v = 100.0, fault = {fault} }}
when_ended = "{meant}"
"""


@pytest.mark.parametrize("flags", [(), ("-DENDS_IN_EVENT",)])
def test_where_steps_can_be_made_again_the_session_ends_at_that_very_time(flags, tmp_path):
    file, path = tmp_path / "session.toml", mass(3, flags=(f"-DLATE={END}", *flags), **RESTORES)
    file.write_text(SESSION.format(step=STEP, path=path, fault=ENDS, meant="finish"))
    result = hilrt.simulate(load_session(file))
    assert result.fault is None
    assert result.log.t.tolist() == pytest.approx([0.0, 0.002, 0.004, 0.006, 0.008, END])


@pytest.mark.parametrize("meant", ["finish", "fault"])
@pytest.mark.parametrize("how", HOW)
def test_the_session_ends_with_it(how, meant, tmp_path):
    file = tmp_path / "session.toml"
    file.write_text(SESSION.format(step=STEP, path=HOW[how](), fault=ENDS, meant=meant))
    result = hilrt.simulate(load_session(file))
    text = "mass.fmu ended its simulation at t = 0.009 s"
    assert result.fault == (None if meant == "finish" else f"subsystem 'model': {text}")
    assert result.exit_status == (0 if meant == "finish" else 3)
    state = "STOPPED" if meant == "finish" else "FAULT"
    assert result.summary["state"] == state
    log = result.log
    assert log.t.tolist() == pytest.approx([0.0, 0.002, 0.004, 0.006, 0.008, 0.01])
    assert log["model.v"][-1] != log["model.v"][-2]
    told = [event for event in log.events if event.cause == "ended"]
    assert [(event.source, event.text) for event in told] == [("model", text)]
    assert any(text in event.text for event in log.events if f"-> {state}" in event.text)
