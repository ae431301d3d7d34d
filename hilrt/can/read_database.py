"""Reading of CAN database files with cantools; unusable files are refused with the reason."""

from __future__ import annotations

import codecs
import io
import logging
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cantools
from cantools.database.can import Database, Message

from hilrt.can.frame import EXTENDED, EXTENDED_MASK, STANDARD_MASK
from hilrt.can.id_table import with_contained
from hilrt.can.tolerant_loading import load_tolerantly
from hilrt.errors import ConfigError
from hilrt.files.text import read_regular

#: Vector's pseudo message for signals without a message.
_NO_MESSAGE = "VECTOR__INDEPENDENT_SIG_MSG"
#: Maximum messages described by one entry of a SYM file.
_MOST = 4096
_DBC = re.compile(r"^BO_[ \t]+(\S+)[ \t]+(\w+)[ \t]*:", re.MULTILINE)
_KCD = re.compile(r"<Message\b[^>]*>")
_ATTRIBUTE = re.compile(r"""\b(id|name|format)\s*=\s*["']([^"']*)["']""")
_SYM = re.compile(r'^\[("[^"]*"|[^\]\n]*)\]((?:\n(?!\[).*)*)', re.MULTILINE)
_SYM_ID = re.compile(r"^ID=([^\s/]*)", re.MULTILINE)
_SYM_WIDE = ("extended", "fdextended")
_SYM_TYPE = re.compile(r"^Type=(\w*)", re.MULTILINE)


def identifier_faults(text: str, suffix: str) -> list[str]:
    """Problems with the identifiers in a file.

    Parameters
    ----------
    text : str
        Content of the file.
    suffix : str
        ``".dbc"``, ``".kcd"`` or ``".sym"``; others are not checked.
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
    if given is None:  # a further multiplexer value of the previous entry
        return ""
    ids, kind = given[1], _SYM_TYPE.search(entry)
    first, _, last = ids.partition("-")
    wide = len(first) == 9 or (kind is not None and kind[1].lower() in _SYM_WIDE)  # 8 digits, h
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
    return f"message {name} has the identifier {number!r}, which is not a number"


#: Maximum bits of a message: those of a container on Ethernet.
_MOST_BITS = 8 << 16
#: Maximum total bits of all signals and messages of a file; cantools takes 200 MB for them.
_MOST_OF_ALL = 50_000_000
#: Start bits and lengths in a file, by format: the group `bytes` in bytes, all others in bits.
_NUMBERS = {
    "dbc": re.compile(
        r"(?<!\d)(?P<a>\d+)\s*\|\s*(?P<b>\d+)\s*@|\bBO_\s+\d+\s+\w+\s*:\s*(?P<bytes>\d+)"
    ),
    "kcd": re.compile(
        r"""\boffset\s*=\s*["'](?P<a>[^"']{0,40})|\blength\s*=\s*["'](?P<b>[^"']{0,40})"""
    ),
    "sym": re.compile(
        r"^[ \t]*(?:(?:Len|DLC)=[ \t]*(?P<bytes>\d+)"
        r"|(?:Var|Sig)=[^/\n]*?\b(?P<a>\d{5,})|Mux=[^/\n,]*?\b(?P<b>\d+)[ \t]*,[ \t]*(?P<c>\d+))",
        re.MULTILINE,
    ),
    "arxml": re.compile(
        r"<(?:\w+:)?(?:(?:START-POSITION|LENGTH|BASE-TYPE-SIZE)[^>]{0,200}>\s*(?P<a>[^<]{0,40})"
        r"|FRAME-LENGTH[^>]{0,200}>\s*(?P<bytes>[^<]{0,40}))"
    ),
}


