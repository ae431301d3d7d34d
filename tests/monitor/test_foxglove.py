"""The bridge to Foxglove, seen by a client that speaks its WebSocket protocol."""

import asyncio
import json
import math
import socket
import struct
import time

import numpy as np
import pytest

pytest.importorskip("tornado", reason="the bridge needs hilrt[foxglove]")

import zmq
from mcap.records import Schema
from mcap_ros2.decoder import DecoderFactory
from tornado.httpclient import HTTPClientError
from tornado.websocket import websocket_connect

from hilrt.monitor import foxglove, foxglove_server, stream
from hilrt.monitor.broadcast import MAX_FULL, Broadcast
from hilrt.monitor.foxglove import Bridge, StateMessage, json_schema, parse_address
from hilrt.monitor.stream import Head
from hilrt.monitor.telemetry import BondStatus, PeerStatus, Percentiles, RaisedFlag, Status
from hilrt.monitor.telemetry import encode as encode_status
from hilrt.monitor.viewer import SILENCE_S, Viewer
from hilrt.record.messages import BATCH, ROWS, Begin, RecordEvent, Signal, Topic, encode

EPOCH_NS = 1_780_000_000_000_000_000
TOPICS = [
    Topic("outputs", [Signal("engine.torque", "N*m"), Signal("vehicle.speed", "m/s")]),
    Topic("timing", [Signal("master:lateness", "us")]),
]
TORQUE = "/full/outputs/engine/torque"
STATUS = Status(
    session="engine",
    state="RUNNING",
    t=1.5,
    rate_hz=998.7,
    lateness_us=Percentiles(60.0, 180.0, 400.0),
    values={"engine.torque": 1.0},
    flags=[RaisedFlag("sample_late", "vehicle")],
    bonds={"shaft": BondStatus(25_000.0, -12.5, math.nan, 3.0)},
    peers={"vehicle": PeerStatus(12, 0, 1.2)},
)


class Client:
    """Speaks the protocol: JSON texts for what there is, binary messages for data."""

    def __init__(self):
        self.channels, self.data, self.told, self._asked = {}, {}, [], {}

    async def connect(self, port, query="?token=token", protocol="foxglove.sdk.v1"):
        self._socket = await websocket_connect(
            f"ws://127.0.0.1:{port}/{query}",
            subprotocols=[protocol],
            on_message_callback=self._take,
        )
        return self

    def _take(self, message):
        if isinstance(message, bytes):
            opcode, number, log_time = struct.unpack_from("<BIQ", message)
            assert opcode == 1
            self.data[self._asked[number]].append((log_time, message[13:]))
        elif message is not None:
            told = json.loads(message)
            self.told.append(told)
            for channel in told.get("channels", ()):
                self.channels[channel["topic"]] = channel
            for number in told.get("channelIds", ()) if told["op"] == "unadvertise" else ():
                self.channels = {t: c for t, c in self.channels.items() if c["id"] != number}

    async def subscribe(self, topic):
        number = len(self._asked) + 1
        self._asked[number] = topic
        self.data[topic] = []
        asked = [{"id": number, "channelId": self.channels[topic]["id"]}]
        await self._send(op="subscribe", subscriptions=asked)

    async def unsubscribe(self, topic):
        number = next(n for n, asked in self._asked.items() if asked == topic)
        await self._send(op="unsubscribe", subscriptionIds=[number])

    async def _send(self, **message):
        await self.write(json.dumps(message))

    async def write(self, text):
        await self._socket.write_message(text)

    def values(self, topic):
        """Log times and numbers, decoded by a library that is not ours."""
        channel = self.channels[topic]
        assert (channel["encoding"], channel["schemaEncoding"]) == ("cdr", "ros2msg")
        text = channel["schema"].encode()
        schema = Schema(1, text, "ros2msg", channel["schemaName"])
        decode = DecoderFactory().decoder_for("cdr", schema)
        return [(log_time, decode(payload)) for log_time, payload in self.data[topic]]

    def texts(self, topic):
        return [json.loads(payload) for _, payload in self.data[topic]]

    def close(self):
        self._socket.close()


