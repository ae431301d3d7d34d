"""The exchange with scripted links: what is late, which answers wait, what is lost."""

import asyncio
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.errors import PeerLost, SolverError
from hilrt.exchange.exchange import Exchange
from hilrt.link import Link, Ports
from hilrt.peers import wire
from hilrt.peers.hub import Hub
from hilrt.solver import Port, Sample, Solver
from hilrt.tables.given import StepInput
from hilrt.timing.monotonic import monotonic_ns
from hilrt_adapters.inprocess import InProcessLink, InProcessOptions
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions
from tests.peers.test_hub import Dealer, drain_until
from tests.stepping import make_numerics

MS = 1_000_000


class Scripted(Link):
    """Puts in what `waiting` has when it is asked."""

    def __init__(self, name="peer", n_outputs=1, *, physical=False, reader=None):
        self.name, self.physical, self.reader = name, physical, reader
        self.inputs = (Port("u"),)
        self.outputs = tuple(Port(f"y{i}") for i in range(n_outputs))
        self.waiting: list[tuple[Sample, float]] = []
        self.sent = []
        self.polls = 0

    async def open(self):
        raise NotImplementedError

    async def initialize(self, t0, u0):
        raise NotImplementedError

    def dispatch(self, tick, t, h, coefficients):
        self.sent.append((tick, t, h, coefficients.copy()))

    def receive(self):
        self.polls += 1
        waiting, self.waiting = self.waiting, []
        for sample, t_arrived in waiting:
            self.inbox.put(sample, t_arrived)

    def fileno(self):
        return self.reader

    def answers(self, *y, t=0.0, **sample):
        self.waiting.append((Sample(np.array(y, float), **sample), t))


def make_exchange(*links: Link, every=None, max_misses=3, catch_up=()) -> Exchange:
    numerics = make_numerics(
        {link.name: Ports(link.inputs, link.outputs) for link in links},
        subsystems={
            link.name: {"every": n}
            for link, n in zip(links, every or [1] * len(links), strict=True)
        },
    )
    numerics.plan.session["coefficients"] = 2
    exchange = Exchange(numerics, links, 1e-3, [max_misses] * len(links), catch_up)
    exchange.start([Sample(np.zeros(len(link.outputs))) for link in links])
    return exchange


def cut(exchange: Exchange, tick: int) -> StepInput:
    """What is given at `tick` of a 1 ms grid."""
    exchange.cut(tick, tick * MS, MS if tick else 0)
    return exchange.given


def dispatch(exchange: Exchange, t_ms: int, *, to=None, h_ms=1, sent=None):
    """What the macro step would dispatch: all that is due and not busy, from where it stands.

    `sent`, shape (2, nu), are the inputs; default: 0, 1, 2, … and their slopes.
    """
    subsystems, state = exchange.given.subsystems, exchange.numerics.state
    due = subsystems["due"] & (1 - subsystems["busy"])
    state.subsystems["dispatch"] = due if to is None else to
    state.subsystems["t_start"] = subsystems["reached"]
    ahead = exchange.network.every * h_ms * 1e-3
    state.subsystems["h"] = ahead + exchange.given.session["t"] - subsystems["reached"]
    n = len(state.inputs)
    state.inputs["polynomial"][:, :2] = (
        np.arange(2.0 * n).reshape(2, n) if sent is None else sent
    ).T
    exchange.dispatch(t_ms * MS, h_ms * MS)


def turn(exchange: Exchange, tick: int) -> StepInput:
    """Cut and dispatch at `tick` of a 1 ms grid."""
    given = cut(exchange, tick)
    dispatch(exchange, tick)
    return given


def test_first_cut_finds_the_initialized_outputs():
    link = Scripted(n_outputs=2)
    exchange = make_exchange(link)
    exchange.start([Sample(np.array([3.0, 4.0]))])
    given = cut(exchange, 0)
    assert given.outputs["fresh"].all()
    np.testing.assert_array_equal(given.outputs["y"], [3.0, 4.0])
    assert given.session["regular"][0]
    assert not given.subsystems["late"].any()


