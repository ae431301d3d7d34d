"""How samples become `StepInput`, against a plain model of the rules, over random arrivals."""

from __future__ import annotations

import functools
import math
from collections import deque
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.errors import PeerLost
from hilrt.exchange.channel_table import update_channels
from hilrt.exchange.exchange import Exchange
from hilrt.link import Link, Ports
from hilrt.peers.remote_link import RemoteLink
from hilrt.solver import Port, Sample
from hilrt.step.numerics import Numerics
from hilrt.tables.given import StepInput, empty_input
from hilrt.tables.record import COEFFICIENTS, cloned, copy_tables
from tests.stepping import make_numerics

MS = 1_000_000
GRID_NS = 2 * MS
BENCHES = 0, 1
#: Name, outputs, a bench, in another process, catches up.
SUBSYSTEMS = (
    ("bench", 2, True, True, False),
    ("meter", 2, True, False, False),
    ("solver", 1, False, False, False),
    ("remote", 2, False, True, False),
    ("follower", 1, False, True, True),
)


class Arrived(NamedTuple):
    """A sample, and what is known about its way; times in s."""

    sample: Sample
    t_arrived: float
    uncertainty: float | None  # of the sender's clock; None if it has none


class Plain:
    """The rules, without a thought of speed.

    Intervals that a solver owes an answer for (`busy`, `answer_ns`, `pending_end_ns`) are made on
    the way out, which is not modelled: they are copied from the exchange.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.channels = exchange.channels.copy()
        self.given = empty_input(len(SUBSYSTEMS), 8, len(SUBSYSTEMS))
        self.outputs, self.inputs = exchange.network.outputs.slices, exchange.network.inputs.slices
        self.waiting: list[list[Arrived]] = [[] for _ in SUBSYSTEMS]
        self.restarting = [False] * len(SUBSYSTEMS)
        self.ended: dict[str, str] = {}
        self.answers: list[tuple[int, float]] = []
        self.new_interval, self.taken = False, len(SUBSYSTEMS)
        self.given.outputs["fresh"] = 1  # the initialized values, which are 0

    def owe(self, exchange: Exchange) -> None:
        """Copy what the subsystems have yet to answer."""
        for name in ("busy", "answer_ns", "pending_end_ns"):
            self.channels[name] = exchange.channels[name]

    def restart(self, s: int) -> None:
        self.waiting[s].clear()
        self.restarting[s] = True

    def go_back(self, s: int) -> None:
        self.waiting[s].clear()

    def first_event(self) -> float | None:
        """Of the answers that wait, of subsystems that can go back: the one called "solver"."""
        return min(
            (a.sample.event_t for a in self.waiting[2] if a.sample.event_t is not None),
            default=None,
        )

    def fold(self, t_ns: int) -> None:
        """Take all that waits and is valid by `t_ns`, in the order in which it arrived."""
        given = self.given
        if self.new_interval:
            given.outputs["fresh"] = 0
            given.subsystems["event"] = given.subsystems["rejoined"] = 0
            given.session["has_middle"] = 0
            self.new_interval = False
        for s, arrivals in enumerate(self.waiting):
            if arrivals and s in BENCHES:
                for arrived in arrivals:
                    self._measured(s, arrived)
            elif arrivals and self.channels["answer_ns"][s] <= t_ns:
                for arrived in arrivals:
                    self._answered(s, arrived)
            else:
                continue
            self.taken += len(arrivals)
            arrivals.clear()

    def _measured(self, s: int, arrived: Arrived) -> None:
        sample, t_arrived = arrived.sample, arrived.t_arrived
        uncertainty = 0.0 if arrived.uncertainty is None else arrived.uncertainty
        t_valid = np.full(len(sample.y), t_arrived) if sample.t_valid is None else sample.t_valid
        newest = ahead = t_arrived
        if sample.t_valid is not None and len(t_valid):
            known = [t for t in t_valid if not math.isnan(t)]
            newest = ahead = max([float(self.channels["newest"][s]), *known])
        ahead -= t_arrived
        error = uncertainty
        if ahead > 0.0 and (math.isnan(uncertainty) or ahead > uncertainty):
            newest = t_arrived
            t_valid = np.array([min(t, t_arrived) if t == t else t for t in t_valid])
            error = math.nan if math.isnan(uncertainty) else ahead
        if arrived.uncertainty is not None or error > 0.0:
            self.given.subsystems["clock_error"][s] = error
        self.channels["newest"][s] = newest
        self._enter(s, sample, t_valid)

    def _answered(self, s: int, arrived: Arrived) -> None:
        channels, subsystems = self.channels, self.given.subsystems
        sample, end = arrived.sample, float(channels["answer_ns"][s]) / 1e9
        subsystems["reached"][s] = end
        subsystems["covered"][s] = end - channels["newest"][s]
        channels["newest"][s], channels["busy"][s] = end, 0
        t_valid = np.full(len(sample.y), end) if sample.t_valid is None else sample.t_valid
        self._enter(s, sample, t_valid)
        if sample.ended:
            self.ended[SUBSYSTEMS[s][0]] = sample.ended
        if self.restarting[s]:
            self.restarting[s] = False
            subsystems["rejoined"][s] = subsystems["event"][s] = 1
            channels["rejoined"][s] += 1
        elif SUBSYSTEMS[s][3]:
            self.answers.append((s, sample.compute_us))

    def _enter(self, s: int, sample: Sample, t_valid: np.ndarray) -> None:
        outputs = self.given.outputs[self.outputs[s]]
        self.channels["compute_us"][s] = sample.compute_us
        for i, t in enumerate(t_valid):
            if not math.isnan(t):
                outputs["y"][i], outputs["t_valid"][i], outputs["fresh"][i] = sample.y[i], t, 1
        if sample.y_mid is not None or sample.y_mean is not None:
            if not self.given.session["has_middle"][0]:
                self.given.outputs["y_mid"] = self.given.outputs["y_mean"] = np.nan
                self.given.session["has_middle"] = 1
            outputs["y_mid"] = np.nan if sample.y_mid is None else sample.y_mid
            outputs["y_mean"] = np.nan if sample.y_mean is None else sample.y_mean
        if sample.dy is not None:
            for m, derivative in enumerate(sample.dy[: COEFFICIENTS - 1]):
                outputs["dy"][:, m] = derivative
        if sample.realised is not None:
            self.given.inputs["realised"][self.inputs[s]] = sample.realised
        if sample.event_t is not None:
            self.given.subsystems["event"][s] = 1

    def cut(self, tick: int, t_ns: int, elapsed_ns: int, rest_ns: int) -> int:
        """The communication point; the number of a subsystem that counts as lost, or -1."""
        self.fold(t_ns)
        self.new_interval = True
        cut, session = self.given.subsystems, self.given.session
        elapsed = elapsed_ns / 1e9
        regular, lost = update_channels(self.channels, cut, tick, t_ns, elapsed)
        session["tick"], session["t"], session["elapsed"] = tick, t_ns / 1e9, elapsed
        session["rest"], session["regular"] = rest_ns / 1e9, regular
        return int(lost)


class FakeHub:
    """What the exchange needs of a hub: nothing arrives by itself."""

    epoch_ns = 0

    def __init__(self) -> None:
        self.changed: dict[Link, None] = {}
        self.reporting: dict[Link, None] = {}

    def why_dropped(self, name: str) -> str:
        return ""

    def flush(self) -> None:
        pass

    def clock(self) -> int:
        return 0

    def session_time(self) -> float:
        return 0.0

    def receive(self, until_ns: int) -> int:
        return 0

    def watch_again(self) -> None:
        pass

    def drain(self) -> None:
        pass

    def upkeep(self, until_ns: int) -> None:
        pass

    def fileno(self) -> int:
        return -1


class _Scripted:
    """Puts in what has arrived."""

    def set_up(self, name: str, outputs: int, physical: bool) -> None:
        self.name, self.physical = name, physical
        self.inputs = (Port("u"),)
        self.outputs = tuple(Port(f"y{i}") for i in range(outputs))
        self.gone = ""

    async def open(self) -> None:
        raise NotImplementedError

    async def initialize(self, t0, u0):
        raise NotImplementedError

    def dispatch(self, tick, t, h, coefficients):
        pass

    def receive(self):
        if self.gone:
            raise PeerLost(self.name, self.gone)


class Local(_Scripted, Link):
    """In this process: puts its samples in when it is asked."""

    def __init__(self, name, outputs, physical):
        self.rewinds = self
        self.set_up(name, outputs, physical)
        self.waiting: list[Arrived] = []

    def receive(self):
        super().receive()
        for arrived in self.waiting:
            self.inbox.put(arrived.sample, arrived.t_arrived)
        self.waiting.clear()

    def keep_states(self):
        pass

    def go_back(self, tick, h):
        pass

    def arrive(self, arrived: Arrived) -> None:
        self.waiting.append(arrived)

    def lose(self) -> None:
        self.gone = "it is gone"


class Remote(_Scripted, RemoteLink):
    """Behind a hub: puts its samples in when the hub receives them."""

    initialized = step = None
    returned = False

    def __init__(self, name, outputs, physical, hub):
        self.set_up(name, outputs, physical)
        self.hub = self.carrier = hub
        self.returns, self.events = self, deque()
        self.peer = SimpleNamespace(clock=SimpleNamespace(uncertainty=0.0))

    def arrive(self, arrived: Arrived) -> None:
        way = {"round_trip_us": 3.0, "way_us": 1.0}
        if self.physical:
            way = {"uncertainty": arrived.uncertainty}
        self.inbox.put(arrived.sample, arrived.t_arrived, **way)

    def come_back(self) -> None:
        self.returned = True
        self.hub.changed[self] = None

    def initialize_again(self, t0, u0):
        self.returned = False

    def lose(self) -> None:
        self.gone = "it is gone"
        self.hub.changed[self] = None


@functools.cache
def numerics_of(every: int) -> tuple[Numerics, StepInput]:
    """Numerics of the subsystems, of which one has longer steps, and what they are given first."""
    inputs = (Port("u"),)
    ports = {
        name: Ports(inputs, tuple(Port(f"y{i}") for i in range(n))) for name, n, *_ in SUBSYSTEMS
    }
    steps = {name: {"every": every if name == "remote" else 1} for name in ports}
    numerics = make_numerics(ports, subsystems=steps)
    numerics.plan.session["coefficients"] = 2
    return numerics, cloned(numerics.given)


class Rig:
    """The exchange and the plain model, at the same communication points."""

    def __init__(self, every: int = 1, *, asap: bool = False) -> None:
        hub = FakeHub()
        self.links = [
            Remote(name, outputs, physical, hub) if remote else Local(name, outputs, physical)
            for name, outputs, physical, remote, _ in SUBSYSTEMS
        ]
        numerics, start = numerics_of(every)
        copy_tables(start, numerics.given)
        catch_up = [one[-1] for one in SUBSYSTEMS]
        self.exchange = Exchange(numerics, self.links, GRID_NS * 1e-9, [4] * 5, catch_up)
        self.exchange.start([Sample(np.zeros(len(link.outputs))) for link in self.links])
        self.plain = Plain(self.exchange)
        self.tick = self.t_ns = self.elapsed_ns = self.before_ns = 0
        self.every, self.asap = every, asap
        self.set_uncertainty(0.0)

    def set_uncertainty(self, uncertainty: float) -> None:
        """Of the clock of the bench in another process; between two communication points."""
        self.uncertainty = self.links[0].peer.clock.uncertainty = uncertainty

    def arrive(self, s: int, sample: Sample, share: float) -> None:
        """At a share of the interval; a solver answers only what it was asked, and once."""
        owes = self.exchange.channels["busy"][s] and not self.plain.waiting[s]
        if s not in BENCHES and not owes:
            return
        t = (self.before_ns + share * (self.t_ns - self.before_ns)) / 1e9
        if sample.t_valid is not None:
            sample.t_valid = sample.t_valid + t
        own = Sample(**{key: getattr(sample, key) for key in sample.__slots__})
        arrived = Arrived(sample, t, self.uncertainty if s == 0 else None)
        self.plain.waiting[s].append(arrived)
        self.links[s].arrive(arrived._replace(sample=own))

    def act(self, kind: str, s: int) -> None:
        exchange, plain = self.exchange, self.plain
        if kind in ("event", "return") and not self.asap:
            return  # discontinuities, and waiting for those that return
        if kind == "look" and not self.asap:
            exchange.receive_early(0, first=bool(s % 2))
        elif kind == "run":
            exchange.run_local()
        elif kind == "send_on" and not self.asap:
            exchange.send_on()
            plain.fold(self.before_ns + GRID_NS)
        elif kind in ("return", "return later") and s in (3, 4):
            exchange.answered(self.t_ns)
            self.links[s].come_back()
            if kind == "return":  # as fast as possible
                exchange.answered(self.t_ns)
                self.upkeep()
        elif kind == "event" and self.every == 1 and self.t_ns - self.before_ns == GRID_NS:
            exchange.answered(self.t_ns)
            assert exchange.reported_event() == plain.first_event()
            if plain.first_event() is not None:
                self.t_ns = self.before_ns + MS
                exchange.send_back(self.t_ns)
                plain.go_back(2)
        plain.owe(exchange)

    def upkeep(self) -> None:
        """The slack: solvers that came back, and that a look has found, begin anew."""
        for s in (3, 4):
            if self.links[s].returned:
                self.plain.restart(s)
        self.exchange.upkeep()

    def cut(self) -> list[tuple[str, Any, Any]] | None:
        """Cut, dispatch and slack at the communication point; None if a subsystem is lost.

        After the cut, `differences`.
        """
        exchange, plain = self.exchange, self.plain
        elapsed_ns = self.t_ns - self.before_ns
        lost = plain.cut(self.tick, self.t_ns, elapsed_ns, 0)
        if lost >= 0:
            with pytest.raises(PeerLost, match=SUBSYSTEMS[lost][0]):
                exchange.cut(self.tick, self.t_ns, elapsed_ns)
            return None
        exchange.cut(self.tick, self.t_ns, elapsed_ns)
        differences = self.differences()
        given, state = exchange.given.subsystems, exchange.numerics.state.subsystems
        state["dispatch"] = given["due"] & (1 - given["busy"])
        exchange.dispatch(self.t_ns, GRID_NS)
        self.upkeep()
        plain.owe(exchange)
        self.tick, self.before_ns, self.t_ns = self.tick + 1, self.t_ns, self.t_ns + GRID_NS
        return differences

    def differences(self) -> list[tuple[str, Any, Any]]:
        """Names of all that the plain model has otherwise, with both values.

        Of the fields of a sample, those that are not fresh are what they were.
        """
        exchange, plain = self.exchange, self.plain
        tables = [*zip(exchange.given[:4], plain.given[:4], strict=True)]
        arrays = [(name, own[name], of[name]) for own, of in tables for name in own.dtype.names]
        for name in ("newest", "age", "compute_us", "busy", "misses", "late", "rejoined"):
            arrays.append((name, exchange.channels[name], plain.channels[name]))
        others = [("taken", exchange.taken, plain.taken), ("ended", exchange.ended, plain.ended)]
        for s in range(len(SUBSYSTEMS)):
            answers = [us for number, us in plain.answers if number == s]
            compute = exchange.times_of(s).compute
            most_ns = max((round(us * 1e3) for us in answers), default=0)
            others.append(("compute", (compute.n, compute.max_ns), (len(answers), most_ns)))
        return [
            *(
                (name, own.copy(), of.copy())
                for name, own, of in arrays
                if not np.array_equal(own, of, equal_nan=True)
            ),
            *(one for one in others if one[1] != one[2]),
        ]


def values(n: int) -> st.SearchStrategy[np.ndarray]:
    """Of `n` outputs or inputs."""
    number = st.sampled_from([0.0, 1.0, -2.5, math.nan])
    return st.lists(number, min_size=n, max_size=n).map(np.array)


@st.composite
def samples(draw: st.DrawFn, s: int) -> Sample:
    n = SUBSYSTEMS[s][1]
    offset = st.sampled_from([math.nan, -3e-3, -1e-4, 0.0, 4e-5, 8e-4])  # from its arrival, s
    ended = draw(st.sampled_from(["", "", "", "it is over"])) if s not in BENCHES else ""
    return Sample(
        y=draw(values(n)),
        t_valid=draw(st.none() | st.lists(offset, min_size=n, max_size=n).map(np.array)),
        dy=draw(st.none() | st.integers(0, 7).flatmap(lambda m: values(m * n))),
        y_mid=draw(st.none() | values(n)),
        y_mean=draw(st.none() | values(n)),
        event_t=draw(st.sampled_from([None, None, 1e-3, 2e-3])) if s not in BENCHES else None,
        realised=draw(st.none() | values(1)),
        compute_us=draw(st.sampled_from([0.0, 5.0, 700.0])),
        ended=ended,
    )


@st.composite
def intervals(draw: st.DrawFn) -> list[tuple[object, ...]]:
    """What happens between two communication points, and the clock's uncertainty in it."""
    kinds = st.sampled_from(["look", "run", "send_on", "event", "return", "return later"])
    happened: list[tuple[object, ...]] = [("clock", draw(st.sampled_from([0.0, 5e-5, math.nan])))]
    shares = sorted(draw(st.lists(st.floats(0.0, 1.0), max_size=8)))
    for share in shares:
        s = draw(st.integers(0, 4))
        if draw(st.integers(0, 3)):
            sample = draw(samples(s))
            if sample.dy is not None:
                sample.dy = sample.dy.reshape(-1, SUBSYSTEMS[s][1])
            happened.append(("arrive", s, sample, share))
        else:
            happened.append((draw(kinds), s))
    return happened


