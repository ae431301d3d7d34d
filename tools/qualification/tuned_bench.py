"""Corrections tuned on logs of the emulated engine bench: comparison of prediction and run.

    python -m tools.qualification.tuned_bench --out DIR [--seeds 5] [--seconds 30] [--set KEY=VALUE]

For each seed of the bench's noise: the demonstration's session runs in real time with its
correction in shadow, `hilrt tune` chooses μ, ν and cap from that log only, and the session runs
again with them. The exchange energy of the bond's ledger (the uncorrected share of the carried
energy; tracking energy separately) is compared: recorded, predicted and run. Status 1 if in more
than one of five seeds a predicted reduction did not occur, or none was predicted. Existing runs are
not repeated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hilrt.studies.axes import Settings
from hilrt.studies.tune import tune

CONFIGS = Path(__file__).parents[2] / "bench_configs"
SESSION = CONFIGS / "engine_in_the_loop.toml"
BOND = "shaft"
#: The tuned values.
VARY = {
    f"bonds.{BOND}.correction.mu": "0:1",
    f"bonds.{BOND}.correction.nu": "0:0.5",
    f"bonds.{BOND}.correction.cap": "0.02:0.3:log",
}
TRIALS = 30
#: Minimum share of the seeds in which the prediction must hold.
MOST_FAIL = 0.2


def run(folder: Path, seed: int, sets: Sequence[str], *, shadow: bool) -> dict[str, Any]:
    """Run the session in a folder against a bench with that seed; return its summary."""
    summary = folder / "summary.json"
    if not summary.exists():
        # The bench is a separate process: the session file has no key for a seed.
        text = SESSION.read_text("utf-8").replace('emulator = "engine"', "")
        session = SESSION.with_name(f".tuned_bench_{folder.name}.toml")
        channel = f"239.74.163.{100 + seed}"
        bus = [f'subsystems.engine.bus.channel="{channel}"']
        hilrt = [sys.executable, "-m", "hilrt"]
        where = ["--bus", f"interface=udp_multicast,channel={channel},hop_limit=0"]
        where += ["--database", str(CONFIGS / "engine_bench.dbc"), "--seed", str(seed)]
        words = [word for text in (*bus, *sets) for word in ("--set", text)]
        session.write_text(text, "utf-8")
        bench = subprocess.Popen([*hilrt, "emulate", "engine", *where])
        try:
            mode = ["--shadow"] if shadow else []
            command = [*hilrt, "run", str(session), "--folder", str(folder), "--quiet", "--arm"]
            subprocess.run([*command, *mode, *words], check=False)
        finally:
            bench.terminate()
            bench.wait(30.0)
            session.unlink()
    found: dict[str, Any] = json.loads(summary.read_text("utf-8"))
    return found


def share(summary: Mapping[str, Any]) -> float:
    """Uncorrected exchange energy, as a share of the carried energy."""
    bond = summary["bonds"][BOND]
    return abs(float(bond["interface_energy_j"])) / float(bond["carried_energy_j"])


def judge(folder: Path, seed: int, sets: Sequence[str]) -> dict[str, Any]:
    """Record, tune and run again with one seed."""
    before = run(folder / "shadow", seed, sets, shadow=True)
    line: dict[str, Any] = {"seed": seed, "shadow": share(before), "fault": before.get("fault")}
    found = tune([folder / "shadow"], "energy", (), vary=VARY, trials=TRIALS, out=folder / "tune")
    line |= {"recorded": found.before, "predicted": found.after, "settings": found.settings}
    if found.settings:
        own = [f"{key}={value}" for key, value in found.settings.items()]
        after = run(folder / "tuned", seed, [*sets, *own], shadow=False)
        line |= {"tuned": share(after), "bond": after["bonds"][BOND]}
    return line


def holds(line: Mapping[str, Any]) -> bool | None:
    """Whether the exchange energy decreased as predicted; None if nothing was predicted."""
    settings: Settings = line["settings"]
    return line["tuned"] < line["shadow"] if settings else None


def main() -> None:
    """Judge all seeds, and print one line of JSON for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    sets, lines = [f"session.duration={given.seconds!r}", *given.sets], []
    for seed in range(1, given.seeds + 1):
        lines.append(judge(given.out / str(seed), seed, sets))
        print(json.dumps(lines[-1]), flush=True)
    held = [holds(line) for line in lines]
    print(f"held in {held.count(True)} of {len(held)}, nothing predicted in {held.count(None)}")
    raise SystemExit(len(held) - held.count(True) > MOST_FAIL * len(held))


if __name__ == "__main__":
    main()
