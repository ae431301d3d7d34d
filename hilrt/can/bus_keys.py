"""Comparison of the keys of a ``bus`` table with the arguments of python-can's bus class.

python-can ignores unknown arguments, so a misspelt key would silently have no effect.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from can.interfaces import BACKENDS

from hilrt.config.from_toml import nearest

#: Interfaces that ignore unknown arguments; others may accept undeclared ones.
CLOSED = ("socketcan", "udp_multicast", "virtual")
#: Keys that a table may keep when its interface changes, even if the bus ignores them.
COMMON = frozenset({"interface", "channel", "bitrate", "data_bitrate", "fd", "can_filters"})


def unknown_keys(arguments: Mapping[str, Any], label: str) -> list[str]:
    """Problems with keys that the interface would ignore, one line each."""
    if arguments.get("interface") not in CLOSED:
        return []
    known = _known(arguments)
    return [
        f"{label}.{key} = {arguments[key]!r}: the interface {arguments['interface']!r} takes no"
        f" such key, and would ignore it{nearest(key, known)}"
        for key in arguments
        if known and key not in known
    ]


def doubtful_keys(arguments: Mapping[str, Any]) -> list[str]:
    """Problems with unknown keys that resemble an argument declared by the interface."""
    if arguments.get("interface") in CLOSED:
        return []
    known = _known(arguments)
    return [
        f"bus.{key} = {arguments[key]!r}: is not a named argument of the interface"
        f" {arguments['interface']!r}{nearest(key, known)}"
        for key in arguments
        if key not in known and difflib.get_close_matches(key, known, n=1)
    ]


def _known(arguments: Mapping[str, Any]) -> frozenset[str]:
    """Keys that the interface declares; empty if its driver is not installed."""
    module, name = BACKENDS.get(str(arguments.get("interface")), ("", ""))
    try:
        bus = getattr(importlib.import_module(module), name)
        parameters = inspect.signature(bus.__init__).parameters.values()
    except Exception:  # drivers may raise any exception
        return frozenset()
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return COMMON | named - {"self"}


#: Flag of an interface that is up.
_IFF_UP = 1
_NETWORKS = Path("/sys/class/net")


def missing_interface(arguments: Mapping[str, Any], networks: Path = _NETWORKS) -> list[str]:
    """Driver or device that a bus lacks on this host, with a remedy; empty if none is missing.

    Parameters
    ----------
    arguments : mapping
        The ``bus`` table.
    networks : Path
        Folder in which Linux lists its network interfaces.
    """
    interface, channel = arguments.get("interface"), arguments.get("channel")
    if interface not in BACKENDS:
        return []
    what = f"bus.interface = {interface!r}"
    if interface == "socketcan":
        return _missing_network(channel, networks)
    try:
        driver = importlib.import_module(BACKENDS[interface][0])
    except Exception as error:  # drivers may raise any exception
        return [f"{what}: its driver cannot be used on this host ({error}); install it"]
    found = []
    if getattr(driver, "serial", driver) is None:  # the driver tolerates a missing package
        found.append(f"{what}: its driver needs the package pyserial; install it")
    if interface in ("slcan", "serial") and isinstance(channel, str):
        found += _missing_device(channel)
    return found


def _missing_network(channel: Any, networks: Path) -> list[str]:
    if not hasattr(socket, "AF_CAN"):
        return [
            f"bus.interface = 'socketcan': {sys.platform} has no SocketCAN; it exists only on Linux"
        ]
    if not isinstance(channel, str) or not channel or not networks.is_dir():
        return []
    what, network = f"bus.channel = {channel!r}", networks / channel
    if not network.exists():
        found = sorted(one.name for one in networks.iterdir() if _is_can(one))
        there = f"it has {', '.join(found)}" if found else "it has none"
        return [f"{what}: this host has no such CAN interface ({there}); connect or create it"]
    return []


def interface_down(arguments: Mapping[str, Any], networks: Path = _NETWORKS) -> list[str]:
    """Remark on an interface that exists but is down; parameters as for `missing_interface`."""
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
