"""The process of an emulated bench on its bus: known benches, the loop, and its end."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hilrt.bench.bench_on_bus import COUNTER, AdjustableBench, BenchOnBus, EmulatedBench
from hilrt.bench.disturb import Disturbance, ScenarioFile, load_scenario
from hilrt.can.bus import CanBus, open_bus
from hilrt.can.protection import MessageOptions
from hilrt.can.sender import refuse_conflicts
from hilrt.config.from_toml import nearest
from hilrt.config.session_tables import FaultTable
from hilrt.errors import ConfigError
from hilrt.timing.host import freeze_gc
from hilrt.timing.monotonic import monotonic_ns
from hilrt.timing.parent import die_with_parent, parent_alive


class EmulatorEnding:
    """Decision when an emulated bench ends after a request.

    While enable is requested and demands still arrive, it is being brought to rest and continues,
    for at most `LIMIT_S`. It then publishes for another `LINGER_S`, so that the gateway detects
    that it is disabled. A second request ends it at once; requests within `ONE_S` count as one,
    because the kernel sends the parent's death signal once per thread.
    """

    SILENCE_S = 0.5
    LIMIT_S = 10.0
    LINGER_S = 0.2
    ONE_S = 0.25

    def __init__(self) -> None:
        self.requests = 0
        self._first = 0  # number of requests that count as the first
        self._since: float | None = None
        self._held_at = -math.inf

    def request(self, *_: object) -> None:
        """Request the end; usable as a signal handler."""
        self.requests += 1

    def due(self, now: float, requested: bool, heard_at: float) -> bool:
        """Whether the process should end now.

        Parameters
        ----------
        now : float
            Current time, s.
        requested : bool
            Whether enable is requested.
        heard_at : float
            Time of the newest demand, s.
        """
        if not self.requests:
            return False
        if self._since is None:
            self._since = self._held_at = now
        if now - self._since < self.ONE_S:
            self._first = self.requests
        elif self.requests > self._first:
            return True
        if requested and now - heard_at <= self.SILENCE_S:
            self._held_at = now
        return now - self._held_at >= self.LINGER_S or now - self._since >= self.LIMIT_S


class _Entry(NamedTuple):
    target: str  # "module:Class"
    description: str


BENCHES: dict[str, _Entry] = {
    "engine": _Entry(
        "hilrt.models.engine_bench:EngineBench",
        "engine on a dynamometer (bench_configs/engine_bench.dbc)",
    ),
    "hydraulic_axis": _Entry(
        "hilrt.models.hydraulic_axis_bench:HydraulicAxisBench",
        "hydraulic axis against a specimen (bench_configs/hydraulic_axis_bench.dbc)",
    ),
    "motor": _Entry(
        "hilrt.models.motor_bench:MotorBench",
        "electric motor on a dynamometer (bench_configs/motor_bench.dbc)",
    ),
}


def list_benches() -> list[tuple[str, str]]:
    """Name and description of every emulated bench."""
    own = [(name, entry.description) for name, entry in sorted(BENCHES.items())]
    return [
        *own,
        ("database", "constants in the messages of a session's bench (--session, --subsystem)"),
        ("module:Class", "the same, with outputs that a hilrt.Solver computes"),
    ]


def make_bench(name: str, seed: int = 0) -> EmulatedBench:
    """Create the emulated bench of that name; `ConfigError` if there is none."""
    entry = BENCHES.get(name)
    if entry is None:
        raise ConfigError(f"there is no emulated bench {name!r}{nearest(name, BENCHES)}")
    module, _, cls = entry.target.partition(":")
    bench: EmulatedBench = getattr(importlib.import_module(module), cls)(seed)
    return bench


def read_scenario(path: Path, bench: EmulatedBench) -> ScenarioFile:
    """Read a scenario for an emulated bench; `ConfigError` with every problem in it."""
    return load_scenario(path, {message: bench.measure(message) for message in bench.sends})


#: First words of the session's lines that switch a fault or change a parameter.
FAULT_WORD, SET_WORD = "fault", "set"
#: First word of a line to the session about a refused parameter.
REFUSED_WORD = "refused"
STANDARD_INPUT, STANDARD_OUTPUT = 0, 1
CYCLE_NS = 1_000_000
#: Lag of the loop above which missed cycles are skipped and counted, ns.
CATCH_UP_NS = 20_000_000
#: Cycles between two rounds of housekeeping (garbage collection, parent process).
HOUSEKEEPING_CYCLES = 100


class Fault(NamedTuple):
    """A deliberate fault at `at` [s]: ``silent`` or ``die``."""

    kind: str
    at: float

    def __call__(self, now: float) -> str:
        """Return the fault at `now` [s]; empty if there is none."""
        return self.kind if now >= self.at else ""

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse ``KIND@SECONDS``; `ConfigError` for any other text."""
        kind, _, at = text.partition("@")
        with contextlib.suppress(ValueError):
            seconds = float(at)
            if kind in ("silent", "die") and 0.0 <= seconds < math.inf:
                return cls(kind, seconds)
        raise ConfigError(f"--fault {text}: write silent@SECONDS or die@SECONDS")


