"""Where C functions stand in memory: what `hilrt.c_calls` calls them by."""

from __future__ import annotations

import ctypes
import sys
from typing import Any


def address(function: Any) -> int:
    """Address of a function that ctypes has found."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def clock_address() -> int:
    """Address of ``clock_gettime``; 0 where its monotonic clock is not that of Python."""
    if sys.platform != "linux":
        return 0
    return address(ctypes.CDLL(None).clock_gettime)
