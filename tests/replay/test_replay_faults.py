"""Sessions with faults and changed parameters: a replay makes every one again."""

import numpy as np
import pytest

import hilrt
from hilrt.record.reader import load_log
from hilrt.replay.replay_log import replay
from hilrt.step.observer import Observer
from hilrt.studies.what_if import what_if
from tests.replay.recording_tools import CONFIGS, record_file

PLACES = (
    'output = "mass2.x"',
    'output = "mass1.force"',
    'connection = "mass2.v -> mass1.v2"',
    'connection = "mass1.force -> mass2.force"',
    'input = "mass1.x2"',
    'input = "mass2.force"',
)
KINDS = {
    "constant": 3.0,
    "stuck": None,
    "offset": 0.5,
    "gain": 0.8,
    "noise": 0.3,
    "drift": 2.0,
    "quantise": 0.25,
}


def twenty():
    """Faults of all kinds at all places, at times of their own, by conditions, and by commands."""
    texts = []
    for k in range(20):
        kind = list(KINDS)[k % 7]
        lines = [f'name = "f{k}"', f'kind = "{kind}"', PLACES[k % 6], f"seed = {k}"]
        if KINDS[kind] is not None:
            lines.append(f"value = {KINDS[kind]}")
        if k % 4 == 1:
            lines += ['start_when = "mass2.x > 0.1"', 'end_when = "mass2.x < -0.1"']
        elif k % 4:
            lines += [f"start = {0.01 * k}", f"end = {0.01 * k + 0.05}"]
        texts.append("\n".join(["[[faults]]", *lines]))
    return "\n".join(texts)


ADJUSTABLE = """
[monitor.adjust."parameters.mass1.kc"]
min = 50
max = 200
[monitor.adjust."parameters.mass2.k"]
min = 500
max = 2000
"""


class Operator(Observer):
    """Begins and ends the faults that wait for it, one after another, and changes stiffnesses."""

    name = "operator"

    def __init__(self, changes):
        self.changes = changes

    def stepped(self, turn):
        tick = turn.point.tick
        if tick % 5 == 0:
            self.changes.add(f"faults.f{4 * (tick // 5 % 5)}", float(tick // 25 % 2 == 0))
        if tick % 18 == 9 and tick < 360:
            own, value = ("mass1.kc", 51.0) if tick % 36 == 9 else ("mass2.k", 501.0)
            self.changes.add(f"parameters.{own}", value + tick / 3.0)


@pytest.fixture
def session(tmp_path):
    path = tmp_path / "faulty.toml"
    text = (CONFIGS / "two_mass.toml").read_text() + twenty() + ADJUSTABLE
    path.write_text(text.replace("hilrt.models.two_mass:", "tests.adjustable_masses:"))
    return path


def test_twenty_faults_and_twenty_parameter_changes_are_made_again_bit_for_bit(session, tmp_path):
    def watch(master):
        master.observers.present += (Operator(master.numerics.changes),)

    path = record_file(str(session), tmp_path / "log", duration=0.4, on_master=watch)
    outcome = replay(path)
    assert outcome.difference is None
    assert outcome.steps == 401
    log = load_log(path)
    acted = {k: int(np.nansum(log[f"fault:f{k}"])) for k in range(20)}
    assert min(acted.values()) > 10, acted
    assert acted[2] == 50
    stiffness = np.diff(log["parameter:mass1.kc"]), np.diff(log["parameter:mass2.k"])
    assert [np.count_nonzero(changes) for changes in stiffness] == [10, 10]
    assert np.any(log["mass2.x:faulted"][1:] != log["mass2.x"][1:])


def test_what_if_a_fault_were_another(session, tmp_path):
    path = record_file(str(session), tmp_path / "log", duration=0.2)
    found = what_if(path, ["faults.f2.value=5.0", "faults.f1.start_when=mass2.x > 0"])
    assert "mass1.v2:sent" in {signal.name for signal in found.signals}


def test_two_simulations_agree_bit_for_bit(session):
    a, b = (hilrt.simulate(session, {"session.duration": 0.3}).log for _ in range(2))
    for name in ("mass1.force", "mass2.x:faulted", "mass1.v2:sent"):
        assert a[name].tobytes() == b[name].tobytes()
    texts = [event.text for event in a.events if event.cause == "fault_injected"]
    assert "fault f2 (offset) begins at mass2.v -> mass1.v2" in texts
    assert "fault f2 (offset) ends at mass2.v -> mass1.v2" in texts
