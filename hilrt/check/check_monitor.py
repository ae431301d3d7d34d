"""Check `[monitor]` and `[record]`."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Sequence
from importlib.util import find_spec

import zmq

from hilrt.check.check_topology import Topology
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings
from hilrt.config.session_tables import (
    ACTIONS,
    Adjustable,
    MonitorTable,
    RecordTable,
    TriggerTable,
)
from hilrt.config.structs import Session
from hilrt.errors import ConfigError
from hilrt.isolation.temporary_folder import UNIX
from hilrt.peers.addresses import is_number, is_port
from hilrt.record.messages import Limit, Topic, Trigger
from hilrt.reliability.causes import CAUSES
from hilrt.step.changes import PARAMETERS
from hilrt.tables.network import OPERATED

#: Numbers that operators may be permitted to adjust: in ``[reliability]``, and in a bond's
#: correction.
RELIABILITY_KEYS = ("connection_defect", "output_defect", "power_residual", "tracking")
BOND_KEYS = ("cap", "cap_abs", "share")
WILDCARDS = set("*?")


def check_monitor(topology: Topology, findings: Findings) -> None:
    """Report problems of ``[monitor]``."""
    tables = topology.tables
    for name in tables.monitor.values:
        if not WILDCARDS & set(name.partition("[")[0]):  # patterns are checked at run time
            topology.find(name.partition("[")[0], "output", "monitor", "values", findings)
    check_addresses(tables.monitor, findings)
    _check_foxglove(tables.monitor.foxglove, findings)
    for action in tables.monitor.control:
        if action not in ACTIONS:
            remedy = f"choose from {', '.join(ACTIONS)}"
            findings.error("monitor", "control", action, "is not a command", remedy)
    known = [f"reliability.{key}" for key in RELIABILITY_KEYS]
    known += [f"bonds.{b.name}.{key}" for b in tables.bonds for key in BOND_KEYS]
    faults = [f"faults.{fault.name}" for fault in tables.faults]
    known += faults
    for name, bounds in tables.monitor.adjust.items():
        value = f"{bounds.min:g} … {bounds.max:g}"
        if name.startswith(OPERATED):
            _check_operated(topology, name, bounds, findings)
        elif name.startswith(f"{PARAMETERS}."):
            _check_parameter(topology, name, bounds, findings)
        elif name in faults:
            if not 0.0 <= bounds.min <= bounds.max <= 1.0:
                remedy = "give { min = 0, max = 1 }"
                findings.error(
                    "monitor.adjust", name, value, "a fault is off (0) or on (1)", remedy
                )
        elif name not in known:
            remedy = f"choose from {', '.join(known)}"
            findings.error("monitor.adjust", name, value, "cannot be adjusted", remedy)
        elif not 0.0 <= bounds.min <= bounds.max:
            findings.error("monitor.adjust", name, value, "is not a range", "give 0 <= min <= max")
        elif name.startswith("reliability.") and bounds.min == 0.0:
            findings.error(
                "monitor.adjust", name, value, "would flag everything at 0", "give a min above 0"
            )


def check_adjusted(topology: Topology, findings: Findings) -> None:
    """Report problems of the numbers that test sequences may change."""
    faults = [f"faults.{fault.name}" for fault in topology.tables.faults]
    for subsystem, options in topology.tables.subsystems.items():
        for number in options.adjusted:
            if number.startswith(f"{PARAMETERS}."):
                place = f"subsystems.{subsystem}", "adjust"
                check_subsystem_of(topology, number, place, findings)
            elif number not in faults:
                text = f"is neither a fault nor a parameter{nearest(number, faults)}"
                remedy = 'write it as "faults.NAME" or "parameters.SUBSYSTEM.NAME"'
                findings.error(f"subsystems.{subsystem}", "adjust", number, text, remedy)


def check_subsystem_of(
    topology: Topology, name: str, place: tuple[str, str], findings: Findings
) -> None:
    """Check that a parameter's subsystem exists; the parameter itself is checked once created."""
    subsystem = name.split(".")[1]
    known = {*topology.tables.subsystems, *topology.tables.group_of}
    if subsystem not in known:
        text = f"there is no subsystem {subsystem!r}{nearest(subsystem, known)}"
        findings.error(*place, None, text, "")


