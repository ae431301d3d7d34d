"""Checks of a bench's table: every problem is named, with its remedy, in one go."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest

from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.read_bench import Bench, PortsError, read_bench
from hilrt.config.from_toml import build
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from tests.can.container_database import container_arxml

DBC = """VERSION ""
BU_: Bench Gateway
BO_ 256 Fast: 8 Bench
 SG_ Speed : 0|24@1- (0.001,0) [0|0] "rad/s" Gateway
 SG_ SpeedRpm : 24|16@1+ (1,0) [0|0] "rpm" Gateway
 SG_ Torque : 40|16@1- (0.02,0) [0|0] "N*m" Gateway
 SG_ Alive : 56|8@1+ (1,0) [0|255] "" Gateway
BO_ 272 Slow: 8 Bench
 SG_ Enabled : 0|1@1+ (1,0) [0|1] "" Gateway
BO_ 128 Demand: 8 Gateway
 SG_ Speed : 0|16@1+ (0.01,0) [0|650] "rad/s" Bench
 SG_ Pedal : 16|8@1+ (0.5,0) [0|101] "%" Bench
 SG_ Enable : 24|1@1+ (1,0) [0|1] "" Bench
 SG_ Real : 32|16@1- (1,0) [0|0] "%" Bench
 SG_ Alive : 56|8@1+ (1,0) [0|255] "" Bench
BO_ 130 Modes: 8 Gateway
 SG_ Mode M : 0|8@1+ (1,0) [0|0] "" Bench
 SG_ Level m1 : 8|16@1+ (1,0) [0|0] "N*m" Bench
BO_ 2566844926 Long: 20 Bench
 SG_ Pressure : 0|16@1+ (1,0) [0|0] "kPa" Gateway
BO_ 300 Wide: 20 Bench
 SG_ Pressure : 0|16@1+ (1,0) [0|0] "kPa" Gateway
BO_ 301 Endless: 100 Bench
 SG_ Pressure : 0|16@1+ (1,0) [0|0] "kPa" Gateway
BO_ 302 Temps: 7 Bench
 SG_ Page M : 56|8@1+ (1,0) [0|0] "" Gateway
 SG_ Always : 0|8@1+ (1,0) [0|0] "degC" Gateway
 SG_ Oil m1 : 8|8@1+ (1,0) [0|0] "degC" Gateway
 SG_ Water m2 : 8|8@1+ (1,0) [0|0] "degC" Gateway
BO_ 131 Pages: 7 Gateway
 SG_ Page M : 56|8@1+ (1,0) [0|0] "" Bench
 SG_ Level m1 : 8|8@1+ (1,0) [0|0] "%" Bench
BO_ 2565799937 Group1: 8 Bench
 SG_ One : 0|16@1+ (1,0) [0|0] "rpm" Gateway
BO_ 2565799938 Group2: 8 Bench
 SG_ Two : 0|16@1+ (1,0) [0|0] "rpm" Gateway
BO_ 2364473345 Urgent1: 8 Bench
 SG_ Three : 0|16@1+ (1,0) [0|0] "rpm" Gateway
