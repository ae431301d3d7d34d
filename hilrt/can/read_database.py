"""Database files as cantools reads them, or a refusal that says what is wrong with the file."""

from __future__ import annotations

import codecs
import io
import logging
import re
import sys
from pathlib import Path
from typing import Any

import cantools
from cantools.database.can import Database

from hilrt.can.bit_counts import check_bit_counts
from hilrt.can.container import with_contained
from hilrt.can.identifier_faults import identifier_faults
from hilrt.can.number_faults import check_numbers
from hilrt.can.tolerant_loading import load_tolerantly
from hilrt.errors import ConfigError
from hilrt.files.regular import read_regular

#: What an XML file says of its encoding.
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*encoding=["']([A-Za-z0-9._-]+)["']""")
#: Files of these formats are written by tools of Windows, some of them in UTF-8 today.
_WINDOWS = (".dbc", ".sym")
# It warns of identifiers that several messages have, also on different buses. Which of them a frame
# is, or that nothing says so, is told where frames are decoded.
logging.getLogger("cantools.database.can.database").setLevel(logging.ERROR)
#: What a file of a format has somewhere, in the order in which files of other suffixes are tried.
_WORDS = {
    "arxml": "<AUTOSAR",
    "dbc": "BO_ ",
    "kcd": "NetworkDefinition",
    "sym": "FormatVersion",
    "cdd": "<CANDELA",
}
_XML = ("arxml", "kcd", "cdd")
#: cantools takes the square of their number, and more, to read the digits of a number in SYM files:
#: 5,000 take a second.
_DIGITS = 100
_LONG_NUMBER = re.compile(rf"[0-9A-F]{{{_DIGITS}}}")
#: Characters of a file from which on it must have that word.
_LARGE = 100_000


def read_database(path: Path, label: str) -> Database:
    """Read a CAN database (DBC, ARXML, KCD, SYM); of a broken DBC file what can be read of it.

    Raises
    ------
    ConfigError
        If it cannot be read, with file, reason and remedy.
    """
    try:
        data = read_regular(path)
    except OSError as error:
        raise ConfigError(
            f"{label}: {path} cannot be read: {error.strerror}; "
            "give the database's path, relative to the session file"
        ) from None
    text = io.TextIOWrapper(io.BytesIO(data), encoding_of(data, path.suffix), "replace").read()
    faults = identifier_faults(text, path.suffix)
    try:
        database = _load(text, path.suffix, faults)
    except Exception as error:  # the parsers of the formats raise all kinds
        saved = _readable_part(text, path)
        if saved is not None:
            return saved
        raise ConfigError(_refusal(path, label, error, faults)) from None
    if not isinstance(database, Database):
        raise ConfigError(f"{label}: {path} is a diagnostics database; give one of CAN messages")
    return database


def _load(text: str, suffix: str, faults: list[str]) -> Any:
    if faults:
        raise ValueError(", ".join(faults))
    kind = _kind(text, suffix)
    if kind in _XML and "<!DOCTYPE" in text:  # entities that expand, or name other files
        raise ValueError("it declares a document type, which such files do not have")
    if kind == "sym" and (found := _LONG_NUMBER.search(text)):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"line {line} has a number of more than {_DIGITS} digits")
    check_bit_counts(text, kind)
    database = cantools.database.load_string(text, kind, strict=False)
    if isinstance(database, Database):
        for message, _ in with_contained(database.messages):
            check_numbers(message)
    return database


def _kind(text: str, suffix: str) -> str:
    """Format of a file by its suffix, else by a word that each has.

    Without such a word it is no database: the parsers take seconds to say so of a large file.
    """
    kind = suffix[1:].lower()
    if kind not in _WORDS:
        kind = next((kind for kind, word in _WORDS.items() if word in text), "")
    if not kind or (len(text) > _LARGE and _WORDS[kind] not in text):
        raise ValueError("it has nothing of DBC, ARXML, KCD or SYM files")
    return kind


def encoding_of(data: bytes, suffix: str) -> str:
    """Encoding of a file: what it says, else UTF-8 if it can be that, else that of Windows."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    declared = _DECLARED.match(data.removeprefix(codecs.BOM_UTF8))
    if declared and not declared[1].lower().startswith((b"utf-16", b"utf-32")):  # no ASCII
        named = declared[1].decode()
        try:
            data.decode(named, "replace")
            return named
        except LookupError:  # none, or not one of texts
            return "utf-8"
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "cp1252" if suffix.lower() in _WINDOWS else "utf-8"
    return "utf-8-sig"


def _refusal(path: Path, label: str, error: Exception, faults: list[str]) -> list[str]:
    if faults:
        return [f"{label}: {path}: {fault}; correct it in the database" for fault in faults]
    kinds = ("e_arxml", "e_dbc", "e_kcd", "e_sym", "e_cdd")
    causes = [cause for kind in kinds if (cause := getattr(error, kind, None)) is not None]
    cause = causes[0] if len(causes) == 1 else error
    reason = " ".join(str(cause).split()) or type(cause).__name__
    if "frame id" in reason:  # of a format whose text was not looked at
        return [f"{label}: {path}: {reason.rstrip('.')}; correct it in the database"]
    return [
        f"{label}: {path} is not a CAN database: {reason}; "
        "open it in an editor for databases and export it again"
    ]


def _readable_part(text: str, path: Path) -> Database | None:
    """What can be read of a broken DBC file; what cannot goes to standard error."""
    if path.suffix.lower() != ".dbc":
        return None
    saved = load_tolerantly(text, lambda part: _load(part, ".dbc", identifier_faults(part, ".dbc")))
    if saved is None:
        return None
    for problem in saved[1]:
        print(f"{path.name} is read without {problem}", file=sys.stderr)
    return saved[0]
