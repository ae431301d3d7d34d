"""The master's side of the protocol with hand-made times and connections that are only names."""

import logging
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from hilrt.errors import ConfigError, ProtocolError
from hilrt.peers import wire
from hilrt.peers.clock_offset import OFFSET_EXCHANGES
from hilrt.peers.master_protocol import HEARTBEAT_S, MAX_STRANGE, MasterProtocol
from hilrt.peers.peer_events import (
    STRANGER,
    Accepted,
    CameBack,
    Contested,
    Left,
    Lost,
    NotUsed,
)
from hilrt.peers.remote_peer import CONTESTS_REPORTED, ConnectionState
from hilrt.peers.transport.base import UNKNOWN, Origin

SECOND = 1_000_000_000
MS = 1_000_000
START = 100 * SECOND


class Received(NamedTuple):
    """A message for the link of a peer."""

    name: str
    message: wire.FromPeer


class Session:
    """A `MasterProtocol`, its clock, and what a peer at the end of each connection would see."""

    def __init__(self, *, options=None, **expected):
        self.now = START
        self.protocol = MasterProtocol("demo", self.now)
        for name, role in (expected or {"model": "solver"}).items():
            self.protocol.expect(name, role, **(options or {}))
        self.events = []
        self.inboxes = {}
        self.origins = {}

    @property
    def peer(self):
        return self.protocol.peers["model"]

    def settle(self):
        self.events += self.protocol.events()
        for connection, data in self.protocol.data_to_send():
            self.inboxes.setdefault(connection, []).append(wire.decode_from_master(data))

    def hears(self, message, connection="first"):
        return self.hears_bytes(wire.encode(message), connection)

    def hears_bytes(self, data, connection="first"):
        """Whether the connection may stay."""
        peer = self.protocol.connections.get(connection)
        if peer is None:
            origin = self.origins.get(connection, UNKNOWN)
            stays = self.protocol.greet(connection, data, self.now, lambda: origin)
            self.settle()
            return stays
        message = peer.receive(data, self.now)
        self.settle()
        if message is not None:
            self.events.append(Received(peer.name, message))
        return True

    def greeted(self, connection="first", **changes):
        self.hears(hello(**changes), connection)
        return self

    def sent(self, kind=wire.Message, connection="first"):
        """What was sent over a connection since the last call."""
        return [m for m in self.inboxes.pop(connection, []) if isinstance(m, kind)]

    def told(self, kind):
        """Events of a kind since the last call; the others before and between are dropped."""
        events, self.events = self.events, []
        return [event for event in events if isinstance(event, kind)]

    def messages(self):
        return [received.message for received in self.told(Received)]

    def passes(self, seconds):
        """Time passes in pieces: one long gap would look as if the master had been held up."""
        for _ in range(round(seconds / 0.1)):
            self.now += SECOND // 10
            self.protocol.keep_alive(self.now)
        self.settle()


def hello(name="model", **changes):
    fields = {
        "version": wire.PROTOCOL_VERSION,
        "role": "solver",
        "name": name,
        "inputs": [wire.PortInfo(name="u")],
        "outputs": [wire.PortInfo(name="y")],
    }
    return wire.Hello(**{**fields, **changes})


def advanced(tick, *y, **fields):
    return wire.Advanced(tick=tick, y=wire.pack(np.array(y)), **fields)


ADVANCE = wire.Advance(tick=0, t=0.0, h=1e-3, coefficients=wire.pack(np.zeros((1, 1))))


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def greeted(session):
    session.greeted()
    session.sent()
    session.told(object)
    return session


# --- handshake ------------------------------------------------------------------------------------


def test_a_hello_is_welcomed_and_tells_the_ports(session):
    session.greeted()
    assert session.sent() == [wire.Welcome(session="demo", heartbeat_s=HEARTBEAT_S)]
    assert session.told(object) == [Accepted("model", hello(), UNKNOWN)]
    assert session.peer.connection == "first"
    assert session.peer.state is ConnectionState.CONNECTED
    assert [port.name for port in session.peer.inputs + session.peer.outputs] == ["u", "y"]


