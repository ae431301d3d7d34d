"""Limited child process that runs cases: its crash, time and memory are also results.

A worker is forked with all modules imported, and runs many cases in turn. It announces each case
before it begins, so that the parent can assign a crash or a hang to its case.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: Maximum memory allocated by a worker beyond its start, bytes.
MEMORY = 1 << 30
#: Growth of the resident memory in one case that counts as a finding, bytes.
GROWTH = 400 << 20
#: Processor time of a case that counts as a finding, and one that ends the worker, s.
SLOW_S, ENDED_S = 5.0, 20
#: Cases after which a worker is replaced, so that leftovers of a case do not affect all others.
CASES = 2000
#: Wall time without any progress after which a case counts as a hang, s.
HANG_S = 120.0


#: Outcomes that are not findings.
GOOD = ("accepted", "refused", "contained")
#: Part of the error message if a reader's child process has crashed.
DIED = "the reader of it"


class Outcome(NamedTuple):
    """Result of a case: `kind` is ``accepted``, ``refused`` or that of a finding.

    ``contained``: refused, because the reader's own child process crashed.
    """

    seed: int
    kind: str
    text: str = ""
    seconds: float = 0.0

    @property
    def finding(self) -> bool:
        """Whether the outcome is a finding."""
        return self.kind not in GOOD


class Wrong(Exception):
    """A reader accepted a file that a reference reads differently."""


#: Function that makes and reads a case; returns why it was refused, or an empty text.
Case = Callable[[int, Path], str]


def run_cases(case: Case, first: int, last: int, until: float) -> Iterator[Outcome]:
    """Outcomes of the cases `first` to `last`, at most until `until` on the monotonic clock."""
    while first < last and time.monotonic() < until:
        final = min(last, first + CASES)
        for outcome in _one_worker(case, first, final, until):
            first = outcome.seed + 1
            yield outcome


def _one_worker(case: Case, first: int, last: int, until: float) -> Iterator[Outcome]:
    folder = Path(tempfile.mkdtemp(prefix="hilrt_fuzz_"))
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _work(case, range(first, last), until, folder, writing)
    os.close(writing)
    begun: int | None = None
    killed = False
    try:
        unread = b""
        while True:
            ready, _, _ = select.select([reading], [], [], HANG_S)
            killed = not ready
            more = os.read(reading, 1 << 16) if ready else b""
            if not more:
                break
            *lines, unread = (unread + more).split(b"\n")
            for line in lines:
                said: dict[str, Any] = json.loads(line)
                begun = said.get("begin")
                if begun is None:
                    yield Outcome(**said)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        shutil.rmtree(folder, ignore_errors=True)
    if begun is not None:
        yield Outcome(begun, *_death(status, killed))


def _death(status: int, killed: bool) -> tuple[str, str]:
    if killed:
        return "hang", f"no end after {HANG_S:g} s"
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGPROF:
        return "slow", f"over {ENDED_S} s of processor time"
    if code < 0:
        return "death", f"signal {signal.Signals(-code).name}"
    return "death", f"exit status {code}"


def _work(case: Case, seeds: range, until: float, folder: Path, writing: int) -> None:
    """Run the cases in the child process; does not return."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        tempfile.tempdir = str(folder)
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        _limit_memory()
        with os.fdopen(writing, "w", encoding="utf-8", buffering=1) as results:
            for seed in seeds:
                if time.monotonic() > until:
                    break
                results.write(json.dumps({"begin": seed}) + "\n")
                results.write(json.dumps(_outcome(case, seed, folder)._asdict()) + "\n")
        status = 0
    finally:
        os._exit(status)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _outcome(case: Case, seed: int, folder: Path) -> Outcome:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, ENDED_S)
    start = time.process_time()
    kind, text = "accepted", ""
    try:
        refused = case(seed, folder)
        if refused:
            kind = "contained" if DIED in refused else "refused"
    except Wrong as error:
        kind, text = "wrong", str(error)
    except MemoryError:
        kind, text = "memory", traceback.format_exc()
    except BaseException:
        kind, text = "traceback", traceback.format_exc()
    seconds = time.process_time() - start
    signal.setitimer(signal.ITIMER_PROF, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if kind in GOOD:
        if seconds > SLOW_S:
            kind, text = "slow", f"{seconds:.1f} s of processor time"
        elif grown > GROWTH:
            kind, text = "memory", f"{grown >> 20} MB more resident memory"
    for left in folder.iterdir():  # files made by the case
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return Outcome(seed, kind, text, seconds)
