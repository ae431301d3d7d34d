"""Scenarios of an emulated bench: each kind of disturbance, on its schedule, seeded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cantools
import pytest

from hilrt.bench.bench_on_bus import BenchOnBus
from hilrt.bench.disturb import Disturbance, load_scenario
from hilrt.bench.emulate import make_bench
from hilrt.can.frame import Frame
from hilrt.errors import ConfigError

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
        (event("stuck"), "name the signals that are affected"),
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
            "messages: EngineFast has none of the signals; leave it out",
        ),
        (
            event("loss") + event("noise", signals='["State"]'),
            r"\[\[events\]\] 2 .* value: is missing or 0; give the standard deviation",
        ),
        (event("offset", signals='["State"]'), "value: is missing or 0; give what is added"),
        (event("noise", signals='["State"]', value="inf"), "value = inf: is not finite"),
        (event("latency"), r"\(latency at 0.02 s\) delay: is missing or 0; give how long"),
        (event("loss", signals='["State"]'), "signals: has no effect with the kind 'loss'"),
        (event("stuck", signals='["State"]', share=0.5), "share: has no effect"),
        (event("dead", messages='["EngineSlow"]'), "messages: has no effect"),
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
