"""Recorded traffic of real vehicles, decoded by us and by others: every sample, every timestamp."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import cantools
import numpy as np
import pytest
from cantools.database.can import Database

from hilrt.can.database import SignalRef, load_database
from hilrt.can.frame import EXTENDED, Frame
from hilrt.can.id_table import IdTable
from hilrt.can.receiver import Receiver
from hilrt.logs.open_source import open_source
from hilrt.record.logged_frame import FrameFlag

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LOG, CAR = DATA / "car_pedal.candump.log", DATA / "car.dbc"
MDF, TRUCK = DATA / "truck_j1939.mf4", DATA / "truck_j1939.dbc"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the recordings are not there")


class Sample(NamedTuple):
    """What one frame says: its time, ns, and all signals of its message."""

    t_ns: int
    values: dict[str, Any]


class Decoded(NamedTuple):
    samples: dict[str, list[Sample]]  # by message
    refused: dict[str, int]


def frames_of(path: Path) -> list[Frame]:
    source = open_source(path, "log")
    try:
        return [
            Frame(
                f.identifier | (EXTENDED if f.flags & FrameFlag.EXTENDED else 0), f.data, f.time_ns
            )
            for f in source.frames()
        ]
    finally:
        source.close()


def received(frames: Iterable[Frame], path: Path) -> Decoded:
    """What the gateway's receiver takes, with all signals of the database as outputs."""
    messages = load_database(path, "database").messages
    refs = {f"{m.name}.{s.name}": SignalRef(m, s) for m in messages for s in m.signals}
    message_of = IdTable((message, message.name) for message in messages)
    now = 0
    rx = Receiver(refs, None, "", 1000.0, clock=lambda: now)
    samples, refused = defaultdict(list), Counter[str]()
    for frame in frames:
        now = frame.t_ns  # the device's clock is ours: times of validity are the recorded ones
        name = message_of.find(frame.can_id)
        new = rx.receive([frame])
        if name is None:
            assert not new
        elif not new:
            refused[name] += 1
        else:
            indices = [i for i, ref in enumerate(refs.values()) if ref.message.name == name]
            assert {rx.t_valid_ns[i] for i in indices} == {frame.t_ns}
            values = {list(refs.values())[i].signal.name: rx.y[i] for i in indices}
            samples[name].append(Sample(frame.t_ns, values))
    assert sum(refused.values()) == rx.counters["decode_errors"]
    return Decoded(dict(samples), dict(refused))


def plainly_decoded(path: Path, database: Database) -> Decoded:
    """A candump log read and decoded without the package."""
    known = {message.frame_id: message for message in database.messages}
    samples, refused = defaultdict(list), Counter[str]()
    for line in path.read_text().splitlines():
        match = re.fullmatch(r"\((\d+)\.(\d{6})\) \w+ ([0-9A-F]{3})#([0-9A-F]*)", line)
        assert match, line
        message = known.get(int(match[3], 16))
        if message is None:
            continue
        try:
            values: Any = message.decode(bytes.fromhex(match[4]), decode_choices=False)
        except cantools.database.DecodeError:
            refused[message.name] += 1
        else:
            samples[message.name].append(Sample(int(match[1] + match[2]) * 1000, values))
    return Decoded(dict(samples), dict(refused))


def test_candump_log_against_cantools() -> None:
    plain = cantools.database.load_file(CAR, strict=False)
    ours, expected = received(frames_of(LOG), CAR), plainly_decoded(LOG, plain)
    # All that the log has of the database; of three messages the frames are too short.
    assert len(expected.samples) == 11
    assert expected.refused == {"BOOLS": 16, "LONG_TERM_MSG": 7, "LOW_RES_INDICATORS": 14}
    assert ours.refused == expected.refused
    assert ours.samples == expected.samples
    assert sum(len(samples) for samples in ours.samples.values()) == 775
    assert len(ours.samples["COMMAND"]) == 228


def test_mdf_of_a_truck_against_asammdf() -> None:
    """J1939: the recording's source addresses are not those of the database."""
    asammdf = pytest.importorskip("asammdf")
    ours = received(frames_of(MDF), TRUCK)
    assert ours.refused == {}
    with asammdf.MDF(MDF) as mdf:
        start_ns = round(mdf.start_time.timestamp() * 1e9)
        reference = mdf.extract_bus_logging({"CAN": [(TRUCK, 0)]})
        counts = {"EEC1": 12719, "CCVS1": 1272}
        assert {name: len(samples) for name, samples in ours.samples.items()} == counts
        for name, signal in (("EEC1", "EngineSpeed"), ("CCVS1", "WheelBasedVehicleSpeed")):
            expected = reference.get(signal)
            times = [(sample.t_ns - start_ns) * 1e-9 for sample in ours.samples[name]]
            values = [sample.values[signal] for sample in ours.samples[name]]
            np.testing.assert_allclose(times, expected.timestamps, rtol=0, atol=2e-9)
            np.testing.assert_array_equal(values, expected.samples)
        reference.close()
