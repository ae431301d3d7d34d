"""A test sequence on the emulated bench that fails in each way, again and again.

    python -m tools.qualification.sequence_faults [--tries 20] [--seed 1] [--fault kill] \\
        [--keep FOLDER]

In turn by `hilrt run` and `hilrt test`, in real time: the sequence's process is killed with -9, it
raises, its condition times out, it hangs, the session gets Ctrl-C. What comes from outside comes at
a random moment. In each try is checked, from outside:

* the bus, by a node of its own: both inputs ramped to their safe values, in the order of the safe
  profile, and the enable request withdrawn, for good;
* the exit status, 3, and 130 of Ctrl-C; no traceback of the master; no process is left;
* the log: whole, and it tells the very line that the sequence has noted in a file of its own.

Prints a table, and every finding with the command that repeats its try; status 1 with findings.
"safe after" is the longest time from the fault to the last frame that is not at safe values. It has
the time-out (0.3 s) and the hang (`late.max_misses`, 0.5 s) in it, then the ramps. Linux.
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
#: From the first pedal on, until something is done from outside, at most, s.
LATEST_S = 1.5
FROM_OUTSIDE = ("kill", "interrupt")


class Outcome(NamedTuple):
    """Result of a try: the finding, empty if there is none, and the time to safe values, s."""

    finding: str
    safe_s: float


def try_once(folder: Path, fault: str, seed: int, number: int) -> Outcome:
    """One session with one fault."""
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
        except Exception as error:  # a check that failed, or a session that cannot be looked at
            return Outcome(f"{type(error).__name__}: {error}"[:2000], 0.0)


def run_tries(folder: Path, fault: str, numbers: range, seed: int, keep: bool) -> list[Outcome]:
    """All tries with one fault; folders of those with findings stay if they are to be kept."""
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
    """Table of the faults: tries, how many passed, longest time to safe values."""
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
    subprocess.run([sys.executable, "-c", COMPILE], check=True)  # else the first one waits for it
    with tempfile.TemporaryDirectory() as scratch:
        folder, keep = arguments.keep or Path(scratch), arguments.keep is not None
        results = {
            fault: run_tries(folder, fault, numbers, arguments.seed, keep) for fault in faults
        }
    print(table(results))
    return int(any(one.finding for outcomes in results.values() for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
