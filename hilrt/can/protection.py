"""Checksums and counters of messages, as configured per message.

The AUTOSAR profiles are those of the library ``autosar-e2e``, here with a common interface; the
plain checksums of older control units are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import xor
from typing import Annotated, Literal, NamedTuple

import msgspec
from cantools.database.can import Message
from cantools.database.utils import start_bit
from e2e import crc, p01, p02, p05

from hilrt.can.id_table import is_j1939
from hilrt.config.from_toml import nearest
from hilrt.config.session_tables import NonNegative, Positive, Table
from hilrt.errors import ConfigError

Byte = Annotated[int, msgspec.Meta(ge=0, le=0xFF)]

_ID_MODES = {
    "both": p01.E2E_P01_DATAID_BOTH,
    "alternating": p01.E2E_P01_DATAID_ALT,
    "low": p01.E2E_P01_DATAID_LOW,
    "nibble": p01.E2E_P01_DATAID_NIBBLE,
}


class Protection(Table):
    """``protection``: checksum and counter of a message.

    With an ``e2e`` profile the counter is in the profile's header; with the other checksums it is
    the message's counter signal, if it has one.
    """

    #: AUTOSAR E2E profile 1, 2 or 5, or a checksum over the other bytes.
    method: Literal["e2e1", "e2e2", "e2e5", "crc8_j1850", "crc8_h2f", "sum", "xor"]
    #: Profiles 1 and 5: data identifier of the message.
    data_id: Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)] | None = None
    #: Profile 1: part of the data identifier that enters the checksum.
    id_mode: Literal["both", "alternating", "low", "nibble"] = "both"
    #: Profile 2: sixteen data identifiers, one per counter value.
    data_ids: list[Byte] | None = None
    #: [byte] Profiles 1 and 5: position of the header.
    offset: Annotated[int, msgspec.Meta(ge=0, le=61)] = 0
    #: Methods without a profile: signal of 8 bits that carries the checksum.
    signal: str | None = None
    #: `sum`, `xor`: initial value of the checksum.
    start: Byte = 0


class Guarded(NamedTuple):
    """Functions of a message's protection.

    Parameters
    ----------
    check : callable
        Checks that the bytes are intact.
    protect : callable
        Returns the bytes with header or checksum, for given bytes and count.
    counter : callable, optional
        Reads the count; None if the counter is a signal of the message.
    modulus : int
        Modulus of that count.
    header : int
        Bits of the message written by the protection, as a mask over its little-endian reading.
    checksum : int
        Bits of the checksum alone.
    """

    check: Callable[[bytes], bool]
    protect: Callable[[bytes, int], bytes]
    counter: Callable[[bytes], int] | None
    modulus: int
    header: int
    checksum: int


def guarded(options: Protection, message: Message, label: str) -> Guarded:
    """Protection functions for a message; `ConfigError` if the options do not fit it."""
    match options.method:
        case "e2e1":
            return _profile_1(options, message, label)
        case "e2e2":
            return _profile_2(options, message, label)
        case "e2e5":
            return _profile_5(options, message, label)
    return _plain(options, message, label)


def _data_id(options: Protection, label: str) -> int:
    if options.data_id is None:
        raise ConfigError(
            f"{label} data_id: is missing; method = {options.method!r} needs the message's "
            "data identifier, from the bench's communication description"
        )
    return options.data_id


def _header_mask(message: Message, first: int, count: int, label: str) -> int:
    """Mask of a header's bytes; `ConfigError` if the message is too short for it."""
    if message.length < first + count:
        raise ConfigError(
            f"{label} offset = {first}: a header of {count} bytes does not fit into the "
            f"{message.length} bytes of {message.name}"
        )
    return ((1 << 8 * count) - 1) << 8 * first


def _profile_1(options: Protection, message: Message, label: str) -> Guarded:
    data_id, offset = _data_id(options, label), options.offset
    mode = _ID_MODES[options.id_mode]
    header = _header_mask(message, offset, 2, label)
    length = message.length

    def protect(data: bytes, count: int) -> bytes:
        whole = bytearray(data)
        whole[offset + 1] = whole[offset + 1] & 0xF0 | count
        p01.e2e_p01_protect(
            whole, data_id, data_id_mode=mode, offset=offset, increment_counter=False
        )
        return bytes(whole)

    def check(data: bytes) -> bool:
        return len(data) >= length and p01.e2e_p01_check(
            bytearray(data[:length]), data_id, data_id_mode=mode, offset=offset
        )

    # The upper half of the second byte belongs to the message, except in nibble mode.
    header &= ~(0xF0 << 8 * (offset + 1)) if options.id_mode != "nibble" else -1
    return Guarded(
        check, protect, lambda data: data[offset + 1] & 0x0F, 15, header, 0xFF << 8 * offset
    )


