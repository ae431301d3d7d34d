"""Checks after a round that apply to every fault."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cantools
import numpy as np

from tools.qualification.chaos_listener import STALL, Heard, stall_s
from tools.qualification.chaos_plan import FINISHED, INTERRUPTED, KILLED, Round, documented
from tools.qualification.chaos_session import (
    BENCH_TIMEOUT,
    IDLE_TIMEOUT,
    MASTER_TIMEOUT,
    MAX_GAP,
    MAX_MISSES,
    STEP,
    Seen,
)

ROOT = Path(__file__).parents[2]
from hilrt.record.reader import Log, load_log  # noqa: E402
from tests.scenarios.sessions import MAX_RATE, Frame, assert_ramped  # noqa: E402

MESSAGES: Any = cantools.database.load_file(ROOT / "bench_configs" / "engine_bench.dbc")
#: The demands, and their limits.
DEMANDS = {"DynoDemand": ("Speed", 650.0), "EngineDemand": ("Pedal", 100.0)}
#: Period at which the recorder writes, and notices a full disk, s.
FLUSH_S = 0.5
#: Faults that stop the gateway: its guarantees then apply from its continuation.
CONTINUED = ("gateway", "all")
#: Maximum time from the fault to the first set-point on its way to its safe value, s, by the
#: settings of the session file.
REACTION_S = {
    "master": MASTER_TIMEOUT,
    "others": MASTER_TIMEOUT,
    "solver": MAX_MISSES * STEP,
    **dict.fromkeys(CONTINUED, MASTER_TIMEOUT),
    "recorder": MAX_GAP,
    **dict.fromkeys(("full", "limit"), MAX_GAP + FLUSH_S),
    "emulator": max(5.0 * BENCH_TIMEOUT, MAX_MISSES * STEP),
}
#: Time of a frame on its way plus one cycle of the gateway, s.
SPREAD_S = 0.1
#: `safe_profile.step_timeout` of both inputs: limit for withdrawing the enable request, s.
WITHDRAWN_S = 4.0
#: Before the first tick, other timeouts of the master apply, s.
BEFORE_RUNNING_S = IDLE_TIMEOUT
#: The bench's own watchdog: it acts after 0.1 s without demands; its slow message is sent 100 times
#: a second, s.
WATCHDOG_S = 0.15
#: Maximum loss of a log if the process that wrote it died, s.
LOSS_S = 1.0


@dataclass
class Verdict:
    """Result of a round.

    Attributes
    ----------
    safe_s : float
        Time from the fault, or from the session's last tick, to safe values on the bus.
    loss_s : float
        Time missing in the log.
    void : bool
        The session had ended before the fault: the round shows nothing about it.
    """

    findings: list[str] = field(default_factory=list)
    safe_s: float = 0.0
    loss_s: float = 0.0
    void: bool = False


def check(one: Round, seen: Seen) -> Verdict:
    """Check all guarantees."""
    verdict = Verdict()
    said = verdict.findings
    summary = _summary(seen)
    log = _check_log(one, seen, summary, verdict)
    ended = _ended(one, seen, log, summary) if log is not None and summary else None
    expected = documented(one)
    if ended is not None and ended < seen.struck.t:  # nothing was left to disturb
        verdict.void = ended < seen.struck.t - SPREAD_S
        expected = expected | {FINISHED}
    if one.fault == "interrupt" and seen.folder is None:  # before Python had loaded the program
        expected = expected | {-int(signal.SIGTERM)}
    if seen.status not in expected:
        said.append(f"exit status {seen.status}, documented is {sorted(expected)}: {_last(seen)}")
    if seen.left:
        said.append(f"left over: {'; '.join(seen.left)}")
    _check_texts(seen, said)
    if seen.folder is not None and seen.status != KILLED and not summary:
        said.append("no summary.json")
    if one.session == "engine":
        check_bus(one, seen, ended, verdict)
    return verdict


def _last(seen: Seen) -> str:
    """The last line written by the master."""
    return (seen.stderr.strip().splitlines() or ["nothing on stderr"])[-1]


# ---- files -------------------------------------------------------------------------------------


def _check_log(one: Round, seen: Seen, summary: dict[str, Any], verdict: Verdict) -> Log | None:
    """Return the log if it exists and is readable."""
    file = None if seen.folder is None else seen.folder / "session.mcap"
    if file is None or not file.exists():
        if seen.struck.running:
            verdict.findings.append("no session.mcap")
        return None
    try:
        log = load_log(file)
    except Exception as error:
        verdict.findings.append(f"the log cannot be read: {type(error).__name__}: {error}")
        return None
    if log.truncated and not one.loses_rows:
        verdict.findings.append(f"the log is cut off: {log.truncated}")
    if one.loses_rows or one.kills_master:
        _check_loss(one, seen, log, verdict)
    elif summary:
        verdict.loss_s = max(0.0, summary["time_s"] - float(log.t[-1]))
        if verdict.loss_s > 0.5 * STEP:
            verdict.findings.append(f"the log lacks the last {verdict.loss_s:.2f} s")
    check_rows(log, verdict.findings)
    if one.fault == "clock" and seen.struck.running and len(log.t) > 1.0 / STEP:
        steps = [event.text for event in log.events if event.cause == "clock_step"]
        if len(steps) != 1:
            verdict.findings.append(f"the clock was set once, the log says {steps}")
    return log


def _check_loss(one: Round, seen: Seen, log: Log, verdict: Verdict) -> None:
    """Measure the time before a fault that is missing in the log if a process with rows died."""
    if not len(log.t) or seen.status in (FINISHED, INTERRUPTED) or one.session == "fast":
        return  # as fast as possible, session time is unrelated to the clock
    verdict.loss_s = max(0.0, seen.struck.t - _ended(one, seen, log, {}))
    if verdict.loss_s > LOSS_S:
        verdict.findings.append(f"the log lacks {verdict.loss_s:.2f} s")


def check_rows(log: Log, said: list[str]) -> None:
    """Check that every tick has a row, except those the master reports as omitted."""
    if "master:skipped" not in log or len(log.t) < 2:
        return
    # The last tick may be at the duration instead of on the grid.
    left_out = np.floor(np.diff(log.t) / STEP + 0.1) - 1.0 - log["master:skipped"][1:]
    if left_out.any():
        at = log.t[1:][left_out != 0.0][0]
        said.append(f"{left_out.sum():.0f} rows are missing without a word, first before {at:g} s")


def _ended(one: Round, seen: Seen, log: Log, summary: dict[str, Any]) -> float:
    """Time of the last tick by the summary, otherwise of the last row, s since 1970."""
    t = summary["time_s"] if summary else (float(log.t[-1]) if len(log.t) else 0.0)
    epoch = int(log.metadata["epoch_ns"]) * 1e-9
    told = any(event.cause == "clock_step" for event in log.events)
    if one.fault == "clock" and not told and not seen.struck.running:
        epoch -= one.amount  # the clock was set before the epoch was read
    return epoch + float(t)


def _summary(seen: Seen) -> dict[str, Any]:
    """The run's summary; empty if missing or incomplete."""
    try:
        file = seen.folder and (seen.folder / "summary.json").read_bytes()
        return dict(json.loads(file or b"{}"))
    except (OSError, ValueError):
        return {}


