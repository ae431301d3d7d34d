"""What operators' commands do, and that each is noted, also when it is refused."""

import contextlib
import math
import os
import time
from datetime import datetime
from types import SimpleNamespace

import msgspec
import pytest

from hilrt.check.check_monitor import check_monitor
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.session_tables import ACTIONS, Adjustable, MonitorTable
from hilrt.link import Ports
from hilrt.monitor.operator_commands import (
    ALL_BEFORE,
    OperatorCommand,
    decode_command,
    encode,
)
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.status import StatusPublisher
from hilrt.session.event_log import EventLog
from hilrt.session.operation import Operator
from hilrt.solver import Port
from hilrt.wording import alarm_rows
from tests.stepping import make_network, make_numerics


class Recorded:
    def __init__(self):
        self.notes = []

    def event(self, t_ns, level, cause, source, text, value=None):
        self.notes.append((level, cause, source, text))


@pytest.fixture
def operator():
    monitor = MonitorTable(adjust={"reliability.power_residual": Adjustable(min=0.1, max=0.5)})
    events = EventLog(StatusPublisher(None, "s", 1.0))
    made = Operator(events, SimpleNamespace(monitor=monitor))
    made.recorded = Recorded()
    events.open(made.recorded, lambda: 5)
    return made


def running(operator, shadow=False):
    stops = []
    operator.events.state = SessionState.RUNNING
    numerics = make_numerics({"a": Ports((Port("u"),), (Port("y"),))}, shadow=shadow)
    operator.master = SimpleNamespace(
        request_stop=stops.append,
        numerics=numerics,
    )
    return stops


def obey(operator, action, **values):
    return operator.obey(OperatorCommand(action=action, who="Ada", **values))


def test_no_number_of_any_command_raises(operator):
    running(operator)
    operator.master.progress = SimpleNamespace(t_ns=0)
    numbers = [0.0, -0.0, 0.5, -1.0, 1e300, -1e300, 2.0**53, 5e-324, math.nan]
    for action in ACTIONS:
        for value in numbers:
            command = OperatorCommand(action=action, text="reliability.power_residual", value=value)
            with contextlib.suppress(msgspec.MsgspecError):
                assert operator.obey(decode_command(encode(command))).text


def test_an_alarm_is_acknowledged_by_its_name(operator):
    operator.events.alarms.note("hot", 1.0, raised=True)
    assert not obey(operator, "acknowledge", text="cold").ok
    assert obey(operator, "acknowledge", text="hot").ok
    (alarm,) = operator.events.alarms.as_json(2.0)
    assert (alarm["acknowledged_by"], alarm["acknowledged_t"]) == ("Ada", 5e-9)
    assert operator.recorded.notes[-1][1:] == (
        "acknowledge", "operator", "Ada: acknowledged alarm hot",
    )  # fmt: skip
    operator.events.alarms.note("hot", 3.0, raised=True)  # it is another time
    (alarm,) = operator.events.alarms.as_json(4.0)
    assert (alarm["acknowledged_by"], alarm["seen_by"], alarm["seen_t"]) == ("", "Ada", 5e-9)
    assert alarm_rows({"alarms": [alarm]})[0][-1] == "Ada at 5e-09 s, but it was raised again"
    assert obey(operator, "acknowledge", value=7.0, text=ALL_BEFORE).ok
    assert operator.events.alarms.as_json(4.0)[0]["acknowledged_by"] == "Ada"


def test_note_goes_into_the_log_with_who(operator):
    assert obey(operator, "mark", text="knock").ok
    assert operator.recorded.notes == [("info", "mark", "operator", "Ada: knock")]


def test_arming_only_when_something_waits(operator):
    assert not obey(operator, "arm").ok
    operator.waits_for_arming = True
    assert obey(operator, "arm").ok
    assert operator.arm.is_set()
    assert [note[0] for note in operator.recorded.notes] == ["warning", "info"]


