"""The physical groups that systems are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.calibration import linear_systems, machines, nonlinear_systems
from tools.calibration.kinds.listed import FIRST, SECOND
from tools.calibration.systems import CoupledSystem, Random

Build = Callable[[Random], CoupledSystem]

#: One draw of a system each.
GROUPS: Mapping[str, Build] = {
    "translation and rotation": linear_systems.translation_or_rotation,
    "nonlinear": nonlinear_systems.nonlinear,
    "pendula": nonlinear_systems.pendula,
    "hydraulic": machines.hydraulic,
    "engine and driveline": machines.engine_and_driveline,
    "random linear": linear_systems.random_linear,
}
#: With the kinds of physics that are held against a calibration.
EVERY: Mapping[str, Build] = {**GROUPS, **FIRST, **SECOND}
