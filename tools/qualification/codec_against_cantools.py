"""Comparison of the generated codec with cantools for every message of the databases in folders.

    python -m tools.qualification.codec_against_cantools FOLDER ... [--frames 200]

Such a folder is that of cantools' own test suite, `tests/files` of its source distribution. Frames
are random, all zeros and all ones; decoded values must be identical to the last bit, and so must
the bytes to which these values are encoded. Every difference is counted by its kind and shown by
its first frame; docs/can.md lists the intended ones. Exit status 1 if there are others.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cantools
from cantools.database.can import Database, Message

from hilrt.can.codec import bits, codec, fits, multiplexers, selectors
from hilrt.can.database import load_database
from hilrt.can.frame_decoder import FrameDecoder
from hilrt.can.id_table import is_j1939
from hilrt.can.read_database import encoding_of
from hilrt.can.tools.session_draft import fault, reason
from hilrt.errors import ConfigError

SUFFIXES = (".dbc", ".kcd", ".sym", ".arxml")
#: Limit of integers that float64, the type of encoded values, represents exactly.
EXACT = 1 << 53
#: Intended differences, as listed in docs/can.md.
MEANT = ("multiplexer not marked", "signal beyond the message", "overlapping signals")


def main() -> int:
    """Compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--frames", type=int, default=200, help="random frames of each message")
    given = parser.parse_args()
    logging.disable()  # cantools reports doubtful databases
    compared = Comparison(given.frames)
    for folder in given.folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in SUFFIXES:
                compared.file(path)
    for line in compared.lines():
        print(line)
    return 1 if compared.not_meant else 0


