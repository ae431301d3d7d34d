"""What a session or a log has for expectations: signals, their units, and which have an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
    """

    units: Mapping[str, str]
    coupled: bool = False
    of_benches: frozenset[str] = field(default_factory=frozenset)

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
        calculated = f"calculated.{name}"
        return calculated if name not in self.units and calculated in self.units else name

    def named(self, names: Iterable[str]) -> dict[str, str]:
        """Units by the names that conditions use."""
        found = dict(self.units)
        for name in names:
            column = self.column_of(name)
            if column in found:
                found[name] = found[column]
        return found
