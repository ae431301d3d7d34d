"""``hilrt import-ssp``: convert an SSP archive to a session file and a folder of FMUs."""

from __future__ import annotations

import filecmp
import json
import math
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hilrt.config import units
from hilrt.errors import ConfigError
from hilrt.files.archive import ArchiveError, open_archive, unpack_member
from hilrt.files.text import whole_file, write_whole
from hilrt.fmu.description import Fmu, read_fmu
from hilrt.fmu.fmu_ports import Selection, select, unit_of
from hilrt.fmu.ssp import Component, Node, Route, SspValue, Structure, read_ssp
from hilrt.fmu.values import start_values
from hilrt.fmu.variables import CONTINUOUS, NUMERIC, starts_of

_DURATION_S = 10.0
_STEP_S = 1e-3
#: Size limit of an FMU in an archive, bytes.
MAX_FMU = 4 << 30


def import_ssp(path: Path, out: Path, hosted: bool = False) -> list[str]:
    """Convert an SSP archive to a session file.

    Parameters
    ----------
    path : Path
        The SSP archive.
    out : Path
        The session file to write; the FMUs go into a folder beside it.
    hosted : bool
        Host each FMU in a separate process.

    Returns
    -------
    list of str
        Notes about parts of the archive that the session lacks.

    Raises
    ------
    ConfigError
        If the archive cannot be used, or a file to write exists.
    """
    if not out.suffix:  # the FMUs' folder is named after it
        raise ConfigError(f"{out}: is not a valid name of a session file; use {out}.toml")
    structure = read_ssp(path)
    folder = out.with_suffix("")
    if out.exists():
        raise ConfigError(f"{out}: exists; name another file, or remove it")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(
            f"{folder}: is a file, not a folder for the FMUs; name another session file, or move it"
        )
    with tempfile.TemporaryDirectory() as unpacked:  # a failed import leaves no files
        fmus = _unpack(path, structure, Path(unpacked))
        text = "\n".join(_Writer(structure, fmus, out, hosted).lines()) + "\n"
        copies = sorted({fmu.path for fmu in fmus.values()})
        for copy in copies:
            _check_free(folder / copy.name, copy, path)
        folder.mkdir(parents=True, exist_ok=True)
        for copy in copies:
            with whole_file(folder / copy.name) as part:
                shutil.copyfile(copy, part)
    write_whole(out, text)
    return structure.notes


def _check_free(target: Path, copy: Path, archive: Path) -> None:
    """Refuse to overwrite a file, unless it is the same FMU, from an earlier import."""
    if not target.exists() or (target.is_file() and filecmp.cmp(target, copy, shallow=False)):
        return
    raise ConfigError(
        f"{target}: exists, and is not the FMU of {archive}; "
        "name another session file, or move the existing file"
    )


def _unpack(path: Path, structure: Structure, folder: Path) -> dict[tuple[str, ...], Fmu]:
    """Copy every FMU once, and read it; errors name the component and its file."""
    copies: dict[str, Fmu] = {}
    with open_archive(path) as archive:
        for component in structure.components.values():
            source = component.source
            if source in copies:
                continue
            target = folder / _free_name(Path(source), {fmu.path.name for fmu in copies.values()})
            try:
                unpack_member(archive, source, target, MAX_FMU)
            except KeyError:
                raise ConfigError(
                    f"{path}: has no {source}, the FMU of {component.name!r}; pack it again"
                ) from None
            except ArchiveError as error:
                raise ConfigError(f"{path}: {error}; pack it again") from None
            try:
                copies[source] = read_fmu(target)
            except ConfigError as error:
                where = f"{path}: component {component.name!r}, {source}: "
                of_copy = f"fmu = {str(target)!r}: "
                raise ConfigError(
                    [where + problem.removeprefix(of_copy) for problem in error.problems]
                ) from None
    return {key: copies[c.source] for key, c in structure.components.items()}


def _free_name(source: Path, taken: set[str]) -> str:
    """Unused name of a copy; folders of an archive may contain FMUs of the same name."""
    lower = {name.lower() for name in taken}  # some file systems ignore case
    name, n = source.name, 1
    while name.lower() in lower:
        n += 1
        name = f"{source.stem}_{n}{source.suffix}"
    return name


