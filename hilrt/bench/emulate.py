"""``hilrt emulate``: a test bench that is not there, on a CAN bus and on the wall clock.

Nobody steps it: like a real bench it runs by itself, takes set-points when they come, and publishes
measurements. The physics is in `hilrt.models`, its frames in `hilrt.bench.bench_on_bus`; here
are the registry, the loop and the way the process ends. It does not vanish under a gateway that is
running its safe profile: asked to end, it goes on until enable is withdrawn (see `Ending`).
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hilrt.bench.bench_on_bus import COUNTER, BenchOnBus, EmulatedBench
from hilrt.bench.disturb import Disturbance, ScenarioFile, load_scenario
from hilrt.can.bus import open_bus
from hilrt.can.message_options import MessageOptions
from hilrt.can.sender_conflicts import refuse_company
from hilrt.config.from_toml import nearest
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError
from hilrt.timing.clock import monotonic_ns
from hilrt.timing.host import die_with_parent, freeze_gc, parent_alive

CYCLE_NS = 1_000_000
#: A loop that is behind by more gives the missed cycles up: they are skipped, and counted.
CATCH_UP_NS = 20_000_000
#: Cycles between two looks at the garbage and at the parent process.
HOUSEKEEPING_CYCLES = 100


class _Entry(NamedTuple):
    target: str  # "module:Class", imported only when it is wanted
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
    return [(name, entry.description) for name, entry in sorted(BENCHES.items())]


def make_bench(name: str, seed: int = 0) -> EmulatedBench:
    """Emulated bench of that name; `ConfigError` if there is none."""
    entry = BENCHES.get(name)
    if entry is None:
        raise ConfigError(f"there is no emulated bench {name!r}{nearest(name, BENCHES)}")
    module, _, cls = entry.target.partition(":")
    bench: EmulatedBench = getattr(importlib.import_module(module), cls)(seed)
    return bench


def read_scenario(path: Path, name: str) -> ScenarioFile:
    """Scenario for the emulated bench `name`; `ConfigError` with every problem of it."""
    bench = make_bench(name)
    return load_scenario(path, {message: bench.measure(message) for message in bench.sends})


class Fault(NamedTuple):
    """Something that goes wrong on purpose at `at` [s]: ``silent`` or ``die``."""

    kind: str
    at: float

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read ``KIND@SECONDS``; `ConfigError` if it is something else."""
        kind, _, at = text.partition("@")
        with contextlib.suppress(ValueError):
            seconds = float(at)
            if kind in ("silent", "die") and 0.0 <= seconds < math.inf:
                return cls(kind, seconds)
        raise ConfigError(f"--fault {text}: write silent@SECONDS or die@SECONDS")


# ---- the end of the process --------------------------------------------------------------------


