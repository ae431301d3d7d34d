"""Operators' commands to a session: messages, client and the master's port.

A command is one msgpack frame, which includes the session's key; its reply is another. The master's
socket accepts commands only from this machine; others go through the relay, which checks the
operators' token and what the session file allows (docs/monitor.md).
"""

from __future__ import annotations

import contextlib
import hmac
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec
import zmq

from hilrt.config import session_tables
from hilrt.files.formats import decode_by
from hilrt.isolation.temporary_folder import bind, connect

if TYPE_CHECKING:
    import asyncio

#: Operators' actions, and ``refused``, by which the relay reports wrong tokens to the session.
Action = Literal[session_tables.Action, "refused"]
#: Environment variable with the key that the session gives to the processes it starts.
KEY_VARIABLE = "HILRT_COMMAND_KEY"
#: Environment variable with the operators' token; a session without it generates one per run.
TOKEN_VARIABLE = "HILRT_TOKEN"
#: Maximum length of a name (longer ones are cut) and of a text (longer ones are refused).
MAX_WHO, MAX_TEXT = 60, 500
MAX_FRAME = 4096
#: Text of an ``acknowledge`` of all events up to its number.
ALL_BEFORE = "and all before it"
#: Actions whose value is a count or an index, and the largest such value.
NUMBERED = ("acknowledge", "answer", "refused", "shadow")
MAX_NUMBER = 2**53
#: Commands handled in one turn of the event loop, which bounds the cost of a flood per tick.
COMMANDS_AT_ONCE = 4
QUEUE_LENGTH = 32
#: How long a client waits for a reply, s; a command older than this is not carried out.
ANSWER_S = 3.0
#: Time that the first command may wait for its connection, s.
CONNECT_S = 0.2
#: Actions carried out even if they arrive late, provided that they are for this run.
TO_REST = ("safe", "stop")


class OperatorCommand(msgspec.Struct, kw_only=True):
    """Command of an operator.

    Parameters
    ----------
    action : str
        ``arm``, ``safe`` (benches to their safe profile, session kept), ``stop``, ``shadow``
        (`value` 1: apply no correction, 0: apply them), ``mark`` (note `text`), ``acknowledge``
        (event number `value` and, of a flag, its changes before; with `text` `ALL_BEFORE` all
        events before; with the value 0 the alarm whose name is `text`), ``adjust`` (`text` names
        the setting, `value` is its new value), ``answer`` (to prompt number `value`; `text` is the
        answer).
    who : str
        Name of the operator, for the log.
    key : str
        Authorisation: the operators' token, or the session's own key.
    run : str
        Run that the command is for; a later run at the same address refuses it.
    at : float
        Time at which the last process on the session's machine sent it, s on that machine's
        monotonic clock.
    """

    action: Action
    who: str = ""
    value: float = 0.0
    text: str = ""
    key: str = ""
    run: str = ""
    at: float = 0.0


class Reply(msgspec.Struct):
    """Reply to a command: whether it was carried out, and its effect or the reason."""

    ok: bool
    text: str = ""


_commands = msgspec.msgpack.Decoder(OperatorCommand)
_replies = msgspec.msgpack.Decoder(Reply)


def encode(message: OperatorCommand | Reply) -> bytes:
    """One frame."""
    return msgspec.msgpack.encode(message)


def decode_command(frame: bytes) -> OperatorCommand:
    """Command in a frame, its name cut to length; `msgspec.MsgspecError` for anything else.

    A note longer than `MAX_TEXT` is refused, not cut, and so is a number that is invalid for the
    action. NaN is valid only for ``adjust``, where it releases an input.
    """
    if len(frame) > MAX_FRAME:
        raise msgspec.DecodeError(f"a command of {len(frame)} bytes")
    command: OperatorCommand = decode_by(_commands, frame)
    command.who = _printable(command.who)[:MAX_WHO] or "unknown"
    command.text = _printable(command.text)
    if command.action == "mark" and len(command.text) > MAX_TEXT:
        raise msgspec.DecodeError(f"a note of {len(command.text)} characters, over {MAX_TEXT}")
    command.text = command.text[:MAX_TEXT]
    _check_numbers(command)
    return command


def _check_numbers(command: OperatorCommand) -> None:
    """Raise `msgspec.ValidationError` for a number that is invalid for the action."""
    value, action = command.value, command.action
    if not math.isfinite(command.at):
        raise msgspec.ValidationError(f"`at` is {command.at}, not a time")
    if action in NUMBERED and not (0.0 <= value <= MAX_NUMBER and value.is_integer()):
        raise msgspec.ValidationError(f"`value` of {action} is {value:g}, not a whole number")
    gives_back = action == "adjust" and math.isnan(value)
    if not (math.isfinite(value) or gives_back):
        raise msgspec.ValidationError(f"`value` of {action} is {value:g}, not a finite number")


def decode_reply(frame: bytes) -> Reply:
    """Reply in a frame; `msgspec.MsgspecError` for anything else."""
    return decode_by(_replies, frame)


def same_key(given: str, expected: str) -> bool:
    """Compare keys in constant time; an empty key never matches."""
    return bool(expected) and hmac.compare_digest(given.encode(), expected.encode())


