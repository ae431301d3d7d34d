"""Constants of the error estimate, from random sessions held against their truth.

``python tools/calibrate_verdict.py --fit FILE`` makes them. By how an estimate was made: factors
from it to the ends of the interval that holds 95 % of the true errors.
"""

from __future__ import annotations

from typing import Final

LOW: Final[dict[str, float]] = {
    "sensitivities": 0.45,
    "sensitivities of the start": 0.7,
    "gain range": 0.0,
}
HIGH: Final[dict[str, float]] = {
    "sensitivities": 1.2,
    "sensitivities of the start": 15.0,
    "gain range": 22.0,
}
#: Estimates, relative to what the signal varies by, up to which
#: nearly all true errors were below 5 %.
GOOD: Final[dict[str, float]] = {
    "sensitivities": 0.04,
    "sensitivities of the start": 0.017,
    "gain range": 0.026,
}
