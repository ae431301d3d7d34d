"""Limits of positions and lengths in the text of a database, before it is parsed.

cantools takes memory for every bit of a signal and of a message, and looks only afterwards whether
the message has so many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: The longest message is a container of Ethernet: that many bits.
_MOST_BITS = 8 << 16
#: All signals and messages of a file together, bits: 200 MB of memory.
_MOST_OF_ALL = 50_000_000
#: What is compared: numbers of bits, of bytes, and others, which a file of a format gives.
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
    """`ValueError` for a signal or a message that no bus carries, with its line.

    So it is for a file whose signals are altogether too many bits.
    """
    pattern = _NUMBERS.get(kind)
    total = 0
    for found in pattern.finditer(text) if pattern is not None else ():
        for bits in _bits(found):
            total += bits
            if bits > _MOST_BITS or total > _MOST_OF_ALL:
                line = text.count("\n", 0, found.start()) + 1
                if bits > _MOST_BITS:
                    raise ValueError(f"line {line} has a signal at or of {bits:,} bits")
                raise ValueError(f"the signals up to line {line} have {total:,} bits and more")


def _bits(found: re.Match[str]) -> Iterator[int]:
    for name, value in found.groupdict().items():
        if value is not None:
            bits = _number(value)
            yield 8 * bits if name == "bytes" else bits


def _number(text: str) -> int:
    """Value of a number as the parsers take it; one too large for what is none of theirs."""
    text = text.strip().replace("_", "")
    if len(text) > 20:  # not to be computed with
        return _MOST_BITS + 1
    for base in (10, 0):
        try:
            return abs(int(text, base))
        except ValueError:
            continue
    return 0  # "auto", or what their parser refuses
