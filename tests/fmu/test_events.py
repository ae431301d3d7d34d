"""A bouncing ball: event mode and early return find the impact; without them it is seen late."""

import json
import math

import numpy as np
import pytest

import hilrt
from hilrt import RunOptions
from hilrt.check.check import check_file
from hilrt.reliability.flags import active_flags
from hilrt.solver import InputPolynomial, Port
from tests.exchange.test_event_points import Integral
from tests.fmu.build import mass, needs_compiler
from tests.fmu.driving import fmu_solver
from tests.stepping import Recorded, Stepping

G, HEIGHT, RESTITUTION = 9.81, 1.0, 0.8
IMPACT = math.sqrt(2 * HEIGHT / G)
STEP = 0.01
BALL = {"g": G, "x": HEIGHT, "e": RESTITUTION, "micro": STEP, "k": 0.0, "kc": 0.0}
BALL |= {"F": 0.0, "x2": 0.0, "v2": 0.0}
EVENTS = {"hasEventMode": "true", "mightReturnEarlyFromDoStep": "true"}


def fall(solver, duration=1.0):
    """Times of events, and (t, x, v) at the communication points."""
    solver.initialize(0.0, np.zeros(0))
    events, points = [], []
    for i in range(round(duration / STEP)):
        t = i * STEP
        sample = solver.advance(t, STEP, InputPolynomial(t, np.zeros((1, 0))))
        events += [] if sample.event_t is None else [sample.event_t]
        points.append((t + STEP, sample.y[0], sample.y[1]))
    solver.stop("done")
    return events, np.array(points)


def height(t):
    """Exact position of the ball up to its second impact."""
    if t <= IMPACT:
        return HEIGHT - G * t**2 / 2
    after = t - IMPACT
    return RESTITUTION * G * IMPACT * after - G * after**2 / 2


@needs_compiler
def test_event_mode_finds_the_impact():
    solver = fmu_solver(mass(3, **EVENTS), params=BALL, outputs=["x", "v"])
    events, points = fall(solver)
    second = IMPACT * (1 + 2 * RESTITUTION)
    assert events == pytest.approx([IMPACT], abs=1e-6) or events == pytest.approx(
        [IMPACT, second], abs=1e-6
    )
    before = points[points[:, 0] < second]
    np.testing.assert_allclose(before[:, 1], [height(t) for t in before[:, 0]], atol=1e-9)


@needs_compiler
@pytest.mark.parametrize("why", ["not offered", "switched off"])
def test_without_it_the_impact_is_not_told(why):
    offered = why == "switched off"
    path = mass(3, **(EVENTS if offered else {}))
    solver = fmu_solver(path, params=BALL, outputs=["x", "v"], events=not offered)
    events, points = fall(solver)
    assert events == []
    jumps = np.diff(points[:, 2]) + G * STEP
    assert np.abs(jumps).max() == pytest.approx((1 + RESTITUTION) * G * IMPACT, rel=1e-6)


@needs_compiler
@pytest.mark.parametrize("told", [True, False])
def test_who_cannot_stop_at_the_impact_is_flagged(told):
    """The other side extrapolates across the jump, whether or not the ball knows its time."""
    solver = fmu_solver(mass(3, **EVENTS), params=BALL, outputs=["v"], events=told)
    s = Stepping(
        {"ball": solver, "bench": Recorded({"y": lambda t: 0.0}, [Port("v", "m/s")])},
        master={"step": STEP, "extrapolation": {"order": 1}},
        subsystems={"ball": {}, "bench": {}},
        connections=[{"from": "ball.v", "to": "bench.v"}],
    )
    flag = ("connection_defect", "bench.v")
    raised = s.run(1.0, lambda s: (s.t, flag in active_flags(s.numerics.checks, s.state)))
    solver.stop("done")
    times = [t for t, up in raised if up]
    assert times
    assert IMPACT < times[0] <= IMPACT + 2 * STEP


