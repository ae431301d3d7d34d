"""Clocks tick at their times inside a step, or when others say; those that do not are named."""

import logging
import math
from copy import deepcopy

import numpy as np
import pytest

import hilrt
from hilrt import RunOptions
from hilrt.check.check import check
from hilrt.config.session_file import load_session
from hilrt.errors import SolverError
from hilrt.fmu.clocks import Schedule
from hilrt.fmu.description import read_fmu
from hilrt.fmu.info import page
from hilrt.solver import InputPolynomial
from tests.fmu.build import clocked, mass, needs_compiler
from tests.fmu.driving import fmu_solver
from tests.fmu.test_events import BALL, HEIGHT, IMPACT, RESTITUTION, G, height, toml

STEP = 0.01
EVERY = 'intervalVariability="constant" intervalDecimal="0.004" shiftDecimal="0.003"'


def made(sample=EVERY, changed=(), outputs=("x", "sampled"), params=(), trigger=False, **options):
    path = mass(3, xml=clocked(sample, trigger, **dict(changed)))
    params = BALL | {"demand": 0.0} | dict(params) if params else BALL
    return fmu_solver(path, params=params, outputs=list(outputs), **options)


def place(t):
    """Of the ball before its first impact."""
    return HEIGHT - G * t**2 / 2


def fall(solver, end, h=STEP, begin=0.0):
    """Outputs after each step, and times of events; without inputs."""
    rows, events = [], []
    for k in range(round(begin / h), round(end / h)):
        sample = solver.advance(k * h, h, InputPolynomial(k * h, np.zeros((1, 0))))
        rows.append(sample.y)
        events += [] if sample.event_t is None else [sample.event_t]
    return np.array(rows), events


def taken(schedule, begin, end):
    """The ticks of a step ``[begin, end)``: times, and who."""
    found, t = [], begin
    while True:
        t, who = schedule.next(t, end)
        if not who:
            return found
        schedule.ticked(who)
        found.append((t, who))


def test_ticks_lie_in_the_step_that_begins_with_them():
    schedule = Schedule()
    schedule.every(1, 0.003, 0.004)
    schedule.every(2, 0.0, 0.01)
    found = [taken(schedule, k * STEP, (k + 1) * STEP) for k in range(3)]
    flat = [(pytest.approx(t), refs) for step in found for t, refs in step]
    assert flat == [
        (0.0, [2]),
        (0.003, [1]),
        (0.007, [1]),
        (0.01, [2]),
        (0.011, [1]),
        (0.015, [1]),
        (0.019, [1]),
        (0.02, [2]),
        (0.023, [1]),
        (0.027, [1]),
    ]
    together = Schedule()
    together.every(1, 5.0, 0.01)
    together.every(2, 5.0, 0.005)
    assert taken(together, 5.0, 5.001) == [(5.0, [1, 2])]


def test_a_clock_without_an_interval_ticks_once_and_may_be_put_off():
    schedule = Schedule()
    schedule.at(7, 0.5)
    assert taken(schedule, 0.0, 0.4) == []
    schedule.at(7, 0.6)
    assert taken(schedule, 0.4, 1.0) == [(0.6, [7])]
    assert taken(schedule, 1.0, 9.0) == []


@pytest.mark.parametrize("interval", [1e-3, 1 / 3000, 0.0007])
@pytest.mark.parametrize("step", [1e-3, 0.0123])
def test_however_steps_are_cut_no_tick_is_lost_or_doubled(interval, step):
    times, t_ns, schedule = [], 0, Schedule()
    schedule.every(1, 0.0, interval)
    while t_ns < 1_000_000_000:
        end_ns = t_ns + round(step * 1e9)
        t = t_ns * 1e-9
        inside = [at for at, _ in taken(deepcopy(schedule), t, end_ns * 1e-9) if at > t]
        if inside:  # an event point, up to a nanosecond later
            end_ns = math.ceil(inside[0] * 1e9)
        found = taken(schedule, t, end_ns * 1e-9)
        assert all(at == t for at, _ in found)
        times += [at for at, _ in found]
        t_ns = end_ns
    np.testing.assert_allclose(times, interval * np.arange(len(times)), atol=2e-9)
    assert len(times) >= math.floor(1.0 / interval)


@needs_compiler
def test_a_periodic_clock_samples_at_its_times():
    solver = made()
    solver.initialize(0.0, np.zeros(1))
    demand = np.array([[10.0], [1.0]])
    sample = solver.advance(0.0, STEP, InputPolynomial(0.0, demand))
    # The last tick before the end is at 0.007; it takes place and input of then, held or not.
    assert sample.y[1] == pytest.approx(HEIGHT - G * 0.007**2 / 2 + 10.0, abs=1e-9)
    assert sample.event_t == pytest.approx(0.003)
    assert sample.y[0] == pytest.approx(HEIGHT - G * STEP**2 / 2, abs=1e-9)
    # Cut at its tick, the step has none left, and the next one begins with it.
    sample = solver.advance(STEP, 1e-3, InputPolynomial(STEP, demand))
    assert sample.event_t is None
    sample = solver.advance(0.011, 1e-3, InputPolynomial(0.011, 2 * demand))
    assert sample.event_t is None
    assert sample.y[1] == pytest.approx(HEIGHT - G * 0.011**2 / 2 + 20.0, abs=1e-9)
    solver.stop("done")


