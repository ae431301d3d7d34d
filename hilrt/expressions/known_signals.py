"""What expressions may name: signals, calculated channels, lookup tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from hilrt.config.structs import CALCULATED
from hilrt.errors import ConfigError
from hilrt.expressions.nodes import LookupTable
from hilrt.expressions.parse import Expression


@dataclass(frozen=True)
class CalculatedChannel:
    """A calculated channel: its expression, and its unit; None: that of the expression."""

    expression: Expression
    unit: str | None = None


@dataclass(frozen=True)
class KnownSignals:
    """What expressions may name.

    Attributes
    ----------
    units : mapping of str
        Unit of every signal, by its name ``subsystem.port``.
    channels : mapping of str
        Calculated channels by their names.
    tables : mapping of str
        Lookup tables by their names.
    """

    units: Mapping[str, str]
    channels: Mapping[str, CalculatedChannel] = field(default_factory=dict)
    tables: Mapping[str, LookupTable] = field(default_factory=dict)

    def read_by(self, expressions: Iterable[Expression]) -> list[str]:
        """Signals that expressions and the channels read, each one once."""
        everything = [*(channel.expression for channel in self.channels.values()), *expressions]
        names = dict.fromkeys(name for e in everything for name in e.signals)
        return [name for name in names if name in self.units]

    def channels_in_order(self) -> list[str]:
        """Names of the channels, each one behind those that it reads.

        Raises
        ------
        ConfigError
            If some need one another.
        """
        needs = {
            name: [n for n in map(channel_name, channel.expression.signals) if n in self.channels]
            for name, channel in self.channels.items()
        }
        try:
            return list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            path = " -> ".join(reversed(error.args[1]))
            raise ConfigError(
                f"[[calculated]]: channels need one another: {path}; all of them are computed from "
                "samples of the same tick, so take one out of the loop"
            ) from None


def channel_name(name: str) -> str:
    """Name of a calculated channel, which may be written as ``calculated.NAME``."""
    return name.removeprefix(CALCULATED + ".")
