"""Mutated files and messages for every reader of external data, until a reader fails.

    python -m tools.qualification.fuzz                            all readers, ten minutes
    python -m tools.qualification.fuzz --minutes 60 --readers mf4,blf
    python -m tools.qualification.fuzz --first 1000000  other cases than in other folders
    python -m tools.qualification.fuzz --readers dbc --case 1234  one case again, in this process
    python -m tools.qualification.fuzz --readers dbc --file FILE  a file, likewise
    python -m tools.qualification.fuzz --guided --readers session by coverage, with atheris

Every case is a seed of its reader, which determines the changes to valid samples. A finding is any
forbidden behaviour of a reader: errors other than those for users, a crash, too much time or
memory, or accepting a file that a reference reads differently. The file of a finding is stored
below ``--folder`` with its text, at most a few files per text. There, ``state.json`` has the next
seed of each reader, from which the next call continues. If a reader's own child process crashes on
a file, as that for MF4 files may, this counts as *contained* instead of a finding, provided that
the error names the file.

By default mutations are blind, which is fast and needs no further packages. With ``--guided``,
those for readers of text and messages are guided by the coverage of this package (atheris 3, to be
installed separately: ``pip install atheris``): up to ten times fewer cases, which reach deeper.
libFuzzer then controls the process, with one limit for all its cases and a corpus instead of seeds;
the binary formats, whose readers start child processes, keep blind mutations. HypoFuzz is not
suitable: it runs property tests of hypothesis, whose strategies generate values, whereas these
cases are changes of valid files.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads would not outlive a fork

from tools.qualification.fuzzing.guided import GUIDED, fuzz_guided
from tools.qualification.fuzzing.readers import Reader, all_readers, load_libraries, samples_of
from tools.qualification.fuzzing.worker import Outcome, run_cases

#: Maximum duration of a reader's turn, s; shorter if otherwise not all readers would get one.
TURN_S = 15.0
#: Maximum number of stored findings with the same text.
SAME = 3


@dataclass
class Figures:
    """Results of a reader's cases; `slowest` is processor time, s."""

    cases: int = 0
    accepted: int = 0
    refused: int = 0
    contained: int = 0
    findings: int = 0
    slowest: float = 0.0
    slowest_seed: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.cases += 1
        self.accepted += outcome.kind == "accepted"
        self.refused += outcome.kind == "refused"
        self.contained += outcome.kind == "contained"
        self.findings += outcome.finding
        if outcome.seconds > self.slowest:
            self.slowest, self.slowest_seed = outcome.seconds, outcome.seed
        if outcome.finding:
            self.kinds = dict(Counter(self.kinds) + Counter({outcome.kind: 1}))


class Campaign:
    """Cases of several readers in turn, and the folder for the findings."""

    def __init__(self, folder: Path, readers: list[Reader], first: int = 0) -> None:
        self.folder, self.readers, self._first = folder, readers, first
        self.figures = {reader.name: Figures() for reader in readers}
        self._state = folder / "state.json"
        self._same: Counter[tuple[str, str, str]] = Counter()
        folder.mkdir(parents=True, exist_ok=True)
        self.next: dict[str, int] = {}
        if self._state.exists():
            self.next = json.loads(self._state.read_text())

    def turn(self, reader: Reader, until: float, cases: int = 1 << 60) -> None:
        """Run cases of one reader until a time of the monotonic clock, or a number of cases."""
        first = self.next.get(reader.name, self._first)
        for outcome in run_cases(reader.case, first, first + cases, until):
            self.figures[reader.name].add(outcome)
            if outcome.finding:
                self._keep(reader, outcome)
            self.next[reader.name] = outcome.seed + 1
        self._state.write_text(json.dumps(self.next, indent=1))

    def _keep(self, reader: Reader, outcome: Outcome) -> None:
        last = " ".join(outcome.text.strip().splitlines()[-1:])[:200]
        self._same[reader.name, outcome.kind, re.sub(r"\d+", "0", last)] += 1
        if self._same[reader.name, outcome.kind, re.sub(r"\d+", "0", last)] > SAME:
            return
        place = self.folder / reader.name
        place.mkdir(exist_ok=True)
        (place / f"{outcome.seed}{reader.suffix}").write_bytes(reader.make(outcome.seed)[0])
        (place / f"{outcome.seed}.txt").write_text(f"{outcome.kind}\n{outcome.text}\n")
        print(f"{reader.name} {outcome.seed}: {outcome.kind}: {last}", flush=True)

    def table(self) -> str:
        """Statistics by reader."""
        head = f"{'reader':10} {'cases':>9} {'accepted':>9} {'refused':>9} {'contained':>9}"
        lines = [f"{head} {'findings':>9}  slowest", "-" * 80]
        for name, f in self.figures.items():
            kinds = ", ".join(f"{n} {kind}" for kind, n in f.kinds.items())
            lines.append(
                f"{name:10} {f.cases:9,} {f.accepted:9,} {f.refused:9,} {f.contained:9,} "
                f"{f.findings:9,}  "
                f"{f.slowest:6.3f} s (case {f.slowest_seed}) {kinds}".rstrip()
            )
        return "\n".join(lines)