def test_an_answer_is_valid_at_the_end_of_its_step():
    link = Scripted()
    exchange = make_exchange(link)
    turn(exchange, 0)
    link.answers(7.0, compute_us=42.0)
    given = turn(exchange, 1)
    assert (given.outputs["y"][0], given.outputs["t_valid"][0], given.subsystems["reached"][0]) == (
        7.0,
        0.001,
        0.001,
    )
    assert given.subsystems["covered"][0] == pytest.approx(0.001)
    assert given.outputs["fresh"][0]
    assert given.session["regular"][0]
    assert exchange.compute_us[0] == 42.0
    assert exchange.age[0] == 0.0


def test_each_link_gets_its_own_inputs():
    first, second = Scripted("a"), Scripted("b")
    exchange = make_exchange(first, second)
    exchange.cut(0, 0, 0)
    dispatch(exchange, 0)
    (tick, t, h, c), *_ = second.sent
    assert (tick, t, h) == (0, 0.0, 1e-3)
    np.testing.assert_array_equal(c, [[1.0], [3.0]])


def test_a_late_solver_is_busy_then_gets_what_it_missed():
    link = Scripted()
    exchange = make_exchange(link)
    turn(exchange, 0)
    for tick in (1, 2):
        given = turn(exchange, tick)
        assert given.subsystems["late"][0]
        assert given.subsystems["busy"][0]
        assert not given.session["regular"][0]
        assert not given.outputs["fresh"].any()
    assert exchange.age[0] == pytest.approx(0.002)
    link.answers(5.0)
    given = turn(exchange, 3)
    assert given.outputs["t_valid"][0] == 0.001  # where the advance led to, not when it came
    assert given.subsystems["reached"][0] == 0.001
    assert given.subsystems["late"][0]  # it has answered, and is still behind
    assert not given.subsystems["busy"][0]
    assert not given.session["regular"][0]  # a merged step follows
    assert len(link.sent) == 2
    tick, t, h, _ = link.sent[-1]
    assert (tick, t) == (3, 0.001)
    assert h == pytest.approx(0.003)
    link.answers(6.0)
    given = turn(exchange, 4)
    assert given.outputs["t_valid"][0] == 0.004
    assert given.subsystems["covered"][0] == pytest.approx(0.003)
    assert given.session["regular"][0]
    assert not given.subsystems["late"][0]
    assert exchange.channels["late"][0] == 3


def test_catching_up_sends_what_was_missed_one_after_another():
    link = Scripted()
    exchange = make_exchange(link, catch_up=[True])
    for tick in (0, 1, 2):
        given = turn(exchange, tick)
        assert not given.subsystems["busy"][0]  # an interval is made for it at every tick
        assert given.subsystems["late"][0] == (tick > 0)
    assert [sent[0] for sent in link.sent] == [0]  # one outstanding at most
    for missed in (1, 2):
        assert exchange.behind
        link.answers(float(missed))
        exchange.send_on()
        tick, t, h, _ = link.sent[-1]
        assert (tick, t, h) == (missed, pytest.approx(missed * 1e-3), pytest.approx(1e-3))
        assert exchange.given.outputs["t_valid"][0] == pytest.approx(missed * 1e-3)
    assert not exchange.behind
    link.answers(3.0)
    given = turn(exchange, 3)
    assert given.session["regular"][0]
    assert (given.outputs["y"][0], given.outputs["t_valid"][0]) == (3.0, 0.003)
    assert given.subsystems["covered"][0] == pytest.approx(1e-3)
    assert exchange.channels["late"][0] == 2


@pytest.mark.parametrize(("left_ns", "sent"), [(10**10, [0, 1, 2, 3]), (0, [0])])
async def test_while_the_master_sleeps_it_is_sent_on_as_fast_as_it_answers(left_ns, sent):
    link = Scripted()
    exchange = make_exchange(link, catch_up=[True], max_misses=9)
    for tick in range(4):
        turn(exchange, tick)
    link.receive = lambda: link.inbox.put(Sample(np.zeros(1)), 0.0)  # at once from now on
    await exchange.catch_up(monotonic_ns() + left_ns)
    assert [tick for tick, *_ in link.sent] == sent
    assert exchange.behind == (not left_ns)


def test_each_missed_interval_keeps_the_inputs_that_were_meant_for_it():
    link = Scripted()
    exchange = make_exchange(link, catch_up=[True])
    meant = [np.array([[tick], [10.0 * tick]]) for tick in range(3)]
    for tick in range(3):
        cut(exchange, tick)
        dispatch(exchange, tick, sent=meant[tick])
    for _ in range(2):
        link.answers(0.0)
        exchange.send_on()
    for (*_, coefficients), expected in zip(link.sent, meant, strict=True):
        np.testing.assert_array_equal(coefficients, expected)


