"""The session as all clients of the page share it: subscriber, history, client for commands."""

from __future__ import annotations

from collections.abc import Callable

from hilrt.monitor.operator_commands import OperatorCommand, Reply
from hilrt.monitor.viewer import Viewer
from hilrt.web.signal_history import SignalHistory

POLL_MS = 20
#: Commands whose answers are awaited.
MAX_OPEN = 100


class SharedSession:
    """Feeds a `SignalHistory` from a `Viewer`, and passes replies to the client that asked."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.history = SignalHistory()
        viewer.on_signals = self.history.take
        viewer.on_full = self.history.take_full
        self._began_ns = 0
        self._asked: dict[int, Callable[[Reply], None]] = {}

    def poll(self) -> None:
        """Take what has arrived; called from the server's loop."""
        self.viewer.take()
        head = self.viewer.head
        if head is not None and head.signals:
            names = [signal.name for signal in head.signals]
            another = self._began_ns and head.epoch_ns != self._began_ns
            if names != self.history.names or another:
                self.history.restart(names, head.rate)
            self._began_ns = head.epoch_ns
        client = self.viewer.client() if self._asked else None
        for number, reply in client.replies() if client is not None else ():
            answered = self._asked.pop(number, None)
            if answered is not None:
                answered(reply)

    def send(self, command: OperatorCommand, answered: Callable[[Reply], None]) -> bool:
        """Send a command; `answered` gets the reply. False where the session takes none."""
        client = self.viewer.client()
        number = client.send(command) if client is not None else 0
        if number:
            while len(self._asked) >= MAX_OPEN:
                self._asked.pop(next(iter(self._asked)))
            self._asked[number] = answered
        return bool(number)
