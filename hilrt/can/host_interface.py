"""Whether this host has the CAN interface that a ``bus`` table names, without opening it."""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from can.interfaces import BACKENDS

#: Flag of an interface that is up.
_IFF_UP = 1
_NETWORKS = Path("/sys/class/net")


def missing_interface(arguments: Mapping[str, Any], networks: Path = _NETWORKS) -> list[str]:
    """What the host lacks for a bus, with a remedy; empty where nothing is known to be missing.

    Parameters
    ----------
    arguments : mapping
        The ``bus`` table.
    networks : Path
        Where Linux lists its network interfaces.
    """
    interface, channel = arguments.get("interface"), arguments.get("channel")
    if interface not in BACKENDS:
        return []
    what = f"bus.interface = {interface!r}"
    if interface == "socketcan":
        return _missing_network(channel, networks)
    if interface in ("slcan", "serial") and isinstance(channel, str):
        return _missing_device(channel)
    try:
        importlib.import_module(BACKENDS[interface][0])
    except Exception as error:  # the drivers behind the interfaces raise all kinds
        return [f"{what}: its driver cannot be used on this host ({error}); install it"]
    return []


def _missing_network(channel: Any, networks: Path) -> list[str]:
    if not hasattr(socket, "AF_CAN"):
        return [f"bus.interface = 'socketcan': {sys.platform} has no SocketCAN; it is Linux'"]
    if not isinstance(channel, str) or not channel or not networks.is_dir():
        return []
    what, network = f"bus.channel = {channel!r}", networks / channel
    if not network.exists():
        found = sorted(one.name for one in networks.iterdir() if _is_can(one))
        there = f"it has {', '.join(found)}" if found else "it has none"
        return [f"{what}: this host has no such CAN interface ({there}); connect or create it"]
    return []


def interface_down(arguments: Mapping[str, Any], networks: Path = _NETWORKS) -> list[str]:
    """Whether the interface of a bus is there, but not up: the remark; parameters as above."""
    channel = arguments.get("channel")
    if arguments.get("interface") != "socketcan" or not isinstance(channel, str) or not channel:
        return []
    try:
        up = int((networks / channel / "flags").read_text(), 16) & _IFF_UP
    except (OSError, ValueError):
        return []
    if up:
        return []
    return [
        f"bus.channel = {channel!r}: this CAN interface is down; `ip link set {channel} up` brings "
        "it up"
    ]


def _is_can(network: Path) -> bool:
    """Whether it is a CAN interface (ARPHRD_CAN)."""
    try:
        return (network / "type").read_text().strip() == "280"
    except OSError:
        return False


def _missing_device(channel: str) -> list[str]:
    device = channel.partition("@")[0]
    if not device.startswith("/dev/") or Path(device).exists():
        return []
    return [f"bus.channel = {channel!r}: this host has no {device}; connect the interface"]
