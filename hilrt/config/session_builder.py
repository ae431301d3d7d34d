"""Sessions written in Python, table by table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile, session_of_text
from hilrt.errors import ConfigError


class SessionBuilder:
    """Builder of a session without a file.

    Keys and values are those of the session file (docs/session.md); errors in them are reported, as
    for a file, by `build` and by the function that runs the session. Methods that add or set tables
    return the builder.

    Parameters
    ----------
    name : str
        Name of the session.
    duration : float
        Session time, s.
    step : float
        Macro step, s.
    **more
        Further keys of ``[session]``, such as ``pace="asap"``.
    """

    def __init__(self, name: str, *, duration: float, step: float, **more: object) -> None:
        self._tables: dict[str, dict[str, object]] = {
            "session": {"name": name, "duration": duration, **more},
            "master": {"step": step},
        }
        self._lists: dict[str, list[dict[str, object]]] = {}

    def subsystem(self, name: str, adapter: str, **keys: object) -> SessionBuilder:
        """Add ``[subsystems.NAME]``; `ConfigError` if there is one of that name."""
        return self._named("subsystems", name, {"adapter": adapter, **keys})

    def group(
        self, name: str, model: str, members: int | list[str], **keys: object
    ) -> SessionBuilder:
        """Add ``[groups.NAME]``; `ConfigError` if there is one of that name."""
        return self._named("groups", name, {"model": model, "members": members, **keys})

    def connect(self, source: str, target: str, **keys: object) -> SessionBuilder:
        """Add a connection from ``subsystem.output`` to ``subsystem.input``."""
        return self.add("connections", {"from": source, "to": target, **keys})

    def bond(
        self, name: str, effort: str | list[str], flow: str, **correction: object
    ) -> SessionBuilder:
        """Add a power bond; further keys go into its ``correction``."""
        bond: dict[str, object] = {"name": name, "effort": effort, "flow": flow}
        return self.add("bonds", bond | ({"correction": correction} if correction else {}))

    def add(self, table: str, entry: Mapping[str, object]) -> SessionBuilder:
        """Add an entry to a list of tables, such as ``alarms``, ``stimuli`` or ``expect``."""
        self._lists.setdefault(table, []).append(dict(entry))
        return self

    def set(self, table: str, **keys: object) -> SessionBuilder:
        """Set keys of a table, such as ``master`` or ``monitor``; a mapping is a nested table."""
        self._tables.setdefault(table, {}).update(keys)
        return self

    def text(self) -> str:
        """Return the session as the text of a session file."""
        lines = []
        for table, keys in self._tables.items():
            lines.append(f"[{table}]")
            lines += [f"{key} = {toml_value(v, f'{table}.{key}')}" for key, v in keys.items()]
        for table, entries in self._lists.items():
            for i, keys in enumerate(entries):
                lines.append(f"[[{table}]]")
                place = f"{table}.{i}"
                lines += [f"{key} = {toml_value(v, f'{place}.{key}')}" for key, v in keys.items()]
        return "\n".join(lines) + "\n"

    def build(self, folder: str | Path = ".") -> SessionFile:
        """Return the session, like `load_session` for a file.

        Parameters
        ----------
        folder : str or Path
            Folder that relative paths refer to, and in which modules are searched for.

        Raises
        ------
        ConfigError
            With every problem at once.
        """
        return session_of_text(Path(folder).resolve() / "session.toml", self.text(), ())

    def _named(self, kind: str, name: str, keys: dict[str, object]) -> SessionBuilder:
        if not name.isascii() or not name.replace("_", "").replace("-", "").isalnum():
            raise ConfigError(f"{name!r} is not a valid name; use letters, digits, '_' and '-'")
        if f"{kind}.{name}" in self._tables:
            raise ConfigError(f"[{kind}.{name}] already exists; use another name")
        self._tables[f"{kind}.{name}"] = keys
        return self