def test_safe_holds_and_stop_ends(operator):
    stops = running(operator)
    assert obey(operator, "safe").ok
    assert (operator.held, stops) == (True, ["safe by Ada"])
    operator.events.state = SessionState.SAFE
    assert not obey(operator, "safe").ok
    assert obey(operator, "stop").ok
    assert operator.end.is_set()


def test_stop_does_not_hold(operator):
    stops = running(operator)
    assert obey(operator, "stop").ok
    assert (operator.held, stops) == (False, ["stop by Ada"])


@pytest.mark.parametrize("state", [SessionState.RUNNING, SessionState.SAFE])
def test_safe_and_stop_cut_the_stop_sequence_short(operator, state):
    """After the last tick the state is still that of the loop, or SAFE because of an alarm."""
    stops = running(operator)
    operator.events.state, operator.in_stop_sequence = state, True
    assert obey(operator, "stop").text == "benches run their safe profile"
    assert (operator.held, stops) == (False, ["stop by Ada"])
    assert obey(operator, "safe").ok
    assert operator.held


def test_nothing_is_promised_to_who_asks_after_a_fault(operator):
    stops = running(operator)
    operator.events.state = SessionState.SAFE
    assert not obey(operator, "safe").ok
    assert "already ending" in obey(operator, "stop").text
    assert (operator.held, stops) == (False, [])


def test_stop_before_the_first_tick(operator):
    reasons = []
    operator.interrupt = reasons.append
    assert obey(operator, "stop").ok
    assert reasons == ["stop by Ada"]


def test_shadow_switches_corrections(operator):
    assert not obey(operator, "shadow", value=1.0).ok  # nothing runs yet
    running(operator)
    assert obey(operator, "shadow", value=1.0).ok
    apply = operator.master.numerics.given.session["apply"]
    assert apply[0] == 0
    assert obey(operator, "shadow", value=0.0).ok
    assert apply[0] == 1
    running(operator, shadow=True)
    assert "--shadow" in obey(operator, "shadow", value=0.0).text


def test_numbers_change_only_within_bounds(operator):
    running(operator)
    numerics = operator.master.numerics
    changes = numerics.changes
    assert obey(operator, "adjust", text="reliability.power_residual", value=0.3).ok
    assert list(changes.pending) == [("reliability.power_residual", 0.3)]
    assert numerics.state.session[0].power_residual == 0.2  # it acts at the next tick
    for name, value in (
        ("reliability.power_residual", 0.6),
        ("reliability.power_residual", float("nan")),
        ("reliability.tracking", 0.3),
        ("__class__", 1.0),
    ):
        assert not obey(operator, "adjust", text=name, value=value).ok
    assert changes.present_number(numerics.state, "reliability.power_residual") == 0.3
    assert len(changes.pending) == 1
    assert "was 0.2" in operator.recorded.notes[0][3]


def test_command_without_the_key_is_noted(operator):
    operator.refused(OperatorCommand(action="stop", who="Eve"))
    assert operator.recorded.notes[0][0] == "warning"
    assert operator.strangers == {"wrong_key": 1}


def test_wrong_tokens_are_a_warning_and_no_note_of_the_operators(operator):
    told = OperatorCommand(action="refused", who="relay", text="a command was refused", value=3.0)
    operator.obey(told)
    (note,) = operator.recorded.notes
    assert operator.strangers == {"wrong_token": 3}
    assert note == ("warning", "wrong_token", "operator", "a command was refused")


