"""Disturbed line between a solver and its master: messages are lost or delayed, connections cut.

    spawn = [PYTHON, "tools/qualification/chaos_link.py", CONTROL, SEED, COMMAND …]

The process becomes the solver, COMMAND, which connects to a child process instead of the master;
the child forwards the ZeroMQ messages on TCP (ZMTP 3, RFC 23), whole messages at a time. The file
CONTROL sets the disturbance: a JSON object with `loss`, share of the messages, `delay`, in s, and
`cut`, whether connections are cut. TCP itself loses nothing; a loss represents a defect in between.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
from pathlib import Path
from typing import Any

GREETING_BYTES = 64
MORE, LONG, COMMAND = 1, 2, 4
POLL_S = 0.01
#: Time for which messages sent before the solver's end may still be on their way, s.
END_S = 1.0


class Line:
    """Current disturbance of the line."""

    def __init__(self, control: Path, seed: int) -> None:
        self.loss, self.delay, self.cut = 0.0, 0.0, False
        self._control, self._chance = control, random.Random(seed)
        self._open: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()

    async def watch(self, parent: int) -> None:
        """Follow the file until the parent, the solver, has ended."""
        while os.getppid() == parent:
            if self._control.exists():
                said: dict[str, Any] = json.loads(self._control.read_text())
                self.loss, self.delay = said.get("loss", 0.0), said.get("delay", 0.0)
                self.cut = said.get("cut", False)
            if self.cut:
                for writer in list(self._open):
                    writer.close()
            await asyncio.sleep(POLL_S)

    async def drained(self) -> None:
        """Wait until the solver's last messages have been sent and its connections are closed."""
        if self._carrying:
            await asyncio.wait(self._carrying, timeout=END_S)
        os._exit(0)  # tasks that still wait for a message are abandoned

    def join(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Start the task `carry`."""
        task = asyncio.create_task(self.carry(source, target))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Forward messages in their order until either end closes."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = loop.create_task(_send(waiting, target))
        self._open.add(target)
        try:
            left = GREETING_BYTES  # in parts: both ends wait for each other's first bytes
            while left and (part := await source.read(left)):
                target.write(part)
                left -= len(part)
            while True:
                command, data = await read_message(source)
                if command or self._chance.random() >= self.loss:
                    waiting.put_nowait((loop.time() + self.delay, data))
        except (asyncio.IncompleteReadError, OSError):
            waiting.put_nowait((0.0, b""))
        await sending
        self._open.discard(target)
        target.close()


async def read_message(source: asyncio.StreamReader) -> tuple[bool, bytes]:
    """Read all frames of the next message unchanged; also return whether it is a command."""
    data, more, flags = b"", True, 0
    while more:
        head = await source.readexactly(1)
        flags = head[0]
        size = await source.readexactly(8 if flags & LONG else 1)
        data += head + size + await source.readexactly(int.from_bytes(size, "big"))
        more = bool(flags & MORE)
    return bool(flags & COMMAND), data


async def _send(waiting: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
    """Send each message when it is due, until an empty one."""
    loop = asyncio.get_running_loop()
    while (given := await waiting.get())[1]:
        await asyncio.sleep(max(0.0, given[0] - loop.time()))
        target.write(given[1])


async def serve(listener: socket.socket, master: tuple[str, int], line: Line, parent: int) -> None:
    """Forward the solver's connections to the master until the solver has ended."""

    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if line.cut:
            writer.close()
            return
        try:
            back, forth = await asyncio.open_connection(*master)
        except OSError:  # the master is gone
            writer.close()
            return
        line.join(reader, forth)
        line.join(back, writer)

    await asyncio.start_server(joined, sock=listener)
    await line.watch(parent)
    await line.drained()


def main() -> None:
    control, seed, *command = sys.argv[1:]
    at = command.index("--connect") + 1
    host, _, port = command[at].removeprefix("tcp://").rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    solver = os.getpid()
    if os.fork() == 0:
        line = Line(Path(control), int(seed))
        asyncio.run(serve(listener, (host, int(port)), line, solver))
    command[at] = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
