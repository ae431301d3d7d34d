"""Checks of session time: steps, duration, pace, and how ticks are waited for."""

from __future__ import annotations

from collections.abc import Iterable

from hilrt.config.problems import Findings
from hilrt.config.structs import MasterTable, Session
from hilrt.timing import host

_NS = 1_000_000_000
#: Largest distance of a step from a whole number of ns: in seconds it is a binary fraction.
_NS_TOLERANCE = 1e-3


def check_duration(tables: Session, findings: Findings) -> None:
    """Steps, and how long the session is."""
    master, control = tables.master, tables.master.step_control
    step_ns = master.step * _NS
    if step_ns < 1.0:
        findings.error("master", "step", master.step, "is below a nanosecond", "make it longer")
    elif control.method == "fixed" and abs(step_ns - round(step_ns)) > _NS_TOLERANCE:
        findings.error(
            "master",
            "step",
            master.step,
            "is not a whole number of nanoseconds",
            f"take {round(step_ns) / _NS:.9f}",
        )
    if tables.session.duration < (master.step if control.method == "fixed" else 0.0):
        findings.error(
            "session",
            "duration",
            tables.session.duration,
            f"is shorter than one step of {master.step:g} s",
            "run for at least one step",
        )
    if control.minimum > control.maximum:
        findings.error(
            "master.step_control",
            "minimum",
            control.minimum,
            f"is above maximum = {control.maximum:g}",
            "exchange them",
        )
    elif control.initial is not None and not control.minimum <= control.initial <= control.maximum:
        findings.error(
            "master.step_control",
            "initial",
            control.initial,
            f"lies outside minimum = {control.minimum:g} to maximum = {control.maximum:g}",
            "move it between them",
        )


def check_pacing(master: MasterTable, findings: Findings) -> None:
    """The busy-wait before a tick, and the processors."""
    pacing = master.pacing
    if pacing.spin != "auto" and pacing.spin * 1e-6 >= master.step:
        findings.error(
            "master.pacing",
            "spin",
            pacing.spin,
            f"is not shorter than one step of {master.step:g} s: the master would never sleep",
            'take "auto", or give less (µs)',
        )
    missing = sorted(set(pacing.affinity) - set(host.available_cpus()))
    if missing:
        findings.warn(
            "master.pacing",
            "affinity",
            pacing.affinity,
            f"this host does not offer processors {missing}",
            f"choose among {host.available_cpus()}",
        )


def check_pace(tables: Session, pace: str | float, physical: set[str], findings: Findings) -> None:
    """A pace that a bench does not keep, and what a variable step does not go with."""
    method = tables.master.step_control.method
    if pace not in ("realtime", 1.0) and physical:
        findings.error(
            "session",
            "pace",
            pace,
            f"{_names(physical)} keeps real time and cannot be hurried or held",
            'take "realtime"',
        )
    if method == "fixed":
        return
    if pace != "asap":
        findings.error(
            "master.step_control",
            "method",
            method,
            "a variable step is not possible against the wall clock",
            'take method = "fixed", or [session] pace = "asap" if no bench takes part',
        )
    for name, options in tables.subsystems.items():
        if options.every > 1:
            findings.error(
                f"subsystems.{name}",
                "every",
                options.every,
                f'needs a fixed step, but [master.step_control] method = "{method}"',
                "leave it out, or fix the step",
            )


def _names(subsystems: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(subsystems))
