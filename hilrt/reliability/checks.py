"""The checks of a session: one for every pair of subject and cause.

A subject is an output, an input, a bond, a subsystem, an alarm or the session. One table contains
all checks, grouped by cause.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hilrt.config.read_values import errors_are_tested
from hilrt.config.structs import MasterTable
from hilrt.reliability.causes import CAUSES
from hilrt.tables.network import Network
from hilrt.tables.plan import Plan


@dataclass(frozen=True)
class CheckNames:
    """Names of the rows of `Plan.checks` and `Plan.causes`.

    Attributes
    ----------
    causes : list of str
        All of `CAUSES`.
    groups : list of slice
        The checks of each cause.
    where : list of str
        Name of the subject of each check.
    """

    causes: list[str]
    groups: list[slice]
    where: list[str]

    def __len__(self) -> int:
        return len(self.where)

    def of(self, cause: str) -> list[str]:
        """Subjects of the checks for a cause."""
        return self.where[self.groups[self.causes.index(cause)]]

    def cause_of(self, check: int) -> str:
        """Cause that a check belongs to."""
        return self.causes[self.number_of(check)]

    def number_of(self, check: int) -> int:
        """Number of the cause that a check belongs to."""
        return bisect_right(self.groups, check, key=lambda group: group.start) - 1


def check_rows(
    network: Network, master: MasterTable, alarms: Sequence[str], acting: bool = True
) -> CheckNames:
    """List all checks that apply to the topology.

    Parameters
    ----------
    network : Network
    master : MasterTable
        Determines whether the errors of the inputs are estimated.
    alarms : sequence of str
        Names of the alarms.
    acting : bool
        Whether corrections act, or are only computed.
    """
    bonds = [bond.name for bond in network.bonds.tables]
    watched = {
        "sample_late": network.subsystems,
        "subsystem_silent": network.subsystems,
        "rejoined": network.subsystems,
        "sample_implausible": network.outputs.names,
        "connection_defect": network.inputs.names,
        "output_defect": network.outputs.names,
        "error_estimate": _estimates(network, acting) if errors_are_tested(master) else [],
        "power_residual": bonds,
        "energy_drift": bonds,
        "tracking_error": bonds,
        "correction_capped": bonds,
        "correction_shadow": bonds,
        "model_untrusted": network.outputs.names,
        "model_unexcited": network.outputs.names,
        "event_inside_step": network.subsystems,
        "input_limited": network.inputs.names,
        "demand_cut": network.inputs.names,
        "step_minimum": ["session"],
        "deadline_missed": ["session"],
        "clock_uncertain": network.subsystems,
        "alarm": list(alarms),
        "correction_wrong": bonds,
        "correction_unverified": bonds,
        "out_of_range": network.outputs.names,
        "correction_harmful": bonds,
        "steps_final": network.subsystems,
        "inputs_ignored": network.subsystems,
        "sensitivities_changed": ["session"],
        "error_feeds_spread": network.outputs.names,
        "inside_unknown": network.subsystems,
        "switches_inside": network.subsystems,
    }
    groups: list[slice] = []
    where: list[str] = []
    for cause in CAUSES:
        groups.append(slice(len(where), len(where) + len(watched[cause])))
        where += watched[cause]
    return CheckNames(list(CAUSES), groups, where)


def _estimates(network: Network, acting: bool) -> list[str]:
    """Inputs whose error is estimated, with a mark where the estimate is only an indicator."""
    through = network.feedthrough.in_row.copy()
    if acting:  # known feedthrough is corrected as if evaluated with the true inputs
        through &= ~network.corrected_efforts("feedthrough")
    marked = network.L.where(columns=through).in_row
    return [
        f"{name} (indicator)" if mark else name
        for name, mark in zip(network.inputs.names, marked, strict=True)
    ]


def fill_checks(plan: Plan, names: CheckNames) -> None:
    """Fill the tables of checks and causes."""
    for c, group in enumerate(names.groups):
        plan.causes["first"][c], plan.causes["checks"][c] = group.start, group.stop - group.start
        plan.checks["cause"][group] = c
        plan.checks["subject"][group] = np.arange(group.stop - group.start)
