"""The terminal view: a process that shows a running session.

``python -m hilrt.monitor.terminal --connect ADDRESS``. It ends with the session, on SIGTERM, or
when the session has been silent for half a minute (a first start compiles the numerics). It always
restores the cursor. It ignores SIGINT: Ctrl-C is for the session.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable

import msgspec
import zmq
from rich.console import Console

from hilrt.isolation.temporary_folder import connect
from hilrt.monitor.operator_commands import KEY_VARIABLE, CommandClient
from hilrt.monitor.output import be_patient, open_closed_streams
from hilrt.monitor.panel import flag_words
from hilrt.monitor.screen import SILENCE_S, run
from hilrt.monitor.telemetry import EventStatus, Status, decode, merged

__all__ = ["Watcher", "flag_words", "main"]

#: Longest wait for the session's first status, s.
CONNECT_S = 60.0
#: Maximum time to wait for a reader of the output, s; after that, lines are dropped.
PATIENCE_S = 0.5


class Watcher:
    """Receiver of the newest status of a session on this machine; detects its end.

    Parameters
    ----------
    address : str
        Address that the session publishes at.
    commands : str
        Address for commands; empty for none.
    clock : callable
        Monotonic time, s.
    """

    def __init__(
        self, address: str, commands: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.status: Status | None = None
        self.stop = False
        self.silent = False
        self.key = os.environ.get(KEY_VARIABLE, "")
        self.types = bool(commands)
        self._clock = clock
        self._heard_at = clock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.CONFLATE, 1)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        connect(self._socket, address)
        self._client = CommandClient(commands, self._context) if commands else None

    def poll(self, wait_ms: int) -> bool:
        """Wait at most `wait_ms` [ms] for a status; return whether there is a new one."""
        if not self._socket.poll(wait_ms):
            self.silent = self.age > (CONNECT_S if self.status is None else SILENCE_S)
            return False
        try:
            self.status = merged(self.status, decode(self._socket.recv()))
        except msgspec.MsgspecError:
            return False
        self._heard_at = self._clock()
        return True

    @property
    def age(self) -> float:
        """Time since the session's last message, s."""
        return self._clock() - self._heard_at

    def events(self) -> list[EventStatus]:
        """Newest events."""
        return [] if self.status is None else self.status.events

    def client(self) -> CommandClient | None:
        """Client for commands to the session; None if it accepts none."""
        return self._client

    def close(self) -> None:
        """Close the sockets."""
        self._context.destroy(linger=0)


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="hilrt view", description="Shows a running session.")
    parser.add_argument("--connect", required=True, help="address of the session's telemetry")
    parser.add_argument("--commands", default="", help="address for the operator's commands")
    options = parser.parse_args(arguments)
    watcher = Watcher(options.connect, options.commands)

    def stop(*_: object) -> None:
        watcher.stop = True

    open_closed_streams()
    be_patient(PATIENCE_S)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, stop)
    try:
        run(watcher, Console())
    finally:
        watcher.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
