"""The terminal view: a process that shows a running session.

``python -m hilrt.monitor.terminal --connect ADDRESS``. On a terminal it draws a live panel;
anywhere else (a pipe, a log file, a narrow window) it prints a line every two seconds. It ends with
the session, when the session has been silent for half a minute (its first start compiles the
numerics), or on SIGTERM, and always gives the cursor back. SIGINT is ignored: Ctrl-C is for the
session.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import zmq
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hilrt.monitor.closing_table import COLOURS
from hilrt.monitor.commands import KEY_VARIABLE, CommandClient
from hilrt.monitor.keys import Keys, typing
from hilrt.monitor.sparkline import LENGTH, Traces
from hilrt.monitor.telemetry import Flag, Status, decode
from hilrt.monitor.viewer import merged
from hilrt.wording import number, words

SILENCE_S = 30.0
POLL_MS = 100
#: How long the session may take to say its first word, s.
CONNECT_S = 60.0
PLAIN_PERIOD_S = 2.0
MIN_WIDTH, MIN_HEIGHT = 80, 16
#: Columns of a terminal that has room for small plots.
PLOT_WIDTH = 96
MAX_VALUES = 12
FINAL_STATES = {"STOPPED", "FAULT"}


# -- what is shown -------------------------------------------------------------------------------


def live_view(status: Status, line: str = "", traces: Traces | None = None) -> RenderableType:
    """The panel that is redrawn while a session runs.

    `line` stands below everything; `traces` are plotted beside the values.
    """
    parts: list[RenderableType] = [_progress(status), _timing(status)]
    body = Table.grid(padding=(0, 3), expand=True)
    body.add_column(ratio=1)
    body.add_column()
    body.add_row(_values(status, traces), Group(_bonds(status), Text(), _peers(status)))
    parts += [Text(), body, _flags(status.flags)]
    if status.message:
        parts.append(Text(status.message, style="bold"))
    if line:
        parts += [Text(), Text(line, style="dim", no_wrap=True, overflow="ellipsis")]
    title = Text.assemble((status.session, "bold"), "  ", (status.state, _state_style(status)))
    return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED)


def plain_line(status: Status) -> str:
    """The same in one line."""
    share = f" ({100 * status.t / status.duration:.0f} %)" if status.duration > 0 else ""
    parts = [f"{status.session}: {status.state}", f"{status.t:.1f} of {status.duration:g} s{share}"]
    if status.rate_hz > 0:
        parts.append(f"{number(status.rate_hz)} Hz")
    if status.lateness_us is not None:
        parts.append(f"late p99 {status.lateness_us.p99:.0f} µs")
        parts.append(f"missed {status.missed} of {status.tick}")
    parts.append(f"flags: {flag_words(status.flags) or 'none'}")
    if status.verdict:
        parts.append(status.verdict)
    if status.message:
        parts.append(status.message)
    return " | ".join(parts)


def flag_words(flags: Sequence[Flag]) -> str:
    """Flags in words, one cause once: ``sample late (engine.torque, engine.speed)``."""
    places: dict[str, list[str]] = {}
    for flag in flags:
        places.setdefault(flag.cause, []).append(flag.where)
    return ", ".join(
        f"{words(cause)} ({', '.join(w for w in where if w)})" if any(where) else words(cause)
        for cause, where in places.items()
    )


def _state_style(status: Status) -> str:
    styles = {"RUNNING": "green", "DEGRADED": "yellow", "FAULT": "bold red"}
    return styles.get(status.state.upper(), "cyan")


def _progress(status: Status) -> RenderableType:
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(ratio=1)
    row.add_column(justify="right", no_wrap=True)
    total = status.duration if status.duration > 0 else None
    bar = ProgressBar(total=total, completed=min(status.t, total or status.t))
    rate = f"   {number(status.rate_hz)} Hz" if status.rate_hz > 0 else ""
    row.add_row(bar, f"{status.t:.1f} / {status.duration:g} s{rate}")
    return row


def _timing(status: Status) -> Text:
    late = status.lateness_us
    text = Text(style="dim")
    if late is not None:
        text.append(f"lateness {late.p50:.0f} µs median, {late.p99:.0f} p99, {late.max:.0f} max   ")
        missed = f"missed {status.missed:,} of {status.tick:,} ticks"
        text.append(missed, style="yellow" if status.missed else "")
    else:
        text.append(f"{status.tick:,} steps")
    if status.verdict:
        text.append("   so far ")
        text.append(status.verdict, style=f"bold {COLOURS.get(status.verdict, '')}")
    return text


def _values(status: Status, traces: Traces | None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("signal", overflow="ellipsis")
    table.add_column("value", justify="right", min_width=8, no_wrap=True)
    table.add_column("unit", style="dim", no_wrap=True)
    if traces is not None:
        table.add_column("", style="cyan", min_width=LENGTH, no_wrap=True)
    for name, value in list(status.values.items())[:MAX_VALUES]:
        plot = [traces.plot(name)] if traces is not None else []
        table.add_row(name, number(value), status.units.get(name, ""), *plot)
    return table


def _bonds(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("bond")
    for heading in ("W", "residual J", "removed J"):
        table.add_column(heading, justify="right", min_width=8)
    for name, bond in status.bonds.items():
        energies = (bond.power_w, bond.residual_energy_j, bond.corrected_energy_j)
        table.add_row(name, *map(number, energies))
    return table


def _peers(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("peer")
    for heading in ("late", "lost", "age ms"):
        table.add_column(heading, justify="right", min_width=6)
    for name, peer in status.peers.items():
        table.add_row(name, f"{peer.late:,}", f"{peer.lost:,}", number(peer.age_ms, 3))
    return table


def _flags(flags: Sequence[Flag]) -> Text:
    if not flags:
        return Text("no flags", style="green")
    return Text(f"flags: {flag_words(flags)}", style="yellow")


# -- the process ---------------------------------------------------------------------------------


class Source(Protocol):
    """Where the view gets what it shows, and sends what is typed."""

    status: Status | None
    stop: bool
    silent: bool
    key: str

    def take(self, wait_ms: int) -> bool:
        """Wait for news for at most `wait_ms` [ms]; whether there are any."""

    def client(self) -> CommandClient | None:
        """Whom to send commands to; None if nobody takes them."""


class Watcher:
    """Receives the newest status from the session on this machine, and says when to end.

    Parameters
    ----------
    address : str
        Where the session publishes.
    commands : str
        Where it takes commands; empty for none.
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
        self._clock, self._commands = clock, commands
        self._deadline = clock() + CONNECT_S
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.CONFLATE, 1)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._socket.connect(address)
        self._client = CommandClient(commands, self._context) if commands else None

    def take(self, wait_ms: int) -> bool:
        """Wait for a status for at most `wait_ms` [ms]; whether there is a new one."""
        if not self._socket.poll(wait_ms):
            self.silent = self._clock() > self._deadline
            return False
        try:
            self.status = merged(self.status, decode(self._socket.recv()))
        except msgspec.MsgspecError:
            return False
        self._deadline = self._clock() + SILENCE_S
        return True

    def client(self) -> CommandClient | None:
        """The session itself."""
        return self._client

    def close(self) -> None:
        """Free the sockets."""
        self._context.destroy(linger=0)


