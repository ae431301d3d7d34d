from types import SimpleNamespace

import pytest

from hilrt.reliability.degradation import RECOVER_NS, Degradation
from hilrt.reliability.flags import FlagChange

ALARMS = SimpleNamespace(degrades=lambda name: name == "oil")


@pytest.fixture
def told():
    return []


@pytest.fixture
def degradation(told):
    followed = Degradation({"bench"}, ALARMS)
    followed.on_change = lambda *change: told.append(change)
    return followed


def note(degradation, cause, where, raised=True):
    degradation.note(FlagChange(0.0, cause, where, raised))


def test_late_samples_of_a_bench_degrade_until_all_has_been_calm_for_a_while(degradation, told):
    note(degradation, "sample_late", "bench")
    degradation.look(0)
    degradation.look(10)
    assert told == [(True, "samples of bench are late")]
    note(degradation, "sample_late", "bench", raised=False)
    degradation.look(10 + RECOVER_NS - 1)
    assert len(told) == 1
    degradation.look(10 + RECOVER_NS)
    assert told[1:] == [(False, "all is back")]


def test_so_does_a_value_of_a_bench_outside_its_declared_range(degradation, told):
    note(degradation, "out_of_range", "model.torque")
    degradation.look(0)
    assert told == []
    note(degradation, "out_of_range", "bench.speed")
    degradation.look(10)
    assert told == [(True, "bench.speed is outside its declared range")]


def test_a_second_reason_is_no_news_and_holds_it_up(degradation, told):
    note(degradation, "alarm", "oil")
    degradation.look(0)
    note(degradation, "sample_late", "bench")
    note(degradation, "alarm", "oil", raised=False)
    degradation.look(2 * RECOVER_NS)
    assert told == [(True, "alarm oil")]


@pytest.mark.parametrize(
    ("cause", "where"),
    [("sample_late", "model"), ("alarm", "water"), ("connection_defect", "bench")],
)
def test_other_flags_do_not(degradation, told, cause, where):
    note(degradation, cause, where)
    degradation.look(0)
    assert not told
