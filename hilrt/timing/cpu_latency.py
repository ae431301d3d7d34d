"""A limit of the processors' wake-up latency (``pacing.awake``): on request, Linux only.

Measured as the lateness of a ``timerfd`` at 100 Hz, in 12 alternating blocks of 1000 wake-ups: no
difference on a virtual machine (median 30 µs instead of 31), whose host decides on idle states. It
is for machines whose processors are not shared.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

#: An open file of it states a longest wake-up; the kernel (PM QoS) chooses the idle states of all
#: processors by the strictest.
_LATENCY = Path("/dev/cpu_dma_latency")


@contextlib.contextmanager
def cpu_latency_limit(wanted: bool, device: Path = _LATENCY) -> Iterator[str | None]:
    """Keep the host's processors out of idle states that take long to wake up from.

    A processor that has gone to sleep, or a virtual one that has been given back to its host, takes
    tens to hundreds of microseconds to come back; `cyclictest` sets the same limit.

    Parameters
    ----------
    wanted : bool
        Nothing is done without it.
    device : Path
        Where the kernel is told.

    Yields
    ------
    str or None
        A warning for people when it did not take effect.
    """
    if not wanted:
        yield None
        return
    if sys.platform != "linux":
        yield "awake is ignored: only Linux can keep its processors awake here"
        return
    try:
        request = os.open(device, os.O_WRONLY)
    except OSError as error:
        yield (
            f"awake is ignored: {device}: {error.strerror}; give the user the right to write it "
            "(a udev rule), or leave pacing.awake out"
        )
        return
    try:
        os.write(request, bytes(4))  # int32: at most 0 us
        yield None
    finally:
        os.close(request)
