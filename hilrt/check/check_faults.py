"""Checks of faults: places, kinds, values and times, and permission by affected benches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from hilrt.check.check_topology import Direction, Topology
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings
from hilrt.config.session_tables import BenchKind, FaultTable, MessageKind, ValueKind
from hilrt.config.structs import CALCULATED
from hilrt.errors import ConfigError
from hilrt.link import Description
from hilrt.step.fill_faults import ARROW, MAX_UNDERWAY, benches_reached, steps_underway

VALUE_KINDS, BENCH_KINDS = get_args(ValueKind), get_args(BenchKind)
UNDERWAY = ("delay", "jitter", "loss", "duplicate")
#: Kinds of faults at each place.
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "output": VALUE_KINDS,
    "input": VALUE_KINDS,
    "connection": VALUE_KINDS,
    "peer": (*UNDERWAY, *BENCH_KINDS),
    "message": (*UNDERWAY, *get_args(MessageKind)),
}
#: Likewise for a signal of a message.
SIGNAL_KINDS: Final = ("stuck", "noise", "offset")
COUNTER_KINDS: Final = ("wrong_counter", "counter_jump", "frozen_counter")
#: Kinds without a value.
WITHOUT_VALUE: Final = ("stuck", "silent", "frozen_counter", *BENCH_KINDS)
#: Kinds that affect a share of what is sent; kinds without effect if their value is 0.
SHARES: Final = ("loss", "duplicate", *set(get_args(MessageKind)) - set(WITHOUT_VALUE))
POSITIVE: Final = ("noise", "quantise", "delay", "jitter", *SHARES)
#: Kinds that affect everything sent if no value is given.
ALL_WITHOUT: Final = tuple(kind for kind in SHARES if kind in get_args(MessageKind))


def check_faults(
    topology: Topology, findings: Findings, descriptions: Mapping[str, Description]
) -> None:
    """Report problems of ``[[faults]]`` and ``allow_faults``; `descriptions` by subsystem."""
    faults = topology.tables.faults
    names = [fault.name for fault in faults]
    for i, fault in enumerate(faults):
        table = f"faults.{i}"
        if fault.name in names[:i]:
            findings.error(table, "name", fault.name, "exists twice", "rename one")
        _check_value(fault, table, findings)
        if (steps := steps_underway(fault, topology.tables)) > MAX_UNDERWAY:
            text = f"delays by {steps:,} steps"
            findings.error(table, "value", fault.value, text, f"give {MAX_UNDERWAY:,} at most")
        _check_time(topology, fault, table, findings)
        key = _check_place(topology, fault, table, findings)
        if key and fault.emulated:
            _check_emulated(fault, (table, key), descriptions, findings)
        for bench in benches_reached(topology.tables, fault, topology.physical) if key else ():
            text = f"acts on the bench {bench!r}, which does not allow it"
            remedy = f'write allow_faults = ["{fault.name}"] into [subsystems.{bench}]'
            findings.error(
                table, key, fault.place, text, f"{remedy} if the bench can tolerate that"
            )
    for name, options in topology.tables.subsystems.items():
        for allowed in options.allow_faults:
            if allowed not in names:
                text = f"is not the name of a fault{nearest(allowed, names)}"
                findings.error(f"subsystems.{name}", "allow_faults", allowed, text, "")


def _check_value(fault: FaultTable, table: str, findings: Findings) -> None:
    has_none = fault.kind in WITHOUT_VALUE
    if fault.value is None:
        if not has_none and fault.kind not in ALL_WITHOUT:
            remedy = "give the size of the fault"
            findings.error(table, "value", fault.value, "is missing", remedy)
    elif has_none:
        text = f"is not a key of the kind {fault.kind!r}"
        findings.error(table, "value", fault.value, text, "leave it out")
    elif fault.kind in POSITIVE and not fault.value > 0.0:
        text = f"has no effect for a fault of kind {fault.kind!r}"
        findings.error(table, "value", fault.value, text, "give more than 0")
    elif fault.kind in SHARES and not fault.value <= 1.0:
        findings.error(table, "value", fault.value, "is not a share", "give 1 at most")


def _check_time(topology: Topology, fault: FaultTable, table: str, findings: Findings) -> None:
    start, duration = fault.start or 0.0, topology.tables.session.duration
    if fault.end is not None and fault.end <= start:
        text = f"is not after its start at {start:g} s"
        findings.error(table, "end", fault.end, text, "end it later")
    if start >= duration:
        text = f"is not before the session's end at {duration:g} s: it never begins"
        findings.warn(table, "start", fault.start, text, "start it earlier")
    by_itself = fault.start is not None or fault.start_when is not None
    number, tables = f"faults.{fault.name}", topology.tables
    adjusted = {key for options in tables.subsystems.values() for key in options.adjusted}
    if not by_itself and number not in {*tables.monitor.adjust, *adjusted}:
        text = "is missing, and so is a condition: it never begins"
        remedy = f'give one, or allow operators to begin it: [monitor.adjust] "{number}"'
        remedy += " = { min = 0, max = 1 }, or a test sequence: its adjust"
        findings.warn(table, "start", None, text, remedy)


def _check_place(topology: Topology, fault: FaultTable, table: str, findings: Findings) -> str:
    """Check a fault's place; return its key, empty if it has none."""
    given = [key for key in PLACES if getattr(fault, key) is not None]
    if len(given) != 1:
        text = f"has {' and '.join(given) or 'no place'}"
        findings.error(table, "", None, text, f"give one of {', '.join(PLACES)}")
        return ""
    (key,) = given
    kinds = SIGNAL_KINDS if fault.place.count(".") == 2 and key == "message" else PLACES[key]
    if fault.kind not in kinds:
        what = "signal" if kinds is SIGNAL_KINDS else key
        text = f"is not a fault of {'an' if what[0] in 'io' else 'a'} {what}"
        findings.error(table, "kind", fault.kind, text, f"choose from {', '.join(kinds)}")
        return ""
    if key in ("peer", "message"):
        known = [name for name in topology.tables.subsystems if name != CALCULATED]
        subsystem, _, rest = fault.place.partition(".")
        if subsystem not in known or bool(rest) != (key == "message"):
            text = f"names no subsystem{nearest(subsystem, known)}"
            remedy = 'write it as "subsystem"' + ' or "subsystem.Message"' * (key == "message")
            findings.error(table, key, fault.place, text, remedy)
            return ""
        return key
    if key == "connection":
        ends = [end.strip() for end in fault.place.split(ARROW.strip())]
        if ends not in [[c.source, c.target] for c in topology.tables.connections]:
            remedy = 'write it as its "from" and "to", like "a.output -> b.input"'
            findings.error(table, key, fault.place, "is not a connection of this session", remedy)
            return ""
        return key
    name = fault.place.partition("[")[0]
    if key == "output" and name.startswith(f"{CALCULATED}."):
        text = "is calculated, and has no sensor"
        findings.error(table, key, name, text, "alter its inputs, or a connection")
        return ""
    direction: Direction = "output" if key == "output" else "input"
    topology.find(name, direction, table, key, findings)
    return key


