"""A test sequence on the emulated bench that fails in each way, and what must follow.

The sequence notes each line that it reaches, and when, in a file of its own: what the session says
of the line is held against that.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import hilrt
from tests.scenarios.sessions import (
    CALM,
    Listener,
    Run,
    assert_brought_down,
    assert_fault,
    engine_session,
    sets,
)

FILE: Final = "failing.py"
NOTES: Final = "reached.txt"
SEQUENCE: Final = '''
import sys
import time

from hilrt import Port, Sequence


def note():
    """The line after the one that calls this."""
    with open("reached.txt", "a") as file:
        file.write(f"{sys._getframe(1).f_lineno + 1} {time.time()}\\n")


class Failing(Sequence):
    reads = ("engine.speed",)
    drives = (Port("speed_demand", "rad/s"), Port("pedal", "%"))

    def __init__(self, fault):
        self.fault = fault

    async def run(self, bench):
        note()
        await bench.ramp("speed_demand", to=100.0, rate=500.0)
        note()
        await bench.ramp("pedal", to=30.0, time=0.1)
        if self.fault == "raise":
            note()
            raise ValueError("as asked for")
        if self.fault == "time-out":
            note()
            await bench.until("engine.speed > 600", timeout=0.3)
        while self.fault == "hang":
            note()
            time.sleep(1000.0)
        while True:
            note()
            await bench.ramp("pedal", to=40.0, time=0.3)
            note()
            await bench.wait(0.2)
            note()
            await bench.ramp("pedal", to=30.0, time=0.3)
'''
#: What the fault says of each, beside the line; Ctrl-C is none.
SAID: Final = {
    "kill": "SIGKILL",
    "raise": "ValueError: as asked for",
    "time-out": "StepTimeout: engine.speed > 600 did not hold within 0.3 s",
    "hang": "has not waited for a communication point",
    "interrupt": "",
}
#: Ticks of 0.01 s after which the sequence counts as hanging.
MAX_MISSES: Final = 50


class Reached(NamedTuple):
    """The newest line that the sequence has noted, and when, s since 1970."""

    line: int
    t: float


@contextlib.contextmanager
def failing_run(
    folder: Path, listener: Listener, fault: str, *, as_test: bool = False
) -> Iterator[Run]:
    """A running session with the sequence, by ``hilrt run`` or by ``hilrt test``."""
    session = engine_session(folder / "configs").with_name("tip_in.toml")
    file = session.with_name(FILE)
    file.write_text(SEQUENCE)
    given = sets(
        *(setting for setting in CALM if "vehicle" not in setting),
        f"subsystems.engine.bus={listener.table}",
        f'subsystems.test.sequence="{FILE}:Failing"',
        f'subsystems.test.params={{ fault="{fault}" }}',
        f"subsystems.test.late.max_misses={MAX_MISSES}",
    )
    run = Run(session, folder / "runs", *given, test=file if as_test else None, true_start=as_test)
    try:
        yield run
    finally:
        run.clean_up()


def reached(run: Run) -> Reached | None:
    """Where the sequence was when it last noted it."""
    with contextlib.suppress(FileNotFoundError):
        whole = re.findall(r"(\d+) (\S+)\n", run.session.with_name(NOTES).read_text())
        return Reached(int(whole[-1][0]), float(whole[-1][1])) if whole else None
    return None


def until_driving(run: Run, listener: Listener) -> None:
    """Until the bench has a pedal from the sequence."""

    def pedal() -> bool:
        frame = listener.newest("EngineDemand")
        return frame is not None and frame["Pedal"] > 0.0

    run.until(pedal, "a pedal from the sequence")


def strike(run: Run, fault: str) -> None:
    """Do from outside what the sequence does not do by itself."""
    if fault == "kill":
        os.kill(run.children()["sequence"], signal.SIGKILL)
    elif fault == "interrupt":
        run.signal(signal.SIGINT)  # to all processes, as a terminal does


def assert_safe_and_told(run: Run, listener: Listener, fault: str, since: float) -> None:
    """Exit status, the bench at its safe values for good, and the line in the log."""
    if fault == "interrupt":
        assert run.wait() == 130, run.stderr
        assert "Traceback" not in run.stderr
    else:
        assert_fault(run, "'test'", SAID[fault])
    assert_brought_down(listener, since)
    at = reached(run)
    assert at is not None
    place = f"{FILE}:{at.line}"
    events = hilrt.load_log(run.folder).events
    steps = [event.text for event in events if event.cause == "sequence_step"]
    faults = [event.text for event in events if event.level == "error"]
    told = steps[-1] if fault == "interrupt" else next(f for f in faults if SAID[fault] in f)
    assert re.search(rf"\b{re.escape(place)}\b", told), (place, told)


def safe_after(listener: Listener, since: float) -> float:
    """From `since` to the last frame that is not at the safe values, s."""
    demands = {"DynoDemand": "Speed", "EngineDemand": "Pedal"}
    away = [f.t for name, port in demands.items() for f in listener.frames(name) if f[port] != 0.0]
    return max(0.0, max(away) - since)
