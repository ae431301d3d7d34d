"""Two sessions on one page: numbers side by side, curves on top of each other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hilrt.analyze.log_comparison import LogComparison, compare_logs, flattened
from hilrt.analyze.report import save
from hilrt.analyze.report_page import escape, render, table
from hilrt.analyze.signal_differences import PARTED, SignalDifference
from hilrt.errors import RecordError
from hilrt.wording import number, words

#: Numbers further apart than this are highlighted.
NOTABLE = 0.05
MAX_SIGNALS = 60
#: Numbers that differ from run to run.
_TIMES = ("compute us", "lateness us", "timeline us", "wall s", "missed ticks")


def write_comparison(a: Path, b: Path, out: Path, *, png: bool = False) -> Path:
    """Write the page about two logs, and its numbers as JSON beside it."""
    try:
        from hilrt.analyze.figure_compare import draw_both
    except ImportError:
        raise RecordError("the comparison needs bokeh; install hilrt[report]") from None
    found = compare_logs(a, b)
    drawings = draw_both(found)
    page = render("comparison", _head(found), _tables(found), drawings)
    save(out, page)
    save(out.with_suffix(".json"), json.dumps(found.as_json(), indent=1, default=str))
    if png:
        from hilrt.analyze.report_png import write_pictures

        write_pictures(drawings, out.with_suffix(""))
    return out


def _head(found: LogComparison) -> str:
    names = []
    for letter, analysis in (("A", found.a), ("B", found.b)):
        verdict = str(analysis.summary.get("verdict") or "unknown")
        session = analysis.summary.get("session") or analysis.stream.metadata.get("session", "")
        names.append(
            f'<p class="facts"><b>{letter}</b> {escape(session)} · {escape(analysis.file)} '
            f'<span class="verdict {escape(verdict)}">{escape(verdict)}</span></p>'
        )
    return f"<h1>Comparison</h1>{''.join(names)}<p class='advice'>{escape(_verdict(found))}</p>"


def _verdict(found: LogComparison) -> str:
    if found.equal:
        return "The logs are equal: every signal, at every tick, to the last bit."
    apart = [s for s in found.signals if s.parted is not None and ":" not in s.name]
    if not apart:
        timing = "" if found.only_a or found.only_b else " Timing and the like differ."
        return f"No output differs by more than {PARTED:g} of its size.{timing}"
    first = min(apart, key=lambda s: s.parted or 0.0)
    most = max(apart, key=lambda s: s.relative)
    share = "" if math.isinf(most.relative) else f" ({number(100 * most.relative, 3)} %, RMS)"
    return (
        f"{len(apart)} outputs differ. The first to part is {first.name}, at "
        f"{number(first.parted)} s; the furthest apart is {most.name}{share}."
    )


def _tables(found: LogComparison) -> str:
    settings = [list(row) for row in found.settings]
    numbers = list(_numbers(found.a.summary, found.b.summary))
    times = [row for row in numbers if row[0].startswith(_TIMES)]
    rows = [row for row in numbers if row not in times]
    marked = [(r, 3) for r, row in enumerate(rows) if _notable(row[1], row[2])]
    shown = [_number_row(*row) for row in rows]
    coupled = [s for s in found.signals if s.unit != "us"]  # no two runs take the same time
    apart = [s for s in coupled if not s.equal]
    signals, heading = apart[:MAX_SIGNALS], f"Signals that differ: {len(apart)} of "
    parts = [
        table("Settings that differ", ["", "A", "B"], settings, text=(1, 2)),
        table("Numbers", ["", "A", "B", "change"], shown, marked=marked),
        table("Timing", ["", "A", "B", "change"], [_number_row(*row) for row in times]),
        table(
            f"{heading}{len(coupled)}",
            ["", "unit", "RMS of A − B", "of A", "largest", "at, s", "parted at, s"],
            [_signal_row(s) for s in signals],
            marked=[(r, 3) for r, s in enumerate(signals) if s.relative > NOTABLE],
        ),
    ]
    for letter, names in (("A", found.only_a), ("B", found.only_b)):
        parts.append(table(f"Only in {letter}", [""], [[name] for name in names[:MAX_SIGNALS]]))
    advice = [
        [letter, d.advice.text]
        for letter, d in (("A", found.a), ("B", found.b))
        if d.advice is not None
    ]
    parts.append(table("Step size", ["", ""], advice, text=(1,)))
    return "".join(parts)


def _number_row(label: str, a: float | None, b: float | None) -> list[str]:
    return [label, number(a), number(b), _change(a, b)]


def _signal_row(s: SignalDifference) -> list[str]:
    share = "∞" if math.isinf(s.relative) else f"{number(100 * s.relative, 3)} %"
    parted = "–" if s.parted is None else number(s.parted)
    return [s.name, s.unit, number(s.rms, 3), share, number(s.largest, 3), number(s.at), parted]


def _numbers(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> Iterator[tuple[str, float | None, float | None]]:
    """Label and value of everything that both summaries have a number for."""
    left, right = flattened(a), flattened(b)
    for key in left | right:
        table_, _, leaf = key.rpartition(".")
        if key.startswith(("host.", "versions.", "lateness_histogram")) or leaf == "last":
            continue
        values = [flat.get(key) for flat in (left, right)]
        numeric = [
            float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else None
            for v in values
        ]
        if any(value is not None for value in numeric) and any(numeric):
            yield words(f"{table_}.{leaf}" if table_ else leaf), numeric[0], numeric[1]


def _notable(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is not b
    return abs(a - b) > NOTABLE * max(abs(a), abs(b))


def _change(a: float | None, b: float | None) -> str:
    if a is None or b is None or a == b:
        return "" if a == b else "–"
    if a == 0.0:
        return f"{'+' if b > a else ''}{number(b - a, 3)}"
    return f"{100.0 * (b - a) / abs(a):+.1f} %"