class Session:
    """What a relay publishes, a bridge beside it, and its clients."""

    def __init__(self):
        self.now = 0.0
        self.broadcast = Broadcast(Head(session="engine", rate=10.0))
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self.viewer = Viewer(f"tcp://127.0.0.1:{port}", clock=lambda: self.now)
        self.bridge = Bridge(self.viewer, "127.0.0.1", 0, "token")
        self.clients = []
        self._next = 0

    async def client(self):
        self.clients.append(await Client().connect(self.bridge.port))
        await self.until(lambda: "/state" in self.clients[-1].channels)
        return self.clients[-1]

    def channel(self, topic):
        """The newest of its name."""
        channels = self.bridge.server.channels.values()
        return [c for c in channels if c.advertised["topic"] == topic][-1]

    def begin(self, topics=TOPICS):
        self._next = 0
        self.broadcast.process([encode(Begin("out", "engine", EPOCH_NS, topics, [], {}))])

    def rows(self, times_ns, rows):
        index = BATCH.pack(self._next)
        self._next += len(rows)
        frames = [ROWS, index, np.asarray(times_ns, "<i8").tobytes(), rows.tobytes()]
        self.broadcast.process(frames)

    def event(self, text):
        self.broadcast.process(
            [encode(RecordEvent(500_000_000, "warning", "sample_late", "a", text))]
        )

    def status(self, status):
        self._socket.send_multipart([stream.STATUS, encode_status(status)])

    async def until(self, condition, turn=True):
        """Pass everything on until a condition holds; without `turn` the bridge does nothing."""
        deadline = time.monotonic() + 20.0
        while not condition():
            assert time.monotonic() < deadline
            while self._socket.poll(0):
                self.broadcast.subscribe(self._socket.recv())
            self.send()
            if turn:
                self.bridge.turn()
            await asyncio.sleep(0.002)

    def send(self):
        for topic, frame in self.broadcast.outbox:
            self._socket.send_multipart([topic, frame])
        self.broadcast.outbox.clear()

    async def publish_signals(self):
        self.now += 1.0
        self.broadcast.tick(self.now)
        await self.until(lambda: not self.broadcast.outbox)

    def close(self):
        for client in self.clients:
            client.close()
        self.bridge.close()
        self.viewer.close()
        self._context.destroy(linger=0)


@pytest.fixture
async def session():
    made = Session()
    made.begin()
    await made.until(lambda: made.viewer.head and made.viewer.head.signals)
    yield made
    made.close()
    await asyncio.sleep(0)


async def test_client_receives_the_values_that_were_published(session):
    client = await session.client()
    topics = ("/outputs", "/outputs/min", "/outputs/max", "/timing")
    for topic in topics:
        await client.subscribe(topic)
    await session.until(lambda: session.channel("/timing").subscribers)
    rows = np.random.default_rng(1).normal(size=(100, 3))
    rows[-1, 1] = np.nan
    session.rows(np.arange(100) * 1_000_000, rows)
    await session.publish_signals()
    await session.until(lambda: all(client.data[topic] for topic in topics))
    (log_time, last), (_, low), (_, high) = (client.values(t)[0] for t in topics[:3])
    assert log_time == EPOCH_NS + 99_000_000
    assert (last.engine.torque, last.vehicle.speed) == (rows[-1, 0], rows[-2, 1])
    assert (low.engine.torque, high.engine.torque) == (rows[:, 0].min(), rows[:, 0].max())
    assert client.values("/timing")[0][1].master.lateness == rows[-1, 2]


async def test_every_tick_of_a_signal_on_request(session):
    client = await session.client()
    assert client.channels[TORQUE]["metadata"] == {"signal": "engine.torque", "unit": "N*m"}
    await client.subscribe(TORQUE)
    asked = b"full/engine.torque"
    await session.until(lambda: asked in session.broadcast.wanted)
    rows = np.random.default_rng(2).normal(size=(50, 3))
    times = 123_000_000_000 + np.arange(50) * 1_000_000
    session.rows(times, rows)
    await session.until(lambda: len(client.data[TORQUE]) == 50)
    received = client.values(TORQUE)
    assert [log_time - EPOCH_NS for log_time, _ in received] == times.tolist()
    assert [message.value for _, message in received] == rows[:, 0].tolist()
    await client.unsubscribe(TORQUE)
    await session.until(lambda: asked not in session.broadcast.wanted)
    session.rows(times + 50_000_000, rows)
    assert not [topic for topic, _ in session.broadcast.outbox if topic == asked]


