"""The relay: what a token opens, and what it keeps from the master."""

import contextlib
import math
import socket
import threading
import time

import msgspec
import pytest
import zmq

from hilrt.config.session_tables import ACTIONS
from hilrt.isolation.temporary_folder import LocalAddresses
from hilrt.monitor.operator_commands import (
    CommandClient,
    OperatorCommand,
    Reply,
    decode_command,
    encode,
)
from hilrt.monitor.relay import COMMANDS_PER_S, QUEUE_LENGTH, Relay, RelaySettings
from hilrt.monitor.stream import Head
from hilrt.monitor.telemetry import Status, Telemetry
from hilrt.monitor.viewer import Viewer
from hilrt.record.messages import Begin, RecordEvent, Signal, Topic
from hilrt.record.messages import encode as record


class Bench:
    """A relay between a recorder, a master and a view, all in this process."""

    def __init__(self, **settings):
        self.local = LocalAddresses()
        self.status = Telemetry(self.local.get("status"))
        self.context = zmq.Context()
        self.master = self.context.socket(zmq.ROUTER)
        master = self.local.get("master")
        self.master.bind(master)
        self.settings = RelaySettings(
            rows=self.local.get("rows"),
            status=self.status.address,
            master=master,
            telemetry=self.local.get("telemetry"),
            commands=self.local.get("commands"),
            key="session key",
            token="token",
            **{"head": Head(session="s", control=["mark", "acknowledge"]), **settings},
        )
        self.relay = Relay(self.settings)
        self.thread = threading.Thread(target=self.relay.run)
        self.thread.start()
        self.rows = self.context.socket(zmq.PUSH)
        self.rows.connect(self.settings.rows)
        self.viewer = Viewer(self.settings.telemetry, self.settings.commands)
        self.client = self.viewer.client()
        assert self.client.connected(10.0)

    def until(self, condition):
        deadline = time.monotonic() + 10.0
        while not condition():
            assert time.monotonic() < deadline
            self.viewer.poll(20)

    def obey_one(self, reply):
        """As the master: answer one command."""
        assert self.master.poll(5000)
        *envelope, frame = self.master.recv_multipart()
        self.master.send_multipart([*envelope, encode(reply)])
        return decode_command(frame)

    def close(self):
        self.relay.stop = True
        self.thread.join()
        self.viewer.close()
        self.context.destroy(linger=0)
        self.status.close()
        self.local.close()


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.close()


def test_view_sees_head_events_and_status(bench):
    begin = Begin("out", "s", 0, [Topic("outputs", [Signal("a.x")])], [], {})
    bench.rows.send_multipart([record(begin)])
    bench.rows.send_multipart([record(RecordEvent(0, "info", "session", "session", "hello"))])
    bench.until(lambda: bench.viewer.head and bench.viewer.head.signals and bench.viewer.events)
    bench.until(lambda: bench.status.publish(Status(session="s", state="RUNNING", t=1.0))
                or bench.viewer.status)  # fmt: skip
    assert bench.viewer.head.signals == [Signal("a.x")]
    assert [event.text for event in bench.viewer.events.values()] == ["hello"]
    assert bench.viewer.status.state == "RUNNING"
    assert not bench.viewer.silent


def test_token_opens_what_is_allowed(bench):
    number = bench.client.send(OperatorCommand(action="mark", who="Ada", text="bang", key="token"))
    command = bench.obey_one(Reply(True, "bang"))
    assert (command.who, command.text, command.key) == ("Ada", "bang", "session key")
    answers = []
    bench.until(lambda: answers.extend(bench.client.replies()) or answers)
    assert answers == [(number, Reply(True, "bang"))]


def test_acknowledged_event_is_told_to_all(bench):
    begin = Begin("out", "s", 0, [Topic("outputs", [Signal("a.x")])], [], {})
    bench.rows.send_multipart([record(begin)])
    bench.rows.send_multipart([record(RecordEvent(0, "error", "x", "a", "bang"))])
    bench.until(lambda: bench.viewer.events)
    bench.client.send(OperatorCommand(action="acknowledge", who="Ada", value=1, key="token"))
    bench.obey_one(Reply(True, "acknowledged"))
    bench.until(lambda: bench.viewer.events[1].acknowledged)
    assert bench.viewer.events[1].acknowledged == "Ada"


def test_the_event_of_an_alarm_is_the_alarm(bench):
    begin = Begin("out", "s", 0, [Topic("outputs", [Signal("a.x")])], [], {})
    bench.rows.send_multipart([record(begin)])
    bench.rows.send_multipart(
        [record(RecordEvent(0, "warning", "alarm", "hot", "alarm raised: hot"))]
    )
    bench.until(lambda: bench.viewer.events)
    bench.client.send(OperatorCommand(action="acknowledge", who="Ada", value=1, key="token"))
    command = bench.obey_one(Reply(True, "acknowledged"))
    assert (command.value, command.text) == (0.0, "hot")
    bench.until(lambda: bench.viewer.events[1].acknowledged)