@pytest.mark.parametrize(
    ("changes", "counted", "reason"),
    [
        ({"name": "modell"}, STRANGER, "is called 'modell'; the session has: model"),
        ({"version": 2}, "model", "protocol version 2 is not 1"),
        ({"role": "gateway"}, "model", "must be a solver, not a gateway"),
        ({"outputs": [wire.PortInfo(name="y", size=0)]}, "model", "size is 0"),
        ({"inputs": [wire.PortInfo(name="u")] * 2}, "model", "twice"),
    ],
)
def test_a_hello_that_does_not_fit_is_rejected_with_the_reason(session, changes, counted, reason):
    session.greeted(**changes)
    [reject] = session.sent()
    assert reason in reject.reason
    assert session.peer.connection is None
    assert session.protocol.counters == {(counted, "rejected"): 1}
    assert session.told(object) == [NotUsed(counted, "rejected")]
    session.greeted()  # the right one is still welcome
    assert session.sent(wire.Welcome)


def test_a_name_is_expected_once(greeted):
    peer = greeted.peer
    with pytest.raises(ConfigError, match="'model' is already expected; give every subsystem its"):
        greeted.protocol.expect("model", "gateway")
    assert greeted.peer is peer


def test_a_link_can_reject_ports():
    def check(inputs, outputs):
        raise ProtocolError(f"not {outputs[0].name}")

    session = Session(options={"check_ports": check})
    session.greeted()
    assert session.sent() == [wire.Reject(reason="not y")]
    assert session.peer.state is ConnectionState.EXPECTED


def test_a_second_connection_under_a_name_is_rejected_and_the_first_stays(greeted):
    greeted.greeted("second")
    assert "already connected" in greeted.sent(connection="second")[0].reason
    assert greeted.protocol.counters["model", "rejected"] == 1
    greeted.hears(wire.Heartbeat(sent_ns=5))
    assert greeted.sent(wire.Heartbeat)


def test_a_repeated_hello_is_not_news(greeted):
    greeted.greeted()
    assert not greeted.told(object)
    assert not greeted.sent()
    assert not greeted.protocol.counters


# --- what is not used -----------------------------------------------------------------------------

NOT_USED = {
    "not msgpack": (b"\xc1\xff", "malformed"),
    "empty": (b"", "malformed"),
    "unknown type": (msgspec.msgpack.encode({"type": "save"}), "unknown_type"),
    "type of another kind": (msgspec.msgpack.encode({"type": 3}), "malformed"),
    "missing field": (msgspec.msgpack.encode({"type": "advanced"}), "malformed"),
    "too large": (b"x" * (wire.MAX_MESSAGE_BYTES + 1), "oversized"),
    "wrong time": (wire.encode(wire.Stopped()), "unexpected"),
    "other role": (wire.encode(wire.Secured(reason="")), "unexpected"),
    "second hello": (wire.encode(hello(inputs=[], outputs=[])), "unexpected"),
    "answer without a question": (wire.encode(wire.Heartbeat(sent_ns=1, echo_ns=77)), "unexpected"),
    "step that is not due": (wire.encode(advanced(0, 1.0)), "unexpected"),
}


@pytest.mark.parametrize("what", NOT_USED)
def test_what_cannot_be_used_is_counted_logged_once_and_dropped(greeted, caplog, what):
    data, kind = NOT_USED[what]
    with caplog.at_level(logging.WARNING, "hilrt.peers.hub"):
        for _ in range(3):
            greeted.hears_bytes(data)
    assert greeted.protocol.counters == {("model", kind): 3}
    assert greeted.told(object) == [NotUsed("model", kind)] * 3
    assert len(caplog.records) == 1
    assert "'model'" in caplog.text
    report = wire.Event(level="info", cause="x", text="still heard")
    greeted.hears(report)
    assert greeted.messages() == [report]


def test_each_kind_is_logged_once_whatever_comes_between(greeted, caplog):
    with caplog.at_level(logging.WARNING, "hilrt.peers.hub"):
        for _ in range(2):
            greeted.hears_bytes(msgspec.msgpack.encode({"type": "save"}))
            greeted.hears(wire.Event(level="info", cause="x", text="between"))
            greeted.hears_bytes(msgspec.msgpack.encode({"type": "advanced"}))
    assert [record.args[1] for record in caplog.records] == ["unknown_type", "malformed"]
    assert "Invalid value 'save'" in caplog.text
    assert "missing required field `tick`" in caplog.text


def test_strangers_are_counted_and_not_heard(session):
    for _ in range(2):
        session.hears(advanced(0, 1.0))
        session.hears_bytes(b"\xc1")
    assert session.protocol.counters == {
        (STRANGER, "unknown_sender"): 2,
        (STRANGER, "malformed"): 2,
    }
    assert session.peer.connection is None


