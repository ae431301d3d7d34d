from pathlib import Path

import can
import pytest

from hilrt.errors import ConfigError
from hilrt.logs.export_file import export_file
from hilrt.logs.source_can import from_message
from hilrt.record.logged_frame import FrameFlag
from tests.logs.made import frame_log, session_log, some_frames


@pytest.mark.parametrize("suffix", ["blf", "log"])
def test_python_can_reads_the_same_frames_at_the_same_microseconds(
    tmp_path: Path, suffix: str
) -> None:
    frames = some_frames()
    done = export_file(frame_log(tmp_path / "log.mcap", frames), suffix)
    assert done.frames == len(frames)
    with can.LogReader(tmp_path / f"log.{suffix}") as reader:
        read = [from_message(message) for message in reader]
    prefix = "can" if suffix == "log" else ""  # candump names its buses
    assert read == [f._replace(bus=prefix + f.bus) for f in frames]


@pytest.mark.parametrize(("suffix", "resolution_ns"), [("asc", 2_000), ("trc", 2_000_000)])
def test_formats_of_relative_times(tmp_path: Path, suffix: str, resolution_ns: int) -> None:
    frames = [f for f in some_frames() if not f.flags & FrameFlag.FD and f.bus == "0"]
    export_file(frame_log(tmp_path / "log.mcap", frames), suffix)
    with can.LogReader(tmp_path / f"log.{suffix}") as reader:
        read = [from_message(message) for message in reader]
    assert [(f.identifier, f.data) for f in read] == [(f.identifier, f.data) for f in frames]
    for mine, theirs in zip(frames, read, strict=True):
        since = (mine.time_ns - frames[0].time_ns) - (theirs.time_ns - read[0].time_ns)
        assert abs(since) <= resolution_ns


def test_log_without_frames(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no CAN frames"):
        export_file(session_log(tmp_path), "blf")


def test_only_a_part(tmp_path: Path) -> None:
    frames = some_frames()
    span = (frames[50].time_ns - frames[0].time_ns) / 1e9
    done = export_file(frame_log(tmp_path / "log.mcap", frames), "blf", end_s=span)
    assert done.frames == 51
