"""Server of Foxglove's WebSocket protocol that only sends, to clients that know a token.

The server sends a description of itself, its channels (`advertise`), and the messages of the
channels that the client subscribes to. The client sends `subscribe` and `unsubscribe`. Foxglove's
own library is not used, because it serves anyone who can reach its port (docs/architecture.md).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from tornado.iostream import StreamClosedError
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from hilrt.monitor.limited_server import LimitedServer, trust
from hilrt.monitor.operator_commands import same_key
from hilrt.monitor.read_token import PARAMETER, given_token, listen_at

PROTOCOLS = ("foxglove.sdk.v1", "foxglove.websocket.v1")
#: Levels of a status.
WARNING, ERROR = 1, 2
#: Maximum messages queued for a slow client; beyond this, the oldest are dropped. A full-rate batch
#: has one for every tick of every requested signal.
BACKLOG = 16_384
#: Clients connected at the same time, and the longest message of one, bytes.
MAX_CLIENTS = 32
MAX_REQUEST = 1 << 16
#: Bytes handed to the socket at a time.
_AT_ONCE = 1 << 18
_PING_S = 10.0
_DATA = struct.Struct("<BIQ")
_MESSAGE_DATA = 1
_TEXT_FRAME, _BINARY_FRAME = 0x81, 0x82
_NO_TOKEN = "give the token: open the address that the session prints"


class Subscription(msgspec.Struct, rename="camel"):
    """Subscription to a channel, with the client's number for it."""

    id: int
    channel_id: int


class ClientRequest(msgspec.Struct, rename="camel"):
    """Request of a client; `op` is its kind."""

    op: str
    subscriptions: list[Subscription] = []
    subscription_ids: list[int] = []


class ChannelContent(NamedTuple):
    """Format of a channel's messages.

    Attributes
    ----------
    encoding : str
        Encoding of a message.
    schema_name, schema_encoding, schema : str
        Type of a message.
    """

    encoding: str
    schema_name: str
    schema_encoding: str
    schema: str


def json_content(schema: Mapping[str, Any]) -> ChannelContent:
    """JSON messages with a JSON Schema that has a title."""
    return ChannelContent("json", schema["title"], "jsonschema", json.dumps(schema))


class FoxgloveChannel:
    """Topic that clients can subscribe to."""

    def __init__(self, server: FoxgloveServer, number: int, advertised: dict[str, Any]) -> None:
        self.number, self.topic, self.advertised = number, advertised["topic"], advertised
        self._server = server
        #: Clients and the numbers of their subscriptions.
        self.subscribers: dict[tuple[FoxgloveClient, int], None] = {}

    def log(self, payload: bytes, log_time: int, client: int | None = None) -> None:
        """Send a message of `log_time`, ns since 1970, to all subscribers, or only to `client`."""
        for subscriber, number in self.subscribers:
            if client is None or subscriber.number == client:
                subscriber.send(_DATA.pack(_MESSAGE_DATA, number, log_time) + payload)

    def close(self) -> None:
        """Withdraw the channel from all clients."""
        self._server.forget(self)


