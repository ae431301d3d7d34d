"""Reader of session files into the tables of `hilrt.config.structs`; finds all problems."""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from hilrt.config import registry
from hilrt.config.from_toml import build_partly
from hilrt.config.parse_toml import TomlError, parse_toml, read_toml, toml_value
from hilrt.config.read_values import LISTS, in_words
from hilrt.config.structs import CALCULATED, MAX_STEP_S, Session, SubsystemOptions
from hilrt.errors import ConfigError

#: Stand-ins for faulty required entries, with which the rest of the file can be checked.
_STAND_INS: dict[str, Any] = {
    "session.name": "session",
    "session.duration": MAX_STEP_S,
    "master.step": 1e-3,
}


#: Maximum size, bytes; enough for a generated file with a few thousand subsystems.
MAX_BYTES = 16 << 20


class SessionFile(msgspec.Struct, frozen=True):
    """A session and its origin.

    Attributes
    ----------
    tables : Session
        The typed tables, overrides applied.
    path : Path
        The file; relative paths in it refer to `folder`.
    text : str
        The file as read.
    overrides : tuple of str
        ``table.key=value`` as given.
    """

    tables: Session
    path: Path
    text: str
    overrides: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder that relative paths in the file refer to."""
        return self.path.parent

    @property
    def origin(self) -> dict[str, Any]:
        """Name of the file and overrides, as in ``summary.json``."""
        return {"session_file": self.path.name, "overrides": list(self.overrides)}


def load_session(
    path: str | Path, overrides: Mapping[str, object] | Iterable[str] = ()
) -> SessionFile:
    """Read a session file.

    Parameters
    ----------
    path : str or Path
        The TOML file.
    overrides : mapping, or iterable of str
        Replacement values by ``"table.key"``, such as ``{"session.duration": 10.0}``; or
        ``table.key=value`` items as on a command line, with the value in TOML (a bare word is a
        string).

    Raises
    ------
    ConfigError
        With every problem of the file at once.
    """
    if isinstance(overrides, str):
        raise ConfigError(
            f"overrides = {overrides!r}: is a string; give a mapping, {{'table.key': value}}"
        )
    items = _items(overrides) if isinstance(overrides, Mapping) else overrides
    return _without_problems(read_session(path, items))


def open_session(
    session: str | Path | SessionFile, overrides: Mapping[str, object] | None = None
) -> SessionFile:
    """Load a session from a path, or take a loaded one, and apply overrides.

    Raises
    ------
    ConfigError
        With every problem at once; also if `session` is no session, or the overrides are no
        mapping.
    """
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ConfigError(
            f"overrides = {overrides!r}: is not a mapping; write {{'table.key': value}}, and name "
            "other arguments"
        )
    if isinstance(session, SessionFile):
        return override(session, overrides) if overrides else session
    if isinstance(session, (str, os.PathLike)):
        return load_session(session, overrides or ())
    if hasattr(session, "build"):
        raise ConfigError(f"session = {session!r}: is not built yet; call its build()")
    raise ConfigError(
        f"session = {session!r}: is not a session; give the path of a session file, or a session "
        "from hilrt.load_session"
    )


def override(file: SessionFile, values: Mapping[str, object]) -> SessionFile:
    """Return the session file with other values, without reading the file again.

    Parameters
    ----------
    file : SessionFile
    values : mapping
        Values by ``"table.key"``, such as ``{"connections.0.order": 1}``.

    Raises
    ------
    ConfigError
        With every problem at once.
    """
    return session_of_text(file.path, file.text, (*file.overrides, *_items(values)))


def session_of_text(path: Path, text: str, overrides: Iterable[str]) -> SessionFile:
    """Parse a session from a file's stored text; `ConfigError` with every problem at once."""
    return _without_problems(_read(path, text, pickle.loads(_parsed(text)), tuple(overrides)))


