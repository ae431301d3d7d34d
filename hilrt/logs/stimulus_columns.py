"""Columns of files used as stimuli: read at the start and converted to their input's unit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hilrt.config import units
from hilrt.config.from_toml import nearest
from hilrt.config.session_tables import Stimulus, StimulusSegment
from hilrt.errors import ConfigError
from hilrt.logs.open_source import open_source
from hilrt.record.messages import Signal
from hilrt.record.reader import Block
from hilrt.solver import Floats

#: Maximum rows of a column: eight hours at 1 kHz.
MAX_ROWS = 30_000_000


class StimulusColumn(NamedTuple):
    """Times since a segment's beginning [s] and values in the input's unit, shape (n, 2).

    `note` describes how values between rows are determined.
    """

    points: Floats
    note: str


def read_columns(
    stimuli: Sequence[Stimulus], unit_of: dict[str, str], folder: Path, step: float
) -> list[StimulusColumn]:
    """Read the columns of all segments of shape "column", in the order of the session file.

    Parameters
    ----------
    stimuli : sequence of Stimulus
    unit_of : dict of str
        Units of the inputs, ``subsystem.input``.
    folder : Path
        Folder to which relative paths refer.
    step : float
        Macro step, s.

    Raises
    ------
    ConfigError
        If a file or a signal does not exist, or its unit cannot be converted.
    """
    return [
        read_column(segment, stimulus, unit_of[stimulus.input], folder, step, label)
        for stimulus, segment, label in column_segments(stimuli)
    ]


def column_segments(stimuli: Iterable[Stimulus]) -> Iterator[tuple[Stimulus, StimulusSegment, str]]:
    """Yield segments of shape "column", each with its stimulus and a label for messages."""
    for stimulus in stimuli:
        for k, segment in enumerate(stimulus.segments):
            if segment.shape == "column":
                yield stimulus, segment, f"[stimuli.{stimulus.name}.segments.{k}] file"


def read_column(
    segment: StimulusSegment, stimulus: Stimulus, unit: str, folder: Path, step: float, label: str
) -> StimulusColumn:
    """Read the column of one segment; see `read_columns`. `unit` is the unit of the input."""
    path, name = folder / (segment.file or ""), segment.signal or ""
    found, count = [np.zeros((0, 2))], 0
    with _opened(segment, path, label) as (signal, parts):
        factor, offset = _conversion(segment, stimulus, signal, unit, label)
        for part in parts:
            found.append(part)
            count += len(part)
            if count > MAX_ROWS:
                raise ConfigError(f"{label}: {path} has more than {MAX_ROWS:,} rows; cut it")
    points = _cleaned(np.concatenate(found), segment.shift)
    if len(points) == 0 or points[-1, 0] <= 0.0:
        raise _without_values(segment, path, label)
    points[:, 1] = points[:, 1] * segment.scale * factor + offset
    return StimulusColumn(points, _in_words(points, name, path, segment, step))


def check_column(
    segment: StimulusSegment, stimulus: Stimulus, unit: str, folder: Path, label: str
) -> None:
    """Raise as `read_column` does, but read the file only up to the first value that is used."""
    path = folder / (segment.file or "")
    with _opened(segment, path, label) as (signal, parts):
        _conversion(segment, stimulus, signal, unit, label)
        for part in parts:
            if np.any(np.isfinite(part).all(axis=1) & (part[:, 0] + segment.shift > 0.0)):
                return
    raise _without_values(segment, path, label)


@contextlib.contextmanager
def _opened(
    segment: StimulusSegment, path: Path, label: str
) -> Iterator[tuple[Signal, Iterator[Floats]]]:
    """Signal of the column, and its times [s] and values, shape (·, 2), part by part."""
    name = segment.signal or ""
    source = open_source(path, label, time=segment.time)
    try:
        signals = {signal.name: signal for topic in source.topics() for signal in topic.signals}
        if name not in signals:
            raise ConfigError(f"{label}: {path} has no signal {name!r}{nearest(name, signals)}")
        parts = (_column_of(block, name) for block in source.blocks({name}))
        yield signals[name], (part for part in parts if part is not None)
    finally:
        source.close()


def _without_values(segment: StimulusSegment, path: Path, label: str) -> ConfigError:
    name = segment.signal or ""
    return ConfigError(f"{label}: {name!r} of {path} has no values after the start; see shift")


def _column_of(block: Block, name: str) -> Floats | None:
    names = [signal.name for signal in block.channel.signals]
    if name not in names:
        return None
    return np.column_stack((block.times_ns / 1e9, block.values[:, names.index(name)]))


def _conversion(
    segment: StimulusSegment, stimulus: Stimulus, signal: Signal, unit: str, label: str
) -> tuple[float, float]:
    """Factor and offset from the column's unit to the input's; no offset if it is added."""
    own = segment.unit or signal.unit.strip("?") or stimulus.unit or unit
    try:
        factor, offset = units.conversion(own, unit)
    except ConfigError as error:
        raise ConfigError(f"{label}: {signal.name!r}: {error}") from None
    return factor, offset if stimulus.mode == "replace" else 0.0


def _cleaned(rows: Floats, shift: float) -> Floats:
    """Rows from time 0 on, ascending, without missing values; of equal times, the last row counts.

    If there is no row at time 0, the value there is interpolated linearly.
    """
    rows = rows[np.isfinite(rows).all(axis=1)]
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    rows[:, 0] += shift
    if len(rows) == 0:
        return rows
    rows = rows[np.append(np.diff(rows[:, 0]) > 0.0, True)]
    if rows[0, 0] < 0.0 <= rows[-1, 0] and not (rows[:, 0] == 0.0).any():
        at_0 = [0.0, float(np.interp(0.0, rows[:, 0], rows[:, 1]))]
        rows = np.vstack((at_0, rows[rows[:, 0] > 0.0]))
    found: Floats = np.ascontiguousarray(rows[rows[:, 0] >= 0.0])
    return found


def _in_words(points: Floats, name: str, path: Path, segment: StimulusSegment, step: float) -> str:
    """Describe how a column is read at the ticks."""
    between = "straight lines" if segment.interpolation == "linear" else "the last value"
    text = (
        f"{name} of {path.name}: {len(points):,} rows over {points[-1, 0]:g} s, "
        f"read at every step by {between} between rows"
    )
    spacing = points[-1, 0] / max(len(points) - 1, 1)
    if spacing < step * (1.0 - 1e-6):
        passed = math.floor(100.0 * (1.0 - spacing / step))
        text += f"; they are {spacing:.3g} s apart, so that {passed} % lie between two steps"
        text += " and are skipped, without a filter"
    return text
