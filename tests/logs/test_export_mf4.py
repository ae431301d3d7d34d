from pathlib import Path

import can
import numpy as np
import pytest

from hilrt.logs.export_file import export_file
from hilrt.logs.source_can import from_message
from hilrt.record.logged_frame import FrameFlag
from tests.logs.made import (
    EPOCH_NS,
    bits,
    frame_log,
    rows_of,
    session_log,
    some_frames,
    two_rates,
)

asammdf = pytest.importorskip("asammdf")


def test_asammdf_reads_the_same_numbers_units_and_sources(tmp_path: Path) -> None:
    log = session_log(tmp_path, summary=b'{"verdict": "good"}')
    export_file(log, "mf4")
    with asammdf.MDF(tmp_path / "session.mf4") as mdf:
        names = ["engine.torque", "engine.speed", "master:step", "master:lateness"]
        read = [mdf.get(name) for name in names]
        rows = rows_of(log)
        for k, signal in enumerate(read):  # each at its own rate, without what is marked as invalid
            known = ~np.isnan(rows[:, k])
            np.testing.assert_array_equal(bits(signal.samples), bits(rows[known, k]))
            np.testing.assert_array_equal(signal.timestamps, np.flatnonzero(known) / 1000)
        held = mdf.get("engine.speed", ignore_invalidation_bits=True).samples
        assert len(held) == 3000
        last = np.maximum.accumulate(np.where(np.isnan(rows[:, 1]), 0, np.arange(3000)))
        assert np.isnan(rows[:, 1]).sum() == 1000
        np.testing.assert_array_equal(held, rows[last, 1])
        assert [signal.unit for signal in read] == ["N*m", "rad/s", "s", "us"]
        assert read[0].source.name == "EngineFast.ShaftTorque"
        assert mdf.header.abs_time == EPOCH_NS
        assert "session: drive" in mdf.header.comment
        files = {Path(str(mdf.extract_attachment(index=i)[1])).name for i in range(2)}
        assert files == {"session.toml", "summary.json"}
        assert mdf.extract_attachment(index=0)[0] == b"[session]\n"


def test_every_rate_has_a_group_of_its_own(tmp_path: Path) -> None:
    export_file(two_rates(tmp_path / "log.mcap"), "mf4")
    with asammdf.MDF(tmp_path / "log.mf4") as mdf:
        groups = {g.channel_group.acq_name: g.channel_group.cycles_nr for g in mdf.groups}
        assert groups == {"fast": 3000, "slow": 30}
        np.testing.assert_array_equal(mdf.get("slow.x").timestamps, np.arange(30) / 10)


def test_python_can_reads_the_frames(tmp_path: Path) -> None:
    frames = some_frames()
    export_file(frame_log(tmp_path / "log.mcap", frames), "mf4")
    with can.LogReader(tmp_path / "log.mf4") as reader:
        read = [from_message(message) for message in reader]
    assert read == frames


def test_python_can_reads_remote_and_error_frames(tmp_path: Path) -> None:
    frames = [f._replace(bus="1") for f in some_frames(4)]
    frames[1] = frames[1]._replace(flags=int(FrameFlag.ERROR))
    frames[2] = frames[2]._replace(flags=int(FrameFlag.REMOTE), data=b"", dlc=3)
    done = export_file(frame_log(tmp_path / "log.mcap", frames), "mf4")
    assert (done.frames, done.notes) == (4, [])
    with can.LogReader(tmp_path / "log.mf4") as reader:
        read = [from_message(message) for message in reader]
    assert [(f.identifier, f.flags) for f in read] == [(f.identifier, f.flags) for f in frames]
    assert read[2].dlc == 3
