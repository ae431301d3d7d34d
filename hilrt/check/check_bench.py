"""Checks of a bench's times against those of the session.

The keys are those of adapter "can"; keys that the table of another adapter lacks are not checked.
"""

from __future__ import annotations

import math
from typing import Any

from hilrt.bench.guard_states import NS
from hilrt.bench.settling import SETTLE_NS, longest_ramp
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.structs import Session

#: Set-points that a bench should tolerate to miss; with fewer, one late tick ends the session.
FEW = 3
#: Communication steps by which a set-point may be sent ahead, and is extrapolated.
AHEAD = 5
#: Interfaces of python-can without a controller that could leave the bus.
WITHOUT_CONTROLLER = ("udp_multicast", "virtual")
#: Longest plausible `actuation_delay`, s.
LONGEST_DELAY = 1.0


def check_benches(topology: Topology, findings: Findings) -> None:
    """Timeouts, safe profile and arming of each bench."""
    tables = topology.tables
    for name in sorted(topology.physical):
        options = tables.subsystems[name]
        step = tables.master.step * options.every
        _check_master_timeout(name, options, step, findings)
        _check_delay(name, options, step, findings)
        _check_safe_profile(name, options, findings)
        _check_recovery(name, options, findings)
        _check_arming(name, options, tables.master.arm_timeout, findings)
    if topology.physical:
        _check_foreign_code(tables, findings)


def _check_foreign_code(tables: Session, findings: Findings) -> None:
    """FMUs in the master's process, in a session with a bench: a crash takes the master down."""
    for name, options in tables.subsystems.items():
        if options.adapter == "fmu":
            findings.warn(
                f"subsystems.{name}",
                "adapter",
                "fmu",
                "its binary runs in the master's own process: if it crashes or never returns, so "
                "does the master, and only the gateways bring the benches to rest",
                'host it: adapter = "zeromq", spawn = ["hilrt", "solver", "MODEL.fmu"]',
            )


def _check_master_timeout(name: str, options: Any, step: float, findings: Findings) -> None:
    """Whether the gateway's time-out for the master spans enough set-points."""
    timeout = getattr(options, "master_timeout", None)
    if timeout is None or timeout >= FEW * step:
        return
    place = f"subsystems.{name}", "master_timeout", timeout
    remedy = f"take {FEW * step:g} or more"
    if timeout <= step:
        message = f"is over before the next set-points are due, every {step:g} s"
        findings.error(*place, message, remedy)
    else:
        message = f"is less than {FEW} set-points, {step:g} s apart: a late tick ends the session"
        findings.warn(*place, message, remedy)


def _check_recovery(name: str, options: Any, findings: Findings) -> None:
    """Whether there is a controller that could be restarted after bus-off."""
    recovery = getattr(options, "bus_off_recovery", None)
    interface = getattr(options, "bus", {}).get("interface")
    if recovery is None:
        return
    from hilrt.can.socketcan import may_restart

    place = f"subsystems.{name}.bus_off_recovery", "delay", recovery.delay
    if interface == "socketcan" and not may_restart():
        findings.warn(
            *place,
            "cannot be kept here: only a process with the capability CAP_NET_ADMIN may restart a "
            "CAN controller",
            "give it to the gateway's user on the host of the session, or the interface restart-ms",
        )
    if interface in WITHOUT_CONTROLLER:
        findings.warn(
            *place,
            f"has no effect on bus.interface = {interface!r}, which has no controller",
            "keep it for the real bus, or leave it out",
        )


def _check_delay(name: str, options: Any, step: float, findings: Findings) -> None:
    """Set-points are extrapolated over the delay."""
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
    """Whether every input can be at its safe value before the profile goes on without it."""
    profile = getattr(options, "safe_profile", None)
    if profile is None:
        return
    for port, entry in options.inputs.items():
        if None in (entry.min, entry.max, entry.max_rate, entry.safe):
            continue
        way = max(entry.max - entry.safe, entry.safe - entry.min)
        needed = shortest_ramp(way, entry.max_rate, entry.max_jerk)
        if needed >= profile.step_timeout:
            jerk = "" if entry.max_jerk is None else f" and max_jerk = {entry.max_jerk:g}"
            findings.warn(
                f"subsystems.{name}.inputs.{port}",
                "max_rate",
                entry.max_rate,
                f"at that{jerk} the way of {way:g} to safe = {entry.safe:g} takes {needed:.3g} s, "
                f"but safe_profile.step_timeout = {profile.step_timeout:g} s is over before, and "
                "the enable may be withdrawn on the way",
                "raise step_timeout above that, or let the input move faster",
            )


def shortest_ramp(way: float, max_rate: float, max_jerk: float | None) -> float:
    """Least time over `way` from rest to rest, s."""
    if max_jerk is None:
        return way / max_rate
    build_up = max_rate / max_jerk
    if way < max_rate * build_up:  # the full rate is never reached
        return 2.0 * math.sqrt(way / max_jerk)
    return way / max_rate + build_up


def _check_arming(name: str, options: Any, arm_timeout: float, findings: Findings) -> None:
    """Whether the session waits as long as the bench's table allows."""
    enable = getattr(options, "enable", None)
    enabling = enable.timeout if enable else 0.0
    if enabling > arm_timeout:
        findings.warn(
            f"subsystems.{name}.enable",
            "timeout",
            enabling,
            f"is never waited for: [master] arm_timeout = {arm_timeout:g} ends arming before",
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
