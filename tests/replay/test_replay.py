"""The decisions of recorded sessions, made again: the same to the last bit, or the first other."""

import pytest

from hilrt.record import snapshots
from hilrt.record.reader import load_log
from hilrt.replay.replay import replay
from tests.replay.recording_tools import record_file

PI = 'master.step_control={method="pi", tolerance=0.01, initial=1e-4}'

SESSIONS = [
    ("coupled_pendula.toml", 0.4, ()),
    ("hydraulic_crane.toml", 0.1, ()),
    ("nonlinear_chain.toml", 0.02, ()),
    ("nonlinear_coupling.toml", 0.1, ()),
    ("nonlinear_oscillator.toml", 0.4, ()),
    ("three_mass.toml", 0.4, ()),
    ("two_mass.toml", 0.4, ()),
    ("two_mass.toml", 0.4, ("bonds.spring.correction.method=feedthrough",)),
    ("two_mass_model.toml", 0.1, ()),
    ("two_mass_rotational.toml", 1.0, ()),
    ("two_mass_rotational.toml", 0.3, (PI,)),
]


@pytest.fixture(autouse=True)
def frequent_snapshots(monkeypatch):
    monkeypatch.setattr(snapshots, "EVERY_NS", 25_000_000)


@pytest.mark.parametrize(("name", "duration", "overrides"), SESSIONS)
def test_benchmark_problems_come_out_again(name, duration, overrides, tmp_path):
    path = record_file(name, tmp_path, *overrides, duration=duration)
    outcome = replay(path)
    assert outcome.difference is None
    assert outcome.tolerance == 0.0
    assert outcome.steps == len(load_log(path).t) > 10
    assert (outcome.begin, outcome.skipped, outcome.gaps) == (0.0, 0, [])
    assert outcome.end >= duration
    later = replay(path, start=0.5 * duration) if duration > 0.05 else None
    if later is not None:
        assert outcome.snapshots > 1
        assert later.difference is None
        assert later.begin > 0.5 * duration
        assert later.steps + later.skipped == outcome.steps