def test_what_was_asked_before_the_first_tick_is_kept_with_who_and_when(tmp_path):
    events = EventLog(StatusPublisher(None, "s", 1.0))
    operator = Operator(events, SimpleNamespace(monitor=MonitorTable()))
    path = tmp_path / "events.txt"
    assert events.keep(path) == []
    assert not path.exists()  # nothing to tell
    obey(operator, "stop")
    assert events.keep(path) == []
    (line,) = path.read_text(encoding="utf-8").splitlines()
    when, _, what = line.partition(" ")
    assert abs(datetime.fromisoformat(when).timestamp() - time.time()) < 60.0
    assert "Ada asked for stop" in what
    events.open(Recorded(), lambda: 5)
    assert events.keep(tmp_path / "other.txt") == []
    assert not (tmp_path / "other.txt").exists()  # the log has it


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (MonitorTable(control=["fly"]), "is not a command"),
        (MonitorTable(adjust={"bonds.x.cap": Adjustable(min=0, max=1)}), "cannot be adjusted"),
        (MonitorTable(adjust={"reliability.tracking": Adjustable(min=2, max=1)}), "is not a range"),
        (MonitorTable(adjust={"reliability.tracking": Adjustable(min=0, max=1)}), "flag"),
        (MonitorTable(foxglove="8765"), "write it as ADDRESS:PORT"),
        (MonitorTable(listen="ipc://stream"), "is not an address to listen at"),
        (MonitorTable(commands="ipc:///tmp/commands"), "write it as tcp://"),
        (MonitorTable(listen="ipc:///tmp/"), "is not an address to listen at"),
        (MonitorTable(listen=f"ipc:///tmp/{'x' * 120}"), "is not an address to listen at"),
        (MonitorTable(listen=f"ipc:///tmp/{'ü' * 60}"), "of at most 107 bytes"),
        (MonitorTable(listen="bench-pc"), '"tcp://0.0.0.0:5570"'),
        (MonitorTable(listen="tcp://bench-pc:5570"), "is not an address of this machine"),
        (MonitorTable(listen="tcp://0.0.0.0:65536"), "a port up to 65535"),
        (MonitorTable(commands="tcp://0.0.0.0"), '"tcp://0.0.0.0:5571"'),
        (MonitorTable(listen="tcp://*:5570", commands="tcp://*:5570"), "different ports"),
        (MonitorTable(page="bench-pc"), "write it as ADDRESS:PORT"),
        (MonitorTable(page="127.0.0.1:70000"), "a port up to 65535"),
    ],
)
def test_check_names_what_cannot_be(table, words):
    findings = Findings()
    check_monitor(
        SimpleNamespace(tables=SimpleNamespace(monitor=table, bonds=[], faults=[])), findings
    )
    (problem,) = findings.problems
    assert words in str(problem)


@pytest.mark.parametrize(
    "table",
    [
        MonitorTable(),
        MonitorTable(listen="tcp://0.0.0.0:5570", commands="tcp://*:5571", page="5006"),
        MonitorTable(listen="tcp://127.0.0.1:*", commands="tcp://127.0.0.1:*", page="pc:5006"),
        MonitorTable(listen="tcp://[::1]:5570"),
        pytest.param(
            MonitorTable(listen="ipc:///tmp/stream"),
            marks=pytest.mark.skipif(os.name != "posix", reason="Unix sockets with accounts"),
        ),
    ],
)
def test_check_takes_addresses_that_can_be(table):
    findings = Findings()
    check_monitor(
        SimpleNamespace(tables=SimpleNamespace(monitor=table, bonds=[], faults=[])), findings
    )
    assert findings.problems == []


def test_an_input_is_taken_within_its_bounds_and_given_back(operator):
    what = "inputs.a.u"
    monitor = {"adjust": {what: {"min": -5.0, "max": 5.0}}}
    operator.adjustable = {what: Adjustable(min=-5.0, max=5.0)}
    operator.events.state = SessionState.RUNNING
    port = Port("u", "rad/s")
    numerics = make_numerics({"a": Ports((port,), (Port("y"),))}, monitor=monitor)
    changes = numerics.changes
    operator.master = SimpleNamespace(numerics=numerics)
    assert not obey(operator, "adjust", text=what, value=6.0).ok
    level, _, _, text = operator.recorded.notes[-1]
    assert level == "warning"
    assert text.endswith("asked for adjust: not done: inputs.a.u = 6 is outside -5 … 5")
    assert obey(operator, "adjust", text=what, value=-1.0 / 3.0).ok
    reply = obey(operator, "adjust", text=what, value=-3.0)
    assert reply.text == "inputs.a.u = -3 rad/s, was -0.333333 rad/s"
    reply = obey(operator, "adjust", text=what, value=float("nan"))
    assert reply.text == "inputs.a.u is released, was -3 rad/s"
    assert changes.pending[1] == (what, -3.0)
    assert not obey(operator, "adjust", text="inputs.a.w", value=float("nan")).ok


