"""Constants of the error estimate, from random sessions held against their truth.

``python tools/calibrate_verdict.py --fit FILE`` makes them. By how an estimate was made: factors
from it to the ends of the interval that holds 95 % of the true errors.
"""

from __future__ import annotations

from typing import Final

LOW: Final[dict[str, float]] = {
    "sensitivities": 0.5,
    "sensitivities of the start": 0.3,
    "gain range": 0.1,
}
HIGH: Final[dict[str, float]] = {
    "sensitivities": 2.0,
    "sensitivities of the start": 3.0,
    "gain range": 2.0,
}
#: Estimates, relative to what the signal varies by, up to which
#: nearly all true errors were below 5 %.
GOOD: Final[dict[str, float]] = {
    "sensitivities": 0.025,
    "sensitivities of the start": 0.017,
    "gain range": 0.026,
}
