"""A session that ends by itself: its files, its processes, and the bus against the log."""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hilrt
from hilrt.analyze.log_analysis import analyse_log
from hilrt.logs.cut import cut
from hilrt.logs.log_file import LogFile
from hilrt.record.logged_frame import FrameFlag
from tests.recorded_session import assert_same
from tests.scenarios.sessions import (
    LINUX,
    MESSAGES,
    REPORT,
    Frame,
    Listener,
    assert_ramped,
    engine_run,
)

pytestmark = LINUX

DURATION = 2.0
STEP = 0.01


@dataclass
class Ended:
    """What is left of the session that all tests of this module look at."""

    status: int
    folder: Path
    stdout: str
    stderr: str
    roles: set[str]
    listener: Listener
    log: hilrt.Log
    epoch: float  # wall clock at session time 0, s

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return found

    def driven(self, name: str) -> list[Frame]:
        """Frames while the session ran and its end had not begun."""
        end = self.epoch + DURATION - STEP
        return [f for f in self.listener.frames(name) if self.epoch <= f.t < end]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    tmp_path = tmp_path_factory.mktemp("normal")
    with (
        Listener() as listener,
        engine_run(
            tmp_path, listener, REPORT, duration=DURATION, quiet=False, true_start=True
        ) as run,
    ):
        run.until_running()
        roles = set(run.children())
        status = run.wait()
        log = hilrt.load_log(run.folder)
        epoch = int(log.metadata["epoch_ns"]) * 1e-9
        yield Ended(status, run.folder, run.stdout, run.stderr, roles, listener, log, epoch)


def test_exit_status_and_processes(ended: Ended) -> None:
    assert ended.status == 0, ended.stderr
    assert ended.roles >= {"emulate", "gateway", "solver", "hilrt.cli.recorder_process"}


def test_summary_has_every_documented_key(ended: Ended) -> None:
    summary = ended.summary
    documented = {
        *("format", "session", "steps", "time_s", "wall_s", "step_size_s", "ports", "bonds"),
        *("flags", "lateness_us", "compute_us", "missed_ticks", "peers", "verdict", "versions"),
    }
    assert documented <= summary.keys()
    assert summary["session"] == "engine-in-the-loop"
    assert summary["time_s"] == pytest.approx(DURATION)
    assert summary["step_size_s"].keys() == {"first", "min", "mean", "max"}
    for port in summary["ports"].values():
        assert port.keys() == {
            *("connection_defect", "output_defect", "out_of_range", "last"),
            *("disturbance", "spread"),
        }
    assert summary["ports"]["engine.speed"]["out_of_range"] == 0
    assert summary["ports"]["engine.pedal"]["out_of_range"] is None
    assert summary["ports"]["engine.pedal"]["connection_defect"].keys() == {"rms", "max"}
    assert summary["ports"]["vehicle.vehicle_speed"]["output_defect"].keys() == {"rms", "max"}
    energies = {"residual_energy_j", "tracking_energy_j", "corrected_energy_j"}
    assert {*energies, "uncorrected_energy_j", "cap_share"} <= summary["bonds"]["shaft"].keys()
    for flag in summary["flags"].values():
        assert flag.keys() == {"count", "seconds", "affected_s", "worst_second"}
    for key in ("lateness_us", "compute_us"):
        assert summary[key].keys() == {"p50", "p99", "p999", "p9999", "max"}
    assert summary["peers"].keys() == {"vehicle", "engine"}
    for peer in summary["peers"].values():
        assert {"lost", "late", "rejoined", "compute_us", "wire_us"} < peer.keys()
    assert summary["verdict"] in ("good", "degraded", "unreliable")
    assert "hilrt" in summary["versions"]


def test_a_report_from_the_rows_has_the_figures_of_the_summary(
    ended: Ended, tmp_path: Path
) -> None:
    cut(ended.folder / "session.mcap", tmp_path / "alone.mcap")
    analysis = analyse_log(tmp_path / "alone.mcap")
    assert not analysis.summarised
    if not ended.summary["recorder"]["dropped_rows"]:  # what was lost is in no row
        assert_same(analysis.summary, ended.summary)
    traffic = analysis.can_traffic()
    assert traffic is not None
    received = {message.name: message for message in traffic.messages if not message.sent}
    assert received["EngineFast"].frames > 0.5e3 * DURATION
    assert received["EngineFast"].counter is not None


def test_files(ended: Ended) -> None:
    log = ended.log
    assert not log.truncated
    assert {"engine_in_the_loop.toml", "engine_bench.dbc", "summary.json"} <= log.attachments.keys()
    assert json.loads(log.attachments["summary.json"]) == ended.summary
    assert len(log.t) <= round(DURATION / STEP) + 1
    assert log.t[-1] == pytest.approx(DURATION)


