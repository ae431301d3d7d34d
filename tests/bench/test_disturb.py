"""Scenarios of an emulated bench: each kind of disturbance, on its schedule, seeded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cantools
import numpy as np
import pytest
from e2e import p01

from hilrt.bench.bench_on_bus import BenchOnBus
from hilrt.bench.disturb import Disturbance, ScenarioFile, load_scenario
from hilrt.bench.emulate import SessionLines, make_bench
from hilrt.can.frame import Frame
from hilrt.config.session_tables import FaultTable
from hilrt.errors import ConfigError
from tests.protected_bench import OPTIONS, protected_database

DATABASE = Path(__file__).parents[2] / "bench_configs" / "engine_bench.dbc"
PLAIN = cantools.database.load_file(DATABASE)
SENDS = {"EngineFast": ["ShaftSpeed", "ShaftTorque"], "EngineSlow": ["State"]}

Run = Callable[..., list[tuple[int, Frame]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Frames of the fast message over 100 cycles, with the cycle in which each was sent."""

    def run(text: str, cycles: int = 100, drain: Any = tuple) -> list[tuple[int, Frame]]:
        path = tmp_path / "scenario.toml"
        path.write_text(text)
        disturbance = Disturbance(load_scenario(path, SENDS))
        on_bus = BenchOnBus(
            make_bench("engine"), DATABASE, disturbance, lambda: make_bench("engine")
        )
        sent: list[tuple[int, Frame]] = []
        cycle = 0
        on_bus.attach(drain, lambda frame: sent.append((cycle, frame)))
        for cycle in range(cycles):
            on_bus.cycle(1e-3 * cycle)
        return [(k, frame) for k, frame in sent if frame.can_id == 0x100]

    return run


def values(frame: Frame) -> dict[str, Any]:
    decoded: Any = PLAIN.decode_message(frame.can_id, frame.data)
    return decoded


def event(kind: str, **keys: Any) -> str:
    words = "".join(f"{k} = {v}\n" for k, v in {"at": 0.02, "for": 0.05, **keys}.items())
    return f'[[events]]\nkind = "{kind}"\n{words}'


def counters(sent: list[tuple[int, Frame]]) -> list[int]:
    return [values(frame)["Alive"] for _, frame in sent]


def test_nothing_happens_without_events(run: Run) -> None:
    sent = run("seed = 3\n")
    assert [k for k, _ in sent] == list(range(100))
    assert counters(sent) == list(range(100))


def test_silence_and_bus_off_end(run: Run) -> None:
    around = [*range(20), *range(70, 100)]
    assert [k for k, _ in run(event("silent", messages='["EngineFast"]'))] == around
    assert [k for k, _ in run(event("bus_off"))] == around
    assert len(run(event("silent", messages='["EngineSlow"]'))) == 100


def test_a_bench_without_power_starts_anew(run: Run) -> None:
    sent = run(event("dead"))
    assert [k for k, _ in sent][20] == 70
    assert counters(sent)[20] == 0


def test_loss_comes_in_bursts_and_as_often_as_it_should(run: Run) -> None:
    text = event("loss", at=0, share=0.3, burst=4).replace("for = 0.05\n", "")
    sent = run(text, cycles=4000)
    gaps = [b - a - 1 for a, b in zip([k for k, _ in sent], [k for k, _ in sent][1:], strict=False)]
    lost = 1 - len(sent) / 4000
    assert 0.25 < lost < 0.35
    assert {gap for gap in gaps if gap} >= {4}
    assert min(gap for gap in gaps if gap) == 4
    assert run(text, cycles=300) == run(text, cycles=300)  # the seed


def test_latency_holds_frames_back_and_jitter_turns_them_round(run: Run) -> None:
    sent = run(event("latency", at=0, delay=0.005))
    assert [k for k, _ in sent][:3] == [5, 6, 7]
    assert counters(sent)[:3] == [0, 1, 2]
    jittered = counters(run(event("latency", at=0, delay=0.005, jitter=0.004)))
    assert jittered != sorted(jittered)
    assert sorted(jittered)[:40] == list(range(40))


def test_counters_freeze_and_jump(run: Run) -> None:
    frozen = counters(run(event("frozen_counter")))
    assert frozen[20:70] == [20] * 50
    assert frozen[70:72] == [20, 21]
    assert counters(run(event("counter_jump")))[20:24] == [20, 22, 24, 26]


