"""Time of one exchange with solver processes: send all inputs, receive all outputs.

Compares, in alternating blocks of one run, because the load of the machine changes the times more
than the code does:

* ``floor_us``: blocking pyzmq sockets and processes that only echo messages of the same size;
* ``exchange_us``: the hub and its links, and real solver processes;
* ``exchange_tcp_us``: the same with solver processes connected by TCP, as on other machines.

After each round of these, in separate processes:

* ``full_us``: a session with every stage, recording and telemetry on (`bench_full.py`), from the
  tick until all replies have arrived and the slack is completed;
* ``helics_zmq_us``, ``helics_ipc_us``, ``mosaik_us``: the same exchange with HELICS and mosaik
  (`other_masters.py`; ``pip install hilrt[benchmarks]``, null if not installed).

    python -m tools.benchmarks.bench_exchange [--peers 4] [--exchanges 4000] [--rounds 8] \\
        [--scaling] [--json]

Prints medians and p99, µs, and their ratios: ``exchange``, ``exchange_tcp`` and ``full`` relative
to the floor, the others relative to the exchange. All processes start anew in each round: the
placement of its pages makes the same process up to a third faster or slower for its whole life.
``--scaling`` measures 1, 2, 4 … 32 solvers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from hilrt import InputPolynomial, Port, Sample, Solver
from hilrt.exchange.channel_table import ChannelTable
from hilrt.exchange.exchange import STANDSTILL_S
from hilrt.exchange.inbox import Inboxes
from hilrt.exchange.waiter import Waiter
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.solver_process import serve
from hilrt.peers.hub import Hub
from hilrt.peers.peer import Peer
from hilrt.peers.wire import Advance, Advanced, encode, pack
from hilrt.tables.given import empty_input
from hilrt.tables.record import table
from hilrt.tables.state import SubsystemState
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions
from tools.benchmarks import bench_full, other_masters

PORTS = 4
ORDER = 1
BLOCK = 100
CONNECT_TIMEOUT_S = 60.0
SCALING = (1, 2, 4, 8, 16, 32)


class Null(Solver):
    """Returns its inputs, so that only the exchange is measured."""

    inputs = tuple(Port(f"u{i}") for i in range(PORTS))
    outputs = tuple(Port(f"y{i}") for i in range(PORTS))

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return Sample(u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(u.coefficients[0])


def host(address: str, name: str) -> None:
    solver = HostedSolver(Null())
    peer = Peer(address, name, "solver", solver.inputs, solver.outputs)
    peer.connect()
    serve(peer, solver)
    peer.close()


def echo(address: str, answer: bytes) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.connect(address)
    socket.send(b"here")
    while socket.recv():
        socket.send(answer)
    socket.close(linger=0)
    context.term()


class Floor:
    """Blocking ROUTER against echoing processes."""

    def __init__(self, peers: int) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        address = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        coefficients = np.zeros((ORDER + 1, PORTS))
        self.request = encode(Advance(tick=12345, t=1.2, h=1e-3, coefficients=pack(coefficients)))
        answer = encode(Advanced(tick=12345, y=pack(coefficients[0]), compute_us=12.3))
        self.processes = [start(echo, address, answer) for _ in range(peers)]
        self.identities = [self.socket.recv_multipart()[0] for _ in range(peers)]

    def exchange(self) -> None:
        for identity in self.identities:
            self.socket.send_multipart([identity, self.request])
        for _ in self.identities:
            self.socket.recv_multipart()

    def close(self) -> None:
        for identity in self.identities:
            self.socket.send_multipart([identity, b""])
        self.socket.close(linger=500)
        self.context.term()


class Through:
    """The hub and its links, waiting like a master that runs as fast as possible."""

    def __init__(self, peers: int, direct: bool) -> None:
        self.hub = Hub("bench", connect_timeout=CONNECT_TIMEOUT_S, direct=direct)
        self.links = [
            ZeroMQLink(f"solver{i}", ZeroMQOptions(adapter="zeromq"), Path()) for i in range(peers)
        ]
        self.coefficients = np.zeros((ORDER + 1, PORTS))
        self.tick = 0
        for link in self.links:
            self.hub.add(link)
        self.processes = [start(host, self.hub.address, link.name) for link in self.links]

    async def open(self) -> None:
        for link in self.links:
            await link.open()
            await link.initialize(0.0, np.zeros(PORTS))
        n = len(self.links)
        channels = ChannelTable(
            [1] * n, [False] * n, [False] * n, [9] * n, 1e-3, table(SubsystemState, n)
        )
        parts = [slice(PORTS * s, PORTS * (s + 1)) for s in range(n)]
        slices, given = list(zip(parts, parts, strict=True)), empty_input(n, PORTS * n, PORTS * n)
        names = [link.name for link in self.links]
        self.inboxes, self.channels = Inboxes(names, slices, channels.rows, given), channels
        for link, inbox in zip(self.links, self.inboxes.of, strict=True):
            link.inbox = inbox

    async def exchange(self, waiter: Waiter) -> None:
        self.tick += 1
        for link in self.links:
            link.dispatch(self.tick, self.tick * 1e-3, 1e-3, self.coefficients)
        self.hub.flush()
        while not self.answered():
            await waiter.wait(lambda: not self.answered())
        self.inboxes.accept(0)

    def answered(self) -> bool:
        self.hub.drain()
        return bool(self.channels.answered.all())

    async def block(self, count: int) -> list[float]:
        waiter = Waiter([self.hub.fileno()], block_s=STANDSTILL_S)
        times = []
        for _ in range(count):
            start_ns = time.perf_counter_ns()
            await self.exchange(waiter)
            times.append((time.perf_counter_ns() - start_ns) * 1e-3)
        waiter.close()
        return times

    async def close(self) -> None:
        for link in self.links:
            await link.stop("done")
        self.hub.close()


def timed(exchange: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(BLOCK):
        start_ns = time.perf_counter_ns()
        exchange()
        times.append((time.perf_counter_ns() - start_ns) * 1e-3)
    return times


def start(target: Callable[..., None], *args: object) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=target, args=args, daemon=True)
    process.start()
    return process


async def measure_hub(peers: int, exchanges: int) -> dict[str, list[float]]:
    """Times of floor and exchanges, in alternating blocks."""
    floor = Floor(peers)
    ways = {"exchange": Through(peers, direct=True), "exchange_tcp": Through(peers, direct=False)}
    times: dict[str, list[float]] = {"floor": [], **{name: [] for name in ways}}
    for through in ways.values():
        await through.open()
        await through.block(BLOCK)  # warm up
    for _ in range(max(1, exchanges // BLOCK)):
        times["floor"] += timed(floor.exchange)
        for name, through in ways.items():
            times[name] += await through.block(BLOCK)
    processes = list(floor.processes)
    for through in ways.values():
        await through.close()
        processes += through.processes
    floor.close()
    for process in processes:
        process.join(5)
    return times


def measure(peers: int, exchanges: int, rounds: int) -> dict[str, Any]:
    """Measure everything with one number of solvers."""
    each = max(BLOCK, exchanges // rounds)
    names = ("floor", "exchange", "exchange_tcp", "full", *other_masters.EXCHANGES)
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, some in asyncio.run(measure_hub(peers, each)).items():
            times[name] += some
        times["full"] += bench_full.measure(peers, each)
        for name in other_masters.EXCHANGES:
            if not other_masters.missing(name):
                times[name] += other_masters.measure(name, peers, each)
    result: dict[str, Any] = {"peers": peers, "load_average": os.getloadavg()[0]}
    for name, values in times.items():
        result[f"{name}_us"] = float(np.median(values)) if values else None
        result[f"{name}_p99_us"] = float(np.percentile(values, 99)) if values else None
    for name in ("exchange", "exchange_tcp", "full"):
        if result[f"{name}_us"]:
            result[f"{name}_over_floor"] = result[f"{name}_us"] / result["floor_us"]
    for name in other_masters.EXCHANGES:
        if result[f"{name}_us"]:
            result[f"{name}_over_exchange"] = result[f"{name}_us"] / result["exchange_us"]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--exchanges", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--scaling", action="store_true", help=f"for {SCALING} solvers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for problem in filter(None, map(other_masters.missing, other_masters.EXCHANGES)):
        print(problem, file=sys.stderr)
    results = []
    for peers in SCALING if options.scaling else (options.peers,):
        results.append(measure(peers, options.exchanges, options.rounds))
        if not options.json:
            for key, value in results[-1].items():
                print(f"{key:24} {'-' if value is None else f'{value:.2f}':>10}", flush=True)
    if options.json:
        rounded = [
            {key: value if value is None else round(value, 3) for key, value in result.items()}
            for result in results
        ]
        print(json.dumps(rounded if options.scaling else rounded[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
