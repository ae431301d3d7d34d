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
    bus = BenchOnBus(node, DATABASE, options=node.counters)
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


@pytest.mark.parametrize(
    ("node", "options", "text"),
    [
        ("Bensch", {}, "no node 'Bensch'; did you mean 'Bench'"),
        ("Bench", {"values": ["EngineSlow.Stat=1"]}, "EngineSlow.Stat is no such signal"),
        ("Bench", {"values": ["EngineSlow.State"]}, "write it as MESSAGE.SIGNAL=VALUE"),
        ("Bench", {"values": ["Alive=1"]}, "is in several messages"),
        ("Bench", {"values": ["EngineFast.Alive=1"]}, "counts frames, or selects their form"),
        ("Bench", {"values": ["EngineSlow.State=ON"]}, "no number and no name of its values"),
        ("Bench", {"values": ["EngineSlow.State=1000"]}, "its bits carry 0 to"),
        ("Gateway", {"solver": Lagging()}, "port DynoDemand.Speed is no such signal"),
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


class Short(Lagging):
    """Answers with one number where it has two outputs."""

    def advance(self, t, h, u):
        return Sample(np.zeros(1))


def test_what_a_solver_returns_is_checked():
    with pytest.raises(SolverError, match=r"Short\.advance"):
        run(2, solver=Short())
