"""An operator's changes: asked for at any time, acting at a cut, a few at a time."""

import pytest

from hilrt.step.changes import Changes
from hilrt.tables.given import CHANGES
from tests.step_log.test_signals import two_mass


@pytest.fixture
def s():
    return two_mass()


def test_a_change_acts_at_the_next_step_and_at_no_other(s):
    changes, bond, session = Changes(s.network), s.state.bonds[0], s.state.session[0]
    before = bond.cap_abs, session.power_residual
    changes.add("bonds.spring.cap", 0.25)
    changes.add("reliability.tracking", 0.5)
    assert bond.cap == 1.0
    changes.put_into(s.given)
    assert changes.recorded(s.given) == [("bonds.spring.cap", 0.25), ("reliability.tracking", 0.5)]
    s.look()
    assert (bond.cap, session.tracking) == (0.25, 0.5)
    assert (bond.cap_abs, session.power_residual) == before
    changes.put_into(s.given)
    assert changes.recorded(s.given) == []
    bond.cap = 0.75
    s.look()
    assert bond.cap == 0.75


def test_every_number_finds_its_place_and_its_name(s):
    changes = Changes(s.network)
    numbers = [
        f"reliability.{key}"
        for key in ("connection_defect", "output_defect", "power_residual", "tracking")
    ]
    numbers += ["bonds.spring.cap", "bonds.spring.cap_abs"]
    values = [0.125 * (i + 1) for i in range(len(numbers))]
    for number, value in zip(numbers, values, strict=True):
        changes.add(number, value)
    changes.put_into(s.given)
    assert changes.recorded(s.given) == list(zip(numbers, values, strict=True))
    s.look()
    assert [changes.present_number(s.state, number) for number in numbers] == values


def test_more_than_fit_wait_in_their_order(s):
    changes = Changes(s.network)
    wanted = [("bonds.spring.cap", 0.5 - 0.01 * i) for i in range(CHANGES + 3)]
    for change in wanted:
        changes.add(*change)
    assert changes.present_number(s.state, "bonds.spring.cap") == wanted[-1][1]
    changes.put_into(s.given)
    assert changes.recorded(s.given) == wanted[:CHANGES]
    s.look()
    assert s.state.bonds[0].cap == wanted[CHANGES - 1][1]
    changes.put_into(s.given)
    assert changes.recorded(s.given) == wanted[CHANGES:]
    s.look()
    assert s.state.bonds[0].cap == wanted[-1][1]
    assert not changes.pending


def test_what_is_no_number_of_the_session_is_an_error(s):
    changes = Changes(s.network)
    for number in ("reliability.step", "bonds.shaft.cap", "bonds.spring.mu", "__class__"):
        with pytest.raises(ValueError, match="not in"):
            changes.present_number(s.state, number)
