"""FMUs in the master's process, as fast as possible: their steps, their faults, and the log."""

import re

import numpy as np
import pytest

import hilrt
from hilrt import InputPolynomial, RunOptions
from hilrt.fmu.fmu_solver import FmuSolver
from hilrt.replay.replay_log import replay
from hilrt.studies.advise_session import advise_session
from hilrt.timing.timeline import STAGES
from tests.fmu.build import mass, needs_compiler
from tests.fmu.driving import fmu_solver, trace

pytestmark = needs_compiler

STEP = 1e-3
SESSION = """
[session]
name = "two_masses"
duration = {duration}
pace = "asap"
[master]
step = 1e-3
extrapolation = {{ order = {order} }}
[reliability]
connection_defect = {limit}
[subsystems.first]
adapter = "fmu"
fmu = "{path}"
params = {{ v = 100.0, F = 0.0, fault = {faults[0]} }}
[subsystems.second]
adapter = "fmu"
fmu = "{path}"
params = {{ k = 1000.0, kc = 0.0, v = -100.0, x2 = 0.0, v2 = 0.0, fault = {faults[1]} }}
{second}
[[connections]]
from = "first.force"
to = "second.F"
[[connections]]
from = "second.x"
to = "first.x2"
[[connections]]
from = "second.v"
to = "first.v2"
{bond}
"""
BOND = """
[[bonds]]
name = "spring"
effort = "first.force"
flow = "second.v"
correction = { method = "energy", mu = 0.5 }
"""
#: The fault begins at this time, s.
LATE = 0.1
#: Of `SESSION`.
DEFAULTS = {
    "duration": 2.3,
    "order": 0,
    "limit": 0.1,
    "faults": (0, 0),
    "second": "",
    "bond": "",
}


def run(folder, *, path=None, record=True, **how):
    folder.mkdir(exist_ok=True)
    file = folder / "session.toml"
    file.write_text(SESSION.format(path=path or mass(2), **(DEFAULTS | how)))
    options = RunOptions(out=folder, record=record)
    return hilrt.run_session(hilrt.load_session(file), options=options)


def by_hand(steps):
    """The outputs at every communication point, and the calls that the FMUs have seen."""
    first = fmu_solver(mass(2), params={"v": 100.0, "F": 0.0, "fault": 0})
    params = {"k": 1000.0, "kc": 0.0, "v": -100.0, "x2": 0.0, "v2": 0.0, "fault": 0}
    second = fmu_solver(mass(2), params=params)
    y1 = first.initialize(0.0, np.zeros(2)).y
    y2 = second.initialize(0.0, y1[:1]).y
    y1 = first.initialize(0.0, y2[1:]).y
    seen = [np.concatenate((y1, y2))]
    for i in range(steps):
        t = round(i * STEP * 1e9) * 1e-9
        u1, u2 = (InputPolynomial(t, u[None].copy()) for u in (y2[1:], y1[:1]))
        y1, y2 = first.advance(t, STEP, u1).y, second.advance(t, STEP, u2).y
        seen.append(np.concatenate((y1, y2)))
    calls = [trace(solver) for solver in (first, second)]
    for solver in (first, second):
        solver.stop("done")
    return np.array(seen), calls


def test_a_session_makes_the_steps_of_a_loop_by_hand(tmp_path, monkeypatch):
    calls = []
    stop = FmuSolver.stop
    monkeypatch.setattr(FmuSolver, "stop", lambda s, why: (calls.append(trace(s)), stop(s, why)))
    result = run(tmp_path, duration=0.2)
    monkeypatch.undo()
    assert not result.fault
    log = hilrt.load_log(result.folder)
    names = [f"{name}.{port}" for name in ("first", "second") for port in ("force", "x", "v")]
    expected, expected_calls = by_hand(200)
    np.testing.assert_array_equal(np.array([log[name] for name in names]).T, expected)
    steps = [[call for call in one if call.startswith("step(")] for one in calls]
    assert any(call.startswith("step(0.1,0.001") for call in steps[0])
    assert steps[:2] == [[c for c in one if c.startswith("step(")] for one in expected_calls]


def test_a_divergence_of_fmus_names_a_command_that_finds_a_stable_step(tmp_path):
    """At 50 ms two undamped masses do not stay bounded; the advice is followed."""
    file = tmp_path / "session.toml"
    file.write_text(SESSION.format(path=mass(2), **DEFAULTS))
    coarse = {"master.step": 0.05}
    fault = hilrt.simulate(file, coarse | {"session.duration": 1e3}, record=False).fault
    assert fault.startswith("divergence: ")
    assert "`hilrt advise`" in fault
    found = advise_session(hilrt.load_session(file, coarse), 0.05, budget=1e6, search_s=1e6)
    assert found.settings["master.step"] < 0.05
    assert hilrt.simulate(file, found.settings, record=False).fault is None


CASES = {
    "held inputs": {},
    "polynomials": {"order": 2},
    "a corrected bond": {"order": 1, "bond": BOND},
    "flags that come and go": {"order": 0, "limit": 0.01, "bond": BOND},
    "limits": {"second": "inputs.F = { min = -150.0, max = 150.0, max_rate = 4000.0 }"},
}


@pytest.mark.parametrize("what", CASES)
def test_a_replay_decides_as_the_session_did(what, tmp_path):
    result = run(tmp_path, **CASES[what])
    assert not result.fault
    assert result.summary["steps"] == 2300
    assert replay(result.folder).identical


def test_the_times_of_every_step_are_in_the_log(tmp_path):
    log = hilrt.load_log(run(tmp_path, duration=0.5).folder)
    times = {name: log[f"master:{name}"][100:] for name in ("compute", "lateness", *STAGES)}
    for name in ("cut", "macro_step", "slack"):
        assert (times[name] > 0.0).mean() > 0.9
    np.testing.assert_allclose(
        times["cut"] + times["macro_step"] + times["dispatch"], times["compute"]
    )
    solvers = log["first:compute"][100:] + log["second:compute"][100:]
    assert (times["slack"][1:] >= solvers[1:] - 1e-3).all(), "they are part of the slack before"


#: Number of a fault of ``mass.c``, whose it is, and what is said; None where the session goes on.
FAULTS = {
    "no number": (1, 0, r"v = nan"),
    "discards": (2, 1, r"fmi2DoStep returned discard: no solution"),
    "fails": (3, 0, r"fmi2DoStep returned error: singular matrix"),
    "dies": (4, 1, r"fmi2DoStep returned fatal: out of memory"),
    "the first one warns": (7, 0, None),
    "the last one warns": (7, 1, None),
    "discards what is too long": (9, 0, None),
    "gets half way": (11, 1, None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_an_fmu_answers_in_the_middle_of_a_session(fault, tmp_path):
    number, owner, message = FAULTS[fault]
    faults = (number, 0) if owner == 0 else (0, number)
    path = mass(2, flags=(f"-DLATE={LATE}",))
    result = run(tmp_path, path=path, faults=faults, duration=0.13)
    log = hilrt.load_log(result.folder)
    assert not log.truncated
    if message is None:
        assert not result.fault
        assert result.exit_status == 0
        assert log.t[-1] == pytest.approx(0.13)
        assert replay(result.folder).identical
    else:
        assert re.search(message, result.fault)
        assert ["'first'", "'second'"][owner] in result.fault
        assert result.exit_status == 3
        assert log.t[-1] == pytest.approx(LATE), "the step that failed is in the log"


def test_without_a_log(tmp_path):
    result = run(tmp_path, record=False, duration=0.5)
    assert not result.fault
    assert result.summary["steps"] == 500
