"""Signals of a log in a table of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hilrt.errors import RecordError
from hilrt.solver import Floats

if TYPE_CHECKING:
    import pandas as pd


class SignalSource(Protocol):
    """Signals with their times and units: a `hilrt.Log`."""

    units: dict[str, str]

    def __getitem__(self, name: str) -> Floats:
        """Values, shape (n,)."""
        ...

    def time_ns(self, name: str) -> NDArray[np.int64]:
        """Session times of the values, shape (n,), ns."""
        ...


def to_pandas(log: SignalSource, names: Sequence[str]) -> pd.DataFrame:
    """See `hilrt.Log.to_pandas`."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise RecordError("to_pandas needs pandas; install hilrt[pandas]") from None

    times = {name: log.time_ns(name) for name in names}
    stamps = _stamps(times)
    columns = {}
    for name in times:
        values = log[name]
        if not np.array_equal(times[name], stamps):
            values, given = np.full(len(stamps), np.nan), values
            values[np.searchsorted(stamps, times[name])] = given
        columns[name] = values
    frame = pd.DataFrame(columns, index=pd.Index(stamps / 1e9, name="t"))
    frame.attrs["units"] = {name: log.units[name] for name in times}
    return frame


def _stamps(times: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Times of all signals, ns: those that they share, or in order all that any has."""
    arrays = list(times.values())
    if not arrays:
        return np.empty(0, np.int64)
    if all(np.array_equal(array, arrays[0]) for array in arrays):
        return arrays[0]
    for name, array in times.items():
        if len(np.unique(array)) < len(array):
            raise RecordError(
                f"{name} has several values at one time, and other signals have other times; "
                "choose signals that were recorded together"
            )
    return np.unique(np.concatenate(arrays))
