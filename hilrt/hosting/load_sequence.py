"""Import a user's test sequence from a file, and make what steps it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.hosting.import_module import import_module
from hilrt.hosting.load_solver import make_instance
from hilrt.sequences.bench import Setting
from hilrt.sequences.sequence import Sequence, SequenceStepper


def load_sequence(
    target: str, params: Mapping[str, Any], setting: Setting | None = None
) -> SequenceStepper:
    """Make a sequence, ready to be stepped.

    Parameters
    ----------
    target : str
        ``"tests/tip_in.py:TipIn"``, a file relative to the folder of the `setting`, and a class in
        it; or ``"module:Class"`` of what is beside it, or installed.
    params : mapping
        Keyword arguments of the class.
    setting : Setting, optional

    Raises
    ------
    ConfigError
        If there is no such file, class or parameter, or the class is no `Sequence`.
    """
    setting = setting or Setting(Path.cwd())
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise ConfigError(f"{target!r} does not name a sequence; write it as FILE.py:Class")
    classes = sequences_of(place, setting.folder)
    if name not in classes:
        raise ConfigError(f"{place} has no sequence {name!r}{nearest(name, classes)}")
    sequence = make_instance(classes[name], target, params)
    return SequenceStepper(sequence, setting)


def sequences_of(place: str, folder: Path) -> dict[str, type[Sequence]]:
    """Classes of sequences that a file or module defines, in the order of its lines."""
    if place.endswith(".py"):
        file = folder / place
        if not file.is_file():
            raise ConfigError(f"there is no file {str(file)!r}; check the path")
        module = import_module(file.stem, [file.parent])
    else:
        module = import_module(place, [folder])
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Sequence)
        and value.__module__ == module.__name__
    }