def guided(readers: list[Reader], options: argparse.Namespace) -> int:
    """Run turns guided by coverage; exit status 1 if there are findings."""
    found = 0
    for reader in readers:
        files = fuzz_guided(reader.name, options.folder, 60.0 * options.minutes / len(readers))
        print(f"{reader.name:10} {len(files)} findings", *files, sep="\n  ", flush=True)
        found += len(files)
    return int(found > 0)


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; exit status 1 if there are findings."""
    known = {reader.name: reader for reader in all_readers()}
    parser = argparse.ArgumentParser(description="Mutated files for all readers.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--readers", default=",".join(known), help="names, with commas between")
    parser.add_argument("--folder", type=Path, default=Path("fuzz_findings"))
    parser.add_argument("--first", type=int, default=0, help="seed that a new folder begins with")
    parser.add_argument("--cases", type=int, help="one turn of so many cases for each reader")
    parser.add_argument("--case", type=int, help="read this case again, without a child")
    parser.add_argument("--file", type=Path, help="read this file, without a child")
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris")
    options = parser.parse_args(arguments)
    unknown = set(options.readers.split(",")) - set(known)
    if unknown:
        parser.error(f"no reader {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if options.guided and find_spec("atheris") is None:
        parser.error("--guided needs atheris: pip install atheris")
    readers = [known[name] for name in options.readers.split(",")]
    os.environ["HILRT_FUZZ_SAMPLES"] = str(options.folder.absolute() / "samples")
    for reader in readers:
        samples_of(reader)
    if options.guided:
        return guided([reader for reader in readers if reader.name in GUIDED], options)
    if options.file is not None:
        print(readers[0].reason(options.file, samples_of(readers[0])[0]) or "accepted")
        return 0
    if options.case is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        print(readers[0].case(options.case, options.folder) or "accepted")
        return 0
    if len(readers) > 1:
        load_libraries()
    campaign = Campaign(options.folder, readers, options.first)
    end = time.monotonic() + 60.0 * options.minutes
    turn = min(TURN_S, 60.0 * options.minutes / len(readers))
    try:
        while time.monotonic() < end:
            for reader in readers:
                cases = options.cases or 1 << 60
                campaign.turn(reader, min(end, time.monotonic() + turn), cases)
                (options.folder / "table.txt").write_text(campaign.table() + "\n")
            if options.cases:
                break
    except KeyboardInterrupt:
        pass
    print(campaign.table())
    figures = {name: asdict(f) for name, f in campaign.figures.items()}
    (options.folder / "figures.json").write_text(json.dumps(figures, indent=1))
    return int(any(f.findings for f in campaign.figures.values()))


if __name__ == "__main__":
    sys.exit(main())
