"""A recording begins where there is room for its first minute; what the rest lacks is told."""

from types import SimpleNamespace

import pytest

from hilrt.errors import ConfigError
from hilrt.session import recording_watch
from hilrt.session.recording_watch import RowsToCome, compare_room, require_room

MB = 1_000_000
#: 0.4 MB of values each second of an hour, half of it in the file.
HOUR = RowsToCome(signals=500, step=0.01, duration=3600.0)


@pytest.fixture
def free(monkeypatch):
    """Sets what is free on the disk, MB."""

    def set_free(megabytes):
        usage = SimpleNamespace(free=round(megabytes * MB))
        monkeypatch.setattr(recording_watch.shutil, "disk_usage", lambda folder: usage)

    return set_free


def test_no_recording_begins_without_room(tmp_path, free):
    require_room(tmp_path)
    free(42)
    with pytest.raises(ConfigError, match="42 MB are free, and a recording needs at least 50 MB"):
        require_room(tmp_path)


def test_room_for_the_first_minute_is_needed_and_more_is_told_of(tmp_path, free):
    free(17 + 720)
    assert compare_room(tmp_path, HOUR) == ""
    free(17 + 700)
    told = compare_room(tmp_path, HOUR)
    assert told.startswith("717 MB are free, and the 3600 s of the session need about 720 MB (500 ")
    free(17 + 11)
    with pytest.raises(ConfigError, match=r"60 s of 500 signals every 10 ms need about 12 MB"):
        compare_room(tmp_path, HOUR)


def test_a_session_shorter_than_a_minute_needs_no_more_than_it_writes(tmp_path, free):
    free(17 + 3)
    assert compare_room(tmp_path, HOUR._replace(duration=10.0)) == ""
    with pytest.raises(ConfigError, match=r"20 s of 500 signals"):
        compare_room(tmp_path, HOUR._replace(duration=20.0))
