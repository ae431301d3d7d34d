from types import SimpleNamespace

import pytest

from hilrt.reliability.flags import RECOVER_NS, FlagChange, Impairment

ALARMS = SimpleNamespace(degrades=lambda name: name == "oil")


@pytest.fixture
def told():
    return []


@pytest.fixture
def impairment(told):
    followed = Impairment({"bench"}, ALARMS)
    followed.on_change = lambda *change: told.append(change)
    return followed


def note(impairment, cause, where, raised=True):
    impairment.note(FlagChange(0.0, cause, where, raised))


def test_late_samples_of_a_bench_impair_until_all_has_been_calm_for_a_while(impairment, told):
    note(impairment, "sample_late", "bench")
    impairment.update(0)
    impairment.update(10)
    assert told == [(True, "samples of bench are late")]
    note(impairment, "sample_late", "bench", raised=False)
    impairment.update(10 + RECOVER_NS - 1)
    assert len(told) == 1
    impairment.update(10 + RECOVER_NS)
    assert told[1:] == [(False, "all causes are over")]


def test_so_does_a_value_of_a_bench_outside_its_declared_range(impairment, told):
    note(impairment, "out_of_range", "model.torque")
    impairment.update(0)
    assert told == []
    note(impairment, "out_of_range", "bench.speed")
    impairment.update(10)
    assert told == [(True, "bench.speed is outside its declared range")]


def test_a_second_reason_is_no_news_and_holds_it_up(impairment, told):
    note(impairment, "alarm", "oil")
    impairment.update(0)
    note(impairment, "sample_late", "bench")
    note(impairment, "alarm", "oil", raised=False)
    impairment.update(2 * RECOVER_NS)
    assert told == [(True, "alarm oil")]


@pytest.mark.parametrize(
    ("cause", "where"),
    [("sample_late", "model"), ("alarm", "water"), ("connection_defect", "bench")],
)
def test_other_flags_do_not(impairment, told, cause, where):
    note(impairment, cause, where)
    impairment.update(0)
    assert not told
