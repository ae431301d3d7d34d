"""Two sessions on one page: numbers side by side, curves on top of each other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hilrt.analyze.figure_compare import draw_differences
from hilrt.analyze.log_analysis import LogAnalysis
from hilrt.analyze.log_comparison import PARTED, LogComparison, SignalDifference, flattened
from hilrt.analyze.report import notes_of, save
from hilrt.analyze.report_page import escape, render, table, tables_html
from hilrt.step_log.signals import CIRCUMSTANCES
from hilrt.wording import number, words

#: Numbers further apart than this are highlighted.
NOTABLE = 0.05
MAX_SIGNALS = 60
#: Keys of the summary that are no figures of the session.
_NO_FIGURES = ("host.", "versions.", "lateness_histogram", "slowest_ticks")
#: Numbers that differ from run to run.
_TIMES = ("compute us", "lateness us", "timeline us", "wall s", "missed ticks")


def write_comparison(found: LogComparison, out: Path, *, png: bool = False) -> Path:
    """Write the page about two logs, and its numbers as JSON beside it."""
    first, others = draw_differences(found)
    settings = [_settings(found)]
    page = render("comparison", _head(found), [*settings, *first, _tables(found), *others])
    save(out, page)
    save(out.with_suffix(".json"), json.dumps(found.as_json(), indent=1, default=str))
    if png:
        from hilrt.analyze.report_page import write_pictures

        write_pictures([*first, *others], out.with_suffix(""))
    return out


def _head(found: LogComparison) -> str:
    """The verdicts with their reasons, and what the comparison comes to."""
    both = "".join(_one(letter, log) for letter, log in (("A", found.a), ("B", found.b)))
    return f'<h1>Comparison</h1>{both}<p class="advice">{escape(_verdict(found))}</p>'


def _one(letter: str, log: LogAnalysis) -> str:
    """One of the sessions: its name, file, verdict and what must be known of its figures."""
    verdict = str(log.summary.get("verdict") or "unknown")
    session = log.summary.get("session") or log.stream.metadata.get("session", "")
    reasons = [*(log.summary.get("reasons") or []), *notes_of(log)]
    items = "".join(f"<li>{escape(reason)}</li>" for reason in dict.fromkeys(reasons))
    return (
        f'<p class="facts"><b>{letter}</b> {escape(session)} · {escape(log.file)} '
        f'<span class="verdict {escape(verdict)}">{escape(verdict)}</span></p>'
        + (f'<ul class="reasons">{items}</ul>' if items else "")
    )


def _settings(found: LogComparison) -> str:
    """What was set differently."""
    if not found.settings:
        return '<p class="facts">No setting differs.</p>'
    rows = [list(row) for row in found.settings]
    return tables_html([table("What was set differently", ["", "A", "B"], rows, text=(1, 2))])


def _verdict(found: LogComparison) -> str:
    if found.equal:
        return "The logs are equal: every signal, at every tick, to the last bit."
    apart = [s for s in found.signals if s.parted is not None and ":" not in s.name]
    if apart:
        return f"{len(apart)} outputs differ. {_parting(apart)}"
    others = [
        s for s in found.signals if s.parted is not None and s.unit != "us" and not _of_ticks(s)
    ]
    if others:
        return f"The outputs are equal, but other signals differ: {len(others)}. {_parting(others)}"
    timing = "" if found.only_a or found.only_b else " Timing and the like differ."
    return f"No output differs by more than {PARTED:g} of its size.{timing}"


def _of_ticks(signal: SignalDifference) -> bool:
    """Whether it says how the session ran, and nothing of what it computed."""
    owner, _, kind = signal.name.rpartition(":")
    return owner in ("master", "cut") or kind in CIRCUMSTANCES


def _parting(apart: Sequence[SignalDifference]) -> str:
    """Where they part first, and which is furthest apart."""
    first = min(apart, key=lambda s: s.parted or 0.0)
    most = max(apart, key=lambda s: s.relative)
    share = "" if math.isinf(most.relative) else f" ({number(100 * most.relative, 3)} %, RMS)"
    return (
        f"The first to part is {first.name}, at {number(first.parted)} s; the furthest apart is "
        f"{most.name}{share}."
    )


def _tables(found: LogComparison) -> str:
    numbers = list(_numbers(found.a.summary, found.b.summary))
    times = [row for row in numbers if row[0].startswith(_TIMES)]
    rows = [row for row in numbers if row not in times]
    marked = [(r, 3) for r, row in enumerate(rows) if _notable(row[1], row[2])]
    shown = [_number_row(*row) for row in rows]
    coupled = [s for s in found.signals if s.unit != "us"]  # no two runs take the same time
    apart = [s for s in coupled if not s.equal]
    signals, heading = apart[:MAX_SIGNALS], f"Signals that differ: {len(apart)} of "
    parts = [
        table(
            f"{heading}{len(coupled)}",
            ["", "unit", "RMS of A − B", "of A", "largest", "at, s", "parted at, s"],
            [_signal_row(s) for s in signals],
            marked=[(r, 3) for r, s in enumerate(signals) if s.relative > NOTABLE],
        ),
        table("Figures of the sessions", ["", "A", "B", "change"], shown, marked=marked),
        table("Timing", ["", "A", "B", "change"], [_number_row(*row) for row in times]),
    ]
    for letter, names in (("A", found.only_a), ("B", found.only_b)):
        parts.append(table(f"Only in {letter}", [""], [[name] for name in names[:MAX_SIGNALS]]))
    advice = [
        [letter, d.advice.text]
        for letter, d in (("A", found.a), ("B", found.b))
        if d.advice is not None
    ]
    parts.append(table("Step size", ["", ""], advice, text=(1,)))
    return tables_html(parts)


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
        if key.startswith(_NO_FIGURES) or leaf == "last":
            continue
        values = [flat.get(key) for flat in (left, right)]
        numeric = [
            float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else None
            for v in values
        ]
        if any(value is not None for value in numeric) and any(numeric):
            yield words(f"{table_}.{leaf}" if table_ else leaf), numeric[0], numeric[1]


def _notable(a: float | None, b: float | None) -> bool:
    if a is None or b is None:  # one of them does not know it
        return False
    return abs(a - b) > NOTABLE * max(abs(a), abs(b))


def _change(a: float | None, b: float | None) -> str:
    if a is None or b is None or a == b:
        return "" if a == b else "–"
    if a == 0.0:
        return f"{'+' if b > a else ''}{number(b - a, 3)}"
    return f"{100.0 * (b - a) / abs(a):+.1f} %"
