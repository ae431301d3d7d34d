"""Convert flat vectors of port values to an FMU's typed variables and back."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hilrt.config.from_toml import nearest
from hilrt.fmu.description import Fmu
from hilrt.fmu.variables import TYPES, items_of, settable, typed
from hilrt.solver import Floats
from hilrt.tables.ports import Ints

Check = Callable[[str, int], None]


class _Group:
    """Variables of one C type, set or read in one call."""

    def __init__(
        self,
        lib: Any,
        major: int,
        kind: str,
        variables: list[tuple[Any, int, int]],
        instance: Any,
    ) -> None:
        name, c_type, dtype = TYPES[major][kind]
        self.get_name, self.set_name = f"fmi{major}Get{name}", f"fmi{major}Set{name}"
        references = [variable.valueReference for variable, _, _ in variables]
        self.references = (ctypes.c_uint * len(references))(*references)
        positions = [i for _, first, size in variables for i in range(first, first + size)]
        steps = np.diff(positions)
        self.where: Any = (
            slice(positions[0], positions[-1] + 1) if (steps == 1).all() else np.array(positions)
        )
        self.buffer: NDArray[Any] = np.zeros(len(positions), dtype=dtype)
        self.is_boolean = kind == "Boolean"
        self._items = self._places_of_items(variables)
        if np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            self.least, self.most = float(limits.min), float(limits.max)
            if self.most > limits.max:  # 2**63 - 1 is not a double: use the next lower one
                self.most = math.nextafter(self.most, 0.0)
        pointer = self.buffer.ctypes.data_as(ctypes.POINTER(c_type))
        arguments = [instance, self.references, len(references), pointer]
        if major == 3:
            arguments.append(len(positions))
        # Arguments are bound once, so that ctypes converts little per call.
        self.get = functools.partial(getattr(lib, self.get_name), *arguments)
        self.set = functools.partial(getattr(lib, self.set_name), *arguments)

    @staticmethod
    def _places_of_items(
        variables: list[tuple[Any, int, int]],
    ) -> list[tuple[slice, NDArray[Any], Floats]]:
        """Enumerations in the buffer: position, items, and bounds between the items."""
        found, first = [], 0
        for variable, _, size in variables:
            items = np.array(sorted(set(items_of(variable).values())))
            if len(items):
                found.append((slice(first, first + size), items, (items[1:] + items[:-1]) / 2))
            first += size
        return found

    def fill(self, values: Floats) -> None:
        """Put `values`, shape (n,), into the buffer, rounded to the type."""
        if self.buffer.dtype.kind == "f":
            self.buffer[:] = values
        elif self.is_boolean:
            self.buffer[:] = values >= 0.5
        else:
            self.buffer[:] = np.clip(np.rint(values), self.least, self.most)
            for place, items, between in self._items:
                self.buffer[place] = items[np.searchsorted(between, values[place])]


class Values:
    """Some variables of an FMU instance as one vector.

    Parameters
    ----------
    lib : ctypes.CDLL
        The loaded binary, with typed functions.
    major : int
        FMI version, 2 or 3.
    variables : sequence of (variable, int)
        With their numbers of elements, in the order of the vector.
    check : callable
        ``check(function, status)`` raises if the FMU refuses.
    instance : ctypes.c_void_p
        The FMU's own pointer to the instance.
    """

    def __init__(
        self,
        lib: Any,
        major: int,
        variables: Sequence[tuple[Any, int]],
        check: Check,
        instance: Any,
    ) -> None:
        self._check = check
        members: dict[str, list[tuple[Any, int, int]]] = {}
        first = 0
        for variable, size in variables:
            # Grouped by C function: FMI 2 sets enumerations with the integers, and Booleans with
            # a function of their own. Clocks have no values: they stay 0.
            if variable.type != "Clock" and size:
                members.setdefault(variable.type, []).append((variable, first, size))
            first += size
        self.size = first
        self._groups = [_Group(lib, major, kind, some, instance) for kind, some in members.items()]
        only = self._groups[0] if len(self._groups) == 1 else None
        if only is not None and len(only.buffer) != self.size:
            only = None
        #: The only group if all are doubles, the usual case.
        self._doubles = only if only is not None and only.buffer.dtype == np.float64 else None

    def read(self) -> Floats:
        """Present values, shape (size,)."""
        doubles = self._doubles
        if doubles is not None:
            status = doubles.get()
            if status:
                self._check(doubles.get_name, status)
            return doubles.buffer.copy()
        values = np.zeros(self.size)
        for group in self._groups:
            status = group.get()
            if status:
                self._check(group.get_name, status)
            values[group.where] = group.buffer
        return values

    def write(self, values: Floats) -> None:
        """Set all variables.

        Integers are rounded, enumerations to the nearest item; Booleans are true from 0.5 up.
        """
        doubles = self._doubles
        if doubles is not None:
            doubles.buffer[:] = values
            status = doubles.set()
            if status:
                self._check(doubles.set_name, status)
            return
        for group in self._groups:
            group.fill(values[group.where])
            status = group.set()
            if status:
                self._check(group.set_name, status)


class ValueSubset:
    """Some of the inputs, or of the outputs, as part of their vector.

    Attributes
    ----------
    where : ndarray of int
        Their positions.
    """

    def __init__(self, where: Ints, values: Values) -> None:
        self.where, self._values = where, values

    def write(self, u: Floats) -> None:
        """Set them from `u` (n_inputs,), the vector of all inputs."""
        self._values.write(u[self.where])

    def read(self, y: Floats) -> None:
        """Copy their present values into `y` (n_outputs,), the vector of all outputs."""
        y[self.where] = self._values.read()


# Values set by a session before an FMU starts, in the types of its variables.


def start_values(fmu: Fmu, params: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The values in the variables' types, without invalid ones.

    Parameters
    ----------
    fmu : Fmu
    params : mapping
        Name to value, or to a list with one value per element.
    problems : list of str
        Extended by one line per problem.
    """
    start = {}
    for key, value in params.items():
        known = len(problems)
        value = _value(fmu, key, value, problems)
        if len(problems) == known:
            start[key] = value
    return start


