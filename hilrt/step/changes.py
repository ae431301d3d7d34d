"""Adjustable numbers of a running session, and their pending changes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hilrt.config.from_toml import nearest
from hilrt.config.structs import Session
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.record.messages import Level
from hilrt.solver import Parameter
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

#: Table of the session file: faults, which an operator may begin and end.
FAULTS: Final = "faults"
_FIRST_OF_FAULTS: Final = len(BOND_SETTINGS) + len(INPUT_SETTINGS)
#: Name for the subsystems' parameters in the numbers of changes.
PARAMETERS: Final = "parameters"
_PARAMETER: Final = _FIRST_OF_FAULTS + len(FAULT_SETTINGS)


class OwnParameter(NamedTuple):
    """An adjustable parameter, with the number and the name of its subsystem.

    `name` is ``subsystem.parameter``, or ``member.parameter`` of a group.
    """

    s: int
    subsystem: str
    parameter: Parameter
    name: str

    @property
    def number(self) -> str:
        """``parameters.NAME``, as in the session file."""
        return f"{PARAMETERS}.{self.name}"


class Changes:
    """Requested changes of numbers that do not act yet.

    Numbers that an operator may change:

    * ``reliability.KEY``, ``bonds.NAME.cap``, ``bonds.NAME.cap_abs``, ``bonds.NAME.share``;
    * ``inputs.SUBSYSTEM.PORT``: a value overrides the input, NaN releases it;
    * ``faults.NAME``: 1 begins it, 0 ends it, NaN returns it to its times and conditions;
    * ``parameters.SUBSYSTEM.NAME``.

    ``bonds.NAME.contradicted`` is the result of a trial of the bond's correction during the
    session. A change acts at the next cut, as part of the step input.

    Parameters
    ----------
    network : Network
    driven : sequence of int
        Inputs on which more than connections may act, as in ``Plan.drives``.
    faults : sequence of str
        Names of the session's faults.
    parameters : sequence of OwnParameter
        As in ``Plan.parameters``.

    Attributes
    ----------
    pending : deque of (str, float)
        Number and its new value, oldest first.
    set_parameter : callable
        Called with subsystem, name and value of a parameter before its change acts; returns the
        reason for a refusal, or an empty text.
    outcomes : list of (str, str, str, str)
        Level, cause, source and text of each accepted or refused parameter, for the log.
    """

    def __init__(
        self,
        network: Network,
        driven: Sequence[int] = (),
        faults: Sequence[str] = (),
        parameters: Sequence[OwnParameter] = (),
    ) -> None:
        self._bonds = [bond.name for bond in network.bonds.tables]
        self._inputs = [network.inputs.names[i] for i in driven]
        units = [network.inputs.units[i] for i in driven]
        self._units = ["" if unit == UNSTATED else unit for unit in units]
        self._faults, self._parameters = list(faults), list(parameters)
        self.set_parameter: Callable[[str, str, float], str] = lambda subsystem, name, value: ""
        self.outcomes: list[tuple[Level, str, str, str]] = []
        self.pending: deque[tuple[str, float]] = deque()
        self._acting = False

    def add(self, number: str, value: float) -> None:
        """Append a change; it acts at the next cut."""
        self.pending.append((number, value))

    def present_number(self, state: State, number: str) -> float:
        """Value of a number after all pending changes."""
        for waiting, value in reversed(self.pending):
            if waiting == number:
                return value
        what, row = self._address(number, 0.0)
        if row < 0:
            return float(state.session[THRESHOLDS[what]][0])
        if what == _PARAMETER:
            return float(state.parameters["value"][row])
        if what >= _FIRST_OF_FAULTS:
            return float(state.faults["active"][row])
        if what >= len(BOND_SETTINGS):
            return float(state.drives["demanded"][row])
        return float(state.bonds[BOND_SETTINGS[what]][row])

    def unit_of(self, number: str) -> str:
        """Unit of a number that is an input or a parameter; empty if none."""
        name = number.partition(".")[2]
        if number.startswith(OPERATED):
            return self._units[self._inputs.index(name)]
        units = (own.parameter.unit for own in self._parameters if own.name == name)
        return next(units, "") if number.startswith(f"{PARAMETERS}.") else ""

    def put_into(self, given: StepInput) -> None:
        """Move the oldest pending changes, at most `CHANGES`, into `given`, to act at this cut."""
        if not self.pending and not self._acting:
            return
        count = 0
        while self.pending and count < CHANGES:
            number, value = self.pending.popleft()
            what, row = self._address(number, value)
            if what != _PARAMETER or self._set_parameter(row, value):
                given.changes[count] = what, row, value
                count += 1
        given.session["changes"], self._acting = count, count > 0

    def _set_parameter(self, row: int, value: float) -> bool:
        """Apply a parameter change, note the outcome, and return whether it was accepted."""
        own = self._parameters[row]
        unit = f" {own.parameter.unit}" if own.parameter.unit else ""
        text = f"parameter {own.name} = {value:g}{unit}"
        low, high = own.parameter.min, own.parameter.max
        if low <= value <= high:
            refused = self.set_parameter(own.subsystem, own.parameter.name, value)
        else:  # of a sequence
            refused = f"it lies outside {low:g} to {high:g}"
        if refused:
            text = f"{text} is refused: {refused}"
            self.outcomes.append(("warning", "parameter_refused", own.subsystem, text))
            return False
        text = f"{text} from now on; its earlier probed or identified responses are discarded"
        self.outcomes.append(("info", "parameter_changed", own.subsystem, text))
        return True

    def recorded(self, given: StepInput) -> list[tuple[str, float]]:
        """Changes that act at this cut, as written to the log."""
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
        if table == PARAMETERS:
            names = [own.name for own in self._parameters]
            return _PARAMETER, names.index(rest)
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
        if what == _PARAMETER:
            return f"{PARAMETERS}.{self._parameters[row].name}"
        if what >= _FIRST_OF_FAULTS:
            return f"{FAULTS}.{self._faults[row]}"
        if what >= len(BOND_SETTINGS):
            return f"{OPERATED}{self._inputs[row]}"
        return f"bonds.{self._bonds[row]}.{BOND_SETTINGS[what]}"


def own_parameters(
    network: Network, tables: Session, known: Sequence[Sequence[Parameter]]
) -> list[OwnParameter]:
    """Adjustable parameters: those of ``[monitor.adjust]``, then those of other tables.

    The other tables are test sequences (`adjust`) and stimuli. `known` lists the parameters that
    each subsystem declares.

    Raises
    ------
    ConfigError
        If a subsystem lacks such a parameter, or if bounds exceed those of the parameter.
    """
    there = {
        own.name: own
        for s, (subsystem, parameters) in enumerate(zip(network.subsystems, known, strict=False))
        for parameter in parameters
        for name in (tables.joined(subsystem, parameter.name),)
        for own in (OwnParameter(s, subsystem, parameter, name),)
    }
    found, problems = [], []
    for key, bounds in tables.monitor.adjust.items():
        table, _, name = key.partition(".")
        if table != PARAMETERS:
            continue
        where = f"[monitor.adjust] {key!r}"
        if name not in there:
            problems.append(f"{where}: there is no such parameter{nearest(name, there)}")
            continue
        own, parameter = there[name], there[name].parameter
        if not parameter.min <= bounds.min <= bounds.max <= parameter.max:
            text = f"{bounds.min:g} to {bounds.max:g} is not within {parameter.min:g} to"
            problems.append(f"{where}: {text} {parameter.max:g}, which its subsystem allows")
        found.append(own)
    others = [
        (f"[subsystems.{subsystem}] adjust", key)
        for subsystem, options in tables.subsystems.items()
        for key in options.adjusted
    ]
    others += [(f"[stimuli.{one.name}] input", one.input) for one in tables.stimuli]
    for where, key in others:
        table, _, name = key.partition(".")
        if table == PARAMETERS and name not in there:
            text = f"there is no such parameter{nearest(name, there)}"
            problems.append(f"{where} = {key!r}: {text}")
        elif table == PARAMETERS and there[name] not in found:
            found.append(there[name])
    if problems:
        raise ConfigError(problems)
    return found
