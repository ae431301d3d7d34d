"""Run the kinds of physics against the verdict, and count correct verdicts.

python -m tools.calibration.kinds.trial first --out first.jsonl      resumable, in one process
python -m tools.calibration.kinds.trial first --report first.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tools.calibration.compare import CLASSES
from tools.calibration.figures import Line, coverage, intervals, matrix, usable
from tools.calibration.kinds.expected import (
    STREAM,
    expectations,
    restorable,
    right_words,
    system_of,
    truth_of,
)
from tools.calibration.kinds.listed import NONE, REFERENCE, RESTORABLE, TRIALS
from tools.calibration.law import Draw
from tools.calibration.mistaken import add_references
from tools.calibration.report import percent, table
from tools.calibration.runs import outcome, plain, read_lines
from tools.calibration.scripted_links import Measurement


def drawn(line: dict[str, Any]) -> Draw:
    """The session described by an expectation."""
    system, seedling = system_of(line)
    step = line["step"]
    settings = {
        **line, "h": step, "h_omega": step * system.omega, "integrator": "exact", "pace": "asap",
        "method": "none", "control": "fixed", "every": 1, "limited": False,
    }  # fmt: skip
    tables = {
        "master": {"step": step, "extrapolation": {"order": line["order"]}},
        "subsystems": {part.name: {} for part in system.parts},
        "connections": [{"from": a, "to": b} for a, b in system.connections],
    }
    nothing = {part.name: np.zeros(part.sizes[1]) for part in system.parts}
    draw = Draw(
        line["number"], line["kind"], system, truth_of(system, system.settings["span"]), step,
        line["steps"] * step, tables, "exact", restorable(line, system), line["middle"],
        {name: Measurement(zeros, zeros) for name, zeros in nothing.items()}, {}, "", (0.0, 0.0),
        np.random.default_rng([STREAM, line["number"]]), settings, seedling,
    )  # fmt: skip
    if line["evidence"] == REFERENCE:
        add_references(draw, STREAM)
    return draw


def one_session(line: dict[str, Any]) -> Line:
    """Return the verdict on a session with the expected one and its true error."""
    draw = drawn(line)
    return {**line, "group": line["kind"], "settings": draw.settings, **outcome(draw)}


def is_right(line: Line) -> bool:
    """Whether the verdict is one of those allowed by the true error of the run."""
    right = right_words(line["truth"]["error"], line["evidence"])
    return line["said"]["verdict"] in right


def covers(lines: list[Line]) -> tuple[float, float]:
    """Share of the intervals that cover the true error, and their median width."""
    return coverage(intervals(lines))


COUNTS: tuple[tuple[str, Callable[[Line], bool], Callable[[Line], bool]], ...] = (
    ("< 1 %, called `good`", lambda s: s["truth"]["error"] < 0.01,
     lambda s: s["said"]["verdict"] == "good"),
    ("> 20 %, called `good`", lambda s: s["truth"]["error"] > 0.2,
     lambda s: s["said"]["verdict"] == "good"),
    ("> 20 %, called `unreliable`", lambda s: s["truth"]["error"] > 0.2,
     lambda s: s["said"]["verdict"] == "unreliable"),
    ("`good`, within 5 %", lambda s: s["said"]["verdict"] == "good",
     lambda s: s["truth"]["error"] < 0.05),
    ("right word", lambda s: True, is_right),
)  # fmt: skip


def report(lines: list[Line]) -> str:
    """The tables of a trial, as Markdown."""
    rows = []
    for evidence in (RESTORABLE, REFERENCE, NONE, "all"):
        of = [s for s in lines if evidence in ("all", s["evidence"])]
        cells = []
        for _, among, holds in COUNTS:
            held = [holds(line) for line in of if among(line)]
            cells.append(f"{sum(held)} of {len(held)}")
        covered, width = covers(of)
        rows.append([evidence, len(of), *cells, f"{percent(covered)}, {width:.1f}"])
    head = ["evidence", "sessions", *(name for name, _, _ in COUNTS), "intervals cover, width"]
    parts = [table(head, rows)]
    rows = []
    for evidence in (RESTORABLE, REFERENCE, NONE):
        counts = matrix([s for s in lines if s["evidence"] == evidence])
        rows.append([evidence, *("/".join(map(str, row)) for row in counts)])
    parts.append(table(["evidence", *(f"{name}: g/v/d/u" for name in CLASSES)], rows))
    rows = [
        [s["number"], s["kind"], s["evidence"], f"{100 * s['truth']['error']:.3g} %",
         f"`{s['said']['verdict']}`", f"order {s['order']}, {s['steps']} steps",
         "; ".join(s["said"]["reasons"][:2])]
        for s in lines if not is_right(s)
    ]  # fmt: skip
    head = ["session", "kind", "evidence", "true error", "verdict", "settings", "reasons"]
    parts.append(table(head, rows))
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trial", choices=[*TRIALS])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--number", type=int)
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    if args.report:
        print(report(usable(read_lines(args.report))))
        return 0
    expected = expectations(args.trial)
    if args.number is not None:
        print(json.dumps(one_session(expected[args.number]), indent=1, default=plain))
        return 0
    out = args.out or Path(f"{args.trial}.jsonl")
    known = {line["number"] for line in read_lines(out)} if out.exists() else set()
    with out.open("a") as file:
        for line in expected:
            if line["number"] in known:
                continue
            try:
                made = one_session(line)
            except Exception as error:  # a failed session does not end the others
                made = {**line, "error": f"{type(error).__name__}: {error}"}
            file.write(json.dumps(made, default=plain) + "\n")
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