def test_a_bench_gets_its_inputs_at_every_tick_whatever_is_asked():
    bench = Scripted("bench", physical=True)
    exchange = make_exchange(bench, catch_up=[True])
    for tick in range(3):
        turn(exchange, tick)
    assert [sent[0] for sent in bench.sent] == [0, 1, 2]


def test_a_value_from_the_future_shows_how_far_the_clock_is_off():
    bench = Scripted("bench", n_outputs=2, physical=True)
    exchange = make_exchange(bench)
    turn(exchange, 0)
    bench.answers(1.0, 2.0, t=0.9e-3, t_valid=np.array([0.5, np.nan]))
    turn(exchange, 1)
    assert exchange.given.outputs["t_valid"].tolist() == [0.9e-3, 0.0]
    assert exchange.given.outputs["fresh"].tolist() == [1, 0]
    assert exchange.given.subsystems["clock_error"][0] == pytest.approx(0.4991)


# --- before the tick ------------------------------------------------------------------------------

ANSWER = st.tuples(
    st.integers(0, 2),  # which subsystem
    st.floats(0.0, 3.0),  # when it arrives, in ticks since the one before
    st.floats(-9.0, 9.0),
    st.sampled_from([None, 0.2, 0.9]),  # its validity within that, of a bench's sample
    st.booleans(),
)


@given(answers=st.lists(ANSWER, max_size=12), looks=st.lists(st.floats(0.0, 3.0), max_size=6))
def test_receiving_early_gives_what_receiving_at_the_tick_does(answers, looks):
    """Whenever the master looks, and however often, the same samples make the same step input."""
    results = []
    for looked in ([], sorted(looks)):
        bench = Scripted("bench", n_outputs=2, physical=True)
        links = [bench, Scripted("one"), Scripted("other")]
        exchange = make_exchange(*links, catch_up=[False, False, True], max_misses=9)
        turn(exchange, 0)
        arriving = sorted(answers, key=lambda answer: answer[1])
        found = []
        for tick in (1, 2, 3):
            events = [(a[1], 1, a) for a in arriving if tick - 1 <= a[1] < tick]
            events += [(at, 0, None) for at in looked if tick - 1 <= at < tick]
            for at, _, answer in sorted(events, key=lambda event: event[:2]):
                if answer is None:
                    exchange.receive_early(0, first=True)
                    continue
                s, t, y, valid, middle = answer
                values = (y, -y) if s == 0 else (y,)
                extra = {}
                if s == 0 and valid is not None:
                    extra["t_valid"] = np.array([(np.floor(t) + valid) * 1e-3, np.nan])
                if middle:
                    extra["y_mid"] = np.array(values) / 2
                if s == 0 or exchange.channels["busy"][s]:
                    if s != 0 and (links[s].waiting or exchange.channels["answered"][s]):
                        continue  # one answer for each step
                    links[s].answers(*values, t=at * 1e-3, **extra)
            turn(exchange, tick)
            found.append([table.tobytes() for table in exchange.given])
        results.append((found, exchange.channels.tobytes(), exchange.taken))
    assert results[0] == results[1]


def test_an_early_look_computes_no_step_of_this_process():
    class Integrator(Solver):
        inputs, outputs = (Port("u"),), (Port("y"),)
        steps = 0

        def initialize(self, t0, u0):
            return Sample(np.zeros(1))

        def advance(self, t, h, u):
            self.steps += 1
            return Sample(np.ones(1))

    link = InProcessLink(
        "model", InProcessOptions(adapter="inprocess", model="models:Integrator"), Path()
    )
    link.host(model := Integrator())
    exchange = make_exchange(link)
    turn(exchange, 0)
    exchange.run_local()
    assert model.steps == 1
    exchange.receive_early(0, first=True)
    turn(exchange, 1)
    assert model.steps == 1
    assert exchange.given.outputs["y"][0] == 1.0


def test_a_loss_that_is_found_early_is_raised_as_at_the_tick():
    class Gone(Scripted):
        def receive(self):
            raise PeerLost(self.name, "its process ended")

    exchange = make_exchange(Gone("engine"))
    with pytest.raises(PeerLost, match="its process ended"):
        exchange.receive_early(0, first=True)


