"""A bouncing ball: event mode and early return find the impact; without them it is seen late."""

import math

import numpy as np
import pytest

from hilrt.fmu.solver import FmuSolver
from hilrt.solver import InputPolynomial, Port
from tests.fmu.build import mass, needs_compiler
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
        events += sample.info.get("events", [])
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
    solver = FmuSolver(mass(3, **EVENTS), params=BALL, outputs=["x", "v"])
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
    solver = FmuSolver(path, params=BALL, outputs=["x", "v"], events=not offered)
    events, points = fall(solver)
    assert events == []
    jumps = np.diff(points[:, 2]) + G * STEP
    assert np.abs(jumps).max() == pytest.approx((1 + RESTITUTION) * G * IMPACT, rel=1e-6)


@needs_compiler
@pytest.mark.parametrize("told", [True, False])
def test_who_cannot_stop_at_the_impact_is_flagged(told):
    """The other side extrapolates across the jump, whether or not the ball knows its time."""
    solver = FmuSolver(mass(3, **EVENTS), params=BALL, outputs=["v"], events=told)
    s = Stepping(
        {"ball": solver, "bench": Recorded({"y": lambda t: 0.0}, [Port("v", "m/s")])},
        master={"step": STEP, "extrapolation": {"order": 1}},
        subsystems={"ball": {}, "bench": {}},
        connections=[{"from": "ball.v", "to": "bench.v"}],
    )
    flag = ("connection_defect", "bench.v")
    raised = s.run(1.0, lambda s: (s.t, flag in s.state.monitor.active_flags()))
    solver.stop("done")
    times = [t for t, up in raised if up]
    assert times
    assert IMPACT < times[0] <= IMPACT + 2 * STEP
