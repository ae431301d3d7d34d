"""Faults of the emulated engine bench that a test sequence begins and ends in a real session.

Each fault is injected after the one before it has ended. From outside, the frames on the bus are
counted with cantools and the library of the checksum's profile.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import can
from e2e import p01

from tests.protected_bench import MESSAGES, protected_database
from tests.scenarios.sessions import CALM, Listener, Run, engine_session, inline, sets

#: Data identifier of the message, as in the table of the protected bench.
DATA_ID: Final = 0x123
FAST: Final = "engine.EngineFast"
SEQUENCE: Final = """
from hilrt import Port, Sequence


class Faulty(Sequence):
    reads = ("engine.speed",)
    drives = (Port("speed_demand", "rad/s"), Port("pedal", "%"))

    def __init__(self, faults, lasting):
        self.faults, self.lasting = faults, lasting

    async def run(self, bench):
        await bench.ramp("speed_demand", to=100.0, rate=500.0)
        await bench.ramp("pedal", to=20.0, time=0.1)
        for name in self.faults:
            bench.inject(name)
            await bench.wait(self.lasting)
            bench.clear(name)
            await bench.wait(0.1)
"""


@contextlib.contextmanager
def faulty_run(
    folder: Path, listener: Listener, faults: Mapping[str, Mapping[str, Any]], lasting: float = 0.15
) -> Iterator[Run]:
    """A running session on the protected bench; each fault lasts that long, s."""
    session = engine_session(folder / "configs").with_name("tip_in.toml")
    session.with_name("protected.dbc").write_text(protected_database())
    session.with_name("faulty.py").write_text(SEQUENCE)
    tables = (
        "\n".join(
            ["[[faults]]", f'name = "{name}"', *(f"{k} = {inline(v)}" for k, v in one.items())]
        )
        for name, one in faults.items()
    )
    session.write_text("\n".join([session.read_text(), *tables]))
    names = inline(list(faults))
    given = sets(
        *(setting for setting in CALM if "vehicle" not in setting),
        f"subsystems.engine.bus={listener.table}",
        'subsystems.engine.database="protected.dbc"',
        f"subsystems.engine.messages={inline(MESSAGES)}",
        f"subsystems.engine.allow_faults={names}",
        'subsystems.test.sequence="faulty.py:Faulty"',
        f"subsystems.test.params={{ faults = {names}, lasting = {lasting} }}",
        f"subsystems.test.adjust={inline([f'faults.{name}' for name in faults])}",
        "subsystems.test.late.max_misses=1000",
    )
    run = Run(session, folder / "runs", *given)
    try:
        yield run
    finally:
        run.clean_up()


def checksums_right(frames: Sequence[can.Message]) -> list[bool]:
    """Whether each frame is whole, by the profile's own library."""
    return [bool(p01.e2e_p01_check(bytearray(f.data), DATA_ID)) for f in frames if f.dlc == 8]


def counter_steps(frames: Sequence[can.Message]) -> list[int]:
    """By how much the counter, the low half of the second byte, goes on from frame to frame."""
    counters = [f.data[1] & 0x0F for f in frames]
    return [(b - a) % 15 for a, b in itertools.pairwise(counters)]
