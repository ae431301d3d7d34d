"""Checks of subsystems' steps: where events are handled, and how far a subsystem can be stepped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hilrt.config.problems import Findings
from hilrt.config.structs import Session
from hilrt.link import Link


def check_stepping(
    tables: Session,
    folder: Path,
    pace: str | float,
    classes: Mapping[str, type[Link]],
    findings: Findings,
) -> None:
    """Whether discontinuities become communication points, and no step passes a subsystem's end.

    Parameters
    ----------
    tables : Session
    folder : Path
        The session file's.
    pace : str or float
    classes : mapping of str
        The adapters of the subsystems whose tables could be read.
    findings : Findings
    """
    if pace == "asap":  # in real time no step is undone for an event
        _check_events(tables, folder, classes, findings)
    duration = tables.session.duration
    for name, link_class in classes.items():
        end = link_class.told_to_end(name, tables.subsystems[name], folder)
        if end < duration - 1e-9:
            findings.warn(
                f"subsystems.{name}",
                "",
                None,
                f"its stop_time is at {end:g} s of session time, but the session takes "
                f"{duration:g} s, and an FMU may refuse steps past its end",
                "give a later stop_time, leave it out, or shorten [session] duration",
            )


def _check_events(
    tables: Session, folder: Path, classes: Mapping[str, type[Link]], findings: Findings
) -> None:
    """A session of several rates keeps its base step: an event is on none of their grids."""
    slow = {name: options.every for name, options in tables.subsystems.items() if options.every > 1}
    if not slow:
        return
    tellers = [
        name
        for name, link_class in classes.items()
        if link_class.may_tell_events(name, tables.subsystems[name], folder)
    ]
    for name, every in slow.items() if tellers else ():
        findings.warn(
            f"subsystems.{name}",
            "every",
            every,
            f"in a session of several rates, events of {', '.join(tellers)} inside a step do not "
            "become communication points, but are flagged with event_inside_step",
            "set every = 1 everywhere if their times matter",
        )
