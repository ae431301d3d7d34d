"""Frames as a gateway held them to records of the log."""

from __future__ import annotations

import pytest

from hilrt.record import logged_frame
from hilrt.record.frame_feed import (
    ERROR,
    EXTENDED,
    REMOTE,
    FrameIntake,
    Pass,
    RawFrame,
    SessionClock,
    Taken,
    encode,
)
from hilrt.record.logged_frame import FrameFlag, LoggedFrame

EPOCH, REAL = 5_000_000_000, 1_780_000_000_000_000_000
MS = 1_000_000


@pytest.fixture
def intake() -> FrameIntake:
    return FrameIntake(["engine", "brake"], SessionClock(EPOCH))


def received(at: int, *frames: RawFrame) -> Pass:
    return Pass(False, EPOCH + at, REAL + at, list(frames))


def take(intake: FrameIntake, first: int, *passes: Pass, bus: str = "engine") -> Taken:
    return intake.take(encode(bus, first, passes))


def frames_of(taken: Taken) -> list[LoggedFrame]:
    return [logged_frame.decode(t, taken.bus, record) for t, record in taken.records]


def test_times_are_those_of_reception_as_session_time(intake: FrameIntake) -> None:
    at = 10 * MS
    taken = take(
        intake,
        0,
        received(at, (1, b"", REAL + at - 3 * MS, False), (2, b"", 0, False)),
        Pass(True, EPOCH + at + 7, 0, [(3, b"", 0, False)]),
    )
    assert [t for t, _ in taken.records] == [7 * MS, at, at + 7]


@pytest.mark.parametrize("stamp", [REAL + 10**9, REAL - 10**12])
def test_a_time_that_cannot_be_is_not_believed(intake: FrameIntake, stamp: int) -> None:
    (record,) = take(intake, 0, received(MS, (1, b"", stamp, False))).records
    assert record[0] == MS


def test_frames_before_the_session_are_left_out_and_not_missing(intake: FrameIntake) -> None:
    taken = take(intake, 700, received(-MS, (1, b"", 0, False)), received(MS, (2, b"", 0, False)))
    assert [frame.identifier for frame in frames_of(taken)] == [2]
    assert taken.lost == 0


def test_kinds_of_frames(intake: FrameIntake) -> None:
    taken = take(
        intake,
        0,
        received(
            MS,
            (0x123, b"12", 0, False),
            (0x18FEF100 | EXTENDED, b"", 0, False),
            (0x7 | REMOTE, bytes(4), 0, False),
            (0x40 | ERROR, bytes(8), 0, False),
            (0x1, bytes(64), 0, True),
        ),
        Pass(True, EPOCH, 0, [(0x2, bytes(12), 0, True)]),
    )
    assert [frame[2:] for frame in frames_of(taken)] == [
        (0x123, 0, 2, b"12"),
        (0x18FEF100, FrameFlag.EXTENDED, 0, b""),
        (0x7, FrameFlag.REMOTE, 4, b""),
        (0x40, FrameFlag.ERROR, 8, bytes(8)),
        (0x1, FrameFlag.FD, 64, bytes(64)),
        (0x2, FrameFlag.FD | FrameFlag.BIT_RATE_SWITCH | FrameFlag.SENT, 12, bytes(12)),
    ]


def test_a_jump_of_the_number_is_a_gap_of_that_bus(intake: FrameIntake) -> None:
    frame = (1, b"", 0, False)
    take(intake, 40, received(MS, frame, frame))
    assert take(intake, 900, received(MS, frame), bus="brake").lost == 0
    taken = take(intake, 47, received(9 * MS, frame))
    assert (taken.lost, taken.since_ns, taken.until_ns) == (5, MS, 9 * MS)
    assert take(intake, 60).lost == 12  # the last word of a gateway
    assert take(intake, 60).lost == 0


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", encode("other", 0, [])], ids=["empty", "bad", "bus"]
)
def test_nonsense_is_an_error(intake: FrameIntake, data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of msgspec, or ours
        intake.take(data)