def _printable(text: str) -> str:
    """Text on one line without control characters: it is shown on terminals."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


class CommandPort:
    """The master's command port: receives commands between two ticks and answers them.

    Parameters
    ----------
    address : str
        Address on this machine to listen at.
    key : str
        Key that senders must give.
    obey : callable
        Carries a command out at once, and returns the reply to send.
    refused : callable
        Called when a sender gives a wrong key.
    clock : callable
        Monotonic time of this machine, s.
    """

    def __init__(
        self,
        address: str,
        key: str,
        obey: Callable[[OperatorCommand], Reply],
        refused: Callable[[OperatorCommand], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key, self._obey, self._refused, self._clock = key, obey, refused, clock
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.rcvhwm = self._socket.sndhwm = QUEUE_LENGTH
        self._socket.maxmsgsize = MAX_FRAME
        self._socket.linger = 0
        self.address = bind(self._socket, address)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fd = int(self._socket.get(zmq.FD))

    def start(self) -> None:
        """Start answering requests in the running event loop."""
        import asyncio  # the terminal view, which only sends commands, starts without it

        self._loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError):  # Windows' default loop: `poll` instead
            self._loop.add_reader(self._fd, self.poll)
        self.poll()

    def poll(self) -> None:
        """Answer requests that have arrived, a few per call."""
        for _ in range(COMMANDS_AT_ONCE):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.ZMQError:
                return
            reply = encode(self.answer(frames[-1]))
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send_multipart([*frames[:-1], reply], zmq.NOBLOCK)
        if self._loop is not None:  # the descriptor is edge-triggered: there may be more
            self._loop.call_soon(self.poll)

    def answer(self, frame: bytes) -> Reply:
        """Carry a command out, if its key is right and it arrives in time."""
        try:
            command = decode_command(frame)
        except msgspec.MsgspecError as error:
            return Reply(False, f"not a command: {error}")
        if not same_key(command.key, self._key):
            self._refused(command)
            return Reply(False, "refused: wrong key")
        age = self._clock() - command.at
        if age > ANSWER_S and command.action not in TO_REST:
            return Reply(False, f"it arrived {age:.0f} s late; repeat it if it is still wanted")
        return self._obey(command)

    def close(self) -> None:
        """Free the socket."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(NotImplementedError, ValueError):
                self._loop.remove_reader(self._fd)
        self._loop = None
        self._socket.close()
        self._context.term()


class CommandClient:
    """Client that sends commands; without a connection they are neither sent nor queued.

    Parameters
    ----------
    address : str
        Address of the relay, or of the session on this machine.
    context : zmq.Context
    run : str
        Run that commands are for; may be changed.
    clock : callable
        Monotonic time of this machine, s.
    """

    def __init__(
        self,
        address: str,
        context: zmq.Context[zmq.Socket[bytes]],
        run: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run, self._clock = run, clock
        self._socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        self._socket.linger = 200
        self._socket.sndhwm = QUEUE_LENGTH
        self._socket.immediate = True  # without a connection nothing is queued
        connect(self._socket, address)
        self._number = 0
        self._awaited: dict[int, float] = {}

    def connected(self, timeout_s: float = 0.0) -> bool:
        """Whether there is a connection; waits for one at most `timeout_s` [s]."""
        return bool(self._socket.poll(round(1e3 * timeout_s), zmq.POLLOUT))

    def send(self, command: OperatorCommand) -> int:
        """Send a command and return its number, which its reply carries; 0 if it was not sent.

        Waits up to `CONNECT_S` for a connection.
        """
        command.run, command.at = command.run or self.run, self._clock()
        self._number += 1
        try:
            self.connected(CONNECT_S)
            number = self._number.to_bytes(8, "little")
            self._socket.send_multipart([number, b"", encode(command)], zmq.NOBLOCK)
        except zmq.Again:
            return 0
        self._awaited[self._number] = command.at + ANSWER_S
        return self._number

    def replies(self) -> list[tuple[int, Reply]]:
        """Replies since the last call, with their commands' numbers.

        A command without a reply after `ANSWER_S` gets one reply that says so.
        """
        found = []
        while self._socket.poll(0):
            frames = self._socket.recv_multipart()
            number = int.from_bytes(frames[0], "little")
            with contextlib.suppress(msgspec.MsgspecError):
                found.append((number, decode_reply(frames[-1])))
                self._awaited.pop(number, None)
        now = self._clock()
        for number in [n for n, until in self._awaited.items() if now >= until]:
            del self._awaited[number]
            found.append((number, Reply(False, f"no answer within {ANSWER_S:g} s")))
        return found

    def ask(self, command: OperatorCommand, timeout_s: float = 2.0) -> Reply:
        """Send a command and wait for its reply, at most `timeout_s` [s]."""
        self.connected(timeout_s)
        number = self.send(command)
        while number and self._socket.poll(round(1e3 * timeout_s)):
            for answered, reply in self.replies():
                if answered == number:
                    return reply
        return Reply(False, f"no answer within {timeout_s:g} s")

    def close(self) -> None:
        """Free the socket."""
        self._socket.close()
