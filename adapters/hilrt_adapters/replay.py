"""A recorded log as a subsystem: outputs with the recorded timing, no inputs."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
import numpy as np

from hilrt.can.database import (
    SignalRef,
    check_distinct,
    database_file,
    find_signal,
    load_database,
    measured_port,
)
from hilrt.config.session_tables import NonNegative
from hilrt.config.structs import SubsystemOptions
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.link import Description, Link
from hilrt.record.messages import Signal
from hilrt.solver import Floats, Port, Ports, Sample
from hilrt_adapters.recorded_frames import check_frames, read_recording
from hilrt_adapters.recorded_tracks import RecordedTracks, Track, find_signals, read_signals


class ReplayOptions(SubsystemOptions, kw_only=True):
    """``[subsystems.NAME]`` with ``adapter = "replay"``."""

    #: Log of a session (`.mcap`), `.mf4`, `.csv` or `.parquet`; or a CAN log: `.log` (candump),
    #: `.asc`, `.blf`, `.trc`, python-can's `.csv` or `.db`.
    log: str
    #: CAN database (DBC, ARXML, KCD, SYM) with which the outputs are decoded from the log's frames.
    database: str | None = None
    #: With a database: bus of the log whose frames are read. Default: the bus that has the
    #: messages, if there is only one.
    bus: str | None = None
    #: `port = "signal of the log"`, with a database `port = "Message.Signal"`; at least one.
    outputs: dict[str, str] = msgspec.field(default_factory=dict)
    #: [s] Time in the log that becomes session time 0, counted from its first frame or row.
    start: NonNegative = 0.0
    #: At the log's end: hold the last values (`"hold"`), end the session normally (`"stop"`), or
    #: restart at `start` (`"loop"`).
    end: Literal["hold", "stop", "loop"] = "hold"
    #: Between two samples: the older one, with its time (`"hold"`), or a straight line
    #: (`"linear"`).
    interpolation: Literal["hold", "linear"] = "hold"


class ReplayLink(Link):
    """Values of a recording at the requested times.

    With ``interpolation = "hold"`` a sample arrives at the first communication point at or after
    its recorded time, with that time of validity; connect it with ``order = 0`` to pass it on as
    recorded. Before a signal's first sample its first value is held.
    """

    Options: ClassVar[type[SubsystemOptions]] = ReplayOptions
    options: ReplayOptions

    def __init__(self, name: str, options: SubsystemOptions, folder: Path) -> None:
        super().__init__(name, options, folder)
        self._tracks: list[Track] = []
        self._end = math.inf
        self._pending: tuple[float, float] | None = None  # start and end of the step
        self.recording: RecordedTracks | None = None
        if self.options.database:  # the log itself may be large and is not copied
            self.files = [database_file(_locate(folder, self.options.database))[0]]

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe a recording from its table, the database and the beginning of the log."""
        assert isinstance(options, ReplayOptions)
        problems: list[str] = []
        signals = _find_outputs(name, options, folder, problems)
        if options.database:
            problems += check_frames(_locate(folder, options.log), f"[subsystems.{name}] log")
        unclear = frozenset(output for output, ref in signals.items() if ref is None)
        return Description(ports=_ports(signals), unclear=unclear, problems=problems)

    async def open(self) -> None:
        """Read and decode the whole log; no file is accessed afterwards."""
        options, table = self.options, f"[subsystems.{self.name}]"
        problems: list[str] = []
        outputs = _find_outputs(self.name, options, self.folder, problems)
        if problems:
            raise ConfigError(problems)
        log, label = _locate(self.folder, options.log), f"{table} log"
        refs = {name: ref for name, ref in outputs.items() if isinstance(ref, SignalRef)}
        if options.database:
            recording = await asyncio.to_thread(read_recording, log, refs, label, options.bus)
        else:
            recording = await asyncio.to_thread(read_signals, log, options.outputs, label)
        if options.start >= recording.duration:
            raise ConfigError(
                f"{table} start = {options.start:g}: the log ends after "
                f"{recording.duration:g} s; start earlier"
            )
        self.recording = recording
        self.inputs, self.outputs = _ports(outputs)
        self.dropped = recording.failures
        self._tracks = [recording.tracks[name] for name in outputs]
        self._end = recording.duration
        if options.end == "stop":
            self.ends = self._end - options.start

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        """Values at `t0` [s], with the quality of reading the log."""
        sample = self._sample(t0)
        if self.recording is not None:
            sample.info = {
                "frames": self.recording.frames,
                "truncated": self.recording.truncated,
                "decode_errors": self.recording.failures,
            }
        return sample

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """Advance to ``t + h`` [s]."""
        self._pending = (t, t + h)

    def receive(self) -> None:
        """Put one sample per dispatch into the inbox."""
        if self._pending is not None:
            t, t_end = self._pending
            self._pending = None
            self.inbox.put(self._sample(t_end), t)

    def _sample(self, t: float) -> Sample:
        """Values valid at session time `t` [s]."""
        start = self.options.start
        since = 0.0  # session time at which this pass through the log began, s
        if self.options.end == "loop":
            length = self._end - start
            since = length * math.floor(t / length)
        at = t - since + start
        if self.options.interpolation == "linear":
            return Sample(np.array([np.interp(at, x.times, x.values) for x in self._tracks]))
        y = np.empty(len(self._tracks))
        t_valid = np.full(len(self._tracks), t)
        for i, track in enumerate(self._tracks):
            k = int(track.times.searchsorted(at, side="right")) - 1
            y[i] = track.values[max(k, 0)]
            if k >= 0:  # a sample is not older than the beginning of this pass
                stamp = float(track.times[k]) - start
                t_valid[i] = since + (max(stamp, 0.0) if since > 0.0 else stamp)
        return Sample(y, t_valid=t_valid)


