"""Play a log's CAN frames onto a bus, at their recorded times.

Every frame is due at the start plus its recorded time since the first frame, computed in whole
nanoseconds: errors do not accumulate, and a late frame does not delay the next one. All frames are
held in memory (some 70 bytes each), so that reading the file does not disturb the timing.
"""

from __future__ import annotations

import array
import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.errors import ConfigError
from hilrt.logs.open_source import open_source
from hilrt.logs.source import span_ns
from hilrt.record import logged_frame
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.timing.clock import Clock

#: Time from the call until the first frame is due, ns.
LEAD_NS = 20_000_000
#: Longest time for the interface to accept a frame, s.
SEND_TIMEOUT = 0.01
_QUANTILES = {"p50": 50.0, "p99": 99.0, "p999": 99.9}


@dataclass
class Tape:
    """Packed frames in order of time.

    Attributes
    ----------
    times_ns : array of int64
        Times since the first frame of the log, ns.
    left_out : int
        Chosen frames that cannot be sent: error frames, and those whose data were not recorded.
    notes : list of str
        Notes on the log for the user.
    """

    times_ns: array.array[int]
    packed: list[bytes]
    buses: list[str]
    left_out: int = 0
    notes: list[str] = field(default_factory=list)

    def frame(self, index: int) -> LoggedFrame:
        """Frame of an index; its time counts from the first frame of the log."""
        return logged_frame.decode(self.times_ns[index], self.buses[index], self.packed[index])

    @property
    def duration_s(self) -> float:
        """Time from the first frame to the last, s."""
        return (self.times_ns[-1] - self.times_ns[0]) / 1e9 if self.times_ns else 0.0


