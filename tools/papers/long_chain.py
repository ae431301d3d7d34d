"""Runs the long chain of masses at full size with its monolithic solution, in segments of time.

    python -m tools.papers.long_chain [--case d=1e4:explicit d=5e5:implicit] [--until 0.5]

Multibody Syst. Dyn. 09817 (2022), section 6.2, Figs 17 to 23; a case is a property of masses or
elements (d, c, m, …) with its value, and a scheme. Each segment stores the final states of both
runs in ``OUT/CASE.npz``, so that an interrupted study continues from there; the coupled run begins
each segment with degree 0. Prints steps, integrations of the whole chain (all attempts, corrections
and trials for the interface Jacobian), processor time, and the error of the coupling bodies (eq.
36) after every segment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.integrate import solve_ivp

import tools.papers.long_chain as here  # differs from the module run as `__main__`
from bench_configs.long_chain import (
    ELEMENT,
    FIRST,
    FORCE,
    GROWTH,
    LARGEST,
    LENGTH,
    PERIOD,
    RISE,
    TOUCH,
    WALL,
    M,
    Segment,
    Segments,
    chain,
    session,
)
from hilrt import InputPolynomial, Sample, simulate
from hilrt.solver import Floats

CONFIGS = Path(__file__).parents[2] / "bench_configs"


class Resumed(Segments):
    """A chain that begins at `start` (s and shape (2, n)) and stores its end there.

    Attributes
    ----------
    start : tuple of float and ndarray, or None
    integrations : int
        Calls of `advance` by all chains so far.
    """

    start: ClassVar[tuple[float, Floats] | None] = None
    integrations: ClassVar[int] = 0

    def __init__(self, members: Mapping[str, Segment]) -> None:
        super().__init__(members)
        self.begin = self.now = 0.0
        if self.start is not None:
            self.begin, self.state = self.start
            self.state, self.now = self.state.copy(), self.begin

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate, from the beginning of the segment."""
        self.now = self.begin + t + h
        type(self).integrations += 1
        return super().advance(self.begin + t, h, InputPolynomial(self.begin + t, u.coefficients))

    def stop(self, reason: str) -> None:
        """Store the state."""
        type(self).start = self.now, self.state
        super().stop(reason)


def rates(t: float, y: Floats, table: Floats) -> Floats:
    """Derivatives of the whole chain; `y`, shape (2 n,): displacement, velocity of each mass."""
    x, v = np.pad(y[::2], 1), np.pad(y[1::2], 1)
    e, w = np.diff(x), np.diff(v)
    c, d, C, D = table[ELEMENT:WALL, :1]
    begun = t - FIRST - PERIOD * max(round((t - FIRST) / PERIOD), 0.0)
    force = np.diff(c * e + C * e**3 + d * w + D * w**3)
    force += table[FORCE] * 0.5 * (np.tanh(begun / RISE) - np.tanh((begun - LENGTH) / RISE))
    force += table[TOUCH] * np.exp(np.minimum(GROWTH * y[::2], LARGEST))
    return np.stack((y[1::2], force / table[M]), axis=1).ravel()


def run_piece(
    saved: dict[str, Any],
    params: Mapping[str, Any],
    scheme: str,
    segments: int,
    masses: int,
    piece: float,
) -> dict[str, Any]:
    """Continue both runs by one segment; `saved` is the previous segment's result, or empty."""
    before = here.Resumed.integrations
    here.Resumed.start = (float(saved["t"]), saved["state"]) if saved else None
    file = session(segments, masses, duration=piece, **params).build(CONFIGS)
    changes = {"master.scheme": scheme, "groups.chain.together": f"{here.__name__}:Resumed"}
    began = time.process_time()
    result = simulate(file, changes)
    coupled_s = time.process_time() - began
    if result.fault:
        raise SystemExit(result.fault)
    assert result.log is not None
    assert here.Resumed.start is not None
    t, state = here.Resumed.start
    whole = chain(segments, masses, **params)
    begin = float(saved["t"]) if saved else 0.0
    times = np.minimum(begin + result.log.t, t)
    start = saved["truth"] if saved else np.zeros(2 * masses)
    began = time.process_time()
    found = solve_ivp(
        rates, (begin, t), start, "LSODA", times, args=(whole.table,), rtol=1e-6, atol=1e-9,
        lband=3, uband=3,
    )  # fmt: skip
    if not found.success:
        raise SystemExit(f"monolithic: {found.message}")
    first, last = whole.first[:-1], whole.first[1:] - 1
    sums = np.zeros((3, 4 * segments))
    for i in range(4 * segments):
        place, k = ("first", "last")[i // 2 % 2], i % 2
        z = found.y[2 * (first, last)[i // 2 % 2][i // 4] + k]
        off = z - result.log[f"s{i // 4}.{'xv'[k]}_{place}"]
        sums[:, i] = np.sum(off**2), np.sum(z), np.sum(z**2)
    again = result.summary["repeated"]
    more = {
        "sums": sums,
        "points": len(times),
        "steps": result.summary["steps"],
        "corrections": again["corrections"],
        "integrations": here.Resumed.integrations - before,
        "refused": again["refused"],
        "coupled_s": coupled_s,
        "monolithic_s": time.process_time() - began,
    }
    added = {key: value + (saved[key] if saved else 0) for key, value in more.items()}
    return {"t": t, "state": state, "truth": found.y[:, -1], **added}


def line(case: str, saved: Mapping[str, Any]) -> str:
    """Format the result for people."""
    off, z, square = saved["sums"]
    spread = np.maximum(square - z**2 / saved["points"], 1e-300)
    error = float(np.sqrt(np.sum(off / spread)))
    return (
        f"{case}: {float(saved['t']):.6f} s, {int(saved['steps']):,} steps, "
        f"{int(saved['corrections']):,} corrections, {int(saved['refused']):,} refused, "
        f"{int(saved['integrations']):,} integrations, "
        f"{float(saved['coupled_s']):.0f} s of processor time, monolithic "
        f"{float(saved['monolithic_s']):.0f} s, error {error:.2e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--case", nargs="+", default=["d=1e4:explicit", "d=5e5:implicit"])
    parser.add_argument("--out", type=Path, default=Path("runs/long_chain"), help="folder")
    parser.add_argument("--segments", type=int, default=191)
    parser.add_argument("--masses", type=int, default=10_000)
    parser.add_argument("--until", type=float, default=0.5, metavar="S", help="session time")
    parser.add_argument("--piece", type=float, default=1e-4, metavar="S")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for case in args.case:
        changed, scheme = case.split(":")
        name, _, value = changed.partition("=")
        file = args.out / f"{case.replace(':', '_')}_{args.segments}_{args.masses}.npz"
        saved: dict[str, Any] = dict(np.load(file)) if file.exists() else {}
        while not saved or float(saved["t"]) < args.until:
            size = (args.segments, args.masses, args.piece)
            saved = run_piece(saved, {name: float(value)}, scheme, *size)
            part = file.with_suffix(".part.npz")
            np.savez(part, **saved)
            part.replace(file)
            print(line(case, saved), flush=True)


if __name__ == "__main__":
    main()
