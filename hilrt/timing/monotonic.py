"""The clock that sessions are timed by, alone: reading it takes no event loop."""

from __future__ import annotations

import sys
import time

#: Reading, ns. On Windows, `time.monotonic_ns` advances in steps of 16 ms.
monotonic_ns = time.perf_counter_ns if sys.platform == "win32" else time.monotonic_ns
