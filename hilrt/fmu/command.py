"""An FMU named on the command line: ``hilrt solver MODEL.fmu``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from hilrt import registry
from hilrt.errors import ConfigError
from hilrt.solver import Solver
from hilrt.tables import build


def load_fmu(target: str, params: Mapping[str, Any], options: Mapping[str, Any]) -> Solver:
    """Solver of an FMU.

    Parameters
    ----------
    target : str
        Path of the FMU.
    params : mapping
        Values of its parameters.
    options : mapping
        Keys of ``adapter = "fmu"`` other than `fmu` and `params`.
    """
    cls = registry.link_class("fmu").Options
    table = {**options, "adapter": "fmu", "fmu": target, "params": dict(params)}
    problems: list[str] = []
    built = build(cls, table, "--option", problems)
    if built is None:
        raise ConfigError(problems)
    from hilrt_adapters.fmu import Options, load

    return load(cast(Options, built), Path.cwd())
