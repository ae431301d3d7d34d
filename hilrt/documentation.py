"""Names of documentation pages in messages: their titles.

The source refers to pages by file. Who reads the built site, or has installed a wheel, has no such
files, but finds a title.
"""

from __future__ import annotations

import re

#: Titles of the pages that messages and schemas name.
TITLES = {
    "docs/adapters.md": "Adapters",
    "docs/analyze.md": "Analysis",
    "docs/can.md": "A bench on CAN",
    "docs/doctor.md": "Is this host fit for real time?",
    "docs/expectations.md": "Expectations",
    "docs/expressions.md": "Expressions",
    "docs/faults.md": "Faults",
    "docs/fmu.md": "FMUs",
    "docs/groups.md": "Groups",
    "docs/howto/questions.md": "Frequent questions",
    "docs/howto/troubleshooting.md": "Troubleshooting",
    "docs/keys.md": "Who may connect",
    "docs/logs.md": "Working with logs",
    "docs/methods.md": "Methods",
    "docs/monitor.md": "Watching and operating a session",
    "docs/moving_adapters.md": "Move an adapter to this version",
    "docs/own_bench.md": "Your own bench",
    "docs/parameters.md": "Parameters while a session runs",
    "docs/protocol.md": "The wire protocol, version 1",
    "docs/recording.md": "Recording",
    "docs/reference/events.md": "Events",
    "docs/reliability.md": "Reliability: flags, causes, verdict",
    "docs/sequences.md": "Test sequences",
    "docs/session.md": "The session file",
    "docs/session_life.md": "The life of a session",
    "docs/stimuli.md": "Stimuli",
    "docs/studies.md": "Sweeps and tuning",
    "docs/summary.md": "summary.json",
    "docs/telemetry.md": "The telemetry stream",
}

_PAGE = re.compile(r"\bdocs/[\w/]+\.md(?:#[\w-]+)?")


def in_documentation(page: str) -> str:
    """Name a page in a message.

    Parameters
    ----------
    page : str
        File of the page, such as ``"docs/groups.md"``.

    Returns
    -------
    str
        ``'"Groups" in the documentation'``.
    """
    return f'"{TITLES[page]}" in the documentation'


def with_titles(text: str) -> str:
    """Replace the files of pages in a text, with their sections, by the pages' titles."""
    return _PAGE.sub(lambda found: in_documentation(found[0].partition("#")[0]), text)
