"""Delays of this host and of a session's peers, measured and stored in a file for the advice.

Without a session, the lateness of wake-ups of a process that waits like the master is measured.
With a session, it is run for some seconds in real time, and processes start and peers connect as
for ``hilrt run``. Reference models replace benches, because nothing may move unattended.
"""

from __future__ import annotations

import asyncio
import math
import platform
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np

from hilrt.config.session_file import SessionFile
from hilrt.errors import ConfigError, HilrtError
from hilrt.files.text import read_regular, write_whole
from hilrt.session.result import Result
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.solver import Floats
from hilrt.studies.session_models import with_models
from hilrt.timing.clock import measure_spin_ns
from hilrt.timing.doctor import INTERVAL_NS, WAKES, wake_up

#: Largest file that is read, bytes; an hour at 1 kHz takes some 30 MB.
MOST_BYTES: Final = 64 << 20


class MeasuredDelays(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Delays of a host and its peers.

    Attributes
    ----------
    format : str
    host : str
        Its name.
    session : str
        Name of the session that was run; empty if only wake-ups were measured.
    lateness_us : list of float
        Time from each tick, including skipped ones, until its inputs had been sent, or lateness of
        each wake-up, in the order of time, µs.
    answers_us : dict of str to list of float
        For each subsystem in another process: computing time of each step plus the transmission
        time of its messages in both directions, µs.
    """

    format: Literal["hilrt-delays-1"]
    host: str
    session: str
    lateness_us: list[float]
    answers_us: dict[str, list[float]]


def measure_host(seconds: float) -> MeasuredDelays:
    """Measure, for `seconds`, the lateness of wake-ups of a process that waits like the master."""
    spin = asyncio.run(measure_spin_ns())
    rounds = max(round(seconds * 1e9 / (WAKES * INTERVAL_NS)), 1)
    lateness = np.concatenate([asyncio.run(wake_up(spin)) for _ in range(rounds)]) * 1e-3
    return MeasuredDelays("hilrt-delays-1", platform.node(), "", _known(lateness), {})


def measure_session(
    file: SessionFile, seconds: float, run: Callable[..., Result] = run_session
) -> MeasuredDelays:
    """Measure a session's delays in a run without benches.

    Parameters
    ----------
    file : SessionFile
    seconds : float
        Longest session time of the run, s.
    run : function
        As `run_session`.

    Raises
    ------
    ConfigError
        If a bench has no reference model.
    HilrtError
        If the run does not reach its end, or no tick was recorded.
    """
    models = with_models(file, [], benches_only=True, longest=seconds)
    with tempfile.TemporaryDirectory() as folder:
        options = RunOptions(folder=Path(folder) / "run", pace="realtime")
        result = run(models, options=options)
        if result.fault:
            raise HilrtError(f"the delays could not be measured: {result.fault}")
        log = result.log
        lateness = _known(lateness_of(log, file.tables.master.step))
        if not lateness:
            raise HilrtError("the delays could not be measured: no tick was recorded")
        answers = {}
        for name in file.tables.subsystems:
            if f"{name}:wire" in log:
                both = np.asarray(log[f"{name}:compute"]) + 2.0 * np.asarray(log[f"{name}:wire"])
                answers[name] = _known(both)
    known = {name: times for name, times in answers.items() if times}
    name = file.tables.session.name
    return MeasuredDelays("hilrt-delays-1", platform.node(), name, lateness, known)


def lateness_of(log: Mapping[str, Floats], step: float) -> Floats:
    """Time from each tick, including skipped ones, until its inputs had been sent, µs.

    The inputs of a skipped tick are those of the next tick that was not skipped. The share above a
    given time is therefore the share of ticks that would be missed, at any step.
    """
    late, skipped = (np.asarray(log[f"master:{name}"]) for name in ("lateness", "skipped"))
    ticks = np.nan_to_num(skipped).astype(int) + 1  # the tick, and those skipped before it
    before = np.repeat(np.cumsum(ticks), ticks) - 1 - np.arange(ticks.sum())
    lateness: Floats = np.repeat(late, ticks) + 1e6 * step * before
    return lateness


def _known(times: Floats) -> list[float]:
    return [float(time) for time in np.round(times[np.isfinite(times)], 1)]


def write_delays(path: Path, delays: MeasuredDelays) -> None:
    """Write the delays to a file; `OSError` if that fails."""
    write_whole(path, msgspec.json.encode(delays).decode())


def read_delays(path: Path) -> MeasuredDelays:
    """Read delays from a file; `ConfigError` if `write_delays` did not write it."""
    again = "measure again (hilrt doctor --measure)"
    try:
        found = msgspec.json.decode(read_regular(path, MOST_BYTES), type=MeasuredDelays)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; {again}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: has no measured delays: {error}; {again}") from None
    if not found.lateness_us:
        raise ConfigError(f"{path}: has no measured delays; {again}")
    return found


def missed_share(lateness: Floats | None, latest: float) -> float:
    """Upper end of the 95 % interval of the share of missed ticks.

    Clopper and Pearson (1934), for pauses of the host instead of ticks: a pause delays several
    ticks in a row, so the number of independent ticks is the number of ticks divided by the mean
    number in a row.

    Parameters
    ----------
    lateness : ndarray, optional
        Times from the ticks until their inputs are sent, in the order of time, s; without any the
        share is NaN.
    latest : float
        Time limit from a tick until its inputs are sent, s.
    """
    if lateness is None:
        return math.nan
    from scipy.stats import beta

    late = lateness > latest
    pauses = np.count_nonzero(late[1:] & ~late[:-1]) + int(late[0])
    length = np.count_nonzero(late) / pauses if pauses else 1.0
    upper = float(beta.ppf(0.95, pauses + 1, max(len(late) / length - pauses, 1.0)))
    return max(upper, float(np.mean(late)))