def _profile_2(options: Protection, message: Message, label: str) -> Guarded:
    if options.data_ids is None or len(options.data_ids) != 16:
        raise ConfigError(
            f"{label} data_ids: method = 'e2e2' needs a list of 16 data identifiers, "
            f"{'not ' + str(len(options.data_ids)) if options.data_ids else 'which is missing'}"
        )
    if options.offset:
        raise ConfigError(
            f"{label} offset = {options.offset}: the header of profile 2 is at byte 0"
        )
    ids, length = bytes(options.data_ids), message.length
    _header_mask(message, 0, 2, label)

    def protect(data: bytes, count: int) -> bytes:
        whole = bytearray(data)
        whole[1] = whole[1] & 0xF0 | count
        p02.e2e_p02_protect(whole, ids, increment_counter=False)
        return bytes(whole)

    def check(data: bytes) -> bool:
        return len(data) >= length and p02.e2e_p02_check(data, ids, length=length)

    return Guarded(check, protect, lambda data: data[1] & 0x0F, 16, 0x0FFF, 0xFF)


def _profile_5(options: Protection, message: Message, label: str) -> Guarded:
    data_id, offset = _data_id(options, label), options.offset
    header, length = _header_mask(message, offset, 3, label), message.length

    def protect(data: bytes, count: int) -> bytes:
        whole = bytearray(data)
        whole[offset + 2] = count
        p05.e2e_p05_protect(whole, data_id, offset=offset, increment_counter=False)
        return bytes(whole)

    def check(data: bytes) -> bool:
        return len(data) >= length and p05.e2e_p05_check(
            data, data_id, length=length, offset=offset
        )

    checksum = 0xFFFF << 8 * offset
    return Guarded(check, protect, lambda data: data[offset + 2], 256, header, checksum)


def _plain(options: Protection, message: Message, label: str) -> Guarded:
    signals = {signal.name: signal for signal in message.signals}
    if options.signal is None:
        raise ConfigError(
            f"{label} signal: is missing; name the signal of {message.name} that carries the "
            "checksum"
        )
    if options.signal not in signals:
        raise ConfigError(
            f"{label} signal = {options.signal!r}: message {message.name} has no such signal"
            f"{nearest(options.signal, signals)}"
        )
    signal = signals[options.signal]
    place, rest = divmod(start_bit(signal), 8)
    if signal.length != 8 or rest:
        raise ConfigError(
            f"{label} signal = {options.signal!r}: must have 8 bits and fill one byte; "
            f"it has {signal.length}, from bit {rest} of a byte on"
        )
    start, length = options.start, message.length
    compute: dict[str, Callable[[bytes], int]] = {
        "crc8_j1850": crc.calculate_crc8,
        "crc8_h2f": crc.calculate_crc8_h2f,
        "sum": lambda data: (start + sum(data)) & 0xFF,
        "xor": lambda data: reduce(xor, data, start),
    }
    checksum = compute[options.method]

    def protect(data: bytes, count: int) -> bytes:
        rest = data[:place] + data[place + 1 :]
        return data[:place] + bytes((checksum(rest),)) + data[place + 1 :]

    def check(data: bytes) -> bool:
        if len(data) < length:
            return False
        data = data[:length]
        return data[place] == checksum(data[:place] + data[place + 1 :])

    mask = 0xFF << 8 * place
    return Guarded(check, protect, None, 1, mask, mask)