def _check_texts(seen: Seen, said: list[str]) -> None:
    texts = {"stderr": seen.stderr, "stdout": seen.stdout}
    if seen.folder is not None:
        for file in (seen.folder / "logs").glob("*"):
            texts[file.name] = file.read_text(errors="replace")
    for name, text in texts.items():
        for sign in ("Traceback (most recent", "Fatal Python error", "Assertion failed"):
            if sign in text:
                said.append(f"{name}: {sign}: {text[text.index(sign) :].strip()[-400:]}")


# ---- the bus -----------------------------------------------------------------------------------


def check_bus(one: Round, seen: Seen, ended: float | None, verdict: Verdict) -> None:
    """Check limits, rates and shut-down of the bench; the session ended at `ended`, s."""
    frames = {name: _frames(seen.heard, name) for name in DEMANDS}
    for name, (port, maximum) in DEMANDS.items():
        outside = [f[port] for f in frames[name] if not 0.0 <= f[port] <= maximum]
        if outside:
            verdict.findings.append(f"{name}.{port} is out of its limits: {outside[0]:g}")
        try:
            assert_ramped(frames[name], port)
        except AssertionError as error:
            verdict.findings.append(f"{port} is not ramped: {str(error).splitlines()[0]}")
    if not frames["DynoDemand"]:
        return  # there was no demand
    stopped = one.fault == "stop" and one.length > WATCHDOG_S + SPREAD_S
    if one.target == "gateway" and (one.fault == "kill" or stopped):
        _check_watchdog(one, seen, verdict)
    if one.what != "kill gateway":
        _check_safe(one, seen, ended, frames, verdict)


