"""``hilrt watch``: terminal view of a session on another machine, with keys if allowed."""

from __future__ import annotations

import os
import signal
import sys

import zmq
from rich.console import Console

from hilrt.monitor.operator_commands import TOKEN_VARIABLE, CommandClient
from hilrt.monitor.screen import SILENCE_S, run
from hilrt.monitor.session_state import owns_terminal
from hilrt.monitor.telemetry import EventStatus
from hilrt.monitor.viewer import Viewer

#: Time limit for the session's stream to appear, s.
CONNECT_S = 10.0
#: Number of newest events that the view groups by kind.
KEPT_EVENTS = 50


def main(address: str, plain: bool = False) -> int:
    """Watch until the session ends; exit status 0, 2: bad address, 3: session silent.

    Parameters
    ----------
    address : str
        Address from ``[monitor] listen``, with the machine's name.
    plain : bool
        Print lines instead of the live view.
    """
    try:
        viewer = Viewer(address, signals=False)
    except zmq.ZMQError as error:
        sys.stderr.write(f"{address}: {error}; write it as tcp://HOST:PORT, see [monitor] listen\n")
        return 2
    watcher = RemoteWatcher(viewer)

    def stop(*_: object) -> None:
        watcher.stop = True

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        run(watcher, Console(), plain, print_end=True)
    except BrokenPipeError:
        return 0
    finally:
        viewer.close()
    if watcher.status is None and not watcher.stop:
        sys.stderr.write(
            f"{address}: nothing received for {CONNECT_S:g} s; check the address, and that the "
            "session runs with [monitor] listen\n"
        )
        return 3
    return 3 if watcher.silent else 0


class RemoteWatcher:
    """Adapter of a `Viewer` to the terminal view's interface; see `terminal.Watcher`."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.stop = False
        self.silent = False
        self.types = owns_terminal()
        self.status = viewer.status
        self._ends_at = viewer.heard_at + CONNECT_S
        self.key = os.environ.get(TOKEN_VARIABLE, "")

    def poll(self, wait_ms: int) -> bool:
        """Wait for a status; return whether there is a new one."""
        before, viewer = self.viewer.status, self.viewer
        viewer.poll(wait_ms)
        self.status = viewer.status
        if self.status is None:
            self.silent = viewer.now > self._ends_at
            return False
        self.silent = self.age > SILENCE_S and not viewer.ended
        return self.status is not before

    @property
    def age(self) -> float:
        """Time since the session's last message, s."""
        return self.viewer.now - self.viewer.heard_at

    def events(self) -> list[EventStatus]:
        """Newest events."""
        newest = list(self.viewer.events.values())[-KEPT_EVENTS:]
        return [EventStatus(event.t, event.text, event.value) for event in newest]

    def client(self) -> CommandClient | None:
        """Client for commands; None without a token, or if the session accepts none."""
        return self.viewer.client() if self.key else None
