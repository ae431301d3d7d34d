"""A form of a multiplexed message that stays away is noticed, though the others go on coming."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import cantools
import pytest
from cantools.database.can import Database

from hilrt.can.database import find_signal
from hilrt.can.frame import Frame
from hilrt.can.protection import MessageOptions
from hilrt.can.received_message import KNOWN_AFTER, SILENT_INTERVALS, UNKNOWN_NS, forms_of
from hilrt.can.receiver import Receiver
from tests.can.small_database import Clock

DBC = """VERSION ""
BU_: Bench Gateway
BO_ 256 EngineTemps: 8 Bench
 SG_ Page M : 0|8@1+ (1,0) [0|3] "" Gateway
 SG_ Ambient : 56|8@1+ (1,-40) [0|0] "degC" Gateway
 SG_ Oil m0 : 8|8@1+ (1,-40) [0|0] "degC" Gateway
 SG_ Water m1 : 8|8@1+ (1,-40) [0|0] "degC" Gateway
 SG_ Exhaust m2 : 8|16@1+ (1,-40) [0|0] "degC" Gateway
 SG_ Turbine m2 : 24|16@1+ (1,-40) [0|0] "degC" Gateway
 SG_ Enabled m3 : 8|1@1+ (1,0) [0|1] "" Gateway