class Comparison:
    """Counts of the comparisons, and the first example of every kind of difference."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._counts: Counter[str] = Counter()
        self._differences: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    @property
    def not_meant(self) -> int:
        """Number of unexpected differences."""
        return sum(n for kind, n in self._differences.items() if kind not in MEANT)

    def lines(self) -> Iterator[str]:
        """Summary, line by line."""
        for what, count in self._counts.items():
            yield f"{count:9,} {what}"
        for kind, count in self._differences.items():
            meant = " (meant)" if kind in MEANT else ""
            yield f"{count:9,} differences: {kind}{meant}; first {self._examples[kind]}"

    def file(self, path: Path) -> None:
        """Compare the messages of a file."""
        try:
            encoding = encoding_of(path.read_bytes(), path.suffix)
            plain: Any = cantools.database.load_file(path, encoding=encoding, strict=False)
        except Exception:  # the parsers raise various errors
            self._counts["files that cantools refuses"] += 1
            return
        try:
            mine = load_database(path, path.name)
        except ConfigError as error:
            self._differ("refused", f"{error}")
            return
        assert isinstance(plain, Database)
        self._counts["files"] += 1
        for message, marked in zip(plain.messages, mine.messages, strict=True):
            if message.is_container:
                self._counts["containers, which go to cantools"] += 1
            elif marked.signals:
                self._counts["messages"] += 1
                self._message(path.name, message, marked)

    def _message(self, file: str, plain: Message, mine: Message) -> None:
        place = f"{file} {plain.name}"
        names = [signal.name for signal in mine.signals]
        if len(set(names)) < len(names):
            self._counts["messages with signals of one name"] += 1
            return
        try:
            ours = codec(mine, names)
        except Exception as error:  # `reason` explains errors of the database
            self._differ("no codec", f"{place}: {reason(mine, error)}")
            return
        noise = random.Random(place)
        size = plain.length
        payloads = [bytes(size), b"\xff" * size]
        payloads += [noise.randbytes(size) for _ in range(self._frames)]
        payloads += _formed(mine, payloads[2:])
        payloads += [payloads[0][:-1], payloads[1] + b"\xff"]
        for data in payloads:
            self._counts["frames"] += 1
            expected, found = _by_cantools(plain, data), _by_us(ours, names, data)
            if _equal(expected, found):
                if expected is not None and not _overlap(mine):
                    self._encoded(place, plain, mine, expected)
                continue
            kind = _kind(plain, mine, expected, found)
            self._differ(kind, f"{place} [{data.hex()}]: {_shown(expected, found)}")
        self._truncated(place, plain, mine, payloads)

    def _truncated(
        self, place: str, plain: Message, mine: Message, payloads: Sequence[bytes]
    ) -> None:
        """Compare values of recorded frames that are too short."""
        if is_j1939(mine):  # values marked as not available are omitted by hilrt
            return
        decoder = FrameDecoder(mine)
        for k, data in enumerate(payloads):
            short = data[: k % plain.length] if plain.length else data
            expected = _by_cantools(plain, short, allow_truncated=True)
            if expected is None:  # unknown multiplexer value: hilrt keeps the other signals
                continue
            self._counts["short frames"] += 1
            values = decoder.decode(short) or []
            expected = {name: float(v) for name, v in expected.items() if v == v}  # as in a log
            found = {n: v for n, v in zip(decoder.names, values, strict=False) if v == v}
            if not _equal(expected, found):
                kind = _kind(plain, mine, expected, found)
                kind = kind if kind in MEANT else "short frame"
                self._differ(kind, f"{place} [{short.hex()}]: {_shown(expected, found)}")

    def _encoded(self, place: str, plain: Message, mine: Message, values: dict[str, Any]) -> None:
        """Compare the frames to which both encode the values of a decoded frame."""
        if any(math.isnan(v) or math.isinf(v) for v in values.values()):
            return  # cantools rejects such values of integers
        if any(abs(v) > EXACT for v in values.values()):
            self._counts["frames with numbers that no float64 is, not encoded"] += 1
            return
        switches = {s.name for s in multiplexers(mine)}
        fixed = {
            name: round(
                (values[name] - mine.get_signal_by_name(name).offset)
                / mine.get_signal_by_name(name).scale
            )
            for name in switches
            if name in values
        }
        names = [name for name in values if name not in fixed]
        try:
            expected = plain.encode(values, strict=False)
        except Exception as error:
            self._differ("cantools does not encode what it decoded", f"{place}: {error}")
            return
        found = codec(mine, names, fixed).encode([values[name] for name in names])
        self._counts["encoded"] += 1
        if found != expected:
            self._differ("encoded", f"{place} {values}: {expected.hex()} and {found.hex()}")

    def _differ(self, kind: str, text: str) -> None:
        self._differences[kind] += 1
        self._examples.setdefault(kind, text)


def _formed(message: Message, payloads: Sequence[bytes]) -> list[bytes]:
    """The payloads with multiplexer values of the database."""
    found = []
    switches = sorted(multiplexers(message), key=lambda s: len(selectors(message, s)))
    for k, data in enumerate(payloads if switches else ()):
        for switch in switches:
            below = [s for s in message.signals if s.multiplexer_signal == switch.name]
            ids = sorted({i for signal in below for i in signal.multiplexer_ids or ()})
            if ids and not fault(message, switch):
                data = _with(message, switch.name, ids[k % len(ids)], data)
        found.append(data)
    return found


def _by_cantools(
    message: Message, data: bytes, *, allow_truncated: bool = False
) -> dict[str, Any] | None:
    try:
        found: Any = message.decode(data, decode_choices=False, allow_truncated=allow_truncated)
    except Exception:  # also for wrongly described signals
        return None
    return dict(found)


def _by_us(ours: Any, names: Sequence[str], data: bytes) -> dict[str, Any] | None:
    try:
        found = ours.decode(data)
    except Exception:  # a defect counts as a difference
        return None
    return {name: v for name, v in zip(names, found, strict=True) if v is not None}


def _equal(expected: dict[str, Any] | None, found: dict[str, Any] | None) -> bool:
    if expected is None or found is None:
        return expected is found
    return expected.keys() == found.keys() and all(
        expected[k] == found[k] or (expected[k] != expected[k] and found[k] != found[k])
        for k in expected
    )


def _kind(
    plain: Message, mine: Message, expected: dict[str, Any] | None, found: dict[str, Any] | None
) -> str:
    if any(
        s.is_multiplexer and not p.is_multiplexer
        for s, p in zip(mine.signals, plain.signals, strict=True)
    ):
        return "multiplexer not marked"
    if not all(fits(mine, signal) for signal in mine.signals):
        return "signal beyond the message"
    if _overlap(mine):
        return "overlapping signals"
    if expected is None:
        return "decoded by us alone"
    if found is None:
        return "decoded by cantools alone"
    return "values" if expected.keys() == found.keys() else "signals"


def _shown(expected: dict[str, Any] | None, found: dict[str, Any] | None) -> str:
    if expected is None or found is None:
        return f"cantools {expected}, we {found}"
    other = sorted(
        k
        for k in {*expected, *found}
        if not (k in expected and k in found) or expected[k] != found[k]
    )
    return ", ".join(f"{k}: cantools {expected.get(k)}, we {found.get(k)}" for k in other[:3])


def _overlap(message: Message) -> bool:
    """Whether signals share bits: the result of encoding then depends on their order."""
    return any(
        bits(message, a) & bits(message, b)
        for i, a in enumerate(message.signals)
        for b in message.signals[:i]
        if a.multiplexer_signal == b.multiplexer_signal is None
    )


def _with(message: Message, name: str, raw: int, data: bytes) -> bytes:
    """Data with another raw value of a signal."""
    signal = message.get_signal_by_name(name)
    mask = bits(message, signal)
    value = raw * signal.scale + signal.offset
    set_bits = codec(message, [name]).encode([value])
    kept = int.from_bytes(data, "little") & ~mask
    return (kept | int.from_bytes(set_bits, "little") & mask).to_bytes(len(data), "little")


if __name__ == "__main__":
    sys.exit(main())
