"""Shifts and masks against plain cantools, for any layout of a message."""

from __future__ import annotations

from typing import Any

import cantools
import pytest
from cantools.database.can import Message, Signal
from cantools.database.conversion import BaseConversion
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hilrt_adapters.can_codec import CantoolsCodec, PlainCodec, codec, start_values

SCALES = st.sampled_from([1, 0.01, 0.0001, 0.5, 2, -0.25, 3.7])
OFFSETS = st.sampled_from([0, -40, 5, 0.3, -1000])


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A message of plain integers, in either byte order, that cantools accepts."""
    size = draw(st.sampled_from([1, 4, 8, 64]))
    signals = []
    for i in range(draw(st.integers(1, 4))):
        length = draw(st.integers(1, min(8 * size, 40)))
        signals.append(
            Signal(
                f"S{i}",
                start=draw(st.integers(0, 8 * size - 1)),
                length=length,
                byte_order=draw(st.sampled_from(["little_endian", "big_endian"])),
                is_signed=draw(st.booleans()),
                raw_initial=draw(st.integers(0, 2 ** (length - 1) - 1)),
                conversion=BaseConversion.factory(draw(SCALES), draw(OFFSETS)),
            )
        )
    try:
        return Message(1, "M", size, signals, is_fd=size > 8, strict=True)
    except cantools.database.Error:
        assume(False)
        raise


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(message=messages(), data=st.data())
def test_plain_codec_agrees_with_cantools(message: Message, data: st.DataObject) -> None:
    names = [signal.name for signal in message.signals]
    chosen = data.draw(st.permutations(names))[: data.draw(st.integers(1, len(names)))]
    plain = PlainCodec(message, chosen)

    frame = data.draw(st.binary(min_size=message.length, max_size=message.length))
    expected: Any = message.decode(frame, decode_choices=False)
    assert plain.decode(frame) == [expected[name] for name in chosen]

    values = start_values(message)
    for name in chosen:
        signal = message.get_signal_by_name(name)
        half = 1 << (signal.length - 1)
        low, high = (-half, half - 1) if signal.is_signed else (0, 2 * half - 1)
        raw = data.draw(st.integers(low, high))
        part = data.draw(st.floats(-0.4, 0.4))  # of a bit: rounding
        values[name] = (raw + part) * signal.scale + signal.offset
        # Where the two ways of rounding differ by a bit in the last digit is nobody's error.
        assume(round((values[name] - signal.offset) / signal.scale) == raw)
    ours = plain.encode([values[name] for name in chosen])
    theirs: Any = message.decode(message.encode(values, strict=False), decode_choices=False)
    assert message.decode(ours, decode_choices=False) == theirs
    assert ours == message.encode(values, strict=False)


def message_of(*signals: Signal) -> Message:
    return Message(1, "M", 8, list(signals), strict=True)


def test_values_beyond_the_bits_become_the_nearest() -> None:
    conversion = BaseConversion.factory(0.5, 10)
    signal = Signal("S", 0, 8, "little_endian", is_signed=True, conversion=conversion)
    plain = PlainCodec(message_of(signal), ["S"])
    for value, nearest in ((1e9, 73.5), (-1e9, -54.0), (73.5, 73.5)):
        assert plain.decode(plain.encode([value])) == [nearest]


def test_too_short_data_are_refused_and_longer_ones_cut() -> None:
    plain = PlainCodec(message_of(Signal("S", 56, 8, "little_endian")), ["S"])
    with pytest.raises(ValueError, match="7 bytes instead of 8"):
        plain.decode(bytes(7))
    assert plain.decode(bytes([0, 0, 0, 0, 0, 0, 0, 9, 1])) == [9]


def test_floats_and_multiplexing_are_left_to_cantools() -> None:
    conversion = BaseConversion.factory(1, 0, is_float=True)
    real = message_of(Signal("S", 0, 32, "little_endian", conversion=conversion))
    coded = codec(real, ["S"])
    assert isinstance(coded, CantoolsCodec)
    assert coded.decode(coded.encode([1.25])) == [1.25]
    switched = message_of(
        Signal("Which", 0, 8, "little_endian", is_multiplexer=True),
        Signal("A", 8, 8, multiplexer_ids=[0], multiplexer_signal="Which"),
        Signal("B", 8, 8, multiplexer_ids=[1], multiplexer_signal="Which"),
    )
    coded = codec(switched, ["A", "B"])
    assert coded.decode(bytes([1, 7, 0, 0, 0, 0, 0, 0])) == [None, 7]
    assert isinstance(codec(message_of(Signal("S", 0, 8)), ["S"]), PlainCodec)