"""
ROUND = (0, 1, 2)
PAUSE = 0.01


def load(text: str) -> Database:
    loaded = cantools.database.load_string(text, "dbc")
    assert isinstance(loaded, Database)
    return loaded


PLAIN = load(DBC)


class Bench:
    """Sends its pages, and a receiver that looks at them as a gateway does."""

    def __init__(
        self,
        timeout: float = 0.02,
        options: Mapping[str, MessageOptions] | None = None,
        signals: Iterable[str] = ("Oil", "Water", "Exhaust", "Turbine"),
        state: str | None = None,
    ) -> None:
        self.clock = Clock()
        refs = {name: find_signal(PLAIN, f"EngineTemps.{name}", "t") for name in signals}
        enabled = find_signal(PLAIN, f"EngineTemps.{state}", "t") if state else None
        self.rx = Receiver(refs, enabled, "Alive", timeout, clock=self.clock, options=options)

    def send(self, pages: Iterable[int], pause: float = PAUSE) -> list[float]:
        """One frame after each pause; how overdue the bench was each time."""
        ratios = []
        for page in pages:
            self.clock.pass_(pause)
            self.rx.receive([Frame(0x100, bytes([page, 60, 0, 60, 0, 0, 0, 60]))])
            ratios.append(self.rx.overdue(self.clock())[0])
        return ratios

    def settled(self) -> Bench:
        """All forms have come often enough for their intervals to be known."""
        assert math.inf not in self.send(ROUND * (KNOWN_AFTER + 1))[len(ROUND) :]
        return self


def test_a_form_that_stays_away_is_missed_after_three_of_its_intervals() -> None:
    bench = Bench().settled()
    interval = len(ROUND) * PAUSE
    assert SILENT_INTERVALS * interval == pytest.approx(0.09)
    ratios = bench.send([0, 1] * 30)  # the newest frame of page 2 is 10 ms older than the first
    assert max(ratios[:8]) < 1.0
    assert ratios[8] == pytest.approx(1.0)
    assert ratios[-1] == pytest.approx(0.6 / 0.09)
    assert bench.rx.overdue(bench.clock())[1] == (
        "no new frame of EngineTemps with Page = 2 for 600 ms"
    )
    bench.send([2])
    assert bench.rx.overdue(bench.clock()) == (pytest.approx(0.0, abs=0.3), "")


def test_of_a_message_that_is_silent_as_a_whole_no_form_is_named() -> None:
    bench = Bench().settled()
    bench.clock.pass_(0.5)
    ratio, text = bench.rx.overdue(bench.clock())
    assert ratio == pytest.approx(25.0)
    assert text == "no new frame of EngineTemps for 500 ms: none arrived"


def test_a_form_that_is_sent_rarely_on_purpose_is_missed_by_its_own_interval() -> None:
    bench = Bench(timeout=1.0)
    rare = [*[0, 1] * 7, 0, 2]  # every 8 s
    ratios = bench.send(rare * (KNOWN_AFTER + 2), pause=0.5)
    assert max(ratios[len(rare) :]) < 1.0
    ratios = bench.send([0, 1] * 30, pause=0.5)
    assert max(ratios[:47]) < 1.0
    assert ratios[47] == pytest.approx(1.0)  # 24 s


def test_a_form_that_has_come_only_once_is_missed_too() -> None:
    """How often it comes is unknown then: it gets as long as the first one is waited for."""
    bench = Bench()
    bench.send(ROUND)
    ratios = bench.send([0, 1] * 501)
    assert ratios[998] < 1.0
    assert ratios[999] == pytest.approx(1.0)
    assert UNKNOWN_NS == 1000 * PAUSE * 1e9


def test_a_form_is_late_once_if_it_comes_more_rarely_than_it_is_waited_for() -> None:
    bench = Bench(timeout=1.0)
    rare = [*[0, 1] * 15, 0, 2]  # every 16 s
    ratios = bench.send([*ROUND, *rare * 4], pause=0.5)[len(ROUND) :]
    assert max(ratios[: len(rare)]) == pytest.approx(1.55)
    assert max(ratios[len(rare) :]) < 1.0


def test_a_burst_at_the_start_does_not_pass_for_the_interval() -> None:
    bench = Bench()
    bench.send(ROUND * 5, pause=0.0001)
    assert max(bench.send([*[0, 1] * 20, *ROUND])) < 1.0


def test_no_form_is_missed_before_its_messages_timeout() -> None:
    bench = Bench(options={"EngineTemps": MessageOptions(timeout=60.0)})
    bench.settled()
    ratios = bench.send([0, 1] * 31, pause=1.0)
    assert ratios[58] < 1.0 <= ratios[59]


def test_an_interval_in_which_a_form_was_missed_is_not_its_pace() -> None:
    bench = Bench().settled()
    bench.send([0, 1] * 20)
    bench.send(ROUND)
    ratios = bench.send([0, 1] * 5)
    assert max(ratios[:8]) < 1.0
    assert ratios[8] == pytest.approx(1.0)


def test_a_slower_pace_is_followed() -> None:
    bench = Bench().settled()
    assert max(bench.send(ROUND * 10, pause=2 * PAUSE)) < 1.0
    assert max(bench.send([0, 1] * 4, pause=2 * PAUSE)) < 1.0  # 160 ms, of 180


def test_the_listeners_absence_makes_no_form_older() -> None:
    bench = Bench().settled()
    bench.clock.pass_(2.0)
    bench.rx.leave_out(bench.clock(), 2_000_000_000)
    ratios = bench.send([0, 1] * 10)
    assert max(ratios[:7]) < 1.0
    assert ratios[8] == pytest.approx(1.0, abs=0.15)


def test_a_form_that_never_comes_is_named_with_its_signals() -> None:
    bench = Bench()
    assert bench.rx.missing_forms() == []  # nothing has come: that is said of the message
    bench.send([0, 1] * 3)
    assert bench.rx.missing() == []
    assert bench.rx.missing_forms() == [
        "EngineTemps with Page = 2 (0x100), which carries Exhaust, Turbine"
    ]
    assert bench.rx.overdue(bench.clock()) == (
        math.inf,
        "EngineTemps with Page = 2 has never been received",
    )
    assert not bench.rx.complete()
    bench.send([2])
    assert bench.rx.complete()


def test_an_enable_state_in_a_form_of_its_own_is_awaited_and_missed() -> None:
    bench = Bench(signals=["Oil"], state="Enabled")
    bench.send([0, 0])
    assert bench.rx.missing_forms() == ["EngineTemps with Page = 3 (0x100), which carries Enabled"]
    assert not bench.rx.complete()
    bench.send([0, 3] * (KNOWN_AFTER + 1))
    assert bench.rx.complete()
    assert bench.send([0] * 12)[-1] > 1.0
    assert "EngineTemps with Page = 3" in bench.rx.overdue(bench.clock())[1]


def test_forms_that_nobody_uses_may_stay_away() -> None:
    bench = Bench(signals=["Water", "Ambient", "Page"])
    bench.send([0] * 3 + [1])
    assert bench.rx.complete()
    assert bench.send([1, 1]) == [0.0, 0.0]


def test_a_message_without_multiplexers_has_no_forms() -> None:
    message = PLAIN.messages[0]
    assert forms_of(message, {"Page": 0, "Ambient": 1}, 1) == []


def test_forms_are_called_by_all_their_multiplexers() -> None:
    message = load(
        """VERSION ""
BU_: B
BO_ 256 M: 8 B
 SG_ Outer M : 0|2@1+ (1,0) [0|3] "" B
 SG_ Inner m1M : 2|6@1+ (1,0) [0|63] "" B
 SG_ A m0 : 8|8@1+ (1,0) [0|0] "" B
 SG_ B m2 : 8|8@1+ (1,0) [0|0] "" B
 SG_ C m5 : 16|8@1+ (1,0) [0|0] "" B
SG_MUL_VAL_ 256 Inner Outer 1-1;
SG_MUL_VAL_ 256 A Outer 0-0, 2-3;
SG_MUL_VAL_ 256 B Inner 2-2;
SG_MUL_VAL_ 256 C Inner 5-20;
"""
    ).messages[0]
    used = {signal.name: i for i, signal in enumerate(message.signals)}
    assert {
        signal: form.name for form in forms_of(message, used, 1) for signal in form.signals
    } == {
        "Inner": "M with Outer = 1",
        "A": "M with Outer = 0 or 2 or 3",
        "B": "M with Outer = 1 and Inner = 2",
        "C": "M with Outer = 1 and Inner = 5 to 20",
    }
