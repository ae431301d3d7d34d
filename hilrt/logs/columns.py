"""Select, interleave and join blocks of several topics."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.record.messages import Topic
from hilrt.record.reader import Block, LogChannel
from hilrt.solver import Floats

#: Time by which topics from different places in a file advance together, ns.
WINDOW_NS = 1_000_000_000
#: Suffix of the signal with an output's sample times; NaN in rows without a sample.
MARK = ":t_valid"


def columns_of(blocks: Iterable[Block], wanted: Collection[str] | None) -> Iterator[Block]:
    """Yield blocks with only the wanted signals, without blocks that have none of them."""
    for block in blocks:
        signals = block.channel.signals
        keep = [i for i, one in enumerate(signals) if wanted is None or one.name in wanted]
        if len(keep) == len(signals):
            yield block
        elif keep:
            channel = LogChannel(block.channel.topic, [signals[i] for i in keep])
            yield Block(channel, block.times_ns, block.values[:, keep])


def between(blocks: Iterable[Block], start_ns: int, end_ns: int) -> Iterator[Block]:
    """Yield the rows whose times [ns] lie in ``[start_ns, end_ns]``."""
    for block in blocks:
        keep = (block.times_ns >= start_ns) & (block.times_ns <= end_ns)
        if keep.all():
            yield block
        elif keep.any():
            yield Block(block.channel, block.times_ns[keep], block.values[keep])


def interleave(streams: Sequence[Iterator[Block]]) -> Iterator[Block]:
    """Yield blocks of several streams, cut so that all streams advance together by `WINDOW_NS`.

    All blocks of a window come before any block of a later one.

    Parameters
    ----------
    streams : sequence of iterators of Block
        Streams of one topic each, with ascending times.
    """
    waiting: list[tuple[int, int, Block]] = []  # first time, stream, rows

    def refill(index: int) -> None:
        for block in streams[index]:
            if len(block.times_ns):
                heapq.heappush(waiting, (int(block.times_ns[0]), index, block))
                return

    for index in range(len(streams)):
        refill(index)
    while waiting:
        first, index, block = heapq.heappop(waiting)
        end = (first // WINDOW_NS + 1) * WINDOW_NS
        n = int(np.searchsorted(block.times_ns, end))
        yield Block(block.channel, block.times_ns[:n], block.values[:n])
        if n < len(block.times_ns):
            rest = Block(block.channel, block.times_ns[n:], block.values[n:])
            heapq.heappush(waiting, (int(rest.times_ns[0]), index, rest))
        else:
            refill(index)


class JoinedTable(NamedTuple):
    """Table with the rows of all signals at common times.

    Attributes
    ----------
    times_ns : ndarray, shape (n,)
        Ascending, ns.
    values : ndarray, shape (n, n_signals)
    present : ndarray of bool, shape (n, n_signals)
        Whether the signal's topic has a row at that time; if not, the value is NaN.
    """

    times_ns: NDArray[np.int64]
    values: Floats
    present: NDArray[np.bool_]


def tables(blocks: Iterable[Block], topics: Sequence[Topic]) -> Iterator[JoinedTable]:
    """Join the blocks of several topics row by row, a round of blocks at a time.

    A row is yielded once every unfinished topic has been read up to its time. Rows of several
    topics at the same time become one row.
    """
    starts, column = {}, 0
    for topic in topics:
        starts[topic.name] = column
        column += len(topic.signals)
    pending: dict[str, list[Block]] = {}
    for block in blocks:
        name = block.channel.topic
        if name not in starts:
            continue
        if name in pending:  # the next round begins, so older rows are complete
            yield from _emit(pending, starts, column, int(block.times_ns[0]))
        pending.setdefault(name, []).append(block)
    yield from _emit(pending, starts, column, None)


def hold(rows: Iterable[JoinedTable], topics: Sequence[Topic]) -> Iterator[JoinedTable]:
    """Hold the outputs of a session's log between their samples, where their `MARK` is absent.

    An output whose mark is not in `topics` is not held: held values could not be distinguished from
    samples.
    """
    names = [signal.name for topic in topics for signal in topic.signals]
    columns = {name: i for i, name in enumerate(names)}
    pairs = [(i, columns[name + MARK]) for name, i in columns.items() if name + MARK in columns]
    last = np.full(len(pairs), np.nan)
    for table in rows:
        for k, (output, mark) in enumerate(pairs):
            own = np.flatnonzero(table.present[:, output])
            fresh = ~np.isnan(table.values[own, mark])
            newest = np.maximum.accumulate(np.where(fresh, np.arange(len(own)), -1))
            held = np.where(newest >= 0, table.values[own[newest], output], last[k])
            table.values[own, output] = held
            table.present[own, mark] = fresh
            last[k] = held[-1] if len(held) else last[k]
        yield table


def _emit(
    pending: dict[str, list[Block]], starts: dict[str, int], width: int, until_ns: int | None
) -> Iterator[JoinedTable]:
    """Remove from `pending` and yield the rows before `until_ns` (None: all rows)."""
    taken: list[Block] = []
    for name in list(pending):
        kept = []
        for block in pending[name]:
            n = len(block.times_ns)
            n = n if until_ns is None else int(np.searchsorted(block.times_ns, until_ns))
            if n:
                taken.append(Block(block.channel, block.times_ns[:n], block.values[:n]))
            if n < len(block.times_ns):
                kept.append(Block(block.channel, block.times_ns[n:], block.values[n:]))
        if kept:
            pending[name] = kept
        else:
            del pending[name]
    if not taken:
        return
    # Two rows of a topic at the same time (frames in the same microsecond) stay two rows.
    times = np.unique(np.concatenate([_counted(block.times_ns) for block in taken]), axis=0)
    values = np.full((len(times), width), np.nan)
    present = np.zeros((len(times), width), bool)
    order = None
    if times[:, 1].any():
        order = {(int(t), int(k)): row for row, (t, k) in enumerate(times)}
    for block in taken:
        mine = _counted(block.times_ns)
        if order is None:
            rows = np.searchsorted(times[:, 0], mine[:, 0])
        else:
            rows = np.array([order[int(t), int(k)] for t, k in mine])
        start = starts[block.channel.topic]
        stop = start + block.values.shape[1]
        values[rows, start:stop] = block.values
        present[rows, start:stop] = True
    yield JoinedTable(times[:, 0].copy(), values, present)


def _counted(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Times, each with the number of equal times before it, shape (n, 2)."""
    index = np.arange(len(times))
    fresh = np.r_[True, np.diff(times) != 0] if len(times) else np.empty(0, bool)
    count = index - np.maximum.accumulate(np.where(fresh, index, 0)) if len(times) else index
    return np.column_stack([times, count])
