"""What surrounds a session's run: its options, its folder, and signals from outside."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hilrt.errors import ConfigError
from hilrt.session.result import FailOn


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line adds to a session file.

    Attributes
    ----------
    out : Path
        Folder in which the run's own folder is made.
    duration : float, optional
        Session time, s; default: the session file's.
    pace : str or float, optional
        Instead of the session file's.
    shadow : bool
        Compute every correction and apply none.
    view : bool
        Start the terminal view.
    web : bool
        Start the web page.
    record : bool
        Write a log.
    fail_on : str, optional
        Exit status 5 where the verdict is ``"degraded"`` or worse, or ``"unreliable"``.
    """

    out: Path = Path("runs")
    duration: float | None = None
    pace: str | float | None = None
    shadow: bool = False
    view: bool = False
    web: bool = False
    record: bool = True
    fail_on: FailOn | None = None


def make_folder(out: Path, name: str) -> Path:
    """New folder ``name-time`` in `out`; `ConfigError` if it cannot be made."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{i}" for i in range(2, 100))):
        folder = out / f"{name}-{stamp}{suffix}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(
                f"--out {out}: cannot make a folder there: {error.strerror}; choose another"
            ) from None
        return folder.resolve()
    raise ConfigError(f"--out {out}: too many runs of {name!r} in one second")


@contextlib.contextmanager
def route_signals(interrupt: Callable[[str], None]) -> Iterator[None]:
    """Route SIGINT and SIGTERM to `interrupt` while the session runs."""
    loop = asyncio.get_running_loop()
    names = {signal.SIGINT: "interrupted (Ctrl-C)", signal.SIGTERM: "terminated (SIGTERM)"}
    installed = []
    for number, reason in names.items():
        try:
            loop.add_signal_handler(number, interrupt, reason)
            installed.append(number)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # Windows, or not the main thread: the caller interrupts
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
