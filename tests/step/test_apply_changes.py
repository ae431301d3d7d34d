"""An operator's changes act from their tick on."""

import pytest

from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.step.apply_changes import apply_changes
from hilrt.tables.given import BOND_SETTINGS, THRESHOLDS
from tests.stepping import make_numerics


@pytest.fixture
def numerics():
    """Two power bonds between two subsystems."""
    efforts = tuple(Port(f"e{i}", "N") for i in (1, 2))
    flows = tuple(Port(f"f{i}", "m/s") for i in (1, 2))
    ways = [(f"a.e{i}", f"b.e{i}") for i in (1, 2)] + [(f"b.f{i}", f"a.f{i}") for i in (1, 2)]
    return make_numerics(
        {"a": Ports(flows, efforts), "b": Ports(efforts, flows)},
        connections=[{"from": a, "to": b} for a, b in ways],
        bonds=[{"name": f"p{i}", "effort": f"a.e{i}", "flow": f"b.f{i}"} for i in (1, 2)],
    )


def change(numerics, *rows):
    """Apply changes, as (what, row, value)."""
    numerics.given.session["changes"] = len(rows)
    for record, row in zip(numerics.given.changes, rows, strict=False):
        record.what, record.row, record.value = row
    apply_changes(numerics.plan, numerics.state, numerics.given)


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_threshold_is_set_and_the_others_stay(numerics, name):
    before = {key: numerics.state.session[key][0] for key in THRESHOLDS}
    change(numerics, (THRESHOLDS.index(name), -1, 7.5))
    after = {key: numerics.state.session[key][0] for key in THRESHOLDS}
    assert after == {**before, name: 7.5}


@pytest.mark.parametrize("name", BOND_SETTINGS)
def test_a_setting_is_that_of_one_bond(numerics, name):
    before = numerics.state.bonds[name][0]
    change(numerics, (BOND_SETTINGS.index(name), 1, 0.25))
    found = 1 if name == "contradicted" else 0.25  # a mark, the others are numbers
    assert numerics.state.bonds[name].tolist() == [before, found]


def test_the_last_of_several_changes_counts_and_no_more_than_there_are(numerics):
    cap = BOND_SETTINGS.index("cap")
    change(numerics, (cap, 0, 0.1), (cap, 0, 0.2))
    assert numerics.state.bonds["cap"][0] == 0.2
    numerics.given.changes[0].value = 0.9
    change(numerics)
    assert numerics.state.bonds["cap"][0] == 0.2
