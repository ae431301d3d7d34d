"""The recorder's loop, which writes rows, events and CAN frames to ``session.mcap``.

Rows and events come from the master, frames from the gateways. The loop ends on the master's
message, on request, or when the connection to the master is lost. In each case everything that has
arrived is written, and the file is closed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import zmq
from zmq.backend import zmq_poll

from hilrt.isolation.temporary_folder import bind, connect
from hilrt.record.feed import ProgressSender
from hilrt.record.frame_feed import QUEUE_BATCHES as FRAME_BATCHES
from hilrt.record.messages import (
    BESIDE,
    ROWS,
    Begin,
    RecordEnd,
    RecordEvent,
    Stretched,
    decode,
)
from hilrt.record.recording import Follower, Recording
from hilrt.timing.monotonic import monotonic_ns

#: Smallest step of the wall clock that is reported, ns. Smaller ones may be a delay of the process
#: between two readings, or synchronisation that slews the clock by 0.05 %.
SMALLEST_NS = 100_000_000


class ClockWatch:
    """Detector of steps of the wall clock, by comparison with the monotonic clock.

    Parameters
    ----------
    wall, steady : callable
        The two clocks, ns.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = monotonic_ns
    ) -> None:
        self._wall, self._steady = wall, steady
        self._ahead = self._read()

    def step_ns(self) -> int:
        """Step of the wall clock since the last call, ns; 0 if the clock was not set."""
        # Of two readings, use the less disturbed one.
        step = min(self._read() - self._ahead, self._read() - self._ahead, key=abs)
        self._ahead += step
        return step if abs(step) >= SMALLEST_NS else 0

    def _read(self) -> int:
        return self._wall() - self._steady()


#: Time within which rows reach the file; kill -9 loses this much.
CHUNK_S = 0.5
#: Time limits for a master to appear, and for a lost connection to return, s.
CONNECT_S = 60.0
GONE_S = 0.5
#: Silence after which no further messages from the master are expected at the end, s.
QUIET_S = 0.1
POLL_MS = 100
#: Time limits at the end for all frames, s, and for the next batch, ms.
FRAMES_END_S = 0.5
FRAMES_QUIET_MS = 20
#: Maximum batches queued in this process; further ones stay in the master's bounded queue. If the
#: master is killed then, batches in transit between the two are lost (see `RecorderFeed.close`).
QUEUE_BATCHES = 64
#: Number and value of a socket's event, as libzmq sends them. `zmq.utils.monitor` could parse them,
#: but imports asyncio, which takes a fifth of a recorder's start.
SOCKET_EVENT = struct.Struct("=HI")
#: Messages queued for a slow relay; beyond this, it loses messages, but the log does not.
TAP_LENGTH = 256