def _check_emulated(
    fault: FaultTable,
    place: tuple[str, str],
    descriptions: Mapping[str, Description],
    findings: Findings,
) -> None:
    """Check that the emulated bench of a fault exists and sends the message."""
    bench = descriptions.get(fault.emulated) or Description()
    if bench.emulated is None:
        if not bench.problems and bench.code is None:
            text = (
                f"{fault.emulated!r} is not an emulated bench, so no emulator simulates the fault"
            )
            findings.error(*place, fault.place, text, "alter an output or a connection")
        return
    if fault.message is None:
        return
    try:
        messages = bench.emulated()
    except ConfigError as error:
        findings.error(*place, fault.place, "; ".join(error.problems), "")
        return
    _, name, *signal = fault.message.split(".")
    if name not in messages:
        findings.error(*place, fault.place, f"it sends no {name!r}{nearest(name, messages)}", "")
        return
    sent = messages[name]
    lacks = {
        "wrong_checksum": "checksum" if not sent.guarded else "",
        **dict.fromkeys(COUNTER_KINDS, "counter" if not sent.counts else ""),
    }.get(fault.kind)
    if sent.enables:
        text = "has the bench's enable state, which cannot be faulted"
        findings.error(*place, fault.place, text, "choose another message")
    elif lacks:
        remedy = f"name it in [subsystems.{fault.emulated}.messages.{name}]"
        findings.error(*place, fault.place, f"has no {lacks}", remedy)
    elif signal and signal[0] not in sent.signals:
        text = f"{name} has no signal {signal[0]!r}{nearest(signal[0], sent.signals)}"
        findings.error(*place, fault.place, text, "")
