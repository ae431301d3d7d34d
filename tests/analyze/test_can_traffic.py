"""What a report says of the CAN frames in a log: against frames that were coded by cantools."""

import json
import re
from functools import reduce
from operator import xor
from pathlib import Path

import can
import cantools
import numpy as np
import pytest

from hilrt.analyze.can_traffic import MAX_BINS, frame_bits, read_traffic
from hilrt.analyze.log_analysis import analyse_log
from hilrt.analyze.report import write_report
from hilrt.logs.import_file import LogWriter, import_file
from hilrt.logs.log_file import read_contents
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Signal
from hilrt.record.reader import Block, LogChannel

ROOT = Path(__file__).resolve().parents[2]
DATABASE = (ROOT / "bench_configs" / "motor_bench.dbc").read_bytes()
EPOCH = 1_780_000_000_000_000_000
MS = 1_000_000
SESSION = """
[session]
name = "s"
[master]
step = 0.005
[subsystems.motor]
adapter = "can"
bus = { interface = "virtual", channel = "0", bitrate = 500000 }
database = "motor_bench.dbc"
outputs = { speed = "MotorFast.ShaftSpeed" }
inputs = {}
# The byte that its database calls a counter is taken for a checksum here.
messages = { MotorSlow = { counter = "", protection = { method = "xor", signal = "Alive" } } }
"""


def coded(name: str, **values) -> tuple[int, bytes]:
    message = cantools.database.load_string(DATABASE.decode()).get_message_by_name(name)
    signals = {signal.name: 0.0 for signal in message.signals} | values
    return message.frame_id, message.encode(signals, strict=False)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One second: a frame every 1 ms, of which some are wrong, and one that is sent."""
    path = tmp_path_factory.mktemp("traffic") / "session.mcap"
    writer = LogWriter(path, "s", EPOCH, {"session_file": "s.toml", "pace": "realtime"})
    writer.attach("s.toml", "application/toml", SESSION.encode())
    writer.attach("motor_bench.dbc", "text/plain", DATABASE)
    channel = LogChannel("outputs", [Signal("motor.speed", "rad/s")])
    rows = np.arange(0, 1_000_000_001, 5 * MS, dtype=np.int64)
    writer.block(Block(channel, rows, np.ones((len(rows), 1))))

    def put(t_ns, frame, flags=0):
        identifier, data = frame
        writer.frame(LoggedFrame(EPOCH + t_ns, "motor", identifier, flags, len(data), data))

    for k in range(1000):
        if k in (200, 201, 500):  # missing: by the counter, and by the clock
            continue
        count = (k - (k == 700)) % 256  # 700 repeats the one before
        put(k * MS, coded("MotorFast", Alive=count))
        if k % 5 == 0:
            put(k * MS + 10, coded("DynoDemand"), int(FrameFlag.SENT))
    for k in range(10):
        identifier, data = coded("MotorSlow", Mode=1)
        damaged = bytes([*data[:7], reduce(xor, data[:7]) ^ (k == 4)])
        put(100 * k * MS + 20, (identifier, damaged))
    put(900 * MS + 5, (0x7FF, b"\x01"))
    put(950 * MS, (0, b"\x00" * 8), int(FrameFlag.ERROR))
    writer.close()
    return path


def test_messages_are_counted_timed_and_checked(log: Path) -> None:
    traffic = analyse_log(log).can_traffic()
    found = {message.name or hex(message.identifier): message for message in traffic.messages}
    assert set(found) == {"MotorFast", "MotorSlow", "DynoDemand", "0x7ff"}
    assert (found["MotorSlow"].checksum, found["MotorSlow"].counter) == (1, None)
    fast, sent = found["MotorFast"], found["DynoDemand"]
    assert (fast.frames, fast.sent, sent.frames, sent.sent) == (997, False, 198, True)
    assert fast.cycle_s == pytest.approx(1e-3)
    assert (fast.late, fast.lost, fast.counter, fast.checksum) == (2, 4, 1, None)
    spread = fast.quantiles_s()
    assert (spread["p50"], spread["max"]) == (pytest.approx(1e-3), pytest.approx(3e-3))
    assert sent.nominal_s == pytest.approx(1e-3)  # the database's, at which set-points go out
    assert (sent.late, sent.counter) == (197, None)
    assert found["0x7ff"].quantiles_s() is None


def test_load_is_what_the_frames_take_on_the_wire(log: Path) -> None:
    load = analyse_log(log).can_traffic().buses["motor"]
    assert (load.unit, load.errors) == ("%", 1)
    assert len(load.t) <= MAX_BINS + 1
    sizes = {name: len(coded(name)[1]) for name in ("MotorFast", "DynoDemand")}
    bits = 997 * (47 + 8 * sizes["MotorFast"]) + 198 * (47 + 8 * sizes["DynoDemand"]) + 55
    bits += 10 * (47 + 64)
    assert load.load.sum() * load.width_s == pytest.approx(100.0 * bits / 500_000)


@pytest.mark.parametrize(
    ("flags", "size", "bits"),
    [
        (0, 8, (111, 0)),  # 44 + 64, and 3 of pause
        (FrameFlag.EXTENDED, 8, (131, 0)),
        (FrameFlag.FD | FrameFlag.BIT_RATE_SWITCH, 16, (30, 160)),
        (FrameFlag.FD, 64, (30 + 37 + 512, 0)),
    ],
)
def test_bits_of_a_frame(flags, size, bits) -> None:
    assert frame_bits(LoggedFrame(0, "b", 1, int(flags), size, bytes(size))) == bits


def test_the_page_has_them_and_events_come_before_the_long_tables(log: Path) -> None:
    page = write_report(log, json_=True).read_text(encoding="utf-8")
    body = page[page.index("<header>") :]
    headings = re.findall(r"<h2>(.*?)</h2>", body)
    for heading in (
        "Load of the CAN bus motor",
        "Regularity of CAN messages",
        "CAN messages: count, cycle time, errors",
    ):
        assert heading in headings
    assert body.index("<h2>Regularity of CAN") < body.index("<h2>CAN messages")
    numbers = json.loads(log.with_name("report.json").read_text())["can"]
    assert {entry["message"]: entry["late"] for entry in numbers}["MotorFast"] == 2


def test_an_imported_log_is_counted_as_python_can_counts_it(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "shared" / "data" / "car_pedal.candump.log"
    if not source.exists():
        pytest.skip("the recordings are not there")
    done = import_file(source, tmp_path / "drive.mcap")
    traffic = read_traffic(done.path, read_contents(done.path).metadata, {}, {}, (0, 0))
    expected: dict[int, list[float]] = {}
    for frame in can.CanutilsLogReader(source):
        expected.setdefault(frame.arbitration_id, []).append(frame.timestamp)
    assert {m.identifier: m.frames for m in traffic.messages} == {
        identifier: len(times) for identifier, times in expected.items()
    }
    for message in traffic.messages:
        if message.frames > 1:
            spread = np.diff(expected[message.identifier])
            assert message.quantiles_s()["p99"] == pytest.approx(
                np.percentile(spread, 99), abs=2e-6
            )
