"""Calibration on families of other physics, judged by omitting one family at a time.

    python -m tools.calibration.physics --sessions 450 --seed 7 --out physics.jsonl    resumable
    python -m tools.calibration.physics --sessions 450 --seed 7 --reference-models \\
        --out references.jsonl
    python -m tools.calibration.physics --report physics.jsonl references.jsonl \\
        --write docs/calibration.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hilrt.wording import OF_MODEL
from tools.calibration.compare import CLASSES
from tools.calibration.figures import (
    GOALS,
    LETTERS,
    Goal,
    Line,
    coverage,
    intervals,
    matrix,
    share,
    usable,
)
from tools.calibration.fit import left_out
from tools.calibration.judge import judged
from tools.calibration.kinds.listed import NONE, REFERENCE, RESTORABLE
from tools.calibration.report import percent, table
from tools.calibration.runs import (
    PHYSICS_ALONE,
    PHYSICS_WITH_REFERENCES,
    read_lines,
    run_many,
)

#: Shares computed for a verdict of all sessions, and the share of truly good ones called `good`.
SHARES = (
    *GOALS[:4],
    Goal("< 1 %: called `good`", None, None, lambda s: s["truth"]["error"] < 0.01,
         lambda s: s["said"]["verdict"] == "good"),
)  # fmt: skip


def evidence(line: Line) -> str:
    """Best evidence available to the estimate of a session."""
    estimates = (line["said"].get("estimated_error") or {}).values()
    if "reference" in line:
        return REFERENCE
    if any(estimate["how"] == OF_MODEL for estimate in estimates):
        return REFERENCE
    return RESTORABLE if all(line["settings"]["restorable"].values()) else NONE


def lines_of(paths: Sequence[Path]) -> list[Line]:
    """Sessions of several files; those run with reference models are marked."""
    found = []
    for path in paths:
        lines = usable(read_lines(path))
        some = any(evidence(line) == REFERENCE for line in lines)
        found += [line | {"reference": True} if some else line for line in lines]
    return found


def report(paths: Sequence[Path]) -> str:
    """Return the results as Markdown."""
    told = lines_of(paths)
    fitted = []
    for of in ([s for s in told if "reference" in s], [s for s in told if "reference" not in s]):
        constants = left_out(of) if of else {}
        fitted += [judged(line, constants[line["group"]]) for line in of]
    parts = [
        f"{len(told):,} sessions, drawn from this distribution.",
        "With hilrt's constants, which were fitted to none of these families:\n\n" + _shares(told),
        "With constants that were fitted to the other eight families:\n\n" + _shares(fitted),
        "### By family\n\nWith hilrt's constants:\n\n" + _families(told),
    ]
    return "\n\n".join(parts) + "\n"


def _shares(lines: list[Line]) -> str:
    rows = []
    for kind in (RESTORABLE, REFERENCE, NONE, "all"):
        of = [line for line in lines if kind in ("all", evidence(line))]
        covered, width = coverage(intervals(of))
        cells = []
        for goal in SHARES:
            count = sum(goal.of(line) for line in of)
            cells.append(f"{percent(share(goal, of))} of {count}")
        rows.append([kind, len(of), *cells, f"{percent(covered)}, {width:.1f}"])
    bounds = ["", "", "≥ 95 %", "≤ 1 %", "≥ 90 %", "≤ 2 %", "", "≥ 90 %, ≤ 4"]
    head = ["evidence", "sessions", *(goal.name for goal in SHARES), "intervals cover, width"]
    return table(head, [["goal", *bounds[1:]], *rows])


def _families(lines: list[Line]) -> str:
    rows = []
    for group in sorted({line["group"] for line in lines}):
        of = [line for line in lines if line["group"] == group]
        counts = ["/".join(map(str, row)) for row in matrix(of)]
        covered, width = coverage(intervals(of))
        cover = f"{percent(covered)}, {width:.1f}"
        rows.append([group, len(of), *counts, percent(share(GOALS[0], of)), cover])
    names = [f"{name}: {'/'.join(LETTERS)}" for name in CLASSES]
    return table(["family", "sessions", *names, "of `good`, < 5 %", "intervals"], rows)


def write(page: Path, paths: Sequence[Path]) -> None:
    """Rewrite the results of the page's section, up to the next heading of its level."""
    before, found, rest = page.read_text(encoding="utf-8").partition("### Shares\n")
    _, _, after = rest.partition("\n## ")
    if not found or not after:
        raise ValueError(f"{page} has no section on other physics to write")
    page.write_text(f"{before}{found}\n{report(paths).strip()}\n\n## {after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=450)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--reference-models", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("physics.jsonl"))
    parser.add_argument("--report", type=Path, nargs="+")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    if args.report and args.write:
        write(args.write, args.report)
    elif args.report:
        print(report(args.report))
    else:
        mode = PHYSICS_WITH_REFERENCES if args.reference_models else PHYSICS_ALONE
        for _ in run_many(range(args.sessions), args.seed, args.out, 1, mode=mode):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