def test_no_token_is_no_wrong_one(bench):
    reply = bench.client.ask(OperatorCommand(action="mark"))
    assert not reply.ok
    assert reply.text.startswith("refused: give the token first")
    assert bench.relay.wrong_tokens == 0


def test_wrong_token_is_refused_and_told(bench):
    reply = bench.client.ask(OperatorCommand(action="mark", who="Eve", key="guess"))
    assert reply == Reply(False, "refused: wrong token")
    told = bench.obey_one(Reply(True))
    assert (told.action, told.who) == ("refused", "relay")  # the name is not taken for true
    assert "wrong token" in told.text
    assert "a sender named 'Eve' (not verified)" in told.text


def test_other_actions_and_read_only_sessions(bench):
    now = time.monotonic()
    stop = OperatorCommand(action="stop", key="token")
    assert "not allowed" in bench.relay.refusal(stop, now)
    bench.settings.head.control = []
    assert "read-only" in bench.relay.refusal(stop, now)


def test_flood_is_bounded(bench):
    now = time.monotonic()
    mark = OperatorCommand(action="mark", key="token")
    passed = sum(not bench.relay.refusal(mark, now) for _ in range(500))
    assert passed <= COMMANDS_PER_S + 1
    assert bench.relay.refusal(mark, now + 1.0) == ""


def test_wrong_tokens_take_nothing_from_who_knows_the_right_one(bench):
    now = time.monotonic()
    bench.settings.head.control = ["mark", "safe", "stop"]
    guess, mark = (
        OperatorCommand(action="stop", key="guess"),
        OperatorCommand(action="mark", key="token"),
    )
    for _ in range(1000):
        assert bench.relay.refusal(guess, now) == "refused: wrong token"
    assert bench.relay.refusal(mark, now) == ""


def test_other_commands_do_not_keep_a_stop_waiting(bench):
    now = time.monotonic()
    bench.settings.head.control = ["mark", "safe", "stop"]
    while not bench.relay.refusal(OperatorCommand(action="mark", key="token"), now):
        pass
    for action in ("stop", "safe"):
        assert bench.relay.refusal(OperatorCommand(action=action, key="token"), now) == ""


def test_many_wrong_tokens_are_told_as_one_number(bench):
    bench.relay.report_at = math.inf
    guess = OperatorCommand(action="stop", who="Eve", key="guess")
    sent = sum(bench.client.send(guess) > 0 for _ in range(300))
    bench.until(lambda: bench.relay.wrong_tokens == sent)
    bench.relay.report_at = 0.0
    told = bench.obey_one(Reply(True))
    assert told.text.startswith(f"{sent} commands")
    assert told.value == sent
    assert bench.master.poll(50) == 0


def test_refused_commands_are_events_many_of_a_reason_in_one(bench):
    bench.relay.refusals_at = math.inf
    bench.settings.head.control = ["mark"]
    for _ in range(3):
        adjust = OperatorCommand(action="adjust", who="Ada", text="inputs.a.u", key="token")
        assert bench.client.send(adjust) > 0
    answers = []
    bench.until(lambda: answers.extend(bench.client.replies()) or len(answers) == 3)
    assert all("adjust is not allowed here" in reply.text for _, reply in answers)
    bench.until(lambda: sum(count for count, _ in bench.relay._refused.values()) == 3)
    bench.relay.refusals_at = 0.0
    event = bench.obey_one(Reply(True))
    assert event.text == (
        "3 commands were refused: adjust is not allowed here; allowed: mark; newest: adjust, "
        "by the name 'Ada'"
    )
    assert event.value == 0.0  # not a wrong token
    assert bench.master.poll(50) == 0


def test_other_refusals_do_not_delay_the_report_of_wrong_tokens(bench):
    bench.settings.head.control = ["mark"]
    bench.client.send(OperatorCommand(action="adjust", who="Ada", key="token"))
    assert "not allowed here" in bench.obey_one(Reply(True)).text
    bench.client.send(OperatorCommand(action="stop", who="Eve", key="guess"))
    assert "wrong token" in bench.obey_one(Reply(True)).text


def test_command_for_another_run_is_refused(bench):
    bench.settings.head.run = "second"
    bench.settings.head.control = ["stop"]
    now = time.monotonic()
    for run, problem in (("first", "another session"), ("", "another session"), ("second", "")):
        refused = bench.relay.refusal(OperatorCommand(action="stop", key="token", run=run), now)
        assert problem in refused
        assert bool(refused) == bool(problem)


WRONG = [
    math.nan, math.inf, -math.inf, 1e300, -1e300, 2**63, 2**64 - 1, -(2**63), 0.5, -1, True, None,
    "", "x" * 600, b"\xff", [], [1], {}, {"a": 1}, "\x1b[2J", "\u202e",
]  # fmt: skip