class FoxgloveServer:
    """WebSocket server on the running event loop; `OSError` for an unusable address.

    Parameters
    ----------
    host, port
        Address to listen at; port 0 takes a free one.
    token : str
        Token that clients must give.

    Attributes
    ----------
    port : int
        Port that it listens at.
    clients : set of FoxgloveClient
    """

    def __init__(self, host: str, port: int, token: str) -> None:
        self.clients: set[FoxgloveClient] = set()
        self.channels: dict[int, FoxgloveChannel] = {}
        self.token = token
        self.numbers = itertools.count(1)
        self.changed: deque[tuple[int, str, int]] = deque()
        self._session = str(time.time_ns() // 1_000_000)
        sockets = listen_at(host, port)
        for one in sockets:
            one.setblocking(False)
        self.port: int = sockets[0].getsockname()[1]
        application = Application(
            [(r".*", FoxgloveClient, {"server": self})],
            websocket_max_message_size=MAX_REQUEST,
            websocket_ping_interval=_PING_S,
            log_function=lambda handler: None,
        )
        self._http = LimitedServer(application)
        self._http.add_sockets(sockets)

    def open(
        self, topic: str, content: ChannelContent, about: Mapping[str, str] | None = None
    ) -> FoxgloveChannel:
        """Open a new channel, with metadata `about` it."""
        number = next(self.numbers)
        advertised = {
            "id": number,
            "topic": topic,
            "encoding": content.encoding,
            "schemaName": content.schema_name,
            "schemaEncoding": content.schema_encoding,
            "schema": content.schema,
        }
        if about:
            advertised["metadata"] = dict(about)
        self.channels[number] = made = FoxgloveChannel(self, number, advertised)
        self.send_json(op="advertise", channels=[advertised])
        return made

    def forget(self, channel: FoxgloveChannel) -> None:
        """Remove a channel."""
        self.channels.pop(channel.number, None)
        for client, subscription in list(channel.subscribers):
            client.unsubscribe(subscription)
        self.send_json(op="unadvertise", channelIds=[channel.number])

    def changes(self) -> list[tuple[int, str, int]]:
        """Client, topic and +1 or -1 for each subscription begun or ended since the last call."""
        found = list(self.changed)
        self.changed.clear()
        return found

    def publish_status(self, text: str, level: int, status: str) -> None:
        """Show a text to all clients; `remove_status` with the same `status` removes it."""
        self.send_json(op="status", level=level, message=text, id=status)

    def remove_status(self, status: str) -> None:
        """Remove the text shown under this name."""
        self.send_json(op="removeStatus", statusIds=[status])

    def greet(self, client: FoxgloveClient) -> None:
        """Send a new client the list of channels."""
        client.send_json(
            op="serverInfo",
            name="hilrt",
            capabilities=[],
            metadata={},
            sessionId=self._session,
        )
        found = [channel.advertised for channel in self.channels.values()]
        if found:
            client.send_json(op="advertise", channels=found)

    def send_json(self, **message: Any) -> None:
        """Send a JSON message to all clients."""
        for client in self.clients:
            client.send_json(**message)

    def close(self) -> None:
        """Close the connections and stop the server."""
        self._http.stop()
        for client in list(self.clients):
            client.close()


class FoxgloveClient(WebSocketHandler):
    """One client: its subscriptions, and the messages queued for it."""

    def initialize(self, server: FoxgloveServer) -> None:
        """Set the server; called by tornado."""
        self._server = server
        self.number = 0
        self._subscriptions: dict[int, FoxgloveChannel] = {}
        self._control: deque[bytes] = deque()
        self._data: deque[bytes] = deque(maxlen=BACKLOG)
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Refuse the request, or upgrade it to a WebSocket."""
        given = given_token(
            self.get_query_arguments(PARAMETER), self.request.headers.get("Authorization", "")
        )
        offered = self.request.headers.get("Sec-WebSocket-Protocol", "")
        if not same_key(given, self._server.token):
            self._refuse(403, _NO_TOKEN)
        elif not any(word.strip() in PROTOCOLS for word in offered.split(",")):
            self._refuse(400, f"a WebSocket of {' or '.join(PROTOCOLS)} is served here")
        elif len(self._server.clients) >= MAX_CLIENTS:
            self._refuse(503, f"{MAX_CLIENTS} clients are already connected")
        else:
            trust(self.request)
            await super().get(*args, **kwargs)

    def _refuse(self, status: int, reason: str) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{reason}\n")

    def check_origin(self, origin: str) -> bool:
        """Accept pages of any site, such as Foxglove's own; access depends on the token alone."""
        return True

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """First of the client's subprotocols that the server supports."""
        return next((name for name in subprotocols if name in PROTOCOLS), None)

    def open(self, *args: str, **kwargs: str) -> None:
        """Send the list of channels, and their messages from now on."""
        self.number = next(self._server.numbers)
        self._server.clients.add(self)
        self._server.greet(self)
        self._writer = asyncio.get_running_loop().create_task(self._write())

    def on_message(self, message: str | bytes) -> None:
        """Subscribe or unsubscribe; anything else is refused with the reason."""
        try:
            request = msgspec.json.decode(message, type=ClientRequest)
        except msgspec.MsgspecError as error:
            self._object(f"invalid message: {error}")
            return
        if request.op == "subscribe":
            for one in request.subscriptions:
                self._subscribe(one)
        elif request.op == "unsubscribe":
            for number in request.subscription_ids:
                self.unsubscribe(number)
        else:
            self._object(f"{request.op}: this server only sends")

    def on_close(self) -> None:
        """Forget the client."""
        self._server.clients.discard(self)
        for number in list(self._subscriptions):
            self.unsubscribe(number)
        if self._writer is not None:
            self._writer.cancel()

    def unsubscribe(self, number: int) -> None:
        """End the subscription of this number, if there is one."""
        channel = self._subscriptions.pop(number, None)
        if channel is not None:
            del channel.subscribers[self, number]
            self._server.changed.append((self.number, channel.topic, -1))

    def _subscribe(self, request: Subscription) -> None:
        channel = self._server.channels.get(request.channel_id)
        if channel is None or request.id in self._subscriptions or not 0 <= request.id < 1 << 32:
            self._object(
                f"subscription {request.id} to channel {request.channel_id} is not possible"
            )
            return
        self._subscriptions[request.id] = channel
        channel.subscribers[self, request.id] = None
        self._server.changed.append((self.number, channel.topic, 1))

    def _object(self, text: str) -> None:
        self.send_json(op="status", level=ERROR, message=text)

    # -- to the client ----------------------------------------------------------------------------

    def send_json(self, **message: Any) -> None:
        """Send a JSON message; disconnect a client that does not read."""
        if len(self._control) >= BACKLOG:
            self.close()
            return
        self._control.append(_frame(_TEXT_FRAME, json.dumps(message).encode()))
        self._wake.set()

    def send(self, payload: bytes) -> None:
        """Queue a binary message."""
        self._data.append(_frame(_BINARY_FRAME, payload))
        self._wake.set()

    async def _write(self) -> None:
        """Send queued messages in batches, as fast as the client reads them."""
        stream = None if self.ws_connection is None else self.ws_connection.stream
        if stream is None:
            return
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while frames := self._next():
                    await stream.write(frames)
        except StreamClosedError:
            pass  # `on_close` is called, too

    def _next(self) -> bytes:
        frames, size = [], 0
        for waiting in (self._control, self._data):
            while waiting and size < _AT_ONCE:
                frames.append(waiting.popleft())
                size += len(frames[-1])
        return b"".join(frames)


def _frame(kind: int, payload: bytes) -> bytes:
    """WebSocket frame sent by a server (RFC 6455, section 5.2)."""
    size = len(payload)
    if size < 126:
        return bytes((kind, size)) + payload
    if size < 1 << 16:
        return struct.pack(">BBH", kind, 126, size) + payload
    return struct.pack(">BBQ", kind, 127, size) + payload
