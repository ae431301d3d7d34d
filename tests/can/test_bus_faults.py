"""Faults of the bus: when they come, when they go, and that each is told once."""

from __future__ import annotations

import errno
import socket
import sys
from pathlib import Path

import pytest

from hilrt.can.bus_faults import BusOffRecovery, BusWatch, RestartSchedule
from hilrt.can.frame import ERROR, Frame
from hilrt.can.socketcan import may_restart, restart_controller, restart_message

MS = 1_000_000


def error(kind: int, detail: int = 0) -> Frame:
    return Frame(ERROR | kind, bytes([0, detail, 0, 0, 0, 0, 0, 0]))


def told(watch: BusWatch, now: int = 0, down: bool = False) -> list[tuple[str, bool]]:
    return [(change.cause, change.raised) for change in watch.update(now, down)]


def test_bus_off_and_restart() -> None:
    watch = BusWatch()
    watch.errors(0, [error(0x40), error(0x40)])
    assert told(watch) == [("bus_off", True)]
    assert told(watch) == []
    watch.errors(0, [error(0x100)])
    assert told(watch) == [("bus_off", False)]
    watch.errors(0, [error(0x40)])
    watch.heard(1)
    assert told(watch) == [("bus_off", True), ("bus_off", False)]
    assert watch.counters["bus_off"] == 2


def test_error_passive_and_active_again() -> None:
    watch = BusWatch()
    watch.errors(0, [error(0x04, 0x20), error(0x04, 0x10)])
    assert told(watch) == [("error_passive", True)]
    watch.errors(0, [error(0x04, 0x40)])
    assert told(watch) == [("error_passive", False)]


def test_overflow_is_told_each_time() -> None:
    watch = BusWatch()
    watch.errors(0, [error(0x04, 0x01)])
    assert told(watch) == [("overflow", True)]
    assert watch.active == set()


def test_many_error_frames_and_why() -> None:
    watch = BusWatch()
    for k in range(19):
        watch.errors(k * MS, [error(0x88)])
    assert told(watch, 19 * MS) == [("error_frames", True)]
    watch.errors(19 * MS, [error(0x20)])
    (change,) = watch.update(20 * MS, False)
    assert change.cause == "bus_errors"
    assert "bit rate is probably wrong" in change.text
    assert told(watch, 900 * MS) == []
    assert told(watch, 1020 * MS) == [("bus_errors", False)]
    watch.heard(1020 * MS)
    watch.errors(1021 * MS, [error(0x88)] * 20)
    _, change = watch.update(1022 * MS, False)
    assert "other senders of these" in change.text


def test_error_frames_are_told_once_a_second() -> None:
    watch = BusWatch()
    texts = []
    for k in range(21):
        watch.errors(k * 100 * MS, [error(0x88)])
        texts += [change.text for change in watch.update(k * 100 * MS, False)]
    assert texts == [
        "error frame: protocol error",
        "error frame: protocol error; 9 more since the last report",
        "error frame: protocol error; 9 more since the last report",
    ]
    assert watch.counters["error_frames"] == 21
    assert watch.active == set()


def test_states_of_the_controller_are_told_once_each() -> None:
    """Frames as the kernel makes them, with the error counters (class 0x200) beside the state."""
    watch = BusWatch()
    watch.errors(0, [error(0x204, 0x04), error(0x204, 0x10), error(0x240)])
    assert told(watch) == [("error_frames", True), ("error_passive", True), ("bus_off", True)]


def test_what_the_controller_says_of_itself() -> None:
    watch = BusWatch()
    watch.controller(None)
    watch.controller(False)
    assert told(watch) == []
    watch.controller(True)
    watch.controller(True)
    assert told(watch) == [("bus_off", True)]
    watch.controller(None)
    assert told(watch) == []
    watch.controller(False)
    assert told(watch) == [("bus_off", False)]


def test_the_interface_goes_and_comes() -> None:
    watch = BusWatch()
    assert told(watch, 0, True) == [("interface_down", True)]
    assert told(watch, 1, True) == []
    assert told(watch, 2, False) == [("interface_down", False)]


def test_a_full_transmit_buffer_is_a_fault_after_a_while() -> None:
    watch = BusWatch()
    watch.sent(0, ok=False)
    watch.sent(10 * MS, ok=True)
    watch.sent(20 * MS, ok=False)
    assert told(watch, 60 * MS) == []
    assert told(watch, 71 * MS) == [("not_sent", True)]
    watch.sent(80 * MS, ok=True)
    assert told(watch, 81 * MS) == [("not_sent", False)]


S = 1_000_000_000


def test_never_without_being_told() -> None:
    schedule = RestartSchedule(None)
    assert not any(schedule.due(t * S, off=True) for t in range(100))


def test_after_the_delay_and_no_more_than_so_often() -> None:
    schedule = RestartSchedule(BusOffRecovery(delay=2.0, attempts=2))
    assert not schedule.due(0, off=False)
    times = [t for t in range(10, 100) if schedule.due(t * S // 2, off=True)]
    assert times == [14, 18]  # half seconds: 2 s after it was seen, and 2 s later
    assert schedule.exhausted
    assert schedule.text() == "2 of 2"


def test_a_bus_that_recovered_by_itself_is_left_alone() -> None:
    schedule = RestartSchedule(BusOffRecovery(delay=1.0))
    assert not schedule.due(0, off=True)
    assert not schedule.due(S // 2, off=False)
    assert not schedule.due(S, off=True)
    assert schedule.due(2 * S, off=True)


def test_the_message_is_the_one_that_ip_sends() -> None:
    """As ``ip link set dev … type can restart`` sends it, but for its sequence number."""
    sent = (
        "38000000 1000 0500 01000000 00000000"  # length, new link, request with answer
        "00 00 0000 2a000000 00000000 00000000"  # interface 42
        "1800 1200 0700 0100 63616e00 0c00 0200 0800 0700 01000000"  # can: restart
    )
    if sys.byteorder == "little":
        assert restart_message(42) == bytes.fromhex(sent)


@pytest.mark.parametrize(("mask", "may"), [("1000", True), ("1fff", True), ("efff", False)])
def test_the_capability_that_a_restart_needs(tmp_path: Path, mask: str, may: bool) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nCapPrm:\t0\nCapEff:\t00000000{mask:0>8}\n")
    assert may_restart(status) is may
    assert may_restart(tmp_path / "none")  # not Linux: the system will say


@pytest.mark.skipif(not hasattr(socket, "AF_NETLINK"), reason="netlink is Linux's")
def test_an_interface_without_a_controller_refuses() -> None:
    with pytest.raises(OSError, match=r".+") as caught:
        restart_controller("lo")
    assert caught.value.errno in (errno.EOPNOTSUPP, errno.EPERM)
    with pytest.raises(OSError, match=r".+"):
        restart_controller("no_such_can")