def _value(fmu: Fmu, key: str, value: Any, problems: list[str]) -> Any:
    """A parameter's value in the variable's type; None if it is invalid."""
    variable = fmu.variables.get(key)
    where = f"params.{key} = {value!r}"
    if variable is None:
        known = [name for name, v in fmu.variables.items() if settable(v)]
        problems.append(f"{where}: {fmu.path.name} has no such parameter{nearest(key, known)}")
        return None
    if not settable(variable):
        kind = f"{variable.variability} {variable.causality}"
        if variable.type in ("Binary", "Clock"):
            kind = f"{variable.type} {variable.causality}"
        problems.append(
            f"{where}: is a {kind} of {fmu.path.name}, which cannot be set; set a parameter, an "
            "input or a start value"
        )
        return None
    if key in fmu.unusable:
        problems.append(f"{where}: cannot be set: {fmu.unusable[key]}; export the FMU again")
        return None
    try:
        if isinstance(value, (list, tuple)):
            if not variable.dimensions:
                raise ValueError("it is not an array; give one value")
            return [typed(fmu.major, variable, item) for item in value]
        return typed(fmu.major, variable, value)
    except (TypeError, ValueError, OverflowError) as error:
        problems.append(f"{where}: does not fit its type {variable.type}: {error}")
        return None


def wrong_lengths(start: Mapping[str, Any], sizes: Mapping[str, int]) -> list[str]:
    """Report arrays with a wrong number of values: the FMU would read past the end."""
    problems = []
    for key, value in start.items():
        given = len(value) if isinstance(value, list) else 1
        if given != sizes[key]:
            problems.append(
                f"params.{key} = {value!r}: has {given} of its {sizes[key]} elements; give a list "
                f"of {sizes[key]}, row by row"
            )
    return problems


def wrong_starts(fmu: Fmu, starts: Mapping[str, float | None]) -> dict[str, str]:
    """Start values of inputs that do not fit their variables, by name, with the reason."""
    wrong = {}
    for name, start in starts.items():
        variable = fmu.variables[name]
        if start is None or variable.type == "Clock":
            continue
        try:
            if variable.type == "Boolean" and start not in (0.0, 1.0):
                raise ValueError("give 0 or 1")
            typed(fmu.major, variable, start)
        except (ValueError, OverflowError) as error:
            wrong[name] = f"does not fit its type {variable.type}: {error}"
    return wrong
