"""Monitoring of one run: its status, the processes that display it, and their keys."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from importlib.util import find_spec
from typing import Final

import msgspec

from hilrt.config.structs import Session as SessionTables
from hilrt.errors import ConfigError
from hilrt.isolation.temporary_folder import LocalAddresses
from hilrt.monitor.operator_commands import KEY_VARIABLE, TOKEN_VARIABLE, CommandPort
from hilrt.monitor.read_token import (
    READ_TOKEN_VARIABLE,
    bind_page,
    close,
    read_token,
    refuse_taken,
    with_token,
)
from hilrt.monitor.relay import SETTINGS_VARIABLE, RelaySettings
from hilrt.monitor.session_state import owns_terminal
from hilrt.monitor.status import StatusPublisher
from hilrt.monitor.stream import Head, session_graph
from hilrt.monitor.telemetry import Telemetry
from hilrt.session.operation import Operator
from hilrt.session.run import RunOptions
from hilrt.session.spawn import SINGLE_THREAD, Children, Inherited

NICE = 10
NICE_VIEW = 5
#: Processes that display the session; a user may close them at any time.
VIEWS: Final = frozenset({"view", "relay", "page", "foxglove"})


class Monitoring:
    """Status, terminal view, relay, page and bridge of a run, and the socket for commands.

    Parameters
    ----------
    tables : Session
        The session file.
    options : RunOptions
    real_time : bool
        Whether the session runs in real time; otherwise it publishes no status without watchers.

    Attributes
    ----------
    publisher : StatusPublisher
    local : LocalAddresses
    key : str
        The session's own key, for the processes that it starts.
    run : str
        Unique identifier of this run; a command names the run that it is for.
    token : str
        Token that permits operators' commands; empty if the session file permits none.
    rows : str
        Address to which the recorder forwards rows; empty if no view needs them.
    view_has_keys : bool
        Whether the terminal view reads the keyboard.
    """

    def __init__(self, tables: SessionTables, options: RunOptions, real_time: bool) -> None:
        self._tables, self._table = tables, tables.monitor
        self._web, self._view = options.web, options.view
        self._real_time = real_time
        self.local = LocalAddresses()
        self._environment = {**SINGLE_THREAD, **self.local.environment}
        self.key, self.run = secrets.token_hex(16), secrets.token_hex(8)
        self.token = ""
        if self._table.control:
            self.token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(9)
        self._commands = self.local.get("session")
        self.rows = self.local.get("rows") if self.wanted else ""
        self.view_has_keys = False
        self._page: list[socket.socket] = []
        self._port: CommandPort | None = None
        watched = options.view or real_time or self.wanted
        self._telemetry = Telemetry(self.local.get("status")) if watched else None
        self.publisher = StatusPublisher(
            self._telemetry,
            tables.session.name,
            options.duration or tables.session.duration,
            self.run,
            self._table.adjust,
        )

    @property
    def wanted(self) -> bool:
        """Whether anything except the terminal view may watch the session."""
        return self._web or self._table.listen is not None or self._table.foxglove is not None

    @property
    def answers_prompts(self) -> bool:
        """Whether an operator can answer prompts: on the terminal, or with the token.

        A session as fast as possible has no prompts, because its session time does not wait.
        """
        shown = self._web or (self.wanted and bool(self._table.commands))
        with_token = shown and "answer" in self._table.control
        return self._real_time and (self.view_has_keys or with_token)

    def listen(self) -> None:
        """Bind the page's port for its process; `ConfigError` if a port is in use."""
        refuse_taken(self._table)
        if not self._web:
            return
        for module in ("bokeh", "prometheus_client"):
            if find_spec(module) is None:
                raise ConfigError(f"--web: the page needs {module}; install hilrt[web]")
        self._page = bind_page(self._table.page)

    def hints(self) -> list[str]:
        """Hints for the operator at the start."""
        lines, page = [], self._table.page
        if self._web:
            address = f"http://{'' if ':' in page else '127.0.0.1:'}{page}"
            lines.append(f"page: {with_token(address, read_token())}")
        if self._table.listen is not None:
            lines.append(f"telemetry: {self._table.listen}")
        if self._table.foxglove is not None:
            address = f"ws://{self._table.foxglove}"
            lines.append(f"foxglove: {with_token(address, read_token())}")
        if self.wanted and self.token and not os.environ.get(TOKEN_VARIABLE):
            lines.append(f"token for {', '.join(self._table.control)}: {self.token}")
        return lines

    def start(self, children: Children, operator: Operator) -> None:
        """Start the processes that display the session, and receive commands from them."""
        if self._telemetry is None:
            return
        for line in self.hints():
            sys.stderr.write(f"{line}\n")
        self._port = CommandPort(self._commands, self.key, operator.obey, operator.refused)
        self._port.start()
        if self._view:
            self.view_has_keys = owns_terminal()
            self._start_view(children, self._telemetry.address)
        if self.wanted:
            self._start_relay(children, self._telemetry.address)

    def close(self) -> None:
        """Close the sockets, and remove the files of their addresses."""
        close(self._page)
        if self._port is not None:
            self._port.close()
        self.local.close()
        if self._telemetry is not None:
            self._telemetry.close()

    def _start_view(self, children: Children, status: str) -> None:
        argv = [sys.executable, "-P", "-m", "hilrt.monitor.terminal", "--connect", status]
        if self.view_has_keys:
            argv += ["--commands", self._commands]
        children.start(
            "view",
            argv,
            nice=NICE_VIEW,
            inherits=Inherited(terminal=True, keys=self.view_has_keys),
            env={KEY_VARIABLE: self.key, **self._environment},
        )

    def _start_relay(self, children: Children, status: str) -> None:
        """Start relay, page and bridge at low priority."""
        table, tables = self._table, self._tables
        settings = RelaySettings(
            rows=self.rows,
            status=status,
            master=self._commands,
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
                topology=session_graph(tables),
                values=list(table.values),
                control=list(table.control),
                adjustable={n: (bounds.min, bounds.max) for n, bounds in table.adjust.items()},
            ),
        )
        children.start(
            "relay",
            [sys.executable, "-P", "-m", "hilrt.monitor.relay"],
            nice=NICE,
            env={
                SETTINGS_VARIABLE: msgspec.json.encode(settings).decode(),
                **self._environment,
            },
        )
        if self._web:
            self._start_page(children, settings)
        if table.foxglove is not None:
            argv = [sys.executable, "-P", "-m", "hilrt.monitor.foxglove"]
            argv += ["--connect", settings.telemetry, "--foxglove", table.foxglove, "--of-session"]
            environment = {READ_TOKEN_VARIABLE: read_token(), **self._environment}
            children.start("foxglove", argv, nice=NICE, env=environment)

    def _start_page(self, children: Children, settings: RelaySettings) -> None:
        argv = [sys.executable, "-P", "-m", "hilrt.web", "--connect", settings.telemetry]
        argv += ["--commands", settings.commands, "--page", self._table.page]
        environment = {READ_TOKEN_VARIABLE: read_token(), **self._environment}
        if os.name == "posix":
            numbers = tuple(one.fileno() for one in self._page)
            argv += ["--sockets", *map(str, numbers)]
            inherited = Inherited(descriptors=numbers)
            children.start("page", argv, nice=NICE, env=environment, inherits=inherited)
            close(self._page)  # the port is freed with the page's process
        else:  # the page's process binds the port again
            close(self._page)
            children.start("page", argv, nice=NICE, env=environment)
