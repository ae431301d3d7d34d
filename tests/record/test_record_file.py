"""Messages of a chunk are found wherever they stand, however often the pattern of a row repeats."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.record.record_file import find_messages, gather, record_type

MESSAGE, OTHER = 5, 4


def message(channel: int, number: int, size: int) -> bytes:
    body = struct.pack("<HIQQ", channel, number, number, number) + bytes(4 + 8 * size)
    return struct.pack("<BQ", MESSAGE, len(body)) + body


def walk(data: bytes) -> tuple[dict[int, list[int]], list[tuple[int, int, int]]]:
    """Where everything begins, one record after the other."""
    starts: dict[int, list[int]] = {}
    others, at = [], 0
    while at < len(data):
        kind, size, channel = struct.unpack_from("<BQH", data, at)
        if kind == MESSAGE:
            starts.setdefault(channel, []).append(at)
        else:
            others.append((kind, at + 9, at + 9 + size))
        at += 9 + size
    return starts, others


#: A row of three topics many times, single messages in between, and records of another kind.
pieces = st.one_of(
    st.tuples(st.just("rows"), st.integers(1, 40)),
    st.tuples(st.just("single"), st.integers(1, 5)),
    st.tuples(st.just("other"), st.integers(2, 30)),
)


@given(st.lists(pieces, max_size=12))
def test_what_is_found_is_what_a_walk_finds(layout: list[tuple[str, int]]) -> None:
    data = b""
    for kind, n in layout:
        if kind == "rows":
            row = message(1, 0, 3) + message(2, 0, 1) + message(3, 0, 2)
            data += row * n
        elif kind == "single":
            data += message(n, 0, n)
        else:
            data += struct.pack("<BQ", OTHER, n) + bytes(n)
    found = find_messages(data)
    starts = {
        channel: [run.first + i * run.period for run in runs for i in range(run.number)]
        for channel, runs in found.runs.items()
    }
    assert (starts, found.others) == walk(data)


def test_a_long_chunk_is_a_single_run_per_topic() -> None:
    row = message(1, 0, 3) + message(2, 0, 1)
    runs = find_messages(row * 1000).runs
    assert {channel: [run.number for run in found] for channel, found in runs.items()} == {
        1: [1000],
        2: [1000],
    }


def test_numbers_are_gathered() -> None:
    data = b"".join(message(1, i, 2) + message(2, i, 1) for i in range(20))
    parts = gather(data, find_messages(data).runs[1], record_type(2))
    np.testing.assert_array_equal(np.concatenate([p["sequence"] for p in parts]), np.arange(20))
    with pytest.raises(ValueError, match="does not fit its signals"):
        gather(data, find_messages(data).runs[1], record_type(3))


@pytest.mark.parametrize("lost", [1, 20])
def test_a_chunk_that_ends_inside_a_record_is_damaged(lost: int) -> None:
    with pytest.raises((ValueError, struct.error)):
        find_messages((message(1, 0, 1) * 30)[:-lost])
