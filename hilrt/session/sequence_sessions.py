"""Sessions whose test sequence is put in from outside: by `hilrt test`, and by pytest."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hilrt.config.session_file import read_session
from hilrt.errors import ConfigError
from hilrt.hosting.load_sequence import sequences_of


def named_sequences(file: Path, only: str | None = None) -> dict[str, Path | None]:
    """Sequences of a file, in its order, and the session file that each names."""
    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file; check the path")
    classes = sequences_of(file.name, file.resolve().parent)
    if only is not None:
        classes = {name: cls for name, cls in classes.items() if name == only}
    if not classes:
        wanted = "" if only is None else f" {only!r}"
        raise ConfigError(f"{file}: has no sequence{wanted}; write a subclass of hilrt.Sequence")
    return {
        name: None if cls.session is None else file.parent / cls.session
        for name, cls in classes.items()
    }


def session_of_sequence(file: Path, name: str, session: Path | None) -> tuple[Path, list[str]]:
    """The session file, and what is to be set in it for the class `name` of `file`."""
    if session is None:
        raise ConfigError(
            f"{file}:{name}: in which session? give --session, or the class an attribute `session`"
        )
    tables = read_session(session).session.tables
    places = [key for key, options in tables.subsystems.items() if options.is_sequence]
    if len(places) != 1:
        raise ConfigError(
            f'{session}: has {len(places)} subsystems with adapter = "sequence"; it needs one, '
            "which is the place for the test, with its connections"
        )
    place = os.path.relpath(file.resolve(), session.resolve().parent)
    return session, [f"subsystems.{places[0]}.sequence={json.dumps(f'{place}:{name}')}"]