@functools.lru_cache(4)
def _parsed(text: str) -> bytes:
    """Pickled content of a file; sweeps parse the same text many times."""
    return pickle.dumps(parse_toml(text))


def _without_problems(read: PartialSession) -> SessionFile:
    if read.problems:
        name = read.session.path.name
        raise ConfigError([f"{name}: {in_words(problem, read.raw)}" for problem in read.problems])
    return read.session


def _items(values: Mapping[str, object]) -> list[str]:
    return [f"{key}={toml_value(value, key)}" for key, value in values.items()]


class PartialSession(NamedTuple):
    """The part of a session file that could be read, and its problems.

    Attributes
    ----------
    session : SessionFile
        Faulty entries are omitted, or have their default.
    problems : list of str
        One line each; empty for a usable file.
    broken : frozenset of str
        Subsystems that are in the file but not in `session`.
    raw : dict
        The file's content, with overrides applied.
    foreign : dict of str to str
        Adapters that were not imported, by subsystem; all of these are in `broken`.
    """

    session: SessionFile
    problems: list[str]
    broken: frozenset[str]
    raw: dict[str, Any]
    foreign: Mapping[str, str] = MappingProxyType({})


def read_session(
    path: str | Path, overrides: Iterable[str] = (), code: bool = True
) -> PartialSession:
    """Read a session file as far as possible, so that `hilrt check` can check the rest.

    Parameters as for `load_session`; `ConfigError` only if the file is not TOML. Without `code`,
    adapters of other packages are not imported, and their subsystems are omitted.
    """
    path = Path(path).resolve()
    text, raw = read_toml(path, MAX_BYTES)
    return _read(path, text, raw, tuple(overrides), code)


def _read(
    path: Path, text: str, raw: dict[str, Any], overrides: tuple[str, ...], code: bool = True
) -> PartialSession:
    """Build the session of a parsed file with its `overrides`."""
    problems: list[str] = []
    for item in overrides:
        try:
            apply_override(raw, item)
        except ConfigError as error:
            problems += error.problems
    foreign = {} if code else _foreign(raw.get("subsystems"))
    tables = _build_session(raw, problems, foreign)
    kinds = raw.get("subsystems"), raw.get("groups")
    named = frozenset(name for tables_ in kinds if isinstance(tables_, dict) for name in tables_)
    return PartialSession(
        SessionFile(tables, path, text, overrides),
        problems,
        named - tables.subsystems.keys(),
        raw,
        foreign,
    )


def _foreign(subsystems: Any) -> dict[str, str]:
    """Adapters of other packages, by subsystem."""
    tables = subsystems if isinstance(subsystems, dict) else {}
    adapters = {n: table.get("adapter") for n, table in tables.items() if isinstance(table, dict)}
    return {n: a for n, a in adapters.items() if isinstance(a, str) and not registry.is_ours(a)}


def apply_override(raw: dict[str, Any], item: str) -> None:
    """Set ``table.key=value`` in the tables of a file; `ConfigError` if there is no such place."""
    key, equals, text = item.partition("=")
    *parents, last = key.split(".")
    if not equals or not parents:
        raise ConfigError(f"--set {item}: write it as table.key=value")
    table: Any = raw
    if parents[0] in LISTS and parents[0] not in raw:
        raise ConfigError(f"--set {item}: the file has no [[{parents[0]}]] to set a key in")
    for name in parents:
        table = _descend(table, name, item)
    if not isinstance(table, dict):
        raise ConfigError(f"--set {item}: {parents[-1]!r} is not a table; name a key inside it")
    try:
        table[last] = parse_toml(f"value = {text}")["value"]
    except TomlError:
        table[last] = text  # a bare word is a string without quotes


def _descend(table: Any, name: str, item: str) -> Any:
    if isinstance(table, dict):
        return table.setdefault(name, {})
    if isinstance(table, list):  # [[bonds]] by name, [[connections]] by position
        for i, entry in enumerate(table):
            if str(i) == name or (isinstance(entry, dict) and entry.get("name") == name):
                return entry
    raise ConfigError(f"--set {item}: there is no table {name!r} to set a key in")


