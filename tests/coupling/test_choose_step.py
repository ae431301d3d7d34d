"""The step that begins: from a discontinuity back to the grid, in whole nanoseconds."""

import numpy as np
import pytest

from hilrt.coupling.choose_step import choose_step, whole_ns
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables.record import cloned
from tests.stepping import make_numerics

METHODS = [
    {"method": "pi", "tolerance": 0.1},
    {"method": "local", "atol": 0.1},
    {"method": "ecco", "rtol": 0.1},
]


def controlled(step_control):
    """Numerics of a power bond whose step is controlled, 1 s after the start."""
    numerics = make_numerics(
        {
            "a": Ports((Port("f", "m/s"),), (Port("e", "N"),)),
            "b": Ports((Port("e", "N"),), (Port("f", "m/s"),)),
        },
        master={"step": 1e-3, "step_control": step_control},
        connections=[{"from": "a.e", "to": "b.e"}, {"from": "b.f", "to": "a.f"}],
        bonds=[{"name": "shaft", "effort": "a.e", "flow": "b.f"}],
    )
    numerics.given.session["t"], numerics.given.session["elapsed"] = 1.0, 1e-3
    return numerics


@pytest.mark.parametrize("step_control", METHODS, ids=lambda table: table["method"])
@pytest.mark.parametrize(("rest", "h"), [(5e-3, 2e-3), (0.7e-3, 0.7e-3)])
def test_from_a_discontinuity_the_step_leads_back_to_the_grid(step_control, rest, h):
    numerics = controlled(step_control)
    numerics.given.session["rest"] = rest
    numerics.state.session["controlled_step"] = 2e-3  # which has grown since the first step
    before = cloned(numerics.state)
    choose_step(numerics.plan, numerics.state, numerics.given)
    assert numerics.h_next == pytest.approx(h, abs=0.5e-9)
    before.session["h_next"] = numerics.h_next
    for old, new in zip(before[:-1], numerics.state[:-1], strict=True):
        assert old.tobytes() == new.tobytes()  # no control acts on a shortened step


@pytest.mark.parametrize("step_control", METHODS, ids=lambda table: table["method"])
def test_the_first_step_is_the_one_it_starts_with(step_control):
    numerics = controlled({**step_control, "initial": 3e-4})
    numerics.given.session["t"] = numerics.given.session["elapsed"] = 0.0
    choose_step(numerics.plan, numerics.state, numerics.given)
    assert numerics.h_next == 3e-4
    assert np.isnan(numerics.state.session["error"][0])


@pytest.mark.parametrize("step_control", METHODS, ids=lambda table: table["method"])
def test_a_step_without_error_is_followed_by_one_twice_as_long(step_control):
    numerics = controlled(step_control)
    choose_step(numerics.plan, numerics.state, numerics.given)
    assert numerics.h_next == pytest.approx(2e-3)


def test_steps_are_whole_nanoseconds_and_at_least_one():
    assert whole_ns(1.23456789649e-3) == 1234568 * 1e-9
    assert whole_ns(1e-12) == 1e-9
    assert round(whole_ns(0.1) * 1e9) == 100_000_000


@pytest.mark.parametrize("step_control", METHODS, ids=lambda table: table["method"])
@pytest.mark.parametrize(("elapsed", "longer"), [(5e-9, True), (3e-9, False)])
def test_a_step_shortened_to_a_break_makes_the_next_one_no_longer(step_control, elapsed, longer):
    """Of 5.4 ns, which is 5 ns where nothing has shortened it."""
    numerics = controlled({**step_control, "initial": 5.4e-9})
    numerics.given.session["elapsed"] = elapsed
    choose_step(numerics.plan, numerics.state, numerics.given)
    assert numerics.h_next == pytest.approx(11e-9 if longer else 5e-9, abs=1e-12)