async def test_clients_together_ask_for_a_signal_once(session):
    both = [await session.client(), await session.client()]
    asked = b"full/engine.torque"
    for client in both:
        await client.subscribe(TORQUE)
    await session.until(lambda: session.bridge.requested["engine.torque"] == 2)
    await both[0].unsubscribe(TORQUE)
    await session.until(lambda: session.bridge.requested["engine.torque"] == 1)
    assert asked in session.broadcast.wanted
    both[1].close()
    await session.until(lambda: not session.bridge.requested)
    await session.until(lambda: asked not in session.broadcast.wanted)
    assert session.viewer.wanted == {}


async def test_events_are_log_entries_once_each(session):
    session.event("sample_late raised: engine")
    first = await session.client()
    await first.subscribe("/events")
    await session.until(lambda: first.data["/events"])  # what happened before it came
    second = await session.client()
    await second.subscribe("/events")
    await session.until(lambda: second.data["/events"])
    session.event("sample_late cleared: engine")
    await session.until(lambda: len(first.data["/events"]) + len(second.data["/events"]) == 4)
    assert first.channels["/events"]["schemaName"] == "foxglove.Log"
    for client in (first, second):
        entries = client.texts("/events")
        assert [entry["message"].split()[1] for entry in entries] == ["raised:", "cleared:"]
        assert (entries[0]["level"], entries[0]["name"]) == (3, "a")
        assert entries[0]["timestamp"] == {"sec": 1_780_000_000, "nsec": 500_000_000}


async def test_event_that_arrives_with_a_subscription_is_told_once(session):
    client = await session.client()
    await client.subscribe("/events")
    await session.until(lambda: session.channel("/events").subscribers, turn=False)
    session.event("sample_late raised: engine")
    session.send()
    session.viewer.poll(1000)  # before the bridge serves the subscription
    await session.until(lambda: client.data["/events"])
    session.event("sample_late cleared: engine")
    await session.until(lambda: "cleared" in client.texts("/events")[-1]["message"])
    assert len(client.texts("/events")) == 2


async def test_state_with_flags_bonds_and_peers(session):
    client = await session.client()
    await client.subscribe("/state")
    await session.until(lambda: session.channel("/state").subscribers)
    session.status(STATUS)
    await session.until(lambda: client.data["/state"])
    (state,) = client.texts("/state")
    assert (state["session"], state["state"], state["t"]) == ("engine", "RUNNING", 1.5)
    assert (state["rate_hz"], state["lateness_p99_us"]) == (998.7, 180.0)
    assert state["flags"] == [{"cause": "sample_late", "where": "vehicle"}]
    assert state["bonds"][0]["power_w"] == 25_000.0
    assert state["bonds"][0]["tracking_energy_j"] is None  # JSON has no NaN
    assert state["peers"] == [
        {"name": "vehicle", "late": 12, "lost": 0, "age_ms": 1.2, "dropped": 0}
    ]
    assert client.data["/state"][0][0] == EPOCH_NS + 1_500_000_000


async def test_another_session_has_other_channels(session):
    client = await session.client()
    await client.subscribe(TORQUE)
    await session.until(lambda: session.bridge.requested)
    session.begin([Topic("outputs", [Signal("pump.pressure", "Pa")])])
    await session.until(lambda: "/full/outputs/pump/pressure" in client.channels)
    await session.until(lambda: TORQUE not in client.channels)
    assert not session.bridge.requested
    await client.subscribe("/outputs")
    await session.until(lambda: session.channel("/outputs").subscribers)
    session.rows([0], np.array([[2.5]]))
    await session.publish_signals()
    await session.until(lambda: client.data["/outputs"])
    assert client.values("/outputs")[0][1].pump.pressure == 2.5


async def test_silence_is_told(session):
    client = await session.client()
    session.status(STATUS)
    await session.until(lambda: session.viewer.status)
    session.now += SILENCE_S + 1.0
    told = [{"op": "status", "level": 2, "message": "the session is silent", "id": "silent"}]
    await session.until(lambda: client.told[-1]["op"] == "status")
    assert client.told[-1:] == told
    session.status(STATUS)
    await session.until(lambda: client.told[-1]["op"] == "removeStatus")
    assert client.told[-1]["statusIds"] == ["silent"]


