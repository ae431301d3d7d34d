"""Frames of `udp_multicast` on a machine without a network: they pass all the same."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import can
import pytest

from hilrt.can import udp_multicast
from hilrt.can.bus import open_bus
from hilrt.can.frame import Frame

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux says what it has no route to"
)

GROUP = "239.74.163.31"
SENDS_TO_ITSELF = """
import select, sys
from hilrt.can.bus import open_bus
from hilrt.can.frame import Frame
table = {"interface": "udp_multicast", "channel": "239.74.163.31", "port": 45999}
one, other = open_bus(table, [], "t"), open_bus(table, [], "t")
one.send(Frame(0x123, b"abc"))
assert select.select([other], [], [], 10.0)[0]
(got,) = other.drain()
assert (got.can_id, bytes(got.data), one.drain()) == (0x123, b"abc", [])
one.close()
other.close()
"""


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def test_frames_pass_both_ways_and_not_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp_multicast, "without_route", lambda group: True)
    table = {"interface": "udp_multicast", "channel": GROUP, "port": free_port()}
    ours = open_bus(table, [], "t")
    try:
        with udp_multicast.open_can(**table, hop_limit=0) as theirs:
            assert isinstance(theirs, udp_multicast.LoopbackBus)
            ours.send(Frame(0x123, b"abc"))
            got = theirs.recv(10.0)
            assert got is not None
            assert (got.arbitration_id, bytes(got.data)) == (0x123, b"abc")
            theirs.send(can.Message(arbitration_id=0x7F, data=b"\1", is_extended_id=False))
            assert theirs.recv(10.0) is not None  # its own: python-can's bus hears itself, too
            (frame,) = ours.drain()
            assert (frame.can_id, bytes(frame.data)) == (0x7F, b"\1")
            assert abs(frame.t_ns * 1e-9 - got.timestamp) < 60.0
    finally:
        ours.close()


def test_what_may_leave_the_machine_is_not_kept_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp_multicast, "without_route", lambda group: True)
    opened: list[dict[str, object]] = []
    monkeypatch.setattr(can, "Bus", lambda **arguments: opened.append(arguments))
    udp_multicast.open_can(interface="udp_multicast", channel=GROUP, hop_limit=1)
    assert [arguments["hop_limit"] for arguments in opened] == [1]


def test_only_groups_can_be_without_a_route() -> None:
    for other in ("127.0.0.1", "ff15::1", "can0"):
        assert not udp_multicast.without_route(other)


def test_in_a_network_namespace_with_nothing_but_loopback() -> None:
    """The true thing, where the system lets a test make one."""
    isolated = ["unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && "$@"', "x"]
    if not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("needs unshare and ip")
    if subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode:
        pytest.skip("the system makes no network namespace for this account")
    command = [*isolated, sys.executable, "-W", "error", "-c", SENDS_TO_ITSELF]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
