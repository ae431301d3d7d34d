"""Import and create a user's solver or test sequence; errors name the remedy."""

from __future__ import annotations

import functools
import inspect
import logging
import math
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hilrt.config.from_toml import nearest, wrong_type
from hilrt.errors import ConfigError
from hilrt.hosting.import_module import describe, import_module
from hilrt.sequences import sequence as sequences
from hilrt.sequences.bench import Setting
from hilrt.solver import Parameter, Port, Solver

log = logging.getLogger("hilrt.solver")

T = TypeVar("T")


def load_solver(target: str, params: Mapping[str, Any], folders: Sequence[Path] = ()) -> Solver:
    """Import a solver's class and create an instance.

    Parameters
    ----------
    target : str
        ``"module:Class"``.
    params : mapping
        Keyword arguments of the class.
    folders : sequence of Path, optional
        Searched first for the module's file, in this order.

    Raises
    ------
    ConfigError
        If there is no such module, class or parameter, or the class is not a `Solver`.
    """
    return make_solver(load_class(target, folders), target, params)


def make_solver(cls: type[Solver], target: str, params: Mapping[str, Any]) -> Solver:
    """Create an instance of a solver's class; parameters and errors as for `load_solver`."""
    solver = make_instance(cls, target, params)
    _check_ports(solver, target)
    return solver


def load_class(target: str, folders: Sequence[Path]) -> type[Solver]:
    """Import the class ``"module:Class"``; parameters and errors as for `load_solver`."""
    module_name, colon, class_name = target.partition(":")
    if not (module_name and colon and class_name):
        raise ConfigError(f"{target!r} is not a solver; write it as module:Class")
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"path: {folder} is not a folder; name the one with the module")
    return _solver_class(import_module(module_name, folders), class_name)


def make_instance(cls: type[T], target: str, params: Mapping[str, Any]) -> T:
    """Instance of a user's class; `ConfigError` if parameters do not fit, or if it raises."""
    problems = wrong_params(cls, target, params)
    if problems:
        raise ConfigError(problems)
    try:
        return cls(**params)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        log.debug("creating %s", target, exc_info=True)
        raise ConfigError(
            f"{target} with the parameters {dict(params)}: {describe(error, cls)}"
        ) from error


def _solver_class(module: Any, name: str) -> type[Solver]:
    found = getattr(module, name, None)
    if isinstance(found, Solver):
        raise ConfigError(
            f"{module.__name__}:{name} is an instance; name its class, {type(found).__name__}, and "
            "give its arguments as params"
        )
    if found is None:
        solvers = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Solver) and value is not Solver
        ]
        raise ConfigError(
            f"module {module.__name__!r} has no solver {name!r}{nearest(name, solvers)}"
        )
    if not isinstance(found, type) or not issubclass(found, Solver):
        raise ConfigError(
            f"{module.__name__}:{name} is not a solver; make it a subclass of hilrt.Solver"
        )
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise ConfigError(f"{module.__name__}:{name} does not implement {missing}; add it")
    return found


def _check_ports(solver: Solver, target: str) -> None:
    inputs, outputs = solver.inputs, solver.outputs
    problems = []
    for kind, ports in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(ports, Sequence) or not all(isinstance(port, Port) for port in ports):
            problems.append(f"{target}: {kind} is {ports!r}; it must be a tuple of hilrt.Port")
            continue
        counts = Counter(port.name for port in ports)
        for name in sorted(name for name, count in counts.items() if count > 1):
            problems.append(f"{target}: {kind} has {name!r} twice; rename one")
    parameters = solver.parameters
    if not isinstance(parameters, Sequence) or not all(
        isinstance(parameter, Parameter) for parameter in parameters
    ):
        problems.append(
            f"{target}: parameters is {parameters!r}; it must consist of hilrt.Parameter"
        )
    if not problems:
        input_names = dict.fromkeys(port.name for port in inputs)
        for port in outputs:
            for name in port.feedthrough:
                if name not in input_names:
                    problems.append(
                        f"{target}: output {port.name!r} feedthrough {name!r}: "
                        f"there is no such input{nearest(name, input_names)}"
                    )
    if problems:
        raise ConfigError(problems)


# Check of parameters against the signature of a user's class.

_NUMBERS = (int, float)


def wrong_params(cls: type, target: str, params: Mapping[str, Any]) -> list[str]:
    """Unknown, missing and unsuitable parameters, one line each.

    Parameters
    ----------
    cls : type
        The solver's class.
    target : str
        ``"module:Class"``, for the messages.
    params : mapping
        Keyword arguments as in the session file.
    """
    parameters = _parameters(cls)
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


@functools.lru_cache(maxsize=64)  # a group calls it for every member
def _parameters(cls: type) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(cls).parameters


@functools.lru_cache(maxsize=64)
def _hints(cls: Any) -> dict[str, Any]:
    """Annotations of the parameters that can be evaluated."""
    try:
        return typing.get_type_hints(cls.__init__, include_extras=True)
    except Exception:  # for example a name imported for type checkers only
        return {}


def _misfit(value: Any, hint: Any, default: Any) -> str:
    """Reason why a value does not fit its parameter's type; empty if it fits or has no type.

    Without an annotation, the default value distinguishes numbers, texts and switches.
    """
    if type(value) is type(default) and value == default:
        return ""
    if hint is not None:
        return _against_hint(value, hint)
    for kind, word in ((bool, "true or false"), (_NUMBERS, "a number"), (str, "a string")):
        if not isinstance(default, kind):
            continue
        other = (str, bool, *_NUMBERS)  # a list may give all elements of an array
        if isinstance(value, other) and not _is(value, kind):
            return f"is not {word}, as its default {default!r} is"
        return ""
    return ""


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; true and false do not count as numbers."""
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
            return _against_hint(int(value), hint)  # 2.0 is accepted as a whole number
        return wrong_type(error)
    except Exception:  # a type that msgspec does not support
        return ""
    return ""


def load_sequence(
    target: str, params: Mapping[str, Any], setting: Setting | None = None
) -> sequences.SequenceStepper:
    """Create a sequence, ready to be stepped.

    Parameters
    ----------
    target : str
        ``"tests/tip_in.py:TipIn"``, a class in a file relative to the folder of the `setting`; or
        ``"module:Class"``, in that folder or installed.
    params : mapping
        Keyword arguments of the class.
    setting : Setting, optional

    Raises
    ------
    ConfigError
        If there is no such file, class or parameter, or the class is not a `Sequence`.
    """
    setting = setting or Setting(Path.cwd())
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise ConfigError(f"{target!r} is not a sequence; write it as FILE.py:Class")
    classes = sequences_of(place, setting.folder)
    if name not in classes:
        raise ConfigError(f"{place} has no sequence {name!r}{nearest(name, classes)}")
    sequence = make_instance(classes[name], target, params)
    return sequences.SequenceStepper(sequence, setting)


def sequences_of(place: str, folder: Path) -> dict[str, type[sequences.Sequence]]:
    """Sequence classes defined in a file or module, in source order."""
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
        and issubclass(value, sequences.Sequence)
        and value.__module__ == module.__name__
    }