def check_bit_counts(text: str, kind: str) -> None:
    """Raise `ValueError`, with the line, if a signal or message, or their total, is too long."""
    pattern = _NUMBERS.get(kind)
    total = 0
    for found in pattern.finditer(text) if pattern is not None else ():
        for bits in _bits(found):
            total += bits
            if bits > _MOST_BITS or total > _MOST_OF_ALL:
                line = text.count("\n", 0, found.start()) + 1
                if bits > _MOST_BITS:
                    raise ValueError(f"line {line} has a start bit or a length of {bits:,} bits")
                raise ValueError(f"the signals up to line {line} have {total:,} bits and more")


#: Maximum signals of a message: cantools takes 5 s for this number of multiplexed ones, and its
#: time grows with the square.
_MOST_SIGNALS = 10_000
#: Beginnings of messages and signals, by format.
_BEGINNINGS = {
    "dbc": re.compile(r"^BO_\s+\d+\s+(?P<message>\w+)|^\s+SG_\s", re.MULTILINE),
    "kcd": re.compile(r"<(?:\w+:)?(?:Message\b(?P<message>[^>]{0,200})|Signal\b)"),
}


def check_signal_counts(text: str, kind: str) -> None:
    """Raise `ValueError` for a message with so many signals that reading it takes minutes."""
    pattern = _BEGINNINGS.get(kind)
    begin, signals = 0, 0
    for found in pattern.finditer(text) if pattern is not None else ():
        signals += 1
        if found["message"] is not None:
            begin, signals = found.start(), 0
        elif signals > _MOST_SIGNALS:
            line = text.count("\n", 0, begin) + 1
            raise ValueError(
                f"the message at line {line} has more than {_MOST_SIGNALS:,} signals; remove "
                "those that are not needed"
            )


def _bits(found: re.Match[str]) -> Iterator[int]:
    for name, value in found.groupdict().items():
        if value is not None:
            bits = _number(value)
            yield 8 * bits if name == "bytes" else bits


def _number(text: str) -> int:
    """Magnitude of a number as read by the parsers; above every limit for a very long text."""
    text = text.strip().replace("_", "")
    if len(text) > 20:
        return _MOST_BITS + 1
    for base in (10, 0):
        try:
            return abs(int(text, base))
        except ValueError:
            continue
    return 0  # "auto", or a text that the parser refuses


#: Maximum bytes of a message on any bus that databases describe: containers on Ethernet.
_MOST_BYTES = 1 << 16


def check_numbers(message: Message) -> None:
    """Raise `ValueError` for invalid lengths, start bits, scales, offsets or bounds."""
    if not 0 <= message.length <= _MOST_BYTES:
        raise ValueError(f"message {message.name} has {message.length} bytes")
    for signal in message.signals:
        place = f"signal {signal.name} of message {message.name}"
        if not 0 < signal.length <= 8 * _MOST_BYTES:
            raise ValueError(f"{place} has {signal.length} bits")
        if signal.start < 0:
            raise ValueError(f"{place} begins at bit {signal.start}")
        for what in ("scale", "offset"):
            if not _finite(getattr(signal, what)):
                raise ValueError(f"{place} has a {what} that is not finite")
        if not _finite(abs(signal.scale) * 2.0 ** min(signal.length, 1000) + abs(signal.offset)):
            raise ValueError(f"{place} has values that are not finite")
        for what in ("minimum", "maximum"):
            bound = getattr(signal, what)
            if bound is not None and not _finite(bound) and not _infinite(bound):
                raise ValueError(f"{place} has a {what} that is not a number")


def _finite(value: float) -> bool:
    """Whether a number is finite as a float; an integer of 400 digits is not."""
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def _infinite(value: object) -> bool:
    return isinstance(value, float) and math.isinf(value)


