"""``[record]``: the triggers of the recording, checked and converted for the recorder."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hilrt.check.check_topology import Topology
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings
from hilrt.config.record_tables import RecordTable, TriggerTable
from hilrt.config.structs import Session
from hilrt.errors import ConfigError
from hilrt.record.messages import Limit, Topic, Trigger
from hilrt.reliability.causes import CAUSES

_KINDS = ("flag", "signal", "alarm", "event")
_NS = 1e9


def check_record(topology: Topology, findings: Findings) -> None:
    """Every trigger names one existing thing; signals are looked up when ports are known."""
    tables = topology.tables
    named = [alarm.name for alarm in tables.alarms if alarm.name]
    owners = {*topology.tables.subsystems, *(bond.name for bond in tables.bonds)}
    for i, trigger in enumerate(tables.record.trigger):
        table = f"record.trigger.{i}"
        given = [kind for kind in _KINDS if getattr(trigger, kind) is not None]
        if len(given) != 1:
            findings.error(
                table,
                "",
                None,
                f"has {' and '.join(given) or 'nothing to wait for'}",
                f"give one of {', '.join(_KINDS)} in each trigger",
            )
        _check_limits(trigger, table, findings)
        if trigger.flag is not None and trigger.flag not in CAUSES:
            hint = f"is no flag{nearest(trigger.flag, CAUSES)}"
            findings.error(table, "flag", trigger.flag, hint, "")
        if trigger.alarm is not None and trigger.alarm not in named:
            hint = f"is the name of no alarm{nearest(trigger.alarm, named)}"
            findings.error(table, "alarm", trigger.alarm, hint, "give the alarm its name")
        if trigger.signal is not None:
            owner = trigger.signal.replace(":", ".").partition(".")[0]
            if owner not in {*owners, "master", "flag", "flags", "cut"}:
                hint = f"there is no subsystem or bond {owner!r}{nearest(owner, owners)}"
                findings.error(table, "signal", trigger.signal, hint, "")


def _check_limits(trigger: TriggerTable, table: str, findings: Findings) -> None:
    limits = [key for key in ("above", "below") if getattr(trigger, key) is not None]
    if trigger.signal is not None and not limits:
        findings.error(table, "signal", trigger.signal, "has no limit", "give above or below")
    if trigger.signal is None and limits:
        key = limits[0]
        message = "belongs to a signal, and there is none"
        findings.error(table, key, getattr(trigger, key), message, "give signal, or leave it out")


def build_trigger(tables: Session, topics: Sequence[Topic]) -> Trigger | None:
    """The recorder's trigger; None if it records everything.

    Raises
    ------
    ConfigError
        If a signal is not among those that are recorded.
    """
    record = tables.record
    if not record.trigger:
        return None
    known = [signal.name for topic in topics for signal in topic.signals]
    return Trigger(
        before_ns=round(record.before * _NS),
        after_ns=round(record.after * _NS),
        limits=_limits(record, known),
        alarms=[entry.alarm for entry in record.trigger if entry.alarm is not None],
        causes=[entry.event for entry in record.trigger if entry.event is not None],
    )


def _limits(record: RecordTable, known: Collection[str]) -> list[Limit]:
    limits, problems = [], []
    for i, entry in enumerate(record.trigger):
        if entry.flag is not None:
            limits.append(Limit(f"flag:{entry.flag}", above=0.5))
        if entry.signal is None:
            continue
        if entry.signal not in known:
            hint = f"is not recorded{nearest(entry.signal, known)}"
            problems.append(f"[record.trigger.{i}] signal = {entry.signal!r}: {hint}")
        limits.append(Limit(entry.signal, entry.above, entry.below))
    if problems:
        raise ConfigError(problems)
    return limits
