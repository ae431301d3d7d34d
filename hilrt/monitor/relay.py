"""The relay process between a session and its watchers.

``python -m hilrt.monitor.relay``; its settings are in an environment variable, because they contain
keys. It receives rows and events from the recorder and the status from the master, and publishes
the telemetry stream. It receives operators' commands, and forwards those that a token and the
session file allow. The number and speed of the watchers do not affect the session: the master has
only this process as a peer, and the recorder drops messages that this process does not read.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

import msgspec
import zmq

from hilrt.isolation.temporary_folder import bind, connect
from hilrt.monitor import stream
from hilrt.monitor.broadcast import Broadcast
from hilrt.monitor.operator_commands import (
    ALL_BEFORE,
    MAX_FRAME,
    TO_REST,
    OperatorCommand,
    Reply,
    decode_command,
    decode_reply,
    encode,
    same_key,
)
from hilrt.monitor.stream import Head
from hilrt.peers.transport.connection_limiter import ConnectionLimiter

SETTINGS_VARIABLE = "HILRT_RELAY"
#: Messages queued for a subscriber that does not read; beyond this, it loses messages.
QUEUE_LENGTH = 256
POLL_MS = 20
LINGER_MS = 300
#: Longest time for a connection to a public address to be established, ms.
HANDSHAKE_MS = 3000
#: Commands forwarded per second, which bounds the cost of a flood for the master.
COMMANDS_PER_S = 20
#: Shortest time between two reports of refused commands to the session, s.
REFUSAL_PERIOD_S = 5.0
WRONG_TOKEN = "refused: wrong token"
NO_TOKEN = (
    "refused: give the token first; the session prints it at its start, or HILRT_TOKEN has it"
)
#: Exceptions reported in full; further ones are only counted.
REPORTED_DEFECTS = 10
#: Maximum number of pending requests.
MAX_OPEN = 256


class RelaySettings(msgspec.Struct, kw_only=True):
    """Addresses of the relay (ZeroMQ endpoints), and the commands that it forwards.

    The relay binds `rows` (from the recorder), `telemetry` and `commands`, and connects to `status`
    and `master`. `public_telemetry` and `public_commands` are for other machines; empty for none.
    """

    rows: str
    status: str
    master: str
    telemetry: str
    commands: str
    public_telemetry: str = ""
    public_commands: str = ""
    key: str = ""
    token: str = ""
    head: Head


class CommandRate:
    """Rate limit of `COMMANDS_PER_S`; after a pause, that many may come at once."""

    def __init__(self) -> None:
        self._left, self._at = float(COMMANDS_PER_S), time.monotonic()

    def admit(self, now: float) -> bool:
        """Count one command at `now` [s, monotonic]; return whether it is within the limit."""
        self._left = min(COMMANDS_PER_S, self._left + (now - self._at) * COMMANDS_PER_S)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Relay:
    """Sockets around a `Broadcast`.

    Attributes
    ----------
    stop : bool
        Ends `run`.
    wrong_tokens : int
        Commands with a wrong token not yet reported to the session.
    report_at : float
        Earliest monotonic time of the next report of wrong tokens, s.
    refusals_at : float
        Likewise of other refusals, which do not delay those.
    defects : int
        Messages dropped because handling them raised an exception.
    """

    def __init__(self, settings: RelaySettings) -> None:
        self.stop, self.defects = False, 0
        self._settings = settings
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._rows = self._open(zmq.PULL)
        bind(self._rows, settings.rows)
        self._status = self._open(zmq.SUB)
        self._status.setsockopt(zmq.SUBSCRIBE, b"")
        connect(self._status, settings.status)
        self._master = self._open(zmq.DEALER)
        connect(self._master, settings.master)
        self._telemetry = self._open(zmq.XPUB)
        self._telemetry.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._telemetry.maxmsgsize = MAX_FRAME  # of subscriptions
        self._commands = self._open(zmq.ROUTER)
        self._commands.maxmsgsize = MAX_FRAME
        self._limiters: list[ConnectionLimiter] = []
        self._bind(self._telemetry, settings.telemetry, settings.public_telemetry)
        self._bind(self._commands, settings.commands, settings.public_commands)
        head = settings.head
        if settings.public_commands:
            endpoint = self._commands.getsockopt_string(zmq.LAST_ENDPOINT)
            head.commands = int(endpoint.rpartition(":")[2])
        self.broadcast = Broadcast(head)
        self._open_requests: dict[bytes, tuple[list[bytes], OperatorCommand]] = {}
        self._serial = 0
        # Commands that stop benches have their own limit, so that others do not delay them.
        self._allowances = {kind: CommandRate() for kind in (*TO_REST, "")}
        self._wrong_answers = CommandRate()
        self.wrong_tokens = 0
        self._newest_wrong = OperatorCommand(action="mark")
        self._refused: dict[str, tuple[int, OperatorCommand]] = {}  # by reason: how many, newest
        self.report_at = self.refusals_at = time.monotonic()

    def _open(self, kind: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.sndhwm = socket.rcvhwm = QUEUE_LENGTH
        socket.linger = LINGER_MS
        return socket

    def _bind(self, socket: zmq.Socket[bytes], local: str, public: str) -> None:
        bind(socket, local)
        if public:
            socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
            limiter = ConnectionLimiter(self._context, socket)
            bind(socket, public)
            limiter.bound()
            self._limiters.append(limiter)

    def run(self) -> None:
        """Relay until stopped; messages received by then are still sent."""
        poller = zmq.Poller()
        handlers = {
            self._rows: self._handle_rows,
            self._status: self._handle_status,
            self._telemetry: self._handle_subscription,
            self._commands: self._handle_command,
            self._master: self._handle_reply,
        }
        for socket in handlers:
            poller.register(socket, zmq.POLLIN)
        while True:
            ready = dict(poller.poll(POLL_MS))
            if not ready and self.stop:
                break
            for socket, handle in handlers.items():
                if socket in ready:
                    self.handle(handle)
            self.broadcast.tick(time.monotonic())
            self.report_refusals(time.monotonic())
            self._flush()
            for limiter in self._limiters:
                limiter.poll()
        for limiter in self._limiters:
            limiter.close()
        self._context.destroy(linger=LINGER_MS)

    def handle(self, receive: Callable[[], None]) -> None:
        """Call `receive` for one message; if it raises, drop that message and continue.

        The relay forwards safe and stop, so it must not end. The session is notified; the traceback
        is in the relay's log.
        """
        try:
            receive()
        except Exception as error:
            self.defects += 1
            if self.defects > REPORTED_DEFECTS:
                return
            traceback.print_exc()
            text = f"a message was dropped, {type(error).__name__}: {error}"
            self._pass_on([], OperatorCommand(action="refused", who="relay", text=text))

    def _flush(self) -> None:
        for topic, frame in self.broadcast.outbox:
            self._telemetry.send_multipart([topic, frame], zmq.NOBLOCK)
        self.broadcast.outbox.clear()

    # -- one message each -------------------------------------------------------------------------

    def _handle_rows(self) -> None:
        self.broadcast.process(self._rows.recv_multipart())

    def _handle_status(self) -> None:
        self._telemetry.send_multipart([stream.STATUS, self._status.recv()], zmq.NOBLOCK)

    def _handle_subscription(self) -> None:
        self.broadcast.subscribe(self._telemetry.recv())

    def _handle_command(self) -> None:
        frames = self._commands.recv_multipart()
        try:
            command = decode_command(frames[-1])
        except msgspec.MsgspecError as error:
            self._answer(frames, Reply(False, f"not a command: {error}"))
            return
        now = time.monotonic()
        problem = self.refusal(command, now)
        if problem and problem != WRONG_TOKEN:
            self._refused[problem] = (self._refused.get(problem, (0, command))[0] + 1, command)
        if problem == WRONG_TOKEN:  # further guesses get no answer
            self.wrong_tokens, self._newest_wrong = self.wrong_tokens + 1, command
            if not self._wrong_answers.admit(now):
                return
        if problem:
            self._answer(frames, Reply(False, problem))
            return
        of_alarm = self.broadcast.alarm_of(command.value)
        if command.action == "acknowledge" and of_alarm:  # not for one of its changes
            command.value, command.text = 0.0, of_alarm
        self._pass_on(frames[:-1], command)

    def refusal(self, command: OperatorCommand, now: float) -> str:
        """Reason to refuse a command; empty if it may be forwarded."""
        control = self._settings.head.control
        if not control:
            return "refused: this session is read-only ([monitor] control in its file)"
        if not command.key:
            return NO_TOKEN
        if not same_key(command.key, self._settings.token):
            return WRONG_TOKEN
        if command.run != self._settings.head.run:
            return "refused: it is meant for another session"
        if command.action not in control:
            return f"refused: {command.action} is not allowed here; allowed: {', '.join(control)}"
        kind = command.action if command.action in TO_REST else ""
        if not self._allowances[kind].admit(now):
            return "refused: too many commands; try again in a second"
        return ""

    def report_refusals(self, now: float) -> None:
        """Report refused commands to the session's log, one event per reason."""
        if self._refused and now >= self.refusals_at:
            self.refusals_at = now + REFUSAL_PERIOD_S
            self._report_refused()
        if self.wrong_tokens and now >= self.report_at:
            self.report_at = now + REFUSAL_PERIOD_S
            self._report_wrong_tokens()

    def _report_refused(self) -> None:
        for problem, (count, newest) in self._refused.items():
            many = f"{count:,} commands were" if count > 1 else "a command was"
            text = f"{many} {problem}; newest: {newest.action}, by the name {newest.who!r}"
            self._pass_on([], OperatorCommand(action="refused", who="relay", text=text))
        self._refused.clear()

    def _report_wrong_tokens(self) -> None:
        newest, count = self._newest_wrong, self.wrong_tokens
        many = f"{count:,} commands" if count > 1 else "a command"
        text = f"{many} with a wrong token refused; newest: {newest.action}"
        text += f", from a sender named {newest.who!r} (not verified)"
        self.wrong_tokens = 0
        self._pass_on([], OperatorCommand(action="refused", who="relay", text=text, value=count))

    def _pass_on(self, envelope: list[bytes], command: OperatorCommand) -> None:
        if len(self._open_requests) >= MAX_OPEN:
            self._open_requests.pop(next(iter(self._open_requests)))
        self._serial += 1
        number = self._serial.to_bytes(8, "little")
        self._open_requests[number] = (envelope, command)
        command.key, command.at = self._settings.key, time.monotonic()
        try:
            self._master.send_multipart([number, encode(command)], zmq.NOBLOCK)
        except zmq.Again:
            self._answer([*envelope, b""], Reply(False, "the session does not respond"))

    def _handle_reply(self) -> None:
        number, *_, frame = self._master.recv_multipart()
        envelope, command = self._open_requests.pop(number, ([], None))
        if command is None or not envelope:
            return
        if command.action == "acknowledge" and decode_reply(frame).ok:
            everything = command.text == ALL_BEFORE
            event = int(command.value) or self.broadcast.newest_of_alarm(command.text)
            self.broadcast.acknowledge(event, command.who, everything)
        self._commands.send_multipart([*envelope, frame], zmq.NOBLOCK)

    def _answer(self, frames: list[bytes], reply: Reply) -> None:
        if len(frames) > 1:
            self._commands.send_multipart([*frames[:-1], encode(reply)], zmq.NOBLOCK)


def main() -> int:
    """Entry point of the process."""
    text = os.environ.pop(SETTINGS_VARIABLE, "")
    try:
        settings = msgspec.json.decode(text, type=RelaySettings)
    except msgspec.MsgspecError:
        sys.stderr.write("relay: only `hilrt run` can start it\n")
        return 2
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        relay = Relay(settings)
    except zmq.ZMQError as error:
        where = ", ".join(filter(None, (settings.public_telemetry, settings.public_commands)))
        sys.stderr.write(
            f"relay: cannot listen: {error}; change [monitor] listen or commands ({where})\n"
        )
        return 2

    def stop(*_: object) -> None:
        relay.stop = True

    signal.signal(signal.SIGTERM, stop)
    relay.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
