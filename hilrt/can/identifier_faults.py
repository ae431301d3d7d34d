"""Identifiers in a database file that no frame can have, each named with its message.

cantools refuses a file for some of them, without saying of which message, and reads others as
identifiers that are not in the file.
"""

from __future__ import annotations

import re

from hilrt.can.frame import EXTENDED, EXTENDED_MASK, STANDARD_MASK

#: Vector's place for signals that are in no message.
_NO_MESSAGE = "VECTOR__INDEPENDENT_SIG_MSG"
#: Messages that one entry of a SYM file may stand for.
_MOST = 4096
_DBC = re.compile(r"^BO_[ \t]+(\S+)[ \t]+(\w+)[ \t]*:", re.MULTILINE)
_KCD = re.compile(r"<Message\b[^>]*>")
_ATTRIBUTE = re.compile(r"""\b(id|name|format)\s*=\s*["']([^"']*)["']""")
_SYM = re.compile(r'^\[("[^"]*"|[^\]\n]*)\]((?:\n(?!\[).*)*)', re.MULTILINE)
_SYM_ID = re.compile(r"^ID=([^\s/]*)", re.MULTILINE)
_SYM_WIDE = ("extended", "fdextended")
_SYM_TYPE = re.compile(r"^Type=(\w*)", re.MULTILINE)


def identifier_faults(text: str, suffix: str) -> list[str]:
    """What is wrong with the identifiers in a file.

    Parameters
    ----------
    text : str
        Of the file.
    suffix : str
        ``".dbc"``, ``".kcd"`` or ``".sym"``; of others nothing is found.
    """
    match suffix.lower():
        case ".dbc":
            found = [_in_dbc(name, number) for number, name in _DBC.findall(text)]
        case ".kcd":
            entries = (dict(_ATTRIBUTE.findall(entry)) for entry in _KCD.findall(text))
            found = [
                _fault(e.get("name", "?"), e.get("id", ""), 0, wide=e.get("format") == "extended")
                for e in entries
            ]
        case ".sym":
            found = [_in_sym(name.strip('"'), entry) for name, entry in _SYM.findall(text)]
        case _:
            found = []
    return [fault for fault in found if fault]


def _in_dbc(name: str, number: str) -> str:
    if name == _NO_MESSAGE:
        return ""
    try:
        value = int(number)
    except ValueError:
        return _no_number(name, number)
    if not 0 <= value < 1 << 32:
        return f"message {name} has the identifier {number}, which does not fit into 32 bits"
    return _fault(name, str(value & ~EXTENDED), 10, wide=bool(value & EXTENDED))


def _in_sym(name: str, entry: str) -> str:
    given = _SYM_ID.search(entry)
    if given is None:  # a further multiplexer value of the entry before
        return ""
    ids, kind = given[1], _SYM_TYPE.search(entry)
    first, _, last = ids.partition("-")
    wide = len(first) == 9 or (kind is not None and kind[1].lower() in _SYM_WIDE)
    for number in (first, last or first):
        if not number.lower().endswith("h"):
            return _no_number(name, ids)
        if fault := _fault(name, number[:-1], 16, wide=wide):
            return fault
    count = int((last or first)[:-1], 16) - int(first[:-1], 16) + 1
    return "" if count <= _MOST else f"message {name} stands for {count:,} identifiers ({ids})"


def _fault(name: str, number: str, base: int, *, wide: bool) -> str:
    try:
        value = int(number, base)
    except ValueError:
        return _no_number(name, number)
    if 0 <= value <= (EXTENDED_MASK if wide else STANDARD_MASK):
        return ""
    bits = 29 if wide else 11
    return f"message {name} has the identifier {value:#x}, which does not fit into {bits} bits"


def _no_number(name: str, number: str) -> str:
    return f"message {name} has the identifier {number!r}, which is no number"
