"""Every fault of docs/can.md, injected by a test sequence into the emulated bench."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.replay.replay_log import replay
from tests.scenarios.faulty_sequence import FAST, checksums_right, counter_steps, faulty_run
from tests.scenarios.sessions import LINUX, ROOT, Listener, assert_brought_down, assert_fault

pytestmark = LINUX

#: Faults that a session outlives, in the order of their injection.
FAULTS = {
    "late": {"kind": "delay", "value": 0.02, "message": FAST},
    "shuffled": {"kind": "jitter", "value": 0.01, "message": FAST},
    "lost": {"kind": "loss", "value": 0.3, "message": FAST},
    "twice": {"kind": "duplicate", "value": 1.0, "message": FAST},
    "silent": {"kind": "silent", "message": FAST},
    "damaged": {"kind": "damage", "message": FAST},
    "checksum": {"kind": "wrong_checksum", "message": FAST},
    "backwards": {"kind": "wrong_counter", "message": FAST},
    "frozen": {"kind": "frozen_counter", "message": FAST},
    "jumps": {"kind": "counter_jump", "message": FAST},
    "short": {"kind": "wrong_length", "message": FAST},
    "elsewhere": {"kind": "wrong_identifier", "message": FAST},
    "stuck": {"kind": "stuck", "message": f"{FAST}.ShaftTorque"},
    "noisy": {"kind": "noise", "value": 40.0, "message": f"{FAST}.ShaftTorque"},
    "shifted": {"kind": "offset", "value": 150.0, "message": f"{FAST}.ShaftTorque"},
    "sensor": {"kind": "offset", "value": 1000.0, "output": "engine.torque"},
}
#: Those that bring the bench down.
FATAL = ("bus_off", "dead", "die")


def test_there_is_none_that_is_not_injected() -> None:
    """The scenarios' table names each kind; latency is a delay and a jitter."""
    page = (ROOT / "docs" / "can.md").read_text(encoding="utf-8")
    table = page.partition("| `kind` | What happens | Keys |")[2].partition("\n\n")[0]
    listed = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", table, re.M))))
    injected = {fault["kind"] for fault in FAULTS.values()} | set(FATAL)
    assert listed - {"latency"} == injected - {"delay", "jitter"}
    assert len(listed) > 12


def test_each_is_on_the_bus_and_the_gateway_and_the_log_say_so(tmp_path: Path) -> None:
    with Listener() as listener, faulty_run(tmp_path, listener, FAULTS) as run:
        run.until_running()
        assert run.wait() == 0, run.stderr
        fast = listener.messages("EngineFast")
        others = listener.with_id(0x101)
        assert_brought_down(listener, listener.frames("EngineDemand")[-200].t)
        log = hilrt.load_log(run.folder)
        assert replay(run.folder).identical
    told = [e.text for e in log.events if e.cause == "fault_injected"]
    begun, ended = (
        [text.split()[1] for text in told if verb in text] for verb in ("begins", "ends")
    )
    assert begun == ended == list(FAULTS)
    # On the bus
    wrong = checksums_right(fast).count(False)
    assert wrong > 50  # damaged and with a wrong checksum, of 300
    assert {raw.dlc for raw in fast} == {7, 8}
    assert len(others) > 20
    assert all(checksums_right(others))
    steps = counter_steps([raw for raw in fast if raw.dlc == 8])
    assert steps.count(14) > 20  # backwards
    assert steps.count(2) > 20  # jumps
    assert steps.count(0) > 40  # frozen, twice
    # The gateway has found each that can be told from what is right
    causes = {event.cause for event in log.events}
    assert {"can_bad_checksum", "can_bad_sequence", "sequence_set"} <= causes
    # The master's own
    shifted = log["engine.torque:faulted"] - log["engine.torque"]
    on = log["fault:sensor"] == 1.0
    assert on.any()
    np.testing.assert_allclose(shifted[on][np.isfinite(shifted[on])], 1000.0, atol=1e-9)


@pytest.mark.parametrize("kind", FATAL)
def test_a_bench_that_goes_away_is_a_fault_and_is_brought_to_rest(
    tmp_path: Path, kind: str
) -> None:
    faults = {"gone": {"kind": kind, "peer": "engine"}}
    with Listener() as listener, faulty_run(tmp_path, listener, faults, lasting=30.0) as run:
        run.until_running()
        assert_fault(run, "'engine'")
        log = hilrt.load_log(run.folder)
        frames = listener.frames("DynoDemand")
    assert next(e.text for e in log.events if e.cause == "fault_injected").endswith("at engine")
    assert frames[-1]["Enable"] == 0
    assert frames[-1]["Speed"] == 0.0
