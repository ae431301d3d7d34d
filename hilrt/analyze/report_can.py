"""The table of a report about the messages on CAN."""

from __future__ import annotations

from hilrt.analyze.can_traffic import LATE_CYCLES, MAX_FRAMES, CanTraffic, MessageTraffic
from hilrt.analyze.report_page import table
from hilrt.wording import number

_WRONG = ("late", "checksum", "counter", "lost")


def can_table(traffic: CanTraffic) -> str:
    """A row per message and direction; what is wrong is highlighted."""
    rows, marked = [], []
    for r, message in enumerate(traffic.messages):
        spread = message.quantiles_s() or {}
        times = [milliseconds(spread.get(key)) for key in ("min", "p50", "p99", "max")]
        wrong = [getattr(message, key) for key in _WRONG]
        head = [f"{message.bus}: {label_of(message)}", "sent" if message.sent else "received"]
        row = [*head, f"{message.frames:,}", milliseconds(message.cycle_s), *times]
        marked += [(r, len(row) + i) for i, count in enumerate(wrong) if count]
        rows.append([*row, *("–" if count is None else f"{count:,}" for count in wrong)])
    columns = ["message", "", "frames", "cycle, ms", "shortest", "median", "p99", "longest"]
    columns += ["late", "bad checksum", "bad counter", "lost"]
    note = (
        f"Cycle: that of the database, or as set. Late: after more than {LATE_CYCLES:g} cycles, or "
        "median intervals where no cycle is known. Bad counter: repeated, or out of order; "
        "lost: missing by the counter. A dash: the message has no such check, or none is known."
    )
    if not traffic.whole:
        note += f" Only the first {MAX_FRAMES:,} frames are counted."
    heading = "CAN messages: count, cycle time, errors"
    return table(heading, columns, rows, note=note, text=(1,), marked=marked)


def label_of(message: MessageTraffic) -> str:
    """``MotorFast (0A0)``, or the identifier alone."""
    identifier = f"{message.identifier:0{8 if message.extended else 3}X}"
    return f"{message.name} ({identifier})" if message.name else identifier


def milliseconds(seconds: float | None) -> str:
    """A time [s] in ms; a dash for none."""
    return "–" if seconds is None else number(1e3 * seconds, 4)