def _check_safe(
    one: Round, seen: Seen, ended: float | None, frames: dict[str, list[Frame]], verdict: Verdict
) -> None:
    """Check that both inputs reach safe values in time and stay, and the enable is withdrawn."""
    since, reaction = _reference(one, seen, ended)
    limit, reached = reaction + SPREAD_S + _stalls(seen.heard, since), since
    for name, (port, _) in DEMANDS.items():
        high = max((f[port] for f in frames[name] if f.t >= since - STEP), default=0.0)
        limit += high / MAX_RATE[port]
        away = [f.t for f in frames[name] if f[port] != 0.0]
        reached = max(reached, away[-1] if away else 0.0)
        if frames[name][-1:] and frames[name][-1][port] != 0.0:
            verdict.findings.append(f"{port} ends at {frames[name][-1][port]:g}")
    verdict.safe_s = reached - since
    if verdict.safe_s > limit:
        text = f"safe values {verdict.safe_s:.3f} s after the fault, promised are {limit:.3f} s"
        verdict.findings.append(text)
    enabled = [f.t for f in frames["DynoDemand"] if f["Enable"] == 1]
    if frames["DynoDemand"][-1]["Enable"] == 1:
        verdict.findings.append("the enable request is never withdrawn")
    elif enabled and enabled[-1] - since > limit + WITHDRAWN_S:
        late = enabled[-1] - since
        verdict.findings.append(f"enable withdrawn only {late:.3f} s after the fault")


def _reference(one: Round, seen: Seen, ended: float | None) -> tuple[float, float]:
    """Time from which the bench must be shut down, and the limit until this begins, s."""
    struck = seen.struck
    if (
        one.fault in ("kill", "stop", "disk")
        and one.target in REACTION_S
        and seen.status in (3, KILLED)
    ):
        reaction = REACTION_S[one.target] if struck.running else BEFORE_RUNNING_S
        return struck.over if one.target in CONTINUED else struck.t, reaction
    if ended is None:  # without a known end of the session there is no limit
        return struck.t, math.inf if struck.running else BEFORE_RUNNING_S
    # A master that is slow to end its session counts like one that died.
    return ended, MASTER_TIMEOUT


def _check_watchdog(one: Round, seen: Seen, verdict: Verdict) -> None:
    """Check the bench's own watchdog, its only protection without a gateway."""
    bench = _frames(seen.heard, "EngineSlow")
    until = seen.struck.over if one.fault == "stop" else math.inf
    enabled = [f.t for f in bench if f["Enabled"] == 1 and seen.struck.t < f.t < until]
    verdict.safe_s = enabled[-1] - seen.struck.t if enabled else 0.0
    if verdict.safe_s > WATCHDOG_S + SPREAD_S + _stalls(seen.heard, seen.struck.t):
        verdict.findings.append(f"the bench's watchdog acted after {verdict.safe_s:.3f} s")


def _frames(heard: list[Heard], name: str) -> list[Frame]:
    message: Any = MESSAGES.get_message_by_name(name)
    return [
        Frame(one.t, message.decode(one.data, decode_choices=False))
        for one in heard
        if one.can_id == message.frame_id
    ]


def _stalls(heard: list[Heard], since: float) -> float:
    """Times in which the otherwise idle listener did not run, s."""
    return sum(stall_s(one) for one in heard if one.can_id == STALL and one.t >= since)
