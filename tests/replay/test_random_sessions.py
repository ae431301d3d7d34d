"""Sessions drawn at random, with losses, stalls and nonsense: each comes out again, bit for bit."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hilrt.link import Ports
from hilrt.replay.replay_log import replay
from hilrt.solver import Port
from hilrt.step_log import snapshot
from tests.replay.recording_tools import Erratic, record_erratic

STEP = 1e-3


def ports_of(name, n_outputs, n_inputs, bounded, declared):
    """Ports whose first ones make the bond: an effort out of "a", a flow out of "b"."""
    declared = {"min": -0.5, "max": 0.5} if declared else {}
    limits = {"min": -2.0, "max": 2.0, "max_rate": 300.0, "max_jerk": 3e4} if bounded else {}
    outputs, inputs = {"a": ("N", "m/s"), "b": ("m/s", "N")}.get(name, ("", ""))
    return Ports(
        tuple(Port(f"i{i}", "" if i else inputs, **limits) for i in range(n_inputs)),
        tuple(Port(f"o{i}", "" if i else outputs, **declared) for i in range(n_outputs)),
    )


@st.composite
def session(draw):
    """Tables and subsystems: a bond between the first two, at times one that is on its own."""
    sizes, numbers = st.integers(1, 3), st.integers(0, 2**31)
    variable = draw(st.booleans())
    order = draw(st.integers(0, 3))
    source = draw(st.sampled_from(["lagrange", "taylor"]))
    trouble = 0.0 if variable else draw(st.sampled_from([0.0, 0.1, 0.5]))
    names = ["a", "b", "c"][: draw(st.integers(2, 3))]
    links, subsystems = [], {}
    for name in names:
        links.append(
            Erratic(
                name,
                ports_of(name, draw(sizes), draw(sizes), draw(st.booleans()), draw(st.booleans())),
                draw(numbers),
                physical=not variable and draw(st.booleans()),
                derivatives=order if source == "taylor" else 0,
                trouble=trouble,
            )
        )
        subsystems[name] = {
            "adapter": "inprocess",
            "model": "none:None",
            "out_of_range": draw(st.sampled_from(["hold", "use", "safe"])),
            "every": 1 if variable else draw(st.integers(1, 3)),
            "late": {"policy": draw(st.sampled_from(["hold", "extrapolate"])), "max_misses": 10**6},
        }
    connections = [{"from": "a.o0", "to": "b.i0"}, {"from": "b.o0", "to": "a.i0"}]
    if len(names) == 3:
        gain = draw(st.floats(-1.0, 1.0))
        connections.append({"from": "c.o0", "to": "c.i0", "gain": gain, "offset": 0.25, "order": 0})
    correction = draw(corrections(subsystems, links, order))
    master = {"step": STEP, "extrapolation": {"order": order, "source": source}}
    if variable:
        master["step_control"] = draw(st.sampled_from(CONTROLS))
    if source == "lagrange" and correction["method"] != "model" and draw(st.booleans()):
        master["order_control"] = {"method": "derivatives", "maximum": 3, "initial": 1}
    tables = {
        "session": {"name": "erratic", "duration": 1.0, "pace": "asap"},
        "master": master,
        "subsystems": subsystems,
        "connections": connections,
        "bonds": [{"name": "bond", "effort": "a.o0", "flow": "b.o0", "correction": correction}],
        "alarms": [{"signal": "a.o0", "max": 1.0, "delay": 0.002, "action": "log"}],
    }
    return tables, links, draw(numbers)


CONTROLS = [
    {"method": "pi", "tolerance": 0.05, "initial": 1e-4, "maximum": 2e-3},
    {"method": "local", "atol": 0.1, "rtol": 0.1, "maximum": 2e-3},
    {"method": "ecco", "atol": 1e-3, "rtol": 0.1, "maximum": 2e-3},
]


@st.composite
def corrections(draw, subsystems, links, order):
    method = draw(st.sampled_from(["none", "energy", "feedthrough", "model", "identify"]))
    if method == "energy":
        return {
            "method": "energy",
            "residual": draw(st.sampled_from(["sent", "held"])),
            "mu": 1.0,
            "nu": 0.2,
            "cap": 0.5,
            "cap_abs": 1.0,
            "permit_on_bench": True,
        }
    a = links[0]
    shape = len(a.outputs), len(a.inputs)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    if method == "feedthrough":
        subsystems["a"]["jacobian"] = {
            "source": "given",
            "D": (0.2 * rng.normal(size=shape)).tolist(),
        }
    elif method == "model":
        gamma = (0.2 * rng.normal(size=(order + 1, *shape))).tolist()
        subsystems["a"]["jacobian"] = {"source": "given", "gamma": gamma}
    elif method == "identify":
        subsystems["a"]["jacobian"] = {"source": "identify", "dither": 0.01, "memory": 30.0}
        return {"method": "model", "alpha": 0.5}
    return {"method": method}


@pytest.fixture(autouse=True)
def frequent_snapshots(monkeypatch):
    monkeypatch.setattr(snapshot, "EVERY_NS", 7_000_000)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=session(), data=st.data())
def test_any_session_comes_out_again(drawn, data, tmp_path_factory):
    tables, links, seed = drawn
    steps = data.draw(st.integers(1, 80))
    path = record_erratic(tmp_path_factory.mktemp("log"), tables, links, steps, seed=seed)
    outcome = replay(path)
    assert outcome.difference is None, outcome.difference
    assert (outcome.steps, outcome.tolerance) == (steps, 0.0)
    if outcome.snapshots > 1 and outcome.end > 0.015:
        later = replay(path, start=0.014)
        assert later.difference is None, later.difference
        assert later.steps + later.skipped == steps