class Place(Integral):
    """Where something is that moves at the given speed."""

    inputs = (Port("u", "m/s"),)
    outputs = (Port("x", "m"), Port("through", "m/s", feedthrough=("u",)))


def session(path, hosted):
    """A ball that gives its speed to an integrator, which has its place."""
    ball = f'adapter = "fmu"\nfmu = "{path}"\nparams = {toml(BALL)}\noutputs = ["v"]'
    if hosted:
        argv = ["hilrt", "solver", str(path), "--option", 'outputs=["v"]']
        argv += [word for key, value in BALL.items() for word in ("--param", f"{key}={value}")]
        ball = f'adapter = "zeromq"\nspawn = {json.dumps(argv)}'
    return f"""
[session]
name = "ball"
duration = 0.6
pace = "asap"
[master]
step = {STEP}
[subsystems.ball]
{ball}
[subsystems.other]
adapter = "inprocess"
model = "tests.fmu.test_events:Place"
[[connections]]
from = "ball.v"
to = "other.u"
order = 1
"""


def toml(params):
    return "{ " + ", ".join(f"{key} = {value}" for key, value in params.items()) + " }"


@needs_compiler
@pytest.mark.parametrize("hosted", [False, True])
def test_the_impact_is_a_communication_point_of_the_session(tmp_path, hosted):
    path = mass(3, canGetAndSetFMUState="true", **EVENTS)
    file = tmp_path / "session.toml"
    file.write_text(session(path, hosted))
    result = hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=tmp_path))
    assert not result.fault, result.fault
    assert "event_inside_step" not in result.summary["flags"]
    log = hilrt.load_log(result.folder)
    at = np.flatnonzero(log["ball:event"] == 1.0)
    assert log.t[at] == pytest.approx([IMPACT], abs=1e-6)
    assert log["ball.v"][at] == pytest.approx([RESTITUTION * G * IMPACT], rel=1e-6)
    assert len(log.t) == 62
    # Held for one step after the impact, and of order 1 otherwise, which is exact here.
    held = STEP * math.ceil(IMPACT / STEP) - IMPACT
    missed = 0.5 * G * held**2 + 0.5 * G * STEP**2  # at the start, too
    assert log["other.x"][-1] + HEIGHT == pytest.approx(height(0.6) + missed, abs=1e-6)


@needs_compiler
@pytest.mark.parametrize("hosted", [False, True])
def test_with_several_rates_the_impact_is_flagged_and_check_says_so(tmp_path, hosted):
    """There is no place between the communication points of the slow one."""
    text = session(mass(3, canGetAndSetFMUState="true", **EVENTS), hosted)
    file = tmp_path / "session.toml"
    file.write_text(text)
    assert [str(problem) for problem in check_file(file) if problem.level != "info"] == []
    file.write_text(text.replace("[subsystems.other]", "[subsystems.other]\nevery = 2"))
    (problem,) = check_file(file)
    assert (problem.level, problem.table, problem.key) == ("warning", "subsystems.other", "every")
    assert "events of ball inside a step do not become communication points" in str(problem)
    assert check_file(file, pace="realtime") == []  # there, no rate makes them one
    result = hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=tmp_path))
    assert not result.fault, result.fault
    assert "event_inside_step" in result.summary["flags"]


@needs_compiler
def test_outputs_are_brought_to_the_end_from_the_event_on():
    """The inputs were set at the event; the outputs lag behind by what came after it only."""
    flags = EVENTS | {"providesDirectionalDerivatives": "true"}
    params = {key: value for key, value in BALL.items() if key != "x2"} | {"x": 1e-5, "kc": 100.0}
    solver = fmu_solver(mass(3, **flags), params=params, outputs=["force", "x"])
    solver.initialize(0.0, np.zeros(1))
    sample = solver.advance(0.0, STEP, InputPolynomial(0.0, np.array([[0.0], [1.0]])))
    assert 0.0 < sample.event_t < STEP
    assert sample.y[0] == pytest.approx(100.0 * (sample.y[1] - STEP), abs=1e-9)
    solver.stop("done")
