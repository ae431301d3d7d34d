"""Models defined in a notebook or a script, ``__main__:Class``, for other processes.

Other processes cannot import ``__main__``: cloudpickle, which Dask requires anyway, transfers such
classes by value, with the functions and values that they use.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any, Final

from hilrt.errors import ConfigError
from hilrt.hosting.load_solver import load_class

MAIN = "__main__"
#: Attributes of a function with the default values of its parameters.
DEFAULTS: Final = ("__defaults__", "__kwdefaults__")
#: Attributes of a class that depend on its location in the source, or vary (Python 3.13).
OF_SOURCE: Final = ("__firstlineno__", "__static_attributes__")


def main_classes(tables: Any) -> dict[str, type]:
    """Classes of ``__main__`` that the tables of a session name, by name."""
    found: dict[str, type] = {}
    for text in _texts(tables):
        module, _, name = text.partition(":")
        if module == MAIN and name:
            found[name] = load_class(text, ())
    return found


def pack(classes: dict[str, type]) -> bytes:
    """Classes as bytes for another process; empty without classes."""
    if not classes:
        return b""
    try:
        import cloudpickle
    except ImportError:
        raise ConfigError("a sweep needs cloudpickle; install hilrt[studies]") from None
    packed: bytes = cloudpickle.dumps(classes)
    return packed


def unpack(packed: bytes) -> None:
    """Define packed classes of another process in this one's ``__main__``."""
    if packed:
        import cloudpickle

        vars(sys.modules[MAIN]).update(cloudpickle.loads(packed))


def digest(classes: dict[str, type]) -> bytes:
    """Digest of the classes' functions and plain values, the same in every process.

    Includes functions, classes and plain values of ``__main__`` that they use.
    """
    found = hashlib.sha256()
    waiting: list[tuple[str, Any]] = sorted(classes.items())
    seen: set[str] = set()
    while waiting:
        name, value = waiting.pop()
        if name not in seen:
            seen.add(name)
            content, used = _content(name, value)
            found.update(f"{name} {content}\n".encode())
            waiting += used
    return found.digest()


def _content(name: str, value: Any) -> tuple[str, list[tuple[str, Any]]]:
    """Content of a value, and the named values of ``__main__`` that it uses."""
    if isinstance(value, type):
        bases = [base for base in value.__mro__ if base.__module__ == MAIN]
        parts = [
            (f"{base.__qualname__}.{key}", part)
            for base in bases
            for key, part in sorted(vars(base).items())
            if key not in OF_SOURCE
        ]
        return f"{value.__module__}.{value.__qualname__}", parts
    function = getattr(value, "__func__", getattr(value, "fget", value))
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):
        if function.__module__ != MAIN:
            return f"{function.__module__}.{function.__qualname__}", []
        used = [(f"{name} {key}", getattr(function, key, None)) for key in DEFAULTS]
        main = vars(sys.modules[MAIN])
        return repr(_of_code(code)), used + [(k, main[k]) for k in _globals(code) if k in main]
    text = repr(sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else value)
    return "" if " at 0x" in text or isinstance(value, ModuleType) else text, []


def _globals(code: CodeType) -> list[str]:
    """Names of the global values that a function reads, including nested functions."""
    found = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    inner = [name for c in code.co_consts if isinstance(c, CodeType) for name in _globals(c)]
    return sorted(found.union(inner))


def _of_code(code: CodeType) -> tuple[Any, ...]:
    """Content of a function, independent of its file and line."""
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
