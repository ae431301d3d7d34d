"""The objective of a tuning, and the constraints that settings must meet."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Final, Literal, get_args

from hilrt.analyze.stability_study import find_scheme, growth, radius_and_margin
from hilrt.config.session_file import SessionFile, override
from hilrt.errors import HilrtError
from hilrt.session.result import VERDICTS
from hilrt.studies.axes import Settings
from hilrt.studies.run_cases import Row
from hilrt.studies.subject import Subject

Objective = Literal["error", "energy", "cost"]
OBJECTIVES: Final = get_args(Objective)
#: A correction that is at its cap for more of the steps does not follow its method.
MOST_CAPPED: Final = 0.05
#: The coupling must be stable at a step that is longer by this factor, too.
LONGER: Final = 1.25


def score(row: Row, objective: Objective, verdicts: Sequence[str] = ("good",)) -> float:
    """Objective of a case, which is to be small; infinite if it is not known or forbidden."""
    capped = [v for k, v in row.items() if k.startswith("bonds.") and k.endswith(".cap_share")]
    if row["failure"] or row["verdict"] not in verdicts or max(capped, default=0.0) > MOST_CAPPED:
        return math.inf
    if row.get("flags.correction_harmful.count"):  # from then on it did not act
        return math.inf
    return figure_of(row, objective)


def allowed_verdicts(subject: Subject) -> list[Sequence[str]]:
    """Verdicts that settings may come to: of a session ``good``, of a log none worse than before.

    Before: of the same decisions, repeated with the settings as recorded. Their estimated errors
    lack the reaction of the subsystems, so that ``good`` would be more than a log can have.
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
    """Growth of a session's coupling at a step that is a quarter longer, 1/s, never below 0.

    NaN where the models are not linear, or cannot be differentiated.
    """
    changed = override(file, settings)
    try:
        with contextlib.closing(find_scheme(changed)) as scheme:
            step = LONGER * changed.tables.master.step
            radius, margin = radius_and_margin(scheme, step)
            return max(growth(radius - margin, step), 0.0)
    except HilrtError:
        return math.nan