class Recorder:
    """Sockets and loop of a `Recording`, from the master's first message to its last.

    Parameters
    ----------
    address : str
        Address of the master's feed.
    connect_s : float
        Time limit for the master to appear, s.
    tap : str
        Address to which the same messages are sent, for live views; empty: none.
    frames : str
        Address for the gateways' CAN frames; empty: none.
    follow : callable, optional
        Creates the log's follower; see `Recording`.
    progress : str
        The master's address for progress reports; empty: none.
    logs : Path, optional
        Folder of the processes' logs, whose sizes are limited.

    Attributes
    ----------
    stop : bool
        Set by a signal handler; the loop then ends once everything that has arrived is written.
    """

    def __init__(
        self,
        address: str,
        connect_s: float = CONNECT_S,
        tap: str = "",
        frames: str = "",
        follow: Callable[[Begin], Follower] | None = None,
        progress: str = "",
        logs: Path | None = None,
    ) -> None:
        self.stop = False
        self._logs = CappedLogs(logs) if logs is not None else None
        self._make_follower = follow
        self._tap: zmq.Socket[bytes] | None = None
        self._recording: Recording | None = None
        self._end: RecordEnd | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.PULL)
        self._socket.rcvhwm = QUEUE_BATCHES
        self._monitor = self._socket.get_monitor_socket(
            zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED
        )
        try:
            connect(self._socket, address)
            if tap:
                self._tap = self._open_tap(tap)
            self._frames = self._context.socket(zmq.PULL)
            self._frames.rcvhwm = FRAME_BATCHES
            if frames:
                bind(self._frames, frames)
            self._progress = ProgressSender(self._context, progress) if progress else None
        except zmq.ZMQError:
            self._context.destroy(linger=0)
            raise
        self._sources = [(self._socket, int(zmq.POLLIN)), (self._frames, int(zmq.POLLIN))]
        self._clock_watch = ClockWatch()
        self._address = address
        self._gone_at = time.monotonic() + connect_s
        self._connected = False
        self._heard_at = time.monotonic()
        self._ignored = self._events = 0

    def _open_tap(self, address: str) -> zmq.Socket[bytes]:
        tap: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
        tap.sndhwm = TAP_LENGTH
        tap.linger = 0
        connect(tap, address)
        return tap

    def run(self) -> int:
        """Record until the end; returns the exit status."""
        try:
            self._loop()
            if self._recording is not None:
                self._recording.finish(self._end)
                self._report_progress(self._recording)
        except OSError as error:
            return self._fail(error)
        finally:
            self._socket.disable_monitor()
            if self._progress is not None:
                self._progress.close()
            self._context.destroy(linger=0)
        if self._ignored:
            say(f"ignored {self._ignored} invalid messages")
        if self._recording is None and not self._connected:
            say(f"no master at {self._address}; nothing was recorded")
            return 1
        return 0

    def _fail(self, error: OSError) -> int:
        reason = error.strerror or str(error)
        if self._recording is None:
            where = error.filename or "the log"
            say(f"{where}: cannot be created: {reason}; choose another folder with --out")
            return 1
        self._recording.abandon()
        rows = self._recording.rows
        say(
            f"{self._recording.path}: cannot be written: {reason}; recording ends after {rows} "
            "rows; check the disk"
        )
        return 1

    def _loop(self) -> None:
        flushed = time.monotonic()
        while self._end is None:
            ready = [source for source, _ in zmq_poll(self._sources, POLL_MS)]
            now = time.monotonic()
            if self._logs is not None:
                self._logs.check()
            if self._socket in ready:  # first, because frames need a session that has begun
                self._heard_at = now
                self._take(self._socket.recv_multipart())
            elif now - self._heard_at >= QUIET_S and (self.stop or self._master_is_gone()):
                break  # drained
            if self._frames in ready:
                self._take_frames(self._frames.recv())
            if self._recording is not None and now - flushed >= CHUNK_S:
                if step_ns := self._clock_watch.step_ns():
                    self._recording.clock_step(step_ns)
                self._recording.flush()
                self._recording.sync()
                self._report_progress(self._recording)
                flushed = now
        self._receive_last_frames()

    def _report_progress(self, recording: Recording) -> None:
        if self._progress is not None:
            cut = [] if self._logs is None else list(self._logs.left_out)
            self._progress.send(*recording.progress, self._events, cut)

    def _receive_last_frames(self) -> None:
        """Receive messages that gateways sent before they ended, if they arrive in time."""
        until = time.monotonic() + FRAMES_END_S
        while time.monotonic() < until and self._frames.poll(FRAMES_QUIET_MS):
            self._take_frames(self._frames.recv())

    def _take_frames(self, data: bytes) -> None:
        if self._recording is None:
            return  # from before the session
        try:
            self._recording.raw_frames(data)
        except (ValueError, msgspec.MsgspecError):
            self._ignored += 1

    def _master_is_gone(self) -> bool:
        while self._monitor.poll(0):
            event, _ = SOCKET_EVENT.unpack(self._monitor.recv_multipart()[0])
            if event == zmq.EVENT_CONNECTED:
                self._connected, self._gone_at = True, float("inf")
            else:
                self._gone_at = time.monotonic() + GONE_S
        return time.monotonic() > self._gone_at

    def _take(self, frames: list[bytes]) -> None:
        if self._tap is not None:  # first and unchanged, so that live views need not wait
            with contextlib.suppress(zmq.Again):
                self._tap.send_multipart(frames, zmq.NOBLOCK)
        try:
            if frames[0] == ROWS and len(frames) == 4:
                if self._recording is not None:
                    self._recording.raw_batch(*frames[1:])
                return
            if frames[0] == BESIDE and len(frames) == 4:
                if self._recording is not None:
                    self._recording.aside(*frames[1:])
                return
            message = decode(frames[0])
        except (ValueError, msgspec.MsgspecError):
            self._ignored += 1
            return
        if isinstance(message, Begin) and self._recording is None:
            self._recording = Recording(message, self._make_follower)
        elif isinstance(message, RecordEvent) and self._recording is not None:
            self._recording.event(message)
            self._events += 1
        elif isinstance(message, Stretched) and self._recording is not None:
            self._recording.clock.stretched(message.since_ns, message.shift_ns)
        elif isinstance(message, RecordEnd):
            self._end = message


def say(text: str) -> None:
    """Write a line to the process's own log."""
    print(f"recorder: {text}", file=sys.stderr, flush=True)


# Limit on the processes' output in the folder `logs` of a session.
#
# A solver that prints at every step would fill the disk in minutes, and with it end the session's
# own log. The beginning and the end of a process's log are kept.

#: A log above `LARGEST` is cut down to its first `FIRST` and its newest `LAST` bytes.
LARGEST: Final = 16_000_000
FIRST: Final = 1_000_000
LAST: Final = 100_000
#: Interval between checks, s; a process that prints as fast as it can writes 10 MB in it.
PERIOD_S: Final = 0.1
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)


class CappedLogs:
    """Cuts of logs that have become too large; their writers append, and are not disturbed.

    Parameters
    ----------
    folder : Path
        Folder of the logs ``NAME.log``; it need not exist yet.

    Attributes
    ----------
    left_out : dict of str to int
        Bytes left out, by the log's name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.left_out: dict[str, int] = {}
        self._due = 0.0

    def check(self) -> None:
        """Cut files that are too large, if a check is due."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + PERIOD_S
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and entry.stat().st_size > LARGEST:
                        self._cut(entry.path, entry.name.removesuffix(".log"))

    def _cut(self, path: str, name: str) -> None:
        number = os.open(path, os.O_RDWR | os.O_APPEND | _NO_LINKS | _BINARY)
        with os.fdopen(number, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(size - LAST)
            last = file.read(LAST)
            file.truncate(FIRST)
            total = self.left_out.get(name, 0) + size - FIRST - len(last)
            self.left_out[name] = total
            file.write(f"\n--- {total:,} bytes omitted here: too many lines ---\n".encode() + last)