# ---- the loop ----------------------------------------------------------------------------------


def run_loop(
    on_bus: BenchOnBus,
    ending: EmulatorEnding,
    *,
    duration: float | None = None,
    fault: Callable[[float], str] = lambda now: "",
    housekeeping: Callable[[], None] = lambda: None,
    now_ns: Callable[[], int] = monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
    die: Callable[[], None] = lambda: os._exit(1),
) -> tuple[int, int]:
    """Run cycles on a fixed time grid until the end is due; return cycles run and skipped.

    Parameters
    ----------
    on_bus : BenchOnBus
    ending : EmulatorEnding
    duration : float, optional
        Time after which the end is requested, s.
    fault : callable
        Returns the deliberate fault at a time [s]: ``silent``, ``die`` or "".
    housekeeping : callable
        Called every `HOUSEKEEPING_CYCLES` cycles.
    now_ns, sleep, die : callable
        Clock [ns], sleep [s] and abrupt end; replaced in tests.
    """
    epoch = now_ns()
    k = cycles = skipped = 0
    while True:
        k += 1
        late = now_ns() - epoch - k * CYCLE_NS
        if late < 0:
            sleep(-late * 1e-9)
        elif late > CATCH_UP_NS:
            missed = late // CYCLE_NS
            k += missed
            skipped += missed
        now = k * 1e-3
        wrong = fault(now)
        if wrong == "die":
            die()
        on_bus.silent |= wrong == "silent"
        on_bus.cycle(now)
        cycles += 1
        if duration is not None and now >= duration:
            ending.request()
            duration = None
        if ending.due(now, on_bus.bench.requested, on_bus.heard_at):
            return cycles, skipped
        if cycles % HOUSEKEEPING_CYCLES == 0:
            housekeeping()


@contextlib.contextmanager
def _signals(ending: EmulatorEnding) -> Iterator[None]:
    """Make SIGTERM and SIGHUP request the end, and ignore Ctrl-C, which the session handles."""
    handlers: dict[str, Any] = {
        "SIGTERM": ending.request,
        "SIGHUP": ending.request,
        "SIGINT": signal.SIG_IGN,
    }
    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread, which gets the signals
        for name, handler in handlers.items():
            if hasattr(signal, name):
                number = getattr(signal, name)
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Emulation:
    """Description of an emulated bench to run.

    Parameters
    ----------
    name : str
        See `list_benches`.
    bus : dict
        Arguments of python-can's `Bus`.
    database : Path
        CAN database.
    duration : float, optional
        Time after which it ends, s.
    seed : int
        Seed of the sensor noise.
    fault : str, optional
        ``silent@SECONDS``: stops publishing; ``die@SECONDS``: ends abruptly.
    scenario : Path, optional
        Faults and their times: see `hilrt.bench.disturb`.
    messages : mapping of str to MessageOptions, optional
        Counters and protection of single messages, by name, as the gateway has them.
    alive : str
        Name of the counter signal searched for in each message.
    label : str
        Place where the bus is specified, for error messages.
    make : callable, optional
        Creates the bench; default: the one called `name`.
    faults : sequence of FaultTable
        Faults of the session, which switches them by lines on standard input, ``fault NAME 1``.
    adjusted : bool
        Whether the session changes parameters of the bench, by lines ``set NAME VALUE``.
    """

    name: str
    bus: dict[str, Any]
    database: Path
    duration: float | None = None
    seed: int = 0
    fault: str | None = None
    scenario: Path | None = None
    messages: Mapping[str, MessageOptions] | None = None
    alive: str = COUNTER
    label: str = "--bus"
    make: Callable[[], EmulatedBench] | None = None
    faults: Sequence[FaultTable] = ()
    adjusted: bool = False


