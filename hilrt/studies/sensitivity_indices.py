"""How much each key of a sweep matters: Sobol' and Morris indices of their designs, PAWN of any.

Computed by SALib, for the decimal logarithms of error and cost, which vary over decades.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hilrt.solver import Floats

if TYPE_CHECKING:
    import pandas as pd

#: Columns whose sensitivities are computed, where they are known.
OUTPUTS: Final = ("error", "cost")
#: PAWN compares distributions, which fewer cases do not have.
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
        ``"Sobol'"``: share of the variance that the key has a part in (total effect).
        ``"Morris"``: mean size of the change when the key alone changes, decades. ``"PAWN"``:
        median distance between the distributions with the key held and without, 0 to 1.
    value : float
    low, high : float
        95 % interval of it; of PAWN, 0 and the value for a key that does nothing.
    """

    output: str
    key: str
    method: str
    value: float
    low: float
    high: float


class Found(NamedTuple):
    """Sensitivities, and why others are not known."""

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
    (2007); PAWN: Pianosi and Wagener (2018), beside a key that does nothing (Zadeh 2017).
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
                "all; PAWN in their place"
            )
        if known.sum() < FEWEST_CASES:
            notes.append(
                f"sensitivity of {output}: {known.sum():,} cases tell too little, from "
                f"{FEWEST_CASES} on"
            )
            continue
        found += _pawn(output, varied, keys, ranks[known], logs[known])
    return Found(found, notes)


def _ranks(column: pd.Series) -> Floats:
    """Positions of a column's values among them, as numbers from 0 to 1."""
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

    # Values of a grid are spread within their rank: slices then have as many cases each.
    spread = np.random.default_rng(0).random((len(ranks), len(keys) + 1))
    nothing = spread[:, -1]
    columns = [
        ranks[:, keys.index(key)]
        + spread[:, i] * 0.5 / max(len(np.unique(ranks[:, keys.index(key)])) - 1, 1)
        for i, key in enumerate(varied)
    ]
    problem = _problem([*varied, "(nothing)"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of slices with equal values
        done = pawn.analyze(problem, np.column_stack([*columns, nothing]), logs, S=SLICES, seed=0)
    *index, floor = np.asarray(done["median"]).tolist()
    rows = zip(varied, index, strict=True)
    return [Sensitivity(output, key, "PAWN", i, 0.0, floor) for key, i in rows]
