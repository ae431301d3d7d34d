"""`Link` classes by adapter name, imported only when a session file uses them.

Other packages register adapters in the entry-point group ``hilrt.adapters``::

    [project.entry-points."hilrt.adapters"]
    mybench = "my_package.mybench:MyBenchLink"
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hilrt.config.structs import CALCULATED
from hilrt.documentation import in_documentation
from hilrt.errors import ConfigError

GROUP = "hilrt.adapters"


@functools.cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> list[str]:
    """Names of the installed adapters."""
    return sorted(_entries().keys() - {CALCULATED})


def is_ours(name: str) -> bool:
    """Whether an adapter belongs to hilrt, or does not exist; imports no code."""
    entry = _entries().get(name)
    return entry is None or entry.value.startswith("hilrt_adapters.")


def link_class(name: str) -> Any:
    """Import an adapter's class, a `hilrt.link.Link` that also defines its session-file keys.

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
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # of another package's code
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            raise ConfigError(
                f"the adapter needs {error.name}, which is not installed; "
                "install hilrt[all], or the extra for it, "
                f"see {in_documentation('docs/adapters.md')}"
            ) from None
        raise ConfigError(
            f"importing {entry.value} failed: {type(error).__name__}: {error}; "
            "correct the package, or install it again"
        ) from error