def test_no_field_of_any_command_ends_the_relay(bench):
    """Every field of every action with numbers, types and sizes that nobody expects."""
    bench.relay.report_at = math.inf
    bench.settings.head.control = [action for action in ACTIONS if action != "arm"]
    bench.relay.refusal = lambda command, now: ""  # without the limit of commands per second
    record_event = record(RecordEvent(0, "error", "x", "a", "bang"))
    bench.rows.send_multipart([record_event])
    bench.until(lambda: bench.viewer.events)
    sender = bench.context.socket(zmq.DEALER)
    sender.connect(bench.settings.commands)
    sent = 0
    for action in [*ACTIONS, "refused", "none"]:
        for field in ("action", "who", "value", "text", "key", "run", "at"):
            for value in WRONG:
                command = {"action": action, "who": "Eve", "key": "token", field: value}
                sender.send_multipart([b"", msgspec.msgpack.encode(command)])
                sent += 1
                while bench.master.poll(0):
                    *envelope, frame = bench.master.recv_multipart()
                    decode_command(frame)  # what is passed on is a command
                    bench.master.send_multipart([*envelope, encode(Reply(True, "done"))])
                if sent % 50 == 0:
                    while sender.poll(1):
                        sender.recv_multipart()
    while bench.master.poll(100):
        *envelope, frame = bench.master.recv_multipart()
        decode_command(frame)
        bench.master.send_multipart([*envelope, encode(Reply(True, "done"))])
    sender.close()
    assert bench.relay.defects == 0
    bench.client.send(OperatorCommand(action="mark", text="still here", key="token"))
    assert bench.obey_one(Reply(True)).text == "still here"


def test_a_defect_costs_one_message_and_the_session_is_told(bench, capsys):
    def fail(command, now):
        raise ValueError("a defect")

    bench.relay.refusal = fail
    assert bench.client.send(OperatorCommand(action="mark", key="token"))
    told = bench.obey_one(Reply(True))
    assert (told.action, told.value) == ("refused", 0.0)
    assert told.text == "a message was dropped, ValueError: a defect"
    assert bench.relay.defects == 1
    assert "ValueError: a defect" in capsys.readouterr().err
    del bench.relay.refusal
    bench.client.send(OperatorCommand(action="mark", text="still here", key="token"))
    assert bench.obey_one(Reply(True)).text == "still here"


def test_what_the_relay_repeats_is_no_life_of_the_session(bench):
    """The head comes every two seconds, even while the master is frozen."""
    bench.viewer.heard_at = -1e9
    heads, taken = [], bench.viewer.receive
    bench.viewer.receive = lambda frames: (heads.append(frames[0]), taken(frames))
    bench.until(lambda: heads.count(b"head") > 1)
    assert bench.viewer.silent
    bench.until(
        lambda: (
            bench.status.publish(Status(session="s", state="RUNNING")) or not bench.viewer.silent
        )
    )


def test_subscriber_that_never_reads_harms_nobody(bench):
    """Its messages are dropped; another subscriber gets all."""
    frozen = bench.context.socket(zmq.SUB)
    frozen.rcvhwm = 1
    frozen.setsockopt(zmq.SUBSCRIBE, b"")
    frozen.connect(bench.settings.telemetry)
    bench.until(
        lambda: frozen.poll(1) or bench.status.publish(Status(session="s", state="RUNNING"))
    )
    heavy = Status(session="s", state="RUNNING", message="x" * 50_000)
    for _ in range(4 * QUEUE_LENGTH):
        bench.status.publish(heavy)
        bench.viewer.poll(1)
    bench.until(
        lambda: bench.status.publish(Status(session="s", state="STOPPED")) or bench.viewer.ended
    )
    got = 0
    while frozen.poll(100):
        frozen.recv_multipart()
        got += 1
    frozen.close()
    assert bench.viewer.received > got
    assert bench.thread.is_alive()


def test_strangers_cannot_take_all_descriptors_of_the_relay(unused_tcp_port):
    """Connections beyond the limit are not accepted; a viewer that was there goes on."""
    made = Bench(public_telemetry=f"tcp://127.0.0.1:{unused_tcp_port}")
    with contextlib.ExitStack() as stack:
        stack.callback(made.close)
        refused = 0
        for _ in range(900):
            one = stack.enter_context(socket.socket())
            one.settimeout(0.05)
            try:
                one.connect(("127.0.0.1", unused_tcp_port))
                refused = 0 if one.recv(1) else refused + 1  # ZeroMQ's greeting
            except (TimeoutError, ConnectionError):
                refused += 1
            if refused == 3:
                break
        assert refused == 3
        made.until(
            lambda: made.status.publish(Status(session="s", state="RUNNING")) or made.viewer.status
        )


def test_client_without_session():
    local = LocalAddresses()
    client = CommandClient(local.get("nobody"), zmq.Context.instance())
    assert not client.ask(OperatorCommand(action="mark"), timeout_s=0.05).ok
    client.close()
    local.close()
