"""Attacks on a running session by another account of this machine: none may succeed.

    python -m tools.qualification.other_account [--session FILE] [--account 65534] [--json]

Starts a session with its page, bridge and commands, on the loopback and without keys, finds every
socket on which its processes listen (/proc), and attacks all of them from a process of another
account: with ZeroMQ sockets of every kind, a subsystem's hello, forged rows and commands, HTTP and
WebSocket requests without a token, and Unix sockets by path and by abstract name. It also tries to
read and write the run's folder, temporary folders and files opened by the processes, to send
signals to the processes, and to find secrets on their command lines and in their environments. Then
the session is stopped; its log must be complete.

Frames on a CAN bus are excluded: every account may read and send them. Needs Linux and root, to
change to another account; otherwise prints the reason and ends with status 0. Status 1: something
could be read, received, sent or stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hilrt.record.reader import load_log
from tools.qualification.stranger import SECRETS, Outcome, as_account, attack, files_of, places
from tools.watched_session import children, command_of, free_port, until

ROOT = Path(__file__).resolve().parents[2]
SESSION = ROOT / "bench_configs" / "engine_in_the_loop.toml"
NOBODY = 65534
#: A session that waits for a manually started solver.
WAITING = """
[session]
name = "waiting"
duration = 1.0
pace = "asap"
[master]
step = 0.001
connect_timeout = 60.0
[subsystems.awaited]
adapter = "zeromq"
[subsystems.mass2]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass2"
[[connections]]
from = "awaited.force"
to = "mass2.force"
"""
# -- the session ---------------------------------------------------------------------------------


class Session:
    """The attacked session, in a separate folder."""

    def __init__(self, folder: Path, file: Path) -> None:
        self.out = folder / "runs"
        self._errors = folder / "stderr"
        bus = f'interface="udp_multicast",channel="239.74.163.2",hop_limit=0,port={free_port()}'
        given = [
            "session.duration=600.0",
            f'monitor.page="127.0.0.1:{free_port()}"',
            f'monitor.foxglove="127.0.0.1:{free_port()}"',
            'monitor.control=["arm","safe","stop","mark"]',
        ]
        if file == SESSION:
            given += [
                f"subsystems.engine.bus={{{bus}}}",
                "subsystems.engine.master_timeout=10.0",
                "subsystems.engine.bench_timeout=10.0",
                "subsystems.engine.late.max_misses=1000000",
                "subsystems.vehicle.late.max_misses=1000000",
            ]
        command = [sys.executable, "-m", "hilrt", "run", str(file), "--out", str(self.out)]
        command += ["--quiet", "--web"]
        self._errors.touch(mode=0o600)
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, *(word for item in given for word in ("--set", item))],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **SECRETS},
            )

    def until_running(self) -> None:
        """Wait for the first tick, and for answers of page and bridge."""

        def runs() -> bool:
            if self.process.poll() is not None:
                sys.exit(f"the session has ended: {self._errors.read_text()}")
            logs = {log.name: log.read_text() for log in self.out.glob("*/logs/*.log")}
            served = "page:" in logs.get("page.log", "") and "fox" in logs.get("foxglove.log", "")
            return served and bool(list(self.out.glob("*/session.mcap")))

        until(runs, "first tick, page and bridge")

    def processes(self) -> dict[int, str]:
        """Names of the session's processes by process identifier."""
        found = {self.process.pid: "master"}
        for pid in children(self.process.pid):
            words = [word for word in command_of(pid) if word]
            if words:
                module = words[words.index("-m") + 1] if "-m" in words else ""
                own = module.startswith("hilrt.") or "hilrt" in words[0]
                named = words[words.index("--name") + 1] if "--name" in words else ""
                found[pid] = named or (module if own and module else Path(words[0]).name)
        return found

    def end(self) -> Outcome:
        """Stop the session; return whether it was still running, and its log is complete."""
        ran = self.process.poll() is None
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(60.0)
        (folder,) = self.out.iterdir()
        summary = json.loads((folder / "summary.json").read_text())
        log = load_log(folder)
        rows, missing = len(log.t), log.metadata.get("rows_missing", "0")
        whole = missing == "0" and not log.truncated and rows == summary["steps"] + 1
        told = f"status {status}, {rows} of {summary['steps'] + 1} rows in the log"
        told += f", state {summary['end_state']}" if "end_state" in summary else ""
        return Outcome("master", "", "to the end", told, ran and status == 130 and whole)

    def close(self) -> None:
        """End the session if it is still running."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30.0)
            self.process.kill()


# -- the whole -----------------------------------------------------------------------------------


def show(outcomes: list[Outcome]) -> None:
    """Print the outcomes as a table."""
    table = Table("process", "where", "tried", "result", "", title="as another account")
    for one in outcomes:
        table.add_row(*one[:4], "ok" if one.well else "✕ OPEN")
    Console(width=140).print(table)


def while_it_waits(folder: Path, account: int) -> list[Outcome]:
    """Attack before the session's own solver has connected."""
    file = folder / "waiting.toml"
    file.write_text(WAITING, encoding="utf-8")
    command = [sys.executable, "-m", "hilrt", "run", str(file), "--out", str(folder), "--quiet"]
    with (folder / "waiting").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        master = {process.pid: "waiting"}
        found = until(lambda: [p for p in places(master) if p.kind != "udp"], "its sockets")
        return as_account(account, lambda: attack(found, master))
    finally:
        process.terminate()
        process.wait(30.0)


def why_not() -> str:
    """Reason why no attack is possible here; empty if it is."""
    if sys.platform != "linux":
        return "only Linux shows which process listens where"
    if os.geteuid() != 0:
        return "only root can become another account"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Run the attacks; status 0 if all of them failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--session", type=Path, default=SESSION)
    parser.add_argument("--account", type=int, default=NOBODY, help="number of the other account")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    options = parser.parse_args(arguments)
    if reason := why_not():
        print(f"skipped: {reason}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # the session must protect its content
        session = Session(Path(folder), options.session.resolve())
        try:
            session.until_running()
            processes = session.processes()
            found = places(processes)
            files = files_of(next(session.out.iterdir()), processes)
            outcomes = as_account(options.account, lambda: attack(found, processes, files))
            outcomes.append(session.end())
            outcomes += while_it_waits(Path(folder), options.account)
        finally:
            session.close()
    if options.json:
        rows: list[dict[str, Any]] = [one._asdict() for one in outcomes]
        print(json.dumps(rows, indent=1))
    else:
        show(outcomes)
    return 0 if all(one.well for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
