"""The decisions of recorded sessions, made again: the same to the last bit, or the first other."""

import json

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from hilrt.cli.main import app
from hilrt.errors import RecordError
from hilrt.logs.cut import cut, merge
from hilrt.record import gate, mcap_writer
from hilrt.record.messages import (
    ADJUSTMENTS,
    ASIDE,
    ASIDES,
    JACOBIANS,
    SNAPSHOTS,
    Attachment,
    Begin,
    Signal,
    Topic,
)
from hilrt.record.reader import LogStream, load_log
from hilrt.record.recording import Recording
from hilrt.replay import replay_log as replay_module
from hilrt.replay.rebuild import read_recorded
from hilrt.replay.replay_log import as_json, describe, replay
from hilrt.step.observer import Observer
from hilrt.step_log import snapshot
from hilrt.studies.what_if import what_if
from tests.replay.recording_tools import record_file

PI = 'master.step_control={method="pi", tolerance=0.01, initial=1e-4}'
#: A correction that is found harmful and fades.
WRONG = (
    "bonds.spring.correction.method=feedthrough",
    'subsystems.mass1.jacobian={source="given", D=[[100.0, 0.0], [0.0, 0.0], [0.0, 0.0]]}',
)

SESSIONS = [
    ("contact_oscillator.toml", 0.02, ()),
    ("coupled_pendula.toml", 0.4, ()),
    ("hydraulic_crane.toml", 0.1, ()),
    ("nonlinear_chain.toml", 0.02, ()),
    ("nonlinear_coupling.toml", 0.1, ()),
    ("nonlinear_oscillator.toml", 0.4, ()),
    ("three_mass.toml", 0.4, ()),
    ("two_mass.toml", 0.4, ()),
    ("two_mass.toml", 0.4, ("bonds.spring.correction.method=feedthrough",)),
    ("two_mass.toml", 0.4, WRONG),
    ("two_mass.toml", 0.4, ("bonds.spring.correction.mu_range=[0.0, 1.0]",)),
    ("two_mass_model.toml", 0.1, ()),
    ("two_mass_rotational.toml", 1.0, ()),
    ("two_mass_rotational.toml", 0.3, (PI,)),
]


@pytest.fixture(autouse=True)
def frequent_snapshots(monkeypatch):
    monkeypatch.setattr(snapshot, "EVERY_NS", 25_000_000)


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


def test_a_gap_is_named_and_the_replay_goes_on_from_the_next_snapshot(tmp_path):
    path = record_file("two_mass.toml", tmp_path, duration=0.2, lost=range(60, 70))
    outcome = replay(path)
    assert outcome.difference is None
    gap = outcome.gaps[0]
    assert (gap.begin, gap.end, gap.missing) == pytest.approx((0.059, 0.07, 10))
    assert outcome.resumed == [pytest.approx(0.075)]
    assert (outcome.steps, outcome.skipped) == (60 + 125, 6)
    assert any("resumed from the snapshot at 0.075" in line for line in describe(outcome))


