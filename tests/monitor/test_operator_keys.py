"""Keys become commands; nothing dangerous happens at one wrong press."""

import pytest

from hilrt.monitor.operator_commands import Reply
from hilrt.monitor.operator_keys import CONFIRM_S, HELP, SHOWN_S, OperatorKeys
from hilrt.monitor.telemetry import Status


class Asked:
    def __init__(self):
        self.sent, self.answers = [], []

    def send(self, command):
        self.sent.append(command)
        return 1

    def replies(self):
        answers, self.answers = self.answers, []
        return answers


@pytest.fixture
def asked():
    return Asked()


@pytest.fixture
def keys(asked):
    made = OperatorKeys(asked, "key", clock=lambda: made.now)
    made.now = 100.0
    return made


def actions(asked):
    return [command.action for command in asked.sent]


def test_each_key_has_its_command(keys, asked):
    assert keys.line == HELP
    keys.type("\nash", None)
    assert actions(asked) == ["arm", "arm", "safe", "shadow"]
    assert all(command.key == "key" and command.who for command in asked.sent)


def test_shadow_goes_back(keys, asked):
    keys.type("h", Status(session="s", state="RUNNING", shadow=True))
    assert asked.sent[0].value == 0.0


def test_stop_needs_two_presses_in_time(keys, asked):
    keys.type("q", None)
    assert "again" in keys.line
    keys.now += CONFIRM_S + 0.1
    keys.type("q", None)
    assert actions(asked) == []
    keys.type("xq", None)  # another key between: begin again
    assert actions(asked) == []
    keys.type("q", None)
    assert actions(asked) == ["stop"]


def test_note_is_typed_and_sent(keys, asked):
    keys.type("msq\x7f kn", None)
    assert keys.line.startswith("note: s kn")
    keys.type("\r", None)
    keys.type("mno\x1b", None)
    assert [(c.action, c.text) for c in asked.sent] == [("mark", "s kn")]


def test_arrow_keys_do_nothing(keys, asked):
    keys.type("\x1b[A", None)
    assert actions(asked) == []


def test_answer_is_shown_for_a_while(keys, asked):
    asked.answers = [(1, Reply(False, "wrong token"))]
    keys.take_answers()
    assert keys.line == "not done: wrong token"
    keys.now += SHOWN_S + 0.1
    assert keys.line == HELP
