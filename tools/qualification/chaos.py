"""Kills, stops and disturbs processes of real sessions at random, and checks guaranteed behaviour.

    python -m tools.qualification.chaos [--rounds 200] [--seed 1] [--round K] [--at-once 1] \\
        [--keep FOLDER]

Each round is a separate session: a bench on a CAN bus, two solvers in real time, or as fast as
possible. At a random time a fault is injected. The following is then checked from outside:

* the bus, by a separate listener process: every demand within its limits and rates, and the inputs
  at their safe values within the times set in the session file;
* that no process of the session is left;
* the log: readable, and complete except for at most a second if the process that wrote it died;
* `summary.json`, the exit status, and that no process printed a traceback.

Prints a table and every finding with the command that repeats its round; status 1 with findings.
Linux; as root, the run's folder is a separate small file system that fills up.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.qualification.chaos_checks import Verdict, check
from tools.qualification.chaos_plan import Round, draw
from tools.qualification.chaos_session import play
from tools.qualification.chaos_strike import small_disk

COMPILE = "from hilrt.session.running import load_numerics; load_numerics()"
NAMESPACE = "CHAOS_NAMESPACE"


def run_round(one: Round, folder: Path, keep: bool, disks: bool) -> Verdict:
    """Run and check one round, and print its result."""
    own, begun = folder / str(one.number), time.monotonic()
    with contextlib.ExitStack() as stack:
        if disks and one.what == "disk full":
            stack.enter_context(small_disk(own / "runs"))
        verdict = check(one, play(one, own))
        if keep and verdict.findings:
            left_out = shutil.ignore_patterns("filler")
            shutil.copytree(own, folder / f"{one.number}-kept", ignore=left_out)
    took = time.monotonic() - begun
    when = "early " if one.early else ""
    found = "; ".join(verdict.findings) or ("ended before" if verdict.void else "passed")
    where = f"round {one.number} ({one.session}: {when}{one.what} at {one.moment:.2f} s)"
    print(f"{where}, {took:.1f} s: {found}", flush=True)
    shutil.rmtree(own)
    return verdict


def own_namespace() -> bool:
    """Whether file systems can be mounted for this process only; restarts in a namespace for it."""
    if os.environ.get(NAMESPACE):
        return True
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*unshare, "true"], check=False).returncode:
        return False
    os.environ[NAMESPACE] = "1"
    os.execvp(unshare[0], [*unshare, sys.executable, *sys.orig_argv[1:]])


def table(results: list[tuple[Round, Verdict]]) -> str:
    """Table of the faults: rounds, how many passed, longest time to safe values, largest loss.

    "void" counts rounds without a finding whose session had ended before the fault.
    """
    groups: dict[tuple[str, str], list[Verdict]] = collections.defaultdict(list)
    for one, verdict in results:
        groups[one.session, one.what].append(verdict)
    head = f"{'session':9}{'fault':22}{'rounds':>7}{'passed':>8}{'void':>6}"
    lines = [f"{head}{'safe after':>12}{'lost':>8}"]
    for (session, what), verdicts in sorted(groups.items()):
        passed = sum(not (verdict.findings or verdict.void) for verdict in verdicts)
        void = sum(verdict.void and not verdict.findings for verdict in verdicts)
        safe, loss = (max(getattr(v, name) for v in verdicts) for name in ("safe_s", "loss_s"))
        row = f"{session:9}{what:22}{len(verdicts):7}{passed:8}{void:6}"
        row += f"{safe:10.3f} s" if session == "engine" else f"{'':12}"
        lines.append(row + f"{loss:6.2f} s")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", dest="only", type=int, help="that round alone")
    parser.add_argument("--at-once", type=int, default=1, help="rounds side by side")
    parser.add_argument("--keep", type=Path, help="folder for what rounds with findings leave")
    arguments = parser.parse_args()
    logging.disable()  # the round reports problems of a log
    disks = own_namespace()
    numbers = range(arguments.rounds) if arguments.only is None else [arguments.only]
    rounds = [draw(arguments.seed, number) for number in numbers]
    subprocess.run([sys.executable, "-c", COMPILE], check=True)  # the first round would wait for it
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        with ThreadPoolExecutor(arguments.at_once) as pool:
            keep = arguments.keep is not None
            verdicts = list(pool.map(lambda one: run_round(one, folder, keep, disks), rounds))
    results = list(zip(rounds, verdicts, strict=True))
    print(table(results))
    failed = [one for one, verdict in results if verdict.findings]
    for one in failed:
        print(f"again: python -m tools.qualification.chaos --seed {one.seed} --round {one.number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
