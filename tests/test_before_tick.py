"""What happens while the master waits for a tick."""

from types import SimpleNamespace

import pytest

from hilrt import before_tick
from hilrt.before_tick import BeforeTick
from hilrt.draft import WINDOW

US = 1000


class Bench:
    """A clock whose time passes only while something is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: list[int]) -> None:
        self.now, self.looks, self.done = 0, looks, []
        monkeypatch.setattr(before_tick, "monotonic_ns", lambda: self.now)
        self.clock = SimpleNamespace(early_ns=0, before_spin=None)
        self.exchange = SimpleNamespace(prefetch=self.look, latched=None)
        self.draft = SimpleNamespace(wanted=self.wanted, make=self.make, took_ns=80 * US)
        self.drafted = False

    def look(self) -> None:
        self.now += self.looks.pop(0) if self.looks else 10 * US
        self.done.append("look")

    def wanted(self, left_ns: int, more: bool) -> bool:
        return not self.drafted and (left_ns < 200 * US or not more)

    def make(self) -> None:
        self.now += 80 * US
        self.drafted = True
        self.done.append("draft")


def test_looks_fill_the_wait_and_end_before_the_tick(monkeypatch):
    bench = Bench(monkeypatch, [])
    before = BeforeTick(bench.clock, bench.exchange, None, 450 * US)
    assert bench.clock.before_spin is before
    assert bench.clock.early_ns == 0
    for tick in range(1, 30):
        bench.now = tick * 1000 * US - 300 * US
        bench.done.clear()
        before(tick * 1000 * US)
        assert bench.now <= tick * 1000 * US
    assert 25 <= len(bench.done) <= 29  # all of the 300 µs but the last look's margin
    assert before.look_ns == pytest.approx(10 * US, rel=0.2)


def test_a_draft_is_made_when_it_is_wanted_and_looks_go_on(monkeypatch):
    bench = Bench(monkeypatch, [])
    before = BeforeTick(bench.clock, bench.exchange, bench.draft, 450 * US)
    assert bench.clock.early_ns == 450 * US
    before(400 * US)
    assert bench.clock.early_ns == round(WINDOW * 80 * US)
    assert bench.done.count("draft") == 1
    assert bench.done[0] == "look"
    assert bench.done[-1] == "look"
    assert bench.now <= 400 * US


def test_one_slow_look_does_not_end_them_all(monkeypatch):
    bench = Bench(monkeypatch, [10 * US] * 20 + [4000 * US])
    before = BeforeTick(bench.clock, bench.exchange, None, 450 * US)
    looked = []
    for tick in range(1, 400):
        bench.now = max(bench.now, tick * 1000 * US - 300 * US)
        bench.done.clear()
        before(tick * 1000 * US)
        looked.append(len(bench.done))
    assert looked.count(0) <= 4  # the ticks that it cost, and none after them
    assert looked[-1] >= 20


def test_a_tick_that_has_passed_is_not_waited_for(monkeypatch):
    bench = Bench(monkeypatch, [])
    BeforeTick(bench.clock, bench.exchange, None, 450 * US)(0)
    assert bench.done == []


def test_with_a_latch_nothing_is_taken_in_shortly_before_the_tick(monkeypatch):
    bench = Bench(monkeypatch, [])
    before = BeforeTick(bench.clock, bench.exchange, bench.draft, 450 * US, latch_ns=100 * US)
    before(400 * US)
    assert bench.exchange.latched is True
    assert bench.done.count("draft") == 1
    assert bench.done.count("look") >= 10
    assert bench.now <= 300 * US  # the rest is left to the busy-waiting


def test_the_draft_is_made_when_nothing_more_is_taken(monkeypatch):
    bench = Bench(monkeypatch, [])
    before = BeforeTick(bench.clock, bench.exchange, bench.draft, 450 * US, latch_ns=250 * US)
    before(400 * US)
    assert bench.done[-1] == "draft"
    assert bench.exchange.latched is True


@pytest.mark.parametrize(
    ("now", "looks"),
    [
        (350 * US, [200 * US]),  # held up beyond the tick by the only look
        (200 * US, [10 * US, 300 * US]),  # held up beyond the tick by the second look
        (500 * US, []),  # after the tick
    ],
)
def test_who_could_not_look_in_time_takes_at_the_tick(monkeypatch, now, looks):
    bench = Bench(monkeypatch, looks)
    bench.now = now
    BeforeTick(bench.clock, bench.exchange, None, 450 * US, latch_ns=100 * US)(400 * US)
    assert bench.exchange.latched is False


def test_who_wakes_late_looks_at_once_and_has_less_to_do_at_the_tick(monkeypatch):
    bench = Bench(monkeypatch, [])
    bench.now = 350 * US
    BeforeTick(bench.clock, bench.exchange, bench.draft, 450 * US, latch_ns=100 * US)(400 * US)
    assert bench.done == ["look", "draft"]  # the draft ends late, but earlier than if begun later
    assert bench.exchange.latched is True


def test_without_a_latch_the_cut_takes_what_has_arrived(monkeypatch):
    bench = Bench(monkeypatch, [])
    BeforeTick(bench.clock, bench.exchange, None, 450 * US)(400 * US)
    assert bench.exchange.latched is False


def test_a_latch_of_its_own_choice_leaves_time_for_a_draft(monkeypatch):
    bench = Bench(monkeypatch, [])
    before = BeforeTick(bench.clock, bench.exchange, bench.draft, 450 * US, latch_ns=None)
    for tick in range(1, 5):
        bench.drafted = False
        bench.done.clear()
        bench.now = tick * 1000 * US - 400 * US
        before(tick * 1000 * US)
        assert bench.exchange.latched is True
        assert bench.done.count("draft") == 1
        assert tick * 1000 * US - bench.now >= 0
