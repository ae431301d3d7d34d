"""An FMU's model description, read without loading its binary."""

from __future__ import annotations

import functools
import io
import re
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import fmpy
from fmpy.model_description import ValidationError, read_model_description

from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.files.archive import ArchiveError, open_archive, read_member
from hilrt.files.formats import XmlError, parse_xml
from hilrt.fmu.clocks import FmuClock, read_clocks
from hilrt.fmu.variables import bad_starts, unusable_variables

_DESCRIPTION = "modelDescription.xml"
#: Size limit of a model description, bytes: its tree takes several times that.
MAX_DESCRIPTION = 128 << 20


@dataclass(frozen=True)
class Fmu:
    """An FMU file and its model description.

    Attributes
    ----------
    path : Path
        The file.
    model : fmpy.model_description.ModelDescription
        As read by FMPy.
    major : int
        2 or 3.
    platforms : tuple of str
        Folders below ``binaries`` with a library of the right name.
    variables : dict of str
        Every variable by name.
    directional : bool
        Whether it provides directional derivatives.
    clocks : tuple of FmuClock
        FMI 3: its clocks.
    notes : list of str
        Errors of the description that do not prevent using the FMU.
    unusable, bad_starts : dict of str
        Variables that are unusable, and those with an invalid start value, by name, with the
        reason.
    """

    path: Path
    model: Any
    major: int
    platforms: tuple[str, ...]
    variables: dict[str, Any]
    directional: bool = False
    clocks: tuple[FmuClock, ...] = ()
    notes: list[str] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)
    bad_starts: dict[str, str] = field(default_factory=dict)

    @property
    def interface(self) -> Any:
        """Capabilities of the co-simulation interface."""
        return self.model.coSimulation

    @property
    def platform(self) -> str:
        """Folder below ``binaries`` that this host needs."""
        return str(fmpy.platform if self.major == 2 else fmpy.platform_tuple)

    @property
    def runs_on_this_host(self) -> bool:
        """Whether there is a binary for this host."""
        return self.platform in self.platforms

    @property
    def variable_step(self) -> bool:
        """Whether steps may differ in length."""
        return bool(self.interface.canHandleVariableCommunicationStepSize)

    @property
    def event_mode(self) -> bool:
        """Whether it stops at its events, so that the master can handle them (FMI 3)."""
        return self.major == 3 and bool(self.interface.hasEventMode)

    @property
    def needs(self) -> list[str]:
        """Requirements that this machine must meet before the FMU can be instantiated."""
        needs = []
        if self.interface.needsExecutionTool:
            tool = f" ({self.model.generationTool})" if self.model.generationTool else ""
            needs.append(f"needs the tool that created it{tool} on this machine")
        if self.interface.canBeInstantiatedOnlyOncePerProcess:
            needs.append(
                "can only be loaded once per process: host a second one with `hilrt solver`"
            )
        return needs

    def named(self, causality: str) -> list[Any]:
        """Variables of a causality, in the order of the description."""
        return [v for v in self.variables.values() if v.causality == causality]

    def missing_on_host(self) -> list[str]:
        """Error, with a remedy, if there is no binary for this host; else nothing."""
        if self.runs_on_this_host:
            return []
        there = ", ".join(self.platforms) or "none"
        return [
            f"fmu = {str(self.path)!r}: has no binary for {self.platform} (it has: {there}); "
            "export it for this platform, or host it on a machine of that platform with "
            f"`hilrt solver {self.path.name} --connect …`"
        ]

    def need_binary(self) -> None:
        """Raise `ConfigError` if there is no binary for this host."""
        missing = self.missing_on_host()
        if missing:
            raise ConfigError(missing)


