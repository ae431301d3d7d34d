"""Lines of a session file for the messages of a CAN database and their signals."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from cantools.database.can import Database, Message, Signal
from cantools.database.utils import start_bit

from hilrt.can.database import declared_range, find_signal, named_values, representable
from hilrt.can.id_table import can_id_of, indistinct, is_j1939, with_contained
from hilrt.config.from_toml import TO_CHOOSE
from hilrt.documentation import in_documentation
from hilrt.errors import ConfigError

#: Mark of a choice that the user has to make; `hilrt check` reports every remaining one.
CHOOSE = f'"{TO_CHOOSE}"'
#: The counter that the gateway looks for by default.
ALIVE = "Alive"
#: Maximum meanings of an enumeration, or values of a multiplexer, that are listed.
MAX_LISTED = 8


#: For a rehearsal: timeout of a message without a cycle time, s; method of checksums.
SILENCE_S = 0.5
METHOD = "crc8_j1850"


class WrittenInput(NamedTuple):
    """An input as in its table: limits and value at rest; an enumeration is no quantity."""

    name: str
    unit: str
    low: float
    high: float
    rest: float
    quantity: bool


class PortLines:
    """Lines for messages and their signals, with unique port names.

    Parameters
    ----------
    base : Database
    guess : bool
        Write guesses, marked as such, instead of choices: for an emulated bench, which uses the
        same table.

    Attributes
    ----------
    written : list of WrittenInput
        Inputs whose tables have been written.
    """

    def __init__(self, base: Database, guess: bool = False) -> None:
        self._guess = guess
        self.written: list[WrittenInput] = []
        self._measured: list[tuple[str, Signal]] = []
        self._boxes = {
            message: box for message, box in with_contained(base.messages) if box is not None
        }
        self._defects = {
            (message, signal.name): _defect(rivals, message, signal)
            for message, rivals in [*_rivals(base.messages), *_contained(self._boxes)]
            for signal in message.signals
        }
        self._names = Counter(message.name for message in [*base.messages, *self._boxes])
        self._taken: dict[str, set[str]] = {"input": set(), "output": set()}
        self._doubtful = {
            message: ", ".join(other.name for other in others)
            for message, others in indistinct(filter(is_j1939, base.messages), ())
        }

    def outputs(self, message: Message) -> list[Signal]:
        """Measurable signals, except those that only protect the message."""
        return [
            signal
            for signal in message.signals
            if not guard_of(signal) and not self._defects[message, signal.name]
        ]

    def inputs(self, message: Message) -> list[Signal]:
        """Signals that can be set-points, including the enable request."""
        return [
            signal
            for signal in message.signals
            if not signal.is_multiplexer
            and not guard_of(signal)
            and not self._defects[message, signal.name]
        ]

    def enable(self, sent: Iterable[Message], measured: Iterable[Message]) -> list[str]:
        """Request and state of the handshake, by their names; missing ones are omitted."""
        requests = [(m, s) for m in sent for s in self.inputs(m) if _enables(s)]
        states = [(m, s) for m in measured for s in self.outputs(m) if _enables(s)]
        if not requests:
            return []
        message, request = requests[0]
        found = [f"{message.name}.{request.name}"]
        if states:  # if several: the one named most like the request
            like = SequenceMatcher(b=request.name.lower())

            def likeness(state: tuple[Message, Signal]) -> float:
                like.set_seq1(state[1].name.lower())
                return like.ratio()

            message, state = max(states, key=likeness)
            found.append(f"{self._reference(message)}.{state.name}")
        return found

    def measured(self, message: Message, why: str = "") -> list[str]:
        """A message of the bench; with `why`, the reason not to receive it, as comments only."""
        box = self._boxes.get(message)
        called = title(message) if box is None else f"{message.name} in {title(box)}"
        lines = ["", remark(called + (f": {why}" if why else ""))]
        off = "# " if why else ""
        table = f"messages.{toml_key(message.name)}"
        if not message.cycle_time and message.signals:
            hint = "s without a frame; the database has no cycle time: use several of them"
            lines.append(f"{off}{table}.timeout = {self._choose(SILENCE_S)}  # {hint}")
        if message in self._doubtful:
            hint = (
                "address of the sender: nothing else distinguishes it from "
                f"{self._doubtful[message]}"
            )
            source = self._choose(message.frame_id & 0xFF)
            lines.append(f"{off}{table}.source = {source}  # {_plain(hint)}")
        ports = self.outputs(message)
        if any(signal.multiplexer_signal for signal in ports) and not why:
            wait = "multiplexed: the session does not begin before each of these has arrived"
            lines.append(remark(f"{wait}; comment out those that never do"))
        for signal in message.signals:
            notes = [signal.unit, _meanings(signal), _form(signal)]
            if signal not in ports:
                notes.append(self._defects[message, signal.name] or _why_no_output(signal))
            mark = off if signal in ports else "# "
            ref = toml_string(f"{self._reference(message)}.{signal.name}")
            name = self._name(message, signal, "output")
            lines.append(f"{mark}outputs.{name} = {ref}{_notes(notes)}")
            if not mark:
                self._measured.append((name, signal))
            lines += self._checks(signal, table, off)
        return lines

    def sent(self, message: Message, enable: Sequence[str]) -> list[str]:
        """Options of a sent message; its inputs have their own tables."""
        table = f"messages.{toml_key(message.name)}"
        lines = ["", remark(title(message))]
        if message.cycle_time:
            lines.append(f'# {table}.send = "tick"  # left out: at the database\'s cycle time')
        if message in self._doubtful:
            text = f"correct the database: no frame distinguishes it from {self._doubtful[message]}"
            lines.append(remark(text))
        driven = self.inputs(message)
        guards: set[str] = set()
        for signal in message.signals:
            kind, name = guard_of(signal), toml_string(signal.name)
            first = kind not in guards and not signal.multiplexer_signal
            if f"{message.name}.{signal.name}" in enable:
                lines.append(remark(f"{signal.name} is the enable request, see above"))
            elif signal in driven:
                continue
            elif defect := self._defects[message, signal.name]:
                lines.append(remark(f"{signal.name} is not sent: {defect}"))
            elif signal.is_multiplexer:
                lines.append(remark(f"{signal.name} is set by the gateway: the multiplexer"))
            elif signal.name == ALIVE:
                lines.append(remark(f"{signal.name} is counted by the gateway"))
            elif kind == "counter" and first and not any(s.name == ALIVE for s in message.signals):
                lines.append(f'{table}.counter = {name}  # by its name: check it; "" for none')
            elif kind == "checksum" and first and _is_byte(signal):
                page = in_documentation("docs/can.md")
                hint = f"crc8_j1850, crc8_h2f, sum, xor; or e2e… with data_id: {page}"
                lines.append(f"{table}.protection = {self._protection(signal)}  # {hint}")
            else:
                text = f"{signal.name} keeps its start value: a {kind} by its name"
                lines.append(
                    remark(f"{text}; {table}.values gives it a value, .protection a method")
                )
            guards.add(kind)
        return lines

    def input(self, message: Message, signal: Signal) -> list[str]:
        """Table of an input."""
        low, high = _range(signal)
        unit = _plain(signal.unit or "no unit")
        at_rest = min(max(0.0, low), high)
        rate = f"max_rate = {self._choose(float(f'{high - low:.2g}'))}  # {unit} per s"
        if values := _enumeration(signal):
            low, high, at_rest = values[0], values[-1], min(values, key=abs)
            rate = "enumerated = true  # jumps to the nearest value of the table, without a rate"
        safe = self._choose(at_rest)
        name = self._name(message, signal, "input")
        self.written.append(WrittenInput(name, unit, low, high, at_rest, not values))
        return [
            "",
            f"[subsystems.bench.inputs.{name}]",
            f"signal = {toml_string(f'{message.name}.{signal.name}')}{_notes([_meanings(signal)])}",
            f"min = {low!r}  # {unit}: what the database allows; narrow it to your bench",
            f"max = {high!r}",
            rate,
            f"safe = {safe}  # {unit}: target of the safe profile",
            f"start = {safe}  # {unit}; or omit it and connect the input",
            self._realised(name, signal),
        ]

    def _choose(self, guess: object) -> str:
        """Mark of a choice, or a guess."""
        return toml_string(guess) if self._guess else CHOOSE

    def _realised(self, name: str, signal: Signal) -> str:
        """Output that measures the realised value of an input, guessed by name and unit."""
        words = set(name.split("_"))

        def likeness(found: tuple[str, Signal]) -> int:
            others = set(found[0].split("_"))
            same_unit = found[1].unit == signal.unit
            return len(words & others) if same_unit and words & others in (words, others) else 0

        found = max(self._measured, key=likeness, default=None) if self._guess else None
        if found is None or not likeness(found):
            return '# realised = "…"  # the output that measures the realised value'
        return f"realised = {toml_string(found[0])}  # by its name: check it"

    def _protection(self, signal: Signal) -> str:
        return f"{{ method = {self._choose(METHOD)}, signal = {toml_string(signal.name)} }}"

    def _checks(self, signal: Signal, table: str, off: str) -> list[str]:
        """Checks of the bench's messages that the signal permits.

        They are comments unless guesses are requested: a signal that is not a counter, despite its
        name, would look like a frozen sender.
        """
        if signal.name == ALIVE:
            why = "is not in every frame" if signal.multiplexer_signal else "has one bit"
            none = f'{off}{table}.counter = ""  # {ALIVE} {why}: no counter'
            return [none] if signal.multiplexer_signal or signal.length == 1 else []
        if signal.multiplexer_signal:  # frames without it could not be checked
            return []
        off = off if self._guess else "# "
        match guard_of(signal):
            case "counter":
                name = toml_string(signal.name)
                return [f"{off}{table}.counter = {name}  # a frame that repeats it does not count"]
            case "checksum" if _is_byte(signal) or not self._guess:
                method = self._protection(signal)
                return [f"{off}{table}.protection = {method}  # a damaged frame does not count"]
        return []

    def _reference(self, message: Message) -> str:
        """A message as named in ports, with its container if the name alone is ambiguous."""
        box = self._boxes.get(message)
        one = box is None or self._names[message.name] == 1
        return message.name if one or box is None else f"{box.name}.{message.name}"

    def _name(self, message: Message, signal: Signal, kind: str) -> str:
        """A port's name: the signal's, with the message's name or a number if already used."""
        taken = self._taken[kind]
        name = _snake(signal.name)
        if name in taken:
            name = f"{_snake(message.name)}_{name}"
        numbered, number = name, 1
        while numbered in taken:
            number += 1
            numbered = f"{name}_{number}"
        taken.add(numbered)
        return numbered


