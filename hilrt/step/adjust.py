"""Numbers of a session that an operator may change while it runs, within the file's bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilrt.solver import Floats

if TYPE_CHECKING:
    from hilrt.step.plan import Plan


def present_number(plan: Plan, what: str) -> float:
    """``bonds.NAME.cap``, ``bonds.NAME.cap_abs`` or ``reliability.KEY`` as it is now."""
    table, _, rest = what.partition(".")
    if table == "reliability":
        return float(getattr(plan.reliability, rest))
    array, b = _bond_number(plan, rest)
    return float(array[b])


def set_number(plan: Plan, what: str, value: float) -> float:
    """Set what `present_number` reads, and return the old one.

    Between two ticks: the next one uses it.
    """
    before = present_number(plan, what)
    table, _, rest = what.partition(".")
    if table == "reliability":
        setattr(plan.reliability, rest, value)
    else:
        array, b = _bond_number(plan, rest)
        array[b] = value
    return before


def _bond_number(plan: Plan, what: str) -> tuple[Floats, int]:
    name, _, key = what.rpartition(".")
    array: Floats = getattr(plan.energy, key)
    return array, [bond.name for bond in plan.network.bonds.tables].index(name)
