"""The wire protocol: messages, encode, decode. No I/O; see docs/protocol.md.

A message is one msgpack map whose key ``type`` names it. Arrays are sent as raw little-endian
float64 (msgpack ``bin``), row-major; their shape follows from the ports announced in `Hello`.
Times are seconds of session time (float64), clock readings integer nanoseconds of the sender's
monotonic clock.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np

from hilrt.errors import ProtocolError
from hilrt.solver import Floats

PROTOCOL_VERSION = 1
#: Larger messages are dropped unread; regular messages are much smaller.
MAX_MESSAGE_BYTES = 1 << 20

M = TypeVar("M")
Role = Literal["solver", "gateway"]
#: Time between two messages, s.
Interval = Annotated[float, msgspec.Meta(gt=0.0, le=3600.0)]


class Message(
    msgspec.Struct,
    tag_field="type",
    tag=lambda name: "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_"),
    kw_only=True,
    omit_defaults=True,
    gc=False,
):
    """Base of every message; its ``type`` on the wire is the class name in snake case."""


class PortInfo(msgspec.Struct, omit_defaults=True):
    """A port as announced by a peer; infinite bounds are left out."""

    name: str
    unit: str = ""
    start: float = 0.0
    min: float | None = None
    max: float | None = None
    max_rate: float | None = None
    max_jerk: float | None = None
    safe: float | None = None
    feedthrough: list[str] = []
    size: int = 1
    description: str = ""


class ParameterInfo(msgspec.Struct, omit_defaults=True):
    """A parameter as announced by a solver; infinite bounds are left out."""

    name: str
    unit: str = ""
    default: float = 0.0
    min: float | None = None
    max: float | None = None
    description: str = ""


class Hello(Message):
    """Peer → master, first message: description of the peer and its capabilities."""

    version: int
    role: Role
    name: str
    inputs: list[PortInfo]
    outputs: list[PortInfo]
    capabilities: list[str] = []
    software: str = ""
    pid: int = 0
    parameters: list[ParameterInfo] = []


class Welcome(Message):
    """Master → peer: accepted; send a heartbeat at least every `heartbeat_s`."""

    session: str
    heartbeat_s: Interval


class Reject(Message):
    """Master → peer: not accepted, with the reason; the peer ends."""

    reason: str


class Initialize(Message):
    """Master → peer: inputs `u0` at session time `t0`."""

    t0: float
    u0: bytes


class Initialized(Message):
    """Peer → master: outputs at `t0`."""

    y: bytes
    t_valid_ns: list[int] | None = None


class Probe(Message):
    """Master → solver, between steps: interface Jacobians for a macro step `h`.

    `source` is ``solver`` (provided by the solver) or ``probe`` (probed about the inputs `u` from
    the present state, which is restored). With a `direction`, shape (order + 1, n_inputs), in the
    normalised power basis, only the change of the outputs along it is requested.
    """

    source: Literal["solver", "probe"]
    t: float
    h: float
    order: int
    u: bytes
    direction: bytes | None = None


class Probed(Message):
    """Solver → master: Γ of shape (order + 1, n_outputs, n_inputs), or the change (n_outputs,).

    Omitted if there is none.
    """

    gamma: bytes | None = None


class Linearise(Message):
    """Master → solver with ``linearise``, before its first step: request its matrices.

    About the present state and the inputs `u`, for macro steps `h`; the answer is due after
    `within` [s], if necessary without matrices. With the capability ``linearise_again`` also
    between two steps, at session time `t` [s], which is omitted before the first one. With the
    capability ``linearise_in_slack`` also during stepping: `in_slack`, about a state chosen by the
    solver, in the idle time between its answers.
    """

    h: float
    u: bytes
    within: float
    t: float | None = None
    in_slack: bool = False


class Linearised(Message):
    """Solver → master: ``x' = A x + B u``, ``y = C x + D u``; see `hilrt.link.LinearModel`.

    Without `A` there is no result. Without `fineness` the inputs are followed continuously, without
    `slope` their polynomials act as sent. `inside` is 1 if the outputs were observed within a step
    and are smooth there, 2 if they are not. Without `own` its integration has no error.
    """

    A: bytes | None = None
    B: bytes = b""
    C: bytes = b""
    D: bytes = b""
    fineness: bytes | None = None
    linear: bool = False
    slope: bytes | None = None
    inside: int = 0
    own: bytes | None = None


class Advance(Message):
    """Master → solver: integrate over ``[t, t + h]`` with the Taylor `coefficients` about `t`.

    With `keep`, the previous state is kept for `GoBack`.
    """

    tick: int
    t: float
    h: float
    coefficients: bytes
    keep: bool = False


class GoBack(Message):
    """Master → solver: undo the last advance and repeat it with the length `h`.

    Only after an advance with `keep`, to a solver with the capability ``go_back``; the answer is
    that of an advance.
    """

    tick: int
    h: float


class Advanced(Message):
    """Solver → master: outputs at ``t + h`` of the advance with the same `tick`.

    `received_ns` is the time at which the solver read the advance, on its own monotonic clock;
    `event_t` is the time of the first discontinuity within the step; `ended` is the reason if the
    solver's simulation has ended with this sample.
    """

    tick: int
    y: bytes
    dy: bytes | None = None
    y_mid: bytes | None = None
    y_mean: bytes | None = None
    compute_us: float = 0.0
    received_ns: int = 0
    event_t: float | None = None
    ended: str = ""


class SetPoints(Message):
    """Master → gateway, every tick: inputs over ``[t, t + h]``; `tick` is the alive counter."""

    tick: int
    t: float
    h: float
    coefficients: bytes


class Measurements(Message):
    """Gateway → master: newest value of every output.

    `t_valid_ns` is when each value was received from the bench, on the gateway's monotonic clock;
    `realised` is the bench's measurement of each input (NaN if not measured); `tick` is the newest
    tick forwarded (-1 before the first); `counters` are totals since the start.
    """

    seq: int
    tick: int
    y: bytes
    t_valid_ns: list[int]
    realised: bytes | None = None
    counters: dict[str, int] = {}


class Arm(Message):
    """Master → gateway: enable the bench and bring its inputs to `u0` within their limits."""

    u0: bytes


class Armed(Message):
    """Gateway → master: enabled, and the inputs have reached their values."""


class Safe(Message):
    """Master → gateway: run the safe profile now."""

    reason: str


class Secured(Message):
    """Gateway → master: the safe profile has run (requested or by the gateway's own decision)."""

    reason: str
    complete: bool = True


class SetParameter(Message):
    """Master → solver, between two steps: a parameter of its hello changes its value.

    A solver that refuses it sends an `Event` with the cause ``parameter_refused``.
    """

    name: str
    value: float


class PromptAnswer(Message):
    """Master → solver, between two steps: the operator `who` answers the prompt `number`.

    Only for test sequences with prompts.
    """

    number: int
    answer: str
    who: str


class Stop(Message):
    """Master → peer: end regularly."""

    reason: str


class Stopped(Message):
    """Peer → master: done; the peer ends now."""


class Heartbeat(Message):
    """Both ways: sign of life. An answer echoes the other side's clock, for the clock offset.

    A heartbeat with `echo_ns` 0 is a request; the answer has its `sent_ns` as `echo_ns`.
    """

    sent_ns: int
    echo_ns: int = 0


class Event(Message):
    """Peer → master: an event for operators and the log; `cause` is a flag's name or free.

    `value` is its severity, if any: views show the event with the largest value of each kind.
    """

    level: Literal["info", "warning", "error"]
    cause: str
    text: str
    value: float | None = None


class Error(Message):
    """Both ways: the sender cannot continue; the session ends in the safe state.

    `leaving`: the peer was ended from outside; a peer that replaces it may continue.
    """

    text: str
    leaving: bool = False


FromPeer = (
    Hello
    | Initialized
    | Advanced
    | Probed
    | Linearised
    | Measurements
    | Armed
    | Secured
    | Stopped
    | Heartbeat
    | Event
    | Error
)
FromMaster = (
    Welcome
    | Reject
    | Initialize
    | Advance
    | GoBack
    | Probe
    | Linearise
    | SetPoints
    | Arm
    | Safe
    | SetParameter
    | PromptAnswer
    | Stop
    | Heartbeat
    | Error
)

#: Type of arrays in messages; on little-endian machines numpy's float64 is this very object.
F8 = np.dtype("<f8")
_LITTLE_ENDIAN = sys.byteorder == "little"
_encoder = msgspec.msgpack.Encoder()
_from_peer: msgspec.msgpack.Decoder[FromPeer] = msgspec.msgpack.Decoder(FromPeer)
_from_master: msgspec.msgpack.Decoder[FromMaster] = msgspec.msgpack.Decoder(FromMaster)


def encode(message: Message) -> bytes:
    """Bytes of a message."""
    return _encoder.encode(message)


def _decode(decoder: msgspec.msgpack.Decoder[M], data: bytes) -> M:
    if len(data) > MAX_MESSAGE_BYTES:
        text = f"message of {len(data)} bytes; at most {MAX_MESSAGE_BYTES} are accepted"
        raise ProtocolError(text, "oversized")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = str(error)
        unknown = text.startswith("Invalid value") and text.endswith("`$.type`")
        kind = "unknown_type" if unknown else "malformed"
        # Shortened, because it quotes the peer.
        raise ProtocolError(f"not a message of the protocol: {text:.300}", kind) from None


#: Decode a message from a peer to the master; `ProtocolError` if it is invalid.
decode_from_peer = functools.partial(_decode, _from_peer)
#: Likewise for a message from the master to a peer.
decode_from_master = functools.partial(_decode, _from_master)


def pack(array: Floats) -> bytes:
    """Raw little-endian float64 of an array, row-major."""
    return array.tobytes() if array.dtype is F8 else array.astype(F8).tobytes()


def unpack(data: bytes, *shape: int) -> Floats:
    """Read-only array of the given shape; `ProtocolError` if it does not fit.

    The first dimension may be -1 for any number of rows. Rows without columns cannot be counted;
    one row is assumed.
    """
    row, whole = 8 * math.prod(shape[1:]), shape
    if shape[0] < 0:
        whole = (len(data) // row if row else 1, *shape[1:])
    if len(data) != whole[0] * row:
        raise ProtocolError(f"array of {len(data)} bytes does not have the shape {shape}")
    array: Floats = np.ndarray(whole, F8, data)
    return array if _LITTLE_ENDIAN else array.astype(np.float64)


def vector(data: bytes) -> Floats:
    """Read-only array of all values in `data`, whose size `check_arrays` has checked."""
    array: Floats = np.ndarray(len(data) // 8, F8, data)
    return array if _LITTLE_ENDIAN else array.astype(np.float64)


def check_arrays(message: FromPeer, n_inputs: int, n_outputs: int) -> None:
    """Raise `ProtocolError` if a sample does not fit the announced numbers of values."""
    if isinstance(message, Advanced):
        if len(message.y) != 8 * n_outputs:  # avoids the call, because this runs for every sample
            _check_size(message, message.y, n_outputs)
        if message.dy is not None:
            _check_size(message, message.dy, n_outputs, whole=False)
        for inside in (message.y_mid, message.y_mean):
            if inside is not None:
                _check_size(message, inside, n_outputs)
        if message.event_t is not None and not math.isfinite(message.event_t):
            raise ProtocolError(f"Advanced of tick {message.tick}: event_t is {message.event_t}")
    elif isinstance(message, Measurements):
        _check_size(message, message.y, n_outputs)
        if len(message.t_valid_ns) != n_outputs:
            text = f"{len(message.t_valid_ns)} times for {n_outputs} outputs"
            raise ProtocolError(f"Measurements: {text}")
        if message.realised is not None:
            _check_size(message, message.realised, n_inputs)


def _check_size(message: Message, data: bytes, n: int, *, whole: bool = True) -> None:
    """Raise unless `data` is one row of `n` values or, if not `whole`, any number of them."""
    size, row = len(data), 8 * n
    if size == row or (not whole and row and size % row == 0):
        return
    shape = (n,) if whole else (-1, n)
    what = type(message).__name__
    raise ProtocolError(f"{what}: array of {size} bytes does not have the shape {shape}")