def _check_parameter(topology: Topology, name: str, bounds: Adjustable, findings: Findings) -> None:
    check_subsystem_of(topology, name, ("monitor.adjust", name), findings)
    if bounds.min > bounds.max:
        value = f"{bounds.min:g} … {bounds.max:g}"
        findings.error("monitor.adjust", name, value, "is not a range", "give min <= max")


def _check_operated(topology: Topology, name: str, bounds: Adjustable, findings: Findings) -> None:
    """Check an input that an operator may set."""
    text = name.removeprefix(OPERATED)
    place = topology.find(text, "input", "monitor.adjust", name, findings)
    if place is not None and place.port is not None and place.port.size > 1:
        message = "has several elements, which an operator cannot set"
        findings.error("monitor.adjust", name, None, message, "leave it out")
    if bounds.min > bounds.max:
        value = f"{bounds.min:g} … {bounds.max:g}"
        findings.error("monitor.adjust", name, value, "is not a range", "give min <= max")


def _check_foxglove(address: str | None, findings: Findings) -> None:
    if address is None:
        return
    _, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        remedy = 'write it as ADDRESS:PORT, for example "127.0.0.1:8765"'
        findings.error("monitor", "foxglove", address, "is not an address", remedy)
    if find_spec("tornado") is None:
        findings.error("monitor", "foxglove", address, "needs tornado", "install hilrt[foxglove]")


def check_addresses(table: MonitorTable, findings: Findings) -> None:
    """Report problems of ``listen``, ``commands`` and ``page``."""
    for key, address in (("listen", table.listen), ("commands", table.commands)):
        if address is not None:
            _check_endpoint(key, address, findings)
    if table.listen is not None and table.listen == table.commands and _port(table.listen) != "*":
        remedy = "give them different ports"
        findings.error("monitor", "commands", table.commands, "is also that of listen", remedy)
    if not is_port(_port(table.page)):
        remedy = 'write it as ADDRESS:PORT, for example "127.0.0.1:5006", with a port up to 65535'
        findings.error("monitor", "page", table.page, "is not an address", remedy)


def _check_endpoint(key: str, address: str, findings: Findings) -> None:
    example = "tcp://0.0.0.0:5570" if key == "listen" else "tcp://0.0.0.0:5571"
    scheme, _, rest = address.partition("://")
    if scheme == "ipc" and key == "listen" and UNIX:
        if rest[:1] != "/" or rest[-1] == "/" or len(os.fsencode(rest)) > zmq.IPC_PATH_MAX_LEN:
            longest = zmq.IPC_PATH_MAX_LEN
            remedy = f"write it as ipc:///FOLDER/NAME, of at most {longest} bytes"
            findings.error("monitor", key, address, "is not an address to listen at", remedy)
        return
    host, colon, port = rest.rpartition(":")
    if scheme != "tcp" or not colon or not (port == "*" or is_port(port)):
        remedy = f'write it as tcp://ADDRESS:PORT, for example "{example}", with a port up to 65535'
        findings.error("monitor", key, address, "is not an address to listen at", remedy)
    elif not _is_own(host):
        remedy = f'give a numeric address, or "{example}" for all'
        findings.error("monitor", key, address, "is not an address of this machine", remedy)


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _is_own(host: str) -> bool:
    """Whether ZeroMQ can listen at `host`: an address or interface, but not a host name."""
    if host == "*" or host in [name for _, name in socket.if_nameindex()]:
        return True
    return is_number(host)


_KINDS = ("flag", "signal", "alarm", "event")
_NS = 1e9


def check_record(topology: Topology, findings: Findings) -> None:
    """Check that each trigger names one existing cause; signals are checked with the ports."""
    tables = topology.tables
    named = [alarm.name for alarm in tables.alarms if alarm.name]
    known = {*topology.tables.subsystems, *topology.tables.group_of}
    owners = known | {bond.name for bond in tables.bonds}
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
            hint = f"is not a flag{nearest(trigger.flag, CAUSES)}"
            findings.error(table, "flag", trigger.flag, hint, "")
        if trigger.alarm is not None and trigger.alarm not in named:
            hint = f"is not the name of an alarm{nearest(trigger.alarm, named)}"
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
        message = "applies to a signal, and there is none"
        findings.error(table, key, getattr(trigger, key), message, "give signal, or leave it out")


def build_trigger(tables: Session, topics: Sequence[Topic]) -> Trigger | None:
    """Build the recorder's trigger; None if it records everything.

    Raises
    ------
    ConfigError
        If a signal is not recorded.
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
