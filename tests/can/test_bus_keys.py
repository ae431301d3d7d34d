"""Whether a host has a CAN interface, told from what Linux lists."""

import pytest
from can.interfaces import BACKENDS

from hilrt.can.bus_keys import interface_down, missing_interface

socketcan = pytest.mark.skipif("not hasattr(__import__('socket'), 'AF_CAN')", reason="no SocketCAN")


@pytest.fixture
def networks(tmp_path):
    """A host with Ethernet, one CAN interface that is up, and one that is down."""
    for name, kind, flags in (("eth0", 1, 0x1003), ("can0", 280, 0x40081), ("can1", 280, 0x40080)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "type").write_text(f"{kind}\n")
        (tmp_path / name / "flags").write_text(f"{flags:#x}\n")
    return tmp_path


def bus(channel, interface="socketcan"):
    return {"interface": interface, "channel": channel}


@socketcan
def test_an_interface_that_is_not_there_is_named_with_those_that_are(networks):
    assert missing_interface(bus("can0"), networks) == []
    (text,) = missing_interface(bus("can2"), networks)
    assert text.startswith(
        "bus.channel = 'can2': this host has no such CAN interface (it has can0, "
    )


def test_an_interface_that_is_down_is_a_remark(networks):
    assert interface_down(bus("can0"), networks) == []
    (text,) = interface_down(bus("can1"), networks)
    assert text.endswith("is down; `ip link set can1 up` brings it up")
    assert interface_down(bus("can2"), networks) == []


def test_others(networks):
    for other in (bus("239.0.0.1", "udp_multicast"), bus("x", "virtual"), bus("x", "no such"), {}):
        assert missing_interface(other, networks) == []
        assert interface_down(other, networks) == []
    (text,) = missing_interface(bus("/dev/ttyNone@115200", "slcan"), networks)
    assert "this host has no /dev/ttyNone" in text


@pytest.mark.parametrize("interface", ["slcan", "serial", "robotell"])
def test_a_driver_for_a_serial_line_needs_pyserial(interface, monkeypatch):
    assert missing_interface(bus("/dev/null", interface)) == []
    monkeypatch.setattr(f"{BACKENDS[interface][0]}.serial", None)  # as without the package
    (text,) = missing_interface(bus("/dev/null", interface))
    assert (
        text == f"bus.interface = {interface!r}: its driver needs the package pyserial; install it"
    )
