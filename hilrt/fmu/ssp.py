"""A system structure of SSP 1.0, flattened: components, connections between them, parameters.

`fmpy.ssp` was rejected: it reads neither the connectors' units nor the default experiment, drops
the transformations when it resolves connections, applies no parameter mapping, and refuses archives
with small violations of the schema, which many tools write.
"""

from __future__ import annotations

import math
import posixpath
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lxml import etree

from hilrt.errors import ConfigError
from hilrt.files.archive import ArchiveError, open_archive, read_member
from hilrt.files.formats import XmlError, parse_xml
from hilrt.fmu.description import MAX_DESCRIPTION

_NS = {
    "ssc": "http://ssp-standard.org/SSP1/SystemStructureCommon",
    "ssd": "http://ssp-standard.org/SSP1/SystemStructureDescription",
    "ssm": "http://ssp-standard.org/SSP1/SystemStructureParameterMapping",
    "ssv": "http://ssp-standard.org/SSP1/SystemStructureParameterValues",
}
_TYPES = ("Real", "Integer", "Boolean", "String", "Enumeration")
_DEPTH = 50
#: Maximum connectors visited from inputs back to outputs: every branch adds paths.
_CONNECTORS = 200_000

#: Names of the systems down to an element, and its connector.
Node = tuple[tuple[str, ...], str]


class SspConnection(NamedTuple):
    """One connection of the file; ``end = factor * start + offset`` after unit conversion."""

    start: Node
    factor: float
    offset: float
    converts: bool


class SspValue(NamedTuple):
    """A parameter's value, with its unit if stated; `converts`: whether to convert from it."""

    value: float | int | bool | str
    unit: str | None = None
    converts: bool = True
    factor: float = 1.0
    offset: float = 0.0


@dataclass
class Component:
    """An FMU in the system: its path inside the archive, and the values of its parameters."""

    name: str
    source: str
    params: dict[str, SspValue] = field(default_factory=dict)


class Route(NamedTuple):
    """Path from a component's output to another one's input, with all links in order."""

    source: Node
    target: Node
    links: list[tuple[SspConnection, Node]]


@dataclass
class Structure:
    """A flattened system.

    Attributes
    ----------
    name : str
    start_time, stop_time : float, optional
        From the default experiment, s.
    components : dict
        By their paths of names.
    units : dict
        Unit of each connector that states one.
    routes : list of Route
    notes : list of str
        Omitted parts of the file.
    """

    name: str
    start_time: float = 0.0
    stop_time: float | None = None
    components: dict[tuple[str, ...], Component] = field(default_factory=dict)
    units: dict[Node, str] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_ssp(path: Path) -> Structure:
    """Read ``SystemStructure.ssd`` of an SSP archive.

    Raises
    ------
    ConfigError
        If it is no such archive, or contains components that are not FMUs.
    """
    try:
        with open_archive(path) as archive:
            return _Reader(archive, path).read()
    except _BadValue as error:
        raise ConfigError(f"{path}: {error}; correct the archive") from None
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; check the path") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; check the path") from None
    except zipfile.BadZipFile:
        raise ConfigError(f"{path}: is not an SSP (no ZIP archive)") from None
    except XmlError as error:
        raise ConfigError(f"{path}: its system structure is not XML: {error}") from None
    except ArchiveError as error:
        raise ConfigError(f"{path}: cannot be unpacked: {error}; pack it again") from None


class _BadValue(ValueError):
    """An attribute that is missing, or of the wrong kind."""


