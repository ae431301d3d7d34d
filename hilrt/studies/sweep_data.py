"""Rows of a sweep in Parquet: parts during the sweep, one data set at its end."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from hilrt.errors import ConfigError, RecordError
from hilrt.files.text import read_regular, whole_file, write_whole
from hilrt.studies.run_cases import Row
from hilrt.wording import verdict_text

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: Files of a sweep's folder.
PARTS: Final = "parts"
DATA: Final = "sweep.parquet"
ABOUT: Final = "sweep.json"
FORMAT: Final = "hilrt-sweep-1"


class AboutSweep(msgspec.Struct, frozen=True):
    """Content of ``sweep.json``: data common to the cases of a folder.

    Attributes
    ----------
    format : str
    session : str
        Path of the session file.
    basis : str
        Hash of the resolved session, the files that it names, and the version; all cases of a
        folder have the same basis.
    version : str
    overrides : list of str
    axes : list of str
        Keys that vary.
    design : str
    seed : int
    cases : list of str
        Names of the cases of the design, in its order; some designs repeat cases.
    """

    format: str
    session: str
    basis: str
    version: str
    overrides: list[str]
    axes: list[str]
    design: str
    seed: int
    cases: list[str]


def read_about(folder: Path) -> AboutSweep | None:
    """Read a folder's ``sweep.json``; None if there is none.

    Raises
    ------
    ConfigError
        If it is damaged.
    """
    path = folder / ABOUT
    try:
        return msgspec.json.decode(read_regular(path), type=AboutSweep)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; give another --out") from None


def write_about(folder: Path, about: AboutSweep) -> None:
    """Write ``sweep.json`` atomically."""
    write_whole(folder / ABOUT, msgspec.json.format(msgspec.json.encode(about)).decode() + "\n")


def write_part(folder: Path, rows: Sequence[Row]) -> None:
    """Write rows atomically as a separate part."""
    with whole_file(folder / PARTS / f"{uuid.uuid4().hex}.parquet") as part:
        _write(part, _table(rows))


def finished_cases(folder: Path) -> set[str]:
    """Names of the cases with a row in any part."""
    return {name for table in _parts(folder, ["case"]) for name in table["case"].to_pylist()}


def write_data(folder: Path, about: AboutSweep) -> int:
    """Join the parts, each case once, in the order of the design.

    Returns the number of cases without a result.
    """
    table = _joined(folder, about)
    with whole_file(folder / DATA) as part:
        _write(part, table)
    return sum(not verdict for verdict in table["verdict"].to_pylist())


def load_sweep(folder: str | Path) -> pd.DataFrame:
    """Load the cases of a sweep, even an unfinished one.

    Parameters
    ----------
    folder : str or Path
        Folder of the sweep.

    Returns
    -------
    DataFrame
        One row per case (docs/studies.md); ``frame.attrs`` contains ``axes`` (the keys that vary),
        ``session``, ``design`` and ``cases`` (names in the order of the design).

    Raises
    ------
    RecordError
        If the folder contains no sweep.
    """
    folder = Path(folder)
    about = read_about(folder)
    if about is None:
        raise RecordError(f"{folder}: is not the folder of a sweep: it has no {ABOUT}")
    frame: pd.DataFrame = _joined(folder, about).to_pandas()
    frame.attrs = {name: getattr(about, name) for name in ("axes", "session", "design", "cases")}
    return frame


def with_told_verdicts(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy of a sweep's cases whose verdicts say where they rest on a lack of evidence alone."""
    lacking = frame["evidence_lacking"] if "evidence_lacking" in frame else [False] * len(frame)
    pairs = zip(frame["verdict"], lacking, strict=True)
    return frame.assign(verdict=[verdict_text(word, one) for word, one in pairs])


def _joined(folder: Path, about: AboutSweep) -> pa.Table:
    """Rows of the design's cases, in its order; one for a case that was run twice."""
    import pyarrow as pa

    tables = _parts(folder)
    if not tables:
        return pa.table({"case": pa.array([], pa.string()), "verdict": pa.array([], pa.string())})
    rows = pa.concat_tables(tables, promote_options="permissive")
    place = {name: i for i, name in enumerate(rows["case"].to_pylist())}
    return rows.take([place[name] for name in dict.fromkeys(about.cases) if name in place])


def _parts(folder: Path, columns: list[str] | None = None) -> list[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for path in sorted((folder / PARTS).glob("[!.]*.parquet")):
        try:
            tables.append(pq.read_table(path, columns=columns))
        except (OSError, pa.ArrowException) as error:
            raise ConfigError(
                f"{path}: cannot be read: {error}; delete it, and its cases are run again"
            ) from None
    return tables


def _table(rows: Sequence[Row]) -> pa.Table:
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def _write(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, path)