class Behind(Scripted):
    """A bench whose clock is known to within 50 µs."""

    def receive(self):
        for sample, t_arrived in self.waiting:
            self.inbox.put(sample, t_arrived, uncertainty=50e-6)
        self.waiting = []


@pytest.mark.parametrize(
    ("ahead_us", "valid_us", "error_us"), [(-10, 890, 50), (40, 940, 50), (60, 900, 60)]
)
def test_what_lies_within_the_clocks_uncertainty_neither_clamps_nor_counts(
    ahead_us, valid_us, error_us
):
    """An early look reads a sample sooner; the error of its clock's offset then shows as future."""
    bench = Behind("bench", physical=True)
    exchange = make_exchange(bench)
    turn(exchange, 0)
    bench.answers(1.0, t=0.9e-3, t_valid=np.array([0.9e-3 + ahead_us * 1e-6]))
    exchange.receive_early(0, first=True)
    turn(exchange, 1)
    assert exchange.given.outputs["t_valid"][0] == pytest.approx(valid_us * 1e-6)
    assert exchange.given.subsystems["clock_error"][0] == pytest.approx(error_us * 1e-6)


def test_a_solver_that_never_catches_up_is_lost():
    link = Scripted()
    exchange = make_exchange(link, catch_up=[True], max_misses=3)
    turn(exchange, 0)
    turn(exchange, 1)
    for tick in (2, 3):
        link.answers(0.0)  # always one behind
        turn(exchange, tick)
    link.answers(0.0)
    with pytest.raises(PeerLost, match="no sample for 4 ticks"):
        turn(exchange, 4)


def test_ticks_that_the_master_left_out_are_caught_up_with_in_the_slack():
    link = Scripted()
    exchange = make_exchange(link, catch_up=[True])
    turn(exchange, 0)
    link.answers(1.0)
    exchange.run_local()
    exchange.cut(4, 4 * MS, 4 * MS)  # three ticks have passed
    dispatch(exchange, 4)
    replies = iter([Sample(np.array([y])) for y in (2.0, 3.0, 4.0, 5.0)])
    link.receive = lambda: link.inbox.put(next(replies), 0.0)
    exchange.run_local()
    assert [t for _, t, *_ in link.sent] == pytest.approx([0.0, 1e-3, 2e-3, 3e-3, 4e-3])
    link.receive = lambda: None
    given = cut(exchange, 5)
    assert given.session["regular"][0]
    assert given.outputs["y"][0] == 5.0


def test_a_solver_that_is_behind_comes_after_all_others():
    order = []
    slow, other = Scripted("slow"), Scripted("other")
    slow.dispatch = lambda *a: order.append("slow")
    other.dispatch = lambda *a: order.append("other")
    exchange = make_exchange(slow, other, catch_up=[True, False])
    turn(exchange, 0)
    assert order == ["other", "slow"]
    other.answers(1.0)
    assert not turn(exchange, 1).subsystems["late"][1]
    assert order == ["other", "slow", "other"]  # the slow one was not waited for
    slow.answers(1.0)
    other.answers(1.0)
    turn(exchange, 2)
    assert order[3:] == ["other", "slow"]


def test_an_answer_of_a_longer_step_waits_for_its_time():
    slow, fast = Scripted("slow"), Scripted("fast")
    exchange = make_exchange(slow, fast, every=[3, 1])
    turn(exchange, 0)
    slow.answers(9.0)  # computed at once, valid at 3 ms
    for tick in (1, 2):
        fast.answers(float(tick))
        given = turn(exchange, tick)
        assert given.subsystems["due"].tolist() == [False, True]
        assert given.outputs["fresh"].tolist() == [False, True]
        assert not given.subsystems["late"].any()
    fast.answers(3.0)
    given = turn(exchange, 3)
    assert given.session["regular"][0]
    assert given.outputs["fresh"].all()
    np.testing.assert_array_equal(given.outputs["y"], [9.0, 3.0])
    np.testing.assert_array_equal(given.outputs["t_valid"], [0.003, 0.003])
    assert [sent[0] for sent in slow.sent] == [0, 3]


def test_too_many_misses_in_a_row_lose_the_peer():
    link = Scripted("vehicle")
    exchange = make_exchange(link, max_misses=3)
    turn(exchange, 0)
    for tick in (1, 2, 3):
        turn(exchange, tick)
    with pytest.raises(PeerLost, match=r"vehicle.*no sample for 4 ticks.*max_misses is 3.*0.004 s"):
        turn(exchange, 4)


