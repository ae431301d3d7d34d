"""Commands reach the master with the key, and only with it."""

import asyncio
import math

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from hilrt.config.session_tables import ACTIONS
from hilrt.monitor.operator_commands import (
    ANSWER_S,
    MAX_TEXT,
    MAX_WHO,
    CommandClient,
    CommandPort,
    OperatorCommand,
    Reply,
    decode_command,
    encode,
    same_key,
)


def test_a_long_note_is_refused_rather_than_kept_in_part():
    decode_command(encode(OperatorCommand(action="mark", text="x" * MAX_TEXT)))
    with pytest.raises(msgspec.MsgspecError, match="a note of 501 characters, over 500"):
        decode_command(encode(OperatorCommand(action="mark", text="x" * (MAX_TEXT + 1))))


@given(who=st.text(), text=st.text(max_size=MAX_TEXT), action=st.sampled_from(ACTIONS))
def test_texts_are_fit_for_a_terminal(who, text, action):
    command = decode_command(encode(OperatorCommand(action=action, who=who, text=text)))
    assert len(command.who) <= MAX_WHO
    assert len(command.text) <= MAX_TEXT
    assert command.who
    assert (command.who + command.text).isprintable()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, 2**63, 0.5, -1.0])
@pytest.mark.parametrize("action", ["acknowledge", "answer", "shadow", "refused"])
def test_what_numbers_or_counts_is_a_whole_number(action, value):
    with pytest.raises(msgspec.MsgspecError, match="not a whole number"):
        decode_command(encode(OperatorCommand(action=action, value=value)))


def test_only_an_adjusted_number_may_be_nan_and_none_infinite():
    given_back = decode_command(encode(OperatorCommand(action="adjust", value=math.nan)))
    assert math.isnan(given_back.value)
    for action, value in (("adjust", math.inf), ("stop", math.nan), ("mark", -math.inf)):
        with pytest.raises(msgspec.MsgspecError, match="not a finite number"):
            decode_command(encode(OperatorCommand(action=action, value=value)))
    with pytest.raises(msgspec.MsgspecError, match="not a time"):
        decode_command(encode(OperatorCommand(action="stop", at=math.nan)))


@given(st.binary(max_size=60))
def test_nonsense_is_refused(frame):
    with pytest.raises(msgspec.MsgspecError):
        decode_command(b"\xc1" + frame)


def test_long_frames_are_refused():
    with pytest.raises(msgspec.MsgspecError):
        decode_command(encode(OperatorCommand(action="mark", text="x" * 5000)))


def test_an_empty_key_is_never_right():
    assert not same_key("", "")
    assert same_key("a", "a")
    assert not same_key("a", "ä")


async def test_port_obeys_the_key_alone():
    obeyed, refused = [], []

    def obey(command):
        obeyed.append(command.action)
        return Reply(True, f"did {command.action}")

    port = CommandPort("tcp://127.0.0.1:*", "secret", obey, refused.append)
    port.start()
    client = CommandClient(port.address, zmq.Context.instance())
    try:
        good = await asyncio.to_thread(client.ask, OperatorCommand(action="safe", key="secret"))
        bad = await asyncio.to_thread(client.ask, OperatorCommand(action="stop", key="wrong"))
        # More at once than are handled in one turn.
        numbers = [client.send(OperatorCommand(action="mark", key="secret")) for _ in range(20)]
        answered = []
        while len(answered) < 20:
            await asyncio.sleep(0.01)
            answered += client.replies()
    finally:
        client.close()
        port.close()
    assert good == Reply(True, "did safe")
    assert not bad.ok
    assert [command.action for command in refused] == ["stop"]
    assert obeyed == ["safe", *["mark"] * 20]
    assert [number for number, _ in answered] == numbers


async def test_late_commands_are_dropped_unless_they_bring_to_rest():
    obeyed, now = [], 100.0

    def obey(command):
        obeyed.append(command.action)
        return Reply(True)

    port = CommandPort("tcp://127.0.0.1:*", "key", obey, obeyed.append, clock=lambda: now)
    replies = [
        port.answer(encode(OperatorCommand(action=action, key="key", at=now - age)))
        for action, age in (
            ("arm", ANSWER_S - 0.1),
            ("arm", ANSWER_S + 0.1),
            ("stop", 60.0),
        )
    ]
    port.close()
    assert [reply.ok for reply in replies] == [True, False, True]
    assert obeyed == ["arm", "stop"]


def test_command_is_not_kept_for_a_session_that_comes_later(unused_tcp_port):
    client = CommandClient(f"tcp://127.0.0.1:{unused_tcp_port}", zmq.Context.instance())
    context = zmq.Context()
    later = context.socket(zmq.ROUTER)
    try:
        assert client.send(OperatorCommand(action="stop")) == 0
        later.bind(f"tcp://127.0.0.1:{unused_tcp_port}")
        assert later.poll(500) == 0
    finally:
        client.close()
        context.destroy(linger=0)


def test_command_without_an_answer_is_answered_once_in_time():
    context, now = zmq.Context(), [5.0]
    silent = context.socket(zmq.ROUTER)
    port = silent.bind_to_random_port("tcp://127.0.0.1")
    client = CommandClient(f"tcp://127.0.0.1:{port}", context, run="r", clock=lambda: now[0])
    try:
        assert client.connected(10.0)
        number = client.send(OperatorCommand(action="stop"))
        assert silent.poll(5000)
        sent = decode_command(silent.recv_multipart()[-1])
        assert (sent.run, sent.at) == ("r", 5.0)
        assert client.replies() == []
        now[0] += ANSWER_S
        assert client.replies() == [(number, Reply(False, f"no answer within {ANSWER_S:g} s"))]
        assert client.replies() == []
    finally:
        client.close()
        context.destroy(linger=0)


def test_nobody_there_is_an_answer_in_time():
    client = CommandClient("tcp://127.0.0.1:9", zmq.Context.instance())
    assert client.ask(OperatorCommand(action="safe"), timeout_s=0.05).ok is False
    client.close()
