"""What `hilrt check` says of faults."""

import pytest

from hilrt.check.check_faults import check_faults
from hilrt.check.check_monitor import check_monitor
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.link import Description, EmulatedMessage, Ports
from hilrt.solver import Port
from tests.stepping import make_session

PORTS = {
    "engine": Ports((Port("pedal", "%"),), (Port("speed", "rad/s"), Port("wheels", size=4))),
    "driver": Ports((Port("speed", "rad/s"),), (Port("pedal", "%"),)),
    "logger": Ports((Port("pedal", "%"),), ()),
}
MESSAGES = {
    "Fast": EmulatedMessage(("Speed",), counts=True, guarded=True),
    "Plain": EmulatedMessage(("Oil",), counts=False, guarded=False),
    "Slow": EmulatedMessage(("State",), counts=True, guarded=False, enables=True),
}
EMULATED = Description(emulated=lambda: MESSAGES)
STUCK = {"kind": "stuck", "output": "engine.speed", "start": 0.5}


def findings(*faults, allow=(), physical=(), **tables):
    session = make_session(
        {
            "master": {"step": 1e-3},
            "subsystems": {
                "engine": {"allow_faults": list(allow)},
                "driver": {},
                "logger": {},
            },
            "connections": [
                {"from": "engine.speed", "to": "driver.speed"},
                {"from": "driver.pedal", "to": "engine.pedal"},
                {"from": "driver.pedal", "to": "logger.pedal"},
            ],
            "faults": [{"name": f"f{k}", **one} for k, one in enumerate(faults)],
            **tables,
        }
    )
    found = Findings()
    topology = Topology(session, dict(PORTS), set(physical))
    check_faults(topology, found, {"engine": EMULATED})
    check_monitor(topology, found)
    return [f"{p.level} {p}" for p in found.problems]


def test_sound_faults_have_no_findings():
    assert findings(STUCK, {**STUCK, "output": "engine.wheels"}) == []
    assert findings({**STUCK, "output": "engine.wheels[3]"}) == []
    adjust = {"adjust": {"faults.f0": {"min": 0.0, "max": 1.0}}}
    gain = {"kind": "gain", "value": 0.0, "connection": "driver.pedal -> engine.pedal"}
    assert findings(gain, monitor=adjust) == []


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({**STUCK, "output": "engine.sped"}, "no output 'sped'"),
        ({**STUCK, "output": "calculated.power"}, "is calculated, and has no sensor"),
        ({**STUCK, "output": None}, "has no place"),
        ({**STUCK, "input": "engine.pedal"}, "has output and input"),
        ({"kind": "stuck", "start": 0.0, "connection": "a"}, "is not a connection of this session"),
        ({**STUCK, "value": 1.0}, "is not a key of the kind 'stuck'"),
        ({**STUCK, "kind": "damage"}, "is not a fault of an output"),
        ({**STUCK, "kind": "offset"}, "value: is missing"),
        ({**STUCK, "kind": "noise", "value": -1.0}, "has no effect for a fault of kind 'noise'"),
        ({**STUCK, "kind": "delay"}, "value: is missing"),
        ({**STUCK, "kind": "jitter", "value": 0.0}, "has no effect for a fault of kind 'jitter'"),
        ({**STUCK, "kind": "delay", "value": 20.0}, "delays by 20,000 steps"),
        ({**STUCK, "kind": "loss", "value": 1.5}, "is not a share"),
        ({**STUCK, "end": 0.5}, "is not after its start"),
        ({**STUCK, "start": 1.0}, "it never begins"),
        ({"kind": "stuck", "output": "engine.speed"}, "it never begins"),
    ],
)
def test_what_is_wrong(fault, text):
    fault = {key: value for key, value in fault.items() if value is not None}
    assert [line for line in findings(fault) if text in line]


def test_benches_allow_faults_by_name():
    for physical in ("engine", "driver"):
        (line,) = findings(STUCK, physical=[physical])
        assert f"acts on the bench {physical!r}, which does not allow it" in line
        assert 'allow_faults = ["f0"]' in line
    (line,) = findings({**STUCK, "output": "driver.pedal"}, physical=["engine"])
    assert "'engine'" in line
    assert findings(STUCK, physical=["engine"], allow=["f0"]) == []
    (line,) = findings(STUCK, allow=["f1"])
    assert "is not the name of a fault; there is f0" in line