def test_the_newest_message_that_was_dropped_is_named(greeted):
    greeted.hears_bytes(msgspec.msgpack.encode({"type": "advanced"}))
    greeted.now += SECOND // 2
    unused = greeted.protocol.unused
    said = unused.why_dropped("model", greeted.now)
    assert said.startswith("its newest dropped message arrived 0.5 s ago: ")
    assert "field `tick`" in said
    greeted.hears_bytes(msgspec.msgpack.encode({"type": "save"}))  # explains less
    assert unused.why_dropped("model", greeted.now) == said
    assert unused.why_dropped("other", greeted.now) == ""


# --- requests and answers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (wire.Initialize(t0=0.0, u0=b""), wire.Initialized(y=b"")),
        (ADVANCE, advanced(0, 1.0)),
        (wire.GoBack(tick=0, h=1e-4), advanced(0, 1.0)),
        (wire.Probe(source="solver", t=0.0, h=1.0, order=0, u=b""), wire.Probed()),
        (wire.Linearise(h=1.0, u=b"", within=1.0), wire.Linearised()),
        (wire.Stop(reason=""), wire.Stopped()),
    ],
)
def test_an_answer_is_used_once(greeted, request_, answer):
    greeted.peer.send(request_)
    greeted.hears(answer)
    assert greeted.told(object) == [Received("model", answer)]
    greeted.hears(answer)
    assert greeted.protocol.counters == {("model", "unexpected"): 1}


def test_a_gateway_is_heard_unasked():
    session = Session(model="gateway").greeted(role="gateway")
    session.told(object)
    measured = wire.Measurements(seq=0, tick=-1, y=wire.pack(np.ones(1)), t_valid_ns=[1])
    secured = wire.Secured(reason="its own decision")
    for message in (measured, secured):
        session.hears(message)
    session.peer.send(wire.Arm(u0=b""))
    session.hears(wire.Armed())
    assert session.messages() == [measured, secured, wire.Armed()]


def test_an_answer_to_another_tick_is_dropped(greeted):
    for tick in (3, 4):
        greeted.peer.send(wire.Advance(tick=tick, t=0.0, h=1e-3, coefficients=b""))
    greeted.hears(advanced(3, 1.0))
    greeted.hears(advanced(4, 2.0))
    assert greeted.messages() == [advanced(4, 2.0)]
    assert greeted.protocol.counters == {("model", "unexpected"): 1}


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"y": b"1234"}, r"Advanced: array of 4 bytes does not have the shape \(1,\)"),
        ({"y_mean": b""}, r"Advanced: array of 0 bytes does not have the shape \(1,\)"),
        ({"y_mid": b""}, r"Advanced: array of 0 bytes does not have the shape \(1,\)"),
        ({"dy": b"12345"}, r"Advanced: array of 5 bytes does not have the shape \(-1, 1\)"),
        ({"event_t": np.nan}, "Advanced of tick 0: event_t is nan"),
    ],
)
def test_an_answer_that_does_not_fit_is_counted_and_still_due(greeted, caplog, fields, what):
    greeted.peer.send(ADVANCE)
    greeted.hears(wire.Advanced(**{"tick": 0, "y": wire.pack(np.ones(1)), **fields}))
    assert greeted.protocol.counters == {("model", "malformed"): 1}
    assert caplog.records[-1].args[2].startswith(what.partition("\\")[0])
    assert greeted.peer.computing
    greeted.hears(advanced(0, 1.0))
    assert greeted.messages() == [advanced(0, 1.0)]


@pytest.mark.parametrize(
    "fields", [{"y": b"12345678"}, {"t_valid_ns": [1]}, {"realised": b"123"}, {}]
)
def test_measurements_have_a_value_and_a_time_for_every_output(fields):
    session = Session(model="gateway")
    session.greeted(role="gateway", outputs=[wire.PortInfo(name="y", size=2)])
    whole = {"seq": 0, "tick": 0, "y": wire.pack(np.ones(2)), "t_valid_ns": [1, 2]}
    session.hears(wire.Measurements(**{**whole, **fields}))
    assert len(session.messages()) == (not fields)
    assert session.protocol.counters["model", "malformed"] == bool(fields)


def test_an_answer_that_is_given_up_is_not_used(greeted):
    greeted.peer.send(wire.Probe(source="solver", t=0.0, h=1.0, order=0, u=b""))
    greeted.peer.give_up(wire.Probed, greeted.now)
    greeted.hears(wire.Probed())
    assert greeted.protocol.counters == {("model", "unexpected"): 1}