def test_an_answer_in_between_forgives_the_misses():
    link = Scripted()
    exchange = make_exchange(link, max_misses=2)
    turn(exchange, 0)
    for tick in range(1, 12):
        if tick % 3 == 0:
            link.answers(1.0)
        turn(exchange, tick)
    assert exchange.channels["late"][0] == 11


def test_a_bench_is_late_when_it_has_been_silent():
    bench = Scripted("bench", physical=True)
    exchange = make_exchange(bench)
    late = []
    for tick in range(1, 7):
        if tick == 2:
            bench.answers(1.0, t=0.0014, t_valid=np.array([0.0014]))
        late.append(bool(turn(exchange, tick).subsystems["late"][0]))
    assert late == [False, False, False, True, True, True]  # 2.5 ms after 1.4 ms
    assert (
        exchange.given.subsystems["reached"][0] == 0.006
    )  # it lives by itself and is never behind
    assert not exchange.given.subsystems["busy"][0]
    with pytest.raises(PeerLost, match="bench"):
        turn(exchange, 7)


def test_a_bench_that_is_not_due_makes_the_tick_irregular():
    bench = Scripted("bench", physical=True)
    exchange = make_exchange(bench, every=[2])
    assert cut(exchange, 2).session["regular"][0]
    assert not cut(exchange, 3).session["regular"][0]


def test_signals_of_a_bench_have_times_of_their_own():
    bench = Scripted("bench", n_outputs=3, physical=True)
    exchange = make_exchange(bench)
    turn(exchange, 0)
    bench.answers(1.0, 2.0, 9.0, t=0.001, t_valid=np.array([0.0004, 0.0002, np.nan]))
    bench.answers(3.0, 9.0, 9.0, t=0.001, t_valid=np.array([0.0009, np.nan, np.nan]))
    given = turn(exchange, 1)
    assert given.outputs["fresh"].tolist() == [True, True, False]
    np.testing.assert_array_equal(
        given.outputs["y"], [3.0, 2.0, 0.0]
    )  # nothing of the first is lost
    np.testing.assert_array_equal(given.outputs["t_valid"][:2], [0.0009, 0.0002])
    assert exchange.age[0] == pytest.approx(0.0001)  # the newest counts, NaN or not


def test_a_bench_sample_without_times_is_of_when_it_arrived():
    bench = Scripted("bench", physical=True)
    exchange = make_exchange(bench)
    turn(exchange, 0)
    bench.answers(1.0, t=0.0007)
    given = turn(exchange, 1)
    assert given.outputs["t_valid"][0] == 0.0007
    assert given.outputs["fresh"][0]


def test_a_bench_without_outputs_lives_while_it_answers():
    bench = Scripted("bench", n_outputs=0, physical=True)
    exchange = make_exchange(bench)
    for tick in range(1, 20):
        bench.answers(t=tick * 1e-3)
        assert not turn(exchange, tick).subsystems["late"][0]


def test_middles_derivatives_and_realised_inputs_find_their_place():
    first, second = Scripted("a"), Scripted("b", n_outputs=2)
    exchange = make_exchange(first, second)
    turn(exchange, 0)
    first.answers(1.0)
    second.answers(
        2.0,
        3.0,
        y_mid=np.array([2.5, 3.5]),
        y_mean=np.array([2.4, 3.4]),
        dy=np.array([[20.0, 30.0]]),
        realised=np.array([0.7]),
    )
    given = turn(exchange, 1)
    assert given.session["has_middle"][0]
    np.testing.assert_array_equal(given.outputs["y_mid"], [np.nan, 2.5, 3.5])
    np.testing.assert_array_equal(given.outputs["y_mean"], [np.nan, 2.4, 3.4])
    np.testing.assert_array_equal(given.outputs["dy"].T[:2], [[np.nan, 20.0, 30.0], [np.nan] * 3])
    np.testing.assert_array_equal(given.inputs["realised"], [np.nan, 0.7])
    first.answers(1.0)
    second.answers(2.0, 3.0)
    assert not turn(exchange, 2).session["has_middle"][0]