class _Writer:
    def __init__(
        self, structure: Structure, fmus: dict[tuple[str, ...], Fmu], out: Path, hosted: bool
    ) -> None:
        self.structure, self.fmus, self.out, self.hosted = structure, fmus, out, hosted
        self.notes = structure.notes

    def lines(self) -> Iterator[str]:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.structure.name).strip("-.") or "session"
        yield "# Imported from an SSP; `hilrt check` lists the remaining choices."
        yield ""
        yield "[session]"
        yield f"name = {_toml(name)}"
        yield f"duration = {_toml(self._duration())}"
        yield 'pace = "asap"'
        yield ""
        yield "[master]"
        yield f"step = {_toml(self._step())}"
        if self.structure.start_time < 0.0:
            self.notes.append(
                f"startTime {self.structure.start_time:g} is left out: FMUs start at 0 s or later"
            )
        connected = {route.target for route in self.structure.routes}
        for path, component in self.structure.components.items():
            yield ""
            yield from self._subsystem(path, component, connected)
        for route in self.structure.routes:
            yield ""
            yield from self._connection(route)

    def _duration(self) -> float:
        """Duration, s; session time begins at 0, whatever the FMUs' start time."""
        start, stop = self.structure.start_time, self.structure.stop_time
        if stop is None:
            return _DURATION_S
        if stop <= start:
            self.notes.append(
                f"stopTime {stop:g} is not after startTime {start:g}; the session uses "
                f"{_DURATION_S:g} s"
            )
            return _DURATION_S
        return _plain(stop - start)

    def _step(self) -> float:
        """Shortest step size of the FMUs' default experiments, s."""
        steps = [
            _positive(fmu.model.defaultExperiment.stepSize)
            for fmu in self.fmus.values()
            if fmu.model.defaultExperiment is not None
        ]
        return min((step for step in steps if step is not None), default=_STEP_S)

    def _subsystem(
        self, path: tuple[str, ...], component: Component, connected: set[Node]
    ) -> Iterator[str]:
        fmu = self.fmus[path]
        params, left_out = self._params(fmu, component)
        # An input with a parameter is not a port, so a connected one gets a start value instead.
        chosen = _select(fmu, component, params)
        typed = chosen.start
        starts = {
            name: float(typed[name])
            for name in params
            if (path, name) in connected and fmu.variables[name].type in NUMERIC
        }
        params = {name: value for name, value in params.items() if name not in starts}
        # A port has one start value for all its elements.
        for variable, port in zip(chosen.inputs, chosen.input_ports, strict=True):
            values = starts_of(variable)
            if (path, port.name) not in connected and len(set(values)) > 1:
                if len(values) == port.size:
                    params[port.name] = values
                else:
                    self.notes.append(
                        f"{component.name}.{port.name} has {port.size} elements, but start values "
                        f"for {len(values)}; the first one is used for all"
                    )
        start = max(self.structure.start_time, 0.0)
        file = f"{self.out.with_suffix('').name}/{fmu.path.name}"
        yield f"[subsystems.{_key(component.name)}]"
        yield from (f"# left out: {' '.join(problem.split())}" for problem in left_out)
        if self.hosted:
            argv = ["hilrt", "solver", file]
            for name, value in params.items():
                argv += ["--param", f"{name}={_toml(value)}"]
            if start:
                argv += ["--option", f"start_time={_toml(start)}"]
            yield 'adapter = "zeromq"'
            yield f"spawn = {_toml(argv)}"
        else:
            yield 'adapter = "fmu"'
            yield f"fmu = {_toml(file)}"
            if params:
                inside = ", ".join(f"{_key(n)} = {_toml(v)}" for n, v in params.items())
                yield f"params = {{ {inside} }}"
            if start:
                yield f"start_time = {_toml(start)}"
        for port in _select(fmu, component, params).input_ports:
            where = f"subsystems.{_key(component.name)}.inputs.{_key(port.name)}"
            if port.name in starts:
                yield ""
                yield f"[{where}]"
                yield f"start = {_toml(starts[port.name])}"
            elif (path, port.name) not in connected:
                yield ""
                yield f"[{where}]                # not connected: held"
                yield f"start = {_toml(port.start)}"

    def _params(self, fmu: Fmu, component: Component) -> tuple[dict[str, Any], list[str]]:
        """The component's parameters, and problems of the omitted ones."""
        params: dict[str, Any] = {}
        problems: list[str] = []
        for name, given in component.params.items():
            value, known = self._param(fmu, component, name, given), len(problems)
            start_values(fmu, {name: value}, problems)
            if len(problems) == known:
                params[name] = value
        self.notes += [
            f"component {component.name!r}, {component.source}: {problem}; it is left out"
            for problem in problems
        ]
        return params, problems

    def _param(self, fmu: Fmu, component: Component, name: str, given: SspValue) -> Any:
        """Value in the unit of the FMU's variable."""
        value, variable = given.value, fmu.variables.get(name)
        if isinstance(value, bool | str) or variable is None:
            return value
        number = value  # an integer that needs no conversion keeps its digits beyond 2**53
        if given.converts and given.unit and variable.type in CONTINUOUS:
            a, b = self._convert(given.unit, unit_of(fmu, variable), f"{component.name}.{name}")
            number = a * number + b
        if (given.factor, given.offset) != (1.0, 0.0):
            number = given.factor * number + given.offset
        whole = isinstance(value, int) and float(number).is_integer()
        return int(number) if whole else number

    def _connection(self, route: Route) -> Iterator[str]:
        gain, offset = self._transformation(route)
        yield "[[connections]]"
        yield f"from = {_toml(self._port(route.source))}"
        yield f"to = {_toml(self._port(route.target))}"
        if gain != 1.0:
            yield f"gain = {_toml(gain)}"
        if offset != 0.0:
            yield f"offset = {_toml(offset)}"

    def _port(self, node: Node) -> str:
        return f"{self.structure.components[node[0]].name}.{node[1]}"

    def _transformation(self, route: Route) -> tuple[float, float]:
        """Gain and offset that give the SSP's result when the master also converts units."""
        factor, offset = 1.0, 0.0
        ends = {node: self._unit(node) for node in (route.source, route.target)}
        for link, end in route.links:
            if link.converts:
                start_unit = self.structure.units.get(link.start) or ends.get(link.start)
                end_unit = self.structure.units.get(end) or ends.get(end)
                if start_unit and end_unit:
                    a, b = self._convert(start_unit, end_unit, self._port(route.target))
                    factor, offset = a * factor, a * offset + b
            factor = link.factor * factor
            offset = link.factor * offset + link.offset
        a, b = self._convert(ends[route.source], ends[route.target], self._port(route.target))
        return _plain(factor / a), _plain(offset - factor * b / a)

    def _unit(self, node: Node) -> str:
        variable = self.fmus[node[0]].variables.get(node[1])
        return units.UNSTATED if variable is None else unit_of(self.fmus[node[0]], variable)

    def _convert(self, start: str, end: str, where: str) -> tuple[float, float]:
        try:
            return units.conversion(start, end)
        except ConfigError as error:
            self.notes.append(f"{where}: {error}")
            return 1.0, 0.0


def _select(fmu: Fmu, component: Component, params: Mapping[str, Any]) -> Selection:
    """`select`, with errors that name the component and its file."""
    try:
        return select(fmu, params)
    except ConfigError as error:
        where = f"component {component.name!r}, {component.source}: "
        raise ConfigError([where + problem for problem in error.problems]) from None


def _positive(text: str | None) -> float | None:
    """A positive finite number, or None."""
    try:
        number = float(text or 0.0)
    except ValueError:
        return None
    return number if 0.0 < number < math.inf else None


def _plain(number: float) -> float:
    """A number without the rounding errors of a conversion and its inverse: 14 digits."""
    return float(f"{number:.14g}") + 0.0


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # inf and nan, which JSON writes otherwise
    return json.dumps(value, ensure_ascii=False)