# --- heartbeats, silence and clocks ---------------------------------------------------------------


def test_a_question_is_answered_with_the_masters_clock(greeted):
    greeted.hears(wire.Heartbeat(sent_ns=42))
    assert greeted.sent() == [wire.Heartbeat(sent_ns=greeted.now, echo_ns=42)]


def test_the_peer_is_asked_once_per_heartbeat_and_its_clock_measured(greeted):
    greeted.protocol.keep_alive(greeted.now)
    greeted.settle()
    greeted.sent()
    greeted.now += round(HEARTBEAT_S * SECOND) - 1
    greeted.protocol.keep_alive(greeted.now)
    greeted.settle()
    assert not greeted.sent()
    greeted.now += 1
    greeted.protocol.keep_alive(greeted.now)
    greeted.settle()
    [beat] = greeted.sent()
    assert beat == wire.Heartbeat(sent_ns=greeted.now)
    greeted.now += 2 * MS
    answer = wire.Heartbeat(sent_ns=beat.sent_ns + MS + 5 * SECOND, echo_ns=beat.sent_ns)
    greeted.hears(answer)
    assert greeted.peer.clock.offset_ns == 5 * SECOND
    assert greeted.peer.clock.round_trip_ns == 2 * MS
    greeted.hears(answer)  # to no question: it was used
    assert greeted.protocol.counters == {("model", "unexpected"): 1}


def test_a_clock_is_asked_for_a_few_times_after_the_hello(greeted):
    for _ in range(3 * OFFSET_EXCHANGES):
        greeted.protocol.measure_offsets(greeted.now)
    greeted.settle()
    assert len(greeted.sent(wire.Heartbeat)) == OFFSET_EXCHANGES


def test_peers_take_turns_and_each_is_asked_as_often():
    session = Session(a="solver", b="solver", c="solver")
    for name in "abc":
        session.greeted(name, name=name)
        session.sent(connection=name)
    asked = []
    for _ in range(60):
        session.now += round(HEARTBEAT_S * SECOND / 30)
        session.protocol.keep_alive(session.now)
        session.settle()
        asked.append([name for name in "abc" if session.sent(wire.Heartbeat, name)])
    assert max(len(names) for names in asked) == 1
    counts = [sum(name in names for names in asked) for name in "abc"]
    assert counts == [2, 2, 2]


def test_silence_for_ten_heartbeats_is_a_lost_peer(greeted):
    greeted.passes(1.9)
    assert not greeted.told(Lost)
    greeted.passes(0.4)
    [lost] = greeted.told(Lost)
    assert lost.reason.startswith("silent for 2.")
    assert lost.reason.endswith("; see its log")


@pytest.mark.parametrize("data", [wire.encode(wire.Heartbeat(sent_ns=1)), b"\xc1"])
def test_a_message_ends_the_silence(greeted, data):
    """One that cannot be used does not: it may be anything."""
    greeted.passes(1.9)
    greeted.hears_bytes(data)
    greeted.passes(0.4)
    assert bool(greeted.told(Lost)) == (data == b"\xc1")


def test_silence_does_not_count_while_a_solver_computes(greeted):
    greeted.peer.send(ADVANCE)
    greeted.passes(30)
    assert not greeted.told(Lost)
    greeted.hears(advanced(0, 1.0))
    greeted.passes(2.3)
    assert "silent" in greeted.told(Lost)[0].reason


def test_the_silence_of_a_gateway_counts_while_it_ramps():
    session = Session(model="gateway").greeted(role="gateway")
    session.peer.send(wire.Arm(u0=b""))
    session.passes(2.3)
    assert "silent" in session.told(Lost)[0].reason


def test_after_an_answer_was_given_up_silence_counts_from_then(greeted):
    greeted.peer.send(ADVANCE)
    greeted.passes(30)
    greeted.peer.give_up(wire.Advanced, greeted.now)
    greeted.passes(1.9)
    assert not greeted.told(Lost)
    greeted.passes(0.4)
    assert "silent for 2." in greeted.told(Lost)[0].reason


def test_a_master_that_was_held_up_itself_first_listens(greeted):
    greeted.now += 60 * SECOND  # the process was stopped
    greeted.protocol.keep_alive(greeted.now)
    greeted.settle()
    assert not greeted.told(Lost)
    greeted.passes(0.7)
    assert "silent" in greeted.told(Lost)[0].reason


# --- loss and return ------------------------------------------------------------------------------


