"""Adapter name to `Link` class, imported only when a session file asks for it.

Own adapters register in the entry-point group ``hilrt.adapters``::

    [project.entry-points."hilrt.adapters"]
    mybench = "my_package.mybench:MyBenchLink"
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hilrt.config.structs import CALCULATED
from hilrt.errors import ConfigError

GROUP = "hilrt.adapters"


@functools.cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> list[str]:
    """Names of the adapters that are installed, for tables of a session file."""
    return sorted(_entries().keys() - {CALCULATED})


def is_ours(name: str) -> bool:
    """Whether an adapter comes with hilrt; code of others is not imported to tell.

    True also where there is no such adapter.
    """
    entry = _entries().get(name)
    return entry is None or entry.value.startswith("hilrt_adapters.")


def link_class(name: str) -> Any:
    """Class of an adapter, which is a `hilrt.link.Link`; the session file's reader asks for it too.

    Raises
    ------
    ConfigError
        If there is no such adapter, or it cannot be imported.
    """
    entry = _entries().get(name)
    if entry is None:
        raise ConfigError(f"there is no such adapter; there is {', '.join(names())}")
    try:
        return entry.load()
    except ImportError as error:
        raise ConfigError(
            f"the adapter needs {error.name}, which is not installed; "
            "install hilrt[all], or the extra that docs/adapters.md gives for it"
        ) from None