def test_damage_flips_one_bit(run: Run) -> None:
    whole, damaged = run("seed = 1\n"), run("seed = 1\n" + event("damage"))
    for (k, a), (_, b) in zip(whole, damaged, strict=True):
        difference = int.from_bytes(a.data, "big") ^ int.from_bytes(b.data, "big")
        assert difference.bit_count() == (20 <= k < 70)


def test_frames_come_twice_short_and_by_another_identifier(run: Run) -> None:
    twice = run(event("duplicate"))
    assert [k for k, _ in twice] == sorted([*range(100), *range(20, 70)])
    frames = [frame for _, frame in twice]
    assert frames[20:120:2] == frames[21:121:2]
    lengths = [len(frame.data) for _, frame in run(event("wrong_length"))]
    assert lengths == [8] * 20 + [7] * 50 + [8] * 30
    assert [k for k, _ in run(event("wrong_identifier"))] == [*range(20), *range(70, 100)]


def test_a_wrong_counter_goes_back_by_one_from_frame_to_frame(run: Run) -> None:
    found = counters(run(event("wrong_counter")))
    assert found[:22] == [*range(20), 18, 17]
    assert set(np.diff(found[19:70]) % 256) == {255}
    assert found[70:] == list(range(70, 100))


def protected(folder: Path, *faults: dict[str, Any]) -> tuple[Disturbance, BenchOnBus, list[Frame]]:
    """The bench with checksums, and faults of the session; what it sends is listed."""
    path = folder / "protected.dbc"
    path.write_text(protected_database())
    tables = [FaultTable(name=f"f{k}", seed=k, **fault) for k, fault in enumerate(faults)]
    disturbance, sent = Disturbance(ScenarioFile(), tables), list[Frame]()
    on_bus = BenchOnBus(make_bench("engine"), path, disturbance, options=OPTIONS)
    on_bus.attach(tuple, lambda frame: sent.append(frame))
    return disturbance, on_bus, sent


def whole(frame: Frame) -> bool:
    return bool(p01.e2e_p01_check(bytearray(frame.data), 0x123))


def test_the_session_begins_and_ends_faults_of_messages(tmp_path: Path) -> None:
    """Bytes as the library for the profile reads them; only the checksum differs."""
    fault = {"kind": "wrong_checksum", "message": "engine.EngineFast"}
    disturbance, on_bus, sent = protected(tmp_path, fault)
    _, plain_bus, plain = protected(tmp_path)
    for k in range(100):
        if k in (20, 70):
            disturbance.switch("f0", k == 20)
            disturbance.switch("of another bench", True)
        on_bus.cycle(1e-3 * k)
        plain_bus.cycle(1e-3 * k)
    fast = [frame for frame in sent if frame.can_id == 0x100]
    assert [whole(frame) for frame in fast] == [not 20 <= k < 70 for k in range(100)]
    assert [f.data[1:] for f in fast] == [f.data[1:] for f in plain if f.can_id == 0x100]


def test_a_share_of_the_frames_is_wrong_by_the_faults_own_seed(tmp_path: Path) -> None:
    fault = {"kind": "wrong_checksum", "value": 0.25, "message": "engine.EngineFast"}
    found = []
    for others in ((), ({"kind": "loss", "value": 0.5, "message": "engine.EngineSlow"},)):
        disturbance, on_bus, sent = protected(tmp_path, fault, *others)
        for number in range(1 + len(others)):
            disturbance.switch(f"f{number}", True)
        for k in range(2000):
            on_bus.cycle(1e-3 * k)
        found.append([whole(frame) for frame in sent if frame.can_id == 0x100])
    assert found[0] == found[1]
    assert 0.2 < 1.0 - np.mean(found[0]) < 0.3


def test_a_signal_sticks_anew_each_time(tmp_path: Path) -> None:
    fault = {"kind": "stuck", "message": "engine.EngineFast.ShaftTorque"}
    disturbance, on_bus, sent = protected(tmp_path, fault)
    for k in range(80):
        if k % 20 == 0:
            disturbance.switch("f0", k % 40 == 0)
        on_bus.cycle(1e-3 * k)
    torque = [int.from_bytes(f.data[4:6], "little") for f in sent if f.can_id == 0x100]
    assert len(set(torque[:20])) == len(set(torque[40:60])) == 1
    assert torque[0] != torque[40]
    assert len(set(torque[20:40])) > 5


