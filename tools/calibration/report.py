"""Report of a calibration, as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hilrt.wording import OF_MODEL
from tools.calibration.compare import CLASSES
from tools.calibration.figures import (
    GOALS,
    LETTERS,
    WORDS,
    Line,
    coverage,
    intervals,
    matrix,
    met,
    share,
    usable,
    weights,
)
from tools.calibration.fit import fitted_ways, left_out
from tools.calibration.judge import judged
from tools.calibration.runs import read_lines

#: Number of sessions listed as the worst.
WORST = 12


def report(path: Path) -> str:
    """Return the report on the sessions of a file."""
    told = usable(read_lines(path))
    if told and "settings" not in told[0]:
        return _advice(told)
    by_group = left_out(told)
    lines = [judged(line, by_group[line["group"]]) for line in told]
    exact = [line for line in lines if line["settings"]["integrator"] == "exact"]
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    parts = [
        f"Made on {day} from {len(lines):,} sessions, {len(exact):,} of them with subsystems that "
        "integrate without an error of their own. Each group is judged with constants that were "
        "fitted to the other five.",
        "### Verdict and true error\n\n" + _confusion(lines),
        "### Goals\n\n" + _goals(lines, exact),
        "### By group\n\n" + _groups(lines),
        "### Intervals of the estimated error\n\n" + _intervals(lines),
        "### Worst misses\n\n" + _worst(lines),
    ]
    if fitted_ways(told) == [OF_MODEL]:
        parts.insert(3, "### Benches and solvers\n\n" + _benches(lines))
    return "\n\n".join(parts) + "\n"


def write_references(page: Path, path: Path) -> None:
    """Rewrite the page's section on reference models, up to the next heading of its level."""
    head = "### Results with reference models\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(head)
    _, _, after = rest.partition("\n## ")
    if not found or not after:
        raise ValueError(f"{page} has no results with reference models to write")
    results = report(path).strip().replace("\n### ", "\n#### ")
    page.write_text(f"{before}{head}\n{results}\n\n## {after}", encoding="utf-8")


