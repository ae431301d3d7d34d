"""Recorded traffic of real vehicles, decoded by us and by others: every sample, every timestamp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import can
import cantools
import numpy as np
import pytest

from hilrt_adapters.can import find_signal, load_database
from hilrt_adapters.can_frame import EXTENDED, Frame, from_message
from hilrt_adapters.can_receive import Receiver

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the recordings are not there")


def decoded(frames: list[Frame], database: Path, signals: list[str]) -> list[list[float]]:
    """For each frame of the signals' messages: its time [s], then the newest values."""
    loaded = load_database(database, "database")
    refs = {name: find_signal(loaded, name, "outputs") for name in signals}
    rx = Receiver(refs, None, "", 1.0)
    rows = []
    for frame in frames:
        if rx.take([frame._replace(t_ns=0)]):
            rows.append([frame.t_ns * 1e-9, *rx.y])
    assert rx.counters["decode_errors"] == 0
    return rows


def test_candump_log_against_cantools() -> None:
    messages = list(can.LogReader(DATA / "car_pedal.candump.log"))
    names = ["ACC_PEDAL_MEAN", "ACC_COMMAND", "ACC_PEDAL_SENSOR"]
    rows = decoded(
        [from_message(message) for message in messages],
        DATA / "car.dbc",
        [f"COMMAND.{name}" for name in names],
    )
    plain = cantools.database.load_file(DATA / "car.dbc", strict=False)
    expected = []
    for message in messages:
        if message.arbitration_id == 0x2C1:
            values: Any = plain.decode_message(0x2C1, message.data, decode_choices=False)
            expected.append([message.timestamp, *(values[name] for name in names)])
    assert len(rows) == len(expected) == 228
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-6)
    assert [row[1:] for row in rows] == [row[1:] for row in expected]


def test_mdf_of_a_truck_against_asammdf() -> None:
    """J1939: the recording's source addresses are not those of the database."""
    mdf = pytest.importorskip("asammdf").MDF(DATA / "truck_j1939.mf4")
    with mdf:
        ids = mdf.get("CAN_DataFrame.ID")
        data = mdf.get("CAN_DataFrame.DataBytes")
        frames = [
            Frame(EXTENDED | int(can_id) & 0x1FFFFFFF, bytes(payload), round(t * 1e9))
            for can_id, payload, t in zip(ids.samples, data.samples, ids.timestamps, strict=True)
        ]
        reference = mdf.extract_bus_logging({"CAN": [(DATA / "truck_j1939.dbc", 0)]})
        for signal in ("EEC1.EngineSpeed", "CCVS1.WheelBasedVehicleSpeed"):
            expected = reference.get(signal.partition(".")[2])
            rows = np.array(decoded(frames, DATA / "truck_j1939.dbc", [signal]))
            # asammdf leaves out what J1939 reserves for "error" and "not available"
            raw_valid = rows[:, 1] <= expected.samples.max() + 1e-9
            np.testing.assert_allclose(rows[raw_valid, 0], expected.timestamps, rtol=0, atol=2e-9)
            np.testing.assert_array_equal(rows[raw_valid, 1], expected.samples)
            assert len(expected.samples) > 1000
        reference.close()
