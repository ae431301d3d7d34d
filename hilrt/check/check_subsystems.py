"""Check `[subsystems]`: benches, declared ranges, reference models, sequences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hilrt.bench.guard_states import NS, SETTLE_NS, longest_ramp
from hilrt.check.check_topology import Topology
from hilrt.config import registry
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings
from hilrt.config.structs import Session
from hilrt.link import Description, Link
from hilrt.sequences.sequence import DRIVEN
from hilrt.solver import Port, Ports
from hilrt.tables.channels import BENCH_PATIENCE
from hilrt.tables.network import connect_reads, coupled_ports
from hilrt.tables.ports import wrong_ports
from hilrt.wording import number

#: Number of missed set-points that a bench should tolerate.
FEW = 3
#: Largest number of communication steps by which set-points are sent ahead and extrapolated.
AHEAD = 5
#: Bus load up to which frames of low priority are punctual without further analysis.
MOST_LOAD = 0.5
#: Longest plausible `actuation_delay`, s.
LONGEST_DELAY = 1.0


def check_benches(topology: Topology, findings: Findings) -> None:
    """Check timeouts, safe profile and arming of each bench."""
    tables = topology.tables
    for name in sorted(topology.physical):
        options = tables.subsystems[name]
        step = tables.master.step * options.every
        _check_master_timeout(name, options, step, findings)
        _check_emulator(name, options, findings)
        _check_delay(name, options, step, findings)
        _check_safe_profile(name, options, findings)
        _check_recovery(name, options, findings)
        _check_arming(name, options, tables.master.arm_timeout, findings)
    if topology.physical:
        _check_foreign_code(tables, findings)


def check_traffic(
    tables: Session, descriptions: Mapping[str, Description], findings: Findings
) -> None:
    """Report frames per second and load of each bench's bus; warn of a high load."""
    for name, description in descriptions.items():
        if not description.frames:
            continue
        options: Any = tables.subsystems[name]
        _check_interval(name, tables.master.step, description, options, findings)
        from hilrt.can.sender import REPEAT_NS  # imports python-can, an extra

        often = min(tables.master.step * options.every, REPEAT_NS / 1e9)
        timed = [frame._replace(interval=frame.interval or often) for frame in description.frames]
        known = [frame for frame in timed if frame.interval > 0.0]  # False for NaN
        rates = [
            sum(1.0 / frame.interval for frame in known if frame.sent == sent)
            for sent in (True, False)
        ]
        unknown = [frame.message for frame in timed if frame not in known]
        text = f"{rates[0]:,.0f} frames per s are sent and {rates[1]:,.0f} received"
        if unknown:
            text += f", without {', '.join(unknown)}: the database gives no cycle time for them"
        bitrate = options.bus.get("bitrate")
        if not isinstance(bitrate, (int, float)) or not bitrate > 0.0:
            findings.info(f"subsystems.{name}", f"{text}; set bus.bitrate to compute the load")
            continue
        load = sum(frame.bits / frame.interval for frame in known) / bitrate
        text += f": at most {load:.0%} of {bitrate / 1e3:g} kbit/s"
        if any(frame.bits == 0 for frame in known):
            text += ", without the frames of CAN FD"
        if load > MOST_LOAD:
            most = max(known, key=lambda frame: (frame.sent, 1.0 / frame.interval)).message
            remedy = f'send less often: messages.{most}.send = "cyclic" and its cycle, or every'
            findings.warn(f"subsystems.{name}", "bus", None, text, remedy)
        else:
            findings.info(f"subsystems.{name}", text)


def _check_interval(
    name: str, step: float, description: Description, options: Any, findings: Findings
) -> None:
    """Warn if a bench sends so rarely that it counts as late between two frames."""
    received = [frame.interval for frame in description.frames if not frame.sent]
    fastest = min(received, default=math.nan)  # NaN if one is not known
    own = step * options.every
    if any(map(math.isnan, received)) or not fastest > BENCH_PATIENCE * own:
        return
    findings.warn(
        f"subsystems.{name}",
        "every",
        options.every,
        f"the bench sends a frame every {number(1e3 * fastest, 3)} ms, and its samples are late "
        f"after {BENCH_PATIENCE:g} of its steps of {number(1e3 * own, 3)} ms: between two frames "
        "they are extrapolated",
        f"set it to {math.ceil(fastest / step - 1e-9)}, or use master.step = "
        f"{float(f'{fastest:.3g}')!r}",
    )


