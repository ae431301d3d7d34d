"""Constants of the error estimate, from random sessions held against their truth.

``python -m tools.calibration.calibrate_verdict --fit FILE`` makes them; docs/calibration.md says
from which sessions. By how an estimate was made: factors from it to the ends of the interval that
holds 95 % of the true errors.
"""

from __future__ import annotations

from typing import Final

LOW: Final[dict[str, float]] = {
    "sensitivities": 0.0135,
    "sensitivities of the start": 0,
    "sensitivities of a model": 0,
    "gain range": 8.4e-06,
}
HIGH: Final[dict[str, float]] = {
    "sensitivities": 1.34,
    "sensitivities of the start": 10.4,
    "sensitivities of a model": 10.2,
    "gain range": 10.4,
}
#: Estimates, relative to the signal's variation, up to which nearly all true errors were below 5 %.
GOOD: Final[dict[str, float]] = {
    "sensitivities": 0.04,
    "sensitivities of the start": 0.0384,
    "sensitivities of a model": 0.022,
    "gain range": 0.00388,
}
#: Estimates, relative to the same, above which hardly any true error was below 5 %.
UNRELIABLE: Final[dict[str, float]] = {
    "sensitivities": 0.2,
    "sensitivities of the start": 0.153,
    "sensitivities of a model": 0.116,
    "gain range": 0.2,
}
