"""What can be read of a DBC file that cannot be read as a whole.

A database of a bench is often an export of other people's tools, and one bad statement is no reason
to do without the other thousand. Messages are left out whole, with what is said of them elsewhere,
so that no signal changes its meaning: what is left is as the file says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

from cantools.database.can import Database

#: Statements left out at most; a file with more is another format, or no database.
MAX_LEFT_OUT = 20
_START = re.compile(
    r"^(VERSION|NS_|BS_|BU_|VAL_TABLE_|BO_TX_BU_|BO_|EV_|ENVVAR_DATA_|SGTYPE_|SIG_GROUP_|CM_|"
    r"BA_DEF_DEF_REL_|BA_DEF_DEF_|BA_DEF_REL_|BA_DEF_|BA_REL_|BA_SGTYPE_|BA_|VAL_|SIG_VALTYPE_|"
    r"SG_MUL_VAL_)(?=[ \t:])",
    re.MULTILINE,
)
_ABOUT = re.compile(r'(?:CM_\s+(?:BO_|SG_)|BA_\s+"[^"]*"\s+(?:BO_|SG_)|[A-Z_]+)\s+(\d+)')
#: Of the part that was tried, not of the file.
_PLACE = re.compile(r" at line \d+, column \d+")
#: Without these a signal would mean something else.
_NEEDED = ("SIG_VALTYPE_", "SG_MUL_VAL_", "VERSION", "NS_", "BS_", "BU_")


class _Statement(NamedTuple):
    line: int
    keyword: str
    text: str

    @property
    def name(self) -> str:
        """As the user finds it in the file."""
        first = self.text.partition("\n")[0]
        words = first.split()
        if self.keyword == "BO_" and len(words) > 2:
            return f"line {self.line}: message {words[2].rstrip(':')}"
        return f"line {self.line}: {first[:60]}"

    @property
    def message(self) -> str | None:
        """Identifier of the message that it is about."""
        found = _ABOUT.match(self.text)
        return found[1] if found else None


class _TooBroken(Exception):
    pass


def load_tolerantly(
    text: str, load: Callable[[str], Database]
) -> tuple[Database, list[str]] | None:
    """The database without the statements that cannot be read, and what these are.

    Parameters
    ----------
    text : str
        Of the DBC file.
    load : callable
        Makes a database of a text, or raises.

    Returns
    -------
    Database, list of str or None
        None if too little is left of it, or if signals would change their meaning.
    """
    starts = [match.start() for match in _START.finditer(text)]
    statements = [
        _Statement(text.count("\n", 0, a) + 1, text[a:b].split(":")[0].split()[0], text[a:b])
        for a, b in pairwise([*starts, len(text)])
    ]
    messages = [s for s in statements if s.keyword == "BO_"]
    try:
        search = _Search(load)
        frame = [s for s in statements if s.keyword in ("VERSION", "BU_")]
        kept = search.keep(messages, frame)
        gone = {s.message for s in messages if s not in kept}
        others = [
            s for s in statements if s.keyword != "BO_" and s not in frame and s.message not in gone
        ]
        if not kept:
            return None
        everything = search.keep(others, [*frame, *kept])
        return load("".join(s.text for s in [*frame, *kept, *everything])), search.left_out
    except _TooBroken:
        return None


class _Search:
    """Finds the statements that cannot be read, by halves.

    Attributes
    ----------
    left_out : list of str
        What they are, and why.
    """

    def __init__(self, load: Callable[[str], Database]) -> None:
        self._load = load
        self.left_out: list[str] = []

    def keep(self, some: list[_Statement], before: Iterable[_Statement]) -> list[_Statement]:
        """Those of `some` that can be read after the others."""
        before = list(before)
        try:
            self._load("".join(s.text for s in [*before, *some]))
            return some
        except Exception as error:  # the parser raises all kinds
            if len(some) <= 1:
                if not some or some[0].keyword in _NEEDED or len(self.left_out) >= MAX_LEFT_OUT:
                    raise _TooBroken from None
                reason = str(getattr(error, "e_dbc", None) or error)
                reason = _PLACE.sub("", " ".join(reason.split()))
                self.left_out.append(f"{some[0].name}: {reason}")
                return []
        half = len(some) // 2
        first = self.keep(some[:half], before)
        return [*first, *self.keep(some[half:], [*before, *first])]
