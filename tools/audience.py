"""Watchers of a session, for `bench_monitor`: clients of its page and a frozen subscriber.

Each is a process of its own: ``python -m tools.audience --page-client ADDRESS``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import Any

import zmq

from tools.watched_session import MASTER, Run

NICE = 10
CLIENTS = 3
#: Message by which a browser reports that it has drawn the document; the page then adds its
#: figures.
DRAWN = {
    "kind": "MessageSent",
    "msg_type": "bokeh_event",
    "msg_data": {"type": "event", "name": "document_ready", "values": {"type": "map"}},
}


class PageClient:
    """Follow the page over its WebSocket like a browser: read every message, echo updates.

    A message consists of JSON frames (header, metadata, content) and frames of binary data.
    """

    def __init__(self) -> None:
        self.updates = 0
        self._ids: dict[str, str] = {}
        self._number = 0

    async def follow(self, address: str) -> None:
        """Follow the server from the connection until its end."""
        from bokeh.util.token import generate_jwt_token, generate_session_id
        from tornado.websocket import websocket_connect

        token = generate_jwt_token(generate_session_id())
        self._socket = await websocket_connect(
            address.replace("http", "ws").replace("/?", "/ws?"), subprotocols=["bokeh", token]
        )
        while (header := await self._frame()) is not None:
            await self._frame()
            content = await self._frame()
            for _ in range(2 * header.get("num_buffers", 0)):
                await self._socket.read_message()
            if header["msgtype"] == "ACK":
                self._ask("PULL-DOC-REQ", {})
            elif header["msgtype"] == "PULL-DOC-REPLY":
                self._find(content)
                self._ask("PATCH-DOC", {"events": [DRAWN]})
                print("ready", flush=True)
            elif header["msgtype"] == "PATCH-DOC" and content is not None:
                self._take(content["events"])

    async def _frame(self) -> Any:
        text = await self._socket.read_message()
        return None if text is None else json.loads(text)

    def _ask(self, kind: str, content: dict[str, Any]) -> None:
        self._number += 1
        header = {"msgid": str(self._number), "msgtype": kind}
        for part in (header, {}, content):
            self._socket.write_message(json.dumps(part))

    def _find(self, node: Any) -> None:
        """Collect the identifiers of named models."""
        if isinstance(node, dict):
            name = (node.get("attributes") or {}).get("name")
            if name and "id" in node:
                self._ids[name] = node["id"]
            for value in node.values():
                self._find(value)
        elif isinstance(node, list):
            for value in node:
                self._find(value)

    def _take(self, events: list[dict[str, Any]]) -> None:
        if "state" not in self._ids:  # the document has not come yet
            return
        for event in events:
            mine = event.get("model", {}).get("id") == self._ids["state"]
            if mine and event.get("attr") == "tags":
                self.updates += 1
                echo = {"kind": "ModelChanged", "model": {"id": self._ids["answer"]},
                        "attr": "tags", "new": event["new"]}  # fmt: skip
                self._ask("PATCH-DOC", {"events": [echo]})


def page_client(address: str) -> None:
    """Follow the page until it ends; returns the number of updates."""
    os.nice(NICE)
    leave_master_alone()
    client = PageClient()
    asyncio.run(client.follow(address))
    print(client.updates, flush=True)


def leave_master_alone() -> None:
    """Run on the other processors, like a process on another machine."""
    if hasattr(os, "sched_setaffinity") and len(others := os.sched_getaffinity(0) - {MASTER}):
        os.sched_setaffinity(0, others)


def subscriber(address: str) -> None:
    """Subscribe to everything; the parent freezes this process when it reports."""
    leave_master_alone()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket: zmq.Socket[bytes] = context.socket(zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.connect(address)
    socket.recv_multipart()
    print("ready", flush=True)
    while True:
        socket.recv_multipart()


class Audience:
    """Clients of the page and a frozen subscriber, in processes of their own."""

    def __init__(self, run: Run) -> None:
        self.frozen = self._start("--subscriber", run.telemetry)
        self.clients = [self._start("--page-client", run.page) for _ in range(CLIENTS)]

    def gather(self) -> None:
        """Wait until all are connected; then freeze the subscriber."""
        for process in (self.frozen, *self.clients):
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                sys.exit("a client of the page did not connect")
        self.frozen.send_signal(signal.SIGSTOP)

    @staticmethod
    def _start(option: str, address: str) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, option, address]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def updates(self) -> list[int]:
        """Number of updates received by each client; waits for their end."""
        return [int(client.communicate(timeout=30.0)[0]) for client in self.clients]

    def close(self) -> None:
        """End the remaining processes."""
        for process in (self.frozen, *self.clients):
            process.kill()
            process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page-client", metavar="ADDRESS")
    parser.add_argument("--subscriber", metavar="ADDRESS")
    options = parser.parse_args()
    if options.page_client:
        page_client(options.page_client)
    elif options.subscriber:
        subscriber(options.subscriber)


if __name__ == "__main__":
    main()
