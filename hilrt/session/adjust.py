"""Numbers of a session that an operator may change while it runs, within the file's bounds."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from hilrt.config.problems import Findings
from hilrt.config.structs import Session
from hilrt.monitor.addresses import check_addresses
from hilrt.monitor.commands import ACTIONS
from hilrt.solver import Floats

if TYPE_CHECKING:
    from hilrt.step.plan import Plan

RELIABILITY_KEYS = ("connection_defect", "output_defect", "power_residual", "tracking")
BOND_KEYS = ("cap", "cap_abs")


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


def check_monitor(tables: Session, findings: Findings) -> None:
    """What is wrong with ``[monitor]``."""
    check_addresses(tables.monitor, findings)
    _check_foxglove(tables.monitor.foxglove, findings)
    for action in tables.monitor.control:
        if action not in ACTIONS:
            remedy = f"choose from {', '.join(ACTIONS)}"
            findings.error("monitor", "control", action, "is no command", remedy)
    known = [f"reliability.{key}" for key in RELIABILITY_KEYS]
    known += [f"bonds.{b.name}.{key}" for b in tables.bonds for key in BOND_KEYS]
    for name, bounds in tables.monitor.adjust.items():
        value = f"{bounds.min:g} … {bounds.max:g}"
        if name not in known:
            remedy = f"choose from {', '.join(known)}"
            findings.error("monitor.adjust", name, value, "cannot be adjusted", remedy)
        elif not 0.0 <= bounds.min <= bounds.max:
            findings.error("monitor.adjust", name, value, "is no range", "give 0 <= min <= max")
        elif name.startswith("reliability.") and bounds.min == 0.0:
            findings.error(
                "monitor.adjust", name, value, "would flag everything at 0", "give a min above 0"
            )


def _check_foxglove(address: str | None, findings: Findings) -> None:
    if address is None:
        return
    _, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        remedy = 'write it as ADDRESS:PORT, for example "127.0.0.1:8765"'
        findings.error("monitor", "foxglove", address, "is no address", remedy)
    if find_spec("foxglove") is None:
        findings.error(
            "monitor", "foxglove", address, "needs foxglove-sdk", "install hilrt[foxglove]"
        )
