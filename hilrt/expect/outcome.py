"""Outcome of a test: of an expectation, or of a value measured by a sequence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as ET

import msgspec

from hilrt.errors import ConfigError, ExitStatus
from hilrt.files.text import whole_file

Word = Literal["passed", "failed", "inconclusive"]


class Coordinate(msgspec.Struct):
    """Coordinate of a measured value, such as speed = 120 rad/s."""

    #: Name of the axis.
    name: str
    #: Position on the axis.
    value: float
    #: Unit of the position.
    unit: str = ""


class ResultEntry(msgspec.Struct, kw_only=True):
    """Result of one expectation or measurement."""

    #: Name of the expectation, or of the measurement.
    name: str
    #: Outcome.
    result: Word
    #: Distance to the limit in `unit`, at the deciding sample; negative if the limit is violated,
    #: null if the distance is unknown.
    robustness: float | None = None
    #: Estimated error of that distance, in `unit`; 0 if no coupling affects it, null if it is
    #: unknown.
    error: float | None = None
    #: [s] Session time of the deciding sample; null if there is none.
    t: float | None = None
    #: Text of the expectation or measurement.
    text: str = ""
    #: Signals in the conditions.
    signals: list[str] = []
    #: Value of a measurement; otherwise null.
    value: float | None = None
    #: Lower limit of a measurement.
    min: float | None = None
    #: Upper limit of a measurement.
    max: float | None = None
    #: Unit of `robustness`, `error`, `value`, `min` and `max`.
    unit: str = ""
    #: `expect` for an expectation, `measure` for a measurement of a sequence.
    source: Literal["expect", "measure"] = "expect"
    #: Sequence that added it (its subsystem); empty for the session file.
    of: str = ""
    #: [s] First session time that was checked.
    since: float | None = None
    #: [s] Last session time that was checked.
    until: float | None = None
    #: Why it has not passed, or what was left out.
    reason: str = ""
    #: Quantity of a measurement at coordinates (docs/sequences.md#maps-and-characteristics);
    #: otherwise empty.
    quantity: str = ""
    #: Coordinates of the measurement, in the order of the table's columns.
    at: list[Coordinate] = []


def measured(
    name: str,
    value: float,
    *,
    unit: str = "",
    min: float | None = None,
    max: float | None = None,
    t: float | None = None,
    error: float | None = 0.0,
    of: str = "",
) -> ResultEntry:
    """Compare a measured value with its inclusive limits; without limits it passes.

    Parameters
    ----------
    name, unit : str
    value, min, max : float
        Value and limits, in that unit.
    t : float, optional
        Session time of the measurement, s.
    error : float, optional
        Estimated error of the value; None: unknown.
    of : str, optional
        Subsystem of the sequence that measured it.
    """
    margins = [value - min] if min is not None else []
    margins += [max - value] if max is not None else []
    limits = f", min {min:g}" if min is not None else ""
    limits += f", max {max:g}" if max is not None else ""
    robustness = None if math.isnan(value) or not margins else sorted(margins)[0]
    outcome = ResultEntry(
        name=name,
        result="passed",
        robustness=robustness,
        error=error,
        t=t,
        text=f"{value:.6g} {unit}".rstrip() + limits,
        value=None if math.isnan(value) else value,
        min=min,
        max=max,
        unit=unit,
        source="measure",
        of=of,
    )
    if math.isnan(value):
        outcome.result, outcome.reason = "inconclusive", "there is no value"
    elif robustness is not None and (error is None or math.isnan(error)):
        outcome.result, outcome.error = "inconclusive", None
        outcome.reason = "the estimated error of the value is unknown"
    elif robustness is not None and error is not None and abs(robustness) < error:
        outcome.result = "inconclusive"
        outcome.reason = "the estimated error of the value is larger than the distance to the limit"
    elif robustness is not None and robustness < 0.0:
        outcome.result = "failed"
        outcome.reason = "the value is beyond its limit"
    return outcome


def outcome_line(outcome: ResultEntry) -> str:
    """Line with an expectation and its outcome."""
    text = outcome.text
    unit = f" {outcome.unit}" if outcome.unit else ""
    if outcome.robustness is not None:
        side = "within" if outcome.robustness >= 0.0 else "beyond"
        text += f": {abs(outcome.robustness):.4g}{unit} {side} the limit"
        if outcome.error:
            text += f" ± {outcome.error:.3g}{unit}"
        if outcome.t is not None:
            text += f", at {outcome.t:.4f} s"
    return f"{text}; {outcome.reason}" if outcome.reason else text


def exit_status(results: Iterable[str]) -> ExitStatus:
    """Exit status: 1 if any result is failed, 4 if any is inconclusive, else 0."""
    words = set(results)
    if "failed" in words:
        return ExitStatus.FAILED
    return ExitStatus.INCONCLUSIVE if "inconclusive" in words else ExitStatus.FINISHED


#: Characters that are invalid in XML 1.0.
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_suite(
    name: str,
    outcomes: Sequence[ResultEntry],
    time_s: float = 0.0,
    fault: str | None = None,
    alarms: Sequence[str] = (),
) -> ET.Element:
    """Create a ``testsuite``: failed outcomes are failures, inconclusive ones and a fault errors.

    Parameters
    ----------
    name : str
        Name of the session or log.
    outcomes : sequence of ResultEntry
    time_s : float, optional
        Session time, s.
    fault : str, optional
        Fault that ended the session.
    alarms : sequence of str, optional
        Raised alarms, one line each; they become properties of the suite.
    """
    count = {word: sum(o.result == word for o in outcomes) for word in ("failed", "inconclusive")}
    suite = ET.Element(
        "testsuite",
        name=_text(name),
        tests=str(len(outcomes)),
        failures=str(count["failed"]),
        errors=str(count["inconclusive"]),
        skipped="0",
        time=f"{time_s:.6f}",
    )
    if alarms:
        properties = ET.SubElement(suite, "properties")
        for line in alarms:
            ET.SubElement(properties, "property", name="alarm", value=_text(line))
    for outcome in outcomes:
        group = f"{name}.{outcome.of}" if outcome.of else name
        case = ET.SubElement(suite, "testcase", classname=_text(group), name=_text(outcome.name))
        begin, end = outcome.since or 0.0, outcome.until or 0.0
        case.set("time", f"{max(0.0, end - begin):.6f}")
        line = outcome_line(outcome)
        if outcome.result == "failed":
            ET.SubElement(case, "failure", message=_text(line), type="failed").text = _text(line)
        elif outcome.result == "inconclusive":
            error = ET.SubElement(case, "error", message=_text(line), type="inconclusive")
            error.text = _text(line)
        else:
            ET.SubElement(case, "system-out").text = _text(line)
    if fault:
        _add_fault(suite, name, fault)
    return suite


def _add_fault(suite: ET.Element, name: str, fault: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=_text(name), name="session")
    ET.SubElement(case, "error", message=_text(fault), type="fault").text = _text(fault)
    for key in ("tests", "errors"):
        suite.set(key, str(int(suite.get(key, "0")) + 1))


def junit_xml(suites: Sequence[ET.Element]) -> bytes:
    """Contents of a JUnit XML file."""
    root = ET.Element("testsuites")
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    text = ET.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def write_junit(path: Path, suites: Sequence[ET.Element]) -> None:
    """Write a JUnit XML file; `ConfigError` if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part, part.open("wb") as file:
            file.write(junit_xml(suites))
    except OSError as error:
        raise ConfigError(f"--junit {path}: cannot be written: {error.strerror}") from None


def _text(text: str) -> str:
    """Text without characters that are invalid in XML."""
    return _INVALID.sub("\ufffd", text)
