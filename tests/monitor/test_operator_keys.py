"""Keys become commands; nothing dangerous happens at one wrong press."""

import pytest

from hilrt.monitor.operator_commands import Reply
from hilrt.monitor.operator_keys import (
    ALARM_HELP,
    CONFIRM_S,
    HELP,
    READ_S,
    SHOWN_S,
    OperatorKeys,
)
from hilrt.monitor.telemetry import AlarmStatus, PromptStatus, Status


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
    keys.show_replies()
    assert keys.line == "not done: wrong token"
    keys.now += SHOWN_S + 0.1
    assert keys.line == HELP


def asks(number=1):
    prompt = PromptStatus(number, "test", "warm?", ["yes", "no"], None, 72.0)
    return Status(session="s", state="RUNNING", prompts=[prompt])


def test_a_question_of_a_sequence_has_a_key_for_each_answer(keys, asked):
    keys.type("", asks())
    assert keys.line == ("1 yes · 2 no | test asks: warm? (until 72.0 s, then the sequence fails)")
    keys.now += READ_S
    keys.type("2", asks())
    (command,) = asked.sent
    assert (command.action, command.value, command.text) == ("answer", 1.0, "no")
    keys.type("", Status(session="s", state="RUNNING"))
    keys.now += SHOWN_S
    assert keys.line == HELP


def test_a_key_for_the_question_before_answers_no_new_one(keys, asked):
    keys.type("", asks())
    keys.now += READ_S
    keys.type("1", asks(2))
    assert asked.sent == []
    assert keys.line.endswith("read the question first, it is new")
    keys.now += READ_S
    keys.type("3", asks(2))
    assert asked.sent == []
    assert keys.line.endswith("no answer has the key 3")


def with_alarms(*alarms):
    return Status(session="s", state="RUNNING", alarms=list(alarms))


def test_the_marked_alarm_is_acknowledged_by_name(keys, asked):
    hot, fast = AlarmStatus("hot", 1, 1.0, 1.0, 2.0), AlarmStatus("fast", 1, 2.0, 2.0)
    keys.type("k", with_alarms())
    keys.type("k", with_alarms(hot))  # it has just come up
    assert asked.sent == []
    assert "read the alarm first" in keys.line
    keys.now += READ_S + SHOWN_S + 0.1
    assert keys.line == ALARM_HELP
    keys.type("k", with_alarms(hot, fast))  # which moves hot down: the key may be for that
    assert asked.sent == []
    keys.now += READ_S
    keys.type("k", with_alarms(hot, fast))
    (command,) = asked.sent
    assert (command.action, command.value, command.text) == ("acknowledge", 0.0, "fast")
