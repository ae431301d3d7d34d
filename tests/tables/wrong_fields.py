# mypy: warn-unused-ignores, enable-error-code="misc,attr-defined"
"""Fields that no row has: `make lint` fails here if mypy accepts one (`tools/column_names.py`)."""

from __future__ import annotations

from hilrt.tables.plan import Plan
from hilrt.tables.state import InputState, State


def right(plan: Plan, state: State, u: InputState) -> float:
    state.bonds["cap"] = plan.bonds["mu"]
    return state.bonds[0].power + state.session[0].h_next + u.last


def wrong(plan: Plan, state: State, u: InputState) -> float:
    state.bonds["powr"] = 0.0  # type: ignore[misc]
    share = float(plan.bonds["cap"][0])  # type: ignore[misc]
    found: float = u.max_rate  # type: ignore[attr-defined]
    return share + found + float(state.bonds[0].nu)  # type: ignore[attr-defined]
