"""Adapter name to `Link` class, imported only when a session file asks for it.

Own adapters register in the entry-point group ``hilrt.adapters``::

    [project.entry-points."hilrt.adapters"]
    mybench = "my_package.mybench:MyBenchLink"
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from hilrt.errors import ConfigError

if TYPE_CHECKING:
    from hilrt.link import Link

GROUP = "hilrt.adapters"


@functools.cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> list[str]:
    """Names of the adapters that are installed."""
    return sorted(_entries())


def link_class(name: str) -> type[Link]:
    """`Link` class of an adapter; `ConfigError` if there is none or it cannot be imported."""
    entry = _entries().get(name)
    if entry is None:
        raise ConfigError(f"there is no such adapter; there is {', '.join(names())}")
    try:
        loaded: type[Link] = entry.load()
    except ImportError as error:
        raise ConfigError(
            f"the adapter needs {error.name}, which is not installed; "
            "install hilrt[all], or the extra that docs/adapters.md names for it"
        ) from None
    return loaded
