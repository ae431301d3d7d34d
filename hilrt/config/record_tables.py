"""``[record]`` and ``[monitor]``: what of a session is kept, shown, and changed from outside."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hilrt.config.table import NonNegative, Positive, Table


class TriggerTable(Table):
    """``[[record.trigger]]``: something around which the session is recorded; one of the four."""

    #: Flag of the reliability; triggers as long as it is up.
    flag: str | None = None
    #: Recorded signal; triggers as long as it is beyond `above` or `below`.
    signal: str | None = None
    above: float | None = None
    below: float | None = None
    #: Name of an alarm; triggers as long as it is active.
    alarm: str | None = None
    #: Cause of an event, such as "mark".
    event: str | None = None


class RecordTable(Table):
    """``[record]``: what of a session goes into its log."""

    #: Record only around these; empty: everything.
    trigger: list[TriggerTable] = []
    #: Time before and after a trigger that is recorded, s.
    before: NonNegative = 5.0
    after: NonNegative = 5.0
    #: End the session when rows are lost for longer than `max_gap`; default: in real time.
    required: bool | None = None
    #: Longest time without a row that is not the end of a session whose recording is required, s.
    max_gap: Positive = 1.0
    #: Write report.html when the session has ended; `hilrt report` makes it later, too.
    report: bool = True


class Adjustable(Table):
    """``[monitor.adjust]``: bounds within which a number may be changed while the session runs."""

    min: float
    max: float


class MonitorTable(Table):
    """``[monitor]``: access of watchers and operators to a session (docs/monitor.md)."""

    #: Where the telemetry stream is published for others; left out: for this machine's page only.
    listen: str | None = None
    #: Where operators' commands are taken from others; left out: from this machine's page only.
    commands: str | None = None
    #: Address and port of the web page.
    page: str = "127.0.0.1:5006"
    #: Where Foxglove and Lichtblick may connect; left out: nowhere.
    foxglove: str | None = None
    #: Outputs that views show, in their order; left out: the first ones, those of benches first.
    values: list[str] = []
    #: Messages per second of the decimated signals.
    rate: Annotated[float, msgspec.Meta(gt=0.0, le=20.0)] = 10.0
    #: What a token opens; empty: nothing, all views are read-only.
    control: list[str] = []
    #: What ``adjust`` may set: ``bonds.NAME.cap``, ``bonds.NAME.cap_abs``, ``bonds.NAME.share``,
    #: ``reliability.KEY``.
    adjust: dict[str, Adjustable] = {}
