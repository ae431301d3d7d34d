"""Outcomes as JUnit XML, which every system for continuous integration shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from hilrt.errors import ConfigError
from hilrt.expect.outcome import ResultEntry, outcome_line
from hilrt.files.whole_file import whole_file

#: Characters that no XML 1.0 file may have.
_IMPOSSIBLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_suite(
    name: str, outcomes: Sequence[ResultEntry], time_s: float = 0.0, fault: str | None = None
) -> ET.Element:
    """One ``testsuite``: a failed outcome is a failure, an inconclusive one and a fault an error.

    Parameters
    ----------
    name : str
        Of the session or log.
    outcomes : sequence of ResultEntry
    time_s : float, optional
        Session time, s.
    fault : str, optional
        In which the session ended.
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
    for outcome in outcomes:
        group = f"{name}.{outcome.of}" if outcome.of else name
        case = ET.SubElement(suite, "testcase", classname=_text(group), name=_text(outcome.name))
        begin, end = outcome.since or 0.0, outcome.until or 0.0
        case.set("time", f"{max(0.0, end - begin):.6f}")
        said = outcome_line(outcome)
        if outcome.result == "failed":
            ET.SubElement(case, "failure", message=_text(said), type="failed").text = _text(said)
        elif outcome.result == "inconclusive":
            error = ET.SubElement(case, "error", message=_text(said), type="inconclusive")
            error.text = _text(said)
        else:
            ET.SubElement(case, "system-out").text = _text(said)
    if fault:
        _add_fault(suite, name, fault)
    return suite


def _add_fault(suite: ET.Element, name: str, fault: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=_text(name), name="session")
    ET.SubElement(case, "error", message=_text(fault), type="fault").text = _text(fault)
    for key in ("tests", "errors"):
        suite.set(key, str(int(suite.get(key, "0")) + 1))


def junit_xml(suites: Sequence[ET.Element]) -> bytes:
    """The whole file."""
    root = ET.Element("testsuites")
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    text = ET.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def write_junit(path: Path, suites: Sequence[ET.Element]) -> None:
    """Write the file; `ConfigError` if that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part, part.open("wb") as file:
            file.write(junit_xml(suites))
    except OSError as error:
        raise ConfigError(f"--junit {path}: cannot be written: {error.strerror}") from None


def _text(text: str) -> str:
    """Without what XML cannot hold."""
    return _IMPOSSIBLE.sub("\ufffd", text)
