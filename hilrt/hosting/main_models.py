"""Models that are defined in a notebook or a script, ``__main__:Class``, for other processes.

Other processes cannot import ``__main__``: cloudpickle, which Dask needs anyway, carries such
classes by value, with the functions and values that they use.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

from hilrt.errors import ConfigError
from hilrt.hosting.load_solver import load_class

MAIN = "__main__"


def main_classes(tables: Any) -> dict[str, type]:
    """Classes of ``__main__`` that the tables of a session name, by their names."""
    found: dict[str, type] = {}
    for text in _texts(tables):
        module, _, name = text.partition(":")
        if module == MAIN and name:
            found[name] = load_class(text, ())
    return found


def pack(classes: dict[str, type]) -> bytes:
    """Classes as bytes for another process; empty without any."""
    if not classes:
        return b""
    try:
        import cloudpickle
    except ImportError:
        raise ConfigError("a sweep needs cloudpickle; install hilrt[studies]") from None
    packed: bytes = cloudpickle.dumps(classes)
    return packed


def unpack(packed: bytes) -> None:
    """Define classes that another process has packed in this one's ``__main__``."""
    if packed:
        import cloudpickle

        vars(sys.modules[MAIN]).update(cloudpickle.loads(packed))


def digest(classes: dict[str, type]) -> bytes:
    """Digest of the classes' functions and plain values, the same in every process."""
    found = hashlib.sha256()
    for name in sorted(classes):
        for base in classes[name].__mro__:
            if base.__module__ == MAIN:
                for key, value in sorted(vars(base).items()):
                    found.update(f"{base.__qualname__}.{key} {_content(value)}\n".encode())
    return found.digest()


def _content(value: Any) -> str:
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    if isinstance(code, CodeType):
        return repr(_of_code(code))
    text = repr(value)
    return "" if " at 0x" in text else text


def _of_code(code: CodeType) -> tuple[Any, ...]:
    """Content of a function, without its file and line."""
    constants = [
        _of_code(c)
        if isinstance(c, CodeType)
        else sorted(map(repr, c))
        if isinstance(c, frozenset)
        else c
        for c in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, constants


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, (dict, list, tuple)):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from _texts(branch)