def _check_foreign_code(tables: Session, findings: Findings) -> None:
    """Warn of FMUs in the master's process beside a bench: their crash ends the master."""
    for name, options in tables.subsystems.items():
        if options.adapter == "fmu":
            findings.warn(
                f"subsystems.{name}",
                "adapter",
                "fmu",
                "its binary runs in the master's own process: if it crashes or hangs, so does the "
                "master, and only the gateways bring the benches to rest",
                'host it: adapter = "zeromq", spawn = ["hilrt", "solver", "MODEL.fmu"]',
            )


def _check_master_timeout(name: str, options: Any, step: float, findings: Findings) -> None:
    """Check that the gateway's timeout for the master spans enough set-points."""
    timeouts = getattr(options, "timeouts", None)
    if timeouts is None or timeouts.master >= FEW * step:
        return
    timeout = timeouts.master
    place = f"subsystems.{name}", "master_timeout", timeout
    remedy = f"use {FEW * step:g} or more"
    if timeout <= step:
        message = f"is shorter than the interval of set-points, {step:g} s"
        findings.error(*place, message, remedy)
    else:
        message = f"is less than {FEW} set-points, {step:g} s apart: a late tick ends the session"
        findings.warn(*place, message, remedy)


def _check_emulator(name: str, options: Any, findings: Findings) -> None:
    """Warn of an emulator that would send on the bus of a real bench."""
    if getattr(options, "emulator", None) is None:
        return
    from hilrt.bench.bench_options import is_virtual  # imports python-can, an extra

    if not is_virtual(options.bus):
        findings.warn(
            f"subsystems.{name}",
            "emulator",
            options.emulator,
            f"sends the bench's frames on bus = {options.bus!r}, a real interface, on which the "
            "real bench may also send them",
            'leave it out on the real bench, or use bus.interface = "udp_multicast" or a vcan',
        )


def _check_recovery(name: str, options: Any, findings: Findings) -> None:
    """Check that there is a controller that can be restarted after bus-off."""
    recovery = getattr(options, "bus_off_recovery", None)
    interface = getattr(options, "bus", {}).get("interface")
    if recovery is None:
        return
    from hilrt.bench.bench_options import WITHOUT_CONTROLLER
    from hilrt.can.socketcan import may_restart

    place = f"subsystems.{name}.bus_off_recovery", "delay", recovery.delay
    if interface == "socketcan" and not may_restart():
        findings.warn(
            *place,
            "has no effect here: only a process with the capability CAP_NET_ADMIN may restart a "
            "CAN controller",
            "give it to the gateway's user on the host of the session, or the interface restart-ms",
        )
    if interface in WITHOUT_CONTROLLER:
        findings.warn(
            *place,
            f"has no effect on bus.interface = {interface!r}, which has no controller",
            "keep it for the real bus, or remove it",
        )


def _check_delay(name: str, options: Any, step: float, findings: Findings) -> None:
    """Check the actuation delay, over which set-points are extrapolated."""
    delay = getattr(options, "actuation_delay", 0.0)
    place = f"subsystems.{name}", "actuation_delay", delay
    if delay > LONGEST_DELAY:
        message = f"is longer than {LONGEST_DELAY:g} s: set-points cannot be extrapolated so far"
        findings.error(*place, message, "give it in seconds")
    elif delay > AHEAD * step:
        message = (
            f"is {delay / step:.3g} steps of {step:g} s, and set-points are extrapolated so far"
        )
        findings.warn(*place, message, "give it in seconds, as it was measured")


def _check_safe_profile(name: str, options: Any, findings: Findings) -> None:
    """Check that every input can reach its safe value within the profile's time limit."""
    profile = getattr(options, "safe_profile", None)
    if profile is None:
        return
    for port, entry in options.inputs.items():
        if None in (entry.min, entry.max, entry.max_rate, entry.safe):
            continue
        distance = max(entry.max - entry.safe, entry.safe - entry.min)
        needed = shortest_ramp(distance, entry.max_rate, entry.max_jerk)
        if needed >= profile.step_timeout:
            jerk = "" if entry.max_jerk is None else f"with max_jerk = {entry.max_jerk:g} "
            findings.warn(
                f"subsystems.{name}.inputs.{port}",
                "max_rate",
                entry.max_rate,
                f"{jerk}the safe profile may need {needed:.3g} s to move the input by "
                f"{distance:g} to safe = {entry.safe:g}, but safe_profile.step_timeout = "
                f"{profile.step_timeout:g} s, so the enable may be withdrawn before the input "
                "arrives",
                f"raise step_timeout above {needed:.3g} s, or let the input move faster",
            )


