"""Snapshots of the step's state: the bytes of its tables, preceded by their layout version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hilrt.errors import RecordError
from hilrt.record.feed import Feed
from hilrt.record.messages import ADJUSTMENTS, JACOBIANS, SENSITIVITIES, SNAPSHOTS
from hilrt.step.changes import Changes
from hilrt.step.numerics import Numerics
from hilrt.tables.record import as_bytes, blocks
from hilrt.tables.state import State

#: Bytes of the version at the beginning of a snapshot.
VERSION_BYTES = 16


def layout_version(tables: Iterable[tuple[str, NDArray[Any]]]) -> bytes:
    """Digest of the names, fields and sizes of tables, `VERSION_BYTES` long."""
    digest = hashlib.blake2b(digest_size=VERSION_BYTES)
    for name, block in tables:
        digest.update(f"{name} {block.shape} {block.dtype.descr}\n".encode())
    return digest.digest()


def other_version(where: str) -> RecordError:
    """Error about a log, or a part of it, whose tables differ from the present ones."""
    return RecordError(
        f"{where}: recorded by another version: its decisions can be read, but not replayed; use "
        "the version of hilrt that recorded it"
    )


class StateBytes:
    """The memory of a state, for storing, restoring and comparing.

    Parameters
    ----------
    state : State
        Its tables must not move.

    Attributes
    ----------
    version : bytes
        Of the layout.
    """

    def __init__(self, state: State) -> None:
        self._blocks = list(blocks(state))
        self.version = layout_version(self._blocks)
        self._views = [as_bytes(block) for _, block in self._blocks]
        self._size = VERSION_BYTES + sum(len(view) for view in self._views)

    def encode(self) -> bytes:
        """Snapshot of the present state."""
        return b"".join((self.version, *map(bytes, self._views)))

    def restore(self, snapshot: bytes) -> None:
        """Restore the state of `snapshot`.

        Raises
        ------
        RecordError
            If the snapshot is damaged or has another layout.
        """
        for view, recorded in zip(self._views, self._parts(snapshot), strict=True):
            view[...] = recorded

    def differences(self, recorded: bytes, recomputed: bytes) -> list[str]:
        """Names ``table[row].field`` of the differences between two snapshots, bit for bit.

        NaN equals NaN. Arrays that are not tables are named as a whole.

        Raises
        ------
        RecordError
            If a snapshot is damaged or has another layout.
        """
        if recorded == recomputed:
            return []
        parts = zip(self._parts(recorded), self._parts(recomputed), strict=True)
        return [
            found
            for (name, block), (a, b) in zip(self._blocks, parts, strict=True)
            for found in _differing(name, a.view(block.dtype), b.view(block.dtype))
        ]

    def _parts(self, snapshot: bytes) -> Iterator[NDArray[np.uint8]]:
        """The bytes of each block in a snapshot."""
        where = "a snapshot of the step's state"
        if not snapshot.startswith(self.version):
            raise other_version(where)
        if len(snapshot) != self._size:
            raise RecordError(f"{where} is damaged: {len(snapshot)} bytes, not {self._size}")
        begin = VERSION_BYTES
        for view in self._views:
            yield np.frombuffer(snapshot, np.uint8, len(view), begin)
            begin += len(view)


def _differing(name: str, a: NDArray[np.void], b: NDArray[np.void]) -> Iterator[str]:
    """Differences between two flat blocks."""
    if a.dtype.names is None:
        if _apart(a, b).any():
            yield name
        return
    apart = {field: _apart(a[field], b[field]) for field in a.dtype.names}
    for row in range(len(a)):
        for field, elements in apart.items():
            if elements[row].any():
                yield f"{name}[{row}].{field}"


def _apart(a: NDArray[np.void], b: NDArray[np.void]) -> NDArray[np.bool_]:
    """Mark where two arrays of f8 or i8 differ bit for bit; NaN equals NaN."""
    words = np.ascontiguousarray(a).view("i8"), np.ascontiguousarray(b).view("i8")
    apart: NDArray[np.bool_] = words[0] != words[1]
    if a.dtype == np.dtype("f8"):
        apart &= ~(np.isnan(a) & np.isnan(b))
    return apart


# Data for a replay in addition to the rows: the state once a second, changes, new Jacobians.

#: Session time between two snapshots, ns.
EVERY_NS = 1_000_000_000


class Snapshots:
    """Recorder of changes, and of the state once a second, from which a replay can start.

    Parameters
    ----------
    feed : Feed
    numerics : Numerics
    changes : Changes
        Names the changes in `given`.
    """

    def __init__(self, feed: Feed, numerics: Numerics, changes: Changes) -> None:
        self._feed, self._given, self._changes = feed, numerics.given, changes
        self._state = StateBytes(numerics.state)
        session = numerics.given.session
        self._changed, self._renewed = session["changes"], session["renewed"]
        self._answered = session["answers_renewed"]
        self._next_ns = EVERY_NS

    def record(self, t_ns: int) -> None:
        """Record what the step at `t_ns` needs for a replay, before its row is committed."""
        row, given = self._feed.rows, self._given
        if self._changed[0]:
            for change in self._changes.recorded(given):
                self._feed.aside(ADJUSTMENTS, row, t_ns, msgspec.msgpack.encode(change))
        if self._renewed[0]:
            self._feed.aside(JACOBIANS, row, t_ns, msgspec.msgpack.encode(given.gamma.tolist()))
        if self._answered[0]:
            session = given.session[0]
            times = float(session.answers_change), float(session.answers_since)
            switches = np.flatnonzero(given.subsystems["switches"]).tolist()
            content = [int(session.answers_moved), *times, given.answers.tolist(), switches]
            self._feed.aside(SENSITIVITIES, row, t_ns, msgspec.msgpack.encode(content))
        if t_ns >= self._next_ns:
            self._next_ns = t_ns - t_ns % EVERY_NS + EVERY_NS
            self._feed.aside(SNAPSHOTS, row + 1, t_ns, self._state.encode())
