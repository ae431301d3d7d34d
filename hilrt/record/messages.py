"""Messages from the master to the recorder: beginning, rows, events, end. No I/O.

Rows are sent as raw frames, see `ROWS`; all other messages are one msgpack frame.
"""

from __future__ import annotations

import struct
from typing import Literal

import msgspec

from hilrt.files.formats import decode_by, parse_json

#: First frame of a batch of rows. It is followed by `BATCH` (index of the first row since `Begin`),
#: the rows' session times (int64, ns) and the rows themselves (float64, row-major).
ROWS = b"rows"
BATCH = struct.Struct("<q")

#: First frame of other data than rows. It is followed by the topic, `ASIDE` (number of the row
#: that the data precede, session time [ns]) and the data, msgpack.
BESIDE = b"beside"
ASIDE = struct.Struct("<qq")
#: Data that a replay needs: the state once a second, and changes at the step of a row: Jacobians,
#: numbers that an operator adjusted (name and value), and sensitivities (whether and by how much
#: they changed, earliest time of the change [s], and their factors).
SNAPSHOTS = "/snapshots"
JACOBIANS = "/jacobians"
ADJUSTMENTS = "/adjustments"
SENSITIVITIES = "/sensitivities"
ASIDES = (SNAPSHOTS, JACOBIANS, ADJUSTMENTS, SENSITIVITIES)

#: Name of the log in a run's folder, and the topic of its events.
FILE_NAME = "session.mcap"
#: Attachment with the recorder's statistics of a long log's rows; valid only for the whole log.
REPORT_STATISTICS = "digest.msgpack"
EVENTS = "/events"
#: Causes of the events by which a test sequence reports a measurement and an expectation.
MEASURE, EXPECT = "measure", "expect"

#: Levels of events, as in a viewer's log panel, which shows them.
LEVELS = {"debug": 1, "info": 2, "warning": 3, "error": 4, "fatal": 5}
Level = Literal["debug", "info", "warning", "error", "fatal"]


class Signal(msgspec.Struct, frozen=True):
    """One recorded number per tick.

    Parameters
    ----------
    name : str
        ``subsystem.port``, ``subsystem.port:corrected``, ``bond:residual_power``, …; unique.
    unit : str
        Unit of the values; empty for dimensionless.
    source : str
        Origin (a DBC signal, an FMU variable), as text.
    comment : str
        Description, as text.
    """

    name: str
    unit: str = ""
    source: str = ""
    comment: str = ""


def signals_in(text: str) -> list[Signal]:
    """Signals listed in a channel's metadata; `ValueError` if the text is not such a list."""
    try:
        rows: list[tuple[str, ...]] = msgspec.convert(parse_json(text), list[tuple[str, ...]])
        return [Signal(*row) for row in rows]
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"an invalid list of signals: {error}") from None


class Topic(msgspec.Struct, frozen=True):
    """Signals recorded together, as one message per tick."""

    name: str
    signals: list[Signal]


class Attachment(msgspec.Struct, frozen=True):
    """File kept inside the log."""

    name: str
    media_type: str
    data: bytes


class Limit(msgspec.Struct, frozen=True):
    """Monitored signal, which triggers above `above` or below `below`, in its unit."""

    signal: str
    above: float | None = None
    below: float | None = None


class Trigger(msgspec.Struct, frozen=True):
    """Triggers, with the span recorded: from `before_ns` before to `after_ns` after each.

    Parameters
    ----------
    limits : list of Limit
    alarms : list of str
        Names of alarms; they trigger as long as they are active.
    causes : list of str
        Causes of events.
    """

    before_ns: int
    after_ns: int
    limits: list[Limit] = []
    alarms: list[str] = []
    causes: list[str] = []


class Begin(msgspec.Struct, tag="begin"):
    """Start a log. `epoch_ns` is the wall clock (ns since 1970, UTC) at session time 0.

    `clock_ns` is the monotonic clock at that time; `buses` are those whose frames gateways send;
    `trigger` selects the rows and frames to record; None: all.
    """

    out_dir: str
    session: str
    epoch_ns: int
    topics: list[Topic]
    attachments: list[Attachment]
    metadata: dict[str, str]
    clock_ns: int = 0
    buses: list[str] = []
    trigger: Trigger | None = None


class RecordEvent(msgspec.Struct, tag="event"):
    """Event as text; `t_ns` is session time, ns.

    `value`: severity among events of one kind, larger is worse; `text` gives it with its unit.
    """

    t_ns: int
    level: Level
    cause: str
    source: str
    text: str
    value: float | None = None


class Stretched(msgspec.Struct, tag="stretched"):
    """Shift of the grid by `shift_ns` at `since_ns` on the monotonic clock."""

    since_ns: int
    shift_ns: int


class RecordEnd(msgspec.Struct, tag="end"):
    """Close the log. `rows` and `events` are the session's totals, recorded or not."""

    summary: bytes
    rows: int
    events: int


_decoder = msgspec.msgpack.Decoder(Begin | RecordEvent | Stretched | RecordEnd)


def encode(message: Begin | RecordEvent | Stretched | RecordEnd) -> bytes:
    """One frame."""
    return msgspec.msgpack.encode(message)


def decode(frame: bytes) -> Begin | RecordEvent | Stretched | RecordEnd:
    """Message in a frame; `msgspec.DecodeError` or `ValidationError` for anything else."""
    message: Begin | RecordEvent | Stretched | RecordEnd = decode_by(_decoder, frame)
    return message
