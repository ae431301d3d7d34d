"""Bridge to Foxglove and Lichtblick: the telemetry stream over their WebSocket protocol.

``python -m hilrt.monitor.foxglove``; needs the extra ``hilrt[foxglove]``. The bridge is a separate
process that subscribes to the stream. It is read-only: clients with the reading token can only
subscribe to channels.
Topics and message types are those of the log, so that one layout serves the log and the live
session (docs/telemetry.md).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
import time
from collections import Counter
from typing import Any

import msgspec
import zmq

from hilrt.monitor.broadcast import MAX_FULL
from hilrt.monitor.foxglove_server import (
    ERROR,
    WARNING,
    ChannelContent,
    FoxgloveChannel,
    FoxgloveServer,
    json_content,
)
from hilrt.monitor.read_token import keep_out_of_logs, read_token, with_token
from hilrt.monitor.stream import Full, Happening, Head, Signals, array
from hilrt.monitor.telemetry import RaisedFlag, Status
from hilrt.monitor.viewer import Viewer
from hilrt.peers.addresses import parse_address
from hilrt.record import cdr
from hilrt.record.messages import EVENTS, Topic

#: How often the stream is checked, s.
POLL_S = 0.01
STATE = "/state"
#: Time for which the server outlasts the session, s.
LAST_LOOK_S = 0.6


class BondMessage(msgspec.Struct):
    """Power through a bond [W] and its energy ledger [J]."""

    name: str
    power_w: float
    residual_energy_j: float
    tracking_energy_j: float
    corrected_energy_j: float


class PeerMessage(msgspec.Struct):
    """A `PeerStatus` with its name."""

    name: str
    late: int
    lost: int
    age_ms: float
    dropped: int


class StateMessage(msgspec.Struct):
    """Message of ``/state``: a `Status` without values, and counts of losses.

    `lost_ticks` counts ticks that did not reach the stream; `missed_messages` counts messages of
    the stream that did not reach the bridge.
    """

    session: str
    state: str
    t: float
    duration: float
    tick: int
    missed: int
    rate_hz: float
    lateness_p50_us: float
    lateness_p99_us: float
    lateness_max_us: float
    verdict: str
    evidence_lacking: bool
    message: str
    shadow: bool
    flags: list[RaisedFlag]
    bonds: list[BondMessage]
    peers: list[PeerMessage]
    lost_ticks: int
    missed_messages: int


def json_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON Schema of a struct without references, which viewers do not follow."""
    (whole,), parts = msgspec.json.schema_components([struct], ref_template="{name}")

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            node = parts[node["$ref"]] if "$ref" in node else node
            return {key: inline(value) for key, value in node.items()}
        return [inline(value) for value in node] if isinstance(node, list) else node

    schema: dict[str, Any] = inline(whole)
    return schema