def test_report_is_readable_offline(ended: Ended) -> None:
    loaded: list[str] = []

    class Page(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            loaded.extend(value or "" for key, value in attrs if key in ("src", "href"))

    text = (ended.folder / "report.html").read_text()
    Page().feed(text)
    assert ended.summary["verdict"] in text
    assert not [address for address in loaded if ":" in address]


def test_terminal_ends_with_the_verdict(ended: Ended) -> None:
    assert ended.summary["verdict"] in ended.stdout
    assert str(ended.folder) in ended.stdout.replace("\n", "")
    assert "Traceback" not in ended.stderr


def test_transitions_are_in_the_log_with_their_cause(ended: Ended) -> None:
    states = [event.text for event in ended.log.events if event.cause == "session"]
    order = ("CONNECTING", "INITIALIZED", "ARMED", "RUNNING", "STOPPED")
    found = [next(i for i, text in enumerate(states) if f"-> {name}:" in text) for name in order]
    assert len(found) == len(order)


def test_bench_is_disabled_at_the_end_and_was_never_jumped(ended: Ended) -> None:
    speed, pedal = ended.listener.frames("DynoDemand"), ended.listener.frames("EngineDemand")
    assert (speed[-1]["Enable"], speed[-1]["Speed"], pedal[-1]["Pedal"]) == (0, 0.0, 0.0)
    assert max(frame["Speed"] for frame in speed) > 100.0
    assert max(frame["Pedal"] for frame in pedal) > 5.0
    assert_ramped(speed, "Speed")
    assert_ramped(pedal, "Pedal")
    bench = ended.listener.newest("EngineSlow")
    assert bench is not None
    assert bench["Enabled"] == 0


@pytest.mark.parametrize(
    ("port", "message", "signal"),
    [
        ("engine.speed_demand", "DynoDemand", "Speed"),
        ("engine.pedal", "EngineDemand", "Pedal"),
    ],
)
def test_bus_carries_what_the_log_says_was_sent(
    ended: Ended, port: str, message: str, signal: str
) -> None:
    """Frame by frame: the value of a tick that had been dispatched, or a ramp towards it.

    The gateway repeats a demand until the next one, and may skip one when two come at once.
    """
    log, frames = ended.log, ended.driven(message)
    sent = log[f"{port}:sent"]
    left = ended.epoch + log.time(f"{port}:sent")  # when each tick was due
    resolution = MESSAGES.get_message_by_name(message).get_signal_by_name(signal).scale
    missing = sum((b["Alive"] - a["Alive"] - 1) % 256 for a, b in itertools.pairwise(frames))
    assert missing <= 0.05 * len(frames)

    tick, ages, between = 0, [], 0
    seen = set()
    for frame in frames:
        newest = bisect.bisect_right(left, frame.t + 1e-4) - 1
        agrees = [
            k for k in range(tick, newest + 1) if abs(frame[signal] - sent[k]) <= 0.51 * resolution
        ]
        if not agrees:
            low, high = np.min(sent[tick : newest + 1]), np.max(sent[tick : newest + 1])
            assert low - resolution <= frame[signal] <= high + resolution
            between += 1
            continue
        # Never back to an older demand; of equal ones the newest.
        tick = agrees[-1]
        ages.append(frame.t - left[tick])
        seen.add(tick)
    assert between <= 0.2 * len(frames)
    assert len(seen) >= 0.5 * len(sent)
    assert np.median(ages) < 0.1


def test_log_holds_the_frames_that_were_on_the_bus(ended: Ended) -> None:
    """All of them from the first tick to the gateway's end: byte by byte, in the bus's order."""
    recorded = list(LogFile(ended.folder / "session.mcap").frames())
    assert {frame.bus for frame in recorded} == {"engine"}
    assert ended.log.metadata["frames_missing"] == "0"
    for name in ("DynoDemand", "EngineDemand", "EngineFast", "EngineSlow"):
        message = MESSAGES.get_message_by_name(name)
        mine = [frame for frame in recorded if frame.identifier == message.frame_id]
        heard = [f for f in ended.listener.messages(name) if f.timestamp >= ended.epoch - 0.1]
        data = [bytes(f.data) for f in heard]
        # At both ends frames may be on the way, or on the bus after the gateway's end: the gateway
        # hears of the first tick, and reads its frames, when it gets the processor.
        begin = data.index(mine[0].data)
        assert sum(f.timestamp >= ended.epoch for f in heard[:begin]) <= max(1, 0.1 * len(mine))
        assert [frame.data for frame in mine] == data[begin : begin + len(mine)]
        is_demand = name.endswith("Demand")
        assert {bool(frame.flags & FrameFlag.SENT) for frame in mine} == {is_demand}
        if is_demand:
            assert begin + len(mine) == len(data)
        late = [
            abs(frame.time_ns * 1e-9 - f.timestamp)
            for frame, f in zip(mine, heard[begin:], strict=False)
        ]
        assert np.median(late) < 1e-3


def test_log_holds_what_the_bus_said_was_measured(ended: Ended) -> None:
    """Every fresh pair of torque and speed in the log is one frame's, received before the tick."""
    log, frames = ended.log, ended.listener.frames("EngineFast")
    torque, speed = log["engine.torque"], log["engine.speed"]
    lateness = log["master:lateness"] * 1e-6
    assert np.isfinite(torque[1:]).mean() > 0.5
    times = [frame.t for frame in frames]
    ages = []
    for k in range(1, len(torque)):
        if np.isnan(torque[k]):
            continue
        tick = ended.epoch + log.t[k]
        newest = bisect.bisect_right(times, tick + lateness[k]) - 1
        while (frames[newest]["ShaftTorque"], frames[newest]["ShaftSpeed"]) != (
            torque[k],
            speed[k],
        ):
            newest -= 1
            assert times[newest] > tick - 1.0, f"tick {k}: no frame with {torque[k]}, {speed[k]}"
        ages.append(tick - times[newest])
    assert np.median(ages) < 0.1
