"""Stimuli: their shapes against outside references, and that they are demanded, no error."""

import numpy as np
import pytest
from scipy.signal import chirp, max_len_seq
from scipy.stats import kstest

from hilrt.config.structs import SubsystemOptions
from hilrt.coupling.build_model import Jacobians
from hilrt.coupling.correct_outputs import build_feedthrough
from hilrt.coupling.stimulate import normal, uniform
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.step.changes import Changes
from hilrt.step.fill_stimuli import maximum_length_sequence
from hilrt.step.source_changes import present_sources, source_changes
from hilrt.tables.network import build_network
from tests.stepping import MemoryLink, Recorded, Stepping, make_session
from tests.stimulated import sent, stimulated, values

H = 1e-3
SINE = {"shape": "sine", "amplitude": 2.0, "frequency": 3.0, "duration": 10.0}


# -- shapes --------------------------------------------------------------------------------------


def test_segments_follow_each_other():
    found = values(
        [
            {"shape": "hold", "duration": 0.2},
            {"shape": "step", "to": 1.0, "duration": 0.3},
            {"shape": "ramp", "to": 5.0, "rate": 10.0},
            {"shape": "hold", "duration": 0.1},
            {"shape": "ramp", "from": 4.0, "to": 0.0, "duration": 0.2},
        ],
        0.1,
        1.3,
    )
    np.testing.assert_allclose(found, [0, 0, 1, 1, 1, 1, 2, 3, 4, 5, 4, 2, 0, 0], atol=1e-12)


def test_a_sine_has_its_phase_and_goes_on_about_where_the_segment_before_ended():
    t = np.arange(0.0, 1.0 + H / 2, H)
    sine = {**SINE, "phase": 30.0, "duration": 2.0}
    found = values([{"shape": "step", "to": 7.0, "duration": 0.1}, sine], H, 1.0)
    expected = 7.0 + 2.0 * np.sin(2 * np.pi * 3.0 * (t - 0.1) + np.pi / 6)
    np.testing.assert_allclose(found[t > 0.0999], expected[t > 0.0999], atol=1e-11)


@pytest.mark.parametrize("method", ["linear", "logarithmic"])
def test_a_chirp_is_scipys(method):
    t = np.arange(0.0, 0.9999, H)
    segment = {"shape": "chirp", "amplitude": 1.5, "frequency": 2.0, "to_frequency": 90.0}
    found = values([{**segment, "sweep": method, "duration": 1.0}], H, 0.999)
    expected = 1.5 * chirp(t, 2.0, 1.0, 90.0, method=method, phi=-90)
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("bits", range(2, 17))
def test_a_prbs_is_a_sequence_of_maximum_length(bits):
    expected, _ = max_len_seq(bits, state=[1] + [0] * (bits - 1))
    np.testing.assert_array_equal(maximum_length_sequence(bits, 0), 2.0 * expected - 1.0)
    other = maximum_length_sequence(bits, 1)[: 2 * bits]  # from another place of the same sequence
    twice = np.concatenate((expected, expected)) * 2.0 - 1.0
    assert other.tobytes() in twice.tobytes()


def test_bits_of_a_prbs_last_for_their_interval():
    found = values([{"shape": "prbs", "amplitude": 0.5, "bits": 3, "interval": 0.2}], 0.1, 1.3)
    expected = 0.5 * np.repeat(maximum_length_sequence(3, 0), 2)
    np.testing.assert_array_equal(found, expected)


def test_noise_has_its_distribution_and_another_one_for_another_seed():
    with np.errstate(over="ignore"):
        a = np.array([normal(5, n) for n in range(4000)])
        b = np.array([uniform(5, n) for n in range(4000)])
        c = np.array([uniform(6, n) for n in range(4000)])
    assert kstest(a, "norm").pvalue > 0.01
    assert kstest(b, "uniform").pvalue > 0.01
    assert np.abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 0.04
    assert np.abs(np.corrcoef(b, c)[0, 1]) < 0.04


