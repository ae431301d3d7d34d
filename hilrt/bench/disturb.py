"""Faults of an emulated bench: events of a scenario, or faults that a session switches. No I/O.

The same seed gives the same disturbances, so that a failed test can be repeated. A scenario is a
TOML file::

    seed = 7
    [[events]]
    at = 2.0                 # s after the bench's start
    for = 0.5                # s; default: until the end
    kind = "loss"
    messages = ["EngineFast"]
    share = 0.2
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from hilrt.can.frame import Frame
from hilrt.config.from_toml import build, nearest
from hilrt.config.parse_toml import read_toml
from hilrt.config.session_tables import FaultTable, NonNegative, Positive, Table
from hilrt.errors import ConfigError

#: Kinds that change values, and therefore need `signals`.
VALUE_KINDS = ("stuck", "noise", "offset")
#: Kinds that damage a frame in a specific way.
WRONG_KINDS = ("wrong_counter", "wrong_checksum", "wrong_length", "wrong_identifier")
#: Kinds that affect a share of the frames.
SHARED_KINDS = ("loss", "counter_jump", "damage", "duplicate", *WRONG_KINDS)
#: Keys that apply only to some kinds, each with these kinds.
_KINDS_OF = {
    "messages": (
        *("latency", "loss", "silent", "frozen_counter", "counter_jump", "damage", "duplicate"),
        *WRONG_KINDS,
        *VALUE_KINDS,
    ),
    "signals": VALUE_KINDS,
    "delay": ("latency",),
    "jitter": ("latency",),
    "share": SHARED_KINDS,
    "burst": SHARED_KINDS,
    "value": ("noise", "offset"),
}
#: Keys of which a kind needs at least one to have an effect, and the remedy.
_NEEDED = {
    "latency": (("delay", "jitter"), "give the delay of frames, s"),
    "noise": (("value",), "give the standard deviation, in the signals' units"),
    "offset": (("value",), "give the amount to add, in the signals' units"),
}


class ScenarioEvent(Table, kw_only=True, rename={"duration": "for"}):
    """``[[events]]``: one disturbance."""

    #: Start, s after that of the bench.
    at: NonNegative
    kind: Literal[
        "latency",
        "loss",
        "silent",
        "stuck",
        "noise",
        "offset",
        "frozen_counter",
        "counter_jump",
        "damage",
        "duplicate",
        "wrong_counter",
        "wrong_checksum",
        "wrong_length",
        "wrong_identifier",
        "bus_off",
        "dead",
        "die",
    ]
    #: Duration, s; default: until the end.
    duration: Positive | None = None
    #: Affected messages; empty: all that the bench sends.
    messages: list[str] = msgspec.field(default_factory=list)
    #: Affected signals, for "stuck", "noise" and "offset".
    signals: list[str] = msgspec.field(default_factory=list)
    #: "latency": how long a frame is held back, s, and the variation of that time, s.
    delay: NonNegative = 0.0
    jitter: NonNegative = 0.0
    #: "loss", "damage", "duplicate", "counter_jump", "wrong_…": share of affected frames …
    share: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 1.0
    #: … and number of consecutive ones.
    burst: Annotated[int, msgspec.Meta(ge=1)] = 1
    #: "noise": standard deviation; "offset": added value; in the signals' units.
    value: float = 0.0


#: Values of omitted keys.
_DEFAULTS = ScenarioEvent(at=0.0, kind="silent")


class ScenarioFile(Table):
    """The whole file."""

    seed: int = 0
    events: list[ScenarioEvent] = msgspec.field(default_factory=list)


def load_scenario(path: Path, sends: Mapping[str, Iterable[str]]) -> ScenarioFile:
    """Read and check a scenario.

    Parameters
    ----------
    path : Path
    sends : mapping of str to iterable of str
        Messages that the bench sends, each with its signals.

    Raises
    ------
    ConfigError
        With every problem, each naming file, event and remedy.
    """
    _, data = read_toml(path)
    problems: list[str] = []
    scenario = build(ScenarioFile, data, "", problems)
    if scenario is None or problems:
        raise ConfigError([f"{path.name}: {problem}" for problem in problems])
    for i, event in enumerate(scenario.events):
        label = f"{path.name}: [[events]] {i + 1} ({event.kind} at {event.at:g} s)"
        problems += [f"{label} {problem}" for problem in _problems(event, sends)]
    if problems:
        raise ConfigError(problems)
    return scenario


def _problems(event: ScenarioEvent, sends: Mapping[str, Iterable[str]]) -> list[str]:
    """Problems, with key and remedy, of an event that would have no effect."""
    problems = [
        f"messages: the bench sends no {name!r}{nearest(name, sends)}"
        for name in event.messages
        if name not in sends
    ]
    problems += [
        f"{key}: has no effect for the kind {event.kind!r}; remove it"
        for key, kinds in _KINDS_OF.items()
        if event.kind not in kinds and getattr(event, key) != getattr(_DEFAULTS, key)
    ]
    if event.kind in VALUE_KINDS:
        problems += _signal_problems(event, sends)
    keys, remedy = _NEEDED.get(event.kind, ((), ""))
    if keys and not any(getattr(event, key) for key in keys):
        problems.append(f"{keys[0]}: is missing or 0; {remedy}")
    return problems


def _signal_problems(event: ScenarioEvent, sends: Mapping[str, Iterable[str]]) -> list[str]:
    """Report signals that no affected message has, and messages that have none of the signals."""
    if not event.signals:
        return ["signals: is missing; name the affected signals"]
    affected = {name: set(sends[name]) for name in event.messages or sends if name in sends}
    if not affected:
        return []  # already reported
    there = set().union(*affected.values())
    problems = []
    for name in event.signals:
        others = [message for message, signals in sends.items() if name in signals]
        where = ", ".join(affected) if event.messages else "what the bench sends"
        if others and name not in there:
            problems.append(
                f"signals: {name!r} is in {others[0]}, not in {where}; correct 'messages'"
            )
        elif name not in there:
            problems.append(f"signals: no {name!r} in {where}{nearest(name, there)}")
    if not problems:
        problems += [
            f"messages: {message} has none of the signals; remove it"
            for message, signals in affected.items()
            if event.messages and signals.isdisjoint(event.signals)
        ]
    return problems


def event_of(fault: FaultTable) -> ScenarioEvent:
    """Convert a session's fault to an event that never begins by itself."""
    _, _, rest = (fault.message or "").partition(".")
    message, _, signal = rest.partition(".")
    kind: Any = "latency" if fault.kind in ("delay", "jitter") else fault.kind
    value = 1.0 if fault.value is None else fault.value
    event = ScenarioEvent(
        at=math.inf,
        kind=kind,
        messages=[message] if message else [],
        signals=[signal] if signal else [],
        share=value if kind in SHARED_KINDS else 1.0,
        value=value,
    )
    if fault.kind == "delay":
        event.delay = value
    elif fault.kind == "jitter":  # from 0 to the value
        event.delay = event.jitter = 0.5 * value
    return event