class _Reader:
    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive, self.path = archive, path
        self.incoming: dict[Node, list[SspConnection]] = {}
        self.looked_at = 0

    def read(self) -> Structure:
        root = self._xml("SystemStructure.ssd")
        system = root.find("ssd:System", _NS)
        if system is None:
            raise ConfigError(f"{self.path}: SystemStructure.ssd describes no system")
        self.found = Structure(root.get("name") or system.get("name") or self.path.stem)
        experiment = root.find("ssd:DefaultExperiment", _NS)
        if experiment is not None:
            self.found.start_time = _number(experiment, "startTime", 0.0)
            if experiment.get("stopTime"):
                self.found.stop_time = _number(experiment, "stopTime")
        self._system(system, ())
        if not self.found.components:
            raise ConfigError(f"{self.path}: the system has no components")
        self._route()
        return self.found

    def _xml(self, name: str) -> Any:
        try:
            return parse_xml(read_member(self.archive, name, MAX_DESCRIPTION))
        except KeyError:
            raise ConfigError(f"{self.path}: has no {name}, which it refers to") from None

    def _system(self, system: Any, path: tuple[str, ...]) -> None:
        self._connectors(system, path)
        for element in system.iterfind("ssd:Elements/*", _NS):
            if not isinstance(element.tag, str):
                continue  # a comment
            kind, inner = etree.QName(element).localname, (*path, _text(element, "name"))
            if kind == "System":
                self._system(element, inner)
            elif kind == "Component":
                self._component(element, inner)
            else:  # a signal dictionary, whose connectors forward values
                self._connectors(element, inner)
        for connection in system.iterfind("ssd:Connections/ssd:Connection", _NS):
            self._connection(connection, path)
        # After the components' own bindings: those of an outer system take precedence.
        self._bindings(system, path)

    def _connectors(self, element: Any, path: tuple[str, ...]) -> None:
        for connector in element.iterfind("ssd:Connectors/ssd:Connector", _NS):
            real = connector.find("ssc:Real", _NS)
            if real is None:
                real = connector.find("ssd:Real", _NS)
            if real is not None and real.get("unit"):
                self.found.units[path, connector.get("name")] = real.get("unit")

    def _component(self, element: Any, path: tuple[str, ...]) -> None:
        source, kind = element.get("source") or "", element.get("type") or ""
        if not source.lower().endswith(".fmu") and "fmu" not in kind:
            raise ConfigError(
                f"{self.path}: component {'.'.join(path)!r} is {source!r}, which is not an FMU; "
                "replace it by an FMU, or remove it and connect your own subsystem"
            )
        name, n = "_".join(path), 1
        taken = {component.name for component in self.found.components.values()}
        while name in taken:  # "a" in the system "b" clashes with "b_a"
            n += 1
            name = f"{'_'.join(path)}_{n}"
        self.found.components[path] = Component(name, posixpath.normpath(source))
        self._connectors(element, path)
        self._bindings(element, path)

    def _connection(self, element: Any, path: tuple[str, ...]) -> None:
        def node(which: str) -> Node:
            name = element.get(f"{which}Element")
            return ((*path, name) if name else path), _text(element, f"{which}Connector")

        factor, offset = _transformation(element)
        known = {etree.QName(child).localname for child in element if isinstance(child.tag, str)}
        for other in known - {"LinearTransformation", "ConnectionGeometry", "Annotations"}:
            self.found.notes.append(
                f"{other} of the connection to {_show(node('end'))} is left out"
            )
        converts = element.get("suppressUnitConversion") not in ("true", "1")
        link = SspConnection(node("start"), factor, offset, converts)
        self.incoming.setdefault(node("end"), []).append(link)

    # -- parameters --------------------------------------------------------------------------------

    def _bindings(self, element: Any, path: tuple[str, ...]) -> None:
        for binding in element.iterfind("ssd:ParameterBindings/ssd:ParameterBinding", _NS):
            prefix = binding.get("prefix") or ""
            source = binding.get("source")
            if source:
                values = self._xml(posixpath.normpath(source))
            else:
                values = binding.find("ssd:ParameterValues/ssv:ParameterSet", _NS)
            if values is None:
                continue
            found = {prefix + name: value for name, value in self._parameters(values)}
            for name, value in self._mapped(binding, found):
                self._assign(path, name, value)

    def _parameters(self, values: Any) -> Iterator[tuple[str, SspValue]]:
        for parameter in values.iterfind("ssv:Parameters/ssv:Parameter", _NS):
            name = _text(parameter, "name")
            elements = [e for e in parameter if isinstance(e.tag, str)]
            known = [e for e in elements if etree.QName(e).localname in _TYPES]
            for element in known:
                yield name, SspValue(_typed(element), element.get("unit"))
            if elements and not known:
                kind = etree.QName(elements[0]).localname
                self.found.notes.append(f"parameter {name!r} is of type {kind} and is left out")

    def _mapped(
        self, binding: Any, values: Mapping[str, SspValue]
    ) -> Iterator[tuple[str, SspValue]]:
        """Parameters by their names in the system; with a mapping, only those in it."""
        mapping = binding.find("ssd:ParameterMapping", _NS)
        if mapping is None:
            yield from values.items()
            return
        source = mapping.get("source")
        entries = self._xml(posixpath.normpath(source)) if source else mapping
        unused = dict(values)
        for entry in entries.iterfind(".//ssm:MappingEntry", _NS):
            name, target = _text(entry, "source"), _text(entry, "target")
            unused.pop(name, None)
            if name not in values:
                self.found.notes.append(
                    f"{target!r} should have the value of parameter {name!r}, which the parameter "
                    "set does not have"
                )
                continue
            factor, offset = _transformation(entry)
            converts = entry.get("suppressUnitConversion") not in ("true", "1")
            yield target, values[name]._replace(converts=converts, factor=factor, offset=offset)
        for name in unused:
            self.found.notes.append(f"parameter {name!r} is not in its mapping and is left out")

    def _assign(self, path: tuple[str, ...], name: str, value: SspValue) -> None:
        """Assign to the component whose path starts the name; names may contain dots."""
        if path in self.found.components:
            self.found.components[path].params[name] = value
            return
        parts = name.split(".")
        for n in range(len(parts) - 1, 0, -1):
            component = self.found.components.get((*path, *parts[:n]))
            if component is not None:
                component.params[".".join(parts[n:])] = value
                return
        self.found.notes.append(f"parameter {name!r} belongs to no component and is left out")

    # -- connections -------------------------------------------------------------------------------

    def _route(self) -> None:
        """Trace every component input back to its outputs."""
        for target in list(self.incoming):
            if target[0] in self.found.components:
                for links in self._upstream(target, 0):
                    self.found.routes.append(Route(links[0][0].start, target, links))

    def _upstream(self, node: Node, depth: int) -> Iterator[list[tuple[SspConnection, Node]]]:
        self.looked_at += 1
        if self.looked_at > _CONNECTORS:
            raise ConfigError(f"{self.path}: its connectors branch to more than {_CONNECTORS:,}")
        if depth > _DEPTH:
            raise ConfigError(f"{self.path}: the connections of {_show(node)} are circular")
        for link in self.incoming.get(node, ()):
            if link.start[0] in self.found.components:
                yield [(link, node)]
                continue
            reached = False
            for links in self._upstream(link.start, depth + 1):
                reached = True
                yield [*links, (link, node)]
            if not reached and depth == 0:
                self.found.notes.append(
                    f"{_show(node)} comes from outside the system ({_show(link.start)}); "
                    "connect it by hand"
                )


