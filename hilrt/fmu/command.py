"""An FMU named on a command line: ``hilrt solver MODEL.fmu``, typed or in a session's ``spawn``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hilrt.config.from_toml import build, parse_params
from hilrt.config.structs import SubsystemOptions
from hilrt.errors import ConfigError
from hilrt.link import Description

if TYPE_CHECKING:
    from hilrt.fmu.fmu_solver import FmuSolver  # FMPy is an extra


def is_fmu_command(argv: Sequence[str]) -> bool:
    """Whether a ``spawn`` command hosts an FMU."""
    return list(argv[:2]) == ["hilrt", "solver"] and "".join(argv[2:3]).lower().endswith(".fmu")


def spawned_fmu(argv: Sequence[str], folder: Path) -> FmuSolver:
    """Solver hosted by a ``spawn`` command, created for its ports; its binary is not loaded.

    Parameters
    ----------
    argv : sequence of str
        A command for which `is_fmu_command` is true.
    folder : Path
        The session file's folder, in which the command runs.
    """
    given: dict[str, dict[str, str]] = {"--param": {}, "--option": {}}
    rest = list(argv[3:])
    while rest:
        name, equals, text = rest.pop(0).partition("=")
        if name not in given:
            continue
        item = text if equals else (rest.pop(0) if rest else "")
        key, _, value = item.partition("=")
        given[name][key] = value
    return load_fmu(
        argv[2], parse_params(given["--param"]), parse_params(given["--option"]), folder
    )


def load_fmu(
    target: str,
    params: Mapping[str, Any],
    options: Mapping[str, Any],
    folder: Path | None = None,
) -> FmuSolver:
    """Solver of an FMU.

    Parameters
    ----------
    target : str
        Path of the FMU.
    params : mapping
        Values of its parameters.
    options : mapping
        Keys of ``adapter = "fmu"`` other than `fmu` and `params`.
    folder : Path, optional
        Base of a relative path; default: the current folder.
    """
    from hilrt.fmu.fmu_options import FmuOptions
    from hilrt.fmu.fmu_solver import FmuSolver

    table = {**options, "adapter": "fmu", "fmu": target, "params": dict(params)}
    problems: list[str] = []
    built = build(FmuOptions, table, "--option", problems)
    if built is None:
        raise ConfigError(problems)
    return FmuSolver(built, folder or Path.cwd())


def describe_fmu(make: Callable[[], FmuSolver], options: SubsystemOptions) -> Description:
    """Describe the FMU that `make` opens; its binary is not loaded."""
    try:
        solver = make()
    except ConfigError as error:
        return Description(problems=error.problems)
    return replace(
        Description.from_solver(lambda: solver),
        remarks=solver.remarks,
        wrong_starts=solver.wrong_starts(options.inputs),
        unsupported_variables=solver.unsupported_variables(),
        missing_on_host=solver.fmu.missing_on_host(),
        end_time=solver.until,
    )