@pytest.mark.parametrize("sensor", ["engine.speed", "engine.wheels[1]"])
def test_calculated_channels_carry_faults_to_benches(sensor):
    tables = {
        "physical": ["driver"],
        "calculated": [
            {"name": "demand", "expression": "2 * mean_speed"},
            {"name": "mean_speed", "expression": "engine.speed + signal('engine.wheels[0]')"},
            {"name": "other", "expression": "driver.pedal"},
        ],
        "connections": [{"from": "calculated.demand", "to": "driver.speed"}],
    }
    (line,) = findings({**STUCK, "output": sensor}, **tables)
    assert "acts on the bench 'driver', which does not allow it" in line
    tables["connections"] = [{"from": "calculated.other", "to": "driver.speed"}]
    assert findings({**STUCK, "output": sensor}, **tables) == []


def on_bus(**fault):
    return findings({"start": 0.5, **fault}, allow=["f0"], physical=["engine"])


def test_sound_faults_of_an_emulated_bench_have_no_findings():
    for kind in ("silent", "frozen_counter", "wrong_checksum", "wrong_identifier"):
        assert on_bus(kind=kind, message="engine.Fast") == []
    assert on_bus(kind="wrong_length", value=0.2, message="engine.Plain") == []
    assert on_bus(kind="duplicate", value=1.0, message="engine.Plain") == []
    assert on_bus(kind="noise", value=1.0, message="engine.Plain.Oil") == []
    assert on_bus(kind="dead", peer="engine") == []
    assert on_bus(kind="loss", value=0.5, peer="engine") == []


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"kind": "silent", "message": "engine.Fats"}, "sends no 'Fats'; did you mean 'Fast'"),
        ({"kind": "silent", "message": "engine"}, "names no subsystem"),
        ({"kind": "silent", "message": "logger.Fast"}, "is not an emulated bench"),
        ({"kind": "silent", "message": "engine.Slow"}, "enable state, which cannot be faulted"),
        ({"kind": "wrong_checksum", "message": "engine.Plain"}, "has no checksum"),
        ({"kind": "counter_jump", "message": "engine.Plain"}, "has no counter"),
        ({"kind": "stuck", "message": "engine.Fast.Sped"}, "did you mean 'Speed'"),
        ({"kind": "stuck", "message": "engine.Fast"}, "is not a fault of a message"),
        ({"kind": "silent", "message": "engine.Fast.Speed"}, "is not a fault of a signal"),
        ({"kind": "silent", "value": 0.5, "message": "engine.Fast"}, "is not a key of the kind"),
        ({"kind": "wrong_length", "value": 1.5, "message": "engine.Fast"}, "is not a share"),
        ({"kind": "loss", "message": "engine.Fast"}, "value: is missing"),
        ({"kind": "dead", "peer": "logger"}, "is not an emulated bench"),
        ({"kind": "gain", "value": 2.0, "peer": "engine"}, "is not a fault of a peer"),
        ({"kind": "loss", "value": 0.5, "peer": "calculated"}, "names no subsystem"),
    ],
)
def test_what_is_wrong_with_faults_of_an_emulated_bench(fault, text):
    assert [line for line in on_bus(**fault) if text in line]


def test_benches_allow_faults_of_their_messages_by_name():
    for fault in (
        {"kind": "silent", "message": "engine.Fast"},
        {"kind": "die", "peer": "engine"},
        {"kind": "loss", "value": 0.5, "peer": "engine"},
    ):
        (line,) = findings({"start": 0.5, **fault}, physical=["engine"])
        assert "acts on the bench 'engine', which does not allow it" in line
    lost = {"kind": "loss", "value": 0.5, "peer": "driver", "start": 0.5}
    (line,) = findings(lost, physical=["engine"])
    assert "'engine'" in line


def test_an_operator_begins_or_ends_a_fault():
    adjust = {"adjust": {"faults.f0": {"min": 0.0, "max": 5.0}}}
    (line,) = findings(STUCK, monitor=adjust)
    assert "a fault is off (0) or on (1); give { min = 0, max = 1 }" in line
