"""The subsystem of the calculated channels (``[[calculated]]``), computed by the macro step.

The link makes channels outputs like those of any other subsystem, and constant channels its
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hilrt.config.structs import Calculated, SubsystemOptions
from hilrt.expressions.nodes import Number
from hilrt.expressions.parse import parse
from hilrt.link import Description, Link
from hilrt.solver import Floats, Parameter, Port, Ports, Sample


class CalculatedOptions(SubsystemOptions, kw_only=True):
    """Table of the subsystem, generated from the session file's ``[[calculated]]``."""

    channels: list[Calculated]


class CalculatedLink(Link):
    """Link that answers immediately, with values that are not used."""

    Options = CalculatedOptions
    options: CalculatedOptions

    _end: float | None = None  # end of the step to answer
    _start = 0.0

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe one output per channel."""
        assert isinstance(options, CalculatedOptions)
        return Description(ports=Ports((), _outputs(options)))

    async def open(self) -> None:
        """Set the ports, which follow from the table."""
        self.outputs = _outputs(self.options)
        self.parameters = _constants(self.options)
        self.rewinds = self.repeats = self
        self._nothing = np.zeros(len(self.outputs))

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        """Return placeholders: values follow from those of the other subsystems."""
        return Sample(self._nothing)

    def set_parameter(self, name: str, value: float) -> str:
        """Accept the value: it is used by the macro step."""
        return ""

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """Note the interval, which `receive` answers."""
        self._start, self._end = t, t + h

    def receive(self) -> None:
        """Answer the last dispatch."""
        if self._end is not None:
            self.inbox.put(Sample(self._nothing), self._end)
            self._end = None

    def keep_states(self) -> None:
        """Do nothing: the filters' memory is in the state of the step."""

    def go_back(self, tick: int, h: float) -> None:
        """Note a shorter interval instead."""
        self.dispatch(tick, self._start, h, self._nothing)

    @property
    def apart(self) -> Sequence[tuple[slice, slice]]:
        """See `Repeats.apart`; there is nothing to try."""
        return []

    def repeat(self, h: float, coefficients: Floats) -> None:
        """See `Repeats.repeat`; as for `dispatch`."""
        self.dispatch(0, self._start, h, coefficients)

    def tried(self, h: float, coefficients: Floats) -> Floats:
        """See `Repeats.tried`; the values are not used."""
        return self._nothing


def _constants(options: CalculatedOptions) -> list[Parameter]:
    """Adjustable channels, whose expression is a number."""
    nodes = [(channel, parse(channel.expression).node) for channel in options.channels]
    return [
        Parameter(channel.name, channel.unit, node.value, description=channel.description)
        for channel, node in nodes
        if isinstance(node, Number)
    ]


def _outputs(options: CalculatedOptions) -> tuple[Port, ...]:
    return tuple(Port(c.name, c.unit, description=c.description) for c in options.channels)