# ---- signals -------------------------------------------------------------------------------------


def _rivals(messages: Sequence[Message]) -> Iterator[tuple[Message, Database]]:
    """Every message in a database with only those that could be confused with it.

    Checking all messages for every signal takes minutes with the database of a whole vehicle.
    """
    like: dict[object, list[Message]] = defaultdict(list)
    for message in messages:
        like[message.name].append(message)
        like[can_id_of(message)].append(message)
    for message in messages:
        rivals = dict.fromkeys([*like[message.name], *like[can_id_of(message)]])
        yield message, Database(list(rivals), strict=False)


def _contained(boxes: Mapping[Message, Message]) -> Iterator[tuple[Message, Database]]:
    """Every message in a container, in a database of its own."""
    for message, box in boxes.items():
        yield message, Database([box], strict=False)


def _defect(rivals: Database, message: Message, signal: Signal) -> str:
    """Problem that `hilrt check` would report about the signal; empty if there is none."""
    if [other.name for other in message.signals].count(signal.name) > 1:
        return "several signals of the message have this name, which cannot be distinguished"
    try:
        find_signal(rivals, f"{message.name}.{signal.name}", "signal")
    except ConfigError as error:
        return str(error).partition(": ")[2]
    return ""


def guard_of(signal: Signal) -> str:
    """``"counter"`` or ``"checksum"`` if the name shows that it only protects the message."""
    name = signal.name.lower()
    if signal.unit or signal.is_float:
        return ""
    if signal.length >= 4 and any(word in name for word in ("checksum", "chksum", "crc")):
        return "checksum"
    # Longer ones count something on the bench, such as an encoder's increments.
    if signal.name == ALIVE or (
        2 <= signal.length <= 8
        and any(word in name for word in ("alive", "counter", "cntr", "rolling"))
    ):
        return "counter"
    return ""


