"""Live status of a session, published a few times per second.

Viewers cannot delay the session: the socket drops messages that a slow or dead viewer does not
read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import zmq

from hilrt.config.read_values import names_channel
from hilrt.errors import ConfigError
from hilrt.files.formats import decode_by
from hilrt.isolation.temporary_folder import bind

#: Messages queued for a slow watcher; only the newest matters.
QUEUE_LENGTH = 4
#: Time limit for sending the last message when the session ends, ms.
LINGER_MS = 200


class Percentiles(msgspec.Struct, frozen=True):
    """Distribution of a time since the previous status, µs."""

    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class RaisedFlag(msgspec.Struct, frozen=True):
    """A reliability flag that is up: its cause, and the signal, bond or peer concerned."""

    cause: str
    where: str


class BondStatus(msgspec.Struct):
    """Power through a bond [W] and its energy ledger [J]."""

    power_w: float = 0.0
    residual_energy_j: float = 0.0
    tracking_energy_j: float = 0.0
    corrected_energy_j: float = 0.0


class SetPointStatus(msgspec.Struct):
    """A bench's input: the demanded, sent and measured value, in its `unit`.

    `by`: its present source, that is its connections' outputs, a stimulus, a sequence, an operator
    or its start value. `measured` is NaN if no output measures it.
    """

    demanded: float = math.nan
    sent: float = math.nan
    measured: float = math.nan
    unit: str = ""
    by: str = ""


class PeerStatus(msgspec.Struct):
    """Ticks at which a subsystem was late, messages lost, age of its newest sample [ms].

    `dropped` counts messages that arrived but were not used.
    """

    late: int = 0
    lost: int = 0
    age_ms: float = 0.0
    dropped: int = 0


class AlarmStatus(msgspec.Struct, frozen=True):
    """An alarm that was raised: how often, when first and last, when it cleared; times in s.

    `cleared_t` is None while it is active. `acknowledged_by` is the operator who has acknowledged
    it since it was last raised, at `acknowledged_t`; empty if none has.
    """

    name: str
    count: int
    first_t: float
    last_t: float
    cleared_t: float | None = None
    acknowledged_by: str = ""
    acknowledged_t: float | None = None

    @property
    def open(self) -> bool:
        """Whether it is active, or not acknowledged."""
        return self.cleared_t is None or not self.acknowledged_by


class EventStatus(msgspec.Struct, frozen=True):
    """An event at session time `t` [s]; `value` as in `hilrt.peers.wire.Event`."""

    t: float
    text: str
    value: float | None = None


class ResultStatus(msgspec.Struct, frozen=True):
    """Result of a test: its name, ``passed``, ``failed`` or ``inconclusive``, and the reason."""

    name: str
    result: str
    text: str = ""


class PromptStatus(msgspec.Struct, frozen=True):
    """A question of a test sequence that waits for an operator, with a number for the answer.

    It waits until session time `until` [s]; after that the answer is `declared`, or, if this is
    None, the sequence fails.
    """

    number: int
    sequence: str
    text: str
    answers: list[str]
    declared: str | None
    until: float


class Status(msgspec.Struct, kw_only=True):
    """State of a session at one time. Times `t` and `duration` are session time, s.

    `rate_hz`: macro steps per second of wall time since the previous status; 0 in the first.
    `shadow`: corrections are computed but not applied. A status without `values` announces a state
    before the first tick. `run` identifies the run of the session. `events`: the session's newest
    events. `verdict`: the session's verdict so far, with its `reasons`; `evidence_lacking`: whether
    it rests on a lack of evidence alone. `flags`: flags that are up now. `waited_s`: how long the
    session has been waiting for what `message` names, s; 0 if it is not waiting. `sequences`: the
    step of each test sequence, with its line, what it waits for and since when. `sources`: inputs
    that a stimulus, a sequence or an operator drives now, and which of these it is. `adjustable`:
    numbers that operators may change, with their values. `prompts`: questions of test sequences
    that wait for an operator, the oldest first. `results`: the newest results of expectations and
    measures. `result_counts`: number of results of each kind. `set_points`: the benches' inputs.
    `alarms`: alarms that have been raised, the earliest first.
    """

    session: str
    state: str
    run: str = ""
    t: float = 0.0
    duration: float = 0.0
    tick: int = 0
    missed: int = 0
    rate_hz: float = 0.0
    lateness_us: Percentiles | None = None
    values: dict[str, float] = {}
    units: dict[str, str] = {}
    flags: list[RaisedFlag] = []
    set_points: dict[str, SetPointStatus] = {}
    bonds: dict[str, BondStatus] = {}
    peers: dict[str, PeerStatus] = {}
    verdict: str = ""
    reasons: list[str] = []
    evidence_lacking: bool = False
    message: str = ""
    waited_s: float = 0.0
    shadow: bool = False
    events: list[EventStatus] = []
    alarms: list[AlarmStatus] = []
    sequences: dict[str, str] = {}
    sources: dict[str, str] = {}
    adjustable: dict[str, float] = {}
    prompts: list[PromptStatus] = []
    results: list[ResultStatus] = []
    result_counts: dict[str, int] = {}


_decoder = msgspec.msgpack.Decoder(Status)


def encode(status: Status) -> bytes:
    """One frame."""
    return msgspec.msgpack.encode(status)


def decode(frame: bytes) -> Status:
    """Status in a frame; `msgspec.DecodeError` or `ValidationError` for anything else."""
    return decode_by(_decoder, frame)


def merged(before: Status | None, now: Status) -> Status:
    """Merge an announcement into the status before it: only state and message change."""
    if before is None or now.values or now.run != before.run:
        return now
    return msgspec.structs.replace(
        before,
        state=now.state,
        message=now.message,
        waited_s=now.waited_s,
        events=now.events,
        alarms=now.alarms,
        prompts=now.prompts,
        results=now.results,
        result_counts=now.result_counts,
    )


def not_passed(status: Status) -> list[ResultStatus]:
    """The three newest results that are failed or inconclusive."""
    return [one for one in status.results if one.result != "passed"][-3:]


def alarm_order(status: Status) -> list[AlarmStatus]:
    """Alarms, the most urgent first: not acknowledged before acknowledged, active before cleared.

    Alarms of equal urgency stay in the order in which they were first raised.
    """
    return sorted(status.alarms, key=lambda a: (bool(a.acknowledged_by), a.cleared_t is not None))


def alarm_words(alarm: AlarmStatus) -> str:
    """State of an alarm: ``active since 3.2 s, 4 times; acknowledged by ada at 5.0 s``."""
    state = f"active since {alarm.last_t:.1f} s"
    if alarm.cleared_t is not None:
        state = f"cleared at {alarm.cleared_t:.1f} s, raised at {alarm.last_t:.1f} s"
    if alarm.count > 1:
        state += f", {alarm.count:,} times since {alarm.first_t:.1f} s"
    if not alarm.acknowledged_by:
        return f"{state}; not acknowledged"
    return (
        f"{state}; acknowledged by {alarm.acknowledged_by} at {alarm.acknowledged_t or 0.0:.1f} s"
    )


def doing(status: Status) -> list[str]:
    """Lines about the steps of test sequences, and inputs not driven by their connections."""
    lines = [f"{name}: {step}" for name, step in status.sequences.items()]
    driven = ", ".join(f"{name} by {source}" for name, source in status.sources.items())
    return [*lines, f"driven: {driven}"] if driven else lines


def prompt_words(prompt: PromptStatus) -> str:
    """Question with its deadline, and the consequence if nobody answers."""
    declared = prompt.declared
    then = "the sequence fails" if declared is None else f"the answer “{declared}” counts"
    return f"{prompt.sequence} asks: {prompt.text} (until {prompt.until:.1f} s, then {then})"


def result_words(status: Status) -> str:
    """Counts of results by kind: ``results: 2 passed, 1 failed``."""
    counts = status.result_counts
    parts = [f"{counts[w]} {w}" for w in ("passed", "inconclusive", "failed") if counts.get(w)]
    return f"results: {', '.join(parts)}" if parts else ""


def message_of(status: Status) -> str:
    """Message of a session, with the time that it has been waiting."""
    waited = f" ({status.waited_s:.0f} s)" if status.waited_s >= 1.0 else ""
    return f"{status.message}{waited}"


class Telemetry:
    """Publisher of a session's status.

    Parameters
    ----------
    address : str
        Address to publish at.

    Attributes
    ----------
    address : str
        Address that watchers connect to.
    """

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.PUB)
        self._socket.sndhwm = QUEUE_LENGTH
        self._socket.linger = LINGER_MS
        self.address = bind(self._socket, address)

    def publish(self, status: Status) -> None:
        """Send to all watchers, without blocking."""
        self._socket.send(msgspec.msgpack.encode(status), zmq.NOBLOCK)

    def close(self) -> None:
        """Close the socket once the last message is sent."""
        self._socket.close()
        self._context.term()


def display_order(
    names: Sequence[str], of_benches: Sequence[bool], chosen: Sequence[str]
) -> list[int]:
    """Indices of the outputs, in the order in which they are shown.

    Parameters
    ----------
    names : sequence of str
        Channels of the outputs.
    of_benches : sequence of bool
        For each, whether it is measured on a bench.
    chosen : sequence of str
        ``[monitor] values``: channels, ports, or patterns of them. `ConfigError` for one that
        matches no output.
    """
    order: list[int] = []
    for pattern in chosen:
        found = [i for i, name in enumerate(names) if names_channel(pattern, name)]
        if not found:
            known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            raise ConfigError(
                f"[monitor] values = {pattern!r}: is not an output; there are {known or 'none'}"
            )
        order += [i for i in found if i not in order]
    rest = [i for i in range(len(names)) if i not in set(order)]
    return order + sorted(rest, key=lambda i: not of_benches[i])


def shown_values(values: dict[str, float], chosen: Sequence[str]) -> dict[str, float]:
    """Values that the session file selects; all if it selects none."""
    if not chosen:
        return values
    return {
        name: value
        for name, value in values.items()
        if any(names_channel(pattern, name) for pattern in chosen)
    }