def test_noise_is_a_function_of_the_tick():
    noise = {"shape": "noise", "amplitude": 3.0, "duration": 10.0, "seed": 5}
    found = values([noise], 0.1, 1.0)
    np.testing.assert_array_equal(found, values([noise], 0.1, 1.0))
    with np.errstate(over="ignore"):
        expected = [3.0 * normal(5, tick) for tick in range(11)]
    np.testing.assert_allclose(found, expected, atol=1e-15)
    assert np.abs(values([{**noise, "distribution": "uniform"}], 0.1, 1.0)).max() < 3.0


def test_noise_with_an_interval_stays_that_long():
    found = values(
        [{"shape": "noise", "amplitude": 1.0, "duration": 1.0, "interval": 0.2}], 0.1, 0.9
    )
    assert (found[::2] == found[1::2]).all()
    assert len(set(found)) == 5


@pytest.mark.parametrize("interpolation", ["linear", "hold"])
def test_points_are_joined_as_numpy_does_or_held(interpolation):
    points = [[0.0, 1.0], [0.25, 3.0], [0.4, -1.0], [0.8, 2.0]]
    found = values(
        [{"shape": "points", "points": points, "interpolation": interpolation}], H, 0.799
    )
    t, (at, y) = np.arange(0.0, 0.7999, H), np.array(points).T
    expected = np.interp(t, at, y)
    if interpolation == "hold":
        expected = y[np.searchsorted(at, t + 1e-9, side="right") - 1]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_repeats_and_what_comes_after_the_last_one():
    step = [
        {"shape": "step", "to": 1.0, "duration": 0.1},
        {"shape": "step", "to": 2.0, "duration": 0.1},
    ]
    assert values(step, 0.1, 0.5, repeat=2).tolist() == [1, 2, 1, 2, 0, 0]
    assert values(step, 0.1, 0.5, repeat=2, then="hold").tolist() == [1, 2, 1, 2, 2, 2]
    assert values(step, 0.1, 0.5, repeat="forever", start=0.1, end=0.4).tolist() == [
        0,
        1,
        2,
        1,
        0,
        0,
    ]


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("shape", ["sine", "linear", "logarithmic"])
def test_the_polynomial_is_the_taylor_polynomial(order, shape):
    segment = {"shape": "chirp", "amplitude": 2.0, "frequency": 1.0, "to_frequency": 4.0}
    segment = SINE if shape == "sine" else {**segment, "sweep": shape, "duration": 10.0}
    found = sent(stimulated({"segments": [segment]}, order=order, h=H, y=lambda t: 0.0), 0.2)
    value = np.array(
        [[2.0 * np.sin(2 * np.pi * cycles(shape, k * H + s)) for s in (0.0, H)] for k in range(201)]
    )
    np.testing.assert_allclose(found[:, 0], value[:, 0], atol=1e-12)
    powers = H ** np.arange(order + 1) / np.array([1, 1, 2, 6, 24])[: order + 1]
    # from the third point on the source has samples for every degree
    error = np.abs(found[5:, : order + 1] @ powers - value[5:, 1]).max()
    assert error < 2.0 * (2 * np.pi * 3.1 * H) ** (order + 1)


def cycles(shape: str, t: float) -> float:
    if shape == "sine":
        return 3.0 * t
    if shape == "linear":
        return t + 0.15 * t * t
    rate = np.log(4.0) / 10.0
    return float((np.exp(rate * t) - 1.0) / rate)