def test_frames_are_late_by_the_fault_and_a_bench_dies_by_it(tmp_path: Path) -> None:
    faults = (
        {"kind": "delay", "value": 0.005, "message": "engine.EngineFast"},
        {"kind": "die", "peer": "engine"},
    )
    disturbance, on_bus, sent = protected(tmp_path, *faults)
    disturbance.switch("f0", True)
    counts = []
    for k in range(10):
        on_bus.cycle(1e-3 * k)
        counts.append(sum(frame.can_id == 0x100 for frame in sent))
    assert counts == [0] * 5 + [1, 2, 3, 4, 5]
    assert not disturbance.dies(0.01)
    disturbance.switch("f1", True)
    assert disturbance.dies(0.01)


def test_lines_of_the_session_arrive_in_pieces() -> None:
    told: list[tuple[str, str, str]] = []
    source, target = os.pipe()
    try:
        lines = SessionLines(source, lambda *words: told.append(words))
        for piece in (b"", b"fault a.b 1\nse", b"t c -0.5\nnonsense\n"):
            os.write(target, piece)
            lines.read()
        assert told == [("fault", "a.b", "1"), ("set", "c", "-0.5")]
    finally:
        os.close(target)
    lines.read()  # the session is gone
    os.close(source)


def test_sensors_stick_drift_and_rattle(run: Run) -> None:
    signals = '["ShaftSpeed"]'
    speeds = [values(f)["ShaftSpeed"] for _, f in run(event("stuck", signals=signals))]
    assert len(set(speeds[20:70])) == 1
    assert len(set(speeds)) > 20
    calm = [values(f)["ShaftSpeed"] for _, f in run("")]
    moved = [values(f)["ShaftSpeed"] for _, f in run(event("offset", signals=signals, value=5.0))]
    assert [round(b - a, 6) for a, b in zip(calm, moved, strict=True)] == [0.0] * 20 + [
        5.0
    ] * 50 + [0.0] * 30
    noisy = [values(f)["ShaftSpeed"] for _, f in run(event("noise", signals=signals, value=3.0))]
    assert max(noisy[20:70]) - min(noisy[20:70]) > 5.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed = [", "is not TOML"),
        (event("los"), "kind"),
        (event("loss", messages='["EngineFats"]'), "did you mean 'EngineFast'"),
        (event("stuck", signals='["ShaftSped"]'), "did you mean 'ShaftSpeed'"),
        (event("stuck"), "name the affected signals"),
        (
            event("stuck", messages='["EngineSlow"]', signals='["ShaftSpeed"]'),
            r"\[\[events\]\] 1 .* signals: 'ShaftSpeed' is in EngineFast, not in EngineSlow",
        ),
        (
            event("stuck", messages='["EngineSlow"]', signals='["Stat"]'),
            "signals: no 'Stat' in EngineSlow; did you mean 'State'",
        ),
        (
            event("stuck", messages='["EngineSlow", "EngineFast"]', signals='["State"]'),
            "messages: EngineFast has none of the signals; remove it",
        ),
        (
            event("loss") + event("noise", signals='["State"]'),
            r"\[\[events\]\] 2 .* value: is missing or 0; give the standard deviation",
        ),
        (event("offset", signals='["State"]'), "value: is missing or 0; give the amount to add"),
        (event("noise", signals='["State"]', value="inf"), "value = inf: is not finite"),
        (event("latency"), r"\(latency at 0.02 s\) delay: is missing or 0; give the delay"),
        (event("loss", signals='["State"]'), "signals: has no effect for the kind 'loss'"),
        (event("stuck", signals='["State"]', share=0.5), "share: has no effect"),
        (event("dead", messages='["EngineSlow"]'), "messages: has no effect"),
        (event("wrong_checksum"), "there is no checksum in what the bench sends"),
        (event("duplicate", value=0.5), "value: has no effect for the kind 'duplicate'"),
    ],
)
def test_bad_scenarios_say_why(text: str, expected: str, run: Run) -> None:
    with pytest.raises(ConfigError, match=expected):
        run(text)


@pytest.mark.parametrize(
    "text",
    [
        event("latency", jitter=0.001),
        event("noise", messages='["EngineSlow"]', signals='["State"]', value=0.5),
        event("stuck", messages='["EngineSlow", "EngineFast"]', signals='["State", "ShaftSpeed"]'),
    ],
)
def test_scenarios_that_do_something_are_taken(text: str, run: Run) -> None:
    assert run(text)


def test_a_scenario_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_scenario(tmp_path / "none.toml", SENDS)
