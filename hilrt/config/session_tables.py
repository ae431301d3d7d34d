"""Tables of a session file beside the coupling: recording, views, stimuli; their base class."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import msgspec

#: An infinite timeout or limit would be a protection that never acts.
FINITE = msgspec.Meta(le=sys.float_info.max)
Positive = Annotated[float, msgspec.Meta(gt=0.0), FINITE]
NonNegative = Annotated[float, msgspec.Meta(ge=0.0), FINITE]


class Table(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of the session file."""


class TriggerTable(Table):
    """``[[record.trigger]]``: something around which the session is recorded; one of the four."""

    #: Flag of the reliability; triggers as long as it is up.
    flag: str | None = None
    #: Recorded signal; triggers as long as it is beyond `above` or `below`.
    signal: str | None = None
    above: float | None = None
    below: float | None = None
    #: Name of an alarm; triggers as long as it is active.
    alarm: str | None = None
    #: Cause of an event, such as "mark".
    event: str | None = None


class RecordTable(Table):
    """``[record]``: what of a session goes into its log."""

    #: Record only around these; empty: everything.
    trigger: list[TriggerTable] = []
    #: Time before and after a trigger that is recorded, s.
    before: NonNegative = 5.0
    after: NonNegative = 5.0
    #: End the session when rows are lost for longer than `max_gap`; default: in real time.
    required: bool | None = None
    #: Longest time without a row that is not the end of a session whose recording is required, s.
    max_gap: Positive = 1.0
    #: Write report.html when the session has ended; `hilrt report` makes it later, too.
    report: bool = True


class Adjustable(Table):
    """``[monitor.adjust]``: bounds within which a number may be changed while the session runs."""

    min: float
    max: float


class MonitorTable(Table):
    """``[monitor]``: access of watchers and operators to a session (docs/monitor.md)."""

    #: Where the telemetry stream is published for others; left out: for this machine's page only.
    listen: str | None = None
    #: Where operators' commands are taken from others; left out: from this machine's page only.
    commands: str | None = None
    #: Address and port of the web page.
    page: str = "127.0.0.1:5006"
    #: Where Foxglove and Lichtblick may connect; left out: nowhere.
    foxglove: str | None = None
    #: Outputs that views show, in their order; left out: the first ones, those of benches first.
    values: list[str] = []
    #: Messages per second of the decimated signals.
    rate: Annotated[float, msgspec.Meta(gt=0.0, le=20.0)] = 10.0
    #: What a token opens; empty: nothing, all views are read-only.
    control: list[str] = []
    #: What ``adjust`` may set: ``bonds.NAME.cap``, ``bonds.NAME.cap_abs``, ``bonds.NAME.share``,
    #: ``reliability.KEY``.
    adjust: dict[str, Adjustable] = {}


FaultKind = Literal["constant", "stuck", "offset", "gain", "noise", "drift", "quantise"]


class FaultTable(Table):
    """``[[faults]]``: a disturbance that is asked for; docs/faults.md. It begins once.

    Without a `start` and a condition it waits for an operator.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    kind: FaultKind
    #: Where, one of the three: ``subsystem.port``, all elements or ``subsystem.port[0]``; a
    #: connection as ``"subsystem.output -> subsystem.input"``.
    output: str | None = None
    input: str | None = None
    connection: str | None = None
    #: In the unit of its place, a connection's being that of its input: "constant": the value.
    #: "offset": what is added. "gain": a factor. "noise": standard deviation of a value per step.
    #: "drift": per s. "quantise": the step. "stuck" has none.
    value: float | None = None
    #: Of "noise"; a further element of a port has the next one.
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    #: Session time from which on it may begin, and at which it ends in any case, s.
    start: NonNegative | None = None
    end: Positive | None = None
    #: Conditions by the samples of the step before: it begins when the first is true, and ends when
    #: the second is.
    start_when: str | None = None
    end_when: str | None = None

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return self.output or self.input or self.connection or "nowhere"


Shape = Literal["hold", "step", "ramp", "sine", "chirp", "prbs", "noise", "points", "column"]
MIN_BITS, MAX_BITS = 2, 16


class StimulusSegment(Table):
    """``[[stimuli.segments]]``: one piece of a stimulus.

    A value that is left out is the one that the segment before ended at; of the first segment it is
    0 (`mode` "add"), or the value that the input has ("replace").
    """

    shape: Shape
    #: How long it lasts [s]; left out, a "hold" or "step" lasts to the end of the session, and what
    #: has a length of its own (points, columns, one period of a "prbs") lasts as long as that.
    duration: Positive | None = None
    #: "hold": its value. "step", "ramp": where it goes to; a ramp takes `duration`, or goes there
    #: at `rate` [unit/s].
    value: float | None = None
    to: float | None = None
    start: float | None = msgspec.field(default=None, name="from")
    rate: Positive | None = None
    #: Of "sine", "chirp", "prbs" (either side of `offset`) and "noise" ("uniform": its bound,
    #: "normal": its standard deviation).
    amplitude: NonNegative | None = None
    offset: float | None = None
    #: Hz; a chirp goes from `frequency` to `to_frequency`.
    frequency: Positive | None = None
    to_frequency: Positive | None = None
    sweep: Literal["linear", "logarithmic"] = "linear"
    #: Of a sine at its beginning, degrees.
    phase: float = 0.0
    #: How long a value of "prbs" or "noise" stays [s]; noise without it has one for every tick.
    interval: Positive | None = None
    #: Length of the register that makes a "prbs": its period is ``2^bits - 1`` values.
    bits: Annotated[int, msgspec.Meta(ge=MIN_BITS, le=MAX_BITS)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    distribution: Literal["normal", "uniform"] = "normal"
    #: ``[[t, value], …]`` with times [s] since the segment's beginning, ascending.
    points: list[list[float]] = []
    #: Between points, or rows of a column: straight lines, or the last value.
    interpolation: Literal["linear", "hold"] = "linear"
    #: "column": file (CSV, MF4, MCAP, Parquet), its signal, and the column that holds the times.
    file: str | None = None
    signal: str | None = None
    time: str | None = None
    #: Unit of the column where the file states none, or another one.
    unit: str | None = None
    #: Factor of the column's values, in its unit, and what is added to its times [s].
    scale: float = 1.0
    shift: float = 0.0


class Stimulus(Table):
    """``[[stimuli]]``: adds to an input what its segments say, or drives the input with it."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    #: ``subsystem.input``.
    input: str
    segments: Annotated[list[StimulusSegment], msgspec.Meta(min_length=1)]
    #: "replace": in the place of the input's connections while it is active.
    mode: Literal["add", "replace"] = "add"
    #: Unit of its values; left out: the input's.
    unit: str | None = None
    #: Session time from which on it may start, and at which it ends in any case, s.
    start: NonNegative = 0.0
    end: Positive | None = None
    #: Conditions: from `start` on it waits until the first is true; while the second is true, it
    #: ends.
    start_when: str | None = None
    end_when: str | None = None
    #: How often its segments are gone through.
    repeat: Annotated[int, msgspec.Meta(ge=1)] | Literal["forever"] = 1
    #: After its last segment: give the input back, or go on with its last value.
    then: Literal["release", "hold"] = "release"
