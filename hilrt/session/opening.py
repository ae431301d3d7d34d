"""The first stages of every session: read, describe, connect.

Each stage takes the result of the previous one as an immutable value, and returns its own. These
stages do not import the numerics; `initialize` and `assemble` follow (`hilrt.session.assembly`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hilrt.check.check import check
from hilrt.config import registry
from hilrt.config.session_file import SessionFile, open_session
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.errors import ConfigError, HilrtError
from hilrt.link import Carrier, Command, Link, SessionContext

#: Time beyond `master.connect_timeout` after which a subsystem without its own timeout fails, s.
SPARE_S = 1.0


class Described(NamedTuple):
    """A session whose subsystems have links that are not yet open.

    Attributes
    ----------
    file : SessionFile
    links : tuple of Link
    commands : tuple of sequences of Command
        Commands of the processes that each link needs.
    """

    file: SessionFile
    links: tuple[Link, ...]
    commands: tuple[Sequence[Command], ...]


class Connected(NamedTuple):
    """A session with connected subsystems; it ends after `duration` [s]."""

    file: SessionFile
    links: tuple[Link, ...]
    duration: float

    @classmethod
    def of(cls, links: Sequence[Link], tables: Session, folder: Path = Path()) -> Connected:
        """Create a session from open links, without a session file."""
        file = SessionFile(tables, folder / "session.toml", "")
        return cls(file, tuple(links), tables.session.duration)


def read(
    session: str | Path | SessionFile,
    overrides: Mapping[str, object] | None = None,
    pace: str | float | None = None,
) -> SessionFile:
    """Read and check a session file, with `pace` instead of its own.

    Raises
    ------
    ConfigError
        With all errors that `hilrt check` finds.
    """
    file = open_session(session, overrides)
    problems = [str(p) for p in check(file, pace, here=True) if p.level == "error"]
    if problems:
        raise ConfigError(problems)
    return file


def describe(
    file: SessionFile,
    *,
    called: bool = False,
    carrier: Carrier | None = None,
    operated: bool = False,
) -> Described:
    """Create the links of a session.

    Parameters
    ----------
    file : SessionFile
        Result of `read`.
    called : bool
        Run all subsystems that permit it in this process.
    carrier : Carrier, optional
        Transport to which remote peers connect.
    operated : bool
        Whether an operator can answer prompts.
    """
    made: list[Link] = []
    for name, options in file.tables.subsystems.items():
        kind: type[Link] = registry.link_class(options.adapter)
        made.append((called_link(options) if called else kind)(name, options, file.folder))
    context = SessionContext(file, carrier, operated)
    return Described(file, tuple(made), tuple(link.prepare(context) for link in made))


def called_link(options: SubsystemOptions) -> type[Link]:
    """Link class that runs a table's subsystem in this process, if there is one."""
    link: type[Link] = registry.link_class(options.adapter)
    return link.called or link


def elsewhere(file: SessionFile) -> list[str]:
    """Problems: subsystems that cannot run in this process."""
    return [
        f"[subsystems.{name}] adapter = {options.adapter!r}: does not run in this process; "
        "only solvers and FMUs that do can be simulated, use `hilrt run` for the others"
        for name, options in file.tables.subsystems.items()
        if (link := called_link(options)).physical or link.remote
    ]


async def connect(
    described: Described,
    *,
    limited: bool,
    duration: float | None = None,
    beside: Mapping[str, Awaitable[None]] | None = None,
    on_wait: Callable[[Sequence[str]], None] = lambda names: None,
) -> Connected:
    """Open all links concurrently; the first error cancels the others and is raised.

    Parameters
    ----------
    described : Described
    limited : bool
        Whether `master.connect_timeout` applies to each.
    duration : float, optional
        Session time instead of the file's, s.
    beside : mapping of awaitables, optional
        Further awaitables by readable names, without a deadline.
    on_wait : callable, optional
        Called with the names still awaited, whenever these change.
    """
    file, links, _ = described
    limit = file.tables.master.connect_timeout + SPARE_S if limited else None
    others = dict(beside or {})
    waits = {link.name: link.open() for link in links} | others
    left = list(waits)

    async def noted(name: str, awaitable: Awaitable[None]) -> None:
        async with asyncio.timeout(None if name in others else limit):
            await awaitable
        left.remove(name)
        if left:
            on_wait(left)

    on_wait(left)
    await _all([noted(name, awaitable) for name, awaitable in waits.items()])
    duration = duration or file.tables.session.duration
    return Connected(file, links, min([duration, *(link.ends for link in links)]))


async def _all(awaitables: Iterable[Awaitable[None]]) -> None:
    """Await all; the first error cancels the rest and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for awaitable in awaitables:
                group.create_task(_awaited(awaitable))
    except* (HilrtError, OSError) as errors:
        raise errors.exceptions[0] from None


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
