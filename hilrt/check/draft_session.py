"""Draft of a session file from models: subsystems, connections by name, held inputs."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hilrt.config import registry, units
from hilrt.config.from_toml import build
from hilrt.documentation import in_documentation
from hilrt.errors import ConfigError
from hilrt.solver import Port, Ports

#: Ranks of matches between an output and an input: by name, also with its subsystem's name as
#: prefix; by these in lower case; by unit only.
SAME, SMALL, UNIT = 3, 2, 1


class Drafted(NamedTuple):
    """A drafted subsystem; `key` and `target` are its adapter's key and value."""

    name: str
    key: str
    target: str
    ports: Ports
    probed: bool


def draft_session(name: str, models: Sequence[str], folder: Path) -> str:
    """Draft the text of a session file for FMUs and Python classes.

    An input is connected to the one output of another model that has the same name (or ``body_x``
    for ``x`` of ``body``) and a convertible unit; otherwise to the only output of its unit that
    matches no other input. The remaining inputs are held at their start values; the first of them
    gets a step, so that a first run shows motion. If a model cannot be probed, the session is
    repeated at shorter steps, so that the first run has a verdict.

    Parameters
    ----------
    name : str
        Name of the session.
    models : sequence of str
        ``FILE.fmu`` or ``module:Class``.
    folder : Path
        Folder of the file; FMU paths are relative to it, and modules are searched for in it.

    Raises
    ------
    ConfigError
        With every problem of the models.
    """
    drafted: list[Drafted] = []
    problems: list[str] = []
    for model in models:
        try:
            drafted.append(_read_model(model, folder, {each.name for each in drafted}))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return "\n".join(_lines(name, drafted)) + "\n"


def _read_model(model: str, folder: Path, taken: set[str]) -> Drafted:
    if ":" in model and not model.endswith(".fmu"):
        module, _, cls = model.partition(":")
        adapter, key, stem = "inprocess", "model", cls
        target = f"{module.removesuffix('.py')}:{cls}"
    elif model.endswith(".fmu"):
        adapter, key, stem = "fmu", "fmu", Path(model).stem
        target = Path(os.path.relpath(model, folder)).as_posix()
    else:
        raise ConfigError(f"{model}: is neither FILE.fmu nor module:Class")
    stem = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower())
    stem = stem.strip("_") or "model"
    name = next(n for i in range(1, 1000) if (n := stem if i == 1 else f"{stem}_{i}") not in taken)
    found: list[str] = []
    link = registry.link_class(adapter)
    options: Any = build(link.Options, {"adapter": adapter, key: target}, "", found)
    description = link.describe(name, options, folder)
    if found or description.problems or description.ports is None:
        raise ConfigError([f"{model}: {line}" for line in [*found, *description.problems]])
    return Drafted(name, key, target, description.ports, description.restores is True)


def _lines(name: str, drafted: Sequence[Drafted]) -> Iterator[str]:
    connections = list(_connections(drafted))
    connected = {to for _, to, _ in connections}
    yield "# Written by `hilrt new`: check the connections, which were matched by name and unit."
    yield ""
    yield "[session]"
    yield f"name = {json.dumps(name)}"
    yield "duration = 10.0                      # s"
    yield 'pace = "asap"                        # or "realtime"'
    yield ""
    yield "[master]"
    yield "step = 0.001                         # s"
    for model in drafted:
        yield ""
        yield f"[subsystems.{model.name}]"
        yield f'adapter = "{"fmu" if model.key == "fmu" else "inprocess"}"'
        yield f"{model.key} = {json.dumps(model.target, ensure_ascii=False)}"
        yield f"# outputs: {_listed(model.ports.outputs)}"
        inputs = {port.name for port in model.ports.inputs}
        guessed = [p for p in model.ports.outputs if inputs and inputs <= set(p.feedthrough)]
        if model.key == "fmu" and guessed:
            listed = ", ".join(f"{_key(port.name)} = []" for port in guessed)
            yield f"# feedthrough = {{ {listed} }}  # if they follow no input at once"
        for port in model.ports.inputs:
            if f"{model.name}.{port.name}" not in connected:
                yield ""
                yield f"[subsystems.{model.name}.inputs.{_key(port.name)}]"
                yield f"{f'start = {float(port.start)!r}':36} # {_unit(port) or 'no unit'}: held"
    for source, to, remark in connections:
        yield ""
        yield f"[[connections]]{remark}"
        yield f"from = {json.dumps(source, ensure_ascii=False)}"
        yield f"to = {json.dumps(to, ensure_ascii=False)}"
    if not all(model.probed for model in drafted):
        yield ""
        yield "[reliability]"
        yield 'repeat = "half"                      # as not all models can be probed: for the'
        yield "#                                      verdict, also run at 1/2 and 1/4 of the step"
    held = (
        (f"{model.name}.{port.name}", port)
        for model in drafted
        for port in model.ports.inputs
        if f"{model.name}.{port.name}" not in connected and port.size == 1
    )
    for name, port in itertools.islice(held, 1):
        yield from _step(name, port)


def _step(name: str, port: Port) -> Iterator[str]:
    """Lines of a stimulus on a held input, so that a first run shows motion."""
    span = port.max - port.min
    size = 0.1 * span if math.isfinite(span) else 0.1 * abs(port.start) or 1.0
    size = -size if port.start + size > port.max else size
    yield ""
    yield "# A step, so that something moves: choose input, size and shape"
    yield f"# ({in_documentation('docs/stimuli.md')})."
    yield "[[stimuli]]"
    yield 'name = "first-step"'
    yield f"input = {json.dumps(name, ensure_ascii=False)}"
    yield "start = 1.0                          # s"
    segment = f'segments = [{{ shape = "step", to = {float(f"{size:.3g}")!r} }}]'
    yield f"{segment:36} # {_unit(port) or 'no unit'}, added to the value that is held"


def _listed(ports: Sequence[Port]) -> str:
    return ", ".join(f"{port.name} ({_unit(port)})" if _unit(port) else port.name for port in ports)


def _unit(port: Port) -> str:
    return "" if port.unit == units.UNSTATED else port.unit


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _connections(drafted: Sequence[Drafted]) -> Iterator[tuple[str, str, str]]:
    """Yield output, input, and a remark about each pair."""
    pairs = [
        (_likeness(port, other, output), f"{other.name}.{output.name}", f"{model.name}.{port.name}")
        for model in drafted
        for port in model.ports.inputs
        for other in drafted
        for output in other.ports.outputs
        if other is not model and _converts(output, port)
    ]
    named = {source for likeness, source, _ in pairs if likeness > UNIT}
    for to in dict.fromkeys(to for _, _, to in pairs):
        found = [
            (likeness, source)
            for likeness, source, end in pairs
            if end == to and (likeness > UNIT or source not in named)
        ]
        best = max((likeness for likeness, _ in found), default=0)
        chosen = [source for likeness, source in found if likeness == best]
        if best and len(chosen) == 1:
            remark = "                      # by its unit alone" if best == UNIT else ""
            yield chosen[0], to, remark


def _likeness(port: Port, other: Drafted, output: Port) -> int:
    if port.name in (output.name, f"{other.name}_{output.name}", f"{other.name}.{output.name}"):
        return SAME
    if port.name.lower() in (output.name.lower(), f"{other.name}_{output.name}".lower()):
        return SMALL
    return UNIT if port.unit == output.unit and port.unit not in ("", units.UNSTATED) else 0


def _converts(output: Port, port: Port) -> bool:
    try:
        units.conversion(output.unit, port.unit)
    except ConfigError:
        return False
    return output.size == port.size
