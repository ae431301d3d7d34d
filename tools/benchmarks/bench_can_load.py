"""Losses and late ticks of the demonstration session beside a fully loaded 1 Mbit/s bus.

    python -m tools.benchmarks.bench_can_load [--json] [--duration 60] [--set KEY=VALUE …]

Runs the demonstration session three times on ``udp_multicast``: alone; with 7,000 frames/s of other
nodes (twenty messages with cycle times from 1 to 100 ms) on its own bus; and with the same frames
on a second bus, where another process receives all of them like a gateway: file descriptor, drain,
decode, counters. The figures are

    lost        on its own bus: frames of the bench that the gateway did not receive, by their
                counters. On the second bus: frames that were sent but not received; the number
                that the kernel dropped because they were read too late is also shown separately
    not taken   frames that were received but did not count as fresh, by reason
    processor   share of one processor used for sending, and for receiving from the second bus
    missed      ticks missed by the session's master

Both processes run on other processors than the master. The sender represents other machines: its
frames are prepared in advance, except for the counters.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import select
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import can
import cantools
from can.interfaces.udp_multicast.utils import pack_message
from cantools.database.can import Database

from hilrt.can.bus import CanBus, open_bus
from hilrt.can.codec import codec
from hilrt.can.database import find_signal
from hilrt.can.message_stats import REASONS
from hilrt.can.receiver import Receiver
from hilrt.config.session_file import load_session
from hilrt.logs.log_file import LogFile
from hilrt.record.logged_frame import FrameFlag
from tools.audience import leave_master_alone
from tools.benchmarks.bench_session import SESSION, run

CHANNEL = "239.74.163.30"
#: Default of python-can.
PORT = 43113
#: Identifier of the first message; those of the session's bus are lower.
FIRST_ID = 0x300
#: Position of the bench's counter: the last byte of all its messages.
COUNTER = 7
#: Cycle time [ms] and number of messages with it: 7,000 frames/s.
MIX = {1: 5, 2: 2, 5: 3, 10: 3, 20: 1, 50: 2, 100: 1}
CYCLES = [cycle for cycle, count in MIX.items() for _ in range(count)]
#: Time for which the receiver continues after the sender, s.
LINGER_S = 1.0
START_TIMEOUT_S = 60.0


def database() -> Database:
    """One message per entry of CYCLES: a value and a counter."""
    text = 'VERSION ""\nBU_: Bench Gateway\n'
    for i, _ in enumerate(CYCLES):
        text += (
            f"BO_ {FIRST_ID + i} M{i}: 8 Bench\n"
            ' SG_ Value : 0|32@1- (0.001,0) [0|0] "N*m" Gateway\n'
            ' SG_ Other : 32|16@1- (0.01,0) [0|0] "rad/s" Gateway\n'
            ' SG_ Alive : 48|16@1+ (1,0) [0|65535] "" Gateway\n'
        )
    text += 'BA_DEF_ BO_ "GenMsgCycleTime" INT 0 10000;\nBA_DEF_DEF_ "GenMsgCycleTime" 0;\n'
    for i, cycle in enumerate(CYCLES):
        text += f'BA_ "GenMsgCycleTime" BO_ {FIRST_ID + i} {cycle};\n'
    loaded = cantools.database.load_string(text, "dbc")
    assert isinstance(loaded, Database)
    return loaded


def bus(port: int, messages: Any = ()) -> CanBus:
    return open_bus(
        {"interface": "udp_multicast", "channel": CHANNEL, "port": port, "hop_limit": 0},
        messages,
        "bus",
    )


def due(millisecond: int) -> Iterator[int]:
    """Messages that are due; those of one cycle time are distributed over it."""
    return (i for i, cycle in enumerate(CYCLES) if (millisecond + 3 * i) % cycle == 0)


def datagrams() -> list[tuple[bytes, bytes]]:
    """Each message as encoded by python-can: the parts before and after its counter."""
    made = []
    for i, message in enumerate(database().messages):
        data = codec(message, ["Value", "Other", "Alive"]).encode([0.001 * i, 0.01 * i, 0xABCD])
        frame = can.Message(arbitration_id=FIRST_ID + i, is_extended_id=False, data=data)
        before, counter, behind = pack_message(frame).partition(b"\xcd\xab")
        assert counter
        made.append((before, behind))
    return made


def send(address: tuple[str, int], ready: Event, flowing: Event, stop: Event, results: Any) -> None:
    """Send all frames of the other nodes on a grid of 1 ms; overdue ones at once."""
    leave_master_alone()
    made = datagrams()
    counts = [0] * len(made)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
    out.connect(address)
    failed = 0
    ready.wait(START_TIMEOUT_S)
    flowing.set()
    start, cpu = time.monotonic(), time.process_time()
    k = 0
    while not stop.is_set():
        k += 1
        time.sleep(max(0.0, start + 1e-3 * k - time.monotonic()))
        for i in due(k):
            before, behind = made[i]
            try:
                out.send(before + (counts[i] % 65536).to_bytes(2, "little") + behind)
                counts[i] += 1
            except OSError:
                failed += 1
    wall = time.monotonic() - start
    results.put({"sent": sum(counts), "failed": failed, "wall": wall, **_share(cpu, wall)})
    out.close()


def receive(port: int, ready: Event, stop: Event, results: Any) -> None:
    """Process the frames like a gateway."""
    leave_master_alone()
    loaded = database()
    refs = {m.name: find_signal(loaded, f"{m.name}.Value", "outputs") for m in loaded.messages}
    into = bus(port, loaded.messages)
    receiver = Receiver(refs, None, "Alive", 0.02, system_clock=into.system_clock)
    ready.set()
    start, cpu = time.monotonic(), time.process_time()
    end = None
    while end is None or time.monotonic() < end:
        if select.select([into.fileno()], [], [], 0.02)[0]:
            receiver.receive(into.drain())
        if end is None and stop.is_set():
            end = time.monotonic() + LINGER_S
    wall = time.monotonic() - start
    results.put(
        {
            "received": receiver.counters["frames"],
            "errors": into.errors,
            "kernel_drops": kernel_drops(into.fileno()),
            "not_taken": {name: receiver.counters[name] for name in REASONS},
            **_share(cpu, wall),
        }
    )
    into.close()


def _share(cpu: float, wall: float) -> dict[str, float]:
    return {"processor": (time.process_time() - cpu) / wall}


def kernel_drops(fd: int) -> int | None:
    """Datagrams dropped because the socket's buffer was full; None if not counted."""
    inode = str(os.fstat(fd).st_ino)
    table = Path("/proc/net/udp")
    for line in table.read_text().splitlines()[1:] if table.exists() else ():
        words = line.split()
        if words[9] == inode:
            return int(words[-1])
    return None


