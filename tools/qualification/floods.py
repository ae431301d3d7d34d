"""Effect of floods by strangers on a running session: missed ticks with and without, in one run.

    python -m tools.qualification.floods [--step 0.01] [--seconds 2] [--rounds 3] [--json] \\
        [--only NAME]

Two solvers at a fixed step, in real time, in four successive sessions: on the loopback with the
defaults; on the loopback with a solver that may rejoin, so that connections remain expected; with
keys; and open to all (``insecure``), for comparison. In each, blocks without and with a flood
alternate:

    messages     ZeroMQ connections without a secret that repeatedly send 1 MB
    raw          a ZeroMQ greeting followed by endless bytes, over plain TCP
    handshakes   a wrong token or key, on successive new connections
    connections  520 silent connections, and further ones as these are ended
    local        connections to the Unix socket, from another account if the tool runs as root
    takeovers    hellos with the name of a solver: with another solver's key if there are keys

Prints, for the blocks of each kind, the share of missed ticks and the master's share of a
processor, which is more meaningful on a busy machine, as floods also compete for processors. Then
prints the exit status, the counts of strangers, and the number of reported takeovers. Linux. Exit
status 1 if a session did not end normally, or a takeover succeeded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zmq

from hilrt.errors import HilrtError
from hilrt.peers.authenticator import TokenOfPeer
from hilrt.peers.keys import VARIABLE, make_keys, peer_keys
from hilrt.peers.peer import Peer
from hilrt.peers.transport.local import abstract_name
from hilrt.record.reader import load_log
from tests.two_masses import CONNECTIONS
from tools.watched_session import free_port, until

NOBODY = 65534
STRANGERS = 520
MB = bytes(1_000_000)
#: ZMTP 3.1, mechanism NULL; then a message of 2**40 bytes.
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16 + 32)
LARGE = b"\x02" + (1 << 40).to_bytes(8, "big")
SESSION = """
[session]
name = "floods"
duration = 3600.0
[master]
step = {step}
listen = "{address}"
connect_timeout = 120.0
{master}
[record]
report = false
[subsystems.mass1]
adapter = "zeromq"
spawn = ["hilrt", "solver", "marking:Marking"]
late = {{ max_misses = 1000, rejoin = {rejoin} }}
[subsystems.mass2]
adapter = "zeromq"
spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass2"]
late = {{ max_misses = 1000 }}
"""
MARKING = """
from pathlib import Path
from hilrt.models.two_mass import Mass1


class Marking(Mass1):
    def advance(self, t, h, u):
        if t == 0.0:
            Path("running").touch()
        return super().advance(t, h, u)