def test_check_knows_the_inputs_that_an_operator_may_take():
    def told(name, **bounds):
        ports = {"a": Ports((Port("u"), Port("w", size=2)), (Port("y"),))}
        numbers = {"min": -1.0, "max": 1.0, **bounds}
        _, tables = make_network(ports, monitor={"adjust": {name: numbers}})
        found = Findings()
        check_monitor(Topology(tables, ports, set()), found)
        return [str(problem) for problem in found.problems]

    assert told("inputs.a.u") == []
    assert "no input 'uu'" in told("inputs.a.uu")[0]
    assert "several elements" in told("inputs.a.w")[0]
    assert "is not a range" in told("inputs.a.u", min=2.0)[0]


def asking(operator, told=True):
    """A running session in which a sequence asks; what its link was given."""
    running(operator)
    given = []

    def answer(*args):
        given.append(args)
        return told

    operator.master.progress = SimpleNamespace(t_ns=2_000_000_000)
    link = SimpleNamespace(name="test", asks=SimpleNamespace(answer=answer))
    operator.master.exchange = SimpleNamespace(links=[link])
    question = '{"number": 4, "text": "warm?", "answers": ["yes", "no"], "until": 5.0}'
    operator.events.publisher.prompts.ask("test", question)
    return given


def test_an_answer_goes_to_the_sequence_once_with_who(operator):
    given = asking(operator)
    assert not obey(operator, "answer", value=1.0, text="perhaps").ok
    assert obey(operator, "answer", value=1.0, text="no").ok
    again = obey(operator, "answer", value=1.0, text="yes")
    assert again.text == "that prompt is no longer open"
    assert given == [(4, "no", "Ada")]
    refused, done, late = operator.recorded.notes
    assert done == ("info", "operator", "operator", "Ada: answers 'warm?' of test: no")
    assert refused[0] == late[0] == "warning"
    assert "not done: 'perhaps' is not an answer to 'warm?'; one of yes, no" in refused[3]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "begins"),
        (0.0, "ends"),
        (math.nan, "is returned to its times"),
        (0.5, None),
        (2.0, None),
    ],
)
def test_a_fault_is_begun_and_ended(operator, value, text):
    running(operator)
    operator.adjustable = {"faults.frozen": Adjustable(min=0.0, max=1.0)}
    ports = {"a": Ports((), (Port("y"),))}
    fault = {"name": "frozen", "kind": "stuck", "output": "a.y"}
    operator.master.numerics = make_numerics(ports, faults=[fault])
    reply = obey(operator, "adjust", text="faults.frozen", value=value)
    pending = operator.master.numerics.changes.pending
    assert (reply.ok, len(pending)) == (text is not None, int(text is not None))
    if text is not None:
        assert f"fault frozen {text}" in reply.text


@pytest.mark.parametrize("number", [2.0, 0.5, float("nan"), float("inf")])
def test_an_answer_to_another_prompt_does_nothing(operator, number):
    given = asking(operator)
    assert not obey(operator, "answer", value=number, text="no").ok
    assert given == []


def test_an_answer_that_cannot_be_handed_on_may_be_given_again(operator):
    given = asking(operator, told=False)
    assert obey(operator, "answer", value=1.0, text="no").text == "test could not be delivered"
    assert not obey(operator, "answer", value=1.0, text="no").ok
    assert len(given) == 2
    operator.master.progress.t_ns = 5_000_000_000
    assert "no longer open" in obey(operator, "answer", value=1.0, text="no").text


def test_an_answer_before_the_first_tick_is_refused(operator):
    assert not obey(operator, "answer", value=1.0, text="no").ok
