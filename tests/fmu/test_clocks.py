"""Periodic clocks tick at their times inside a step; triggered ones are told; others are named."""

import logging
import math

import numpy as np
import pytest

from hilrt.check import check
from hilrt.config import load_session
from hilrt.fmu.clocks import Clock, ticks
from hilrt.fmu.description import read_fmu
from hilrt.fmu.info import page
from hilrt.fmu.solver import FmuSolver
from hilrt.solver import InputPolynomial
from tests.fmu.build import clocked, mass, needs_compiler
from tests.fmu.test_events import BALL, HEIGHT, IMPACT, G

STEP = 0.01
EVERY = 'intervalVariability="constant" intervalDecimal="0.004" shiftDecimal="0.003"'


def made(sample=EVERY, changed=(), **options):
    path = mass(3, xml=clocked(sample, **dict(changed)))
    return FmuSolver(path, params=BALL, outputs=["x", "sampled"], **options)


def clock(interval, shift=0.0, reference=1):
    return Clock("c", reference, "input", "constant", interval, shift)


def test_ticks_lie_in_the_step_that_begins_with_them():
    some = [clock(0.004, 0.003, 1), clock(0.01, 0.0, 2)]
    found = [ticks(some, 0.0, k * STEP, (k + 1) * STEP) for k in range(3)]
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
    assert ticks([clock(0.01, 0.0, 1), clock(0.005, 0.0, 2)], 5.0, 5.0, 5.001) == [(5.0, [1, 2])]


@pytest.mark.parametrize("interval", [1e-3, 1 / 3000, 0.0007])
@pytest.mark.parametrize("step", [1e-3, 0.0123])
def test_however_steps_are_cut_no_tick_is_lost_or_doubled(interval, step):
    times, t_ns, some = [], 0, [clock(interval)]
    while t_ns < 1_000_000_000:
        end_ns = t_ns + round(step * 1e9)
        t = t_ns * 1e-9
        inside = [at for at, _ in ticks(some, 0.0, t, end_ns * 1e-9) if at > t]
        if inside:  # an event point, up to a nanosecond later
            end_ns = math.ceil(inside[0] * 1e9)
        found = ticks(some, 0.0, t, end_ns * 1e-9)
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


CHANGING = 'intervalVariability="countdown"'


@needs_compiler
@pytest.mark.parametrize(
    ("sample", "changed", "options", "why"),
    [
        (CHANGING, {}, {}, "its interval is countdown"),
        ('intervalVariability="fixed"', {}, {}, "only periodic clocks with a stated interval"),
        (EVERY, {"hasEventMode": "false"}, {}, "no event mode"),
        (EVERY, {"canHandleVariableCommunicationStepSize": "false"}, {}, "one length only"),
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
    assert "sample  ticks every 0.004 s, first after 0.003 s, driven from here" in text
    assert "bounced  its ticks are events, and are logged" in text
    text = page(read_fmu(mass(3, xml=clocked(CHANGING))))
    assert "clock 'sample' is not driven: its interval is countdown" in text
    fraction = 'intervalVariability="constant" intervalCounter="1" resolution="250"'
    assert "ticks every 0.004 s" in page(read_fmu(mass(3, xml=clocked(fraction))))