"""


class Setup(NamedTuple):
    """One of the sessions."""

    master: str = ""
    rejoin: bool = False
    keys: bool = False


SETUPS = {
    "default": Setup(),
    "rejoin": Setup(rejoin=True),
    "keys": Setup('keys = "keys"', rejoin=True, keys=True),
    "insecure": Setup("insecure = true", rejoin=True),
}


# --- the floods: each runs in a separate process until it is ended ------------------------------


def messages(address: str, folder: str) -> None:
    context = zmq.Context()
    sockets = [context.socket(zmq.DEALER) for _ in range(8)]
    for dealer in sockets:
        dealer.linger, dealer.sndhwm = 0, 4
        dealer.connect(address)
    while True:
        for dealer in sockets:
            with contextlib.suppress(zmq.Again):
                dealer.send(MB, zmq.NOBLOCK)
        time.sleep(0.0005)


def raw(address: str, folder: str) -> None:
    while True:
        with contextlib.suppress(OSError), connected(address) as stranger:
            stranger.sendall(GREETING + LARGE)
            while True:
                stranger.sendall(MB)


def handshakes(address: str, folder: str) -> None:
    context = zmq.Context()
    keys = Path(folder) / "others"
    if keys.exists():
        os.environ[VARIABLE] = str(keys)
    secret = peer_keys("mass1") or TokenOfPeer("mass1", "0" * 48)
    while True:
        with context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            secret.use(dealer)
            dealer.connect(address)
            time.sleep(0.001)


def connections(address: str, folder: str) -> None:
    open_ones: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            open_ones.append(connected(address))
        if len(open_ones) > STRANGERS:
            open_ones.pop(0).close()


def local(address: str, folder: str) -> None:
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    while True:
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger,
        ):
            stranger.setblocking(False)
            stranger.connect(abstract_name(address))


def takeovers(address: str, folder: str) -> None:
    keys = Path(folder) / "keys"
    if keys.exists():  # with the key of mass2, under the name of mass1
        wrong = Path(folder) / "wrong"
        make_keys(wrong, [])
        for source, target in (("mass2.key", "mass1.key"), ("master.pub", "master.pub")):
            (wrong / target).write_bytes((keys / source).read_bytes())
            (wrong / target).chmod(0o600)
        os.environ[VARIABLE] = str(wrong)
    while True:
        peer = Peer(address, "mass2" if not keys.exists() else "mass1", "solver", (), ())
        try:
            peer.connect(0.5)
            (Path(folder) / "taken").touch()
        except HilrtError:
            pass
        finally:
            peer.close()
        time.sleep(0.01)


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=0.5)


FLOODS: dict[str, Callable[[str, str], None]] = {
    work.__name__: work for work in (messages, raw, handshakes, connections, local, takeovers)
}


# --- the session ----------------------------------------------------------------------------------


class Block(NamedTuple):
    """Interval of the session by the wall clock, ns; without a name, it is undisturbed.

    `processor` is the master's share of one processor, including ZeroMQ's thread.
    """

    name: str
    begin_ns: int
    end_ns: int
    processor: float


def run(setup: Setup, step: float, seconds: float, rounds: int) -> dict[str, Any]:
    """Run one session with all floods; return its figures."""
    with tempfile.TemporaryDirectory(prefix="floods-") as name:
        folder = Path(name)
        address = f"tcp://127.0.0.1:{free_port()}"
        rejoin = str(setup.rejoin).lower()
        text = SESSION.format(step=step, address=address, master=setup.master, rejoin=rejoin)
        (folder / "session.toml").write_text(text + CONNECTIONS)
        (folder / "marking.py").write_text(MARKING)
        if setup.keys:
            make_keys(folder / "keys", ["mass1", "mass2"])
            make_keys(folder / "others", ["mass1"])
            public = (folder / "keys/master.pub").read_bytes()
            (folder / "others/master.pub").write_bytes(public)
        command = [sys.executable, "-m", "hilrt", "run", str(folder / "session.toml")]
        command += ["--folder", str(folder / "run"), "--quiet"]
        errors = (folder / "errors.txt").open("w")
        session = subprocess.Popen(command, stdout=errors, stderr=errors)
        try:
            until(lambda: (folder / "running").exists() or session.poll() is not None, "a tick")
            time.sleep(1.0)
            blocks = flooded(session.pid, address, name, seconds, rounds)
            session.send_signal(signal.SIGINT)
            status = session.wait(60.0)
        finally:
            session.kill()
            session.wait()
            errors.close()
        found = figures(folder / "run", blocks)
        found |= {"status": status, "taken": (folder / "taken").exists()}
        if status != 130:
            found["said"] = (folder / "errors.txt").read_text()[-2000:]
        return found


def flooded(master: int, address: str, folder: str, seconds: float, rounds: int) -> list[Block]:
    blocks = []
    for _ in range(rounds):
        for name, work in FLOODS.items():
            blocks.append(block(master, "", None, seconds))
            process = get_context("spawn").Process(target=work, args=(address, folder), daemon=True)
            process.start()
            time.sleep(1.0)  # until its interpreter has started
            blocks.append(block(master, name, process, seconds))
            time.sleep(0.5)
    return blocks


def block(master: int, name: str, process: BaseProcess | None, seconds: float) -> Block:
    begin, had = time.time_ns(), processor_s(master)
    time.sleep(seconds)
    end, has = time.time_ns(), processor_s(master)
    if process is not None:
        process.kill()
        process.join()
    return Block(name, begin, end, 1e9 * (has - had) / (end - begin))


def processor_s(pid: int) -> float:
    """Processor time used by a process with all its threads, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def figures(folder: Path, blocks: list[Block]) -> dict[str, Any]:
    """Shares of missed ticks in %, by kind of block: median, least and most over the blocks."""
    log = load_log(folder)
    t = log.time_ns("master:overdue") + int(log.metadata["epoch_ns"])
    missed, skipped = log["master:overdue"], log["master:skipped"]
    shares: dict[str, list[float]] = {}
    busy: dict[str, list[float]] = {}
    for name, begin, end, processor in blocks:
        busy.setdefault(name or "nothing", []).append(100.0 * processor)
        inside = (t >= begin) & (t < end)
        ticks = np.count_nonzero(inside) + skipped[inside].sum()
        lost = missed[inside].sum() + skipped[inside].sum()
        shares.setdefault(name or "nothing", []).append(100.0 * lost / max(ticks, 1))
    spread = {k: [float(f(v)) for f in (np.median, np.min, np.max)] for k, v in shares.items()}
    summary = json.loads((folder / "summary.json").read_text())
    told = [event.text for event in log.events if event.cause == "takeover"]
    shares_busy = {name: float(np.median(values)) for name, values in busy.items()}
    return {
        "missed": spread,
        "processor": shares_busy,
        "strangers": summary["strangers"],
        "takeovers": told,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--step", type=float, default=0.01, help="s")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a block")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=SETUPS, help="one of the sessions")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # with its session
    found = {
        name: run(setup, arguments.step, arguments.seconds, arguments.rounds)
        for name, setup in SETUPS.items()
        if arguments.only in (None, name)
    }
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        for name, result in found.items():
            print(f"{name}: exit status {result['status']}, strangers {result['strangers']}")
            for flood, (median, least, most) in result["missed"].items():
                busy = result["processor"][flood]
                missed = f"{median:6.2f} % missed ({least:.2f} … {most:.2f})"
                print(f"  {flood:12} {missed}, master {busy:.1f} % of a processor")
            print(
                f"  takeovers told: {len(result['takeovers'])}",
                *result["takeovers"][:1],
                sep="\n    ",
            )
            if "said" in result:
                print(result["said"])
    failed = any(r["status"] != 130 or (r["taken"] and n != "insecure") for n, r in found.items())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