class _Opened(NamedTuple):
    """Opened bench and bus of an `Emulation`."""

    on_bus: BenchOnBus
    bus: CanBus
    fault: Callable[[float], str]


def _open(emulation: Emulation) -> _Opened:
    """Create the bench and open the bus; `ConfigError` for wrong arguments."""
    make = emulation.make or partial(make_bench, emulation.name, emulation.seed)
    bench = make()
    disturbance = lines = None
    if emulation.scenario or emulation.faults:
        scenario = (
            read_scenario(emulation.scenario, bench) if emulation.scenario else ScenarioFile()
        )
        disturbance = Disturbance(scenario, emulation.faults)
    on_bus = BenchOnBus(
        bench, emulation.database, disturbance, make, emulation.messages, emulation.alive
    )
    planned = None if emulation.fault is None else Fault.parse(emulation.fault)
    refuse_conflicts(emulation.bus, on_bus.published, emulation.label)
    bus = open_bus(emulation.bus, on_bus.demands, emulation.label)
    on_bus.attach(bus.drain, bus.send)

    def handle(word: str, name: str, value: str) -> None:
        if word == FAULT_WORD and disturbance is not None:
            disturbance.switch(name, value == "1")
        if word == SET_WORD and isinstance(on_bus.bench, AdjustableBench):
            refused = on_bus.bench.set_parameter(name, float(value))
            if refused:
                text = f"parameter {name} = {float(value):g} is refused: {refused}"
                print(f"hilrt emulate: {text}", file=sys.stderr)
                with contextlib.suppress(OSError):  # the session has closed its end
                    os.write(STANDARD_OUTPUT, f"{REFUSED_WORD} {text}\n".encode())

    if (emulation.faults or emulation.adjusted) and not os.isatty(STANDARD_INPUT):
        lines = SessionLines(STANDARD_INPUT, handle)
        os.set_blocking(STANDARD_OUTPUT, False)

    def fault(now: float) -> str:
        if lines is not None:
            lines.read()
        if disturbance is not None and disturbance.dies(now):
            return "die"
        return planned(now) if planned is not None else ""

    return _Opened(on_bus, bus, fault)


class SessionLines:
    """Lines from the session on a descriptor, read without blocking.

    Parameters
    ----------
    descriptor : int
        Pipe from the session.
    handle : callable
        Called with the three words of a line.
    """

    def __init__(self, descriptor: int, handle: Callable[[str, str, str], None]) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor, self._handle = descriptor, handle
        self._rest = b""

    def read(self) -> None:
        """Handle the lines that have arrived."""
        with contextlib.suppress(OSError):  # nothing has arrived
            *lines, self._rest = (self._rest + os.read(self._descriptor, 4096)).split(b"\n")
            for line in lines:
                words = line.decode(errors="replace").split(" ")
                if len(words) == 3:
                    self._handle(*words)


def main(emulation: Emulation) -> int:
    """Run an emulated bench until its end is requested; return the exit status.

    Returns
    -------
    int
        0; or 2 for wrong arguments, after one line per problem on standard error.
    """
    parent = os.getppid()
    ending = EmulatorEnding()
    # Standard output is the channel to the session: prints of a user's class go to the log.
    with _signals(ending), contextlib.redirect_stdout(sys.stderr):
        try:
            on_bus, bus, fault = _open(emulation)
        except ConfigError as error:
            return refuse(error)
        watched = die_with_parent(signal.SIGTERM, parent)
        with freeze_gc() as collect:

            def housekeeping() -> None:
                collect(CYCLE_NS // 2)
                if not watched and not ending.requests and not parent_alive(parent):
                    ending.request()

            try:
                cycles, skipped = run_loop(
                    on_bus,
                    ending,
                    duration=emulation.duration,
                    fault=fault,
                    housekeeping=housekeeping,
                )
            finally:
                bus.close()
    print(
        f"hilrt emulate: {emulation.name} ended after {cycles} cycles, {skipped} skipped; frames: "
        f"{on_bus.sent} sent, {on_bus.received} received, {on_bus.bad_frames} unreadable, "
        f"{on_bus.checksum_errors} with a wrong checksum, {on_bus.send_errors} not sent, "
        f"{bus.errors} bus errors",
        file=sys.stderr,
    )
    return 0


def refuse(error: ConfigError) -> int:
    """Print a line per problem on standard error; return the exit status."""
    for problem in error.problems:
        print(f"hilrt emulate: {problem}", file=sys.stderr)
    return 2
