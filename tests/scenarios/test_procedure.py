"""Start sequence, match and stop sequence with the emulated bench."""

from pathlib import Path

from hilrt import load_log
from hilrt.session.live_session import LiveSession
from hilrt.session.run import RunOptions
from tests.scenarios.sessions import free_port

ROOT = Path(__file__).parent.parent.parent
STEPS = """
[[start]]
name = "spin up"
ramp = { "engine.speed_demand" = 100.0 }
wait = "engine.speed"
min = 95.0
max = 105.0
hold = 0.05
timeout = 10.0
[[match]]
signal = "engine.speed"
to = "vehicle.engine_speed"
tolerance = 5.0
[[stop]]
name = "unload"
ramp = { "engine.pedal" = 0.0, "engine.speed_demand" = 50.0 }
wait = "engine.speed"
max = 60.0
timeout = 10.0
"""


def test_a_bench_is_brought_up_matched_and_brought_down(tmp_path):
    text = (ROOT / "bench_configs/engine_in_the_loop.toml").read_text(encoding="utf-8")
    for name in ("engine_bench.dbc", "wltc_class3b.csv"):
        (tmp_path / name).symlink_to(ROOT / "bench_configs" / name)
    path = tmp_path / "session.toml"
    path.write_text(text + STEPS, encoding="utf-8")
    # What is tested are states and sequences: a busy machine may miss ticks.
    overrides = {
        "session.duration": 0.3,
        "session.arm": "manual",
        "subsystems.engine.bus.port": free_port(),
        "subsystems.engine.master_timeout": 1.5,
        "subsystems.engine.idle_timeout": 20.0,
        "subsystems.engine.bench_timeout": 0.5,
        "subsystems.vehicle.late.max_misses": 2000,
        "subsystems.engine.late.max_misses": 2000,
    }
    with LiveSession(path, overrides, options=RunOptions(out=tmp_path / "runs")) as session:
        assert (session.waits_for_arming, session.state) == (True, "INITIALIZED")
        session.arm()
        result = session.wait()
    assert (result.fault, result.exit_status) == (None, 0), result.warnings
    assert not [w for w in result.warnings if "stop sequence" in w]
    told = [event.text for event in load_log(result.folder / "session.mcap").events]
    order = [
        "start step 0: spin up",
        "arming engine",
        "bringing engine.speed",
        "stop step 0: unload",
    ]
    places = [next(i for i, text in enumerate(told) if part in text) for part in order]
    assert places == sorted(places)