class MessageOptions(Table):
    """Options of one message."""

    #: [s] Received: age at which the message counts as late. Default: `bench_timeout`, or three
    #: cycle times of the database if that is longer.
    timeout: Positive | None = None
    #: Counter signal, if its name differs from `alive`; `""` if there is none.
    counter: str | None = None
    #: Received: largest number of missing frames that a jump of the counter may indicate. After a
    #: larger jump, the frame counts as out of order and is not used. Default: half of the counter's
    #: range.
    max_lost: Annotated[int, msgspec.Meta(ge=0)] | None = None
    #: Checksum and counter of the message.
    protection: Protection | None = None
    #: Received, J1939: source address of the frames that are used; default: any.
    source: Annotated[int, msgspec.Meta(ge=0, le=0xFF)] | None = None
    #: Sent: with every set-point (`"tick"`), every `cycle` (`"cyclic"`), or when its content
    #: changes (`"change"`). Default: at the database's cycle time; with every set-point if the
    #: database has none (docs/can.md#sending).
    send: Literal["tick", "cyclic", "change"] | None = None
    #: [s] Sent: period; with `"change"`, the longest pause. Default: the database's cycle time.
    cycle: Positive | None = None
    #: [s] Sent: delay of a `"cyclic"` message relative to other messages.
    phase: NonNegative = 0.0
    #: [of the signals] Sent: values of signals that no input drives.
    values: dict[str, float] = msgspec.field(default_factory=dict)
    #: [of the signals] Sent: values of signals in one last frame after the safe profile.
    last: dict[str, float] = msgspec.field(default_factory=dict)


def check_messages(
    table: str,
    options: Mapping[str, MessageOptions],
    sent: Iterable[Message],
    received: Iterable[Message],
) -> list[str]:
    """Problems of the tables of individual messages."""
    sending = {message.name: message for message in sent}
    receiving = {message.name: message for message in received}
    used = {**sending, **receiving}
    problems = []
    for name, entry in options.items():
        label = f"{table} messages.{name}"
        message = used.get(name)
        if message is None:
            problems.append(f"{label}: is neither sent nor received here{nearest(name, used)}")
            continue
        signals = {signal.name for signal in message.signals}
        for key, text in (("counter", entry.counter), *(("values", s) for s in entry.values)):
            if text and text not in signals:
                problems.append(
                    f"{label} {key} = {text!r}: message {name} has no such signal"
                    f"{nearest(text, signals)}"
                )
        if entry.counter in signals and counter_of(entry, message, "") is None:
            problems.append(
                f"{label} counter = {entry.counter!r}: is a floating-point number, which cannot "
                "count; name another signal, or remove it"
            )
        for text in entry.last:
            if text not in signals:
                problems.append(
                    f"{label} last.{text}: message {name} has no such signal"
                    f"{nearest(text, signals)}"
                )
        if entry.source is not None and not is_j1939(message):
            problems.append(
                f"{label} source: {name} is not a J1939 message of the database; remove it"
            )
        if entry.send == "cyclic" and entry.cycle is None and not message.cycle_time:
            problems.append(
                f"{label} cycle: is missing; the database has no cycle time for {name} either"
            )
        wrong = _wrong_direction(entry, name in sending)
        problems += [f"{label} {key}: {why}" for key, why in wrong]
        if entry.protection is not None:
            try:
                guarded(entry.protection, message, f"{label} protection")
            except ConfigError as error:
                problems += error.problems
    return problems


def _wrong_direction(entry: MessageOptions, sent: bool) -> list[tuple[str, str]]:
    """Keys without effect for a message of the other direction."""
    default = MessageOptions()
    keys = (
        ("timeout", "max_lost", "source") if sent else ("send", "cycle", "phase", "values", "last")
    )
    why = "is for messages that are received" if sent else "is for messages that are sent"
    return [
        (key, f"{why}; leave it out")
        for key in keys
        if getattr(entry, key) != getattr(default, key)
    ]


def cycle_of(options: MessageOptions, message: Message) -> float:
    """Period of sending or receiving a message, s; 0 if it has none."""
    return options.cycle or (message.cycle_time or 0) / 1e3


def with_set_points(options: MessageOptions, message: Message) -> bool:
    """Whether a message is sent with every set-point, instead of in its own cycle."""
    return options.send == "tick" or (options.send is None and not cycle_of(options, message))


def protection_of(options: MessageOptions, message: Message) -> Guarded | None:
    """Create the protection of a message that `check_messages` has accepted."""
    if options.protection is None:
        return None
    return guarded(options.protection, message, f"messages.{message.name} protection")


def counter_of(options: MessageOptions, message: Message, alive: str) -> str | None:
    """Counter signal of a message, if any; a floating-point number cannot count."""
    name = alive if options.counter is None else options.counter
    found = any(signal.name == name and not signal.is_float for signal in message.signals)
    return name if found else None
