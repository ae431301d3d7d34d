"""Axes of a sweep, their notation, and the cases of a design over them."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from hilrt.config.parse_toml import TomlError, parse_toml
from hilrt.errors import ConfigError
from hilrt.files.text import open_lines
from hilrt.solver import Floats

Design = Literal["grid", "random", "latin", "sobol", "saltelli", "morris"]
DESIGNS: Final = get_args(Design)
#: Maximum cases of a sweep; a grid over six keys with eleven values each has 1.8 million.
MOST_CASES: Final = 1_000_000
#: Settings of a case: ``"table.key"`` to a value.
Settings = dict[str, Any]
_GRAMMAR: Final = "write LOW:HIGH:11, LOW:HIGH:log11, LOW:HIGH:int, or values A,B,C"


class Axis(NamedTuple):
    """Values of one key.

    Attributes
    ----------
    key : str
        ``"table.key"``, as for ``--set``.
    values : tuple
        Values of a grid; empty for a range without a number of values.
    low, high : float
        Bounds of a range; NaN for a list of values.
    scale : str
        How a design fills the range: ``"linear"``, ``"log"`` or ``"int"``.
    """

    key: str
    values: tuple[Any, ...]
    low: float = math.nan
    high: float = math.nan
    scale: str = "linear"

    def at(self, share: float) -> Any:
        """Value at a `share` of the axis in [0, 1]."""
        if self.scale == "int" or math.isnan(self.low):
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.scale == "log":
            return rounded(self.key, self.low * (self.high / self.low) ** share)
        return rounded(self.key, self.low + share * (self.high - self.low))


def rounded(key: str, value: float) -> float:
    """Round a value of a range to six digits, a step to whole nanoseconds as sessions require."""
    value = float(f"{value:.6g}")
    return round(value, 9) if key == "master.step" else value


def parse_axis(key: str, given: str | Sequence[Any] | Floats) -> Axis:
    """Parse the axis of a key: ``LOW:HIGH:N``, ``LOW:HIGH:logN``, ``LOW:HIGH:int``, or values.

    Parameters
    ----------
    key : str
    given : str or sequence
        Text as for ``--vary KEY=``, or the values themselves. Without N, ``LOW:HIGH`` and
        ``LOW:HIGH:log`` are ranges for designs other than a grid.

    Raises
    ------
    ConfigError
        If it cannot be parsed.
    """
    if not isinstance(given, str):
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in given)
        if not values:
            raise ConfigError(f"{key}: has no values; give at least one")
        return Axis(key, values)
    parts = given.split(":")
    if len(parts) in (2, 3) and not given.lstrip().startswith(("[", "{", '"', "'")):
        return _range(key, given, *parts)
    return Axis(key, _listed(key, given))


def _range(key: str, given: str, low_text: str, high_text: str, count_text: str = "") -> Axis:
    where = f"--vary {key}={given}"
    try:
        low, high = float(low_text), float(high_text)
    except ValueError:
        raise ConfigError(f"{where}: has bounds that are not numbers; {_GRAMMAR}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"{where}: LOW must be below HIGH, both finite")
    if count_text == "int":
        if low != int(low) or high != int(high):
            raise ConfigError(f"{where}: bounds of int must be whole numbers")
        return Axis(key, tuple(range(int(low), int(high) + 1)), low, high, "int")
    scale = "log" if count_text.startswith("log") else "linear"
    if scale == "log" and low <= 0.0:
        raise ConfigError(f"{where}: a logarithmic range starts above 0")
    number = count_text.removeprefix("log")
    if not number:
        return Axis(key, (), low, high, scale)
    if not number.isdecimal() or not 2 <= int(number) <= MOST_CASES:
        raise ConfigError(
            f"{where}: {number!r} is not a number of values of at least 2; {_GRAMMAR}"
        )
    space = np.geomspace if scale == "log" else np.linspace
    values = [rounded(key, value) for value in space(low, high, int(number)).tolist()]
    written_whole = low_text.strip("+- ").isdecimal() and high_text.strip("+- ").isdecimal()
    if written_whole and all(value == int(value) for value in values):
        values = [int(value) for value in values]
    return Axis(key, tuple(values), low, high, scale)


def _listed(key: str, given: str) -> tuple[Any, ...]:
    """Parse values between commas, in TOML; a bare word is a string."""
    try:
        values: list[Any] = parse_toml(f"value = [{given}]")["value"]
    except TomlError:
        values = [toml_or_word(word.strip()) for word in given.split(",")]
    if not values or "" in values:
        raise ConfigError(f"--vary {key}={given}: has an empty value; {_GRAMMAR}")
    return tuple(values)


def toml_or_word(text: str) -> Any:
    """Parse a value in TOML; anything else is a string without quotes."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except TomlError:
        return text


def axes_of_items(items: Sequence[str]) -> dict[str, str]:
    """Values of ``KEY=VALUES`` items, as for ``--vary``, by their keys."""
    axes: dict[str, str] = {}
    for item in items:
        key, equals, given = item.partition("=")
        if not equals or not given:
            raise ConfigError(f"--vary {item}: write it as table.key=VALUES; {_GRAMMAR}")
        if key in axes:
            raise ConfigError(f"--vary {item}: {key} already varies; join its values in one --vary")
        axes[key] = given
    return axes