def shortest_ramp(distance: float, max_rate: float, max_jerk: float | None) -> float:
    """Shortest time for a `distance` from rest to rest, s."""
    if max_jerk is None:
        return distance / max_rate
    build_up = max_rate / max_jerk
    if distance < max_rate * build_up:  # the full rate is never reached
        return 2.0 * math.sqrt(distance / max_jerk)
    return distance / max_rate + build_up


def _check_arming(name: str, options: Any, arm_timeout: float, findings: Findings) -> None:
    """Check that the session's time limit for arming covers the bench's own limits."""
    enable = getattr(options, "enable", None)
    enabling = enable.timeout if enable else 0.0
    if enabling > arm_timeout:
        findings.warn(
            f"subsystems.{name}.enable",
            "timeout",
            enabling,
            f"is never reached: [master] arm_timeout = {arm_timeout:g} ends arming first",
            "shorten it, or raise arm_timeout",
        )
        return
    ramp = longest_ramp(options.inputs.values())
    longest = enabling + ramp + SETTLE_NS / NS
    if longest > arm_timeout:
        findings.warn(
            "master",
            "arm_timeout",
            arm_timeout,
            f"arming {name!r} may take {longest:.3g} s: {enabling:g} s to be enabled, "
            f"{ramp:.3g} s for its longest ramp, and {SETTLE_NS / NS:g} s to settle",
            "raise it above that",
        )


def check_ranges(topology: Topology, findings: Findings) -> None:
    """Check that ``out_of_range`` names outputs with a range, and limits lie within it."""
    for name, ports in topology.ports.items():
        if ports is None or name in topology.refused:
            continue
        _check_policies(topology, name, {port.name: port for port in ports.outputs}, findings)
        _check_inputs(topology, name, {port.name: port for port in ports.inputs}, findings)
    _check_alarms(topology, findings)


def _check_policies(
    topology: Topology, name: str, outputs: dict[str, Port], findings: Findings
) -> None:
    policies = topology.tables.subsystems[name].out_of_range
    for output, policy in policies.items() if isinstance(policies, dict) else ():
        table = f"subsystems.{name}.out_of_range"
        port = outputs.get(output)
        if port is None:
            reason = f"subsystem {name!r} has no such output{nearest(output, outputs)}"
            findings.error(table, output, policy, reason, "rename or remove it")
        elif not any(map(math.isfinite, (port.min, port.max))) and policy != "use":
            findings.warn(
                table,
                output,
                policy,
                "no range is declared for it, so nothing is ever outside",
                "declare one in the database, or set an alarm",
            )


def _check_inputs(
    topology: Topology, name: str, inputs: dict[str, Port], findings: Findings
) -> None:
    """Warn of set-point bounds outside the subsystem's own, which have no effect."""
    for key, entry in topology.tables.subsystems[name].inputs.items():
        port = inputs.get(key)
        if port is None:
            continue
        for bound, value in (("min", entry.min), ("max", entry.max)):
            if value is not None and not port.min <= value <= port.max:
                findings.warn(
                    f"subsystems.{name}.inputs.{key}",
                    bound,
                    value,
                    f"lies outside the declared range, which bounds it {range_text(port)}",
                    "narrow it, or correct the range",
                )


def _check_alarms(topology: Topology, findings: Findings) -> None:
    """Warn of alarm limits beyond the declared range of the signal."""
    for i, alarm in enumerate(topology.tables.alarms):
        place = topology.find(alarm.signal, "output", f"alarms.{i}", "signal", Findings())
        port = None if place is None else place.port
        if port is None:
            continue
        for key, limit in (("min", alarm.min), ("max", alarm.max)):
            if limit is not None and not port.min <= limit <= port.max:
                findings.warn(
                    f"alarms.{i}",
                    key,
                    limit,
                    f"lies outside the declared range {range_text(port)} of {alarm.signal}: the "
                    "alarm checks values there too, but none should occur",
                    "correct the limit, or the range",
                )


def range_text(port: Port) -> str:
    """Format the declared range of a port."""
    if math.isinf(port.min):
        return f"up to {port.max:g}"
    return f"from {port.min:g}" + ("" if math.isinf(port.max) else f" to {port.max:g}")


