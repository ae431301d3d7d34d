"""Whether the frames of a database hold what an emulated bench measures."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import cantools

from hilrt.bench.bench_on_bus import EmulatedBench

CONFIGS = Path(__file__).parents[2] / "bench_configs"


def assert_carried(database: str, bench: EmulatedBench) -> None:
    """Every measurement comes out of its frame as it went in, as finely as the signal counts."""
    messages = cantools.database.load_file(CONFIGS / database)
    for name in bench.sends:
        message = messages.get_message_by_name(name)
        values = {**bench.measure(name), "Alive": 3}
        decoded = message.decode(message.encode(values), decode_choices=False)
        for signal in message.signals:
            error = abs(decoded[signal.name] - values[signal.name])
            assert error <= 0.51 * abs(float(signal.scale))


def assert_named(database: str, message: str, signal: str, names: type[IntEnum]) -> None:
    """The database calls the values of a signal what the bench calls them."""
    messages = cantools.database.load_file(CONFIGS / database)
    choices = messages.get_message_by_name(message).get_signal_by_name(signal).choices
    assert {value: str(name) for value, name in choices.items()} == {n.value: n.name for n in names}
