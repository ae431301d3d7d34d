"""``sweep.html``: a sweep as one page, without external resources."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, LogColorMapper
from bokeh.models.annotations import ColorBar
from bokeh.palettes import Viridis256
from bokeh.plotting import figure

from hilrt.analyze.figure_style import COLOURS, Drawing, legend_above, literal, plain
from hilrt.analyze.report_page import escape, render, table, tables_html
from hilrt.files.text import write_whole
from hilrt.session.result import VERDICTS
from hilrt.solver import Floats
from hilrt.studies.run_cases import LOG
from hilrt.studies.sweep_data import load_sweep, with_told_verdicts
from hilrt.studies.what_if_result import CAVEAT
from hilrt.wording import FOR_LACK, OWN_INTEGRATION

if TYPE_CHECKING:
    import pandas as pd

PAGE: Final = "sweep.html"
#: Maximum rows of the two tables, and maximum pairs of keys with a map.
BEST, LISTED, MAPS = 12, 500, 3
#: Verdicts as they are shown, from the best to the worst, with their colours and shapes.
_SHOWN: Final = ("good", "unverified", f"degraded {FOR_LACK}", "degraded", "unreliable")
_OF_VERDICT: Final = dict(zip(_SHOWN, (COLOURS[i] for i in (2, 4, 4, 1, 7)), strict=True))
_MARKERS: Final = ("circle", "diamond", "inverted_triangle", "triangle", "square")
_SHAPES: Final = dict(zip(_SHOWN, _MARKERS, strict=True))


def write_sweep_page(folder: Path) -> Path:
    """Write the page of a sweep's folder; `RecordError` if there is no sweep."""
    frame = load_sweep(folder)
    found = find_sensitivities_of(frame)
    ranked, frame = with_told_verdicts(ranked_cases(frame)), with_told_verdicts(frame)
    parts: list[str | Drawing] = [tables_html([_best(ranked), *_failures(frame)])]
    parts += draw_sweep(frame)
    parts += [tables_html([_sensitivities(found)]), _all_cases(ranked)]
    title = f"Sweep of {Path(frame.attrs['session']).name}"
    path = folder / PAGE
    write_whole(path, render(title, _head(frame, found), [part for part in parts if part]))
    return path


def ranked_cases(frame: pd.DataFrame) -> pd.DataFrame:
    """Cases, best first: by verdict, then by error, then by cost."""
    place = {verdict: i for i, verdict in enumerate(VERDICTS)}
    order = frame.assign(_place=frame["verdict"].map(place).fillna(len(VERDICTS)))
    known = [name for name in ("error", "cost") if name in frame]
    return order.sort_values(["_place", *known]).drop(columns="_place")


def pareto_front(cost: np.ndarray[Any, Any], error: np.ndarray[Any, Any]) -> list[int]:
    """Positions of the Pareto-optimal points, by ascending cost; points with NaN are excluded."""
    front: list[int] = []
    best = np.inf
    for i in np.lexsort((error, cost)).tolist():
        if error[i] < best and np.isfinite(cost[i]):
            best = error[i]
            front.append(i)
    return front


def draw_sweep(frame: pd.DataFrame) -> list[Drawing]:
    """Draw cost and error with their front, the error over each key, and over pairs of keys."""
    if "error" not in frame:
        return []
    done = frame[(frame["error"] > 0.0) & (frame["cost"] > 0.0)]
    keys = [key for key in frame.attrs["axes"] if done[key].nunique() > 1]
    if len(done) < 2 or not keys:
        return []
    numeric = [key for key in keys if done[key].dtype.kind in "if"]
    drawings = [_trade(done, keys)]
    drawings += [_profile(done, key, keys) for key in numeric]
    drawings += [_map(done, *pair, keys) for pair in islice(combinations(numeric, 2), MAPS)]
    return drawings


def _figure(x: str, y: str, **options: Any) -> Any:
    plot = figure(
        height=360,
        sizing_mode="stretch_width",
        x_axis_label=literal(x),
        y_axis_label=literal(y),
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_scroll=None,
        output_backend="canvas",
        **options,
    )
    plain(plot)
    return plot


def _source(frame: pd.DataFrame, keys: Sequence[str]) -> ColumnDataSource:
    kept = dict.fromkeys(["case", "verdict", "error", "cost", "command", *keys])
    data = {name: frame[name].to_numpy() for name in kept}
    data["colour"] = frame["verdict"].map(_OF_VERDICT).fillna(COLOURS[7]).to_numpy()
    return ColumnDataSource(data)


def _hover(plot: Any, keys: Sequence[str], cells: Any) -> None:
    shown = [(key, f"@{{{key}}}") for key in [*keys, "verdict", "error", "cost", "command"]]
    plot.add_tools(HoverTool(renderers=[cells], tooltips=shown))