@needs_compiler
def test_ticks_of_output_clocks_are_logged(caplog):
    caplog.set_level(logging.INFO, "hilrt.fmu")
    solver = made()
    solver.initialize(0.0, np.zeros(1))
    solver.advance(0.0, 0.5, InputPolynomial(0.0, np.zeros((1, 1))))
    solver.stop("done")
    assert f"clock bounced ticks at {IMPACT:.6f}"[:-1] in caplog.text
    assert "clock bounced ticked 1 times" in caplog.text


TRIGGERED = 'intervalVariability="triggered"'
CHANGING, COUNTDOWN = (f'intervalVariability="{kind}"' for kind in ("changing", "countdown"))
#: `timing` of the FMU in C: what it says of the interval.
AFTER_IMPACT, GROWING, SAME, BACKWARD, AT_ONCE = ({"timing": n} for n in range(1, 6))


@needs_compiler
def test_an_interval_that_is_not_described_is_asked_for():
    solver = made('intervalVariability="fixed"', params={"timing": 0})
    solver.initialize(0.0, np.zeros(0))
    rows, events = fall(solver, 0.02)
    assert events == pytest.approx([0.003, 0.011])
    assert rows[:, 1] == pytest.approx([place(0.007), place(0.019)], abs=1e-9)
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize(
    ("params", "ticks"), [(GROWING, [0.01, 0.03, 0.06, 0.1]), (SAME, [0.02, 0.04, 0.06, 0.08, 0.1])]
)
def test_a_changing_clock_is_asked_after_each_of_its_ticks(params, ticks):
    solver = made(CHANGING, params=params)
    solver.initialize(0.0, np.zeros(0))
    rows, events = fall(solver, 0.119, h=0.007)
    assert events == pytest.approx(ticks)
    last = [max((t for t in ticks if t < end), default=None) for end in 0.007 * np.arange(1, 18)]
    expected = [0.0 if t is None else place(t) for t in last]
    assert rows[:, 1] == pytest.approx(expected, abs=1e-9)
    solver.stop("done")


@needs_compiler
def test_a_countdown_begins_at_an_event_and_belongs_to_the_state():
    solver = made(COUNTDOWN, {"canGetAndSetFMUState": "true"}, params=AFTER_IMPACT)
    solver.initialize(0.0, np.zeros(0))
    rows, events = fall(solver, 0.5)
    assert not rows[:, 1].any()
    state = solver.save_state()
    rows, again = fall(solver, 0.6, begin=0.5)
    assert events + again == pytest.approx([IMPACT, IMPACT + 0.1], abs=1e-9)
    assert rows[-1, 1] == pytest.approx(height(IMPACT + 0.1), abs=1e-9)
    assert rows[0, 1] == 0.0
    for _ in range(2):
        solver.restore_state(state)
        repeated, _ = fall(solver, 0.6, begin=0.5)
        assert repeated.tolist() == rows.tolist()
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (BACKWARD, r"clock 'sample' has an interval of -1 s"),
        (AT_ONCE, "over 1000 events and ticks"),
    ],
)
def test_intervals_that_cannot_be(params, message):
    solver = made(CHANGING, params=params)
    solver.initialize(0.0, np.zeros(0))
    with pytest.raises(SolverError, match=message):
        fall(solver, STEP)
    solver.stop("failed")


# -- clocks as ports -------------------------------------------------------------------------------


@needs_compiler
def test_an_output_clock_counts_its_ticks_and_what_it_clocks_is_read_then():
    solver = made(params={"timing": 0}, outputs=["bounced", "struck"])
    assert solver.initialize(0.0, np.zeros(0)).y.tolist() == [0.0, 0.0]
    rows, _ = fall(solver, 1.2)
    ends = STEP * np.arange(1, 121)
    second = IMPACT * (1 + 2 * RESTITUTION)
    assert rows[:, 0].tolist() == [float(sum(t < end for t in (IMPACT, second))) for end in ends]
    assert rows[-1, 1] == pytest.approx(-RESTITUTION * G * IMPACT)
    solver.stop("done")


@needs_compiler
def test_a_triggered_clock_ticks_when_its_input_changes():
    solver = made(params={"timing": 0}, trigger=True, outputs=["caught"])
    assert [port.name for port in solver.inputs] == ["trigger"]
    solver.initialize(0.0, np.array([3.0]))  # what it begins with is no tick
    caught = []
    for k, count in enumerate((3.0, 4.0, 4.4, 0.0)):
        u = InputPolynomial(k * STEP, np.array([[count], [1000.0]]))  # and no slope makes ticks
        caught.append(solver.advance(k * STEP, STEP, u).y[0])
    expected = [0.0, place(STEP), place(STEP), place(3 * STEP)]
    assert caught == pytest.approx(expected, abs=1e-9)
    solver.stop("done")