class Disturbance:
    """Effects of a scenario, and of faults of the session, on the frames of a bench.

    Parameters
    ----------
    scenario : ScenarioFile
    faults : sequence of FaultTable
        Faults of the session that the emulator simulates; see `switch`.

    Attributes
    ----------
    events : list of ScenarioEvent
        Events of the scenario, then one for each fault.
    """

    def __init__(self, scenario: ScenarioFile, faults: Sequence[FaultTable] = ()) -> None:
        self.events = [*scenario.events, *map(event_of, faults)]
        shared, first = random.Random(scenario.seed), len(scenario.events)
        self._random = [shared] * first + [random.Random(fault.seed) for fault in faults]
        self._numbers = {fault.name: first + k for k, fault in enumerate(faults)}
        self._active: set[int] = set()
        self._stuck: dict[tuple[int, str], float] = {}
        self._left: dict[tuple[int, str], int] = {}  # frames left of a burst, by event and message
        self._held: list[tuple[float, int, Frame]] = []
        self._count = 0

    def switch(self, name: str, on: bool) -> None:
        """Begin or end a fault of the session; ignore a fault that is not on this bench."""
        i = self._numbers.get(name)
        if i is None:
            return
        (self._active.add if on else self._active.discard)(i)
        self._stuck = {key: value for key, value in self._stuck.items() if key[0] != i}
        self._left = {key: left for key, left in self._left.items() if key[0] != i}

    def _now(self, now: float, *kinds: str) -> list[tuple[int, ScenarioEvent]]:
        return [
            (i, event)
            for i, event in enumerate(self.events)
            if event.kind in kinds and (i in self._active or _is_due(event, now))
        ]

    def _of(self, message: str, now: float, *kinds: str) -> list[tuple[int, ScenarioEvent]]:
        return [
            (i, event)
            for i, event in self._now(now, *kinds)
            if not event.messages or message in event.messages
        ]

    def dies(self, now: float) -> bool:
        """Whether the process ends abruptly at `now` [s]."""
        return bool(self._now(now, "die"))

    def dead(self, now: float) -> bool:
        """Whether the bench is without power: it does nothing, and restarts afterwards."""
        return bool(self._now(now, "dead"))

    def off(self, now: float) -> bool:
        """Whether the bench is off the bus: it runs, but neither sends nor receives."""
        return bool(self._now(now, "bus_off"))

    def measured(self, message: str, values: dict[str, float], now: float) -> dict[str, float]:
        """Values of a message as the disturbed sensors measure them."""
        for i, event in self._of(message, now, *VALUE_KINDS):
            for name in event.signals:
                if name not in values:
                    continue
                if event.kind == "stuck":
                    values[name] = self._stuck.setdefault((i, name), values[name])
                elif event.kind == "noise":
                    values[name] += self._random[i].gauss(0.0, event.value)
                else:
                    values[name] += event.value
        return values

    def counter_step(self, message: str, now: float) -> int:
        """Increment of the counter after a frame: 1 without a fault."""
        if self._of(message, now, "frozen_counter"):
            return 0
        return 1 + sum(
            self._affects(i, e, message) for i, e in self._of(message, now, "counter_jump")
        )

    def lost(self, message: str, now: float) -> bool:
        """Whether a frame is not sent at all."""
        if self._of(message, now, "silent"):
            return True
        return self.affects("loss", message, now)

    def affects(self, kind: str, message: str, now: float) -> bool:
        """Whether a fault of this kind affects this frame."""
        return sum(self._affects(i, e, message) for i, e in self._of(message, now, kind)) > 0

    def damaged(self, message: str, frame: Frame, now: float) -> Frame:
        """Return the frame, with a bit flipped if a fault damages it."""
        for i, event in self._of(message, now, "damage"):
            if self._affects(i, event, message) and frame.data:
                bit = self._random[i].randrange(8 * len(frame.data))
                word = int.from_bytes(frame.data, "little") ^ 1 << bit
                frame = frame._replace(data=word.to_bytes(len(frame.data), "little"))
        return frame

    def hold(self, message: str, frame: Frame, now: float) -> bool:
        """Hold the frame back if there is latency now; return whether it was held."""
        events = self._of(message, now, "latency")
        if not events:
            return False
        wait = sum(e.delay + e.jitter * self._random[i].uniform(-1.0, 1.0) for i, e in events)
        self._count += 1  # keeps the order of frames due at the same time
        heapq.heappush(self._held, (now + max(0.0, wait), self._count, frame))
        return True

    def released(self, now: float) -> list[Frame]:
        """Frames whose latency is over."""
        frames = []
        while self._held and self._held[0][0] <= now:
            frames.append(heapq.heappop(self._held)[2])
        return frames

    def _affects(self, i: int, event: ScenarioEvent, message: str) -> bool:
        """Whether the event affects this frame: at random, then for `burst` frames in a row."""
        left = self._left.get((i, message), 0)
        if left > 0:
            self._left[i, message] = left - 1
            return True
        # The share includes all frames of a burst, so that bursts begin less often.
        start = event.share / (event.burst - event.share * (event.burst - 1))
        if self._random[i].random() >= start:
            return False
        self._left[i, message] = event.burst - 1
        return True


def _is_due(event: ScenarioEvent, now: float) -> bool:
    end = math.inf if event.duration is None else event.at + event.duration
    return event.at <= now < end
