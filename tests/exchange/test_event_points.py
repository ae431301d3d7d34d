"""A discontinuity inside a step becomes a communication point for those that can still stop."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

import hilrt
from hilrt import RunOptions
from hilrt.exchange.repeated_steps import EventPoints
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.replay.replay_log import replay
from hilrt.session.observers import make_master
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver
from hilrt.step_log.signals import build_topics
from tests.stepping import Stepping, hosted
from tests.virtual_clock import VirtualClock

STEP = 0.01
JUMP = 0.0333
EPOCH = 5_000_000_000


class Relay(Solver):
    """Its output is 1 from `at` on, and every `again` later it is one more; it says when."""

    inputs: Sequence[Port] = ()
    outputs = (Port("y"),)
    tells_events = True

    def __init__(self, at: float = JUMP, again: float = math.inf) -> None:
        self.at, self.again, self.t = at, again, 0.0

    def level(self, t: float) -> float:
        return 0.0 if t < self.at else 1.0 + math.floor((t - self.at) / self.again + 1e-9)

    def initialize(self, t0, u0):
        return Sample(np.array([self.level(t0)]))

    def advance(self, t, h, u):
        self.t = t + h
        level, after = self.level(t), self.level(t + h)
        event = self.at + (level * self.again if level else 0.0)
        return Sample(np.array([after]), event_t=event if after > level else None)

    def save_state(self):
        return self.t

    def restore_state(self, state):
        self.t = state


class StubbornRelay(Relay):
    """Cannot go back."""

    def can_restore(self):
        return False


class Integral(Solver):
    """The integral of its input, exact for polynomials; and the input itself."""

    inputs = (Port("u"),)
    outputs = (Port("x"), Port("through", feedthrough=("u",)))

    def __init__(self) -> None:
        self.x = 0.0

    def initialize(self, t0, u0):
        return Sample(np.array([self.x, u0[0]]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        c = u.coefficients[:, 0]
        self.x += sum(a * h ** (m + 1) / math.factorial(m + 1) for m, a in enumerate(c))
        return Sample(np.array([self.x, u(t + h)[0]]))

    def save_state(self):
        return self.x

    def restore_state(self, state):
        self.x = state


class StubbornIntegral(Integral):
    """Cannot go back."""

    def can_restore(self):
        return False


class Rows(Feed):
    """Keeps the rows."""

    records = True

    def __init__(self, topics) -> None:
        super().__init__(topics)
        self.told: list[tuple[str, str]] = []
        self.names = [signal.name for topic in topics for signal in topic.signals]
        self.times: list[float] = []
        self.rows: list[Floats] = []

    def commit(self, t_ns):
        self.times.append(t_ns * 1e-9)
        self.rows.append(self.row.copy())

    def event(self, t_ns, level, cause, source, text, value=None):
        if "raised" in text:
            self.told.append((cause, source))

    def __getitem__(self, name):
        return np.array(self.rows)[:, self.names.index(name)]

    @property
    def t(self):
        return np.array(self.times)


def prepare(relay, others, clock=None, every=1, **master):
    """A master and its rows; the relay's output is the input of each of the others."""
    solvers = {"relay": relay} | {f"other{i}": other for i, other in enumerate(others)}
    s = Stepping(
        {name: hosted(name, solver) for name, solver in solvers.items()},
        master={"step": STEP, "extrapolation": {"order": 1}, **master},
        subsystems={name: {"every": 1 if name == "relay" else every} for name in solvers},
        connections=[{"from": "relay.y", "to": f"other{i}.u"} for i in range(len(others))],
    )
    rows, publisher = Rows(build_topics(s.numerics)), StatusPublisher(None, "test", 0.02)
    pace = s.as_fast_as_possible() if clock is None else s.real_time(clock)
    return make_master(s.assembled, pace, rows, publisher), rows


async def run(relay, *others, **options):
    """Rows, which subsystems stepped across a discontinuity, and the master."""
    master, rows = prepare(relay, others or [Integral()], **options)
    await master.run(100_000_000, EPOCH)
    across = [source for cause, source in rows.told if cause == "event_inside_step"]
    return rows, across, master


def event_points(master):
    """What moves the communication points of a master that runs as fast as possible, if it does."""
    found = [one for one in master.pace.between_steps if isinstance(one, EventPoints)]
    return found[0] if found else None


def exact(rows, at=JUMP):
    """The integral of a step at `at`."""
    return pytest.approx(np.maximum(rows.t - at, 0.0), abs=1e-9)


async def test_the_event_is_a_communication_point_and_the_grid_goes_on():
    rows, across, master = await run(Relay())
    points = [0.0, 0.01, 0.02, 0.03, JUMP, *(0.01 * k for k in range(4, 11))]
    assert rows.t == pytest.approx(points, abs=1e-9)
    assert rows["relay.y"] == pytest.approx([0.0] * 4 + [1.0] * 8)
    # What no extrapolation across the jump could give.
    assert rows["other0.x"] == exact(rows)
    assert not rows["other0.u:sent_d1"].any()
    assert not rows["other0.u:connection_defect"].any()
    assert across == []
    assert event_points(master).count == 1
    assert rows["cut:rest"][4] == pytest.approx(0.04 - JUMP)
    done = master.progress
    assert (done.steps, done.max_h) == (11, 10_000_000)
    assert done.min_h == pytest.approx(3_300_000, abs=1)


