"""Files that stimuli take columns of: read when the ports are known, and what is to be said."""

from __future__ import annotations

from hilrt.config.session_file import SessionFile
from hilrt.logs.stimulus_columns import column_segments, read_columns
from hilrt.session.event_log import EventLog
from hilrt.solver import Floats
from hilrt.tables.network import Network


def columns_of(file: SessionFile, network: Network, events: EventLog) -> list[Floats]:
    """Columns of all stimuli, shape (n, 2) each; how each is read between its rows is an event,
    and noted for the summary.

    Raises
    ------
    ConfigError
        If a file or a signal is not there, or its unit does not convert.
    """
    stimuli = file.tables.stimuli
    if not any(True for _ in column_segments(stimuli)):
        return []
    unit_of = dict(zip(network.inputs.names, network.inputs.units, strict=True))
    columns = read_columns(stimuli, unit_of, file.folder, file.tables.master.step)
    for column in columns:
        events.columns.append(column.note)
        events.note("info", "stimuli", column.note)
    return [column.points for column in columns]
