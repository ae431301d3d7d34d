"""Options of a run, its folder, and handling of signals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from hilrt.config.session_file import read_session
from hilrt.errors import ConfigError
from hilrt.hosting.load_solver import sequences_of
from hilrt.session.result import FailOn

#: Mode of a run's new folder: only the session's own account may read its files.
FOLDER_MODE: Final = 0o700
#: Signals that end a session normally, and their names in messages.
SIGNALS: Final = {signal.SIGINT: "interrupted (Ctrl-C)", signal.SIGTERM: "terminated (SIGTERM)"}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run that are not in the session file.

    Attributes
    ----------
    out : Path or str
        Folder in which the run's own folder is created, named after session and time.
    folder : Path or str, optional
        The run's own folder instead; it must be new or empty.
    duration : float, optional
        Session time at which the run ends, s; default: the session file's.
    pace : str or float, optional
        ``"realtime"``, ``"asap"`` or a factor; default: the session file's.
    shadow : bool
        Compute corrections without applying them.
    view : bool
        Start the terminal view.
    web : bool
        Start the web page.
    record : bool
        Write a log.
    cluster : str, optional
        Dask cluster whose workers run the processes of groups: the address of its scheduler, the
        path of the scheduler's file, or ``"local"``.
    fail_on : str, optional
        Exit status 5 for this verdict or a worse one: ``"unverified"``, ``"degraded"`` or
        ``"unreliable"``.
    """

    out: Path | str = Path("runs")
    folder: Path | str | None = None
    duration: float | None = None
    pace: str | float | None = None
    shadow: bool = False
    view: bool = False
    web: bool = False
    record: bool = True
    cluster: str | None = None
    fail_on: FailOn | None = None


def run_folder(options: RunOptions, name: str) -> Path:
    """Create the folder of a run, named or chosen; `ConfigError` if that fails."""
    if options.folder is None:
        return make_folder(Path(options.out), name)
    return chosen_folder(Path(options.folder))


def chosen_folder(folder: Path) -> Path:
    """Create a chosen folder; `ConfigError` if that fails or it is not empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        if any(folder.iterdir()):
            raise ConfigError(f"folder {folder}: is not empty; choose another, or remove it")
    except OSError as error:
        raise ConfigError(
            f"folder {folder}: cannot be created: {error.strerror}; choose another"
        ) from None
    return folder.resolve()


def make_folder(out: Path, name: str) -> Path:
    """Create a folder ``name-time`` in `out`; `ConfigError` if that fails."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{i}" for i in range(2, 100))):
        folder = out / f"{name}-{stamp}{suffix}"
        try:
            folder.mkdir(parents=True, mode=FOLDER_MODE)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(
                f"--out {out}: cannot create a folder there: {error.strerror}; choose another"
            ) from None
        return folder.resolve()
    raise ConfigError(f"--out {out}: too many runs of {name!r} in one second")


@contextlib.contextmanager
def route_signals(interrupt: Callable[[str], None]) -> Iterator[None]:
    """Route SIGINT and SIGTERM to `interrupt` while the session runs in this thread's loop.

    Afterwards their previous handling is restored.
    """
    loop = asyncio.get_running_loop()
    before = {}
    for number, reason in SIGNALS.items():
        handler = signal.getsignal(number)
        try:
            loop.add_signal_handler(number, interrupt, reason)
            before[number] = handler
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # Windows, or not the main thread: the caller handles signals
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            if handler is not None:  # None: not installed from Python
                signal.signal(number, handler)


@contextlib.contextmanager
def take_signals(interrupt: Callable[[str], None]) -> Iterator[None]:
    """Route signals as `route_signals` does, for a session in another thread."""

    def request_end(number: int, frame: FrameType | None) -> None:
        interrupt(SIGNALS[signal.Signals(number)])

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, request_end) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Sessions into which `hilrt test` or pytest insert a test sequence.


def named_sequences(file: Path, only: str | None = None) -> dict[str, Path | None]:
    """Sequences of a file, in its order, with the session file that each names."""
    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file; check the path")
    classes = sequences_of(file.name, file.resolve().parent)
    if only is not None:
        classes = {name: cls for name, cls in classes.items() if name == only}
    if not classes:
        wanted = "" if only is None else f" {only!r}"
        raise ConfigError(f"{file}: has no sequence{wanted}; write a subclass of hilrt.Sequence")
    return {
        name: None if cls.session is None else file.parent / cls.session
        for name, cls in classes.items()
    }


def session_of_sequence(file: Path, name: str, session: Path | None) -> tuple[Path, list[str]]:
    """The session file, and its overrides for the class `name` of `file`."""
    if session is None:
        raise ConfigError(
            f"{file}:{name}: no session; give --session, or give the class an attribute `session`"
        )
    tables = read_session(session).session.tables
    places = [key for key, options in tables.subsystems.items() if options.is_sequence]
    if len(places) != 1:
        raise ConfigError(
            f'{session}: has {len(places)} subsystems with adapter = "sequence"; it needs exactly '
            "one, which the test replaces"
        )
    place = os.path.relpath(file.resolve(), session.resolve().parent)
    return session, [f"subsystems.{places[0]}.sequence={json.dumps(f'{place}:{name}')}"]
