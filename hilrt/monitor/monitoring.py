"""Starts what a session is watched with: relay, page, bridge; their addresses and keys."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from hilrt.config.structs import MonitorTable
from hilrt.config.structs import Session as SessionTables
from hilrt.monitor.operator_commands import KEY_VARIABLE
from hilrt.monitor.relay import SETTINGS_VARIABLE, RelaySettings
from hilrt.monitor.stream import BondEdge, ConnectionEdge, Head, SessionGraph, SubsystemNode
from hilrt.session.spawn import Children

#: The operators' token; one is made up for the run where this is not set.
TOKEN_VARIABLE = "HILRT_TOKEN"
NICE = 10
NICE_VIEW = 5


def topology(tables: SessionTables) -> SessionGraph:
    """Subsystems, connections and bonds of a session file."""
    return SessionGraph(
        subsystems=[
            SubsystemNode(name, options.adapter, options.late.policy, options.late.max_misses)
            for name, options in tables.subsystems.items()
        ],
        connections=[ConnectionEdge(c.source, c.target) for c in tables.connections],
        bonds=[BondEdge(b.name, b.efforts, b.flow, b.correction.method) for b in tables.bonds],
    )


class LocalAddresses:
    """Addresses for processes of this machine: sockets in a folder of ours, else free ports."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="hilrt-")) if os.name == "posix" else None

    def get(self, name: str) -> str:
        """An unused ZeroMQ endpoint."""
        if self._folder is not None:
            return f"ipc://{self._folder}/{name}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return f"tcp://127.0.0.1:{probe.getsockname()[1]}"

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._folder)


@dataclass
class Monitoring:
    """How one run is watched: processes, addresses, keys.

    Attributes
    ----------
    table : MonitorTable
    web : bool
        Whether the web page is wanted.
    key : str
        The session's own key, for the processes that it starts.
    run : str
        Tells this run from every other; a command names the one that it is meant for.
    token : str
        Operators' token; empty where the session file allows no commands.
    """

    table: MonitorTable
    web: bool
    local: LocalAddresses = field(default_factory=LocalAddresses)
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    token: str = ""

    def __post_init__(self) -> None:
        if self.table.control:
            self.token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(9)
        self.commands = self.local.get("session")
        self.rows = self.local.get("rows") if self.wanted else ""

    @property
    def wanted(self) -> bool:
        """Whether the session can be watched other than on its terminal."""
        table = self.table
        return self.web or table.listen is not None or table.foxglove is not None

    def hints(self) -> list[str]:
        """Lines for the operator at the start."""
        lines, page = [], self.table.page
        if self.web:
            lines.append(f"page: http://{'' if ':' in page else '127.0.0.1:'}{page}")
        if self.table.listen is not None:
            lines.append(f"telemetry: {self.table.listen}")
        if self.table.foxglove is not None:
            lines.append(f"foxglove: ws://{self.table.foxglove}")
        if self.wanted and self.token and not os.environ.get(TOKEN_VARIABLE):
            lines.append(f"token for {', '.join(self.table.control)}: {self.token}")
        return lines

    def start(self, children: Children, status: str, tables: SessionTables) -> None:
        """Start relay, page and bridge, low in priority."""
        if not self.wanted:
            return
        table = self.table
        settings = RelaySettings(
            rows=self.rows,
            status=status,
            master=self.commands,
            telemetry=self.local.get("telemetry"),
            commands=self.local.get("commands"),
            public_telemetry=table.listen or "",
            public_commands=table.commands or "",
            key=self.key,
            token=self.token,
            head=Head(
                session=tables.session.name,
                run=self.run,
                duration=tables.session.duration,
                rate=table.rate,
                topology=topology(tables),
                control=list(table.control),
                adjustable={n: (bounds.min, bounds.max) for n, bounds in table.adjust.items()},
            ),
        )
        children.start(
            "relay",
            [sys.executable, "-m", "hilrt.monitor.relay"],
            nice=NICE,
            env={SETTINGS_VARIABLE: msgspec.json.encode(settings).decode()},
        )
        if self.web:
            argv = [sys.executable, "-m", "hilrt.web", "--connect", settings.telemetry]
            argv += ["--commands", settings.commands, "--page", table.page]
            children.start("page", argv, nice=NICE)
        if table.foxglove is not None:
            argv = [sys.executable, "-m", "hilrt.monitor.foxglove", "--connect", settings.telemetry]
            children.start("foxglove", [*argv, "--foxglove", table.foxglove], nice=NICE)

    def start_view(self, children: Children, status: str, *, has_keys: bool) -> None:
        """Start the terminal view, which takes the operator's keys if it `has_keys`."""
        argv = [sys.executable, "-m", "hilrt.monitor.terminal", "--connect", status]
        if has_keys:
            argv += ["--commands", self.commands]
        children.start(
            "view",
            argv,
            nice=NICE_VIEW,
            inherit_terminal=True,
            inherit_keys=has_keys,
            env={KEY_VARIABLE: self.key},
        )

    def close(self) -> None:
        """Remove the addresses' folder."""
        self.local.close()