def test_more_derivatives_than_a_polynomial_has_are_dropped():
    link = Scripted()
    exchange = make_exchange(link)
    turn(exchange, 0)
    link.answers(1.0, dy=np.arange(2.0, 9.0)[:, None])
    np.testing.assert_array_equal(turn(exchange, 1).outputs["dy"], [[2.0, 3.0, 4.0, 5.0, 6.0]])


def test_a_sample_of_the_wrong_size_is_refused_by_name():
    link = Scripted("vehicle", n_outputs=2)
    exchange = make_exchange(link)
    turn(exchange, 0)
    link.answers(1.0)
    with pytest.raises(SolverError, match=r"vehicle.*\(1,\) outputs arrived, 2 were announced"):
        turn(exchange, 1)


def test_what_arrives_before_the_tick_can_be_taken_before_it():
    link = Scripted()
    exchange = make_exchange(link)
    turn(exchange, 0)
    link.answers(5.0)
    exchange.send_on()
    assert not link.waiting
    assert not exchange.given.subsystems["late"][0]
    given = turn(exchange, 1)
    assert given.outputs["y"][0] == 5.0
    assert given.session["regular"][0]


def test_only_local_links_run_in_the_slack():
    local, remote = Scripted("local"), Scripted("remote", reader=99)
    exchange = make_exchange(local, remote)
    turn(exchange, 0)
    before = local.polls, remote.polls
    local.answers(3.0)
    exchange.run_local()
    assert (local.polls, remote.polls) == (before[0] + 1, before[1])
    remote.answers(4.0)
    np.testing.assert_array_equal(turn(exchange, 1).outputs["y"], [3.0, 4.0])


def never() -> bool:
    return False


async def test_as_fast_as_possible_all_are_waited_for():
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        quick, slow = Scripted("quick"), Scripted("slow", reader=here.fileno())
        exchange = make_exchange(quick, slow)
        turn(exchange, 0)
        quick.answers(1.0)
        waiting = asyncio.create_task(exchange.collect(1 * MS, 30.0, never))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        slow.answers(2.0)
        there.send(b"x")
        await waiting
        given = turn(exchange, 1)
        assert given.session["regular"][0]
        np.testing.assert_array_equal(given.outputs["y"], [1.0, 2.0])


async def test_an_answer_that_leads_beyond_the_tick_is_not_waited_for():
    slow = Scripted("slow")
    exchange = make_exchange(slow, every=[5])
    turn(exchange, 0)
    await exchange.collect(1 * MS, 0.0, never)  # returns at once: it is due at 5 ms
    assert not cut(exchange, 1).subsystems["late"][0]


async def test_a_silent_solver_is_lost_after_the_timeout():
    exchange = make_exchange(Scripted("good"), Scripted("vehicle"))
    turn(exchange, 0)
    exchange.links[0].answers(1.0)
    with pytest.raises(PeerLost, match=r"vehicle.*t = 0.001 s within 0.01 s.*step_timeout"):
        await exchange.collect(1 * MS, 0.01, never)
    assert [link.lost for link in exchange.links] == [0, 1]


async def test_a_request_to_stop_ends_the_wait():
    exchange = make_exchange(Scripted())
    turn(exchange, 0)
    await exchange.collect(1 * MS, 30.0, lambda: True)
    assert not exchange.answered(1 * MS)


@pytest.fixture
async def mistaken():
    """An exchange of one remote solver, whose answer to the first step has come with 4 bytes."""
    hub = Hub("test")
    link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    dealer = Dealer(hub)
    dealer.hello()
    await link.open()
    exchange = make_exchange(link, max_misses=1)
    turn(exchange, 0)
    dealer.send(wire.Advanced(tick=0, y=b"1234"))
    drain_until(hub, lambda: link.dropped)
    yield exchange
    dealer.close()
    hub.close()


WHY = r"s ago: Advanced: array of 4 bytes does not have the shape \(1,\)"


async def test_a_wait_without_end_tells_of_an_answer_that_was_dropped(mistaken):
    with pytest.raises(PeerLost, match=rf"within 0.01 s \(master.step_timeout\); .*{WHY}; see"):
        await mistaken.collect(1 * MS, 0.01, never)


async def test_too_many_misses_tell_of_an_answer_that_was_dropped(mistaken):
    mistaken.cut(1, 1 * MS, 1 * MS)
    with pytest.raises(PeerLost, match=rf"no sample for 2 ticks .*{WHY}$"):
        mistaken.cut(2, 2 * MS, 1 * MS)
