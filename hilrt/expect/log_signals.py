"""What a session or a log has for expectations: signals, their units, and which have an error."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hilrt.config.structs import CALCULATED, Calculated, LookupEntry
from hilrt.expressions.known_signals import CalculatedChannel, KnownSignals, channel_name
from hilrt.expressions.nodes import LookupTable
from hilrt.expressions.session_program import channels_of, lookup_tables_of

#: Signal that is the half-width of the band in which the true value of another one is estimated.
ERROR = ":estimated_error"
#: What signals that tell of the session itself begin with, before a colon.
_OF_THE_SESSION = frozenset({"cut", "flag", "flags", "master"})
#: What signals of a subsystem, port or bond end with, behind the colon, that are times of the
#: exchange or flags of the session.
_TIMES_AND_FLAGS = frozenset(
    {
        *("age", "compute", "wire", "late", "busy", "due", "reached", "covered", "clock_error"),
        *("event", "rejoined", "t_valid", "source", "communicates", "capped"),
    }
)


@dataclass(frozen=True)
class LogSignals:
    """Signals by name.

    Attributes
    ----------
    units : mapping of str to str
        Every signal, with its unit.
    coupled : bool
        Whether they are of a co-simulation, in which what the coupling did to them is an error.
        What another tool has measured has no such error.
    of_benches : frozenset of str
        Measured outputs of benches.
    channels : mapping of str
        Calculated channels by their names, as far as it is known how they are computed: their
        error is that of what they are computed from.
    tables : mapping of str
        Lookup tables that they use.
    """

    units: Mapping[str, str]
    coupled: bool = False
    of_benches: frozenset[str] = field(default_factory=frozenset)
    channels: Mapping[str, CalculatedChannel] = field(default_factory=dict)
    tables: Mapping[str, LookupTable] = field(default_factory=dict)

    @classmethod
    def of_session(
        cls,
        units: Mapping[str, str],
        coupled: bool,
        benches: Collection[str],
        calculated: Sequence[Calculated] = (),
        lookup_tables: Sequence[LookupEntry] = (),
    ) -> LogSignals:
        """Of a session, with its benches and the tables of its calculated channels.

        Channels for which `units` lacks what they are computed from are taken as they are.
        """
        channels = computable(channels_of(calculated, []), units)
        tables = lookup_tables_of(lookup_tables, [])
        measured = (n for n in units if ":" not in n and n.partition(".")[0] in benches)
        return cls(units, coupled, frozenset(measured), channels, tables)

    def error_of(self, name: str) -> str | None:
        """Signal with the estimated error of another one; None: it has none."""
        base, _, kind = name.partition(":")
        error = f"{base}{ERROR}"
        return error if kind in ("", "corrected") and error in self.units else None

    def is_disturbed(self, name: str) -> bool:
        """Whether the coupling has a part in it.

        So it has in everything but times of the exchange and flags of the session.
        """
        begin, _, end = name.partition(":")
        of_session = end in _TIMES_AND_FLAGS or (end != "" and begin in _OF_THE_SESSION)
        return self.coupled and not of_session

    def column_of(self, name: str) -> str:
        """Signal that a name in a condition stands for: calculated channels go by their own."""
        calculated = f"{CALCULATED}.{name}"
        return calculated if name not in self.units and calculated in self.units else name

    def named(self, names: Iterable[str]) -> dict[str, str]:
        """Units by the names that conditions use."""
        found = dict(self.units)
        for name in names:
            column = self.column_of(name)
            if column in found:
                found[name] = found[column]
        return found

    def raw(self, names: Iterable[str]) -> frozenset[str]:
        """Signals that names in a condition are made of: of a channel, what it is computed from."""
        return frozenset(map(self.column_of, self._traced(names)[0]))

    def known(self, names: Iterable[str]) -> KnownSignals:
        """What a condition names, channels as expressions over what they are computed from."""
        raw, channels = self._traced(names)
        units = self.named(raw)
        return KnownSignals({name: units[name] for name in raw}, channels, self.tables)

    def _traced(self, names: Iterable[str]) -> tuple[set[str], dict[str, CalculatedChannel]]:
        """Names of signals, and channels, that stand behind names."""
        raw, channels, todo = set[str](), dict[str, CalculatedChannel](), [*names]
        while todo:
            name = todo.pop()
            own = channel_name(name)
            if own not in self.channels or self.column_of(name) != f"{CALCULATED}.{own}":
                raw.add(name)
            elif own not in channels:
                channels[own] = self.channels[own]
                todo += channels[own].expression.signals
        return raw, channels


def computable(
    channels: Mapping[str, CalculatedChannel], units: Mapping[str, str]
) -> dict[str, CalculatedChannel]:
    """Channels for which a log has everything that they are computed from."""
    found = dict(channels)
    while True:
        left = {
            name: channel
            for name, channel in found.items()
            if all(n in units or channel_name(n) in found for n in channel.expression.signals)
        }
        if len(left) == len(found):
            return found
        found = left
