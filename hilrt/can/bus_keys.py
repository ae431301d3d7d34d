"""Keys of a ``bus`` table against what python-can's bus of that interface takes.

python-can ignores an argument that its bus does not read: a misspelt key silently means the default
of the right one.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from can.interfaces import BACKENDS

from hilrt.config.from_toml import nearest

#: Interfaces that do nothing with further arguments; others may look them up by name.
CLOSED = ("socketcan", "udp_multicast", "virtual")
#: Those that a table may keep while its interface changes, whether the bus takes them or not.
COMMON = frozenset({"interface", "channel", "bitrate", "data_bitrate", "fd", "can_filters"})


def unknown_keys(arguments: Mapping[str, Any], label: str) -> list[str]:
    """Problems of keys that the interface would ignore, one line each."""
    if arguments.get("interface") not in CLOSED:
        return []
    known = _known(arguments)
    return [
        f"{label}.{key} = {arguments[key]!r}: the interface {arguments['interface']!r} takes no"
        f" such key, and would ignore it{nearest(key, known)}"
        for key in arguments
        if known and key not in known
    ]


def doubtful_keys(arguments: Mapping[str, Any], label: str) -> list[str]:
    """What is nearly a key that the interface has, where it may know more than it declares."""
    if arguments.get("interface") in CLOSED:
        return []
    known = _known(arguments)
    return [
        f"{label}.{key} = {arguments[key]!r}: is no named argument of the interface"
        f" {arguments['interface']!r}{nearest(key, known)}"
        for key in arguments
        if key not in known and difflib.get_close_matches(key, known, n=1)
    ]


def _known(arguments: Mapping[str, Any]) -> frozenset[str]:
    """Keys that the interface names; empty where its driver is not installed."""
    module, name = BACKENDS.get(str(arguments.get("interface")), ("", ""))
    try:
        bus = getattr(importlib.import_module(module), name)
        parameters = inspect.signature(bus.__init__).parameters.values()
    except Exception:  # the drivers behind the interfaces raise all kinds
        return frozenset()
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return COMMON | named - {"self"}