class Ending:
    """When a bench that was asked to end does so.

    It goes on while enable is requested and demands still come, because somebody is bringing it
    down: at most `LIMIT_S`. In any case it publishes for `LINGER_S` more, so that the gateway sees
    that it is disabled. A second request ends it at once; several within `ONE_S` are one, because
    the kernel sends the signal of a parent's death anew for each of its threads.
    """

    SILENCE_S = 0.5
    LIMIT_S = 10.0
    LINGER_S = 0.2
    ONE_S = 0.25

    def __init__(self) -> None:
        self.requests = 0
        self._first = 0  # requests that count as the first one
        self._since: float | None = None
        self._held_at = -math.inf

    def request(self, *_: object) -> None:
        """Ask for the end; a signal handler."""
        self.requests += 1

    def due(self, now: float, requested: bool, heard_at: float) -> bool:
        """Whether the process ends now [s].

        Parameters
        ----------
        now : float
            s.
        requested : bool
            Whether enable is requested.
        heard_at : float
            When a demand last came, s.
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


# ---- the loop ----------------------------------------------------------------------------------


def run_loop(
    on_bus: BenchOnBus,
    ending: Ending,
    *,
    duration: float | None = None,
    fault: Fault | None = None,
    housekeeping: Callable[[], None] = lambda: None,
    now_ns: Callable[[], int] = monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
    die: Callable[[], None] = lambda: os._exit(1),
    dies: Callable[[float], bool] = lambda now: False,
) -> tuple[int, int]:
    """Run cycles on an absolute grid until the end is due; return cycles run and skipped.

    Parameters
    ----------
    on_bus : BenchOnBus
    ending : Ending
    duration : float, optional
        The end is requested after that long, s.
    fault : Fault, optional
    housekeeping : callable
        Called every `HOUSEKEEPING_CYCLES` cycles.
    now_ns, sleep, die : callable
        Clock [ns], sleep [s] and sudden death; for tests.
    dies : callable
        Whether sudden death is due at a time [s].
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
        if fault is not None and now >= fault.at:
            if fault.kind == "die":
                die()
            on_bus.silent = True
            fault = None
        if dies(now):
            die()
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
def _signals(ending: Ending) -> Iterator[None]:
    """Let SIGTERM and SIGHUP ask for the end; Ctrl-C is for the session's owner to handle."""
    handlers: dict[str, Any] = {
        "SIGTERM": ending.request,
        "SIGHUP": ending.request,
        "SIGINT": signal.SIG_IGN,
    }
    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread: no signals come here
        for name, handler in handlers.items():
            if hasattr(signal, name):
                number = getattr(signal, name)
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(
    name: str,
    *,
    bus: dict[str, Any],
    database: Path,
    duration: float | None = None,
    seed: int = 0,
    fault: str | None = None,
    scenario: Path | None = None,
    messages: Mapping[str, MessageOptions] | None = None,
    alive: str = COUNTER,
    label: str = "--bus",
) -> int:
    """Run an emulated bench until it is asked to end; the exit status.

    Parameters
    ----------
    name : str
        See `list_benches`.
    bus : dict
        Arguments of python-can's `Bus`.
    database : Path
        CAN database.
    duration : float, optional
        Asks itself to end after that long, s.
    seed : int
        Of the sensor noise.
    fault : str, optional
        ``silent@SECONDS``: publishes nothing any more; ``die@SECONDS``: ends without a word.
    scenario : Path, optional
        What goes wrong, and when: see `hilrt.bench.disturb`.
    messages : mapping of str to MessageOptions, optional
        Counters and protection of single messages, by name, as the gateway has them.
    alive : str
        Name of the counter signal looked for in each message.
    label : str
        Where the bus was given, for messages.

    Returns
    -------
    int
        0; 2 if something given is wrong, after one line per problem on standard error.
    """
    parent = os.getppid()
    ending = Ending()
    with _signals(ending):
        try:
            bench = make_bench(name, seed)
            disturbance = Disturbance(read_scenario(scenario, name)) if scenario else None
            again = partial(make_bench, name, seed)
            on_bus = BenchOnBus(bench, Path(database), disturbance, again, messages, alive)
            planned = None if fault is None else Fault.parse(fault)
            refuse_company(bus, on_bus.published, label)
            opened = open_bus(bus, on_bus.demands, label)
        except ConfigError as error:
            for problem in error.problems:
                print(f"hilrt emulate: {problem}", file=sys.stderr)
            return 2
        on_bus.attach(opened.drain, opened.send)
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
                    duration=duration,
                    fault=planned,
                    housekeeping=housekeeping,
                    dies=disturbance.dies if disturbance else lambda now: False,
                )
            finally:
                opened.close()
    print(
        f"hilrt emulate: {name} ended after {cycles} cycles, {skipped} skipped; frames: "
        f"{on_bus.sent} sent, {on_bus.received} received, {on_bus.bad_frames} unreadable, "
        f"{on_bus.checksum_errors} with a wrong checksum, {on_bus.send_errors} not sent, "
        f"{opened.errors} bus errors",
        file=sys.stderr,
    )
    return 0


def from_session(
    session_path: str | Path,
    subsystem: str,
    *,
    name: str | None = None,
    duration: float | None = None,
    seed: int = 0,
    fault: str | None = None,
    scenario: Path | None = None,
    overrides: Sequence[str] = (),
) -> int:
    """`main` with bus, database and bench of a session file's ``[subsystems.NAME]`` table."""
    label = f"[subsystems.{subsystem}]"
    try:
        session = load_session(session_path, overrides)
        options: Any = session.tables.subsystems.get(subsystem)
        if options is None:
            known = nearest(subsystem, session.tables.subsystems)
            raise ConfigError(f"{session.path.name}: there is no {label}{known}")
        if not hasattr(options, "bus") or not hasattr(options, "database"):
            raise ConfigError(
                f"{session.path.name}: {label} adapter = {options.adapter!r} has no bus; "
                'a bench needs adapter = "can"'
            )
        name = name or options.emulator
        if name is None:
            raise ConfigError(
                f"{session.path.name}: {label} emulator: is missing; "
                f"name one of {', '.join(sorted(BENCHES))}"
            )
    except ConfigError as error:
        for problem in error.problems:
            print(f"hilrt emulate: {problem}", file=sys.stderr)
        return 2
    return main(
        name,
        bus=options.bus,
        database=session.folder / options.database,
        duration=duration,
        seed=seed,
        fault=fault,
        scenario=scenario or (session.folder / options.scenario if options.scenario else None),
        messages=options.messages,
        alive=options.alive,
        label=f"{label} bus",
    )