def read_fmu(path: str | Path) -> Fmu:
    """Read an FMU's model description; cached while the file does not change.

    Raises
    ------
    ConfigError
        If the file is missing or is no FMU for co-simulation of FMI 2.0 or 3.0.
    """
    path = Path(path)
    where = f"fmu = {str(path)!r}"
    if path.is_dir():
        remedy = "name the .fmu file"
        if (path / "modelDescription.xml").is_file():
            remedy = "it contains an unpacked FMU: name the archive, or pack it as ZIP"
        raise ConfigError(f"{where}: is a folder; {remedy}")
    if not path.is_file():
        others = [other.name for other in path.parent.glob("*.fmu")]
        hint = nearest(path.name, others) if others else "; check the path"
        raise ConfigError(f"{where}: there is no such file{hint}")
    status = path.stat()
    return _read_fmu(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _read_fmu(path: Path, changed_ns: int, size: int) -> Fmu:
    """Description of the file as of `changed_ns`, with `size` bytes."""
    where = f"fmu = {str(path)!r}"
    try:
        with open_archive(path) as archive:
            names = archive.namelist()
            xml = read_member(archive, _DESCRIPTION, MAX_DESCRIPTION)
    except zipfile.BadZipFile:
        raise ConfigError(f"{where}: is not an FMU (no ZIP archive); export it again") from None
    except KeyError:
        raise ConfigError(
            f"{where}: is not an FMU: it has no modelDescription.xml; export it again"
        ) from None
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
    except ArchiveError as error:
        raise ConfigError(
            f"{where}: its modelDescription.xml cannot be unpacked: {error}; export it again"
        ) from None
    root = _root(xml, where)
    model, notes = _model(xml, where)
    if model.coSimulation is None:
        raise ConfigError(
            f"{where}: has no co-simulation interface, only model exchange or scheduled execution; "
            "export it for co-simulation, including a solver"
        )
    identifier = model.coSimulation.modelIdentifier
    if not identifier:
        raise ConfigError(f"{where}: does not name its binary; export it again")
    platforms = _platforms(names, identifier)
    variables = {variable.name: variable for variable in model.modelVariables}
    for name, element in _updated_inside(root).items():
        variables[name].intermediateUpdate = element
    flags = root.find("CoSimulation").attrib
    # FMI 3 uses the plural, which FMPy does not read, nor the flags of variables.
    directional = any(
        flags.get(f"providesDirectionalDerivative{s}") in ("true", "1") for s in ("", "s")
    )
    try:
        clocks = read_clocks(root)
    except ValueError as error:
        raise ConfigError(
            f"{where}: the times of its clocks cannot be used: {error}; export it again"
        ) from None
    return Fmu(
        path,
        model,
        model.fmiMajorVersion,
        platforms,
        variables,
        directional,
        clocks,
        notes,
        unusable_variables(model.modelVariables),
        bad_starts(model.modelVariables),
    )


def _root(xml: bytes, where: str) -> Any:
    """Root of a model description of a supported version."""
    try:
        root = parse_xml(xml)
    except XmlError as error:
        raise ConfigError(f"{where}: modelDescription.xml is not XML: {error}") from None
    version = root.get("fmiVersion")
    if root.tag != "fmiModelDescription" or version is None:
        raise ConfigError(f"{where}: modelDescription.xml has no fmiVersion; export it again")
    if not re.fullmatch(r"2\.0|3\.\d+.*", version):
        raise ConfigError(
            f"{where}: is of FMI {version}; hilrt runs FMI 2.0 and 3.0, export it as one of them"
        )
    return root


def _updated_inside(root: Any) -> dict[str, bool]:
    """Variables of FMI 3 that may be set or read inside a step."""
    return {
        variable.get("name"): variable.get("intermediateUpdate") in ("true", "1")
        for variable in root.iterfind("ModelVariables/*[@intermediateUpdate]")
    }


#: Reading more variables than this takes seconds, which is reported.
_MANY_VARIABLES: Final = 100_000


def _model(xml: bytes, where: str) -> tuple[Any, list[str]]:
    """Model description; small violations of the schema, common to many tools, become notes."""
    notes: list[str] = []
    variables = xml.count(b"valueReference=")
    if variables > _MANY_VARIABLES:
        sys.stderr.write(f"{where}: reading {variables:,} variables, 10,000 to 50,000 a second\n")
    try:
        return _parse_by_fmpy(xml, validate=True), notes
    except ValidationError as error:
        notes += [str(problem) for problem in error.problems]
    except Exception as error:
        notes.append(_one_line(error))
    try:
        return _parse_by_fmpy(xml, validate=False), notes
    except Exception as error:  # FMPy raises many kinds of errors for a broken description
        reasons = "; ".join(dict.fromkeys([*notes[:3], _one_line(error)]))
        raise ConfigError(
            f"{where}: its modelDescription.xml cannot be used: {reasons}; export it again"
        ) from None


def _parse_by_fmpy(xml: bytes, *, validate: bool) -> Any:
    """Parse bytes that were read within limits, instead of reading the file again."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(_DESCRIPTION, xml)
    return read_model_description(archive, validate=validate)


def _one_line(error: BaseException) -> str:
    if isinstance(error, LookupError):  # an index or a value reference
        return f"it refers to a missing variable ({error})"
    return " ".join(f"{type(error).__name__}: {error}".split())


def _platforms(names: Iterable[str], identifier: str) -> tuple[str, ...]:
    pattern = re.compile(rf"binaries/([^/]+)/{re.escape(identifier)}\.(so|dll|dylib)")
    matches = (pattern.fullmatch(name) for name in names)
    return tuple(sorted({match[1] for match in matches if match}))


def why_not_driven(fmu: Fmu, clock: FmuClock, events: bool) -> str:
    """Reason why an input clock never ticks here; empty if it does.

    Parameters
    ----------
    fmu : Fmu
    clock : FmuClock
    events : bool
        Whether event mode is used.
    """
    if not (clock.timed or clock.triggered):
        return f"its intervalVariability is {clock.variability!r}"
    if not fmu.event_mode:
        return "the FMU has no event mode (hasEventMode)"
    if not events:
        return "events = false"
    if clock.timed and not fmu.variable_step:
        return "its ticks may lie inside a step, but the FMU cannot vary its step"
    return ""


def not_driven(fmu: Fmu, events: bool) -> list[str]:
    """Input clocks that never tick here, with reasons; `events`: whether event mode is used."""
    reasons = [
        (clock, why_not_driven(fmu, clock, events))
        for clock in fmu.clocks
        if clock.causality == "input"
    ]
    return [
        f"{fmu.path.name}: clock {clock.name!r} is not driven: {reason}; its clocked variables "
        "keep their start values"
        for clock, reason in reasons
        if reason
    ]