async def test_too_many_at_full_rate_are_told(session):
    session.begin([Topic("many", [Signal(f"a.x{i}") for i in range(MAX_FULL + 1)])])
    client = await session.client()
    await session.until(lambda: len(client.channels) > MAX_FULL)
    for topic in [topic for topic in client.channels if topic.startswith("/full")]:
        await client.subscribe(topic)
    await session.until(lambda: client.told[-1]["op"] == "status")
    assert "at full rate" in client.told[-1]["message"]


async def test_clients_may_only_read(session):
    client = await session.client()
    (about,) = [message for message in client.told if message["op"] == "serverInfo"]
    assert about["capabilities"] == []


@pytest.mark.parametrize(
    ("query", "protocol", "status"),
    [
        ("", "foxglove.sdk.v1", 403),
        ("?token=", "foxglove.sdk.v1", 403),
        ("?token=guess", "foxglove.sdk.v1", 403),
        ("?token=token", "other.v1", 400),
    ],
)
async def test_strangers_are_refused(session, query, protocol, status):
    with pytest.raises(HTTPClientError) as refused:
        await Client().connect(session.bridge.port, query, protocol)
    assert refused.value.code == status
    assert not session.bridge.server.clients


async def test_clients_are_no_more_than_it_serves(session, monkeypatch):
    monkeypatch.setattr(foxglove_server, "MAX_CLIENTS", 1)
    await session.client()
    with pytest.raises(HTTPClientError, match="503"):
        await Client().connect(session.bridge.port)


@pytest.mark.parametrize(
    "said",
    [
        "no JSON",
        '{"op": "advertise", "channels": []}',
        '{"op": "subscribe", "subscriptions": [{"id": 1, "channelId": 999}]}',
        '{"op": "subscribe", "subscriptions": [{"id": -1, "channelId": 1}]}',
        '{"op": "subscribe", "subscriptions": [{"id": 4294967296, "channelId": 1}]}',
    ],
)
async def test_nonsense_of_a_client_is_answered(session, said):
    client = await session.client()
    await client.write(said)
    await session.until(lambda: client.told[-1]["op"] == "status")
    assert client.told[-1]["level"] == 2
    await client.subscribe("/state")  # which goes on
    await session.until(lambda: session.channel("/state").subscribers)


async def test_a_client_that_does_not_read_loses_its_oldest_messages(session, monkeypatch):
    monkeypatch.setattr(foxglove_server, "BACKLOG", 4)
    slow, other = [await session.client(), await session.client()]
    for client in (slow, other):
        await client.subscribe("/state")
    await session.until(lambda: len(session.channel("/state").subscribers) == 2)
    first = next(iter(session.channel("/state").subscribers))[0]
    first._writer.cancel()
    for number in range(10):
        session.channel("/state").log(bytes([number]), number)
        await session.until(lambda sent=number: len(other.data["/state"]) > sent)
    assert [payload for _, payload in other.data["/state"]] == [bytes([n]) for n in range(10)]
    first._writer = asyncio.get_running_loop().create_task(first._write())
    await session.until(lambda: len(slow.data["/state"]) == 4)
    assert [payload for _, payload in slow.data["/state"]] == [bytes([n]) for n in range(6, 10)]


@pytest.mark.parametrize("size", [0, 112, 113, 65_522, 65_523, 300_000])
async def test_messages_of_every_length_arrive(session, size):
    client = await session.client()
    await client.subscribe("/state")
    await session.until(lambda: session.channel("/state").subscribers)
    session.channel("/state").log(b"x" * size, 7)
    await session.until(lambda: client.data["/state"])
    assert client.data["/state"] == [(7, b"x" * size)]


# -- small parts ---------------------------------------------------------------------------------


def test_schema_has_no_references():
    schema = json_schema(StateMessage)
    assert "$ref" not in json.dumps(schema)
    assert schema["properties"]["bonds"]["items"]["properties"]["power_w"]["type"] == "number"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8765", ("127.0.0.1", 8765)),
        (":8765", ("127.0.0.1", 8765)),
        ("0.0.0.0:8765", ("0.0.0.0", 8765)),
        ("[::1]:8765", ("::1", 8765)),
    ],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:99999"])
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match="ADDRESS:PORT"):
        parse_address(text)


def test_address_in_use_is_a_clear_error(capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert foxglove.main(["--connect", "tcp://127.0.0.1:9", "--foxglove", address]) == 2
    assert f"cannot use {address}" in capfd.readouterr().err
