"""Tables of a session file for recording, views, faults and stimuli; the tables' base class."""

from __future__ import annotations

import sys
from typing import Annotated, Final, Literal, get_args

import msgspec

#: Finite numbers only: an infinite timeout or limit would protect nothing.
FINITE = msgspec.Meta(le=sys.float_info.max)
Positive = Annotated[float, msgspec.Meta(gt=0.0), FINITE]
NonNegative = Annotated[float, msgspec.Meta(ge=0.0), FINITE]


class Table(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of the session file."""


#: Operators' actions.
Action = Literal["arm", "safe", "stop", "shadow", "mark", "acknowledge", "adjust", "answer"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)


class TriggerTable(Table):
    """``[[record.trigger]]``: a trigger of recording; give exactly one kind."""

    #: Cause of a flag (docs/reliability.md#causes); triggers while the flag is up.
    flag: str | None = None
    #: Recorded signal, such as `"engine.torque"` or `"shaft:residual_power"`; triggers while it is
    #: beyond one of the limits.
    signal: str | None = None
    #: [of the signal] Upper limit of `signal`.
    above: float | None = None
    #: [of the signal] Lower limit of `signal`.
    below: float | None = None
    #: Name of an alarm; triggers while it is active.
    alarm: str | None = None
    #: Cause of an event, such as `"mark"`, an operator's note.
    event: str | None = None


class RecordTable(Table):
    """``[record]``: contents of a session's log."""

    #: Record only around these triggers; any one suffices.
    trigger: list[TriggerTable] = []
    #: [s] Time recorded before a trigger; the recorder keeps it in memory.
    before: NonNegative = 5.0
    #: [s] Time recorded after a trigger.
    after: NonNegative = 5.0
    #: End the session with exit status 3 if steps are missing in the log for longer than `max_gap`.
    #: Default: false at pace `"asap"`, otherwise true.
    required: bool | None = None
    #: [s] Longest gap in the log, in session time, before a required recording ends the session.
    max_gap: Positive = 1.0
    #: Write `report.html` when the session has ended. Drawing takes seconds; `hilrt report` can do
    #: it later for any run.
    report: bool = True


class Adjustable(Table):
    """``[monitor.adjust]``: bounds within which a number may be changed while the session runs."""

    #: [of the number] Smallest value that is accepted.
    min: float
    #: [of the number] Largest value that is accepted.
    max: float


class MonitorTable(Table):
    """``[monitor]``: access of viewers and operators to a session (docs/monitor.md)."""

    #: ZeroMQ endpoint at which the telemetry stream is published, for example
    #: `"tcp://0.0.0.0:5570"`. `"ipc:///FOLDER/NAME"` is a Unix socket for this account alone (not
    #: on Windows). Default: none; only the page of `hilrt run --web` gets the stream.
    listen: str | None = None
    #: ZeroMQ endpoint for commands of `hilrt watch` and `hilrt monitor`. Default: none; only the
    #: page of `hilrt run --web` can send commands.
    commands: str | None = None
    #: Address and port of the web page.
    page: str = "127.0.0.1:5006"
    #: Address and port for Foxglove and Lichtblick, for example `"127.0.0.1:8765"`; default: none;
    #: docs/telemetry.md#foxglove-and-lichtblick.
    foxglove: str | None = None
    #: Outputs that the terminal view and the page show as numbers, in this order: ports, elements
    #: of vector ports, or patterns such as `"engine.*"`. The page shows no others. Default: the
    #: first outputs, those of benches before those of models.
    values: list[str] = []
    #: [Hz] Rate at which the smallest, largest and last value of every signal are published.
    rate: Annotated[float, msgspec.Meta(gt=0.0, le=20.0)] = 10.0
    #: Commands permitted with the operators' token, of `"arm"`, `"safe"`, `"stop"`, `"shadow"`,
    #: `"mark"`, `"acknowledge"`, `"adjust"`, `"answer"`; empty: every view is read-only.
    control: list[str] = []
    #: Numbers that may be changed while the session runs.
    adjust: dict[str, Adjustable] = {}


#: Faults of values, simulated by the master.
ValueKind = Literal[
    "constant",
    "stuck",
    "offset",
    "gain",
    "noise",
    "drift",
    "quantise",
    "delay",
    "jitter",
    "loss",
    "duplicate",
]
#: Faults of the frames of an emulated bench.
MessageKind = Literal[
    "silent",
    "damage",
    "frozen_counter",
    "counter_jump",
    "wrong_counter",
    "wrong_checksum",
    "wrong_length",
    "wrong_identifier",
]
#: Faults of an emulated bench as a whole.
BenchKind = Literal["bus_off", "dead", "die"]
FaultKind = Literal[ValueKind, MessageKind, BenchKind]


class FaultTable(Table):
    """``[[faults]]``: a fault to inject, once; docs/faults.md.

    Without a `start` and a condition it waits for an operator or a test sequence.
    """

    #: Name in events, in the log, in `allow_faults` and in `--set faults.NAME.key`.
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    #: How the fault acts: docs/faults.md explains each kind.
    kind: FaultKind
    #: Place: `"subsystem.output"`, or one element of a vector port, `"subsystem.output[0]"`. Every
    #: fault has exactly one place: give one of the keys `output`, `input`, `connection`, `peer` and
    #: `message`.
    output: str | None = None
    #: Place: `"subsystem.input"`, or one element.
    input: str | None = None
    #: Place: `"subsystem.output -> subsystem.input"`.
    connection: str | None = None
    #: Place: a subsystem, whose outputs arrive in one message; or an emulated bench.
    peer: str | None = None
    #: Place: `"subsystem.Message"` that an emulated bench sends, or `"subsystem.Message.Signal"`.
    message: str | None = None
    #: [of the place; of its input for a connection] Size of the change, such as the offset, the
    #: factor, or the share of samples that are lost (docs/faults.md). For faults that alter frames
    #: of a message: the share of frames; default: all. Not for kinds without a size.
    value: float | None = None
    #: Seed of random values; each further element of a vector port uses the next number.
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    #: [s] Session time at which it begins; with `start_when`, the earliest time at which it may
    #: begin. Without `start` and `start_when`, only an operator or a test sequence begins it.
    start: NonNegative | None = None
    #: [s] Session time at which it ends at the latest.
    end: Positive | None = None
    #: Condition (docs/expressions.md): the fault begins one tick after this first becomes true.
    start_when: str | None = None
    #: Condition: the fault ends one tick after this is true.
    end_when: str | None = None

    @property
    def place(self) -> str:
        """Place of the fault, as text."""
        given = self.output or self.input or self.connection or self.peer or self.message
        return given or "nowhere"

    @property
    def emulated(self) -> str:
        """Bench whose emulator simulates it; empty for a fault that the master simulates."""
        if self.message is not None:
            return self.message.partition(".")[0]
        return self.peer or "" if self.kind in get_args(BenchKind) else ""


Shape = Literal["hold", "step", "ramp", "sine", "chirp", "prbs", "noise", "points", "column"]
MIN_BITS, MAX_BITS = 2, 16


class StimulusSegment(Table):
    """``[[stimuli.segments]]``: one piece of a stimulus.

    An omitted value is the final value of the previous segment; in the first segment it is 0
    (`mode` "add"), or the input's present value ("replace").
    """

    #: Kind of the segment.
    shape: Shape
    #: [s] Length of the segment. Default: the length of its points or column, one period of a PRBS,
    #: otherwise (last segment only) until the end of the session.
    duration: Positive | None = None
    #: [of the stimulus] Value of a hold.
    value: float | None = None
    #: [of the stimulus] Final value of a step or a ramp.
    to: float | None = None
    #: [of the stimulus] Initial value of a ramp.
    start: float | None = msgspec.field(default=None, name="from")
    #: [of the stimulus, per s] Slope of a ramp.
    rate: Positive | None = None
    #: [of the stimulus] Amplitude of a sine, a chirp or a PRBS, about `offset`; for noise the
    #: standard deviation, or the bound of a uniform distribution.
    amplitude: NonNegative | None = None
    #: [of the stimulus] Mean of a sine, a chirp, a PRBS or noise.
    offset: float | None = None
    #: [Hz] Frequency of a sine; initial frequency of a chirp.
    frequency: Positive | None = None
    #: [Hz] Final frequency of a chirp.
    to_frequency: Positive | None = None
    #: Change of the frequency of a chirp.
    sweep: Literal["linear", "logarithmic"] = "linear"
    #: [°] Initial phase of a sine or chirp.
    phase: float = 0.0
    #: [s] How long each value of a PRBS or of noise is held; default for noise: one tick.
    interval: Positive | None = None
    #: Length of the register of a PRBS; its period is 2^bits − 1 values.
    bits: Annotated[int, msgspec.Meta(ge=MIN_BITS, le=MAX_BITS)] | None = None
    #: Seed of noise; starting point of a PRBS in its sequence.
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    #: Distribution of noise.
    distribution: Literal["normal", "uniform"] = "normal"
    #: [s, of the stimulus] `[[t, value], …]`, with times from the beginning of the segment.
    points: list[list[float]] = []
    #: Between points, or rows of a column: straight lines (`"linear"`), or the last value
    #: (`"hold"`).
    interpolation: Literal["linear", "hold"] = "linear"
    #: File of a column: CSV, MF4, MCAP or Parquet, relative to the session file's folder.
    file: str | None = None
    #: Signal in `file`.
    signal: str | None = None
    #: Column with the time, in a CSV or Parquet file.
    time: str | None = None
    #: Unit of the column; default: the one in the file, otherwise that of the stimulus.
    unit: str | None = None
    #: Factor on the column's values.
    scale: float = 1.0
    #: [s] Time added to the column's times; rows that are then before 0 are skipped.
    shift: float = 0.0


class Stimulus(Table):
    """``[[stimuli]]``: segments that are added to an input, or replace it."""

    #: Name in events, in the log and in `--set stimuli.NAME.key`.
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    #: `"subsystem.input"`, of a vector port one element; or `"parameters.subsystem.name"`
    #: (docs/stimuli.md#parameters).
    input: str
    #: Its segments, in sequence.
    segments: Annotated[list[StimulusSegment], msgspec.Meta(min_length=1)]
    #: `"add"`: it is added to the connections, or to the start value if there are none.
    #: `"replace"`: it replaces them while it is active.
    mode: Literal["add", "replace"] = "add"
    #: Unit of all values; default: the input's. With `mode = "add"` values are differences: 1 °C is
    #: then 1 K.
    unit: str | None = None
    #: [s] Session time of its first segment.
    start: NonNegative = 0.0
    #: [s] Session time at which it ends at the latest.
    end: Positive | None = None
    #: Condition (docs/expressions.md): the stimulus begins at the first tick from `start` on at
    #: which this is true.
    start_when: str | None = None
    #: Condition: after it has begun, the stimulus ends at the first tick at which this is true.
    end_when: str | None = None
    #: Number of repetitions of its segments.
    repeat: Annotated[int, msgspec.Meta(ge=1)] | Literal["forever"] = 1
    #: After the last segment: release the input (`"release"`), or keep the last value (`"hold"`).
    then: Literal["release", "hold"] = "release"

    @property
    def of_parameter(self) -> bool:
        """Whether it acts on a parameter, not on an input."""
        return self.input.startswith("parameters.")