def test_no_slope_leads_beyond_a_segment():
    ramp = [{"shape": "ramp", "to": 1.0, "duration": 0.25}, {"shape": "hold", "duration": 1.0}]
    found = sent(stimulated({"segments": ramp}, y=lambda t: 0.0), 0.4)
    np.testing.assert_allclose(found[:, 0], [0.0, 0.4, 0.8, 1.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(found[:, 1], [4.0, 4.0, 2.0, 0.0, 0.0], atol=1e-12)


# -- demanded, no error of the coupling ----------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("mode", ["add", "replace"])
def test_what_a_stimulus_does_is_no_connection_defect_and_no_estimated_error(order, mode):
    keys = {"step_control": {"atol": 1e-6}}
    stimulus = {"mode": mode, "start": 0.2, "end": 0.7, "segments": [SINE]}
    master = {"step": 0.05, "extrapolation": {"order": order}, **keys}
    session = stimulated(stimulus, master=master)
    seen = session.run(1.0, lambda s: (s.state.inputs["defect"][0], s.state.session["error"][0]))
    assert np.abs(seen[1:]).max() < 1e-9
    assert session.state.inputs["disturbance_max"][0] < 1e-9
    assert session.changes == []


def test_a_defect_is_that_of_the_connection_alone():
    def defects(*stimuli):
        session = stimulated(*stimuli, y=lambda t: np.sin(5.0 * t), h=0.05)
        return np.array(session.run(1.0, lambda s: s.state.inputs["defect"][0]))

    np.testing.assert_allclose(defects({"segments": [SINE]}), defects(), atol=1e-13)


def test_a_slow_source_and_a_slow_receiver_have_no_defect_either():
    subsystems = {"source": {"every": 4}, "sink": {"every": 2}}
    session = stimulated({"segments": [SINE]}, subsystems=subsystems, h=0.01)
    assert np.abs(session.run(0.3, lambda s: s.state.inputs["defect"][0])).max() < 1e-12


def test_with_a_variable_step_the_stimulus_does_not_shorten_it():
    def steps(*stimuli):
        control = {"method": "pi", "tolerance": 0.01, "maximum": 0.1}
        session = stimulated(
            *stimuli, y=lambda t: np.sin(t), master={"step": 0.01, "step_control": control}
        )
        return session.run(2.0, lambda s: s.t_ns)

    assert steps({"segments": [SINE]}) == steps()


BOND = [
    {"name": "b", "effort": "e.e", "flow": "f.f", "correction": {"method": "energy", "mu": 0.5}}
]


def bonded(*stimuli, order=1, correction=None):
    """A bond between constants, with stimuli on both of its inputs."""
    links = {
        "e": Recorded({"e": lambda t: 5.0}, [Port("f")]),
        "f": Recorded({"f": lambda t: 2.0}, [Port("e")]),
    }
    bond = {**BOND[0], "correction": correction or BOND[0]["correction"]}
    for link, (own, other) in zip(links.values(), (("N", "m/s"), ("m/s", "N")), strict=True):
        link.outputs = (Port(link.outputs[0].name, own),)
        link.inputs = (Port(link.inputs[0].name, other),)
    ports = [{"from": "e.e", "to": "f.e"}, {"from": "f.f", "to": "e.f"}]
    return Stepping(
        links,
        master={"step": 0.01, "extrapolation": {"order": order}},
        connections=ports,
        bonds=[bond],
        stimuli=[{"name": f"s{k}", **one} for k, one in enumerate(stimuli)],
    )


@pytest.mark.parametrize("order", [0, 1])
def test_the_energy_residual_is_that_of_the_bond_alone(order):
    both = [{"input": name, "segments": [SINE]} for name in ("f.e", "e.f")]
    session = bonded(*both, order=order)
    session.run(0.4)
    bond = session.state.bonds[0]
    assert bond.steps == 40
    assert abs(bond.residual_energy) < 1e-12
    assert abs(bond.shadow_energy) < 1e-12
    assert np.abs(session.state.inputs["polynomial"][:, 0] - [2.0, 5.0]).max() > 0.1  # it acts


def test_a_bond_whose_connection_is_replaced_has_no_residual_and_no_correction():
    session = bonded({"input": "f.e", "mode": "replace", "start": 0.1, "segments": [SINE]})
    session.run(0.5)
    assert session.state.elements["cut"][0] == 1
    assert abs(session.state.bonds[0].residual_energy) < 1e-12
    assert session.state.inputs["correction"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mode", ["add", "replace"])
def test_jacobians_and_feedthrough_correct_nothing_on_account_of_a_stimulus(mode):
    stimuli = [{"input": name, "mode": mode, "segments": [SINE]} for name in ("f.e", "e.f")]
    session = bonded(*stimuli, correction={"method": "model"})
    gamma = {s: np.full((2, 1, 1), 0.1 + 0.1 * s) for s in range(2)}
    session.correct(jacobians=Jacobians(0.01, gamma, [], np.ones(2, dtype=bool)))
    seen = session.run(0.5, lambda s: s.state.outputs["y"].copy())
    np.testing.assert_allclose(seen, np.tile([5.0, 2.0], (51, 1)), atol=1e-11)
    assert np.abs(session.state.model.inputs["offset"]).max() < 1e-11
    session = bonded(*stimuli, correction={"method": "feedthrough"})
    D = np.array([[0.5, 0.0], [0.0, 0.0]])
    session.correct(feedthrough=build_feedthrough(D, session.network.L.dense()))
    seen = session.run(0.5, lambda s: s.state.outputs["y"].copy())
    np.testing.assert_allclose(seen, np.tile([5.0, 2.0], (51, 1)), atol=1e-11)


# -- jumps, limits, hand-over --------------------------------------------------------------------


def test_a_jump_of_an_input_restarts_what_depends_on_it_directly():
    class Through(Recorded):
        """``z = u``."""

        def advance(self, t, h, u):
            sample = super().advance(t, h, u)
            sample.y[:] = u(t + h)
            return sample

    through = Through({"z": lambda t: 0.0}, [Port("u")])
    through.outputs = (Port("z", feedthrough=("u",)),)
    links = {"source": Recorded({"y": lambda t: t}), "a": through, "b": Recorded({}, [Port("z")])}
    session = Stepping(
        links,
        master={"step": 0.1, "extrapolation": {"order": 1}},
        connections=[{"from": "source.y", "to": "a.u"}, {"from": "a.z", "to": "b.z"}],
        stimuli=[
            {
                "name": "s",
                "input": "a.u",
                "start": 0.5,
                "then": "hold",
                "segments": [{"shape": "step", "to": 10.0, "duration": 0.1}],
            }
        ],
    )
    seen = np.array(session.run(0.8, lambda s: s.state.inputs["polynomial"][1, :2].copy()))
    # a answers at 0.6; through both sides of the jump the slope would be 101
    np.testing.assert_allclose(seen[6], [10.6, 0.0], atol=1e-12)
    np.testing.assert_allclose(seen[7:], [[10.7, 1.0], [10.8, 1.0]], atol=1e-12)


def test_limits_hold_for_stimuli():
    bounds = {"min": 0.0, "max": 4.0, "max_rate": 5.0}
    step = [{"shape": "step", "to": 9.0, "duration": 0.5}]
    session = stimulated({"start": 0.2, "segments": step}, bounds=bounds, order=0)
    found = session.run(
        0.5, lambda s: (s.state.inputs["polynomial"][0, 0], s.state.inputs["limited"][0])
    )
    assert found == [(3.0, 0), (3.0, 0), (3.5, 1), (4.0, 1), (4.0, 1), (4.0, 1)]


def test_a_replacing_stimulus_goes_on_from_the_inputs_value():
    ramp = [{"shape": "ramp", "to": 5.0, "rate": 10.0}, {"shape": "hold", "duration": 9.0}]
    found = sent(stimulated({"mode": "replace", "start": 0.2, "segments": ramp}), 0.6)
    np.testing.assert_allclose(found[:, 0], [3, 3, 3, 4, 5, 5, 5], atol=1e-12)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("bounds", [{"max_rate": 10.0}, {"blend": 0.4}])
def test_an_input_moves_to_another_source_and_back_without_a_bump(order, bounds):
    step = [{"shape": "step", "to": 7.0, "duration": 0.7}]
    session = stimulated(
        {"mode": "replace", "start": 0.2, "segments": step}, bounds=bounds, order=order
    )
    seen = session.run(
        1.5,
        lambda s: (
            s.state.inputs["polynomial"][0, 0],
            s.state.drives["source"][0],
            s.state.inputs["defect"][0],
            s.state.inputs["limited"][0],
        ),
    )
    found = np.array(seen)
    expected = np.interp(np.arange(16), [0, 2, 6, 9, 13, 15], [3, 3, 7, 7, 3, 3])
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-6)
    assert found[:, 1].tolist() == [0, 0, *[1] * 7, *[0] * 7]
    assert np.abs(found[:, 2]).max() < 1e-9
    assert not found[:, 3].any()


def test_what_was_added_is_given_back_without_a_bump():
    step = [{"shape": "step", "to": 2.0, "duration": 0.3}]
    found = sent(stimulated({"segments": step}, bounds={"blend": 0.4}, order=0), 0.8)
    np.testing.assert_allclose(found[:, 0], [5, 5, 5, 5, 4.5, 4, 3.5, 3, 3], atol=1e-12)


def test_a_stimulus_takes_over_from_another_one_without_a_bump():
    first, second = (
        {"mode": "replace", "start": start, "segments": [{"shape": "step", "to": to}], **more}
        for start, to, more in ((0.2, 7.0, {"end": 0.8}), (0.8, 3.0, {}))
    )
    found = sent(stimulated(first, second, bounds={"blend": 0.4}, order=0), 1.3)
    expected = np.interp(np.arange(14), [0, 2, 6, 8, 12], [3, 3, 7, 7, 3])
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-9)


def test_a_bench_is_told_ahead_by_its_actuation_delay():
    ramp = [{"shape": "ramp", "to": 10.0, "duration": 1.0}]
    session = stimulated({"start": 0.5, "segments": ramp}, physical=True, lead={"sink": 0.2})
    found = sent(session, 0.8)
    np.testing.assert_allclose(found[:, 0], [3, 3, 3, 3, 4, 5, 6, 7, 8], atol=1e-12)
    assert np.abs(session.state.inputs["defect_max"]).max() < 1e-12


def test_an_operator_takes_an_input_and_gives_it_back():
    session = stimulated(
        {
            "start": 0.2,
            "mode": "replace",
            "segments": [{"shape": "step", "to": 7.0, "duration": 9.0}],
        },
        order=0,
        monitor={"adjust": {"inputs.sink.u": {"min": 0.0, "max": 50.0}}},
    )
    changes = Changes(session.network, session.plan.drives["input"])

    def step(*asked):
        for value in asked:
            changes.add("inputs.sink.u", value)
        session.exchange.cut(session.tick, session.t_ns, session.elapsed_ns)
        changes.put_into(session.given)
        recorded = changes.recorded(session.given)
        session.numerics.macro_step()
        session.numerics.assess()
        session.go()
        drive = session.state.drives[0]
        return float(session.state.inputs["polynomial"][0, 0]), int(drive.source), recorded

    assert step() == (3.0, 0, [])
    assert step(20.0) == (20.0, 3, [("inputs.sink.u", 20.0)])
    assert source_changes(session.numerics) == []  # the operator's request is an event
    assert changes.present_number(session.state, "inputs.sink.u") == 20.0
    assert step() == (20.0, 3, [])  # the stimulus begins, and waits for its turn
    value, source, (recorded,) = step(np.nan)
    assert (value, source) == (7.0, 1)
    assert np.isnan(recorded[1])
    assert source_changes(session.numerics) == [("sink.u", "driven by its stimulus")]
    name = session.numerics.stimuli[0]
    assert present_sources(session.numerics) == {"sink.u": f"stimulus {name}"}


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_a_sequence_drives_an_input_only_while_it_says_so(offset):
    class Sequence(SubsystemOptions):
        is_sequence = True

    driven = Recorded({"u": lambda t: 8.0, "u.driven": lambda t: float(0.25 < t < 0.65)})
    links = {
        "source": Recorded({"y": lambda t: 3.0}),
        "test": driven,
        "sink": Recorded({}, [Port("u")]),
    }
    to = {"to": "sink.u"}
    ports = {name: Ports(tuple(link.inputs), tuple(link.outputs)) for name, link in links.items()}
    tables = make_session(
        {
            "master": {"step": 0.1, "extrapolation": {"order": 1}},
            "subsystems": {"source": {}, "test": {}, "sink": {"inputs": {"u": {"max_rate": 20.0}}}},
            "connections": [
                {"from": "source.y", **to},
                {"from": "test.u", "offset": offset, **to},
            ],
            "stimuli": [
                {"name": "s", "input": "sink.u", "segments": [{"shape": "hold", "value": 1.0}]}
            ],
        }
    )
    tables.subsystems["test"] = Sequence(adapter="sequence")
    session = Stepping(links, made=(build_network(ports, tables), tables))
    seen = session.run(
        1.0, lambda s: (s.state.inputs["polynomial"][0, 0], int(s.state.drives["source"][0]))
    )
    assert [source for _, source in seen] == [0] * 3 + [2] * 4 + [0] * 4
    found = [value for value, _ in seen]
    expected = [4, 4, 4, 4, 6, 8, 8 + offset, 8 + offset, 6 + offset, 4 + offset, 4]
    np.testing.assert_allclose(found[1:], expected[1:], atol=1e-6)


# -- conditions ----------------------------------------------------------------------------------


def test_conditions_begin_and_end_a_stimulus_at_the_tick_whose_samples_say_so():
    pulse = {"mode": "replace", "segments": [{"shape": "hold", "value": 9.0}]}
    when = {"start_when": "source.y > 0.35", "end_when": "source.y > 0.65"}
    session = stimulated({**pulse, **when}, y=lambda t: t, order=0)
    found = sent(session, 1.0)[:, 0]
    np.testing.assert_allclose(found, [0, 0.1, 0.2, 0.3, 9, 9, 9, 0.7, 0.8, 0.9, 1.0], atol=1e-12)


def test_a_condition_counts_between_start_and_end_and_begins_a_stimulus_once():
    hold = {"segments": [{"shape": "hold", "value": 5.0, "duration": 0.2}]}
    high = {"start_when": "source.y > 0", "start": 0.3}
    y = {"y": lambda t: 1.0}
    for bounds, expected in (
        ({}, [1, 1, 1, 6, 6, 1, 1, 1]),
        ({"end": 0.4}, [1, 1, 1, 6, 1, 1, 1, 1]),
        ({"end_when": "source.y > 0"}, [1, 1, 1, 6, 1, 1, 1, 1]),
        ({"start_when": "source.y > 2"}, [1] * 8),
    ):
        found = sent(stimulated({**hold, **high, **bounds}, order=0, **y), 0.7)[:, 0]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_conditions_belong_to_their_stimuli_whatever_the_order_of_the_inputs():
    segments = [{"shape": "hold", "value": 1.0}]
    sink = MemoryLink("sink", Recorded({"z": lambda t: 0.0}, [Port("u"), Port("v")]))
    session = Stepping(
        {"source": Recorded({"y": lambda t: t}), "sink": sink},
        master={"step": 0.1},
        stimuli=[
            {"name": "b", "input": "sink.v", "segments": segments, "start_when": "source.y > 0.15"},
            {"name": "a", "input": "sink.u", "segments": segments, "end_when": "source.y > 0.25"},
        ],
        subsystems={"source": {}, "sink": {}},
    )
    found = np.array(session.run(0.4, lambda s: s.state.inputs["polynomial"][:, 0].copy()))
    np.testing.assert_array_equal(found, [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