@needs_compiler
def test_an_output_clock_triggers_another_fmu_at_its_time(tmp_path):
    path = mass(3, xml=clocked(EVERY, trigger=True, canGetAndSetFMUState="true"))
    common = BALL | {"demand": 0.0}
    file = tmp_path / "session.toml"
    file.write_text(
        f"""
[session]
name = "clocks"
duration = 0.6
pace = "asap"
[master]
step = {STEP}
[subsystems.one]
adapter = "fmu"
fmu = "{path}"
params = {toml(common)}
outputs = ["bounced"]
inputs.trigger.start = 0.0
[subsystems.two]
adapter = "fmu"
fmu = "{path}"
params = {toml(common | {"x": 2.0})}
outputs = ["caught", "x"]
[[connections]]
from = "one.bounced"
to = "two.trigger"
order = 0
"""
    )
    result = hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=tmp_path))
    assert not result.fault, result.fault
    log = hilrt.load_log(result.folder)
    assert sorted(set(np.round(log["two.caught"], 9))) == pytest.approx([0.0, 1.0], abs=1e-7)
    assert log["one.bounced"][-1] == 1.0
    assert "event_inside_step" not in result.summary["flags"]


@needs_compiler
def test_check_names_a_triggered_clock_that_nothing_triggers(tmp_path):
    path = mass(3, xml=clocked(EVERY, trigger=True))
    file = tmp_path / "session.toml"
    file.write_text(
        '[session]\nname = "s"\nduration = 1.0\npace = "asap"\n[master]\nstep = 0.01\n'
        f'[subsystems.ball]\nadapter = "fmu"\nfmu = "{path}"\n'
        f"params = {toml(BALL | {'demand': 0.0})}\n"
    )
    found = [str(p) for p in check(load_session(file)) if p.level == "error"]
    assert len(found) == 1
    assert "input ball.trigger is not connected" in found[0]


# -- those that are not driven ---------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("sample", "changed", "options", "why"),
    [
        ("", {}, {}, "its intervalVariability is ''"),
        (CHANGING, {"hasEventMode": "false"}, {}, "no event mode"),
        (TRIGGERED, {"hasEventMode": "false"}, {}, "no event mode"),
        (TRIGGERED, {}, {"events": False}, "events = false"),
        (EVERY, {"hasEventMode": "false"}, {}, "no event mode"),
        (EVERY, {"canHandleVariableCommunicationStepSize": "false"}, {}, "cannot vary its step"),
        (EVERY, {}, {"events": False}, "events = false"),
    ],
)
def test_clocks_that_are_not_driven_are_named(tmp_path, sample, changed, options, why):
    solver = made(sample, changed, **options)
    (remark,) = solver.remarks
    assert "clock 'sample' is not driven" in remark
    assert why in remark
    solver.initialize(0.0, np.zeros(1))
    y = solver.advance(0.0, STEP, InputPolynomial(0.0, np.ones((1, 1)))).y
    assert y[1] == 0.0  # and nobody has set the clocked input, which the FMU would refuse
    solver.stop("done")
    file = tmp_path / "session.toml"
    lines = [f"{key} = {str(value).lower()}" for key, value in options.items()]
    file.write_text(
        '[session]\nname = "s"\nduration = 1.0\npace = "asap"\n[master]\nstep = 0.01\n'
        f'[subsystems.ball]\nadapter = "fmu"\nfmu = "{solver.fmu.path}"\n' + "\n".join(lines)
    )
    found = [str(p) for p in check(load_session(file)) if p.level == "warning"]
    assert any("clock 'sample' is not driven" in text for text in found)


@needs_compiler
def test_the_page_says_what_clocks_do():
    text = page(read_fmu(mass(3, xml=clocked(EVERY))))
    assert "sample   ticks every 0.004 s, first after 0.003 s, driven from here" in text
    assert "bounced  an output: the number of its ticks, which are events" in text
    text = page(read_fmu(mass(3, xml=clocked(COUNTDOWN, trigger=True))))
    assert "sample   ticks at times that the FMU gives, driven from here" in text
    assert "trigger  an input, ticks whenever its number changes" in text
    assert "trigger  Clock, a number of ticks, start 0" in text
    text = page(read_fmu(mass(3, xml=clocked(EVERY, hasEventMode="false"))))
    assert "sample   is not driven: the FMU has no event mode" in text
    assert "bounced  is not used" in text
    text = page(read_fmu(mass(3, xml=clocked('intervalVariability="fixed"'))))
    assert "ticks at an interval that the FMU gives at its start" in text
    fraction = 'intervalVariability="constant" intervalCounter="1" resolution="250"'
    assert "ticks every 0.004 s" in page(read_fmu(mass(3, xml=clocked(fraction))))
