"""Leaps: macro steps of FMUs in one compiled call are those that are made one by one."""

import re

import numpy as np
import pytest

import hilrt
from hilrt import RunOptions, compiled_step
from hilrt.compiled_step import CompiledSteps
from hilrt.fmu.solver import FmuSolver
from hilrt.master import Master
from hilrt.record.signals import CIRCUMSTANCES
from hilrt.replay.replay import replay
from hilrt.timing.timeline import STAGES
from hilrt.warm_up import warm_up
from tests.fmu.build import mass, needs_compiler
from tests.fmu.driving import trace

pytestmark = needs_compiler

SESSION = """
[session]
name = "two_masses"
duration = {duration}
pace = "asap"
[master]
step = 1e-3
extrapolation = {{ order = {order} }}
{master}
[reliability]
connection_defect = {limit}
[subsystems.first]
adapter = "fmu"
fmu = "{path}"
params = {{ v = 100.0, F = 0.0, fault = {faults[0]}, micro = {micro} }}
{first}
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
#: Begins late enough for leaps.
LATE = ("-DLATE=0.1",)


@pytest.fixture
def leaps(monkeypatch):
    """Steps of every leap; ``leaps.clear()`` begins anew."""
    made = []
    run = CompiledSteps.run

    def counted(self, block, pace):
        ran = run(self, block, pace)
        if ran.steps:
            made.append(ran.steps)
        return ran

    monkeypatch.setattr(CompiledSteps, "run", counted)
    return made


#: Of `SESSION`.
DEFAULTS = {
    "duration": 2.3,
    "order": 0,
    "limit": 0.1,
    "faults": (0, 0),
    "micro": 1e-3,
    **dict.fromkeys(("master", "first", "second", "bond"), ""),
}


def run(folder, *, path=None, record=True, **how):
    folder.mkdir(exist_ok=True)
    file = folder / "session.toml"
    file.write_text(SESSION.format(path=path or mass(2), **(DEFAULTS | how)))
    options = RunOptions(out=folder, record=record)
    return hilrt.run_session(hilrt.load_session(file), options)


def step_by_step(monkeypatch):
    monkeypatch.setattr("hilrt.session.session.can_leap", lambda *_: False)


def assert_same(one, other):
    """Two logs, but for what depends on the clock."""
    one, other = hilrt.load_log(one.folder), hilrt.load_log(other.folder)
    assert list(one) == list(other)
    for name in one:
        if name.rpartition(":")[2] not in CIRCUMSTANCES:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
            np.testing.assert_array_equal(one.time_ns(name), other.time_ns(name))
    told = [[(e.t, e.cause, e.source) for e in log.events if e.t > 0.0] for log in (one, other)]
    assert told[0] == told[1]


CASES = {
    "held inputs": {},
    "polynomials": {"order": 2},
    "a corrected bond": {"order": 1, "bond": BOND},
    "flags that come and go": {"order": 0, "limit": 0.01, "bond": BOND},
    "limits": {"second": "inputs.F = { min = -150.0, max = 150.0, max_rate = 4000.0 }"},
}


@pytest.mark.parametrize("what", CASES)
def test_a_leap_decides_as_single_steps_do(what, leaps, tmp_path, monkeypatch):
    leapt = run(tmp_path / "leapt", **CASES[what])
    assert not leapt.fault
    assert sum(leaps) > 0.7 * leapt.summary["steps"], "there were none to speak of"
    assert replay(leapt.folder).identical
    leaps.clear()
    step_by_step(monkeypatch)
    stepped = run(tmp_path / "stepped", **CASES[what])
    assert not leaps
    assert_same(leapt, stepped)
    for key in ("steps", "step_size_s", "ports", "bonds", "flags", "verdict", "reasons"):
        assert leapt.summary[key] == stepped.summary[key]


def test_the_times_of_every_step_are_in_the_log(leaps, tmp_path):
    log = hilrt.load_log(run(tmp_path, duration=0.5).folder)
    leapt = {name: log[f"master:{name}"][100:] for name in ("compute", "lateness", *STAGES)}
    assert max(leaps) > 100
    assert min(values.min() for values in leapt.values()) == 0.0
    for name in ("cut", "macro_step", "slack"):
        assert (leapt[name] > 0.0).mean() > 0.9
    np.testing.assert_allclose(
        leapt["cut"] + leapt["macro_step"] + leapt["dispatch"], leapt["compute"]
    )
    solvers = log["first:compute"][100:] + log["second:compute"][100:]
    assert (leapt["slack"][1:] >= solvers[1:] - 1e-3).all(), "they are part of the slack before"


def test_nothing_is_compiled_when_it_has_begun(leaps, tmp_path):
    warm_up(leaps=True)
    before = list(compiled_step._run.signatures)
    assert len(before) == 1
    run(tmp_path, duration=0.2, order=2, bond=BOND)
    assert leaps
    assert compiled_step._run.signatures == before


def test_the_fmus_see_the_same_calls(leaps, tmp_path, monkeypatch):
    seen = []
    stop = FmuSolver.stop
    monkeypatch.setattr(FmuSolver, "stop", lambda s, why: (seen.append(trace(s)), stop(s, why)))
    run(tmp_path / "leapt", duration=0.2)
    assert leaps
    step_by_step(monkeypatch)
    run(tmp_path / "stepped", duration=0.2)
    assert seen[0] == seen[2]
    assert any(call.startswith("step(0.1,0.001") for call in seen[0])


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
def test_what_an_fmu_answers_has_the_same_consequences(fault, leaps, tmp_path, monkeypatch):
    number, who, message = FAULTS[fault]
    faults = (number, 0) if who == 0 else (0, number)
    how = {"path": mass(2, flags=LATE), "faults": faults, "duration": 0.13}
    leapt = run(tmp_path / "leapt", **how)
    assert leaps
    step_by_step(monkeypatch)
    stepped = run(tmp_path / "stepped", **how)
    assert leapt.fault == stepped.fault
    assert bool(leapt.fault) == (message is not None)
    if message is not None:
        assert re.search(message, leapt.fault)
        assert ["'first'", "'second'"][who] in leapt.fault
    assert leapt.exit_status == stepped.exit_status
    assert_same(leapt, stepped)


@pytest.mark.parametrize(
    "how",
    [
        {"first": "every = 2"},
        {"second": "late = { policy = 'hold' }\nsubsteps = 2"},
        {"first": "outputs = ['force', 'x', 'v']\nhalf_steps = true"},
        {"master": 'step_control = { method = "local", rtol = 1e-3, maximum = 2e-3 }'},
        {"bond": '[[alarms]]\nsignal = "first.v"\nmax = 1e6'},
    ],
)
def test_what_only_single_steps_know_is_left_to_them(how, leaps, tmp_path):
    result = run(tmp_path, duration=0.2, **how)
    assert not result.fault
    assert not leaps


def test_without_a_log(leaps, tmp_path):
    result = run(tmp_path, record=False, duration=0.5)
    assert not result.fault
    assert result.summary["steps"] == 500
    assert leaps


def test_it_ends_when_asked_to(leaps, tmp_path, monkeypatch):
    leap = Master._leap

    def asking(master, *how):
        steps = leap(master, *how)
        if len(leaps) == 20:
            master.request_stop("enough")
        return steps

    monkeypatch.setattr(Master, "_leap", asking)
    result = run(tmp_path, duration=100.0)
    assert not result.fault
    assert len(leaps) == 20
    log = hilrt.load_log(result.folder)
    assert len(log.t) == result.summary["steps"]


def test_others_have_their_turn_meanwhile(leaps, tmp_path):
    """What takes long in an FMU ends a leap after some milliseconds."""
    run(tmp_path, duration=0.3, micro=1e-8)
    assert len(leaps) > 10
    assert max(leaps) < 50
