from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hilrt import load_log
from hilrt.errors import ConfigError
from hilrt.logs.cut import cut, merge
from hilrt.logs.log_file import LogFile, read_contents
from tests.logs.made import bits, frame_log, rows_of, session_log, some_frames, two_rates


def test_a_part_keeps_its_times_and_everything_that_belongs_to_it(tmp_path: Path) -> None:
    log = session_log(tmp_path)
    cut(log, tmp_path / "part.mcap", start_s=1.0, end_s=2.0)
    part, whole = load_log(tmp_path / "part.mcap"), load_log(log)
    assert part.t[0] == 1.0
    assert part.t[-1] == 2.0
    np.testing.assert_array_equal(bits(rows_of(part.path)), bits(rows_of(log)[1000:2001]))
    assert part.units == whole.units
    assert part.sources == whole.sources
    assert [e.cause for e in part.events] == ["alarm"]
    assert part.attachments == {"session.toml": b"[session]\n", "whole_summary.json": b"{}"}
    assert part.metadata["epoch_ns"] == whole.metadata["epoch_ns"]
    assert part.metadata["cut.of"] == "session.mcap"
    assert (part.metadata["rows"], part.metadata["rows_missing"]) == ("1001", "0")
    assert not part.truncated


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(1, 1498))
def test_parts_merged_are_the_whole_again(tmp_path: Path, at: int) -> None:
    log = tmp_path / "session.mcap"
    if not log.exists():
        session_log(tmp_path, 1500)
    parts = [tmp_path / "one.mcap", tmp_path / "two.mcap"]
    cut(log, parts[0], end_s=at / 1000, replace=True)
    cut(log, parts[1], start_s=(at + 0.5) / 1000, replace=True)
    done = merge(parts, tmp_path / "both.mcap", replace=True)
    both, whole = load_log(tmp_path / "both.mcap"), load_log(log)
    np.testing.assert_array_equal(bits(rows_of(both.path)), bits(rows_of(log)))
    np.testing.assert_array_equal(both.time_ns(both.names[0]), whole.time_ns(whole.names[0]))
    assert both.events == whole.events
    assert done.messages == sum(t.messages for t in read_contents(log).topics)
    assert both.metadata["rows_missing"] == "0"


def test_a_gap_in_a_merged_log_is_counted(tmp_path: Path) -> None:
    log = session_log(tmp_path)
    cut(log, tmp_path / "one.mcap", end_s=1.0)
    cut(log, tmp_path / "two.mcap", start_s=2.0)
    merge([tmp_path / "one.mcap", tmp_path / "two.mcap"], tmp_path / "both.mcap")
    both = load_log(tmp_path / "both.mcap")
    assert (both.metadata["rows"], both.metadata["rows_missing"]) == ("2001", "999")


def test_topics_can_be_chosen(tmp_path: Path) -> None:
    log = two_rates(tmp_path / "log.mcap")
    cut(log, tmp_path / "part.mcap", topics=["slow"])
    assert load_log(tmp_path / "part.mcap").names == ["slow.x"]
    with pytest.raises(ConfigError, match="has no topic flow; there is fast, slow"):
        cut(log, tmp_path / "other.mcap", topics=["flow"])


def test_a_log_that_was_cut_off_can_be_cut(tmp_path: Path) -> None:
    log = session_log(tmp_path)
    log.write_bytes(log.read_bytes()[:-20000])
    done = cut(log, tmp_path / "part.mcap", end_s=0.01)
    assert len(load_log(tmp_path / "part.mcap").t) == 11
    assert "truncated after" in done.notes[0]


def test_frames_can_be_cut(tmp_path: Path) -> None:
    frames = some_frames()
    log = frame_log(tmp_path / "log.mcap", frames)
    cut(log, tmp_path / "part.mcap", start_s=(frames[20].time_ns - frames[0].time_ns) / 1e9)
    assert list(LogFile(tmp_path / "part.mcap").frames()) == frames[20:]


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"start_s": 2.0, "end_s": 1.0}, "is after --until 1 s"),
        ({"start_s": 4.0}, "lasts from 0 s to 2.999 s"),
        ({"end_s": -1.0}, "are outside"),
    ],
)
def test_span_outside_of_the_log(tmp_path: Path, span: dict[str, float], message: str) -> None:
    log = session_log(tmp_path)
    with pytest.raises(ConfigError) as caught:
        cut(log, tmp_path / "part.mcap", **span)
    assert message in str(caught.value)


def test_different_logs_side_by_side(tmp_path: Path) -> None:
    session = session_log(tmp_path)
    other = two_rates(tmp_path / "rates.mcap")
    merge([session, other], tmp_path / "both.mcap")
    both = load_log(tmp_path / "both.mcap")
    assert both.metadata["session"] == "drive"
    assert both.metadata["merged.1.session"] == "two rates"
    assert both.attachments["summary.json"] == b"{}"  # still the only session
    np.testing.assert_array_equal(bits(both["slow.x"]), bits(load_log(other)["slow.x"]))
    np.testing.assert_array_equal(both.time_ns("slow.x"), np.arange(30) * 100_000_000)
    np.testing.assert_array_equal(bits(both["engine.torque"]), bits(rows_of(session)[:, 0]))


def test_shift_and_align_move_a_log(tmp_path: Path) -> None:
    session = session_log(tmp_path)
    frames = frame_log(tmp_path / "frames.mcap", some_frames(10))
    merge([session, frames], tmp_path / "aligned.mcap", align=True)
    contents = read_contents(tmp_path / "aligned.mcap")
    assert (contents.start_ns, contents.end_ns) == (0, 2_999_000_000)
    rates = two_rates(tmp_path / "rates.mcap")
    merge([session, rates], tmp_path / "moved.mcap", shifts_s=[0.0, 0.25])
    assert load_log(tmp_path / "moved.mcap").time("slow.x")[0] == 0.25


def test_same_signals_with_other_meaning_get_a_name_of_their_own(tmp_path: Path) -> None:
    one, two = session_log(tmp_path / "a"), session_log(tmp_path / "b")
    cut(two, tmp_path / "short.mcap", topics=["timing"])
    rates = two_rates(tmp_path / "rates.mcap")
    merge([one, tmp_path / "short.mcap", rates], tmp_path / "all.mcap")
    assert len(load_log(tmp_path / "all.mcap")["master:step"]) == 6000
    with pytest.raises(ConfigError, match="at least two"):
        merge([one], tmp_path / "x.mcap")