def samples_kept(master):
    """Samples in the history of every output."""
    numerics = master.numerics
    return dict(zip(numerics.network.outputs.names, numerics.state.outputs["count"], strict=True))


async def test_an_output_with_feedthrough_forgets_its_past_a_point_later():
    master, _ = prepare(Relay(), [Integral()])
    await master.run(45_000_000, EPOCH)
    count = samples_kept(master)
    # At 0.05: the relay has samples of the event, 0.04 and 0.05, of which two are kept; what is
    # fed through has those of 0.04 and 0.05, and the integral did not jump.
    assert count == {"relay.y": 2, "other0.x": 2, "other0.through": 2}
    master, _ = prepare(Relay(), [Integral()])
    await master.run(35_000_000, EPOCH)  # to 0.04
    count = samples_kept(master)
    assert count == {"relay.y": 2, "other0.x": 2, "other0.through": 1}


async def test_one_that_cannot_go_back_is_named_and_the_others_stop():
    rows, across, _ = await run(Relay(), Integral(), StubbornIntegral())
    assert rows["other0.x"] == exact(rows)
    known = np.isfinite(rows["other1.x"])
    assert np.flatnonzero(~known).tolist() == [4]  # it is under way at the event
    # It knows from the end of its step on.
    assert rows["other1.x"][known] == pytest.approx(np.maximum(rows.t[known] - 0.04, 0), abs=1e-9)
    assert across == ["other1"]


async def test_none_goes_back_if_the_one_that_jumps_cannot():
    rows, across, master = await run(StubbornRelay())
    assert event_points(master) is None
    assert rows.t == pytest.approx(STEP * np.arange(11))
    assert across == ["other0"]
    # Through both sides of the jump there would be a slope of 100/s.
    assert not rows["other0.u:sent_d1"].any()


async def test_in_real_time_there_is_only_the_flag():
    rows, across, _ = await run(Relay(), clock=VirtualClock(EPOCH))
    assert rows.t == pytest.approx(STEP * np.arange(11))
    assert across == ["other0"]


async def test_with_several_rates_there_is_only_the_flag():
    rows, across, master = await run(Relay(), every=2)
    assert event_points(master) is None
    assert rows.t == pytest.approx(STEP * np.arange(11))
    assert across == ["other0"]


async def test_a_variable_step_stops_there_too():
    control = {"method": "pi", "tolerance": 0.01, "initial": 0.004, "maximum": 0.01}
    rows, across, _ = await run(Relay(), step_control=control)
    assert np.isclose(rows.t, JUMP, atol=1e-9).sum() == 1
    assert rows["other0.x"] == pytest.approx(np.maximum(rows.t - JUMP, 0.0), abs=3e-9)
    assert across == []


@pytest.mark.parametrize("again", [0.002, 1e-5])
async def test_however_many_events_the_session_goes_on(again):
    rows, _, master = await run(Relay(again=again))
    assert rows.t[-1] == pytest.approx(0.1)
    assert np.diff(rows.t).min() > 0.0099 * STEP
    assert event_points(master).count > 20
    jumps = JUMP + again * np.arange(10000)
    wanted = [np.maximum(t - jumps, 0.0).sum() for t in rows.t]
    # Points are whole nanoseconds, and at least 1 % of the step apart.
    within = max(1e-9, 0.01 * STEP if again < 0.01 * STEP else 0.0) * rows["relay.y"].max()
    assert rows["other0.x"] == pytest.approx(wanted, abs=within)


async def test_an_event_close_to_the_grid_makes_the_next_step_longer():
    rows, across, _ = await run(Relay(at=0.03999))
    assert np.diff(rows.t).max() == pytest.approx(STEP + 1e-5)
    assert rows["other0.x"] == exact(rows, 0.03999)
    assert across == []


async def test_an_event_close_to_the_grid_waits_for_one_that_cannot_go_back():
    rows, across, _ = await run(Relay(at=0.03999), Integral(), StubbornIntegral())
    assert rows.t == pytest.approx(STEP * np.arange(11))
    assert across == ["other0", "other1"]


async def test_an_event_close_after_a_point_is_met_a_little_late():
    rows, _, _ = await run(Relay(at=0.030001))
    assert np.isclose(rows.t, 0.03 + 0.01 * STEP, atol=1e-9).sum() == 1


def test_a_session_with_an_event_replays_bit_by_bit(tmp_path):
    text = f"""
[session]
name = "events"
duration = 0.1
pace = "asap"
[master]
step = {STEP}
"""
    for name, model in (("relay", "Relay"), ("a", "Integral"), ("b", "StubbornIntegral")):
        text += f"""
[subsystems.{name}]
adapter = "inprocess"
model = "tests.exchange.test_event_points:{model}"
"""
    for name in "ab":
        text += f"""
[[connections]]
from = "relay.y"
to = "{name}.u"
"""
    file = tmp_path / "session.toml"
    file.write_text(text)
    result = hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=tmp_path))
    assert not result.fault, result.fault
    assert result.summary["flags"]["event_inside_step"]["count"] == 1
    outcome = replay(result.folder)
    assert outcome.identical
    assert outcome.exact
    assert outcome.steps == 12
