"""An emulated bench whose messages are protected: what it sends, and what it believes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cantools
import msgspec
import pytest

from hilrt.bench.bench_on_bus import BenchOnBus
from hilrt.bench.disturb import Disturbance, ScenarioEvent, ScenarioFile
from hilrt.bench.emulate import make_bench
from hilrt.can.database import find_signal
from hilrt.can.frame import Frame
from hilrt.can.protection import MessageOptions
from hilrt.can.receiver import Receiver
from hilrt.can.sender import Sender
from hilrt.errors import ConfigError
from tests.can.small_database import Clock
from tests.protected_bench import DATABASE, MESSAGES, OPTIONS, protected_database

PROTECTED = cantools.database.load_string(protected_database(), "dbc")


class Loop:
    """The bench on a bus of two lists, in lock step with what a gateway sends and receives."""

    def __init__(self, folder: Path, *events: ScenarioEvent) -> None:
        path = folder / "protected.dbc"
        path.write_text(protected_database())
        disturbance = Disturbance(ScenarioFile(seed=3, events=list(events))) if events else None
        self.bench = BenchOnBus(make_bench("engine"), path, disturbance, options=OPTIONS)
        self.bench.attach(self._drain, self._heard)
        ports = [find_signal(PROTECTED, s, "t") for s in ("DynoDemand.Speed", "EngineDemand.Pedal")]
        request = find_signal(PROTECTED, "DynoDemand.Enable", "t")
        self.sender = Sender(ports, request, "Alive", OPTIONS)
        outputs = {"speed": find_signal(PROTECTED, "EngineFast.ShaftSpeed", "t")}
        state = find_signal(PROTECTED, "EngineSlow.Enabled", "t")
        self.clock = Clock()
        self.receiver = Receiver(outputs, state, "Alive", 0.02, (), self.clock, OPTIONS)
        self.demands: list[Frame] = []
        self.fast: list[Frame] = []

    def _drain(self) -> list[Frame]:
        demands, self.demands = self.demands, []
        return demands

    def _heard(self, frame: Frame) -> None:
        if frame.can_id == 0x100:
            self.fast.append(frame)
        self.receiver.receive([frame])

    def run(self, first: int, last: int, flip: int | None = None) -> None:
        """Cycles of 1 ms with the same demands; with `flip`, that bit of each is damaged."""
        for n in range(first, last):
            self.demands = self.sender.frames([100.0, 20.0], True)
            if flip is not None:
                self.demands = [flipped(frame, flip) for frame in self.demands]
            self.clock.pass_(1e-3)
            self.bench.cycle(1e-3 * n)


def flipped(frame: Frame, bit: int) -> Frame:
    word = int.from_bytes(frame.data, "little") ^ 1 << bit
    return frame._replace(data=word.to_bytes(len(frame.data), "little"))


def test_protected_both_ways(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run(0, 1000)
    assert loop.receiver.enabled
    assert loop.receiver.y[0] == pytest.approx(100.0, abs=0.5)
    counters = {name: n for name, n in loop.receiver.counters.items() if n}
    assert counters == {"frames": 1100}  # none damaged, none lost by the header's counter
    assert [frame.data[1] & 0x0F for frame in loop.fast] == [n % 15 for n in range(1000)]
    assert (loop.bench.received, loop.bench.checksum_errors) == (2000, 0)


@pytest.mark.parametrize("bit", [0, 20, 50, 60])
def test_a_damaged_demand_counts_as_none(tmp_path: Path, bit: int) -> None:
    loop = Loop(tmp_path)
    loop.run(0, 400)
    assert loop.receiver.enabled
    heard = loop.bench.heard_at
    loop.run(400, 600, flip=bit)
    assert loop.bench.checksum_errors == 400
    assert loop.bench.heard_at == heard
    assert not loop.receiver.enabled  # it fell back by itself, as without any demands
    assert loop.bench.bad_frames == 0


def test_frames_are_damaged_after_protection(tmp_path: Path) -> None:
    hit = ScenarioEvent(at=0.1005, duration=0.1, kind="damage", messages=["EngineFast"], share=1.0)
    loop = Loop(tmp_path, hit)
    loop.run(0, 300)
    assert loop.receiver.counters["checksum_errors"] == 100


def test_counter_faults_are_protected_as_they_are(tmp_path: Path) -> None:
    """A frozen or jumping counter is a fault of the sender: its checksum is right."""
    frozen = ScenarioEvent(at=0.1005, duration=0.05, kind="frozen_counter", messages=["EngineFast"])
    jump = ScenarioEvent(at=0.2005, duration=0.05, kind="counter_jump", messages=["EngineFast"])
    loop = Loop(tmp_path, frozen, jump)
    loop.run(0, 300)
    assert loop.receiver.counters["checksum_errors"] == 0
    assert loop.receiver.counters["repeated"] == 50
    assert loop.receiver.counters["lost"] == 50


def test_without_the_table_the_signals_of_checksums_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "checked.dbc"
    signal = " SG_ ShaftSpeed"
    text = DATABASE.read_text().replace(signal, f' SG_ Sum : 0|8@1+ (1,0) [0|0] "" G\n{signal}')
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        BenchOnBus(make_bench("engine"), path)
    assert "EngineFast has a signal 'Sum' that the bench does not send" in str(caught.value)
    assert "messages.EngineFast.protection if it is a checksum" in str(caught.value)


def test_a_database_may_describe_the_header(tmp_path: Path) -> None:
    """As communication descriptions do: checksum and counter of the profile as signals."""
    path = tmp_path / "protected.dbc"
    first = " SG_ ShaftSpeed"
    signals = ' SG_ Crc : 0|8@1+ (1,0) [0|255] "" G\n SG_ Alive : 8|4@1+ (1,0) [0|14] "" G\n'
    path.write_text(protected_database().replace(first, signals + first))
    sent: list[Frame] = []
    bench = BenchOnBus(make_bench("engine"), path, options=OPTIONS)
    bench.attach(tuple, sent.append)
    for n in range(20):
        bench.cycle(1e-3 * n)
    plain: Any = cantools.database.load_file(path).get_message_by_name("EngineFast")
    counts = [plain.decode(frame.data)["Alive"] for frame in sent if frame.can_id == 0x100]
    assert counts == [n % 15 for n in range(20)]


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        ("EngineFast", {"protection": {"method": "e2e1"}}, "data_id: is missing"),
        (
            "EngineFast",
            {"protection": {"method": "e2e1", "data_id": 1, "offset": 2}},
            "signal 'ShaftSpeed' overlaps its protection",
        ),
        ("EngineDemand", {"counter": ""}, "message EngineDemand has no counter"),
        ("EngineDemand", {}, "name its signal in messages.EngineDemand.counter"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, name: str, changes: dict[str, Any], text: str
) -> None:
    path = tmp_path / "protected.dbc"
    path.write_text(protected_database())
    options = msgspec.convert({**MESSAGES, name: changes}, dict[str, MessageOptions])
    with pytest.raises(ConfigError, match=text):
        BenchOnBus(make_bench("engine"), path, options=options)
