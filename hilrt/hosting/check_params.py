"""Parameters of a user's solver against the signature of its class."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from hilrt.config.from_toml import nearest, wrong_type

_NUMBERS = (int, float)


def wrong_params(cls: type, target: str, params: Mapping[str, Any]) -> list[str]:
    """Unknown, missing and unfit parameters, one line each.

    Parameters
    ----------
    cls : type
        The solver's class.
    target : str
        ``"module:Class"``, for the messages.
    params : mapping
        Keyword arguments as the session file has them.
    """
    parameters = inspect.signature(cls).parameters
    known = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    problems = []
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for name in params:
            if name not in known:
                problems.append(f"{target}: unknown parameter {name!r}{nearest(name, known)}")
    hints = _hints(cls)
    for name, parameter in known.items():
        if name in params:
            reason = _misfit(params[name], hints.get(name), parameter.default)
            if reason:
                problems.append(f"params.{name} = {params[name]!r}: {reason}")
        elif parameter.default is parameter.empty:
            problems.append(f"{target}: parameter {name!r} is missing; give it")
    return problems


def _hints(cls: Any) -> dict[str, Any]:
    """Annotations of the parameters, as far as they can be evaluated."""
    try:
        return typing.get_type_hints(cls.__init__, include_extras=True)
    except Exception:  # a name that is imported for type checkers alone, for example
        return {}


def _misfit(value: Any, hint: Any, default: Any) -> str:
    """Why a value is of another type than the parameter; empty where it fits, or none is known.

    Without an annotation, the type of the default tells numbers, texts and switches apart.
    """
    if type(value) is type(default) and value == default:
        return ""
    if hint is not None:
        return _against_hint(value, hint)
    for kind, word in ((bool, "true or false"), (_NUMBERS, "a number"), (str, "a string")):
        if not isinstance(default, kind):
            continue
        other = (str, bool, *_NUMBERS)  # a list may be meant for all elements of an array
        if isinstance(value, other) and not _is(value, kind):
            return f"is not {word}, as its default {default!r} is"
        return ""
    return ""


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; true and false are no numbers."""
    return kind is bool if isinstance(value, bool) else isinstance(value, kind)


class _Unknown(Exception):
    """A type that cannot be checked."""


def _unknown(kind: type, value: Any) -> Any:
    raise _Unknown


def _against_hint(value: Any, hint: Any) -> str:
    try:
        msgspec.convert(value, hint, dec_hook=_unknown)
    except msgspec.ValidationError as error:
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            return _against_hint(int(value), hint)  # 2.0 for a whole number
        return wrong_type(error)
    except Exception:  # a type that msgspec does not know, or cannot take
        return ""
    return ""
