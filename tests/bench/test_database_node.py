"""A node of a database on a bus: what it sends is read back by cantools."""

from dataclasses import replace
from pathlib import Path

import cantools
import numpy as np
import pytest

from hilrt.bench.bench_on_bus import BenchOnBus
from hilrt.bench.emulate import main
from hilrt.can.frame import Frame
from hilrt.errors import ConfigError, SolverError
from hilrt.hosting.database_node import DatabaseNode, NodeOptions, node_emulation
from hilrt.solver import Port, Sample, Solver

DATABASE = Path(__file__).parents[2] / "bench_configs" / "engine_bench.dbc"
MESSAGES = cantools.database.load_file(DATABASE)


class Lagging(Solver):
    """The shaft follows the demanded speed by a first-order lag of 50 ms."""

    inputs = (Port("DynoDemand.Speed"),)
    outputs = (Port("ShaftSpeed"), Port("EngineFast.ShaftTorque"))

    def __init__(self):
        self.speed = 0.0

    def initialize(self, t0, u0):
        return Sample(np.array([self.speed, 0.0]))

    def advance(self, t, h, u):
        wanted = u(t)[0]
        self.speed = wanted + (self.speed - wanted) * np.exp(-h / 0.05)
        return Sample(np.array([self.speed, 1e9]))


def run(cycles, demand=None, **options):
    """Frames of a node, decoded by cantools: time and values, by message."""
    node = DatabaseNode(DATABASE, NodeOptions("Bench", **options))
    bus = BenchOnBus(node, DATABASE, options=node.messages)
    sent, incoming, now = {}, [], [0.0]

    def take(frame):
        message = MESSAGES.get_message_by_frame_id(frame.can_id)
        values = message.decode(frame.data, decode_choices=False)
        sent.setdefault(message.name, []).append((now[0], values))

    bus.attach(lambda: incoming, take)
    for k in range(1, cycles + 1):
        incoming = []
        if demand is not None:
            message = MESSAGES.get_message_by_name("DynoDemand")
            names = {signal.name: 0 for signal in message.signals} | {"Speed": demand}
            incoming = [Frame(message.frame_id, message.encode(names, strict=False))]
        now[0] = k * 1e-3
        bus.cycle(now[0])
    return node, sent


def test_messages_come_at_the_times_of_the_database_with_counters():
    _, sent = run(40)
    for name in ("EngineFast", "EngineSlow"):
        cycle = MESSAGES.get_message_by_name(name).cycle_time
        assert len(sent[name]) == 40 // cycle
        alive = [values["Alive"] for _, values in sent[name]]
        modulus = 1 << MESSAGES.get_message_by_name(name).get_signal_by_name("Alive").length
        assert alive == [k % modulus for k in range(len(alive))]
        np.testing.assert_allclose(np.diff([t for t, _ in sent[name]]), cycle * 1e-3)


def test_constants_are_numbers_or_names_of_an_enumeration():
    _, sent = run(
        11, values=["EngineSlow.State=ENABLED", "CoolantTemp=85.5", "EngineSlow.Mode=TORQUE"]
    )
    _, values = sent["EngineSlow"][-1]
    assert (values["State"], values["Mode"]) == (3, 1)
    assert values["CoolantTemp"] == pytest.approx(85.5, abs=0.05)


def test_a_solver_answers_to_what_the_node_receives():
    _, sent = run(100, demand=200.0, solver=Lagging())
    t = np.array([t for t, _ in sent["EngineFast"]])
    speed = np.array([values["ShaftSpeed"] for _, values in sent["EngineFast"]])
    step = MESSAGES.get_message_by_name("EngineFast").get_signal_by_name("ShaftSpeed").scale
    np.testing.assert_allclose(speed, 200.0 * (1.0 - np.exp(-t / 0.05)), atol=step)
    torque = MESSAGES.get_message_by_name("EngineFast").get_signal_by_name("ShaftTorque")
    largest = ((1 << (torque.length - 1)) - 1) * torque.scale + torque.offset
    assert sent["EngineFast"][-1][1]["ShaftTorque"] == pytest.approx(largest)


def test_expressions_of_time_and_of_received_signals_drive_signals():
    told = [
        'CoolantTemp=60 + 20*sin(unit(10*pi*time, "rad"))',
        "ShaftSpeed=lowpass(DynoDemand.Speed, 0.05)",
    ]
    _, sent = run(200, demand=200.0, values=told)
    t = np.array([t for t, _ in sent["EngineSlow"]])
    warm = np.array([values["CoolantTemp"] for _, values in sent["EngineSlow"]])
    np.testing.assert_allclose(warm, 60.0 + 20.0 * np.sin(2 * np.pi * t / 0.2), atol=0.51)
    _, values = sent["EngineFast"][-1]
    assert values["ShaftSpeed"] == pytest.approx(200.0, rel=0.01)  # it starts at its first sample


