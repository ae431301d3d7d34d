"""The motion that a tuned μ rests on, and how far it holds for another.

For an undamped linear system ``mu = <v2^2> / (2 (<v2^2> - <v1 v2>))``: each of its oscillations has
a value of its own, and that of a motion depends on their shares. One in which both sides move alike
gets energy that no μ takes away. So a log has the μ of its own motion alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from hilrt.config.structs import Session
from hilrt.record.reader import Log, load_log
from hilrt.wording import number

#: Oscillations of a flow are named down to that share of its power.
LEAST_SHARE: Final = 0.02
#: Peaks of a spectrum with this window are so many lines wide, to either side.
PEAK: Final = 3
#: What a log must have, in one sentence.
NEEDED: Final = (
    "mu is that of the logged motion: another mixture of oscillations needs another one. Give logs "
    "that have the motions of later runs, recorded with about this mu, as a wrong one changes the "
    "mixture; or use mu_range, which follows the motion"
)


def oscillations(log: Log, signal: str) -> list[tuple[float, float]]:
    """Oscillations of a signal: frequency, Hz, and share of its power, the largest first.

    From a Hann window's spectrum: lines within `PEAK` of a peak are counted to it, so that the
    shares of oscillations that are closer than that many divided by the log's length are one.
    """
    times, values = log.time(signal), np.asarray(log[signal], dtype=np.float64)
    known = np.isfinite(values)
    times, values = times[known], values[known]
    if len(times) < 4 * PEAK or not times[-1] > times[0]:
        return []
    even = np.linspace(times[0], times[-1], len(times))
    values = np.interp(even, times, values)
    power = np.abs(np.fft.rfft((values - values.mean()) * np.hanning(len(values)))) ** 2
    step, total = even[1] - even[0], float(power.sum())
    found = []
    while total > 0.0:
        peak = int(np.argmax(power))
        around = slice(max(peak - PEAK, 0), peak + PEAK + 1)
        share = float(power[around].sum()) / total
        if share < LEAST_SHARE:
            break
        lines = np.arange(len(power))[around]
        middle = float(np.average(lines, weights=power[around]))
        found.append((middle / (len(values) * step), share))
        power[around] = 0.0
    return sorted(found, key=lambda one: -one[1])


def motion_notes(tables: Session, logs: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Oscillations of the flows whose bonds' μ is among `keys`, and what logs must have."""
    bonds = [bond for bond in tables.bonds if f"bonds.{bond.name}.correction.mu" in keys]
    notes = []
    for bond in bonds:
        for path in logs:
            found = oscillations(load_log(path), bond.flow)
            if found:
                said = ", ".join(f"{number(f, 3)} Hz ({round(100.0 * s)} %)" for f, s in found)
                where = f" in {path}" if len(logs) > 1 else ""
                notes.append(f"{bond.flow}{where} oscillates at {said}")
    return [*notes, NEEDED] if bonds else []
