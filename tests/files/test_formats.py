from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest

from hilrt.files.formats import json_bytes
from hilrt.logs.foreign_source import decode_answer
from hilrt.monitor import operator_commands, stream, telemetry
from hilrt.record import frame_feed, messages


def test_a_number_that_json_does_not_have_is_null() -> None:
    value = {"a": math.nan, "b": [1.5, -math.inf, {"c": (np.float64(np.nan), True, None, "NaN")}]}
    text = json_bytes(value)
    found = json.loads(text, parse_constant=lambda name: 1 / 0)
    assert found == {"a": None, "b": [1.5, None, {"c": [None, True, None, "NaN"]}]}


#: A map with a text that is not UTF-8 under a key that the message has, by decoder.
NO_TEXT = [
    (operator_commands.decode_command, b"\x82\xa6action\xa4safe\xa3who\xa1\x8e"),
    (operator_commands.decode_reply, b"\x82\xa2ok\xc3\xa4text\xa1\x8e"),
    (telemetry.decode, b"\x81\xa7session\xa1\x8e"),
    (lambda frame: stream.decode(stream.HEAD, frame), b"\x81\xa7session\xa1\x8e"),
    (messages.decode, b"\x82\xa4type\xa5begin\xa7session\xa1\x8e"),
    (frame_feed.decode, b"\x81\xa3bus\xa1\x8e"),
    (decode_answer, b"\x81\xa4kind\xa1\x8e"),
]


@pytest.mark.parametrize(("decode", "frame"), NO_TEXT)
def test_what_is_no_text_and_what_nests_without_end_is_no_message(decode, frame) -> None:
    for data in (frame, b"\x81\xa1x" * 20_000, b"\x91" * 100_000):
        with pytest.raises(msgspec.MsgspecError):
            decode(data)


def test_the_command_port_answers_the_next_frame() -> None:
    port = operator_commands.CommandPort(
        "inproc://answers-the-next", "key", lambda command: operator_commands.Reply(True), print
    )
    try:
        assert not port.answer(NO_TEXT[0][1]).ok
        command = operator_commands.OperatorCommand(action="stop", key="key")
        assert port.answer(operator_commands.encode(command)).ok
    finally:
        port.close()
