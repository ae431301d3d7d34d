"""Where the messages of a chunk stand, and their numbers at once.

A row is one message per topic, all of fixed length, so that a chunk is mostly one pattern that
repeats with every row. The pattern is found by walking over it once; how often it repeats, and the
numbers in it, are then read as strided arrays. What stands in between (events, snapshots) is walked
over message by message.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, NamedTuple

import numpy as np
from mcap.opcode import Opcode
from numpy.typing import NDArray

from hilrt.record import cdr
from hilrt.record.record_file import HEAD

#: Kind, length and channel: messages whose heads are the same have the same layout.
_MESSAGE = struct.Struct("<BQH")
#: Rows that are compared with the first at once; after these, ever more.
_FEW, _GROWTH = 32, 8


class Run(NamedTuple):
    """Messages of one channel, `period` bytes apart, from the one that begins at `first` on."""

    first: int
    period: int
    number: int


class Layout(NamedTuple):
    """Runs by channel, in the order of the chunk, and the other records: kind, begin, end."""

    runs: dict[int, list[Run]]
    others: list[tuple[int, int, int]]


def find_messages(data: bytes) -> Layout:
    """Where everything in a chunk stands; `ValueError` if it ends inside a record."""
    found = Layout({}, [])
    lap: dict[int, int] = {}  # where the messages since the last repetition begin, by channel
    at = 0
    while at < len(data):
        kind, size = HEAD.unpack_from(data, at)
        end = at + HEAD.size + size
        if end > len(data):
            raise ValueError("a chunk that ends inside a record")
        if kind != Opcode.MESSAGE:
            _note(found, lap, 0, 1)
            found.others.append((kind, at + HEAD.size, end))
            at = end
            continue
        channel = _MESSAGE.unpack_from(data, at)[2]
        if channel not in lap:
            lap[channel] = at
            at = end
            continue
        first = next(iter(lap.values()))
        if lap[channel] != first:  # not yet the whole pattern
            _note(found, lap, 0, 1)
            continue
        period = at - first
        count = _repetitions(data, first, period, list(lap.values()))
        _note(found, lap, period, count)
        at = first + count * period
    _note(found, lap, 0, 1)
    return found


def _note(found: Layout, lap: dict[int, int], period: int, count: int) -> None:
    for channel, first in lap.items():
        found.runs.setdefault(channel, []).append(Run(first, period, count))
    lap.clear()


def _repetitions(data: bytes, first: int, period: int, heads: list[int]) -> int:
    """How often the pattern of these heads comes, one after the other; at least once."""
    most, count, window = (len(data) - first) // period, 1, _FEW
    columns = _head_bytes(tuple([at - first for at in heads]))
    pattern = np.frombuffer(data, np.uint8, period, first)[columns]
    while count < most:
        laps = min(window, most - count)
        rows = np.ndarray((laps, period), np.uint8, data, first + count * period)
        same = (rows.take(columns, axis=1) == pattern).all(axis=1)
        if not same.all():
            return count + int(same.argmin())
        count, window = count + laps, window * _GROWTH
    return count


@functools.lru_cache(maxsize=64)
def _head_bytes(starts: tuple[int, ...]) -> NDArray[np.intp]:
    """Where the bytes of heads stand that begin there."""
    return (np.array(starts, np.intp)[:, None] + np.arange(_MESSAGE.size)).ravel()


@functools.cache
def record_type(signals: int) -> np.dtype[Any]:
    """A message with that many float64, as it stands in a chunk."""
    return np.dtype(
        [
            ("kind", "u1"),
            ("length", "<u8"),
            ("channel", "<u2"),
            ("sequence", "<u4"),
            ("log_time", "<i8"),
            ("publish_time", "<i8"),
            ("cdr", f"V{len(cdr.HEADER)}"),
            ("values", "<f8", (signals,)),
        ]
    )


def gather(data: bytes, runs: list[Run], kind: np.dtype[Any]) -> list[NDArray[Any]]:
    """The runs' messages as structured arrays, without a copy.

    `ValueError` if a message has another length than `kind`.
    """
    parts = [np.ndarray((r.number,), kind, data, r.first, (r.period,)) for r in runs]
    size = kind.itemsize - HEAD.size
    if any(part["length"][0] != size for part in parts):
        raise ValueError("a message that does not fit its signals")
    return parts
