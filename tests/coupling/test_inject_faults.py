"""Faults against numpy: what each kind makes of a signal, where it acts, and what it does not."""

import numpy as np
import pytest

from hilrt.coupling.inject_faults import alter, follow
from hilrt.coupling.stimulate import normal, uniform
from hilrt.errors import ConfigError
from hilrt.solver import Port
from hilrt.tables.record import cloned, copy_tables
from tests.stepping import MemoryLink, Recorded, Stepping
from tests.stimulated import stimulated

H, BEGIN, END = 0.1, 5, 12
T = np.arange(21) * H
Y = np.sin(3.0 * T) + 2.0
PLACES = [{"output": "source.y"}, {"connection": "source.y -> sink.u"}, {"input": "sink.u"}]


def course(t):
    return np.sin(3.0 * t) + 2.0


def random_numbers(seed, ticks):
    with np.errstate(over="ignore"):  # interpreted
        return np.array([normal(seed, k) for k in ticks])


def shares(seed, ticks):
    with np.errstate(over="ignore"):
        return np.array([uniform(seed, k) for k in ticks])


def newest(arrived):
    """Index of the newest value that has arrived, from the first on, shape as `arrived`."""
    return np.maximum.accumulate(np.where(arrived, np.arange(len(arrived)), 0))


def again(twice):
    """1 where the value before arrives once more; there is none before the first one."""
    return np.concatenate(([0], twice[1:].astype(int)))


def underway(x, delays):
    """Values of `x` that have come through at each point, the newest one that was sent."""
    t = np.arange(len(x)) * H
    there = (t + delays)[None, :] <= t[:, None] + 1e-9
    return x[[np.flatnonzero(row).max(initial=0) for row in there]]


def by_numpy(kind, value, y=Y):
    """The signal with a fault from `BEGIN` to `END`."""
    made, on = y.copy(), slice(BEGIN, END)
    n = END - BEGIN
    made[on] = {
        "constant": lambda x: np.full(n, value),
        "stuck": lambda x: np.full(n, x[0]),
        "offset": lambda x: x + value,
        "gain": lambda x: x * value,
        "noise": lambda x: x + value * random_numbers(3, range(BEGIN, END)),
        "drift": lambda x: x + value * (T[on] - T[BEGIN]),
        "quantise": lambda x: np.round(x / value) * value,
        "delay": lambda x: underway(x, np.full(n, value)),
        "jitter": lambda x: underway(x, value * shares(3, range(BEGIN, END))),
        "loss": lambda x: x[newest(shares(3, range(BEGIN, END)) >= value)],
        "duplicate": lambda x: x[np.arange(n) - again(shares(3, range(BEGIN, END)) < value)],
    }[kind](y[on])
    return made


def faulted(*faults, order=0, **tables):
    times = {"start": BEGIN * H, "end": END * H}
    filled = [{"name": f"f{k}", **times, **one} for k, one in enumerate(faults)]
    return stimulated(order=order, h=H, y=course, faults=filled, **tables)


def sent(session, index=0):
    return np.array(session.run(2.0, lambda s: s.state.inputs["polynomial"][index][:2].copy()))


KINDS = {
    "constant": 7.5,
    "stuck": None,
    "offset": -0.5,
    "gain": -3.0,
    "noise": 0.2,
    "drift": 4.0,
    "quantise": 0.25,
    "delay": 3 * H,
    "jitter": 4 * H,
    "loss": 0.5,
    "duplicate": 0.5,
}
CUT_OFF = dict.fromkeys(("constant", "stuck", "delay", "jitter", "loss", "duplicate"), 0.0)