@dataclass
class Played:
    """Result of a playback: frames sent, and the accuracy of their times.

    Attributes
    ----------
    sent, refused : int
        Number of frames sent, and of frames not accepted within the timeout.
    error_us : ndarray, shape (n,)
        Time at which each frame was sent, minus the time at which it was due, µs.
    due_s, took_s : float
        Time from the first frame to the last, as recorded (over the speed), and on the clock, s.
    warnings : tuple of str
        Requested settings that did not take effect.
    """

    sent: int
    refused: int
    error_us: np.ndarray[tuple[int], np.dtype[np.float64]]
    due_s: float
    took_s: float
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Result as plain types for JSON."""
        errors = self.error_us if len(self.error_us) else np.zeros(1)
        spread = {key: float(np.percentile(errors, q)) for key, q in _QUANTILES.items()}
        return {
            "sent": self.sent,
            "refused": self.refused,
            "due_s": self.due_s,
            "took_s": self.took_s,
            "error_us": {**spread, "max": float(errors.max()), "min": float(errors.min())},
            "within_1_ms": float(np.mean(np.abs(errors) <= 1e3)),
            "warnings": list(self.warnings),
        }


def load_tape(
    path: Path,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    identifiers: Collection[int] = (),
    bus: str | None = None,
) -> Tape:
    """Read the frames to play.

    Parameters
    ----------
    path : Path
        A log of hilrt, or an MF4, BLF, ASC, TRC or candump log.
    start_s, end_s : float, optional
        Only this time span, s since the first frame.
    identifiers : collection of int
        Only these identifiers; default: all.
    bus : str, optional
        Only this bus of the log.

    Raises
    ------
    ConfigError
        If the file cannot be read, or has no frames to play.
    """
    low, high = span_ns(start_s, end_s)
    found: list[tuple[int, bytes, str]] = []
    buses: dict[str, str] = {}
    first, left_out = None, 0
    source = open_source(path)
    try:
        for frame in source.frames():
            first = frame.time_ns if first is None else first
            at = frame.time_ns - first
            name = buses.setdefault(frame.bus, frame.bus)  # all frames share one string
            wanted = (not identifiers or frame.identifier in identifiers) and bus in (None, name)
            if not wanted or not low <= at <= high:
                continue
            if frame.flags & FrameFlag.ERROR or not frame.whole:
                left_out += 1
            else:
                found.append((at, logged_frame.encode(frame), name))
    finally:
        source.close()
    if not found:
        what = f"; its buses are {', '.join(buses)}" if buses else ""
        raise ConfigError(f"{path}: has no CAN frames to play{what}")
    found.sort(key=lambda item: item[0])  # stable: frames of equal time keep their order
    times = array.array("q", (at for at, _, _ in found))
    packed, names = [data for _, data, _ in found], [name for _, _, name in found]
    return Tape(times, packed, names, left_out, list(source.notes))


async def play(
    tape: Tape,
    send: Callable[[LoggedFrame], bool],
    clock: Clock,
    *,
    speed: float = 1.0,
    passes: int = 1,
    stopping: Callable[[], bool] = lambda: False,
) -> Played:
    """Send every frame at its time.

    Parameters
    ----------
    tape : Tape
    send : callable
        Sends a frame; returns False if it was not accepted.
    clock : Clock
    speed : float
        Recorded seconds per second on the clock.
    passes : int
        Number of times the tape is played; a pass begins one mean frame interval after the end of
        the previous one.
    stopping : callable
        Called before every frame; playback ends when it returns True.
    """
    numerator, denominator = speed.as_integer_ratio()
    times, count = tape.times_ns, len(tape.times_ns)
    begin = times[0]
    pause = (times[-1] - begin) // max(count - 1, 1)
    epoch = clock.now_ns() + LEAD_NS
    errors = array.array("q")
    sent = refused = 0
    due = first_at = last_at = epoch
    for number, index in itertools.product(range(passes), range(count)):
        since = times[index] - begin + number * (times[-1] - begin + pause)
        due = epoch + since * denominator // numerator
        frame = tape.frame(index)
        await clock.sleep_until(due)
        if stopping():
            break
        left = send(frame)
        last_at = clock.now_ns()
        if not errors:
            first_at = last_at
        errors.append(last_at - due)
        sent += left
        refused += not left
    error_us = np.array(errors, np.float64) / 1e3
    return Played(sent, refused, error_us, (due - epoch) / 1e9, (last_at - first_at) / 1e9)


# -- onto a bus ----------------------------------------------------------------------------------


def bus_sender(arguments: Mapping[str, Any]) -> tuple[Any, Callable[[LoggedFrame], bool]]:
    """Open a bus of python-can; return it with a function that sends a frame on it.

    Raises
    ------
    ConfigError
        If the bus cannot be opened, with the reason and a remedy.
    """
    try:
        from hilrt.can import can
        from hilrt.can.bus import open_library_bus
        from hilrt.logs.source_can import to_message
    except ImportError as error:
        raise ConfigError(f"--bus: needs {error.name}; install hilrt[can]") from None
    bus = open_library_bus(arguments, "--bus")

    def send(frame: LoggedFrame) -> bool:
        if frame.flags & FrameFlag.ERROR:
            return False  # only a controller can send these; as data they would be a message
        message = to_message(frame._replace(bus=""))
        try:
            bus.send(message, timeout=SEND_TIMEOUT)
        except (can.CanError, OSError, ValueError):
            return False
        return True

    return bus, send


def play_on_bus(
    tape: Tape,
    arguments: Mapping[str, Any],
    *,
    speed: float = 1.0,
    passes: int = 1,
    priority: int = 0,
) -> Played:
    """Play a tape on the wall clock; Ctrl-C ends it early, with a report of the part sent.

    A `priority` (1 to 99) selects ``SCHED_FIFO``, for a host that also runs other programs.
    """
    import asyncio
    import signal

    from hilrt.timing.clock import MIN_SPIN_NS, WallClock, measure_spin_ns
    from hilrt.timing.host import freeze_gc
    from hilrt.timing.realtime import leave_real_time, set_priority

    bus, send = bus_sender(arguments)
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    async def run() -> Played:
        # No busy-waiting under SCHED_FIFO: with frames close together it would never pause, and the
        # kernel would throttle the process. Nor is it needed, because the timer is punctual there.
        clock = WallClock(MIN_SPIN_NS if prompt else await measure_spin_ns())
        try:
            with freeze_gc():
                return await play(
                    tape, send, clock, speed=speed, passes=passes, stopping=lambda: stopped
                )
        finally:
            clock.close()

    refusal = set_priority(priority)
    prompt = priority > 0 and refusal is None
    before = signal.signal(signal.SIGINT, stop)
    try:
        played = asyncio.run(run())
        return replace(played, warnings=(refusal,) if refusal else ())
    finally:
        leave_real_time()
        signal.signal(signal.SIGINT, before)
        bus.shutdown()


def describe(played: Played) -> list[str]:
    """Summary of a playback, as lines of text."""
    found = played.as_json()
    error = found["error_us"]
    off = played.took_s - played.due_s
    return [
        f"{played.sent:,} frames sent, {played.refused:,} refused by the bus",
        f"duration {played.took_s:.6f} s of {played.due_s:.6f} s ({off * 1e3:+.3f} ms)",
        f"timing error: median {error['p50']:.0f} µs, p99 {error['p99']:.0f} µs, "
        f"p99.9 {error['p999']:.0f} µs, largest {error['max']:.0f} µs; "
        f"{found['within_1_ms']:.2%} within 1 ms",
        *played.warnings,
    ]