SIG_VALTYPE_ 128 Real : 1;
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG",\
"r4","r5","r6","r7","r8","r9","r10","r11","r12","r13","StandardCAN_FD","ExtendedCAN_FD";
BA_ "VFrameFormat" BO_ 2566844926 3;
BA_ "VFrameFormat" BO_ 301 14;
BA_ "VFrameFormat" BO_ 2565799937 3;
BA_ "VFrameFormat" BO_ 2565799938 3;
BA_ "VFrameFormat" BO_ 2364473345 3;
"""
TABLE: dict[str, Any] = {
    "adapter": "can",
    "bus": {"interface": "virtual", "channel": "bench"},
    "database": "bench.dbc",
    "enable": {"request": "Demand.Enable", "state": "Slow.Enabled"},
    "outputs": {"torque": "Fast.Torque", "speed": "Fast.Speed", "rpm": "Fast.SpeedRpm"},
    "safe_profile": {"order": ["pedal"]},
    "inputs": {
        "speed_demand": {
            "signal": "Demand.Speed",
            "realised": "speed",
            "min": 0.0,
            "max": 650.0,
            "max_rate": 800.0,
            "safe": 0.0,
        },
        "pedal": {
            "signal": "Demand.Pedal",
            "min": 0.0,
            "max": 100.2,
            "max_rate": 500.0,
            "safe": 0.0,
        },
    },
}


def read(folder: Path, change: dict[str, Any] | None = None) -> Bench:
    """The bench of TABLE with dotted keys changed; a value of None removes the key."""
    table = copy.deepcopy(TABLE)
    for path, value in (change or {}).items():
        *parents, last = path.split(".")
        inner = table
        for key in parents:
            inner = inner[key]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    problems: list[str] = []
    options = build(BenchOptions, table, "subsystems.engine", problems)
    if options is None:
        raise ConfigError(problems)
    (folder / "bench.dbc").write_text(DBC)
    return read_bench("engine", options, folder)


def test_ports_take_units_from_the_database_and_limits_from_the_table(tmp_path: Path) -> None:
    bench = read(tmp_path, {"inputs.pedal.start": 5.0})
    speed, pedal = bench.ports.inputs
    assert (speed.name, speed.unit, speed.start) == ("speed_demand", "rad/s", 0.0)
    assert (speed.min, speed.max, speed.max_rate, speed.safe) == (0.0, 650.0, 800.0, 0.0)
    assert pedal.start == 5.0
    assert [(p.name, p.unit) for p in bench.ports.outputs] == [
        ("torque", "N*m"),
        ("speed", "rad/s"),
        ("rpm", "rpm"),
    ]


def test_a_port_has_the_unit_that_the_table_states_instead_of_the_databases(tmp_path: Path) -> None:
    units = {"torque": "kN*m", "speed_demand": "rpm", "speed": "rpm"}
    bench = read(tmp_path, {"units": units})
    assert [(p.name, p.unit) for p in bench.ports.outputs] == [
        ("torque", "kN*m"),
        ("speed", "rpm"),
        ("rpm", "rpm"),
    ]
    assert bench.ports.inputs[0].unit == "rpm"
    assert bench.ports.inputs[0].max == 650.0  # numbers stay as they are
    assert bench.realised([0.0, 300.0, 0.0])[0] == 300.0  # both are in rpm


def test_limits_do_not_round_out_of_the_bounds(tmp_path: Path) -> None:
    assert read(tmp_path).limits.maximum == [650.0, 100.0]  # resolution 0.5 %


def test_the_declared_range_bounds_what_is_sent(tmp_path: Path) -> None:
    bench = read(tmp_path, {"inputs.pedal.max": 110.0})
    pedal = bench.ports.inputs[1]
    assert (pedal.min, pedal.max) == (0.0, 101.0)  # the master keeps to it
    assert bench.limits.maximum == [650.0, 101.0]  # and the gateway, by itself
    (text,) = bench.narrower
    assert text.startswith("input pedal: the database limits it to 0 to 101, not 0 to 110")
    assert read(tmp_path).narrower == ()


def test_inputs_left_out_of_the_safe_order_follow(tmp_path: Path) -> None:
    assert read(tmp_path).order == (1, 0)


def test_realised_outputs_are_converted(tmp_path: Path) -> None:
    bench = read(tmp_path, {"inputs.speed_demand.realised": "rpm"})
    realised = bench.realised([0.0, 0.0, 60.0])
    assert realised[0] == pytest.approx(2 * math.pi)
    assert math.isnan(realised[1])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"inputs.pedal.max_rate": None}, r"inputs\.pedal\] max_rate: is missing; a bench input"),
        ({"inputs.pedal.safe": None}, r"inputs\.pedal\] safe: is missing"),
        ({"inputs.pedal.max": float("inf")}, r"inputs\.pedal\] max = inf: is not finite"),
        ({"inputs.pedal.min": 200.0}, r"min = 200\.0: must be below max"),
        ({"inputs.pedal.safe": 101.0}, r"safe = 101\.0: must lie between min"),
        ({"inputs.speed_demand.max": 700.0}, "carries only 0 to 655.35"),
        (
            {"inputs.pedal.signal": "Demand.Real", "inputs.pedal.max": 70000.0},
            "Demand.Real carries only -65504 to 65504",
        ),
        ({"inputs.pedal.realised": "spede"}, "is not an output; did you mean 'speed'"),
        ({"inputs.speed_demand.realised": "torque"}, r"realised = 'torque': .*convert"),
        ({"inputs.pedal.signal": "Demand.Pedals"}, "did you mean 'Pedal'"),
        ({"inputs.pedal.signal": "Demand.Speed"}, "is driven by inputs.speed_demand"),
        ({"inputs.pedal.signal": "Demand.Enable"}, "is driven by"),
        ({"outputs.torque": "Fats.Torque"}, r"outputs\.torque = .*did you mean 'Fast'"),
        ({"outputs.torque": "Demand.Speed"}, "Demand is sent by the gateway and received"),
        ({"enable.request": "Demand.Enabel"}, r"enable\.request = .*did you mean 'Enable'"),
        ({"enable.state": "Slow.Enable"}, r"enable\.state = .*did you mean 'Enabled'"),
        ({"safe_profile.order": ["pedale"]}, "is not an input; did you mean 'pedal'"),
        ({"safe_profile.order": ["pedal", "pedal"]}, "names an input twice"),
        ({"outputs": {}}, "outputs: is empty"),
        ({"bus.interface": "socketcam"}, "did you mean 'socketcan'"),
        ({"database": "other.dbc"}, r"database: .*other\.dbc cannot be read"),
        ({"master_timout": 0.1}, "did you mean 'master_timeout'"),
        ({"master_timeout": -1.0}, r"master_timeout = -1\.0"),
        ({"actuation_delay": -1.0}, r"actuation_delay = -1\.0"),
        ({"bus.chanel": "x"}, r"bus\.chanel = 'x': .* would ignore it; did you mean 'channel'"),
        ({"inputs.pedal.signal": None}, "signal: is missing"),
        ({"inputs.pedal.max": 130.0}, r"max = 130\.0: signal Demand\.Pedal carries only 0 to 127"),
        (
            {"inputs.pedal.min": 101.0, "inputs.pedal.max": 120.0, "inputs.pedal.safe": 110.0},
            r"the database limits signal Demand\.Pedal to 0 to 101, so that no value is possible",
        ),
        (
            {"inputs.pedal.max": 120.0, "inputs.pedal.start": 110.0},
            r"start = 110\.0: the database limits signal Demand\.Pedal to 0 to 101; give",
        ),
        (
            {"inputs.pedal.signal": "Long.Pressure"},
            "message Long has 20 bytes; .* transport protocol .* can be received but not sent",
        ),
        (
            {"outputs.p": "Wide.Pressure"},
            "Wide has 20 bytes and the database does not mark it as CAN",
        ),
        (
            {"outputs.p": "Endless.Pressure", "bus.fd": True},
            "Endless has 100 bytes; a frame of CAN FD carries 64; correct the database",
        ),
        (
            {"outputs.w": "Temps.Water"},
            r"Temps\.Water is only in frames that the multiplexer Page selects, which extends "
            "beyond the message's 7 bytes; correct the database",
        ),
        ({"inputs.pedal.signal": "Pages.Level"}, r"Pages\.Level is only in frames that the mult"),
        (
            {"inputs.speed_demand.signal": "Modes.Mode", "inputs.pedal.signal": "Modes.Level"},
            r"speed_demand.signal = 'Modes.Mode': says which frames carry inputs\.pedal",
        ),
        (
            {"messages": {"Demand": {"protection": {"method": "e2e1", "data_id": 1}}}},
            r"protection: writes over the bits of signal Speed, which inputs\.speed_demand",
        ),
        (
            {
                "messages": {
                    "Demand": {
                        "protection": {"method": "e2e1", "data_id": 1, "offset": 4},
                        "last": {"Pedal": 120.0},
                    }
                }
            },
            r"last\.Pedal = 120\.0: must lie between 0 and 100\.2",
        ),
        (
            {"messages": {"Demand": {"values": {"Pedal": 120.0}}}, "inputs.pedal": None},
            r"values\.Pedal = 120\.0: the database limits it to 0 to 101; give a value inside",
        ),
        ({"units": {"torqe": "N"}}, r"units\.torqe: there is no such port; did you mean 'torque'"),
        ({"units": {"torque": "bla"}}, r"units\.torque: unit 'bla' is unknown"),
        (
            {"messages": {"Demand": {"values": {"Alive": math.nan}}}},
            r"values = \{'Alive': nan\}: is not finite",
        ),
    ],
)
def test_problems_name_the_place_and_the_remedy(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        read(tmp_path, change)
    assert all(p.startswith("[subsystems.engine") for p in caught.value.problems)


@pytest.mark.parametrize(
    "key",
    [
        "master_timeout",
        "idle_timeout",
        "bench_timeout",
        "actuation_delay",
        "enable.timeout",
        "safe_profile.step_timeout",
        "inputs.pedal.max_rate",
        "inputs.pedal.max_jerk",
    ],
)
def test_infinity_does_not_switch_a_protection_off(tmp_path: Path, key: str) -> None:
    last = key.rpartition(".")[2]
    with pytest.raises(ConfigError, match=rf"{last} = inf: is not finite; give a number"):
        read(tmp_path, {key: math.inf})


def test_j1939_messages_that_no_frame_tells_apart_are_both_named(tmp_path: Path) -> None:
    """Group1 and Urgent1 differ in their priority alone, Group2 in its source address."""
    outputs = {**TABLE["outputs"], "two": "Group2.Two"}
    assert [m.name for m in read(tmp_path, {"outputs": outputs}).received][-2:] == [
        "Group2",
        "Slow",
    ]
    outputs = {**TABLE["outputs"], "one": "Group1.One"}
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, {"outputs": outputs})
    (problem,) = caught.value.problems
    assert "message Group1 (0x18EF0001) or Urgent1 (0xCEF0001)" in problem
    assert "set messages.NAME.source to the sender" in problem
    assert read(tmp_path, {"outputs": outputs, "messages": {"Group1": {"source": 7}}})


def test_a_multiplexer_beyond_its_message_is_named_for_all_that_depend_on_it(
    tmp_path: Path,
) -> None:
    outputs = {"a": "Temps.Always", "o": "Temps.Oil", "w": "Temps.Water", "speed": "Fast.Speed"}
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, {"outputs": outputs})
    oil, water = caught.value.problems
    assert "Temps.Oil" in oil
    assert "Temps.Water" in water
    del outputs["o"], outputs["w"]
    assert read(tmp_path, {"outputs": outputs}).received[0].name == "Temps"


def test_a_protection_may_stand_where_nothing_is_sent(tmp_path: Path) -> None:
    change = {"messages": {"Demand": {"protection": {"method": "e2e1", "data_id": 1, "offset": 4}}}}
    assert read(tmp_path, change).options.messages["Demand"].protection


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    change = {
        "inputs.pedal.max_rate": None,
        "outputs.torque": "Fast.Toque",
        "bus.interface": "none",
        "safe_profile.order": ["x"],
    }
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, change)
    assert len(caught.value.problems) == 4


def test_ports_are_known_although_there_are_problems(tmp_path: Path) -> None:
    change = {"inputs.pedal.max_rate": None, "outputs.torque": "Fast.Toque"}
    with pytest.raises(PortsError) as caught:
        read(tmp_path, change)
    ports = caught.value.ports
    assert [(p.name, p.unit) for p in ports.inputs] == [("speed_demand", "rad/s"), ("pedal", "%")]
    assert [(p.name, p.unit) for p in ports.outputs] == [
        ("torque", UNSTATED),
        ("speed", "rad/s"),
        ("rpm", "rpm"),
    ]
    assert caught.value.unclear == {"torque"}


def test_without_its_database_the_rest_of_a_table_is_still_checked(tmp_path: Path) -> None:
    with pytest.raises(PortsError) as caught:
        read(tmp_path, {"database": "none.dbc", "inputs.pedal.safe": None, "messages": {"X": {}}})
    assert len(caught.value.problems) == 2
    assert caught.value.unclear == {"torque", "speed", "rpm", "speed_demand", "pedal"}


def test_a_message_of_an_input_that_is_misspelt_is_not_called_unused(tmp_path: Path) -> None:
    change = {
        "inputs.speed_demand.signal": "Mode.Mode",
        "messages": {"Modes": {"values": {"Level": 1.0}}},
    }
    with pytest.raises(PortsError, match="did you mean 'Modes'") as caught:
        read(tmp_path, change)
    assert len(caught.value.problems) == 1


def test_an_enumeration_s_values_are_compared_as_the_signal_carries_them(tmp_path, monkeypatch):
    """35 · 0.01 is 0.35000000000000003."""
    choices = 'VAL_ 128 Speed 35 "fast" 10 "slow" 0 "off" ;\n'
    monkeypatch.setitem(globals(), "DBC", DBC + choices)
    enumerated = {
        "inputs.speed_demand.enumerated": True,
        "inputs.speed_demand.max_rate": None,
        "inputs.speed_demand.max": 0.35,
        "inputs.speed_demand.safe": 0.35,
    }
    assert read(tmp_path, enumerated).limits.values == {0: [0.0, 0.1, 0.35]}
    with pytest.raises(ConfigError, match=r"safe = 0.34: is not in the value table"):
        read(tmp_path, {**enumerated, "inputs.speed_demand.safe": 0.34})


def test_messages_in_containers_are_measured_and_not_sent(tmp_path: Path) -> None:
    container_arxml(tmp_path)
    listening = {
        "database": "container.arxml",
        "bus.fd": True,
        "enable": None,
        "safe_profile": {},
        "inputs": {},
        "outputs": {"torque": "Fast.Torque", "temp": "Box.Slow.Temp"},
    }
    bench = read(tmp_path, listening)
    assert [message.name for message in bench.received] == ["Box"]
    assert list(bench.outputs) == ["torque", "temp"]
    with pytest.raises(ConfigError, match=r"bus: Box is a CAN FD message; add fd = true"):
        read(tmp_path, {**listening, "bus.fd": False})
    pedal = {**TABLE["inputs"]["pedal"], "signal": "Slow.Temp"}
    with pytest.raises(
        ConfigError, match=r"Slow would be sent in container Box; .* only be received"
    ):
        read(tmp_path, {**listening, "inputs": {"pedal": pedal}, "outputs": {"t": "Fast.Torque"}})
