"""Helpers shared by groups of commands."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from hilrt.documentation import in_documentation
from hilrt.errors import (
    CommandRefused,
    ConfigError,
    ExitStatus,
    HilrtError,
    ProtocolError,
    RecordError,
    SessionFault,
    SolverError,
)

if TYPE_CHECKING:
    from hilrt.config.session_file import SessionFile

SessionPath = Annotated[Path, typer.Argument(help="session file (TOML)", metavar="SESSION.toml")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="table.key=value: overrides a key of the session file; repeatable"),
]


def load(session: Path, overrides: list[str]) -> SessionFile:
    """Read the session file, with the overrides applied."""
    from hilrt.config.session_file import load_session

    return load_session(session, overrides)


def bus_arguments(text: str) -> dict[str, Any]:
    """Parse ``key=value,…`` into arguments of python-can's `Bus`."""
    arguments: dict[str, Any] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ConfigError(f"--bus {text}: write it as interface=…,channel=…")
        words: dict[str, Any] = {"true": True, "false": False}
        arguments[key] = words.get(value.lower(), int(value) if value.isdecimal() else value)
    return arguments


def fail(text: str) -> NoReturn:
    """End the command with a message about wrong input."""
    page = in_documentation(page_of(ConfigError(text), sys.argv[1:]))
    typer.echo(f"{text}\nsee {page}", err=True)
    raise typer.Exit(ExitStatus.INPUT)


@contextlib.contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Report which extra to install if an import that `what` needs fails."""
    try:
        yield
    except ImportError as error:
        if str(error.name).startswith("hilrt"):
            raise
        fail(f"{what} needs {error.name}; install hilrt[{extra}]")


# Documentation pages that explain a command, or the error that ended it.

#: Page that is ordered by symptom.
SYMPTOMS: Final = "docs/howto/troubleshooting.md"
#: Page with the keys of the session file.
KEYS: Final = "docs/session.md"

#: Pages, each with the commands and groups of commands that it explains.
PAGES: Final = {
    "docs/own_bench.md": ("new", "solver"),
    KEYS: ("run", "check"),
    "docs/howto/questions.md": ("schema",),
    "docs/doctor.md": ("doctor",),
    "docs/keys.md": ("keys",),
    "docs/monitor.md": ("watch", "monitor"),
    "docs/sequences.md": ("sequence", "test"),
    "docs/can.md": ("gateway", "emulate", "can"),
    "docs/logs.md": ("report", "compare", "runs", "export", "import", "play", "log"),
    "docs/expectations.md": ("expect",),
    "docs/recording.md": ("replay",),
    "docs/studies.md": ("sweep", "tune", "advise"),
    "docs/fmu.md": ("import-ssp", "fmu"),
    "docs/analyze.md": ("analyze",),
}
_PAGE_OF: Final = {name: page for page, names in PAGES.items() for name in names}

#: Pages of errors, independent of the command.
ERRORS: Final[dict[type[HilrtError], str]] = {
    SolverError: "docs/own_bench.md",
    RecordError: "docs/logs.md",
    ProtocolError: "docs/protocol.md",
    CommandRefused: "docs/monitor.md",
    SessionFault: SYMPTOMS,
}


def page_of(error: HilrtError, arguments: Sequence[str]) -> str:
    """Return the page that explains an error: by its kind, otherwise by the command.

    Parameters
    ----------
    error : HilrtError
    arguments : sequence of str
        Arguments of the command line, without the program.
    """
    own = [error.page] if error.page else []
    found = iter([*own, *(page for kind, page in ERRORS.items() if isinstance(error, kind))])
    if "new" in arguments and any(word.startswith("--database") for word in arguments):
        arguments = ("can",)
    return next(found, next((_PAGE_OF[word] for word in arguments if word in _PAGE_OF), SYMPTOMS))


def complete_help(app: typer.Typer) -> None:
    """Append the page to every command's help, and join the lines of its paragraphs."""
    epilogs = {name: f"Explained in {in_documentation(page)}." for name, page in _PAGE_OF.items()}
    for info in app.registered_commands:
        name = info.name or getattr(info.callback, "__name__", "")
        info.help, info.epilog = _paragraphs(info.callback), epilogs.get(str(name))
    for group in app.registered_groups:
        group.epilog = epilogs.get(str(group.name))
        assert group.typer_instance is not None
        for info in group.typer_instance.registered_commands:
            info.help, info.epilog = _paragraphs(info.callback), group.epilog
    app.info.epilog = f"{in_documentation(SYMPTOMS)} is ordered by symptom."


def _paragraphs(function: object) -> str:
    """Return a docstring with one line per paragraph, because help keeps its line breaks."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(function) or "")