@pytest.fixture
def returnable():
    """A session that runs, with a connected solver that may come back."""
    session = Session(options={"readmits": True})
    session.greeted()
    session.protocol.running = True
    session.sent()
    session.told(object)
    return session


def test_the_first_reason_is_kept(greeted):
    greeted.peer.lose("first")
    greeted.peer.lose("second")
    assert greeted.peer.lost == "first"


def test_a_connection_that_closed_is_a_lost_peer_that_is_told_how_to_come_back(greeted):
    greeted.protocol.running = True
    greeted.protocol.connection_lost("first", "its connection closed")
    greeted.settle()
    assert greeted.told(Lost) == [Lost("model", "its connection closed")]
    greeted.greeted("second")
    [reject] = greeted.sent(wire.Reject, "second")
    assert "its connection closed" in reject.reason
    assert "rejoin = true" in reject.reason


def test_a_solver_that_may_return_leaves_and_comes_back(returnable):
    peer = returnable.peer
    returnable.protocol.connection_lost("first", "its connection closed")
    returnable.settle()
    assert returnable.told(object) == [Left("model", "its connection closed")]
    assert (peer.state, peer.connection, peer.lost) == (ConnectionState.AWAY, None, "")
    returnable.passes(60)  # an absence is no silence
    assert not returnable.told(object)
    returnable.greeted("second")
    assert returnable.told(object) == [CameBack("model", hello(), UNKNOWN)]
    assert returnable.sent(wire.Welcome, "second")
    assert peer.state is ConnectionState.RETURNED
    data = peer.initialize_again(wire.Initialize(t0=2.0, u0=b""))
    assert wire.decode_from_master(data) == wire.Initialize(t0=2.0, u0=b"")
    assert peer.state is ConnectionState.RESTARTING
    returnable.passes(30)  # it may load for long
    answer = wire.Initialized(y=wire.pack(np.ones(1)))
    returnable.hears(answer, "second")
    assert returnable.messages() == [answer]
    assert peer.state is ConnectionState.CONNECTED


def test_what_was_due_before_the_loss_is_not_due_after_it(returnable):
    returnable.peer.send(ADVANCE)
    returnable.protocol.connection_lost("first", "its connection closed")
    returnable.greeted("second")
    returnable.told(object)
    returnable.hears(advanced(0, 1.0), "second")
    assert returnable.told(object) == [NotUsed("model", "unexpected")]


def test_another_connection_takes_the_place_of_one_that_lives(returnable):
    """A supervisor may be quicker than the master's notice of the end."""
    returnable.greeted("second")
    [error] = returnable.sent(wire.Error, "first")
    assert "replaced it" in error.text
    assert [type(event) for event in returnable.told(object)] == [Contested, Left, CameBack]
    returnable.hears(advanced(0, 1.0), "first")
    assert returnable.protocol.counters == {(STRANGER, "unknown_sender"): 1}
    returnable.protocol.connection_lost("first", "its connection closed")  # of no importance
    assert returnable.peer.connection == "second"


MODELS, OTHERS = frozenset({"model"}), frozenset({"other"})


def test_a_key_admits_its_own_name_alone(session):
    session.origins["first"] = Origin("192.0.2.7 with the key of other", OTHERS)
    session.greeted()
    [reject] = session.sent()
    assert "that of other, not 'model'" in reject.reason
    assert session.peer.state is ConnectionState.EXPECTED
    session.origins["second"] = Origin("192.0.2.8 with the key of model", MODELS)
    assert session.greeted("second").sent(wire.Welcome, "second")


def test_another_key_does_not_evict_a_solver_that_may_come_back(returnable):
    """And what it asked for is told with both sides."""
    returnable.origins["second"] = Origin("192.0.2.7 with the key of other", OTHERS)
    returnable.greeted("second", pid=4711)
    [contested] = returnable.told(Contested)
    asked = (
        "192.0.2.7 with the key of other (according to itself, process 4711) requested the name of"
    )
    assert contested.text.startswith(
        f"{asked} an unknown address and was refused: a key only admits"
    )
    assert returnable.peer.connection == "first"
    assert not returnable.sent(wire.Error, "first")


def test_a_takeover_is_told_with_both_sides(returnable):
    returnable.origins["second"] = Origin("process 8 of this account", local=True, pid=8)
    returnable.greeted("second", pid=8)
    [contested] = returnable.told(Contested)
    assert contested.text == "process 8 of this account replaces an unknown address"
    returnable.peer.lose("its process ended", for_good=True)
    returnable.settle()
    returnable.greeted("third")
    [contested] = returnable.told(Contested)
    assert "requested the name of process 8 of this account and was refused" in contested.text


