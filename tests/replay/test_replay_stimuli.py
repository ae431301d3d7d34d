"""Sessions with stimuli: two runs agree bit for bit, a replay makes every one again."""

import numpy as np
import pytest

import hilrt
from hilrt.logs.import_file import import_file
from hilrt.record.reader import load_log
from hilrt.replay.replay_log import replay
from hilrt.studies.what_if import what_if
from tests.replay.recording_tools import CONFIGS, record_file

STIMULI = """
[[stimuli]]
name = "shaker"
input = "mass2.force"
repeat = "forever"
segments = [
  { shape = "noise", amplitude = 50.0, duration = 0.05, seed = 7 },
  { shape = "prbs", amplitude = 20.0, bits = 5, interval = 0.002 },
  { shape = "chirp", amplitude = 30.0, frequency = 5.0, to_frequency = 60.0, duration = 0.1 },
]
[[stimuli]]
name = "recorded"
input = "mass1.v2"
mode = "replace"
start = 0.1
end = 0.3
segments = [{ shape = "column", file = "drive.csv", signal = "v", scale = 2.0, shift = -0.05 }]
[[stimuli]]
name = "push"
input = "mass1.v2"
start = 0.31
start_when = "delay(rising_speed, 0.02) > 0"
end_when = "falling(mass2.v > 0)"
segments = [{ shape = "hold", value = 7.0 }]
[[calculated]]
name = "rising_speed"
unit = "m/s"
expression = "mass2.v"
"""


@pytest.fixture
def session(tmp_path):
    path = tmp_path / "shaken.toml"
    path.write_text((CONFIGS / "two_mass.toml").read_text() + STIMULI)
    t = np.arange(0.0, 1.0, 0.004)
    rows = [f"{a:.3f},{b:.9f}" for a, b in zip(t, 100.0 * np.sin(30.0 * t), strict=True)]
    (tmp_path / "drive.csv").write_text("\n".join(["time [s],v [km/h]", *rows]))
    return path


def test_a_replay_has_no_need_of_the_files(session, tmp_path):
    path = record_file(str(session), tmp_path / "log", duration=0.5)
    (tmp_path / "drive.csv").unlink()
    outcome = replay(path)
    assert outcome.difference is None
    assert outcome.steps == 501
    log = load_log(path)
    assert set(log["mass1.v2:source"][100:300]) == {1.0}
    assert set(log["mass1.v2:source"][:100]) | set(log["mass1.v2:source"][301:]) == {0.0}
    t = log.t[100:300] - 0.1
    at = np.arange(0.0, 1.0, 0.004)
    expected = 2.0 * np.interp(t + 0.05, at, 100.0 * np.sin(30.0 * at)) / 3.6
    np.testing.assert_allclose(log["mass1.v2:sent"][100:300], expected, rtol=1e-7, atol=1e-7)
    assert np.std(log["mass2.force:stimulus"]) > 10.0
    pushed, v = log["mass1.v2:stimulus"][311:] == 7.0, log["mass2.v"]
    begin, end = 311 + pushed.argmax(), 311 + len(pushed) - pushed[::-1].argmax()
    assert pushed.sum() == end - begin > 10
    late = v[291:481] > 0.0  # what the delay makes of ticks 311 to 500
    assert begin == 311 + late.argmax()
    assert v[end - 1] > 0.0 >= v[end]


def test_a_column_of_an_mcap_file_is_that_of_the_table_it_was_imported_from(session, tmp_path):
    import_file(tmp_path / "drive.csv", tmp_path / "drive.mcap")
    (tmp_path / "drive.csv").unlink()
    session.write_text(session.read_text().replace("drive.csv", "drive.mcap"))
    result = hilrt.simulate(session, {"session.duration": 0.3})
    t = result.log.t[100:299] - 0.1
    at = np.arange(0.0, 1.0, 0.004)
    expected = 2.0 * np.interp(t + 0.05, at, 100.0 * np.sin(30.0 * at)) / 3.6
    found = result.log["mass1.v2:sent"][100:299]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    assert result.summary["stimulus_columns"][0].startswith("v of drive.mcap: 238 rows")


def test_two_simulations_agree_bit_for_bit(session):
    first, second = (hilrt.simulate(session, {"session.duration": 0.4}) for _ in range(2))
    a, b = first.log, second.log
    for name in ("mass2.force:sent", "mass1.force", "mass1.v2:stimulus"):
        assert a[name].tobytes() == b[name].tobytes()
    (told,) = first.summary["stimulus_columns"]
    assert told.startswith("v of drive.csv: 238 rows over 0.946 s, read at every step by straight")
    texts = [event.text for event in a.events]
    assert told in texts
    told = " | ".join(f"{event.source}: {event.text}" for event in a.events)
    assert "stimulus recorded begins at mass1.v2" in told
    assert "mass1.v2: driven by its stimulus" in told
    assert "mass1.v2: driven by its connection" in told


def test_what_if_a_stimulus_were_another(session, tmp_path):
    path = record_file(str(session), tmp_path / "log", duration=0.2)
    for change in ("recorded.start=0.15", "push.start_when=mass2.v < 0"):
        assert what_if(path, [f"stimuli.{change}"]) is not None
