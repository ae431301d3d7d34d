"""Addresses for sockets between the processes of one session, on one machine."""

from __future__ import annotations

import os
import socket

from hilrt.temporary_folder import TemporaryFolder


class LocalAddresses:
    """Addresses for processes of this machine: sockets in a folder of ours, else free ports.

    `ConfigError` if no folder can be made.
    """

    def __init__(self) -> None:
        self._folder = TemporaryFolder("sockets") if os.name == "posix" else None

    def get(self, name: str) -> str:
        """An unused ZeroMQ endpoint."""
        if self._folder is not None:
            return f"ipc://{self._folder.path}/{name}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return f"tcp://127.0.0.1:{probe.getsockname()[1]}"

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            self._folder.remove()