def _trade(frame: pd.DataFrame, keys: Sequence[str]) -> Drawing:
    axes = {"x_axis_type": "log", "y_axis_type": "log"}
    plot = _figure("cost: s per s of session time", "largest relative estimated error", **axes)
    for verdict, colour in _OF_VERDICT.items():
        part = frame[frame["verdict"] == verdict]
        if len(part):
            source = _source(part, keys)
            cells = plot.scatter(
                "cost",
                "error",
                source=source,
                size=6,
                marker=_SHAPES[verdict],
                color=colour,
                alpha=0.6,
                legend_label=verdict,
            )
            _hover(plot, keys, cells)
    cost, error = frame["cost"].to_numpy(np.float64), frame["error"].to_numpy(np.float64)
    front = pareto_front(cost, error)
    plot.line(cost[front], error[front], color=COLOURS[0], line_width=2, legend_label="front")
    legend_above(plot)
    note = "For each case on the front, no other case is both cheaper and more accurate."
    return Drawing("Cost and error", note, plot)


def _profile(frame: pd.DataFrame, key: str, keys: Sequence[str]) -> Drawing:
    plot = _figure(key, "largest relative estimated error", y_axis_type="log")
    cells = plot.scatter(
        key, "error", source=_source(frame, keys), size=5, color="colour", alpha=0.6
    )
    _hover(plot, keys, cells)
    return Drawing(f"Error over {key}", "Colours are those of the verdicts above.", plot)


def _map(frame: pd.DataFrame, x: str, y: str, keys: Sequence[str]) -> Drawing:
    plot = _figure(x, y)
    low, high = float(frame["error"].min()), float(frame["error"].max())
    mapper = LogColorMapper(palette=Viridis256, low=low, high=max(high, low * 1.001))
    # The worst first, so that the best is visible where cases overlap.
    source = _source(frame.sort_values("error", ascending=False), keys)
    colour = {"field": "error", "transform": mapper}
    cells = plot.scatter(x, y, source=source, size=11, marker="square", color=colour)
    _hover(plot, keys, cells)
    plot.add_layout(ColorBar(color_mapper=mapper, title="error"), "right")
    return Drawing(f"Error over {x} and {y}", "Of overlapping cases, the best is shown.", plot)


def _head(frame: pd.DataFrame, found: Found) -> str:
    counts = frame["verdict"].replace("", "without a result").value_counts()
    missing = len(set(frame.attrs["cases"])) - len(frame)
    words = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    lines = [
        f"{len(frame):,} cases: {words}" + (f"; {missing:,} are missing" if missing else ""),
        "error: the largest relative estimated error of a coupling signal, not the true error.",
        OWN_INTEGRATION,
        "cost: processor time of a case on the machine that ran it.",
        *([CAVEAT] if LOG in frame.attrs["axes"] else []),
        *found.notes,
    ]
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _best(ranked: pd.DataFrame) -> str:
    return _cases(
        "Best settings", ranked.head(BEST), "Of the cases that were run, by verdict and error."
    )


def _all_cases(ranked: pd.DataFrame) -> str:
    note = f"The best {LISTED:,} of {len(ranked):,}; all are in sweep.parquet."
    shown = _cases("Cases", ranked.head(LISTED), note if len(ranked) > LISTED else "")
    return f"<details><summary>All cases, and the command of each</summary>{shown}</details>"


def _cases(heading: str, frame: pd.DataFrame, note: str) -> str:
    names = [*frame.attrs["axes"], "verdict", "error", "cost", "command"]
    names = [name for name in names if name in frame]
    rows = [[_cell(value) for value in row] for row in frame[names].itertuples(index=False)]
    words = [i for i, name in enumerate(names) if name in ("verdict", "command")]
    return table(heading, names, rows, note=note, text=words)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _failures(frame: pd.DataFrame) -> list[str]:
    reasons = frame["failure"][frame["failure"] != ""].value_counts().head(BEST)
    rows = [[f"{count:,}", str(reason)] for reason, count in reasons.items()]
    return [table("Cases that did not reach their end", ["cases", "why"], rows, text=[1])]


def _sensitivities(found: Found) -> str:
    rows = [
        [s.output, s.key, s.method, f"{s.value:.3g}", f"{s.low:.3g} … {s.high:.3g}"]
        for s in sorted(found.sensitivities, key=lambda s: (s.output, -s.value))
    ]
    note = (
        "For the logarithm of the output. Sobol': share of its variance, including interactions. "
        "Morris: decades when the key alone changes. PAWN: 0 to 1, compared with the range of a "
        "dummy key, within which the index is not significant."
    )
    columns = ["output", "key", "method", "index", "95 % interval, or insignificant range"]
    return table("Keys that matter", columns, rows, note=note, text=[0, 1, 2])


# Influence of each key of a sweep: Sobol' and Morris indices for their designs, PAWN for any.
#
# Computed by SALib, for the decimal logarithms of error and cost, which vary over decades.