def values_of_items(items: Sequence[str]) -> Settings:
    """Values of ``KEY=VALUE`` items, as for ``--set``, by their keys."""
    return {key: toml_or_word(text) for key, _, text in (item.partition("=") for item in items)}


def cases_of(axes: Sequence[Axis], design: Design, count: int | None, seed: int) -> list[Settings]:
    """Cases of a design.

    Parameters
    ----------
    axes : sequence of Axis
    design : str
        ``"grid"``: every combination, the last axis first. ``"random"``: independent.
        ``"latin"``: a Latin hypercube (McKay, Beckman, Conover 1979). ``"sobol"``: a scrambled
        Sobol sequence (Owen 1998), whose first points are those of a smaller `count`.
        ``"saltelli"`` and ``"morris"``: designs of sensitivity indices, in which cases may repeat.
    count : int, optional
        Number of cases of a design other than a grid. ``"saltelli"`` has that number (a power of
        two) times the number of axes + 2, ``"morris"`` times the number of axes + 1.
    seed : int
        Seed of the design's generator; the same seed gives the same cases.

    Raises
    ------
    ConfigError
        If the design does not fit the axes, or has too many cases.
    """
    if design not in DESIGNS:
        raise ConfigError(f"design = {design!r}: is not a design; choose from {', '.join(DESIGNS)}")
    if not axes:
        raise ConfigError("nothing varies; give --vary table.key=VALUES, or a CSV of cases")
    if design == "grid":
        return _grid(axes)
    if count is None or not 1 <= count <= MOST_CASES:
        raise ConfigError(f"a {design} design of {count} cases: give 1 to {MOST_CASES:,}")
    return [
        {axis.key: axis.at(share) for axis, share in zip(axes, point, strict=True)}
        for point in _points(design, count, len(axes), seed).tolist()
    ]


def _grid(axes: Sequence[Axis]) -> list[Settings]:
    if unnumbered := [axis.key for axis in axes if not axis.values]:
        raise ConfigError(
            f"{', '.join(unnumbered)}: a grid needs a number of values, as in LOW:HIGH:11; or "
            "choose another design (--random N, --latin N, --sobol N)"
        )
    if math.prod(len(axis.values) for axis in axes) > MOST_CASES:
        raise ConfigError(f"the grid has more than {MOST_CASES:,} cases; use fewer, or a design")
    keys = [axis.key for axis in axes]
    return [dict(zip(keys, v, strict=True)) for v in product(*(axis.values for axis in axes))]


def _points(design: Design, count: int, dimensions: int, seed: int) -> Floats:
    """Points of a design in the unit cube, shape (count, dimensions)."""
    if design == "random":
        return np.random.default_rng(seed).random((count, dimensions))
    if design in ("saltelli", "morris"):
        return _salib(design, count, dimensions, seed)
    from scipy.stats import qmc

    if design == "latin":
        found = qmc.LatinHypercube(dimensions, rng=seed).random(count)
    else:
        # Sobol points are balanced in powers of two; any number of first points can be used.
        found = qmc.Sobol(dimensions, rng=seed).random_base2(math.ceil(math.log2(count)))[:count]
    return np.asarray(found, np.float64)


def _salib(design: Design, count: int, dimensions: int, seed: int) -> Floats:
    """Points of the designs of Saltelli (2010) and Morris (1991)."""
    try:
        from SALib.sample import morris, sobol
    except ImportError:
        raise ConfigError(f"a {design} design needs SALib; install hilrt[studies]") from None
    names = [f"{i}" for i in range(dimensions)]
    problem = {"num_vars": dimensions, "names": names, "bounds": [[0.0, 1.0]] * dimensions}
    if design == "morris":
        return np.asarray(morris.sample(problem, count, seed=seed), np.float64)
    if count & (count - 1):
        raise ConfigError(f"a saltelli design of {count}: must be a power of two, as 64 or 128")
    return np.asarray(sobol.sample(problem, count, calc_second_order=False, seed=seed), np.float64)


def read_cases(path: Path) -> list[Settings]:
    """Read cases from a CSV: a header of keys, and a row of values in TOML for each case.

    Raises
    ------
    ConfigError
        If it cannot be read, or a row does not fit the header.
    """
    try:
        with open_lines(path, newline="") as lines:
            rows = list(islice(csv.reader(lines, strict=True), MOST_CASES + 2))
    except (OSError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read as CSV: {error}; check the path") from None
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise ConfigError(f"{path}: has no cases; write a header of keys, and a row for each case")
    if len(rows) > MOST_CASES + 1:
        raise ConfigError(f"{path}: has more than {MOST_CASES:,} cases; use several sweeps")
    keys = [key.strip() for key in rows[0]]
    if "" in keys or len(set(keys)) < len(keys):
        raise ConfigError(f"{path}: every column needs a different key in the first line")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(keys):
            raise ConfigError(f"{path}: row {number} has {len(row)} values for {len(keys)} keys")
    return [
        {key: toml_or_word(text.strip()) for key, text in zip(keys, row, strict=True)}
        for row in rows[1:]
    ]


def axes_of(given: Mapping[str, Any]) -> list[Axis]:
    """Axes of a mapping from ``"table.key"`` to values, or to their text."""
    return [parse_axis(key, values) for key, values in given.items()]
