"""Constants of the error estimate, from random sessions held against their truth.

``python tools/calibrate_verdict.py --fit FILE`` makes them (docs/calibration.md), here from
2,998 sessions. By how an estimate was made: factors from it to the ends of the interval that
holds 95 % of the true errors.
"""

from __future__ import annotations

from typing import Final

LOW: Final[dict[str, float]] = {
    "sensitivities": 0.0265,
    "sensitivities of the start": 0.0,
    "gain range": 0.0,
}
HIGH: Final[dict[str, float]] = {
    "sensitivities": 3.61,
    "sensitivities of the start": 9.15,
    "gain range": 10.3,
}
#: Estimates, relative to what the signal varies by, up to which
#: nearly all true errors were below 5 %.
GOOD: Final[dict[str, float]] = {
    "sensitivities": 0.04,
    "sensitivities of the start": 0.0274,
    "gain range": 0.0066,
}
#: Estimates, relative to the same, above which hardly any true error was below 5 %.
UNRELIABLE: Final[dict[str, float]] = {
    "sensitivities": 0.2,
    "sensitivities of the start": 0.2,
    "gain range": 0.2,
}