CHECKED = """VERSION ""
BU_: Bench Gateway
BO_ 291 Status: 4 Bench
 SG_ Speed : 0|16@1+ (0.1,0) [0|6000] "rpm" Gateway
 SG_ Counter : 16|4@1+ (1,0) [0|15] "" Gateway
 SG_ Checksum : 24|8@1+ (1,0) [0|255] "" Gateway
"""


def sent_status(tmp_path, *protections):
    """Raw frames of a node with a counter and a checksum, over 1 s."""
    path = tmp_path / "checked.dbc"
    path.write_text(CHECKED)
    options = NodeOptions("Bench", ["Speed=1234.5"], None, protections)
    node, frames = DatabaseNode(path, options), []
    bus = BenchOnBus(node, path, options=node.messages)
    bus.attach(list, frames.append)
    for k in range(1, 1001):
        bus.cycle(k * 1e-3)
    return node, [frame.data for frame in frames]


def test_a_checksum_is_computed_as_it_is_told(tmp_path):
    node, frames = sent_status(tmp_path, "Status=xor,start=7")
    assert len(frames) == 10  # no cycle time: every 100 ms
    for k, data in enumerate(frames):
        assert data[0] + 256 * data[1] == 12345
        assert data[2] == k
        assert data[3] == data[0] ^ data[1] ^ data[2] ^ 7
    assert not any("checksum" in remark for remark in node.remarks)
    node, frames = sent_status(tmp_path)
    assert {data[3] for data in frames} == {0}
    assert any("stays 0 without --protect" in remark for remark in node.remarks)
    with pytest.raises(ConfigError, match=r"--protect Status=xxor: Invalid enum value"):
        sent_status(tmp_path, "Status=xxor")
    with pytest.raises(ConfigError, match=r"--protect Stats=xor: is not sent; did you mean"):
        sent_status(tmp_path, "Stats=xor")


@pytest.mark.parametrize(
    ("node", "options", "text"),
    [
        ("Bench", {"values": ["CoolantTemp=sin(tim)"]}, "tim"),
        ("Bensch", {}, "no node 'Bensch'; did you mean 'Bench'"),
        ("Bench", {"values": ["EngineSlow.Stat=1"]}, "EngineSlow.Stat does not exist"),
        ("Bench", {"values": ["EngineSlow.State"]}, "write it as MESSAGE.SIGNAL=VALUE"),
        ("Bench", {"values": ["Alive=1"]}, "is in several messages"),
        ("Bench", {"values": ["EngineFast.Alive=1"]}, "counts frames, or selects a form"),
        ("Bench", {"values": ["EngineSlow.State=ON"]}, "neither a number nor a name of its values"),
        ("Bench", {"values": ["EngineSlow.State=1000"]}, "its bits can represent 0 to"),
        ("Gateway", {"solver": Lagging()}, "port DynoDemand.Speed does not exist"),
    ],
)
def test_what_does_not_fit_is_named(node, options, text):
    with pytest.raises(ConfigError, match=text):
        DatabaseNode(DATABASE, NodeOptions(node, **options))


def test_the_process_says_what_it_sent(capsys):
    bus = {"interface": "virtual", "channel": "node-of-a-database"}
    emulation = node_emulation(NodeOptions("Bench"), bus, DATABASE)
    assert main(replace(emulation, duration=0.02)) == 0
    assert "Bench ended after" in capsys.readouterr().err


def test_a_float_is_set_to_what_its_bits_carry_which_includes_infinity(tmp_path):
    database = tmp_path / "node.dbc"
    text = 'VERSION ""\nBU_: Bench Tester\nBO_ 256 Fast: 8 Bench\n'
    text += ' SG_ Torque : 0|32@1- (1,0) [0|0] "N*m" Tester\nSIG_VALTYPE_ 256 Torque : 1;\n'
    database.write_text(text)
    DatabaseNode(database, NodeOptions("Bench", values=["Fast.Torque=-inf"]))
    with pytest.raises(ConfigError, match=r"its bits can represent -3.40282e\+38 to 3.40282e\+38"):
        DatabaseNode(database, NodeOptions("Bench", values=["Fast.Torque=1e39"]))


class Short(Lagging):
    """Answers with one number where it has two outputs."""

    def advance(self, t, h, u):
        return Sample(np.zeros(1))


def test_what_a_solver_returns_is_checked():
    with pytest.raises(SolverError, match=r"Short\.advance"):
        run(2, solver=Short())