def _why_no_output(signal: Signal) -> str:
    if signal.name == ALIVE and not signal.multiplexer_signal:
        return "the counter that the gateway checks"
    return f"a {guard_of(signal)} by its name"


def _form(signal: Signal) -> str:
    """Frames that contain a multiplexed signal, as text; empty if all do."""
    if not signal.multiplexer_signal:
        return ""
    values = _some(str(value) for value in sorted(signal.multiplexer_ids or ()))
    return f"only in frames with {signal.multiplexer_signal} = {values}"


def _enables(signal: Signal) -> bool:
    return signal.length <= 2 and not signal.multiplexer_signal and "enable" in signal.name.lower()


def _is_byte(signal: Signal) -> bool:
    """Whether a signal fills one byte, as required by the plain checksums."""
    return signal.length == 8 and start_bit(signal) % 8 == 0


def _meanings(signal: Signal) -> str:
    """Meanings of an enumeration's values."""
    return _some(f"{value} {meaning}" for value, meaning in (signal.choices or {}).items())


def _enumeration(signal: Signal) -> list[float]:
    """Values of a signal that is an enumeration; empty if it is a quantity.

    Value tables of quantities name single values such as "not available". Those of an enumeration
    name at least half of its possible values, or start at 0 or 1 if no range is declared.
    """
    if signal.unit or signal.is_float or len(signal.choices or ()) < 2:
        return []
    low, high = declared_range(signal)
    values = named_values(signal, low, high)
    if math.isfinite(high - low):
        possible = 1 + (high - low) / abs(float(signal.scale))
        return values if 2 <= len(values) >= 0.5 * possible else []
    return values if min(signal.choices or {0: ""}) <= 1 else []