#: Encoding declaration of an XML file.
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*encoding=["']([A-Za-z0-9._-]+)["']""")
#: File formats written by Windows tools, some of them in UTF-8 today.
_WINDOWS = (".dbc", ".sym")
# cantools warns about identifiers that several messages share, even on different buses; ambiguous
# ones are reported when frames are decoded.
logging.getLogger("cantools.database.can.database").setLevel(logging.ERROR)
#: Characteristic word of each format, in the order of the search if the suffix is unknown.
_WORDS = {
    "arxml": "<AUTOSAR",
    "dbc": "BO_ ",
    "kcd": "NetworkDefinition",
    "sym": "FormatVersion",
    "cdd": "<CANDELA",
}
_XML = ("arxml", "kcd", "cdd")
#: Maximum digits of a number in a SYM file: cantools' time grows with their square or faster; 5,000
#: take a second.
_DIGITS = 100
_LONG_NUMBER = re.compile(rf"[0-9A-F]{{{_DIGITS}}}")
#: Above this number of characters a file must contain the characteristic word of its format.
_LARGE = 100_000


def read_database(path: Path, label: str) -> Database:
    """Read a CAN database (DBC, ARXML, KCD, SYM), or the readable part of a broken DBC file.

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
    except Exception as error:  # the parsers may raise any exception
        saved = _readable_part(text, path)
        if saved is not None:
            return saved
        raise ConfigError(_refusal(path, label, error, faults)) from None
    if not isinstance(database, Database):
        raise ConfigError(f"{label}: {path} is a diagnostics database; give one with CAN messages")
    return database


def _load(text: str, suffix: str, faults: list[str]) -> Any:
    if faults:
        raise ValueError(", ".join(faults))
    kind = _kind(text, suffix)
    if kind in _XML and "<!DOCTYPE" in text:  # entities may expand, or refer to other files
        raise ValueError("it declares a document type, which is not allowed here")
    if kind == "sym" and (found := _LONG_NUMBER.search(text)):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"line {line} has a number of more than {_DIGITS} digits")
    check_bit_counts(text, kind)
    check_signal_counts(text, kind)
    database = cantools.database.load_string(text, kind, strict=False)
    if isinstance(database, Database):
        for message, _ in with_contained(database.messages):
            check_numbers(message)
    return database


def _kind(text: str, suffix: str) -> str:
    """Format of a file by its suffix, or else by a characteristic word.

    A large file without such a word is rejected, because the parsers would take seconds for it.
    """
    kind = suffix[1:].lower()
    if kind not in _WORDS:
        kind = next((kind for kind, word in _WORDS.items() if word in text), "")
    if not kind or (len(text) > _LARGE and _WORDS[kind] not in text):
        raise ValueError("it does not look like DBC, ARXML, KCD or SYM")
    return kind


def encoding_of(data: bytes, suffix: str) -> str:
    """Encoding of a file: as declared, else UTF-8 if valid, else cp1252 for DBC and SYM."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    declared = _DECLARED.match(data.removeprefix(codecs.BOM_UTF8))
    if declared:
        try:
            named = codecs.lookup(declared[1].decode()).name
            data.decode(named, "replace")
        except (LookupError, UnicodeError):  # unknown, or not for the text of a file
            return "utf-8"
        if not named.startswith(("utf-16", "utf-32")):  # the declaration is ASCII
            return named
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
    if "frame id" in reason:  # in a format that `identifier_faults` does not check
        return [f"{label}: {path}: {reason.rstrip('.')}; correct it in the database"]
    return [
        f"{label}: {path} is not a CAN database: {reason}; "
        "open it in an editor for databases and export it again"
    ]


def _readable_part(text: str, path: Path) -> Database | None:
    """Read the valid part of a broken DBC file; report the rest on standard error."""
    if path.suffix.lower() != ".dbc":
        return None
    saved = load_tolerantly(text, lambda part: _load(part, ".dbc", identifier_faults(part, ".dbc")))
    if saved is None:
        return None
    database, left_out, closed = saved
    for problem in left_out:
        print(f"{path.name} is read without {problem}", file=sys.stderr)
    if closed:
        more = f", and in {len(closed) - 1} more" if len(closed) > 1 else ""
        print(f"{path.name}: the closing ';' is missing in {closed[0]}{more}", file=sys.stderr)
    return database
