"""Order of observers, and what a defect in one comes to."""

import pytest

from hilrt.errors import PeerLost, SessionFault
from hilrt.step.observer import Observer, Observers, Turn
from hilrt.timing.grid import CommunicationPoint, TickMarks

TURN = Turn(CommunicationPoint(3, 3_000_000, 1_000_000), 1_000_000, TickMarks(lambda: 0))


class Noting(Observer):
    def __init__(self, name: str, notes: list) -> None:
        self.name, self.notes = name, notes

    def stepped(self, turn):
        self.notes.append((self.name, "stepped"))

    def event(self, t_ns, level, cause, source, text, value=None):
        self.notes.append((self.name, t_ns, level, cause, source, text))

    def idle(self, left_ns):
        self.notes.append((self.name, left_ns))

    def closing(self, finished):
        self.notes.append((self.name, finished))


class Broken(Observer):
    name = "broken"

    def __init__(self, error: Exception, required: bool = False) -> None:
        self.error, self.required, self.calls = error, required, 0

    def stepped(self, turn):
        self.calls += 1
        raise self.error


def test_all_are_notified_in_their_order():
    notes = []
    observers = Observers([Noting("first", notes), Noting("second", notes)])
    observers.stepped(TURN)
    left = iter([5.0, 3.0])
    observers.idle(lambda: next(left))
    observers.closing(True)
    assert notes == [
        ("first", "stepped"),
        ("second", "stepped"),
        ("first", 5.0),
        ("second", 3.0),  # what the first one has left
        ("first", True),
        ("second", True),
    ]


def test_an_optional_one_with_a_defect_is_removed_and_reported():
    notes, broken = [], Broken(ZeroDivisionError("oh"))
    observers = Observers([Noting("a", notes), broken, Noting("b", notes)])
    observers.stepped(TURN)
    observers.stepped(TURN)
    assert broken.calls == 1
    text = "broken: a bug, ZeroDivisionError: oh; the session continues without it"
    told = (3_000_000, "warning", "observer_removed", "broken", text)
    step = [("a", "stepped"), ("b", "stepped")]
    assert notes == [step[0], ("a", *told), ("b", *told), step[1], *step]


def test_a_required_one_with_a_defect_ends_the_session():
    observers = Observers([Broken(ZeroDivisionError("oh"), required=True)])
    with pytest.raises(SessionFault, match="broken: a bug, ZeroDivisionError: oh"):
        observers.stepped(TURN)


def test_a_finding_of_an_optional_one_ends_the_session():
    observers = Observers([Broken(PeerLost("test", "expects nonsense"))])
    with pytest.raises(PeerLost, match="expects nonsense"):
        observers.stepped(TURN)