def _range(signal: Signal) -> tuple[float, float]:
    low, high = representable(signal)
    if signal.minimum is not None and signal.maximum is not None:
        given = max(low, float(signal.minimum)), min(high, float(signal.maximum))
        if given[0] < given[1] and math.isfinite(given[1] - given[0]):
            return given
    return (-1e6, 1e6) if signal.is_float else (low, high)


# ---- text ----------------------------------------------------------------------------------------


def title(message: Message) -> str:
    """A message with its identifier and cycle time."""
    cycle = f", every {message.cycle_time} ms" if message.cycle_time else ""
    return f"{message.name} (0x{message.frame_id:X}{cycle})"


def _plain(text: str) -> str:
    """Text of a database on one line of a comment."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def _some(texts: Iterable[str]) -> str:
    """The first items of a possibly long list."""
    listed = list(texts)
    return ", ".join(listed[:MAX_LISTED]) + (", …" if len(listed) > MAX_LISTED else "")


def remark(text: str) -> str:
    """A comment line, without line breaks or unprintable characters of the database."""
    return f"# {_plain(text)}"


def _notes(texts: Iterable[str | None]) -> str:
    text = "; ".join(_plain(text) for text in texts if text)
    return f"  # {text}" if text else ""


def toml_string(value: object) -> str:
    """A string, number or boolean of TOML."""
    return json.dumps(value, ensure_ascii=False)


def toml_key(name: str) -> str:
    """A key of TOML; names with a space or an umlaut need quotes."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_string(name)


def _snake(name: str) -> str:
    """A signal's name in lower-case letters, digits and underscores."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_") or "signal"