#: Output names and signals; None for missing ones.
Found = dict[str, SignalRef | Signal | None]


def _find_outputs(name: str, options: ReplayOptions, folder: Path, problems: list[str]) -> Found:
    """Output names and signals; every problem found is added to `problems`."""
    table = f"[subsystems.{name}]"
    if options.inputs:
        problems.append(f"{table} inputs: a recording has no inputs; remove them")
    if not options.outputs:
        what = "Message.Signal" if options.database else "signal of the log"
        problems.append(f'{table} outputs: is empty; add NAME = "{what}"')
    if options.bus is not None and not options.database:
        problems.append(
            f"{table} bus = {options.bus!r}: is only for frames; add a database, or remove it"
        )
    signals: Found = dict.fromkeys(options.outputs)
    try:
        if options.database:
            _decode(signals, table, options, folder, problems)
        else:
            log = _locate(folder, options.log)
            signals |= find_signals(log, options.outputs, f"{table} log", table, problems)
    except ConfigError as error:
        problems += error.problems
    return signals


def _decode(
    signals: Found, table: str, options: ReplayOptions, folder: Path, problems: list[str]
) -> None:
    """Signals of the database."""
    database = load_database(_locate(folder, options.database or ""), f"{table} database")
    for output, ref in options.outputs.items():
        try:
            signals[output] = find_signal(database, ref, f"{table} outputs.{output}")
        except ConfigError as error:
            problems += error.problems
    refs = [ref for ref in signals.values() if isinstance(ref, SignalRef)]
    problems += check_distinct(refs, f"{table} database", "correct the database")


def _ports(signals: Found) -> Ports:
    ports = []
    for output, ref in signals.items():
        if ref is None:
            ports.append(Port(output, UNSTATED))
        elif isinstance(ref, SignalRef):
            ports.append(measured_port(output, ref))
        else:
            ports.append(Port(output, ref.unit or UNSTATED, description=ref.comment))
    return Ports((), tuple(ports))


def _locate(folder: Path, name: str) -> Path:
    """Path relative to the session file or, as typed after ``--set``, to the current folder."""
    path = folder / name
    there = database_file(Path(name))[0].exists() and not database_file(path)[0].exists()
    return Path(name).resolve() if there else path