#: Columns whose sensitivities are computed, if their values are known.
OUTPUTS: Final = ("error", "cost")
#: Minimum number of cases for PAWN, which compares distributions.
FEWEST_CASES: Final = 40
SLICES: Final = 8


class Sensitivity(NamedTuple):
    """Index of one key.

    Attributes
    ----------
    output : str
        ``"error"`` or ``"cost"``.
    key : str
    method : str
        ``"Sobol'"``: share of the variance to which the key contributes (total effect).
        ``"Morris"``: mean magnitude of the change when the key alone changes, decades. ``"PAWN"``:
        median distance between the distributions with and without the key held, 0 to 1.
    value : float
    low, high : float
        95 % interval; for PAWN, 0 and the value for a key without effect.
    """

    output: str
    key: str
    method: str
    value: float
    low: float
    high: float


class Found(NamedTuple):
    """Sensitivities, and reasons why others are unknown."""

    sensitivities: list[Sensitivity]
    notes: list[str]


def find_sensitivities_of(frame: pd.DataFrame) -> Found:
    """Sensitivities of a sweep.

    Parameters
    ----------
    frame : DataFrame
        From `load_sweep`.

    Notes
    -----
    Total effects: Saltelli (2010); Morris (1991) with the mean of absolute effects of Campolongo
    (2007); PAWN: Pianosi and Wagener (2018), compared with a key without effect (Zadeh 2017).
    """
    keys, design = frame.attrs["axes"], frame.attrs["design"]
    varied = [key for key in keys if key in frame and frame[key].nunique() > 1]
    if len(varied) < 2:
        return Found([], [])
    found: list[Sensitivity] = []
    notes: list[str] = []
    ordered = frame.set_index("case").reindex(frame.attrs["cases"])
    for output in (name for name in OUTPUTS if name in frame):
        values = ordered[output].to_numpy(np.float64, na_value=np.nan)
        known = np.isfinite(values) & (values > 0.0)
        logs = np.log10(np.where(known, values, 1.0))
        if known.any() and np.ptp(logs[known]) == 0.0:
            continue
        ranks = np.column_stack([_ranks(ordered[key]) for key in keys])
        if design in ("saltelli", "morris"):
            if known.all():
                found += _of_design(design, output, keys, ranks, logs)
                continue
            notes.append(
                f"{output}: {np.sum(~known):,} cases have none, and the indices of the design need "
                "all; PAWN is shown instead"
            )
        if known.sum() < FEWEST_CASES:
            notes.append(
                f"sensitivity of {output}: {known.sum():,} cases are not enough; at least "
                f"{FEWEST_CASES} are needed"
            )
            continue
        found += _pawn(output, varied, keys, ranks[known], logs[known])
    return Found(found, notes)


def _ranks(column: pd.Series) -> Floats:
    """Ranks of a column's values, as numbers from 0 to 1."""
    codes = np.unique(column.to_numpy(), return_inverse=True)[1]
    return codes / max(int(codes.max()), 1)


def _problem(keys: Sequence[str]) -> dict[str, Any]:
    return {"num_vars": len(keys), "names": list(keys), "bounds": [[0.0, 1.0]] * len(keys)}


def _of_design(
    design: str, output: str, keys: Sequence[str], ranks: Floats, logs: Floats
) -> list[Sensitivity]:
    from SALib.analyze import morris, sobol

    if design == "saltelli":
        done = sobol.analyze(_problem(keys), logs, calc_second_order=False, seed=0)
        name, index, interval = "Sobol'", done["ST"], done["ST_conf"]
    else:
        done = morris.analyze(_problem(keys), ranks, logs, seed=0)
        name, index, interval = "Morris", done["mu_star"], done["mu_star_conf"]
    rows = zip(keys, np.asarray(index).tolist(), np.asarray(interval).tolist(), strict=True)
    return [Sensitivity(output, key, name, i, i - half, i + half) for key, i, half in rows]


def _pawn(
    output: str, varied: Sequence[str], keys: Sequence[str], ranks: Floats, logs: Floats
) -> list[Sensitivity]:
    from SALib.analyze import pawn

    # Values of a grid are spread within their rank, so that all slices have equal numbers of cases.
    spread = np.random.default_rng(0).random((len(ranks), len(keys) + 1))
    nothing = spread[:, -1]
    columns = [
        ranks[:, keys.index(key)]
        + spread[:, i] * 0.5 / max(len(np.unique(ranks[:, keys.index(key)])) - 1, 1)
        for i, key in enumerate(varied)
    ]
    problem = _problem([*varied, "(nothing)"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about slices with equal values
        done = pawn.analyze(problem, np.column_stack([*columns, nothing]), logs, S=SLICES, seed=0)
    *index, floor = np.asarray(done["median"]).tolist()
    rows = zip(varied, index, strict=True)
    return [Sensitivity(output, key, "PAWN", i, 0.0, floor) for key, i in rows]
