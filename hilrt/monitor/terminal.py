"""The terminal view: a process that shows a running session, and the table at its end.

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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import zmq
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hilrt.monitor.commands import KEY_VARIABLE, CommandClient
from hilrt.monitor.keys import Keys, typing
from hilrt.monitor.telemetry import Flag, Status, decode
from hilrt.monitor.viewer import merged
from hilrt.timeline import WHY
from hilrt.wording import PEER_TIMES, missed_ticks, number, words

SILENCE_S = 30.0
POLL_MS = 100
#: How long the session may take to say its first word, s.
CONNECT_S = 60.0
PLAIN_PERIOD_S = 2.0
MIN_WIDTH, MIN_HEIGHT = 80, 16
MAX_VALUES = 12
FINAL_STATES = {"STOPPED", "FAULT"}
_COLOURS = {"good": "green", "degraded": "yellow", "unreliable": "red"}


# -- what is shown -------------------------------------------------------------------------------


def live_view(status: Status, line: str = "") -> RenderableType:
    """The panel that is redrawn while a session runs; `line` stands below everything."""
    parts: list[RenderableType] = [_progress(status), _timing(status)]
    body = Table.grid(padding=(0, 3), expand=True)
    body.add_column(ratio=1)
    body.add_column(ratio=1)
    body.add_row(_values(status), Group(_bonds(status), Text(), _peers(status)))
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
    row.add_row(bar, f"{status.t:.1f} / {status.duration:g} s")
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
        text.append(status.verdict, style=f"bold {_COLOURS.get(status.verdict, '')}")
    return text


def _values(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("signal")
    table.add_column("value", justify="right", min_width=9)
    table.add_column("unit", style="dim")
    for name, value in list(status.values.items())[:MAX_VALUES]:
        table.add_row(name, number(value), status.units.get(name, ""))
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


# -- the table at the end ------------------------------------------------------------------------


def closing_table(summary: Mapping[str, Any]) -> RenderableType:
    """What `summary.json` says, for the terminal; missing parts are left out.

    Parameters
    ----------
    summary : mapping
        Contents of ``summary.json``; ``files`` may list what was written.
    """
    parts: list[RenderableType] = [_verdict(summary), _steps(summary)]
    for part in (_ledger(summary), _answers(summary), _flag_times(summary), _losses(summary)):
        if part is not None:
            parts.append(part)
    for file in summary.get("files") or ():
        parts.append(Text(f"  {file}", style="dim"))
    return Group(*parts)


def _verdict(summary: Mapping[str, Any]) -> Text:
    verdict = str(summary.get("verdict", "unknown"))
    text = Text.assemble(
        (f"{summary.get('session', '')}: ", "bold"), (verdict, f"bold {_COLOURS.get(verdict, '')}")
    )
    for reason in summary.get("reasons") or ():
        text.append(f"\n  {reason}")
    return text


def _steps(summary: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    steps = int(summary.get("steps") or 0)
    time_s, wall_s = number(summary.get("time_s")), number(summary.get("wall_s"))
    table.add_row("steps", f"{steps:,} over {time_s} s, in {wall_s} s on the clock")
    size = summary.get("step_size_s") or {}
    if size.get("min") != size.get("max"):
        table.add_row("step size", f"{number(size.get('min'))} … {number(size.get('max'))} s")
    for key, label in (("lateness_us", "lateness"), ("compute_us", "computing")):
        spread = summary.get(key)
        if spread:
            cells = (f"{number(spread.get(q), 3)} {name}" for q, name in _PERCENTILES)
            table.add_row(label, f"{', '.join(cells)} µs")
    stages = summary.get("timeline_us") or {}
    if summary.get("lateness_us"):
        if stages:
            cells = (f"{words(k)} {number(v.get('p50'), 3)}" for k, v in stages.items())
            table.add_row("of a tick", f"{', '.join(cells)} µs (medians)")
        table.add_row("missed ticks", missed_ticks(summary))
        for cause, count in sorted((summary.get("missed_because") or {}).items()):
            table.add_row("", f"{count:,}: {WHY.get(cause, words(cause))}")
    learning = summary.get("identification") or {}
    if learning.get("skipped"):
        said = f"{learning['turns']:,} turns, {learning['skipped']:,} left out for lack of time"
        table.add_row("identification", said)
    return table


_PERCENTILES = (("p50", "median"), ("p99", "p99"), ("p999", "p99.9"), ("max", "max"))
_LEDGER = ("residual_energy_j", "tracking_energy_j", "corrected_energy_j", "uncorrected_energy_j")


def _ledger(summary: Mapping[str, Any]) -> Table | None:
    bonds: Mapping[str, Mapping[str, Any]] = summary.get("bonds") or {}
    if not bonds:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("bond, energy in J")
    for heading in ("exchange", "tracking", "removed", "left", "at cap"):
        table.add_column(heading, justify="right")
    for name, bond in bonds.items():
        share = bond.get("cap_share")
        cap = "–" if share is None else f"{100 * share:.1f} %"
        table.add_row(name, *(number(bond.get(key)) for key in _LEDGER), cap)
    return table


def _answers(summary: Mapping[str, Any]) -> Table | None:
    """Where the time of the subsystems' answers went."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("answers, time in µs")
    table.add_column("")
    for _, heading in _PERCENTILES:
        table.add_column(heading, justify="right")
    for name, peer in (summary.get("peers") or {}).items():
        for key, label in PEER_TIMES.items():
            if spread := peer.get(key):
                table.add_row(name, label, *(number(spread.get(q), 3) for q, _ in _PERCENTILES))
    return table if table.row_count else None


def _flag_times(summary: Mapping[str, Any]) -> Table | None:
    flags: Mapping[str, Mapping[str, Any]] = summary.get("flags") or {}
    raised = {cause: flag for cause, flag in flags.items() if flag.get("count")}
    if not raised:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("flag")
    table.add_column("times", justify="right")
    table.add_column("seconds", justify="right")
    for cause, flag in sorted(raised.items(), key=lambda item: -float(item[1].get("seconds") or 0)):
        table.add_row(words(cause), f"{flag['count']:,}", number(flag.get("seconds")))
    return table


def _losses(summary: Mapping[str, Any]) -> Text | None:
    peers: Mapping[str, Mapping[str, int]] = summary.get("peers") or {}
    lines = [
        ", ".join(
            [f"{name}: {peer.get('late') or 0:,} late", f"{peer.get('lost') or 0:,} lost"]
            + ([f"came back {peer['rejoined']:,} times"] if peer.get("rejoined") else [])
        )
        for name, peer in peers.items()
        if peer.get("late") or peer.get("lost") or peer.get("rejoined")
    ]
    return Text("\n".join(lines), style="yellow") if lines else None


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
                live.update(live_view(source.status, line), refresh=True)

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
