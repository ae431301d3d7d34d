"""Export of logs to other tools' formats."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, Protocol, get_args

from hilrt.errors import ConfigError
from hilrt.logs.decode_frames import BusDatabase
from hilrt.logs.open_source import open_source
from hilrt.logs.source import Exported, Source, chosen, new_file, span_ns

Format = Literal["mf4", "csv", "parquet", "blf", "asc", "trc", "log"]
FORMATS: tuple[str, ...] = get_args(Format)
#: Extra to install for a format.
EXTRAS = {
    "mf4": "mdf",
    "parquet": "parquet",
    "blf": "can",
    "asc": "can",
    "trc": "can",
    "log": "can",
}


class Exporter(Protocol):
    """Function that writes a source's wanted signals between two times [ns] to a new file."""

    def __call__(
        self, source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
    ) -> Exported:
        """Write the file."""
        ...


def export_file(
    path: Path,
    to: str,
    out: Path | None = None,
    *,
    signals: Collection[str] = (),
    start_s: float | None = None,
    end_s: float | None = None,
    databases: Sequence[BusDatabase] = (),
    replace: bool = False,
) -> Exported:
    """Write a log, or any other readable file, in another format.

    Parameters
    ----------
    path : Path
    to : str
        One of `FORMATS`; "log" is candump's.
    out : Path, optional
        Default: the log's name with the format's suffix, beside it.
    signals : collection of str
        Names or patterns; default: all.
    start_s, end_s : float, optional
        Only this time span, s since the start of the log.
    databases : sequence of BusDatabase
        CAN databases by which frames are also decoded to signals.
    replace : bool
        Whether `out` may exist.

    Raises
    ------
    ConfigError, RecordError
        If something is wrong with the arguments or the files, with place and remedy.
    """
    if to not in FORMATS:
        raise ConfigError(f"--to {to}: is not a format; there is {', '.join(FORMATS)}")
    target = out or path.with_name(f"{path.stem}.{to}")
    source = open_source(path, databases=databases)
    try:
        names = [signal.name for topic in source.topics() for signal in topic.signals]
        wanted = set(chosen(names, signals)) if signals else None
        with new_file(target, replace=replace) as part:
            result = _exporter(to)(source, wanted, span_ns(start_s, end_s), part)
            result.notes += source.notes
            if not (result.rows or result.frames):
                why = "; ".join(["has none of the requested data", *result.notes])
                raise source.fail(why)
    finally:
        source.close()
    result.path = target
    return result


def _exporter(to: str) -> Exporter:
    try:
        if to == "csv":
            from hilrt.logs.export_csv import export_csv

            return export_csv
        if to == "mf4":
            from hilrt.logs.export_mf4 import export_mf4

            return export_mf4
        if to == "parquet":
            from hilrt.logs.export_csv import export_parquet

            return export_parquet
        from hilrt.logs.export_can import export_can

        return export_can
    except ImportError as error:
        raise ConfigError(
            f"--to {to}: needs {error.name}, which is not installed; install hilrt[{EXTRAS[to]}]"
        ) from None