@pytest.mark.parametrize("place", PLACES, ids=["output", "connection", "input"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_does_what_numpy_does(kind, place):
    amount = {} if KINDS[kind] is None else {"value": KINDS[kind]}
    session = faulted({"kind": kind, "seed": 3, **place, **amount})
    seen = session.run(
        2.0,
        lambda s: (
            s.state.inputs["polynomial"][0][0],
            s.state.outputs["newest"][0],
            s.state.inputs["defect"][0],
        ),
    )
    values, newest, defects = np.array(seen).T
    expected = by_numpy(kind, KINDS[kind])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
    if "output" in place:
        np.testing.assert_allclose(newest[1:], expected[1:], rtol=0, atol=1e-12)
    else:
        np.testing.assert_allclose(newest[1:], Y[1:], rtol=0, atol=1e-14)
    # What is demanded is no error: the defect is that of a held value, as far as it acts
    kept = {**CUT_OFF, "gain": 3.0}.get(kind, 1.0)
    factor = np.ones(21)
    factor[BEGIN + 1 : END + 1] = kept
    plain = faulted().run(2.0, lambda s: s.state.inputs["defect"][0])
    np.testing.assert_allclose(defects[1:], np.array(plain)[1:] * factor[1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_disturbances_count_against_what_was_demanded(kind):
    """Of a source on a parabola nothing but extrapolation is wrong, faults or not."""
    amount = {} if KINDS[kind] is None else {"value": KINDS[kind]}

    def disturbances(*faults):
        session = faulted(*faults, order=1)
        return np.array(session.run(2.0, lambda s: s.state.inputs["disturbance"][0]))

    plain, found = disturbances(), disturbances({"kind": kind, "output": "source.y", **amount})
    kept = {**CUT_OFF, "gain": 3.0}.get(kind, 1.0)
    inside = slice(BEGIN + 5, END)  # the curvature is measured anew after a gain has changed
    np.testing.assert_allclose(found[inside], kept * plain[inside], rtol=1e-9, atol=1e-12)


def test_faults_at_one_place_follow_one_another():
    session = faulted(
        {"kind": "offset", "value": 1.0, "output": "source.y"},
        {"kind": "gain", "value": 2.0, "output": "source.y"},
        {"kind": "offset", "value": 10.0, "connection": "source.y -> sink.u"},
        {"kind": "gain", "value": -1.0, "input": "sink.u"},
        {"kind": "quantise", "value": 0.5, "input": "sink.u"},
    )
    expected = Y.copy()
    on = slice(BEGIN, END)
    expected[on] = np.round(-((Y[on] + 1.0) * 2.0 + 10.0) / 0.5) * 0.5
    np.testing.assert_allclose(sent(session)[:, 0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["delay", "jitter", "loss", "duplicate"])
def test_outputs_of_a_peer_come_in_one_message(kind):
    """What is lost, late or twice there is so for all: the same numbers as of each by itself."""

    def both(*faults):
        links = {
            "source": Recorded({"y": course, "z": lambda t: -2.0 * course(t)}),
            "sink": MemoryLink("sink", Recorded({"w": lambda t: 0.0}, [Port("u"), Port("v")])),
        }
        session = Stepping(
            links,
            master={"step": H, "extrapolation": {"order": 0}},
            connections=[
                {"from": "source.y", "to": "sink.u"},
                {"from": "source.z", "to": "sink.v"},
            ],
            faults=[
                {"name": f"f{k}", "kind": kind, "seed": 3, "value": KINDS[kind], **one}
                for k, one in enumerate(faults)
            ],
        )
        found = session.run(2.0, lambda s: s.state.inputs["polynomial"][:2, 0].copy())
        return np.array(found).T

    times = {"start": BEGIN * H, "end": END * H}
    y, z = both({"peer": "source", **times})
    np.testing.assert_allclose(y, by_numpy(kind, KINDS[kind]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(z, -2.0 * y, rtol=0, atol=1e-12)


def test_limits_act_after_faults():
    session = faulted(
        {"kind": "constant", "value": 50.0, "input": "sink.u"},
        bounds={"max": 4.0, "max_rate": 8.0},
    )
    values = sent(session)[:, 0]
    expected = Y.copy()
    expected[BEGIN:END] = np.minimum(Y[BEGIN - 1] + 0.8 * np.arange(1, END - BEGIN + 1), 4.0)
    for k in range(END, len(Y)):  # and back at the same rate
        expected[k] = max(Y[k], expected[k - 1] - 0.8)
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_alarms_see_what_the_sensor_says():
    session = faulted(
        {"kind": "constant", "value": 9.0, "output": "source.y"},
        alarms=[{"signal": "source.y", "max": 5.0}],
    )
    active = session.run(2.0, lambda s: int(s.state.alarms["active"][0]))
    assert active == [int(BEGIN <= k < END) for k in range(21)]


def test_a_value_out_of_range_is_withheld_as_a_measured_one():
    """A fault does not get past what a bench's range decides: the last value before is held."""
    links = {
        "source": Recorded({"y": course}),
        "sink": MemoryLink("sink", Recorded({"z": lambda t: 0.0}, [Port("u")])),
    }
    links["source"].outputs = (Port("y", min=0.0, max=5.0),)
    session = Stepping(
        links,
        master={"step": H, "extrapolation": {"order": 0}},
        subsystems={"source": {"out_of_range": "hold"}, "sink": {}},
        connections=[{"from": "source.y", "to": "sink.u"}],
        faults=[
            {
                "name": "f",
                "kind": "constant",
                "value": 9.0,
                "output": "source.y",
                "start": BEGIN * H,
                "end": END * H,
            }
        ],
    )
    expected = Y.copy()
    expected[BEGIN:END] = Y[BEGIN - 1]
    np.testing.assert_allclose(sent(session)[:, 0], expected, rtol=0, atol=1e-12)


def test_a_stuck_sensor_that_has_no_number_is_a_number_once_it_is_replaced():
    session = faulted({"kind": "constant", "value": 1.0, "output": "source.y"})
    session.links["source"].solver.functions = [
        lambda t: course(t) if t < (END - 3.5) * H else np.nan
    ]
    values = sent(session)[:, 0]
    np.testing.assert_allclose(values[BEGIN:END], 1.0)
    np.testing.assert_allclose(values[END + 1 :], values[END + 1])


def test_conditions_begin_and_end_it_by_the_samples_of_the_step_before():
    session = stimulated(
        order=0,
        h=H,
        y=lambda t: t,
        faults=[
            {
                "name": "f",
                "kind": "constant",
                "value": -1.0,
                "input": "sink.u",
                "start_when": "source.y > 0.55",
                "end_when": "source.y > 1.05",
            }
        ],
    )
    values = sent(session)[:, 0]
    expected = T.copy()
    expected[7:12] = -1.0  # true from tick 6 and 11 on
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_an_operator_begins_and_ends_it_whatever_its_times_say():
    session = faulted({"kind": "constant", "value": -1.0, "input": "sink.u"})
    changes = session.numerics.changes
    asked = {2: 1.0, 4: 0.0, 8: float("nan"), 14: 1.0}

    def probe(s):
        if s.tick + 1 in asked:
            changes.add("faults.f0", asked[s.tick + 1])
        changes.put_into(s.given)
        return s.state.inputs["polynomial"][0][0] == -1.0

    acted = session.run(2.0, probe)
    assert acted == [k in {2, 3} or 8 <= k < END or k >= 14 for k in range(21)]


def test_a_snapshot_goes_on_with_the_faults_it_was_taken_in():
    faults = [
        {"kind": "stuck", "output": "source.y"},
        {"kind": "noise", "value": 0.5, "input": "sink.u"},
        {"kind": "drift", "value": 0.5, "connection": "source.y -> sink.u"},
    ]
    whole, part = faulted(*faults, order=1), faulted(*faults, order=1)
    expected = sent(whole)
    kept = []
    part.run(0.7, lambda s: kept.append(cloned(s.state)))
    copy_tables(kept[-1], part.state)
    part.go()
    np.testing.assert_array_equal(sent(part)[:, 0], expected[8:, 0])


@pytest.mark.parametrize("place", PLACES, ids=["output", "connection", "input"])
def test_benches_allow_faults_by_name(place):
    fault = {"kind": "offset", "value": 1.0, **place}
    with pytest.raises(ConfigError, match=r"faults.f0.*'sink'.*allow_faults = \[\"f0\"\]"):
        faulted(fault, physical=True)
    allowed = {"source": {}, "sink": {"allow_faults": ["f0"]}}
    values = sent(faulted(fault, physical=True, subsystems=allowed))[:, 0]
    np.testing.assert_allclose(values, by_numpy("offset", 1.0), atol=1e-12)


def test_steps_shorter_than_the_masters_thin_out_what_is_delayed():
    """2,000 steps within a delay, of which the ring holds 100: the signal still comes later."""
    session = faulted({"kind": "delay", "value": 3 * H, "output": "source.y", "start": 0.0})
    plan, state = session.plan, session.state
    state.faults["active"], late = 1, []
    t = np.linspace(0.0, 6 * H, 4001)
    for x in t:
        follow(plan, state, 0, 1.0, 0.0, 0.0)
        alter(plan, state, 0, course(x), x, 0)
        late.append(state.alterations["added"][0])
    expected = course(np.maximum(t - 3 * H, 0.0))
    np.testing.assert_allclose(late, expected, atol=3.0 * 3 * H * 0.02)  # slope, 1/50 of the delay
    assert 190 < state.alterations["sent"][0] < 210


@pytest.mark.parametrize("kind", ["delay", "jitter"])
def test_a_delay_of_nothing_changes_nothing(kind):
    """A replay with other settings may ask for it."""
    late = faulted({"kind": kind, "value": 0.0, "output": "source.y"})
    np.testing.assert_array_equal(sent(late)[:, 0], sent(faulted())[:, 0])


def test_a_delay_is_not_longer_than_a_table():
    with pytest.raises(ConfigError, match=r"faults.f0.*delays by 10,001 steps"):
        faulted({"kind": "delay", "value": 10_000.5 * H, "output": "source.y"})


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"output": "source.z"},
        {"input": "sink.y"},
        {"connection": "sink.z -> sink.u"},
        {"peer": "sauce"},
    ],
)
def test_a_fault_is_somewhere(place):
    with pytest.raises(ConfigError, match=r"faults.f0"):
        faulted({"kind": "stuck", **place})
