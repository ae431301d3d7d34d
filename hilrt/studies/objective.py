"""The objective of a tuning, the constraints of settings, and the motion on which μ depends."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Final, Literal, get_args

import numpy as np

from hilrt.analyze.stability_study import find_scheme, growth, radius_and_margin
from hilrt.config.session_file import SessionFile, override
from hilrt.config.structs import Session
from hilrt.errors import HilrtError
from hilrt.record.reader import Log, load_log
from hilrt.session.result import VERDICTS
from hilrt.studies.axes import Settings
from hilrt.studies.run_cases import Row
from hilrt.studies.subject import Subject
from hilrt.wording import number

Objective = Literal["error", "energy", "cost"]
OBJECTIVES: Final = get_args(Objective)
#: Maximum share of the steps at which a correction may be at its cap.
MOST_CAPPED: Final = 0.05
#: The coupling must also be stable at a step that is longer by this factor.
LONGER: Final = 1.25


def score(row: Row, objective: Objective, verdicts: Sequence[str] = ("good",)) -> float:
    """Objective of a case, to be minimised; infinite if unknown or forbidden."""
    capped = [v for k, v in row.items() if k.startswith("bonds.") and k.endswith(".cap_share")]
    if row["failure"] or row["verdict"] not in verdicts or max(capped, default=0.0) > MOST_CAPPED:
        return math.inf
    if row.get("flags.correction_harmful.count"):  # after that it did not act
        return math.inf
    return figure_of(row, objective)


def allowed_verdicts(subject: Subject) -> list[Sequence[str]]:
    """Permitted verdicts: ``good`` for a session, and for a log none worse than before.

    "Before" means the same decisions, repeated with the recorded settings. Their estimated errors
    lack the reaction of the subsystems, so that a log may not reach ``good``.
    """
    if not subject.logs:
        return [("good",)]
    own = [row["verdict"] for row in subject.rows({})]
    return [VERDICTS[: VERDICTS.index(one) + 1] if one else () for one in own]


def figure_of(row: Row, objective: Objective) -> float:
    """Objective of a case, whatever its verdict."""
    if row["failure"] or not row["steps"]:
        return math.inf
    if objective == "energy":
        bonds = {k.removesuffix(".carried_energy_j") for k in row if k.endswith("carried_energy_j")}
        shares = [
            abs(row[f"{bond}.interface_energy_j"]) / row[f"{bond}.carried_energy_j"]
            for bond in bonds
            if row[f"{bond}.carried_energy_j"] > 0.0 and f"{bond}.interface_energy_j" in row
        ]
        return max(shares, default=math.inf)
    value = row["error"] if objective == "error" else row["steps"] / row["time_s"]
    return float(value) if math.isfinite(value) else math.inf


def grows_at_longer_step(file: SessionFile, settings: Settings) -> float:
    """Growth rate of a session's coupling at a step that is a quarter longer, 1/s, at least 0.

    NaN if the models are not linear, or cannot be differentiated.
    """
    changed = override(file, settings)
    try:
        with contextlib.closing(find_scheme(changed)) as scheme:
            step = LONGER * changed.tables.master.step
            radius, margin = radius_and_margin(scheme, step)
            return max(growth(radius - margin, step), 0.0)
    except HilrtError:
        return math.nan


# The motion on which a tuned μ depends, and whether μ is valid for another motion.
#
# For an undamped linear system ``mu = <v2^2> / (2 (<v2^2> - <v1 v2>))``: each of its oscillations
# has its own value, and the value of a motion depends on their shares. An oscillation in which both
# sides move alike gains energy that no μ removes. A log therefore only gives μ for its own motion.

#: Smallest share of a flow's power at which an oscillation is named.
LEAST_SHARE: Final = 0.02
#: Width of a spectral peak with this window, lines to either side.
PEAK: Final = 3
#: Requirement on logs, as text.
NEEDED: Final = (
    "mu is that of the logged motion: another mixture of oscillations needs another mu. Give logs "
    "with the motions of later runs, recorded with about this mu, as a wrong mu changes the "
    "mixture; or use mu_range, which follows the motion"
)


def oscillations(log: Log, signal: str) -> list[tuple[float, float]]:
    """Oscillations of a signal: frequency, Hz, and share of its power, the largest first.

    From the spectrum with a Hann window: lines within `PEAK` of a peak belong to it, so that
    oscillations closer than `PEAK` divided by the log's duration are combined.
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
    """Notes on oscillations of flows whose bonds' μ is among `keys`, and on required logs."""
    bonds = [bond for bond in tables.bonds if f"bonds.{bond.name}.correction.mu" in keys]
    notes = []
    for bond in bonds:
        for path in logs:
            found = oscillations(load_log(path), bond.flow)
            if found:
                peaks = ", ".join(f"{number(f, 3)} Hz ({round(100.0 * s)} %)" for f, s in found)
                where = f" in {path}" if len(logs) > 1 else ""
                notes.append(f"{bond.flow}{where} oscillates at {peaks}")
    return [*notes, NEEDED] if bonds else []
