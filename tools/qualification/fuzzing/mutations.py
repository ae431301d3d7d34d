"""Changes to valid files: bytes, numbers, lines, nesting, and the members of an archive."""

from __future__ import annotations

import io
import random
import re
import zipfile
from collections.abc import Callable, Sequence

#: Numbers, as text, that often break readers of files.
_NUMBERS = (
    *("0", "-1", "1", "255", "256", "65535", "65536", "2147483647", "2147483648", "-2147483649"),
    *("4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("1e308", "1e309", "-1e309", "1e-320", "nan", "inf", "-inf", "0x10", "1_0", "１２", ""),
    *("253402300800", "99999999999999", "1e18", "1e19", "9" * 400, "9" * 5000, "0." + "1" * 3000),
)
#: The same, as little-endian integers of several lengths.
_INTEGERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_WIDE = (*_INTEGERS, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_TOKENS = (
    *("[", "]", "{", "}", "(", ")", '"', "'", "'''", '"""', "=", ".", ",", ";", ":", "|", "@"),
    *("#", "/", "<", ">", "<!--", "-->", "<![CDATA[", "&lt;", "&x;", "\\", "\0", "\r", "\n\n"),
    *("\ufeff", "\u202e", "é", "\U0001f600", "%s", "{0}", "../", "/dev/zero", "true", "null"),
)
#: Nesting of brackets deeper than Python's stack.
_DEEP = 20_000
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

Mutation = Callable[[random.Random, bytes], bytes]


def mutate(rng: random.Random, sample: bytes, others: Sequence[bytes], *, text: bool) -> bytes:
    """Apply one to six changes to a sample, of text or bytes; also inside archives."""
    kinds = _TEXT if text else _BINARY
    if sample.startswith(b"PK") and rng.random() < 0.8:
        return _in_archive(rng, sample)
    if rng.random() < 0.1:
        sample = _splice(rng, sample, rng.choice(others))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        sample = rng.choice(kinds)(rng, sample)
    return sample


def _place(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _bytes(rng: random.Random, data: bytes) -> bytes:
    at, many = _place(rng, data), rng.choice((1, 2, 4, 8, 30))
    return data[:at] + rng.randbytes(many) + data[at + rng.choice((0, many)) :]


def _integer(rng: random.Random, data: bytes) -> bytes:
    size, at = rng.choice((1, 2, 4, 8)), _place(rng, data)
    value = rng.choice(_WIDE) & ((1 << 8 * size) - 1)
    return data[:at] + value.to_bytes(size, rng.choice(("little", "big"))) + data[at + size :]


def _nearby(rng: random.Random, data: bytes) -> bytes:
    """Change an integer slightly: lengths and positions that almost fit."""
    size, at = rng.choice((1, 2, 4, 8)), _place(rng, data)
    value = int.from_bytes(data[at : at + size], "little") + rng.choice((-8, -1, 1, 2, 8, 64))
    value &= (1 << 8 * size) - 1
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: _place(rng, data)]


def _delete(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + data[at + rng.choice((1, 2, 8, 50, 1000)) :]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    part = data[at : at + rng.choice((1, 2, 8, 50, 1000))]
    return data[:at] + part * rng.choice((2, 3, 50)) + data[at:]


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: _place(rng, data)] + other[_place(rng, other) :]


def _number(rng: random.Random, data: bytes) -> bytes:
    """Replace a number in a text."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return _flip(rng, data)
    match = rng.choice(found)
    return data[: match.start()] + rng.choice(_NUMBERS).encode() + data[match.end() :]


def _token(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + rng.choice(_TOKENS).encode() + data[at + rng.choice((0, 0, 1, 5)) :]


def _word(rng: random.Random, data: bytes) -> bytes:
    """Replace a word of a text by another."""
    found = list(re.finditer(rb"[A-Za-z_]\w*", data))
    if len(found) < 2:
        return _flip(rng, data)
    to, source = rng.choice(found), rng.choice(found)
    return data[: to.start()] + source[0] + data[to.end() :]


def _line(rng: random.Random, data: bytes) -> bytes:
    """Omit, duplicate or reorder lines."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(j, lines[i])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b"".join(lines)


def _nested(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    part = rng.choice((b"[", b"{a=", b"(", b"<a>", b"a.", b'{"a":', b"\x81\xa1a", b"\x91"))
    return data[:at] + part * rng.choice((60, 500, _DEEP)) + data[at:]


def _doctype(rng: random.Random, data: bytes) -> bytes:
    """Add entities that expand to a thousand million items before the root of an XML text."""
    at = data.find(b"<", data.find(b"?>") + 1)
    if at < 0 or b"<" not in data[:100]:
        return _number(rng, data)
    entities = "".join(
        f'<!ENTITY x{i} "{f"&x{i - 1};" * 10 if i else "laughs" * 9}">' for i in range(9)
    )
    inside = re.sub(rb'="[^"]*"', rb'="&x8;"', data[at:], count=3)
    return data[:at] + f"<!DOCTYPE x [{entities}]>".encode() + inside


_BINARY: tuple[Mutation, ...] = (
    *(_flip, _flip, _bytes, _integer, _integer, _integer, _nearby, _nearby, _cut, _delete, _repeat),
)
_TEXT: tuple[Mutation, ...] = (
    *(_flip, _bytes, _cut, _delete, _repeat, _number, _number, _number, _token, _token),
    *(_word, _word, _line, _line, _nested, _doctype),
)


def _in_archive(rng: random.Random, data: bytes) -> bytes:
    """Change one member of an archive, or add members that must not be unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    packed = io.BytesIO()
    chosen = rng.randrange(len(members))
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for i, (info, content) in enumerate(members):
            if i == chosen:
                text = info.filename.endswith(("xml", "ssd", "ssv", "ssm"))
                content = mutate(rng, content, [content], text=text)
            archive.writestr(info.filename, content)
        if rng.random() < 0.1:
            _add_hostile(rng, archive)
    changed = packed.getvalue()
    return _integer(rng, changed) if rng.random() < 0.1 else changed


def _add_hostile(rng: random.Random, archive: zipfile.ZipFile) -> None:
    kind = rng.randrange(4)
    if kind == 0:  # 1000 times larger than it looks
        archive.writestr("resources/bomb", bytes(30_000_000))
    elif kind == 1:
        archive.writestr(rng.choice(("../../x", "/tmp/x", "a/../../x", "C:\\x")), b"x")
    elif kind == 2:
        link = zipfile.ZipInfo("resources/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc")
    else:
        for i in range(3000):
            archive.writestr(f"resources/{i}", b"")
