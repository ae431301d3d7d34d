"""Tolerant reading of DBC files: uses the valid parts of a file with errors.

A bench's database is often exported by other tools, and one bad statement should not make all
others unusable. Messages are left out completely, with all statements about them, so that no signal
changes its meaning.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from cantools.database.can import Database

#: Maximum statements left out; with more, the file has another format, or is no database.
MAX_LEFT_OUT = 20
#: Initial number of statements tried together: of message definitions, and of statements about
#: messages, which are tried with the definitions that they may need.
_TOGETHER, _ABOUT_TOGETHER = 32, 256
#: Statements included in every trial.
_FRAME = ("VERSION", "BU_")
#: Statements that belong to no message, but require a definition.
_USES = ("BA_DEF_DEF_", "BA_DEF_DEF_REL_", "BA_", "BA_REL_", "BA_SGTYPE_")
_START = re.compile(
    r"^(VERSION|NS_|BS_|BU_|VAL_TABLE_|BO_TX_BU_|BO_|EV_|ENVVAR_DATA_|SGTYPE_|SIG_GROUP_|CM_|"
    r"BA_DEF_DEF_REL_|BA_DEF_DEF_|BA_DEF_REL_|BA_DEF_|BA_REL_|BA_SGTYPE_|BA_|VAL_|SIG_VALTYPE_|"
    r"SG_MUL_VAL_)(?=[ \t:])",
    re.MULTILINE,
)
_ABOUT = re.compile(
    r'(?:CM_\s+(?:BO_|SG_)|BA_\s+"[^"]*"\s+(?:BO_|SG_)|[A-Z_]+)\s+(-?\d[0-9A-Za-z]*)'
)
#: Place in a parser's message, which is relative to the part that was tried, not to the file.
_PLACE = re.compile(r" at line \d+, column \d+")
#: Statements that end with a semicolon. If it is missing, the parser reports a later line.
_CLOSED = (
    "VAL_TABLE_", "VAL_", "CM_", "BA_DEF_DEF_REL_", "BA_DEF_DEF_", "BA_DEF_REL_", "BA_DEF_",
    "BA_REL_", "BA_SGTYPE_", "BA_", "BO_TX_BU_", "EV_", "ENVVAR_DATA_", "SGTYPE_", "SIG_GROUP_",
    "SIG_VALTYPE_", "SG_MUL_VAL_",
)  # fmt: skip
#: Factor, offset and range of a signal, in which ``.25`` may lack its zero.
_SIGNAL = re.compile(r"^\s*SG_ [^\n\"(]*\([^\n\"]*", re.MULTILINE)
_NO_ZERO = re.compile(r"(?<![\d.])\.(?=\d)")
#: Statements without which a signal would have another meaning.
_NEEDED = ("SIG_VALTYPE_", "SG_MUL_VAL_", "VERSION", "NS_", "BS_", "BU_")


class _Statement(NamedTuple):
    line: int
    keyword: str
    text: str

    @property
    def name(self) -> str:
        """Line number, with the message's name or the beginning of the statement."""
        first = self.text.partition("\n")[0]
        words = first.split()
        if self.keyword == "BO_" and len(words) > 2:
            return f"line {self.line}: message {words[2].rstrip(':')}"
        return f"line {self.line}: {first[:60]}"

    @property
    def message(self) -> str | None:
        """Identifier of the message concerned; None if there is none."""
        found = _ABOUT.match(self.text)
        return found[1] if found else None


class _TooBroken(Exception):
    pass


def load_tolerantly(
    text: str, load: Callable[[str], Database]
) -> tuple[Database, list[str], list[str]] | None:
    """Load a database without its unreadable statements, and list these.

    A statement that only lacks its closing semicolon is closed, and ``.25`` is read as ``0.25``.

    Parameters
    ----------
    text : str
        Content of the DBC file.
    load : callable
        Creates a database from a text, or raises.

    Returns
    -------
    Database, list of str, list of str
        The database, the statements left out, and those that were closed. None if too little is
        left, or if signals would change their meaning.
    """
    with_zeros = _SIGNAL.sub(lambda signal: _NO_ZERO.sub("0.", signal[0]), text)
    statements, closed = _closed(_statements(with_zeros))
    search = _Search(load)
    try:
        frame = [s for s in statements if s.keyword in _FRAME]
        all_messages = [s for s in statements if s.keyword == "BO_"]
        messages = search.keep(all_messages, lambda some: frame)
        if not messages:
            return None
        head = _definitions(search, frame, statements)
        by_id: dict[str | None, list[_Statement]] = defaultdict(list)
        for message in messages:
            by_id[message.message].append(message)

        def about(some: Sequence[_Statement]) -> list[_Statement]:
            return [*head, *chain.from_iterable(by_id[i] for i in {s.message for s in some})]

        details = [s for s in statements if s.keyword != "BO_" and s.message is not None]
        search.strays(details, {s.message for s in all_messages})
        known = [s for s in details if s.message in by_id]
        details = search.keep(known, about, _ABOUT_TOGETHER)
        database = load("".join(s.text for s in [*head, *messages, *details]))
        return database, search.left_out, closed
    except _TooBroken:
        return None
    except Exception:  # readable individually, but not together
        return None


