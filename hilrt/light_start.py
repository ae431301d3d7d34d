"""A process on a bus starts without what it never needs.

Wherever asammdf is installed, python-can imports it for a reader of MF4 files of its own, and with
it pandas and pyarrow: most of the time that a gateway takes to start, and tens of megabytes. The
package reads MF4 files with asammdf directly (`hilrt.logs.source_mf4`), never through python-can.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

_READER = "can.io.mf4"


class _WithoutMf4(MetaPathFinder):
    """Tells python-can's reader of MF4 files, while it is imported, that there is no asammdf."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        """Refuse asammdf to that module alone; everybody else finds it as ever."""
        reader = sys.modules.get(_READER)
        if name == "asammdf" and reader is not None and not hasattr(reader, "MF4Reader"):
            raise ModuleNotFoundError(f"{_READER} starts without {name}", name=name)
        return None


def start_light() -> None:
    """For this process from now on; without effect if python-can is there already."""
    if not any(isinstance(finder, _WithoutMf4) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WithoutMf4())