def _text(element: Any, key: str) -> str:
    text = element.get(key)
    if text is None:
        name = element.get("name")
        where = etree.QName(element).localname + (f" {name!r}" if name else "")
        raise _BadValue(f"{where} (line {element.sourceline}) has no {key}")
    return str(text)


def _number(element: Any, key: str, default: float | None = None) -> float:
    if default is not None and not element.get(key):
        return default
    text = _text(element, key)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        where = f"{etree.QName(element).localname} (line {element.sourceline})"
        raise _BadValue(f"{where}: {key} = {text!r} is not a number")
    return value


def _typed(element: Any) -> float | int | bool | str:
    kind = etree.QName(element).localname
    if kind == "Real":
        return _number(element, "value")
    if kind == "Integer":
        text = _text(element, "value")
        try:
            value = int(text)
        except ValueError:
            value = 1 << 64
        if abs(value) >= 1 << 64:
            where = f"Integer (line {element.sourceline})"
            raise _BadValue(f"{where}: value = {text[:60]!r} is not an integer of 64 bits")
        return value
    if kind == "Boolean":
        return _text(element, "value") in ("true", "1")
    return _text(element, "value")


def _transformation(element: Any) -> tuple[float, float]:
    linear = element.find("ssc:LinearTransformation", _NS)
    if linear is None:
        return 1.0, 0.0
    return _number(linear, "factor", 1.0), _number(linear, "offset", 0.0)


def _show(node: Node) -> str:
    return ".".join((*node[0], node[1]))