def test_takeovers_without_end_are_told_only_so_often(greeted):
    for number in range(3 * CONTESTS_REPORTED):
        greeted.greeted(number)
    assert len(greeted.told(Contested)) == CONTESTS_REPORTED
    assert greeted.protocol.counters["model", "rejected"] == 3 * CONTESTS_REPORTED


def test_a_stranger_that_sends_what_is_no_message_is_cut_off_others_later(session):
    assert not session.hears_bytes(b"\xc1", "first")
    early = wire.encode(wire.Heartbeat(sent_ns=1))  # as of a solver with a new connection
    assert all(session.hears_bytes(early, "second") for _ in range(MAX_STRANGE))
    assert not session.hears_bytes(early, "second")
    for _ in range(MAX_STRANGE):
        assert session.hears(hello(version=2), "third")
    assert not session.hears(hello(version=2), "third")


def test_a_peer_is_not_cut_off(greeted):
    assert greeted.hears_bytes(b"\xc1")
    assert all(greeted.hears(wire.Stopped()) for _ in range(2 * MAX_STRANGE))


def test_which_peers_want_a_connection(returnable):
    assert returnable.peer.wants_connection  # another one may take its place
    returnable.peer.lose("its process ended", for_good=True)
    assert not returnable.peer.wants_connection
    session = Session()
    assert session.peer.wants_connection
    assert not session.greeted().peer.wants_connection


def test_the_clock_of_one_that_came_back_is_measured_anew(returnable):
    returnable.protocol.measure_offsets(returnable.now)
    returnable.settle()
    [beat] = returnable.sent(wire.Heartbeat)
    returnable.hears(wire.Heartbeat(sent_ns=beat.sent_ns + SECOND, echo_ns=beat.sent_ns))
    assert returnable.peer.clock.offset_ns == SECOND
    returnable.greeted("second")
    assert returnable.peer.clock.round_trip_ns is None
    returnable.hears(wire.Heartbeat(sent_ns=1, echo_ns=beat.sent_ns), "second")  # asked before
    assert returnable.protocol.counters["model", "unexpected"] == 1


def test_one_with_other_ports_is_not_taken_back(returnable):
    returnable.greeted("second", outputs=[wire.PortInfo(name="z")])
    [reject] = returnable.sent(connection="second")
    assert "has different ports than before" in reject.reason
    assert returnable.peer.connection == "first"


@pytest.mark.parametrize(("leaving", "kind"), [(True, Left), (False, Lost)])
def test_a_solver_that_failed_does_not_come_back_one_that_was_told_to_end_does(
    returnable, leaving, kind
):
    returnable.hears(wire.Error(text="it is enough", leaving=leaving))
    [event] = returnable.told(object)
    assert event == kind("model", "reported an error: it is enough")


def test_before_the_session_runs_a_lost_peer_does_not_come_back(returnable):
    returnable.protocol.running = False
    returnable.peer.lose("its process ended")
    returnable.settle()
    assert returnable.told(Lost)


def test_a_peer_that_was_told_to_stop_does_not_come_back(returnable):
    returnable.peer.send(wire.Stop(reason="finished"))
    returnable.protocol.connection_lost("first", "its connection closed")
    returnable.settle()
    assert returnable.told(Lost)


def test_a_bench_is_never_taken_back_whatever_is_asked():
    session = Session(options={"readmits": True}, model="gateway")
    session.greeted(role="gateway")
    session.protocol.running = True
    session.protocol.connection_lost("first", "its connection closed")
    session.settle()
    assert session.told(Lost)
    session.greeted("second", role="gateway")
    [reject] = session.sent(connection="second")
    assert "never armed automatically; end this session" in reject.reason


def test_a_lost_bench_is_spoken_to_until_it_rests():
    session = Session(model="gateway").greeted(role="gateway")
    peer = session.peer
    session.hears(wire.Error(text="the bus is silent"))
    session.sent()
    session.passes(1.0)
    assert not session.sent()
    with peer.despite_loss():
        session.passes(1.0)
        assert session.sent(wire.Heartbeat)
        session.protocol.connection_lost("first", "its connection closed")
        assert peer.lost == "its connection closed"
    assert peer.lost == "reported an error: the bus is silent"  # the first reason
