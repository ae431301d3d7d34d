"""Restarts after bus-off: when, how often, and the message that the kernel understands."""

from __future__ import annotations

import errno
import socket
import sys
from pathlib import Path

import pytest

from hilrt.can.bus_off import BusOffRecovery, RestartSchedule
from hilrt.can.socketcan_restart import may_restart, restart_controller, restart_message

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