def _build_session(raw: dict[str, Any], problems: list[str], left_out: Collection[str]) -> Session:
    subsystems = raw.get("subsystems", {})
    built: dict[str, SubsystemOptions] = {}
    if not isinstance(subsystems, dict):
        problems.append(
            f"[subsystems]: is {subsystems!r}; write a [subsystems.NAME] table for each"
        )
    elif not subsystems and not raw.get("groups"):
        problems.append("[subsystems] is empty; add at least one [subsystems.NAME] table")
    else:
        for name, table in subsystems.items():
            if name in left_out:
                continue
            options = _build_subsystem(name, table, problems)
            if options is not None:
                built[name] = options
    _build_groups(raw.get("groups", {}), built, problems)
    plain = {key: table for key, table in raw.items() if key != "groups"}
    session = build_partly(Session, {**plain, "subsystems": {}}, "", problems, _STAND_INS)
    assert session is not None  # since every required table has a stand-in
    session.subsystems = built
    if session.calculated:
        options = registry.link_class(CALCULATED).Options
        built[CALCULATED] = options(adapter=CALCULATED, channels=session.calculated)
    return session


def _build_groups(groups: Any, built: dict[str, SubsystemOptions], problems: list[str]) -> None:
    """Add the groups to the `built` subsystems; each group counts as one subsystem."""
    if not isinstance(groups, dict):
        problems.append(f"[groups]: is {groups!r}; write a [groups.NAME] table for each")
        return
    taken = dict.fromkeys(built, "a subsystem")
    for name, table in groups.items():
        where = f"groups.{name}"
        adapter = table.get("adapter", "inprocess") if isinstance(table, dict) else "inprocess"
        struct = _group_struct(adapter)
        if struct is None:
            able = ", ".join(n for n in registry.names() if _group_struct(n) is not None)
            text = f"does not support groups; choose one of {able}"
            problems.append(f"[{where}] adapter = {adapter!r}: {text}")
            continue
        given = {"prefix": name, **table} if isinstance(table, dict) else table
        options = build_partly(struct, given, where, problems)
        if options is None:
            continue
        wrong = options.problems(where)
        for other in dict.fromkeys([name, *options.member_names]):
            if other in taken:
                text = f"{other!r} is the name of {taken[other]}, too; rename one"
                wrong.append(f"[{where}] members: {text}")
        problems += wrong
        taken |= dict.fromkeys([name, *options.member_names], f"a member of group {name!r}")
        taken[name] = "a group"
        if not wrong:
            built[name] = options


def _group_struct(adapter: Any) -> Any:
    """Struct of a group's table with that adapter; None if the adapter does not support groups."""
    try:
        return registry.link_class(adapter).GroupOptions
    except ConfigError:
        return None


def _build_subsystem(name: str, table: Any, problems: list[str]) -> SubsystemOptions | None:
    where = f"subsystems.{name}"
    if "." in name or ":" in name:
        problems.append(f"[{where}]: a subsystem's name cannot contain '.' or ':'; rename it")
    if CALCULATED in (name, table.get("adapter") if isinstance(table, dict) else None):
        problems.append(
            f"[{where}]: the subsystem {CALCULATED!r} consists of the [[calculated]] channels; "
            "rename yours, and choose another adapter"
        )
        return None
    adapter = table.get("adapter") if isinstance(table, dict) else None
    if not isinstance(adapter, str):
        found = ": is missing" if adapter is None else f" = {adapter!r}: is not a name"
        problems.append(f"[{where}] adapter{found}; choose one of {', '.join(registry.names())}")
        return None
    try:
        link_class = registry.link_class(adapter)
    except ConfigError as error:
        problems.append(f"[{where}] adapter = {adapter!r}: {error}")
        return None
    return build_partly(link_class.Options, table, where, problems)
