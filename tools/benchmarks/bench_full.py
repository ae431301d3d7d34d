"""The exchange of `bench_exchange.py` in a whole session: every stage, recording and telemetry on.

A session in a separate process, as fast as possible: a ring of solver processes with 4 inputs and 4
outputs each, first order, limits, an alarm, power bonds with energy correction and one, in sessions
that are not too large for it, with an identified model. The master has its own processor
(`pacing.affinity`), the solvers share the others. The first solver also returns the monotonic
clock, so that the log contains the duration of each step, from one advance to the next: until all
replies have arrived and the slack is completed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import hilrt
from hilrt import InputPolynomial, Port, Sample, Solver
from hilrt.coupling.build_model import MAX_VARIABLES
from hilrt.solver import Floats
from hilrt.timing.host import available_cpus

PORTS = 4
#: Steps per period.
WAVE = 314
UNITS = ("N", "N", "m/s", "m/s")
#: Steps not counted: for the first half second a session is slower, until all its processes run and
#: the identification has settled.
WARM_UP = 1500
STEP_S = 1e-3
TIME_LIMIT_S = 120.0


class Part(Solver):
    """Enough motion for the corrections to act, at the lowest possible cost."""

    inputs = tuple(Port(f"u{i}", UNITS[i], min=-1e3, max=1e3) for i in range(PORTS))
    outputs = (*(Port(f"y{i}", UNITS[i]) for i in range(PORTS)), Port("clock", "s"))

    def __init__(self) -> None:
        k, port = np.arange(WAVE)[:, None], np.arange(PORTS + 1)
        self._waves = np.sin(2.0 * np.pi * k / WAVE + port)
        self._step = -1

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return self._sample(u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return self._sample(u.coefficients[0])

    def _sample(self, u: Floats) -> Sample:
        self._step += 1
        y = self._waves[self._step % WAVE].copy()
        y[:PORTS] += 0.5 * u
        y[PORTS] = time.monotonic()
        return Sample(y)


def session(peers: int) -> str:
    """The session file."""
    parts = [
        '[session]\nname = "bench-full"\nduration = 1.0\npace = "asap"\n',
        f"[master]\nstep = {STEP_S}\nconnect_timeout = 60.0\nextrapolation = {{ order = 1 }}\n",
        f"pacing = {{ affinity = [{available_cpus()[-1]}] }}\n",
        '[monitor]\nlisten = "tcp://127.0.0.1:*"\n',
        '[[alarms]]\nsignal = "s0.y0"\nmax = 1e6\naction = "log"\n',
    ]
    modelled = peers * (2 * PORTS + 1) <= MAX_VARIABLES
    for i in range(peers):
        other = (i + 1) % peers
        command = ["hilrt", "solver", "tools.benchmarks.bench_full:Part"]
        parts.append(f'[subsystems.s{i}]\nadapter = "zeromq"\nspawn = {json.dumps(command)}\n')
        if i == 0:
            parts.append('jacobian = { source = "identify" }\n')
        for k in range(PORTS):
            a, b = (i, other) if k < 2 else (other, i)  # efforts one way, flows the other
            parts.append(f'[[connections]]\nfrom = "s{a}.y{k}"\nto = "s{b}.u{k}"\n')
        if other == i:
            continue  # a single part is its own neighbour: no bond
        method = '"model"' if i == 0 and modelled else '"energy", mu = 0.5, cap = 0.1'
        parts.append(f'[[bonds]]\nname = "b{i}"\neffort = "s{i}.y0"\nflow = "s{other}.y2"\n')
        parts.append(f"correction = {{ method = {method} }}\n")
    return "\n".join(parts)


def measure(peers: int, exchanges: int) -> list[float]:
    """Times of the steps, us; empty if the session failed."""
    with tempfile.TemporaryDirectory() as scratch:
        file, out = Path(scratch) / "full.toml", Path(scratch) / "runs"
        file.write_text(session(peers), encoding="utf-8")
        duration = (WARM_UP + exchanges) * STEP_S
        command = [sys.executable, "-m", "hilrt", "run", str(file), "--out", str(out), "--quiet"]
        try:
            done = subprocess.run(
                [*command, "--duration", str(duration)],
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT_S,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"the session did not end within {TIME_LIMIT_S:g} s", file=sys.stderr)
            return []
        if done.returncode:
            reason = done.stderr.strip()
            print(f"the session ended with status {done.returncode}: {reason}", file=sys.stderr)
            return []
        clock: Any = hilrt.load_log(next(out.iterdir()))["s0.clock"]
    times: list[float] = (np.diff(clock[WARM_UP:]) * 1e6).tolist()
    return times
