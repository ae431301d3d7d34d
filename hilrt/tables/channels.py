"""Numbers of the channels between the master and its subsystems, one record for each."""

from __future__ import annotations

from typing import Final

import numpy as np

CHANNELS: Final = np.dtype(
    [
        # constant
        ("every", "i8"),  # base steps between its communication points
        ("physical", "i8"),  # a bench: runs by itself
        ("catches_up", "i8"),  # gets every interval, one after another
        ("patience", "f8"),  # age of a bench's newest sample from which on it is late, s
        ("max_misses", "i8"),  # due ticks in a row without a sample until it counts as lost
        # outstanding interval
        ("busy", "i8"),  # a solver has yet to answer
        ("answer_ns", "i8"),  # where the interval ends in session time, ns
        ("answered", "i8"),  # the answer, or a bench's samples, wait for a cut
        ("pending_end_ns", "i8"),  # where the newest pending interval ends, ns
        # newest sample
        ("newest", "f8"),  # when it is valid, s
        ("age", "f8"),  # at the cut, s
        ("compute_us", "f8"),  # that the subsystem took for its newest step
        ("wire_us", "f8"),  # on the wire (`PeerTimes.wire`); NaN where unknown
        # counts
        ("misses", "i8"),  # due ticks in a row without a sample, up to now
        ("late", "i8"),  # ticks without the sample that was due
        ("rejoined", "i8"),  # times that it has come back
    ]
)
