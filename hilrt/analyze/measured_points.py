"""Values that a test has measured at coordinates: an engine map, a characteristic."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from hilrt.analyze.log_analysis import LogAnalysis
from hilrt.analyze.report_page import table
from hilrt.expect.of_sequences import outcome_of
from hilrt.sequences.bench import MEASURE
from hilrt.solver import Floats
from hilrt.wording import number


@dataclass
class MeasuredPoints:
    """Values of one quantity, in the order in which they were measured.

    Attributes
    ----------
    quantity, unit : str
    axes : tuple of (str, str)
        Name and unit of each coordinate.
    at : ndarray, shape (n, n_axes)
        Coordinates, in their units.
    values : ndarray, shape (n,)
        NaN where there was none.
    times : ndarray, shape (n,)
        Session time of each measure, s.
    results : list of str
        What each has come to.
    """

    quantity: str
    unit: str
    axes: tuple[tuple[str, str], ...]
    at: Floats
    values: Floats
    times: Floats
    results: list[str]

    def label(self, axis: int) -> str:
        """A coordinate with its unit."""
        return with_unit(*self.axes[axis])

    def grid(self) -> tuple[Floats, Floats, Floats] | None:
        """Both coordinates, and the values at them, shape (n_second, n_first); None: no grid.

        A grid has two coordinates, at least two values of each, and each of its points once.
        """
        if len(self.axes) != 2:
            return None
        (first, column), (second, row) = (
            np.unique(coordinate, return_inverse=True) for coordinate in self.at.T
        )
        places = {*zip(row.tolist(), column.tolist(), strict=True)}
        size = len(first) * len(second)
        if min(len(first), len(second)) < 2 or not len(places) == len(self.values) == size:
            return None
        values = np.full((len(second), len(first)), np.nan)
        values[row, column] = self.values
        return first, second, values


def with_unit(name: str, unit: str) -> str:
    """A quantity as the heading of a column or an axis."""
    return f"{name}, {unit}" if unit else name


def results_of(analysis: LogAnalysis) -> list[Mapping[str, Any]]:
    """Results of tests; without a summary those that sequences have told in the log's events."""
    found = analysis.summary.get("results")
    if found or analysis.summarised:
        return list(found or ())
    told: list[Mapping[str, Any]] = []
    for event in analysis.stream.events:
        if event.cause == MEASURE:
            with contextlib.suppress(msgspec.MsgspecError):  # another tool's event of this name
                told.append(msgspec.to_builtins(outcome_of(event.text, event.source)))
    return told


def measured_points(results: Iterable[Mapping[str, Any]]) -> list[MeasuredPoints]:
    """The values at coordinates among results, by sequence, quantity and coordinates."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in results:
        if one.get("at"):
            axes = tuple((axis["name"], axis.get("unit", "")) for axis in one["at"])
            key = (one.get("of"), one.get("quantity"), one.get("unit"), axes)
            groups.setdefault(key, []).append(one)
    return [
        MeasuredPoints(
            quantity=str(quantity),
            unit=str(unit or ""),
            axes=axes,
            at=np.array([[axis["value"] for axis in one["at"]] for one in group]),
            values=np.array([one.get("value") for one in group], float),
            times=np.array([one.get("t") for one in group], float),
            results=[str(one["result"]) for one in group],
        )
        for (_, quantity, unit, axes), group in groups.items()
    ]


def point_table(points: MeasuredPoints) -> str:
    """One row for each point, those that have not passed marked."""
    names = [points.label(i) for i in range(len(points.axes))]
    columns = [*names, with_unit(points.quantity, points.unit), "t in s"]
    rows = [
        [*(number(x) for x in at), number(value, 5), f"{t:.3f}"]
        for at, value, t in zip(
            points.at.tolist(), points.values.tolist(), points.times.tolist(), strict=True
        )
    ]
    value_column = len(points.axes)
    marked = [(i, value_column) for i, word in enumerate(points.results) if word != "passed"]
    return table(f"Measured points: {points.quantity}", columns, rows, marked=marked)