def test_what_was_recorded_around_triggers_is_replayed_from_the_snapshots_before(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(gate, "MARGIN_NS", 30_000_000)  # as far as from one snapshot to the next
    whole = load_log(record_file("two_mass.toml", tmp_path / "whole", duration=0.5))
    speed = whole["mass1.v"]
    crossed = float(np.quantile(speed, 0.02))
    hit = whole.time_ns("mass1.v")[speed < crossed]
    path = record_file(
        "two_mass.toml",
        tmp_path / "part",
        f'record.trigger=[{{signal="mass1.v", below={crossed}}}]',
        "record.before=0.02",
        "record.after=0.03",
        duration=0.5,
    )
    log = load_log(path)
    kept = log.time_ns("mass1.v")
    wanted = [t for t in whole.time_ns("mass1.v") if np.any((hit - 2e7 <= t) & (t <= hit + 3e7))]
    assert set(wanted) <= set(kept)
    assert len(kept) < len(whole.t)
    assert log.metadata["rows_left_out"] == str(len(whole.t) - len(kept))
    assert log.metadata["rows_missing"] == "0"
    outcome = replay(path)
    assert outcome.difference is None
    assert outcome.skipped == 0  # each part begins where the state is known
    assert outcome.steps == len(kept)
    pause, rest = [event for event in log.events if event.cause == "record_pause"]
    (gap,) = outcome.gaps  # what is left out at the end is none to a replay
    assert (gap.begin, gap.end) == pytest.approx((pause.t, pause.until))
    assert rest.until == 0.5
    (line,) = [line for line in describe(outcome) if line.startswith("gap:")]
    assert f"resumed from the snapshot at {outcome.resumed[0]:.6f} s" in line


def test_a_gap_without_a_snapshot_after_it_ends_the_replay(tmp_path):
    path = record_file("two_mass.toml", tmp_path, duration=0.1, lost=[98])
    outcome = replay(path)
    assert (outcome.difference, outcome.steps, outcome.skipped) == (None, 98, 2)
    assert any("the rest is not replayed" in line for line in describe(outcome))


def changed(path, signal, row, value):
    """A copy of the log in which one recorded number is another."""
    folder = path.parent / "changed"
    stream = LogStream(path, asides=ASIDES)
    blocks = list(stream.blocks())
    topics = [Topic(c.topic, c.signals) for c in stream.channels.values()]
    names = [s.name for topic in topics for s in topic.signals]
    files = [Attachment(n, "x/x", d) for n, d in stream.attachments.items() if n != "summary.json"]
    recording = Recording(Begin(str(folder), "test", 0, topics, files, stream.metadata))
    for aside in stream.asides:
        stamp = ASIDE.pack(aside.row, aside.t_ns)
        recording.aside(aside.topic.encode(), stamp, aside.data)
    first = blocks[0].channel
    times = np.concatenate([b.times_ns for b in blocks if b.channel == first])
    rows = np.hstack(
        [np.vstack([b.values for b in blocks if b.channel.topic == t.name]) for t in topics]
    )
    rows[row, names.index(signal)] = value
    recording.batch(0, times, rows)
    recording.finish(None)
    return recording.path


@pytest.mark.parametrize(
    ("signal", "value", "stage"),
    [
        ("mass2.x", 1.0, "correct_outputs"),
        ("mass2.force:sent", 1.0, "limit"),
        ("spring:correction", 1.0, "correct_energy"),
        ("flag:sample_late", 1.0, "move_flags"),
    ],
)
def test_the_first_difference_is_told_with_its_stage(tmp_path, signal, value, stage):
    path = record_file("two_mass.toml", tmp_path, duration=0.05)
    outcome = replay(changed(path, signal, 30, value))
    difference = outcome.difference
    assert not outcome.identical
    assert difference.stage.startswith(stage)
    assert difference.row in (30, 31)
    assert (outcome.steps, difference.t) == (difference.row, pytest.approx(1e-3 * difference.row))
    assert "was changed" in difference.causes[0]
    assert f"step {difference.row}" in describe(outcome)[0]


def test_another_build_is_a_cause_and_is_tolerated(tmp_path, monkeypatch):
    path = record_file("two_mass.toml", tmp_path, duration=0.05)
    here = replay_module.build_report()
    monkeypatch.setattr(replay_module, "build_report", lambda: {**here, "numpy": "99.0"})
    outcome = replay(path)
    assert (outcome.identical, outcome.exact, outcome.tolerance) == (True, True, 1e-9)
    slightly = float(load_log(path)["mass2.force:sent"][30]) * (1 + 1e-12)
    other = changed(path, "mass2.force:sent", 30, slightly)
    outcome = replay(other)
    assert (outcome.identical, outcome.exact) == (True, False)
    assert "within 1e-09" in describe(outcome)[0]
    strict = replay(other, tolerance=0.0)
    assert strict.difference.values[0].recorded == slightly
    assert "another build: numpy: recorded with" in strict.difference.causes[0]
    json.dumps(as_json(strict))


def test_a_start_after_the_last_snapshot_is_an_error_in_words(tmp_path):
    path = record_file("two_mass.toml", tmp_path, duration=0.05)
    with pytest.raises(RecordError, match="no snapshot at or after 3 s; start earlier"):
        replay(path, start=3.0)


def test_an_end_may_be_given(tmp_path):
    path = record_file("two_mass.toml", tmp_path, duration=0.05)
    assert replay(path, until=0.02).steps == 21


def test_more_adjustments_than_fit_into_a_step_wait_for_the_next(tmp_path):
    numbers = [("bonds.spring.cap", 0.5 - 0.02 * i) for i in range(20)]
    change = adjusting(50_000_000, *numbers)
    path = record_file("two_mass.toml", tmp_path, duration=0.1, on_master=change)
    stream = LogStream(path, asides=[ADJUSTMENTS])
    for _ in stream.blocks():
        pass
    assert [aside.row for aside in stream.asides] == [51] * 8 + [52] * 8 + [53] * 4
    assert [msgspec.msgpack.decode(aside.data) for aside in stream.asides] == [
        list(number) for number in numbers
    ]
    for outcome in (replay(path), replay(path, start=0.075)):
        assert outcome.difference is None
    gap = replay(
        record_file(
            "two_mass.toml", tmp_path / "gap", duration=0.1, on_master=change, lost=range(49, 60)
        )
    )
    assert gap.difference is None
    assert gap.resumed == [pytest.approx(0.075)]


def test_a_renewed_jacobian_hides_no_adjustment_before_it(tmp_path):
    """In a piece of the file one topic stands after the other, whatever their rows."""

    def on_master(master):
        adjusting(4_000_000, ("bonds.coupling.cap", 1e-3))(master)
        given, cut = master.numerics.given, master.exchange.cut

        def renewing(tick, t_ns, elapsed_ns):
            cut(tick, t_ns, elapsed_ns)
            given.session["renewed"] = tick == 40
            given.gamma[...] = 1.01 * master.numerics.state.model.gamma

        master.exchange.cut = renewing

    path = record_file("two_mass_model.toml", tmp_path, duration=0.03, on_master=on_master)
    stream = LogStream(path, asides=ASIDES)
    assert len(list(stream.blocks())) > 0
    changes = {(aside.topic, aside.row) for aside in stream.asides if aside.topic != SNAPSHOTS}
    assert changes == {(ADJUSTMENTS, 21), (JACOBIANS, 40)}
    outcome = replay(path)
    assert (outcome.difference, outcome.snapshots) == (None, 1)


def with_facts(path, **changes):
    """A copy of the log with other facts."""
    folder = path.parent / "other"
    stream = LogStream(path, asides=ASIDES)
    blocks = list(stream.blocks())
    facts = msgspec.msgpack.decode(stream.attachments["replay.msgpack"]) | changes
    files = {**stream.attachments, "replay.msgpack": msgspec.msgpack.encode(facts)}
    topics = [Topic(c.topic, c.signals) for c in stream.channels.values()]
    recording = Recording(
        Begin(
            str(folder),
            "test",
            0,
            topics,
            [Attachment(name, "x/x", data) for name, data in files.items()],
            stream.metadata,
        )
    )
    rows = np.hstack(
        [np.vstack([b.values for b in blocks if b.channel.topic == t.name]) for t in topics]
    )
    recording.batch(0, np.arange(len(rows)) * 1_000_000, rows)
    recording.finish(None)
    return recording.path


@pytest.mark.parametrize(
    "other",
    [
        {"format": 1},
        {"layout": "0" * 32},
        {"format": 1, "layout": 5, "later": True},
        {"sensitivities": [(0, 1 << 40, 1.0)]},
        {"verification": [0] * 9},
    ],
    ids=["older format", "other tables", "unknown", "no such input", "no such bonds"],
)
def test_a_log_with_other_tables_can_be_read_and_not_replayed(tmp_path, other):
    path = with_facts(record_file("two_mass.toml", tmp_path, duration=0.03), **other)
    with pytest.raises(
        RecordError, match="another version: its decisions can be read, but not replayed"
    ):
        replay(path)
    with pytest.raises(RecordError, match="another version"):
        what_if(path, ["bonds.spring.correction.cap=0.5"])
    assert len(load_log(path).t) == 31
    assert CliRunner().invoke(app, ["log", "info", str(path)]).exit_code == 0


@pytest.mark.parametrize("folder", ["", "../", "a/"])
def test_a_session_file_of_a_log_is_written_to_no_folder_of_its_choice(tmp_path, folder):
    """It came from elsewhere, and its name may be any file of this account."""
    path = record_file("two_mass.toml", tmp_path, duration=0.002)
    stream = LogStream(path, asides=ASIDES)
    list(stream.blocks())
    name = f"{folder or tmp_path}/hostile.toml"
    metadata = {**stream.metadata, "session_file": name}
    with pytest.raises(RecordError, match="which is not a file name"):
        read_recorded({**stream.attachments, name: b""}, metadata, "log")


def test_a_log_of_an_older_version_is_named(tmp_path):
    begin = Begin(str(tmp_path), "old", 0, [Topic("outputs", [Signal("a.x")])], [], {})
    recording = Recording(begin)
    recording.batch(0, np.arange(3), np.zeros((3, 1)))
    recording.finish(None)
    with pytest.raises(RecordError, match="older version"):
        replay(tmp_path)


def test_the_command_prints_the_verdict(tmp_path):
    path = record_file("two_mass.toml", tmp_path, duration=0.03)
    result = CliRunner().invoke(app, ["replay", str(path)])
    assert result.exit_code == 0
    assert result.stdout.startswith("identical: 31 steps\n")
    result = CliRunner().invoke(app, ["replay", str(changed(path, "mass1.x", 9, 7.0)), "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["difference"]["row"] == 9


def test_a_log_cut_off_anywhere_is_replayed_as_far_as_it_goes(tmp_path):
    data = record_file("two_mass.toml", tmp_path / "whole", duration=0.4).read_bytes()
    path = tmp_path / "session.mcap"
    replayed = []
    for position in np.random.default_rng(5).integers(0, len(data), 12).tolist():
        path.write_bytes(data[:position])
        try:
            outcome = replay(path)
        except RecordError:  # cut off before the first step
            continue
        assert outcome.difference is None
        assert outcome.steps == len(load_log(path).t)
        assert outcome.damage or outcome.steps == 401
        first, *rest = describe(outcome)
        if outcome.damage:  # before all else: what follows is of a part
            assert first == f"the log ends early: {outcome.damage}"
            first = rest[0]
        assert first == f"identical: {outcome.steps} steps"
        replayed.append(outcome.steps)
    assert len(set(replayed)) > 2


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 20_000], ids=["whole", "rows divided"])
def test_parts_of_a_log_are_replayed_from_their_first_snapshot(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr(mcap_writer, "CHUNK_BYTES", chunk_bytes)
    path = record_file("two_mass.toml", tmp_path, duration=0.2)
    part = tmp_path / "part.mcap"
    cut(path, part, start_s=0.06, end_s=0.15)
    outcome = replay(part)
    assert outcome.difference is None
    assert outcome.resumed == [pytest.approx(0.075)]
    assert outcome.steps == 75
    cut(path, tmp_path / "before.mcap", end_s=0.0595)
    merge([tmp_path / "before.mcap", part], tmp_path / "both.mcap")
    outcome = replay(tmp_path / "both.mcap")
    assert outcome.difference is None
    assert outcome.steps == 151


def adjusting(t_ns, *numbers):
    """A session in which an operator changes numbers in the slack of the tick at `t_ns`."""

    def on_master(master):
        class Operator(Observer):
            def stepped(self, turn):
                if turn.point.t_ns == t_ns:
                    for number, value in numbers:
                        master.numerics.changes.add(number, value)

        master.observers.present += (Operator(),)

    return on_master


def test_an_operators_adjustment_is_an_input(tmp_path):
    change = adjusting(50_000_000, ("bonds.spring.cap", 0.02))
    path = record_file("two_mass.toml", tmp_path, duration=0.1, on_master=change)
    log = load_log(path)
    bound = 0.02 * (1 + 1e-12) * np.abs(log["mass1.force:corrected"])
    inside = np.abs(log["spring:correction"]) <= bound
    assert inside[51:].all()
    assert not inside[:51].all()
    for outcome in (replay(path), replay(path, start=0.075)):
        assert outcome.difference is None
