"""Solvers that cannot be probed, and models that stand for them."""

from __future__ import annotations

from typing import Any

from hilrt import Port
from hilrt.models.two_mass import Mass2


class OpaqueMass(Mass2):
    """The second mass, which does not tell its state."""

    def can_restore(self) -> bool:
        return False


class InOtherUnits(Mass2):
    """The second mass with ports in units of its own, in another order, and without its position.

    Everything is linear, so that the outputs' and the inputs' units are all that differs.
    """

    inputs = (Port("force", "kN"),)
    outputs = (Port("x", "mm"), Port("v", "mm/s"))

    def initialize(self, t0: float, u0: Any) -> Any:
        return self._turned(super().initialize(t0, 1e3 * u0))

    def advance(self, t: float, h: float, u: Any) -> Any:
        u.coefficients = 1e3 * u.coefficients
        return self._turned(super().advance(t, h, u))

    def _turned(self, sample: Any) -> Any:
        names = [port.name for port in Mass2.outputs]
        sample.y = 1e3 * sample.y[[names.index("x"), names.index("v")]]
        return sample


class WithoutSpeed(InOtherUnits):
    """A model that lacks what is connected."""

    outputs = (Port("x", "mm"),)

    def _turned(self, sample: Any) -> Any:
        sample.y = super()._turned(sample).y[:1]
        return sample