def session(out: Path, duration: float, overrides: list[str]) -> dict[str, Any]:
    """Run the demonstration session once; return figures of its master and its gateway."""
    folder = run(out, duration, overrides)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    step = load_session(SESSION, overrides).tables.master.step
    ticks = round(summary["time_s"] / step)
    return {
        "ticks": ticks,
        "missed": summary["missed_ticks"],
        "late": {name: peer["late"] for name, peer in summary["peers"].items()},
        "verdict": summary["verdict"],
        **bench_frames(folder),
    }


def bench_frames(folder: Path) -> dict[str, int]:
    """Frames of the bench in the log, and frames missing according to their counters."""
    newest: dict[int, int] = {}
    frames = lost = 0
    for frame in LogFile(folder / "session.mcap").frames():
        if frame.flags & FrameFlag.SENT:
            continue
        frames += 1
        count = frame.data[COUNTER]
        lost += (count - newest.get(frame.identifier, count - 1) - 1) % 256
        newest[frame.identifier] = count
    return {"bench_frames": frames, "bench_lost": lost}


def bus_of_the_session(overrides: list[str]) -> tuple[str, int]:
    """Bus of the session."""
    options: Any = load_session(SESSION, overrides).tables.subsystems["engine"]
    return options.bus["channel"], options.bus.get("port", PORT)


def unused_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def loaded_session(
    out: Path, duration: float, overrides: list[str], address: tuple[str, int], take: bool
) -> dict[str, Any]:
    """Run the session while frames are sent to `address`; `take`: a process receives them."""
    context = multiprocessing.get_context("spawn")
    ready, flowing, stop = context.Event(), context.Event(), context.Event()
    sent, received = context.Queue(), context.Queue()
    processes = [context.Process(target=send, args=(address, ready, flowing, stop, sent))]
    if take:
        arguments = (address[1], ready, stop, received)
        processes.append(context.Process(target=receive, args=arguments))
    else:
        ready.set()
    for process in processes:
        process.start()
    try:
        if not flowing.wait(START_TIMEOUT_S):
            sys.exit(f"nothing was sent within {START_TIMEOUT_S:g} s")
        result = session(out, duration, overrides)
    finally:
        stop.set()
    result["sender"] = sent.get(timeout=START_TIMEOUT_S)
    if take:
        result["receiver"] = received.get(timeout=START_TIMEOUT_S)
    for process in processes:
        process.join(START_TIMEOUT_S)
    return result


def show(name: str, one: dict[str, Any]) -> None:
    """Print the figures of a run."""
    print(
        f"{name}: {one['missed']} of {one['ticks']} ticks missed, late {one['late']}, "
        f"{one['verdict']}; of the bench {one['bench_frames']} frames, {one['bench_lost']} lost",
        flush=True,
    )
    if sender := one.get("sender"):
        print(
            f"  sent {sender['sent']} frames in {sender['wall']:.1f} s "
            f"({sender['sent'] / sender['wall']:.0f}/s), {sender['failed']} did not leave; "
            f"{sender['processor']:.1%} of a processor"
        )
    if sender and (receiver := one.get("receiver")):
        print(
            f"  received {receiver['received']}, lost {sender['sent'] - receiver['received']}, of "
            f"these dropped by the kernel: {receiver['kernel_drops']}; "
            f"not taken: {receiver['not_taken']}; {receiver['processor']:.1%} of a processor"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--duration", type=float, default=60.0, help="session time of a run, s")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    arguments = parser.parse_args()
    duration, overrides = arguments.duration, arguments.overrides
    found: dict[str, Any] = {}
    own, second = bus_of_the_session(overrides), (CHANNEL, unused_port())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        for name, address in (("alone", None), ("own bus", own), ("second bus", second)):
            if address is None:
                found[name] = session(out / name, duration, overrides)
            else:
                take = address == second
                found[name] = loaded_session(out / name, duration, overrides, address, take)
            if not arguments.json:  # at once: the next run may fail
                show(name, found[name])
    if arguments.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