def write_page(page: Path, path: Path, advised: Path | None) -> None:
    """Rewrite the section "Results" of a page, up to the next heading of its level.

    `advised`: sessions of a run with ``--advice``; without it, the page's text on advice stays.
    """
    before, found, rest = page.read_text(encoding="utf-8").partition("## Results\n")
    old, _, after = rest.partition("\n## ")
    if not found or not after:
        raise ValueError(f"{page} has no results to write")
    advice = old.partition("### Advice\n\n")[2].strip()
    if advised is not None:
        advice = report(advised).strip()
    results = f"{report(path).strip()}\n\n### Advice\n\n{advice}"
    page.write_text(f"{before}## Results\n\n{results}\n\n## {after}", encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def percent(value: float) -> str:
    """Format a share as a percentage."""
    return "-" if math.isnan(value) else f"{100.0 * value:.1f} %"


def _confusion(lines: list[Line]) -> str:
    rows = []
    for name, counts in zip(CLASSES, matrix(lines), strict=True):
        whole = sum(counts)
        shares = [f"{n:,} ({percent(n / max(whole, 1))})" for n in counts]
        rows.append([name, *shares, f"{whole:,}"])
    return table(["true error", *(f"`{word}`" for word in WORDS), "sessions"], rows)


def _goals(lines: list[Line], exact: list[Line]) -> str:
    rows = []
    for goal in GOALS:
        value = share(goal, lines)
        bound = (
            f"≥ {percent(goal.least)}" if goal.least is not None else f"≤ {percent(goal.most or 0)}"
        )
        rows.append(
            [goal.name, bound, percent(value), "yes" if met(goal, value) else "**no**",
             percent(share(goal, lines, weights(lines))), percent(share(goal, exact))]
        )  # fmt: skip
    head = ["share", "goal", "found", "met", "stratified", "exact subsystems"]
    return table(head, rows) + (
        "\n\nStratified: every class of true error counts the same. Exact subsystems: without "
        "those whose own integration errs."
    )


def _groups(lines: list[Line]) -> str:
    rows = []
    for group in sorted({line["group"] for line in lines}):
        of = [line for line in lines if line["group"] == group]
        counts = ["/".join(str(n) for n in row) for row in matrix(of)]
        rows.append([group, len(of), *counts, percent(share(GOALS[0], of))])
    names = [f"{name}: {'/'.join(LETTERS)}" for name in CLASSES]
    return table(["group", "sessions", *names, "of `good`, < 5 %"], rows)


def _benches(lines: list[Line]) -> str:
    """Compare sessions with a bench to those in which only solvers cannot be probed."""
    rows = []
    for name, wanted in (("a bench", True), ("solvers alone", False)):
        of = [line for line in lines if bool(line["settings"].get("bench")) == wanted]
        counts = ["/".join(str(n) for n in row) for row in matrix(of)]
        rows.append([name, len(of), *counts, percent(share(GOALS[0], of))])
    names = [f"{name}: {'/'.join(LETTERS)}" for name in CLASSES]
    return table(["not probed", "sessions", *names, "of `good`, < 5 %"], rows)


def _intervals(lines: list[Line]) -> str:
    found = intervals(lines)
    if not found:
        return "No session told an estimated error."
    rows = []
    kinds = ["all", *sorted({i.how for i in found}), *sorted({i.group for i in found})]
    for kind in kinds:
        of = [i for i in found if kind in ("all", i.how, i.group)]
        covered, width = coverage(of)
        rows.append([kind, len(of), percent(covered), f"{width:.1f}"])
    return table(["signals", "number", "covered", "median width"], rows) + (
        "\n\nGoal: 90 to 99 % of all, no group under 80 %, a median width of 4 at most. The width "
        "is that of the interval, divided by the true error or by the resolution, if that is "
        "larger."
    )


def _worst(lines: list[Line]) -> str:
    def distance(line: Line) -> float:
        error, word = float(line["truth"]["error"]), line["said"]["verdict"]
        if word == "good" and error > 0.05:
            return min(error, 10.0) / 0.05
        if word == "unreliable" and error < 0.05:
            return min(0.05 / max(error, 1e-4), 200.0)
        return 0.0

    worst = sorted(filter(distance, lines), key=distance, reverse=True)[:WORST]
    rows = []
    for line in worst:
        settings, said = line["settings"], line["said"]
        rows.append(
            [line["number"], line["group"], f"`{said['verdict']}`",
             percent(min(line["truth"]["error"], 99.99)), _described(settings),
             "; ".join(reason.split(":")[0] for reason in said["reasons"][:2])]
        )  # fmt: skip
    return table(["session", "group", "verdict", "true error", "settings", "reasons"], rows)


def _described(settings: Line) -> str:
    words = [f"H ω {settings['h_omega']:.3f}", f"order {settings['order']}", settings["pace"]]
    words += [settings["method"]] if settings["method"] != "none" else []
    words += [f"D × {settings['factor']:.2g}"] if settings.get("factor", 1.0) != 1.0 else []
    words += [settings["control"]] if settings["control"] != "fixed" else []
    words += [settings["integrator"]] if settings["integrator"] != "exact" else []
    words += [f"every {settings['every']}"] if settings["every"] > 1 else []
    words += ["bench"] if settings.get("bench") else []
    words += ["limits"] if settings["limited"] else []
    return ", ".join(words)


def _advice(lines: list[Line]) -> str:
    """Return the text on a run with ``--advice``."""
    named = [line for line in lines if "change" in line]
    helped = [line for line in named if line["after"] < line["before"]]
    kinds = sorted({key for line in named for key in line["change"]["settings"]})
    rows = []
    for kind in kinds:
        of = [line for line in named if kind in line["change"]["settings"]]
        won = [line for line in of if line in helped]
        rows.append([f"`{kind}`", len(of), percent(len(won) / len(of))])
    share = percent(len(helped) / max(len(named), 1))
    return (
        f"For {len(named):,} of {len(lines):,} sessions the advice named a change of the file; in "
        f"{share} of these the true error was smaller with it (goal: 80 %).\n\n"
        + table(["change", "sessions", "helped"], rows)
        + "\n"
    )
