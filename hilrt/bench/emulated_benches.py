"""The emulated benches there are, by name; each is imported only when it is wanted."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import NamedTuple

from hilrt.bench.bench_on_bus import EmulatedBench
from hilrt.bench.disturb import ScenarioFile, load_scenario
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError


class _Entry(NamedTuple):
    target: str  # "module:Class"
    description: str


BENCHES: dict[str, _Entry] = {
    "engine": _Entry(
        "hilrt.models.engine_bench:EngineBench",
        "engine on a dynamometer (bench_configs/engine_bench.dbc)",
    ),
    "hydraulic_axis": _Entry(
        "hilrt.models.hydraulic_axis_bench:HydraulicAxisBench",
        "hydraulic axis against a specimen (bench_configs/hydraulic_axis_bench.dbc)",
    ),
    "motor": _Entry(
        "hilrt.models.motor_bench:MotorBench",
        "electric motor on a dynamometer (bench_configs/motor_bench.dbc)",
    ),
}


def list_benches() -> list[tuple[str, str]]:
    """Name and description of every emulated bench."""
    return [(name, entry.description) for name, entry in sorted(BENCHES.items())]


def make_bench(name: str, seed: int = 0) -> EmulatedBench:
    """Emulated bench of that name; `ConfigError` if there is none."""
    entry = BENCHES.get(name)
    if entry is None:
        raise ConfigError(f"there is no emulated bench {name!r}{nearest(name, BENCHES)}")
    module, _, cls = entry.target.partition(":")
    bench: EmulatedBench = getattr(importlib.import_module(module), cls)(seed)
    return bench


def read_scenario(path: Path, name: str) -> ScenarioFile:
    """Scenario for the emulated bench `name`; `ConfigError` with every problem of it."""
    bench = make_bench(name)
    return load_scenario(path, {message: bench.measure(message) for message in bench.sends})