def check_references(
    topology: Topology,
    folder: Path,
    classes: Mapping[str, type[Link]],
    code: bool,
    findings: Findings,
) -> None:
    """Check that reference models can be created and probed, and have the subsystems' ports.

    Parameters
    ----------
    topology : Topology
    folder : Path
        The session file's folder; models are searched for there first.
    classes : mapping of str
        Adapters by subsystem.
    code : bool
        Run the models' code; otherwise these points are listed as "not checked".
    findings : Findings
    """
    for name, link_class in classes.items():
        options, table = topology.tables.subsystems[name], f"subsystems.{name}"
        if options.reference_model is None:
            if options.reference_params:
                reason = "has no model to apply to"
                remedy = "add reference_model, or leave it out"
                findings.error(table, "reference_params", None, reason, remedy)
            continue
        if not code:
            why = "whether its ports are the subsystem's; only a check that imports its module and "
            why += "calls its constructor can tell"
            findings.unchecked(table, "reference_model", options.reference_model, why)
            continue
        if not (link_class.physical or link_class.remote):
            reason = "is used only if the subsystem, a solver in the master's process, cannot be "
            reason += "probed itself"
            findings.warn(table, "reference_model", options.reference_model, reason, "leave it out")
        _check_reference(topology, name, folder, findings)


def _check_reference(topology: Topology, name: str, folder: Path, findings: Findings) -> None:
    options, table = topology.tables.subsystems[name], f"subsystems.{name}"

    def wrong(message: str, remedy: str = "") -> None:
        findings.error(table, "reference_model", options.reference_model, message, remedy)

    adapter = registry.link_class("inprocess")
    keys = {"model": options.reference_model, "params": options.reference_params}
    model: Any = adapter.Options
    try:
        found = adapter.describe(name, model(adapter="inprocess", **keys), folder)
    except (Exception, SystemExit) as error:  # a user's model may raise anything
        wrong(f"cannot be created: {type(error).__name__}: {error}", "correct the model")
        return
    for line in found.problems:
        wrong(line)
    if found.ports is None:
        return
    if not found.restores:
        wrong("cannot be probed", "give it save_state and restore_state")
    ports, coupled = topology.ports[name], coupled_ports(topology.tables, name)
    if ports is None or name in topology.refused:
        return
    for text in wrong_ports(found.ports, _known(topology, name, ports), coupled):
        message, _, remedy = text.partition("; ")
        wrong(message, remedy)


def _known(topology: Topology, name: str, ports: Ports) -> Ports:
    """Ports of which more than the name is known."""
    sides = (
        [p for p in side if topology.tables.joined(name, p.name) not in topology.unclear]
        for side in ports
    )
    inputs, outputs = (tuple(side) for side in sides)
    return Ports(inputs, outputs)


def check_sequences(topology: Topology, findings: Findings) -> Topology:
    """Report problems of test sequences, and connect the signals that they read."""
    tables, ports = topology.tables, topology.ports
    sequences = {name for name, options in tables.subsystems.items() if options.is_sequence}
    if not sequences:
        return topology
    for name in sorted(sequences):
        known = ports.get(name)
        for port in () if known is None else known.inputs:
            table = f"subsystems.{name}"
            place = topology.find(port.name, "output", table, "sequence", findings)
            if place is not None and place.port is not None and place.port.size > 1:
                reason = f"reads {port.name!r}, which has {place.port.size} elements"
                findings.error(table, "sequence", None, reason, "read a port of one element")
        if tables.subsystems[name].jacobian is not None:
            reason = "has no effect for a test sequence, which is not a model"
            findings.error(f"subsystems.{name}", "jacobian", None, reason, "leave it out")
    drivers: dict[str, int] = {}  # input: index of the first connection from a sequence
    for i, connection in enumerate(tables.connections):
        source, target = (end.partition(".")[0] for end in (connection.source, connection.target))
        if source in sequences and connection.order:
            reason = f"{source!r} is a test sequence, whose outputs are held"
            findings.error(f"connections.{i}", "order", connection.order, reason, "leave it out")
        if source in sequences and not connection.source.endswith(DRIVEN):
            first = drivers.setdefault(connection.target, i)
            if first != i:
                reason = (
                    f"is driven by {tables.connections[first].source!r} of connection {first + 1}, "
                    "too: only one port of a sequence may drive an input, because two would be "
                    "added"
                )
                remedy = "remove one; within a sequence, bench.together combines several actions"
                findings.error(f"connections.{i}", "to", connection.target, reason, remedy)
        if target in sequences:
            reason = f"{target!r} is a test sequence, whose inputs are connected by their names"
            findings.error(f"connections.{i}", "to", connection.target, reason, "leave it out")
    for i, bond in enumerate(tables.bonds):
        ends = {end.partition(".")[0] for end in (*bond.efforts, bond.flow)} & sequences
        if ends:
            reason = f"{min(ends)!r} is a test sequence, which has no power"
            findings.error(f"bonds.{bond.name or i}", "flow", bond.flow, reason, "leave it out")
    known_ports = {name: known for name, known in ports.items() if known is not None}
    connected, tables = connect_reads(known_ports, tables)
    return replace(topology, tables=tables, ports={**ports, **connected})
