"""Numbers of a running session that may change, and the changes that wait to act."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from hilrt.tables.given import (
    BOND_SETTINGS,
    CHANGES,
    FAULT_SETTINGS,
    INPUT_SETTINGS,
    THRESHOLDS,
    StepInput,
)
from hilrt.tables.network import OPERATED, Network
from hilrt.tables.state import State

#: Table of the session file whose entries an operator may begin and end.
FAULTS: Final = "faults"
_FIRST_OF_FAULTS: Final = len(BOND_SETTINGS) + len(INPUT_SETTINGS)


class Changes:
    """Changes of numbers, from when they are asked for until they act.

    An operator's are ``reliability.KEY``, ``bonds.NAME.cap``, ``bonds.NAME.cap_abs``,
    ``bonds.NAME.share``, and ``inputs.SUBSYSTEM.PORT``: a value takes the input, so that the
    operator drives it, and NaN gives it back; and ``faults.NAME``: 1 begins it, 0 ends it, NaN
    leaves it to its times and conditions. ``bonds.NAME.contradicted`` is what a trial of the
    bond's correction found while the session runs. A change acts at the next cut, as part of what
    the step is given.

    Parameters
    ----------
    network : Network
    driven : sequence of int
        Inputs on which more than connections may act, as in ``Plan.drives``.
    faults : sequence of str
        Names of the session's faults.

    Attributes
    ----------
    pending : deque of (str, float)
        Number and its new value, oldest first.
    """

    def __init__(
        self, network: Network, driven: Sequence[int] = (), faults: Sequence[str] = ()
    ) -> None:
        self._bonds = [bond.name for bond in network.bonds.tables]
        self._inputs = [network.inputs.names[i] for i in driven]
        self._faults = list(faults)
        self.pending: deque[tuple[str, float]] = deque()
        self._acting = False

    def add(self, number: str, value: float) -> None:
        """Let a change wait for the next cut."""
        self.pending.append((number, value))

    def present_number(self, state: State, number: str) -> float:
        """A number as it will be when everything that waits has acted."""
        for waiting, value in reversed(self.pending):
            if waiting == number:
                return value
        what, row = self._address(number, 0.0)
        if row < 0:
            return float(state.session[THRESHOLDS[what]][0])
        if what >= _FIRST_OF_FAULTS:
            return float(state.faults["active"][row])
        if what >= len(BOND_SETTINGS):
            return float(state.drives["demanded"][row])
        return float(state.bonds[BOND_SETTINGS[what]][row])

    def put_into(self, given: StepInput) -> None:
        """Put the changes that act at this cut into `given`: `CHANGES` at most, the oldest."""
        if not self.pending and not self._acting:
            return
        count = min(len(self.pending), CHANGES)
        given.session["changes"], self._acting = count, count > 0
        for i in range(count):
            number, value = self.pending.popleft()
            given.changes[i] = (*self._address(number, value), value)

    def recorded(self, given: StepInput) -> list[tuple[str, float]]:
        """Changes that act at this cut, as the log has them."""
        count = int(given.session["changes"][0])
        acting = given.changes[:count].tolist()
        return [(self._number(what, row), value) for what, row, value in acting]

    def _address(self, number: str, value: float) -> tuple[int, int]:
        """Fields `what` and `row` of a change."""
        table, _, rest = number.partition(".")
        if number.startswith(OPERATED):
            setting = "give_back" if math.isnan(value) else "take"
            what = len(BOND_SETTINGS) + INPUT_SETTINGS.index(setting)
            return what, self._inputs.index(rest)
        if table == FAULTS:
            setting = "release" if math.isnan(value) else "inject" if value else "clear"
            return _FIRST_OF_FAULTS + FAULT_SETTINGS.index(setting), self._faults.index(rest)
        if table == "reliability":
            return THRESHOLDS.index(rest), -1
        bond, _, key = rest.rpartition(".")
        return BOND_SETTINGS.index(key), self._bonds.index(bond)

    def _number(self, what: int, row: int) -> str:
        if row < 0:
            return f"reliability.{THRESHOLDS[what]}"
        if what >= _FIRST_OF_FAULTS:
            return f"{FAULTS}.{self._faults[row]}"
        if what >= len(BOND_SETTINGS):
            return f"{OPERATED}{self._inputs[row]}"
        return f"bonds.{self._bonds[row]}.{BOND_SETTINGS[what]}"
