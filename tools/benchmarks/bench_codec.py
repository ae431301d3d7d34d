"""Processor time for coding a frame: the compiled codec compared with cantools.

    python -m tools.benchmarks.bench_codec [DATABASE.dbc ...]

All signals of each message with random payloads; the results of both are also compared.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

from cantools.database.can import Message, Signal

from hilrt.can.codec import codec
from hilrt.can.database import load_database

ROOT = Path(__file__).resolve().parents[2]
DATABASES = [
    ROOT / "bench_configs" / "engine_bench.dbc",
    ROOT.parent / "shared" / "data" / "truck_j1939.dbc",
    ROOT.parent / "shared" / "data" / "car.dbc",
]
FRAMES = 500
ROUNDS = 7


def best(function: Callable[[Any], Any], arguments: list[Any]) -> float:
    """Shortest processor time per call, µs."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        for argument in arguments:
            function(argument)
        times.append(time.process_time_ns() - start)
    return 1e-3 * min(times) / len(arguments)


def bench(path: Path) -> None:
    print(f"{path.name}\n{'message':24} {'signals':>7} {'decode µs':>20} {'encode µs':>20}")
    noise = random.Random(1)
    totals = [0.0] * 4
    for message in load_database(path, "database").messages:
        names = [signal.name for signal in message.signals]
        if not names or message.is_multiplexed():
            continue
        ours = codec(message, names)
        payloads = [noise.randbytes(message.length) for _ in range(FRAMES)]
        tables: list[Any] = [message.decode(p, decode_choices=False) for p in payloads]
        rows = [[table[name] for name in names] for table in tables]
        assert [list(ours.decode(p)) for p in payloads] == rows
        if not _overlap(message):
            encoded = [message.encode(table, strict=False) for table in tables]
            assert [ours.encode(row) for row in rows] == encoded
        figures = [
            best(partial(message.decode, decode_choices=False), payloads),
            best(ours.decode, payloads),
            best(partial(message.encode, strict=False), tables),
            best(ours.encode, rows),
        ]
        totals = [a + b for a, b in zip(totals, figures, strict=True)]
        print(f"{message.name:24} {len(names):7} {_pair(figures[:2])} {_pair(figures[2:])}")
    print(f"{'all':32} {_pair(totals[:2])} {_pair(totals[2:])}\n")


def _pair(figures: list[float]) -> str:
    plain, ours = figures
    return f"{plain:6.2f} {ours:6.2f} {plain / ours:4.1f} x"


def _overlap(message: Message) -> bool:
    """Whether signals share bits: the result of encoding then depends on their order."""
    ones = [codec(message, [s.name]).encode([_all_ones(s)]) for s in message.signals]
    words = [int.from_bytes(data, "little") for data in ones]
    return sum(words) != reduce(or_, words)


def _all_ones(signal: Signal) -> float:
    raw = -1 if signal.is_signed else (1 << signal.length) - 1
    return float(raw * signal.scale + signal.offset)


def main() -> None:
    for path in [Path(name) for name in sys.argv[1:]] or [p for p in DATABASES if p.exists()]:
        bench(path)


if __name__ == "__main__":
    main()