def watch(source: Source, show: Callable[[], None], turn: Callable[[], bool]) -> None:
    """Call `show` with every news until the session ends or is silent.

    `turn` is called ten times a second; it says whether there is something else to show.
    """
    while not source.stop and not source.silent:
        news = source.take(POLL_MS)
        if turn() or news:
            show()
        if news and source.status is not None and source.status.state.upper() in FINAL_STATES:
            return


def run(source: Source, console: Console, plain: bool = False) -> None:
    """Show the session until it ends: live on a terminal that is large enough, else in lines."""
    live = console.is_terminal and not console.is_dumb_terminal and not plain
    if live and console.width >= MIN_WIDTH and console.height >= MIN_HEIGHT:
        _run_live(source, console)
    else:
        _run_plain(source, console)
    if source.silent and source.status is not None:
        console.print(f"{source.status.session}: silent for {SILENCE_S:g} s; the view ends")


def _run_live(source: Source, console: Console) -> None:
    keys: Keys | None = None
    traces = Traces()
    with typing() as typed, Live(console=console, auto_refresh=False, transient=True) as live:

        def turn() -> bool:
            nonlocal keys
            client = source.client() if typed is not None else None
            if client is None or typed is None:
                return False
            keys = keys or Keys(client, source.key)
            before = keys.line
            keys.type(typed(), source.status)
            keys.take_answers()
            return keys.line != before

        def show() -> None:
            if source.status is not None:
                line = keys.line if keys is not None else ""
                traces.add(source.status)
                plotted = traces if console.width >= PLOT_WIDTH else None
                live.update(live_view(source.status, line, plotted), refresh=True)

        watch(source, show, turn)


def _run_plain(source: Source, console: Console) -> None:
    shown_at, shown_state = -math.inf, ""

    def show() -> None:
        nonlocal shown_at, shown_state
        status, now = source.status, time.monotonic()
        if status is None:
            return
        if now - shown_at >= PLAIN_PERIOD_S or status.state != shown_state:
            console.print(plain_line(status), soft_wrap=True, highlight=False, markup=False)
            shown_at, shown_state = now, status.state

    watch(source, show, lambda: False)


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="hilrt view", description="Shows a running session.")
    parser.add_argument("--connect", required=True, help="address of the session's telemetry")
    parser.add_argument("--commands", default="", help="address for the operator's commands")
    options = parser.parse_args(arguments)
    watcher = Watcher(options.connect, options.commands)

    def stop(*_: object) -> None:
        watcher.stop = True

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, stop)
    try:
        run(watcher, Console())
    except BrokenPipeError:
        return 0
    finally:
        watcher.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