def _definitions(
    search: _Search, frame: list[_Statement], statements: Sequence[_Statement]
) -> list[_Statement]:
    """Statements that concern no message: first definitions, then their uses."""
    whole = [s for s in statements if s.keyword not in (*_FRAME, "BO_") and s.message is None]
    uses = [s for s in whole if s.keyword in _USES]
    defined = search.keep([s for s in whole if s.keyword not in _USES], lambda some: frame)
    head = [*frame, *defined]
    return [*head, *search.keep(uses, lambda some: head)]


def _statements(text: str) -> list[_Statement]:
    starts = [match.start() for match in _START.finditer(text)]
    found: list[_Statement] = []
    line, counted = 1, 0
    for begin, end in pairwise([*starts, len(text)]):
        line += text.count("\n", counted, begin)
        counted = begin
        part = text[begin:end]
        found.append(_Statement(line, part.split(":")[0].split()[0], part))
        if _is_open(part):
            first = _beginning(found)
            whole = "".join(statement.text for statement in found[first:])
            found[first:] = [found[first]._replace(text=whole)]
    return found


def _beginning(found: Sequence[_Statement]) -> int:
    """Index of the statement whose comment ends in the last one; else index of the last one.

    Lines of a comment may begin with keywords. Those in its middle have no quotation marks.
    """
    last = len(found) - 1
    for i in reversed(range(last)):
        if _quotation_marks(found[i].text):
            return i if _is_open(found[i].text) else last
        if _is_closed(found[i]):
            return last
    return last


def _quotation_marks(text: str) -> int:
    return text.count('"') - text.count('\\"')


def _is_open(text: str) -> bool:
    """Whether a string that begins in the text does not end in it."""
    return _quotation_marks(text) % 2 == 1


def _is_closed(statement: _Statement) -> bool:
    """Whether a statement ends with the semicolon that its kind requires."""
    return statement.keyword in _CLOSED and statement.text.rstrip().endswith(";")


def _closed(statements: Sequence[_Statement]) -> tuple[list[_Statement], list[str]]:
    """All statements, with missing semicolons added, and the names of those completed."""
    whole, names = [], []
    for statement in statements:
        text = statement.text.rstrip()
        if statement.keyword in _CLOSED and not text.endswith(";") and not _is_open(text):
            names.append(statement.name)
            statement = statement._replace(text=f"{text} ;\n")
        whole.append(statement)
    return whole, names


class _Search:
    """Search for unreadable statements by bisection.

    Loading a statement takes a fraction of a millisecond, a whole file seconds. Therefore parts are
    tried only with the statements that they need.

    Attributes
    ----------
    left_out : list of str
        The parts left out, with reasons.
    """

    def __init__(self, load: Callable[[str], Database]) -> None:
        self._load = load
        self.left_out: list[str] = []

    def strays(self, some: Sequence[_Statement], defined: Collection[str | None]) -> None:
        """Add one entry for all statements about messages that are missing in the file."""
        lost = [s for s in some if s.message not in defined]
        if lost:
            self.left_out.append(
                f"{len(lost)} statements about messages that it does not contain; the first is "
                f"{lost[0].name}"
            )

    def keep(
        self,
        some: Sequence[_Statement],
        needed: Callable[[Sequence[_Statement]], list[_Statement]],
        together: int = _TOGETHER,
    ) -> list[_Statement]:
        """Select from `some` the statements that are readable with those that they need."""
        kept: list[_Statement] = []
        for start in range(0, len(some), together):
            kept += self._part(some[start : start + together], needed)
        return kept

    def _part(
        self,
        some: Sequence[_Statement],
        needed: Callable[[Sequence[_Statement]], list[_Statement]],
    ) -> Sequence[_Statement]:
        try:
            self._load("".join(s.text for s in [*needed(some), *some]))
            return some
        except Exception as error:  # the parser may raise any exception
            if len(some) == 1:
                if some[0].keyword in _NEEDED or len(self.left_out) >= MAX_LEFT_OUT:
                    raise _TooBroken from None
                reason = str(getattr(error, "e_dbc", None) or error)
                reason = _PLACE.sub("", " ".join(reason.split()))
                place = some[0].name
                line, _, what = place.partition(": ")
                label = line if reason.startswith(f"{what} ") else place
                self.left_out.append(f"{label}: {reason}")
                return []
        half = len(some) // 2
        return [*self._part(some[:half], needed), *self._part(some[half:], needed)]
