"""The physical groups from which systems are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.calibration import linear_systems, machines, nonlinear_systems
from tools.calibration.kinds.listed import FIRST, SECOND, THIRD
from tools.calibration.systems import CoupledSystem, Random

Build = Callable[[Random], CoupledSystem]

#: One draw of a system for each group.
GROUPS: Mapping[str, Build] = {
    "translation and rotation": linear_systems.translation_or_rotation,
    "nonlinear": nonlinear_systems.nonlinear,
    "pendula": nonlinear_systems.pendula,
    "hydraulic": machines.hydraulic,
    "engine and driveline": machines.engine_and_driveline,
    "random linear": linear_systems.random_linear,
}


def _one_of(*names: str) -> Build:
    """Draw one of several kinds, all with the same probability."""

    def build(random: Random) -> CoupledSystem:
        return FIRST[names[int(random.integers(len(names)))]](random)

    return build


#: Families of other physics with their kinds; the calibration is judged by omitting one at a time.
PHYSICS: Mapping[str, Build] = {
    "circuits": _one_of("resonant circuit", "rectifier", "chopper", "battery"),
    "controlled drives": _one_of(
        "constant power", "motor and gear", "controlled plant", "levitation"
    ),
    "self-excited": _one_of("van der pol pair", "brusselator", "repressors", "stick slip"),
    "clutches and contacts": _one_of("clutch", "late spring", "tyre", "cam and valve"),
    "structures": _one_of("ring", "star", "beam segments", "rotor", "duffing pair"),
    "heat": _one_of("thermostat", "heat exchanger", "wall heat"),
    "fluids": _one_of("tanks", "pneumatic actuator", "hydraulic press"),
    "reactions": _one_of("stirred reactor", "autocatalysis"),
    "populations": _one_of("prey and predator", "food chain", "epidemic"),
}
#: Including the kinds of physics used to validate a calibration.
EVERY: Mapping[str, Build] = {**GROUPS, **PHYSICS, **FIRST, **SECOND, **THIRD}
