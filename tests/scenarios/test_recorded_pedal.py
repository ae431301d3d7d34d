"""A recorded pedal on the bench: what the bus carries follows the recording in value and time."""

from __future__ import annotations

import bisect
import re
import shutil
from pathlib import Path

import cantools
import numpy as np
import pytest

import hilrt
from tests.scenarios.sessions import (
    CALM,
    CONFIGS,
    LINUX,
    MAX_RATE,
    SHARED,
    Listener,
    Run,
    assert_ramped,
    sets,
)

LOG, DATABASE = SHARED / "data" / "car_pedal.candump.log", SHARED / "data" / "car.dbc"
GAIN = 100.0 / 3726.0
STEP = 0.005
DURATION = 3.0

pytestmark = [
    LINUX,
    pytest.mark.skipif(not LOG.is_file(), reason=f"the recording {LOG} is not here"),
]


def recording() -> tuple[list[float], list[float]]:
    """Times from the log's first frame [s] and pedal [%], read without the package."""
    database = cantools.database.load_file(DATABASE, strict=False)
    message = next(m for m in database.messages if "ACC_PEDAL_MEAN" in m.signal_tree)
    times, values, first = [], [], None
    for line in LOG.read_text().splitlines():
        match = re.fullmatch(r"\((\d+\.\d+)\) \w+ ([0-9A-F]+)#([0-9A-F]*)", line)
        assert match, line
        t = float(match[1])
        first = t if first is None else first
        if int(match[2], 16) == message.frame_id:
            decoded = message.decode(bytes.fromhex(match[3]), decode_choices=False)
            times.append(t - first)
            values.append(GAIN * float(decoded["ACC_PEDAL_MEAN"]))
    return times, values


def test_bus_follows_the_recording(tmp_path: Path) -> None:
    shutil.copytree(CONFIGS, tmp_path / "configs")
    with Listener() as listener:
        given = sets(
            *CALM,
            f"master.step={STEP}",
            f"subsystems.engine.bus={listener.table}",
            f"subsystems.pedal.log={LOG}",
            f"subsystems.pedal.database={DATABASE}",
            "subsystems.pedal.start=1.0",
        )
        session = tmp_path / "configs" / "recorded_pedal.toml"
        run = Run(session, tmp_path / "runs", "--duration", str(DURATION), *given)
        try:
            assert run.wait() == 0, run.stderr
        finally:
            run.clean_up()
        log = hilrt.load_log(run.folder)
        frames = listener.frames("EngineDemand")
    assert_ramped(frames, "Pedal")
    times, values = recording()
    assert max(values) == pytest.approx(100.0)

    # The log: at every tick the newest recorded sample, exactly.
    sent = log["engine.pedal:sent"]
    expected = [values[max(0, bisect.bisect_right(times, t + 1.0) - 1)] for t in log.t]
    reach = MAX_RATE["Pedal"] * np.diff(log.t)
    follows = np.abs(sent - expected) < 1e-2  # gain in the file has six digits
    assert np.all(np.abs(np.diff(sent)) <= reach + 1e-9)
    assert follows.mean() > 0.6  # the rest are ramps towards a sample
    # Neither early nor late: a limited ramp lies between the samples around it.
    for k in np.flatnonzero(~follows):
        around = expected[max(0, k - 40) : k + 1]
        assert min(around) - 1e-2 <= sent[k] <= max(around) + 1e-2

    # The bus: frame by frame what was due, or where the rate allows it to be by then.
    epoch = int(log.metadata["epoch_ns"]) * 1e-9
    driven = [f for f in frames if epoch + 0.1 <= f.t < epoch + DURATION - STEP]
    behind = []
    for frame in driven:
        k = bisect.bisect_right(log.t, frame.t - epoch + 1e-4) - 1
        recent = sent[max(0, k - 60) : k + 1]
        assert recent.min() - 0.01 <= frame["Pedal"] <= recent.max() + 0.01
        agrees = np.flatnonzero(np.abs(recent - frame["Pedal"]) < 0.01)
        if len(agrees):
            behind.append(len(recent) - 1 - agrees[-1])
    assert len(behind) > 0.5 * len(driven)
    assert np.median(behind) <= 2  # ticks
