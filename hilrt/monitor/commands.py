"""What an operator asks of a session: the messages, the side that asks and the master's side.

A command is one msgpack frame with the session's key, a reply is another. The master's socket is
for this machine alone; commands from elsewhere go through the relay, which knows the operators'
token and what the session file allows (docs/monitor.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Callable
from typing import Literal

import msgspec
import zmq

Action = Literal["arm", "safe", "stop", "shadow", "mark", "acknowledge", "adjust"]
ACTIONS: tuple[Action, ...] = ("arm", "safe", "stop", "shadow", "mark", "acknowledge", "adjust")
#: Environment variable with the key that the session gives to the processes it starts.
KEY_VARIABLE = "HILRT_COMMAND_KEY"
#: Longest name and comment that are kept.
MAX_WHO, MAX_TEXT = 60, 500
MAX_FRAME = 4096
#: Commands handled in one turn of the event loop: what a flood may cost a tick.
COMMANDS_AT_ONCE = 4
QUEUE_LENGTH = 32


class Command(msgspec.Struct, kw_only=True):
    """Something an operator asks for.

    Parameters
    ----------
    action : str
        ``arm``, ``safe`` (benches to their safe profile, session kept), ``stop``, ``shadow``
        (`value` 1: apply no correction, 0: apply them), ``mark`` (note `text`), ``acknowledge``
        (event number `value`), ``adjust`` (`text` names what, `value` is the new one).
    who : str
        Name of the operator, for the log.
    key : str
        Proof that the sender may: the operators' token, or the session's own key.
    """

    action: Action
    who: str = ""
    value: float = 0.0
    text: str = ""
    key: str = ""


class Reply(msgspec.Struct):
    """Whether the command was obeyed, and what it did or why not."""

    ok: bool
    text: str = ""


_encoder = msgspec.msgpack.Encoder()
_commands = msgspec.msgpack.Decoder(Command)
_replies = msgspec.msgpack.Decoder(Reply)


def encode(message: Command | Reply) -> bytes:
    """One frame."""
    return _encoder.encode(message)


def decode_command(frame: bytes) -> Command:
    """Command in a frame, its texts cut to length; `msgspec.MsgspecError` if it is none."""
    if len(frame) > MAX_FRAME:
        raise msgspec.DecodeError(f"a command of {len(frame)} bytes")
    command: Command = _commands.decode(frame)
    command.who = _printable(command.who)[:MAX_WHO] or "unknown"
    command.text = _printable(command.text)[:MAX_TEXT]
    return command


def decode_reply(frame: bytes) -> Reply:
    """Reply in a frame; `msgspec.MsgspecError` if it is none."""
    reply: Reply = _replies.decode(frame)
    return reply


def same_key(given: str, expected: str) -> bool:
    """Compare keys in constant time; an empty key is never right."""
    return bool(expected) and hmac.compare_digest(given.encode(), expected.encode())


def _printable(text: str) -> str:
    """Text on one line without control characters: it is shown on terminals."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


class CommandPort:
    """The master's side: takes commands between two ticks and answers them.

    Parameters
    ----------
    address : str
        Where to listen, for this machine.
    key : str
        Senders must know it.
    obey : callable
        Carries a command out, at once; its reply goes back.
    refused : callable
        Told when a sender does not know the key.
    context : zmq.Context, optional
        Shared context.
    """

    def __init__(
        self,
        address: str,
        key: str,
        obey: Callable[[Command], Reply],
        refused: Callable[[Command], None],
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
    ) -> None:
        self._key, self._obey, self._refused = key, obey, refused
        self._context = context or zmq.Context()
        self._owns_context = context is None
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.rcvhwm = self._socket.sndhwm = QUEUE_LENGTH
        self._socket.maxmsgsize = MAX_FRAME
        self._socket.linger = 0
        self._socket.bind(address)
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fd = int(self._socket.get(zmq.FD))

    def start(self) -> None:
        """Answer from the running event loop from now on."""
        self._loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError):  # Windows' default loop: `look` instead
            self._loop.add_reader(self._fd, self.look)
        self.look()

    def look(self) -> None:
        """Answer what has arrived, a few at once."""
        for _ in range(COMMANDS_AT_ONCE):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.ZMQError:
                return
            reply = encode(self._answer(frames[-1]))
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send_multipart([*frames[:-1], reply], zmq.NOBLOCK)
        if self._loop is not None:  # the descriptor reports edges: there may be more
            self._loop.call_soon(self.look)

    def _answer(self, frame: bytes) -> Reply:
        try:
            command = decode_command(frame)
        except msgspec.MsgspecError as error:
            return Reply(False, f"not a command: {error}")
        if not same_key(command.key, self._key):
            self._refused(command)
            return Reply(False, "refused: wrong key")
        return self._obey(command)

    def close(self) -> None:
        """Free the socket."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(NotImplementedError, ValueError):
                self._loop.remove_reader(self._fd)
        self._loop = None
        self._socket.close()
        if self._owns_context:
            self._context.term()


class CommandClient:
    """The side that asks. Neither `send` nor `replies` blocks.

    Parameters
    ----------
    address : str
        Of the relay, or of the session on this machine.
    context : zmq.Context, optional
        Shared context.
    """

    def __init__(self, address: str, context: zmq.Context[zmq.Socket[bytes]] | None = None) -> None:
        self._context = context or zmq.Context()
        self._owns_context = context is None
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.linger = 200
        self._socket.sndhwm = QUEUE_LENGTH
        self._socket.connect(address)
        self._number = 0

    def send(self, command: Command) -> int:
        """Send a command; its reply carries the number that is returned (0: not sent)."""
        self._number += 1
        try:
            number = self._number.to_bytes(8, "little")
            self._socket.send_multipart([number, b"", encode(command)], zmq.NOBLOCK)
        except zmq.Again:
            return 0
        return self._number

    def replies(self) -> list[tuple[int, Reply]]:
        """What has been answered since the last call, with the commands' numbers."""
        found = []
        while self._socket.poll(0):
            number, *_, frame = self._socket.recv_multipart()
            with contextlib.suppress(msgspec.MsgspecError):
                found.append((int.from_bytes(number, "little"), decode_reply(frame)))
        return found

    def ask(self, command: Command, timeout_s: float = 2.0) -> Reply:
        """Send and wait for the reply, at most `timeout_s` [s]."""
        number = self.send(command)
        while number and self._socket.poll(round(1e3 * timeout_s)):
            for answered, reply in self.replies():
                if answered == number:
                    return reply
        return Reply(False, f"no answer within {timeout_s:g} s")

    def close(self) -> None:
        """Free the socket."""
        self._socket.close()
        if self._owns_context:
            self._context.term()
