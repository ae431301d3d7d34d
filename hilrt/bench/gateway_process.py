"""The process of ``hilrt gateway``: from a session file's table to a `Gateway` that serves."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.gateway_loop import Gateway
from hilrt.bench.read_bench import Bench, read_bench
from hilrt.can.bus import CanBus, open_bus
from hilrt.can.sender import refuse_conflicts
from hilrt.config.from_toml import nearest
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError, HilrtError
from hilrt.peers import wire
from hilrt.peers.peer import Peer
from hilrt.record import frame_feed
from hilrt.record.frame_feed import FrameFeed
from hilrt.solver import Port
from hilrt.timing.host import die_with_parent, freeze_gc
from hilrt.timing.scheduler_slice import request_short_slice

#: Heartbeats of the master that may fail to come before it counts as silent.
IDLE_HEARTBEATS = 10


def main(
    session: Path, subsystem: str, connect: str, name: str, overrides: Sequence[str] = ()
) -> int:
    """Run the gateway of one subsystem of a session file.

    Parameters
    ----------
    session : Path
        The session file.
    subsystem : str
        Which table in it.
    connect : str
        The master's address.
    name : str
        Name to connect under.
    overrides : sequence of str
        ``table.key=value`` changes to the file.

    Returns
    -------
    int
        Exit status: 0 ended in order, with the bench secured; 2 wrong configuration; 3 no session
        to serve; 70 a defect of the gateway.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the session, which then stops us
    request_short_slice()  # for one that no session started
    parent = os.getppid()
    peer: Peer | None = None
    try:
        options, folder = _read_table(session, subsystem, overrides)
        try:
            bench = read_bench(subsystem, options, folder)
        except ConfigError:
            # Under these names the master takes the connection, and so gets to know the reason.
            peer = _connect(connect, name, options.inputs, options.outputs)
            raise
        peer = Peer(connect, name, "gateway", bench.ports.inputs, bench.ports.outputs)
        peer.connect()
        label = f"[subsystems.{subsystem}] bus"
        refuse_conflicts(options.bus, bench.driven, label)
        bus = open_bus(options.bus, bench.received, label)
        frames = open_frames(subsystem, bench)
        try:
            return _serve(bench, bus, peer, parent, frames)
        finally:
            if frames is not None:
                frames.close()
            bus.close()
    except ConfigError as error:
        print(error, file=sys.stderr, flush=True)
        if peer is not None:
            peer.send(wire.Error(text=str(error)))
        return 2
    except HilrtError as error:
        print(error, file=sys.stderr, flush=True)
        return 3
    finally:
        if peer is not None:
            peer.close()


def open_frames(subsystem: str, bench: Bench) -> FrameFeed | None:
    """Where the session says that frames are recorded; None if they are not."""
    address = os.environ.get(frame_feed.VARIABLE)
    if not address or not bench.options.record_frames:
        return None
    return FrameFeed(address, subsystem)


def _serve(bench: Bench, bus: CanBus, peer: Peer, parent: int, frames: FrameFeed | None) -> int:
    idle = bench.options.idle_timeout or IDLE_HEARTBEATS * peer.heartbeat_s
    gateway = Gateway(bench, bus, peer, idle, parent, frames=frames)
    for text in bench.narrower:
        gateway.dialogue.event("warning", "narrower_limits", text)

    def terminate(number: int, frame: object) -> None:
        gateway.terminated = True

    signal.signal(signal.SIGTERM, terminate)
    die_with_parent(signal.SIGTERM, parent)
    with freeze_gc() as collect:
        gateway.collect = collect
        return gateway.run()


def _read_table(
    session: Path, subsystem: str, overrides: Sequence[str]
) -> tuple[BenchOptions, Path]:
    file = load_session(session, overrides)
    options = file.tables.subsystems.get(subsystem)
    if options is None:
        known = nearest(subsystem, file.tables.subsystems)
        raise ConfigError(f"{file.path.name}: there is no [subsystems.{subsystem}]{known}")
    if not isinstance(options, BenchOptions):
        raise ConfigError(
            f"{file.path.name}: [subsystems.{subsystem}] adapter = {options.adapter!r}: "
            'has no gateway; only adapter = "can" has'
        )
    return options, file.folder


def _connect(address: str, name: str, inputs: Iterable[str], outputs: Iterable[str]) -> Peer:
    ports = [Port(n) for n in inputs], [Port(n) for n in outputs]
    peer = Peer(address, name, "gateway", *ports)
    with contextlib.suppress(HilrtError):
        peer.connect()
    return peer
