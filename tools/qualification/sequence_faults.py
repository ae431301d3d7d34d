"""Failures of a test sequence on the emulated bench, each repeated.

    python -m tools.qualification.sequence_faults [--tries 20] [--seed 1] [--fault kill] \\
        [--keep FOLDER]

In turn by `hilrt run` and `hilrt test`, in real time: the sequence's process is killed with
SIGKILL, it raises an exception, its condition times out, it hangs, the session gets Ctrl-C.
External faults occur at a random time. Each try checks, from outside:

* the bus, by a separate node: both inputs are ramped to their safe values, in the order of the safe
  profile, and the enable request is withdrawn and stays so;
* the exit status, 3, or 130 after Ctrl-C; no traceback of the master; no remaining process;
* the log: complete, with the line of the sequence that the sequence also stored in a file.

Prints a table, and every finding with the command that repeats its try; status 1 with findings.
"safe after" is the longest time from the fault to the last frame outside the safe values. It
includes the time-out (0.3 s) and the hang (`late.max_misses`, 0.5 s), then the ramps. Linux.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
from tests.scenarios.failing_sequences import (  # noqa: E402
    SAID,
    assert_safe_and_told,
    failing_run,
    reached,
    safe_after,
    strike,
    until_driving,
)
from tests.scenarios.sessions import Listener  # noqa: E402

COMPILE = "from hilrt.session.running import load_numerics; load_numerics()"
#: Maximum time from the first pedal value to an external fault, s.
LATEST_S = 1.5
FROM_OUTSIDE = ("kill", "interrupt")


class Outcome(NamedTuple):
    """Result of a try: the finding, empty if there is none, and the time to safe values, s."""

    finding: str
    safe_s: float


def try_once(folder: Path, fault: str, seed: int, number: int) -> Outcome:
    """Run one session with one fault."""
    moment = random.Random(f"{seed} {fault} {number}").uniform(0.0, LATEST_S)
    as_test = number % 2 == 1
    with Listener() as listener, failing_run(folder, listener, fault, as_test=as_test) as run:
        try:
            until_driving(run, listener)
            since = struck = time.time()
            if fault in FROM_OUTSIDE:
                time.sleep(moment)
                struck = since = time.time()
                strike(run, fault)
            assert_safe_and_told(run, listener, fault, since)
            at = reached(run)
            if fault not in FROM_OUTSIDE and at is not None:
                struck = at.t
            return Outcome("", safe_after(listener, struck))
        except Exception as error:  # a failed check, or an unreadable result
            return Outcome(f"{type(error).__name__}: {error}"[:2000], 0.0)


def run_tries(folder: Path, fault: str, numbers: range, seed: int, keep: bool) -> list[Outcome]:
    """Run all tries with one fault; with `keep`, folders of those with findings remain."""
    outcomes = []
    for number in numbers:
        own, begun = folder / f"{fault}-{number}", time.monotonic()
        outcome = try_once(own, fault, seed, number)
        took = time.monotonic() - begun
        print(f"{fault}, try {number}, {took:.1f} s: {outcome.finding or 'passed'}", flush=True)
        if outcome.finding:
            options = f"--seed {seed} --fault {fault} --try {number}"
            print(f"again: python -m tools.qualification.sequence_faults {options}", flush=True)
        if not (keep and outcome.finding):
            shutil.rmtree(own)
        outcomes.append(outcome)
    return outcomes


def table(results: dict[str, list[Outcome]]) -> str:
    """Table of the faults: tries, passed tries, longest time to safe values."""
    lines = [f"{'fault':12}{'tries':>7}{'passed':>8}{'safe after':>12}"]
    for fault, outcomes in results.items():
        passed = [outcome.safe_s for outcome in outcomes if not outcome.finding]
        longest = f"{max(passed, default=0.0):10.3f} s"
        lines.append(f"{fault:12}{len(outcomes):7}{len(passed):8}{longest}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=list(SAID), help="that fault alone")
    parser.add_argument("--try", dest="only", type=int, help="that try alone")
    parser.add_argument("--keep", type=Path, help="folder for what tries with findings leave")
    arguments = parser.parse_args()
    faults = [arguments.fault] if arguments.fault else list(SAID)
    only = arguments.only
    numbers = range(arguments.tries) if only is None else range(only, only + 1)
    subprocess.run([sys.executable, "-c", COMPILE], check=True)  # the first try would wait for it
    with tempfile.TemporaryDirectory() as scratch:
        folder, keep = arguments.keep or Path(scratch), arguments.keep is not None
        results = {
            fault: run_tries(folder, fault, numbers, arguments.seed, keep) for fault in faults
        }
    print(table(results))
    return int(any(one.finding for outcomes in results.values() for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