class Bridge:
    """Server of a `Viewer`'s data on the running event loop; `OSError` for an unusable address.

    Attributes
    ----------
    port : int
        Port that it listens at.
    stop : bool
        Ends `run` once the messages received so far are forwarded.
    server : FoxgloveServer
        Its channels and clients.
    requested : dict of str to int
        Signals requested at full rate, and the number of clients for each.
    """

    def __init__(self, viewer: Viewer, host: str, port: int, token: str) -> None:
        self.stop = False
        self._viewer = viewer
        viewer.on_signals, viewer.on_full = self._send_signals, self._send_full
        viewer.on_event = self._send_event
        self.server = FoxgloveServer(host, port, token)
        self.port = self.server.port
        self._state = self.server.open(STATE, json_content(json_schema(StateMessage)))
        self._events = self.server.open(EVENTS, json_content(cdr.LOG_SCHEMA))
        self._rows: list[tuple[slice, tuple[FoxgloveChannel, FoxgloveChannel, FoxgloveChannel]]]
        self._rows = []
        self._full: dict[str, FoxgloveChannel] = {}
        self._name_of: dict[str, str] = {}
        self.requested: Counter[str] = Counter()
        self._event_readers: set[int] = set()
        self._head: Head | None = None
        self._shown: Status | None = None
        self._silent = False
        self._width = self._lost = 0

    async def run(self) -> None:
        """Serve until `stop`; messages received by then are still forwarded."""
        end = math.inf
        while time.monotonic() < end:
            self.turn()
            await asyncio.sleep(POLL_S)
            if self.stop and end == math.inf:
                end = time.monotonic() + LAST_LOOK_S

    def turn(self) -> None:
        """Receive the stream's messages, and forward them."""
        self._viewer.poll()
        self._follow_head()
        for client, topic, change in self.server.changes():
            self._serve(client, topic, change)
        status = self._viewer.status
        if status is not None and status is not self._shown:
            self._shown = status
            self._state.log(self._state_message(status), log_time=self._wall_ns(status.t))
        self._log_silence()

    def close(self) -> None:
        """Stop the server."""
        self.server.close()

    # -- channels ---------------------------------------------------------------------------------

    def _follow_head(self) -> None:
        """Replace the channels when another session or its log begins."""
        head, before = self._viewer.head, self._head
        if head is None or head is before:
            return
        self._head = head
        if before is not None and before.signals == head.signals and before.topics == head.topics:
            return
        for channel in (*(c for _, three in self._rows for c in three), *self._full.values()):
            channel.close()
        for name in self.requested:
            self._viewer.drop_full(name)
        self.requested.clear()
        self._rows, self._full, self._name_of = [], {}, {}
        self._open_channels(head)

    def _open_channels(self, head: Head) -> None:
        first, topics = 0, []
        for name, size in head.topics:
            topics.append(Topic(name, head.signals[first : first + size]))
            first += size
        self._width = first
        for topic, columns in zip(topics, cdr.signal_slices(topics), strict=True):
            kind, text = cdr.schema_name(topic.name), cdr.schema_text(topic)
            last, low, high = (
                self._cdr_channel(f"/{topic.name}{suffix}", kind, text)
                for suffix in ("", "/min", "/max")
            )
            self._rows.append((slice(8 * columns.start, 8 * columns.stop), (last, low, high)))
            for found, path in zip(topic.signals, cdr.field_paths(topic), strict=True):
                where = f"/full/{topic.name}/{path.replace('.', '/')}"
                self._name_of[where] = found.name
                about = {"signal": found.name, "unit": found.unit}
                channel = self._cdr_channel(where, "hilrt/msg/Value", "float64 value\n", about)
                self._full[found.name] = channel

    def _cdr_channel(
        self, topic: str, kind: str, text: str, about: dict[str, str] | None = None
    ) -> FoxgloveChannel:
        return self.server.open(topic, ChannelContent("cdr", kind, "ros2msg", text), about)

    def _serve(self, client: int, topic: str, change: int) -> None:
        """Process a client's subscription (`change` 1) or the end of one (-1)."""
        if topic == EVENTS and change > 0:
            for event in self._viewer.events.values():
                self._log_event(event, client)
            self._event_readers.add(client)
        elif topic == EVENTS:
            self._event_readers.discard(client)
        name = self._name_of.get(topic)
        if name is None or self.requested[name] + change < 0:  # a channel of the previous session
            return
        self.requested[name] += change
        if self.requested[name] == 0:
            del self.requested[name]
            self._viewer.drop_full(name)
        elif self.requested[name] == 1 and change > 0:
            self._viewer.want_full(name)
            if len(self.requested) > MAX_FULL:
                text = f"only {MAX_FULL} signals at full rate at a time: some get no data"
                self.server.publish_status(text, WARNING, "full")

    # -- messages ---------------------------------------------------------------------------------

    def _wall_ns(self, t: float) -> int:
        """Wall-clock time of session time `t` [s], ns since 1970; now, if no log has begun."""
        epoch_ns = self._head.epoch_ns if self._head is not None else 0
        return epoch_ns + round(t * 1e9) if epoch_ns else time.time_ns()

    def _send_signals(self, message: Signals) -> None:
        self._follow_head()
        columns = (message.last, message.minimum, message.maximum)
        if any(len(data) != 8 * self._width for data in columns):
            return
        self._lost = message.lost
        log_time = self._wall_ns(message.t_until)
        for part, channels in self._rows:
            for channel, data in zip(channels, columns, strict=True):
                channel.log(cdr.HEADER + data[part], log_time=log_time)

    def _send_full(self, message: Full) -> None:
        channel = self._full.get(message.name)
        if channel is None:
            return
        for i, t in enumerate(array(message.t).tolist()):
            value = message.value[8 * i : 8 * i + 8]
            channel.log(cdr.HEADER + value, log_time=self._wall_ns(t))

    def _send_event(self, event: Happening) -> None:
        # Not to all subscribers: those not yet served receive the event when they are served.
        for client in self._event_readers:
            self._log_event(event, client)

    def _log_event(self, event: Happening, client: int) -> None:
        log_time = self._wall_ns(event.t)
        text = cdr.log_entry(log_time, event.t, event.level, event.cause, event.source, event.text)
        self._events.log(text, log_time, client)

    def _state_message(self, status: Status) -> bytes:
        late, nan = status.lateness_us, math.nan
        state = StateMessage(
            session=status.session,
            state=status.state,
            t=status.t,
            duration=status.duration,
            tick=status.tick,
            missed=status.missed,
            rate_hz=status.rate_hz,
            lateness_p50_us=late.p50 if late is not None else nan,
            lateness_p99_us=late.p99 if late is not None else nan,
            lateness_max_us=late.max if late is not None else nan,
            verdict=status.verdict,
            evidence_lacking=status.evidence_lacking,
            message=status.message,
            shadow=status.shadow,
            flags=self._viewer.flags,
            bonds=[BondMessage(n, **msgspec.structs.asdict(b)) for n, b in status.bonds.items()],
            peers=[PeerMessage(n, **msgspec.structs.asdict(p)) for n, p in status.peers.items()],
            lost_ticks=self._lost,
            missed_messages=self._viewer.missed,
        )
        return msgspec.json.encode(state)

    def _log_silence(self) -> None:
        silent = self._viewer.silent and not self._viewer.ended
        if silent == self._silent:
            return
        self._silent = silent
        if silent:
            self.server.publish_status("the session is silent", ERROR, "silent")
        else:
            self.server.remove_status("silent")


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; exit status 2 for an address that cannot be used."""
    parser = argparse.ArgumentParser(prog="hilrt monitor", description="Bridge to Foxglove.")
    parser.add_argument("--connect", required=True, help="address of the telemetry stream")
    parser.add_argument("--foxglove", required=True, help="address and port to listen at")
    parser.add_argument("--of-session", action="store_true", help="the session prints the token")
    options = parser.parse_args(arguments)
    try:
        host, port = parse_address(options.foxglove)
    except ValueError as error:
        sys.stderr.write(f"--foxglove {error}\n")
        return 2
    try:
        viewer = Viewer(options.connect, commands=None)
    except zmq.ZMQError as error:
        sys.stderr.write(f"{options.connect}: {error}; write it as tcp://HOST:PORT\n")
        return 2
    try:
        return asyncio.run(_serve(viewer, host, port, own=options.of_session))
    except OSError as error:
        reason = error.strerror or error
        sys.stderr.write(f"foxglove: cannot use {options.foxglove}: {reason}; choose another\n")
        return 2
    finally:
        viewer.close()


async def _serve(viewer: Viewer, host: str, port: int, own: bool) -> int:
    bridge = Bridge(viewer, host, port, read_token())
    keep_out_of_logs(read_token())

    def stop(*_: object) -> None:
        bridge.stop = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    where = f"ws://[{host}]:{bridge.port}" if ":" in host else f"ws://{host}:{bridge.port}"
    # A session prints the token itself, because output of this process goes to its log folder.
    print(f"foxglove: {where if own else with_token(where, read_token())}", flush=True)
    await bridge.run()
    bridge.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
