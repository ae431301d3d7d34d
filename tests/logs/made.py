"""Logs to test with: a recorded session as the recorder writes it, and others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hilrt.logs.import_file import LogWriter
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Attachment, Begin, RecordEnd, RecordEvent, Signal, Topic
from hilrt.record.reader import Block, LogChannel
from hilrt.record.recording import Recording

EPOCH_NS = 1_780_000_000_123_456_789
SIGNALS = [
    Signal("engine.torque", "N*m", "EngineFast.ShaftTorque", "at the shaft, Größe"),
    Signal("engine.speed", "rad/s"),
]
TOPICS = [
    Topic("outputs", SIGNALS),
    Topic("timing", [Signal("master:step", "s"), Signal("master:lateness", "us")]),
]
#: Everything that a float64 can be.
HARD = [0.1, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.7976931348623157e308, 1 / 3, 2.0**53 + 2]


def session_log(folder: Path, n: int = 3000, summary: bytes = b"{}") -> Path:
    """A recorded session of n rows at 1 kHz; every third sample of the speed is missing."""
    rng = np.random.default_rng(1)
    begin = Begin(
        out_dir=str(folder),
        session="drive",
        epoch_ns=EPOCH_NS,
        topics=TOPICS,
        attachments=[Attachment("session.toml", "application/toml", b"[session]\n")],
        metadata={"bonds": "[]"},
    )
    recording = Recording(begin)
    rows = rng.normal(size=(n, 4)) * 1e3
    rows[: len(HARD), 0] = HARD
    rows[::3, 1] = np.nan
    times = np.arange(n, dtype=np.int64) * 1_000_000
    for i in range(0, n, 64):
        recording.batch(i, times[i : i + 64], rows[i : i + 64])
    recording.event(RecordEvent(1_500_000_000, "warning", "alarm", "engine", "too hot: 95 °C"))
    recording.finish(RecordEnd(summary=summary, rows=n, events=1))
    return recording.path


def rows_of(path: Path) -> np.ndarray:
    """The rows that `session_log` wrote, as the log's own reader gives them."""
    from hilrt import load_log

    log = load_log(path)
    return np.column_stack([log[name] for name in log.names])


def some_frames(n: int = 200, epoch_ns: int = 1_780_000_000_000_000_000) -> list[LoggedFrame]:
    """Frames of all kinds on two buses, whole microseconds apart."""
    rng = np.random.default_rng(3)
    kinds = [
        0,
        FrameFlag.EXTENDED,
        FrameFlag.EXTENDED | FrameFlag.SENT,
        FrameFlag.FD | FrameFlag.BIT_RATE_SWITCH,
    ]
    found = []
    at = epoch_ns
    for i in range(n):
        at += int(rng.integers(1, 5000)) * 1000
        flags = int(kinds[i % len(kinds)])
        length = 64 if flags & FrameFlag.FD and i % 8 == 3 else int(rng.integers(0, 9))
        identifier = int(rng.integers(0, 1 << (29 if flags & FrameFlag.EXTENDED else 11)))
        data = rng.bytes(length)
        found.append(LoggedFrame(at, str(i % 2), identifier, flags, length, data))
    return found


def frame_log(path: Path, frames: Sequence[LoggedFrame]) -> Path:
    """A log of frames alone."""
    writer = LogWriter(path, "frames", frames[0].time_ns)
    for frame in frames:
        writer.frame(frame)
    writer.close()
    return path


def two_rates(path: Path) -> Path:
    """A log whose two topics have times of their own: 1 kHz and 10 Hz, 3 s."""
    writer = LogWriter(path, "two rates", EPOCH_NS)
    fast, slow = (LogChannel(n, [Signal(f"{n}.x", "m")]) for n in ("fast", "slow"))
    for second in range(3):
        for channel, step in ((fast, 1_000_000), (slow, 100_000_000)):
            times = second * 1_000_000_000 + np.arange(0, 1_000_000_000, step)
            writer.block(Block(channel, times, np.sin(times / 1e8)[:, None]))
    writer.close()
    return path


def bits(values: np.ndarray) -> np.ndarray:
    """Values as their bits, all NaN the same."""
    found = np.asarray(values, np.float64).copy()
    found[np.isnan(found)] = np.nan
    return found.view(np.uint64)


def slow_output(path: Path) -> Path:
    """A session's log of 12 rows; `slow.y` has a sample in two of them."""
    writer = LogWriter(path, "every", EPOCH_NS)
    times = np.arange(12) * 1_000_000
    y, t_valid = np.full((2, 12, 1), np.nan)
    y[[0, 5], 0], t_valid[[0, 5], 0] = [1.5, 2.5], [0.0, 0.005]
    for first in (0, 7):  # two blocks: a value is held beyond the end of one
        part = slice(first, first + 7)
        for topic, name, values in (
            ("outputs", "slow.y", y),
            ("arrivals", "slow.y:t_valid", t_valid),
        ):
            writer.block(Block(LogChannel(topic, [Signal(name, "m")]), times[part], values[part]))
    writer.close()
    return path