@settings(max_examples=150)
@given(st.lists(intervals(), min_size=1, max_size=6), st.sampled_from([1, 2]), st.booleans())
def test_samples_are_folded_by_the_plain_rules(session, every, asap):
    """Late and early samples, looks at any time, steps that are longer, events, returns, losses."""
    rig = Rig(every, asap=asap)
    assert rig.cut() == []
    for interval in session:
        for kind, *what in interval:
            if kind == "clock":
                rig.set_uncertainty(*what)
            elif kind == "arrive":
                rig.arrive(*what)
            else:
                rig.act(kind, *what)
        if (differences := rig.cut()) is None:
            return
        assert differences == []


@given(st.integers(0, 4), st.booleans(), samples(0))
def test_a_loss_is_raised_by_the_next_look_with_the_subsystems_name(s, early, sample):
    """Whatever else has arrived."""
    rig = Rig()
    assert rig.cut() == []
    rig.arrive(0 if s else 1, Sample(sample.y), 0.5)
    rig.links[s].lose()
    early_look = functools.partial(rig.exchange.receive_early, 0, first=True)
    look = early_look if early else functools.partial(rig.exchange.cut, 1, rig.t_ns, GRID_NS)
    with pytest.raises(PeerLost) as lost:
        look()
    assert lost.value.name == SUBSYSTEMS[s][0]
