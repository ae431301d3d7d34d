"""Snapshots of the step's state: everything it remembers, as bytes, and back.

The state is a tree of dataclasses, named tuples, lists and arrays. A snapshot names every leaf by
the fields that lead to it, so that it can be restored into a newly started state, and so that two
of them can be compared field by field. Constants are left out: frozen dataclasses (the plan's, the
settings') and what `OUTGOING` names. The correction's matrices are large and follow from the
Jacobians in use, so they are made again instead of stored.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from hilrt.coupling import correct_model
from hilrt.coupling.model_corrector import ModelCorrector
from hilrt.errors import RecordError
from hilrt.solver import Floats
from hilrt.step.step_state import StepState

#: What the state only tells others.
OUTGOING = frozenset({("Monitor", "changes")})
#: Beside the fields of the state: whether the model correction's matrices were replaced.
REPLACED = "model_replaced"

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def encode_state(state: StepState, replaced: bool = False) -> bytes:
    """Everything the step remembers.

    Parameters
    ----------
    state : StepState
    replaced : bool
        Whether the matrices of the model correction have been replaced since the start.
    """
    tree = _pack(state)
    tree[REPLACED] = replaced
    return _encoder.encode(tree)


def decode_state(data: bytes) -> dict[str, Any]:
    """The tree in a snapshot, for `differences`; `RecordError` if it is none."""
    try:
        tree = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise RecordError(f"a snapshot of the step's state is damaged: {error}") from None
    if not isinstance(tree, dict):
        raise RecordError("a snapshot of the step's state is damaged: it has no fields")
    return tree


def restore_state(state: StepState, data: bytes) -> None:
    """Bring a newly started `state` of the same session to what `encode_state` was given.

    Raises
    ------
    RecordError
        If the snapshot is damaged or belongs to a state with other fields or sizes.
    """
    tree = decode_state(data)
    replaced = bool(tree.pop(REPLACED, False))
    _unpack(state, tree, _Arrays(state), "state")
    if state.model is not None and replaced:
        renew_plan(state.model)


def renew_plan(model: ModelCorrector) -> None:
    """Make the correction's matrices again from the Jacobians in use, as in the run."""
    gamma = jacobians_in_use(model)
    model.plan = correct_model.build_plan(model.plan.coupling, gamma, model.alpha, start_up=False)


def jacobians_in_use(model: ModelCorrector) -> Floats:
    """Γ of the corrector, shape (order + 1, ny, nu)."""
    return model.gamma if model.learned is None else model.learned.gamma


def differences(recorded: bytes, recomputed: bytes) -> list[str]:
    """Names of the fields in which two snapshots differ, bit for bit."""
    return list(_compare(decode_state(recorded), decode_state(recomputed), ""))


def _compare(a: Any, b: Any, path: str) -> list[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [*a, *(key for key in b if key not in a)]
        return [
            found
            for key in keys
            for found in _compare(a.get(key), b.get(key), f"{path}.{key}" if path else key)
        ]
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return []
    return [] if a == b else [path]


# -- to bytes ------------------------------------------------------------------------------------


def _pack(value: Any) -> Any:
    """Arrays as (type, shape, bytes), objects as their fields by name; constants are left out."""
    if isinstance(value, np.ndarray):
        # Products of matrices round otherwise where the columns stand together in memory.
        order = "F" if np.isfortran(value) else "C"
        return (value.dtype.str, value.shape, order, value.tobytes("A"))
    if isinstance(value, (list, tuple)):
        return [_pack(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if dataclasses.is_dataclass(value):
        packed = {}
        for name in _fields(value):
            item = getattr(value, name)
            if not _left_out(item):
                packed[name] = _pack(item)
        return packed
    return value


def _left_out(value: Any) -> bool:
    """Constants, and dictionaries: they hold views of what is packed under its own name."""
    return isinstance(value, dict) or _constant(value)


def _fields(value: Any) -> tuple[str, ...]:
    kind: Any = value.__class__
    return _fields_of(kind)


@functools.cache
def _fields_of(kind: Any) -> tuple[str, ...]:
    names = (field.name for field in dataclasses.fields(kind))
    return tuple(name for name in names if (kind.__name__, name) not in OUTGOING)


def _constant(value: Any) -> bool:
    parameters = getattr(value, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


# -- and back ------------------------------------------------------------------------------------


class _Arrays:
    """New arrays for those of a state that has just been started.

    A new state shares arrays with the plan and among its fields (one array of zeros stands for
    several), so none of them may be written to. Where fields are views of one array on purpose,
    they are views of one new array again.
    """

    def __init__(self, state: Any) -> None:
        self._new: dict[int, NDArray[Any]] = {}
        views: set[int] = set()
        _find_bases(state, views)
        self._viewed = views

    def renew(self, old: NDArray[Any], order: Literal["C", "F"] = "C") -> NDArray[Any]:
        base = old.base
        if isinstance(base, np.ndarray) and id(base) in self._viewed:
            new = self._copy(base)
            offset = old.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            return np.ndarray(old.shape, old.dtype, new.data, offset, old.strides)
        return self._copy(old) if id(old) in self._viewed else old.copy(order)

    def _copy(self, base: NDArray[Any]) -> NDArray[Any]:
        return self._new.setdefault(id(base), base.copy(order="K"))


def _find_bases(value: Any, found: set[int]) -> None:
    """Ids of the arrays that others of the state are views of."""
    if isinstance(value, np.ndarray):
        if isinstance(value.base, np.ndarray):
            found.add(id(value.base))
    elif isinstance(value, dict):
        for item in value.values():
            _find_bases(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _find_bases(item, found)
    elif dataclasses.is_dataclass(value) and not _constant(value):
        for name in _fields(value):
            _find_bases(getattr(value, name), found)


def _unpack(old: Any, data: Any, arrays: _Arrays, path: str) -> Any:
    """The value for `data`, like `old` in everything else; objects are changed in place."""
    try:
        if isinstance(old, np.ndarray):
            return _array(old, data, arrays)
        if isinstance(old, (list, tuple)):
            items = [
                _unpack(was, item, arrays, f"{path}[{i}]")
                for i, (was, item) in enumerate(zip(old, data, strict=True))
            ]
            return type(old)(*items) if hasattr(old, "_fields") else type(old)(items)
        if dataclasses.is_dataclass(old):
            for name in _fields(old):
                was = getattr(old, name)
                if isinstance(was, dict):
                    views = {key: arrays.renew(item) for key, item in was.items()}
                    setattr(old, name, views)
                elif not _constant(was):
                    setattr(old, name, _unpack(was, data[name], arrays, f"{path}.{name}"))
            return old
        if isinstance(data, (dict, list)):
            raise ValueError("is there in the snapshot alone")
        return data
    except RecordError:
        raise
    except (TypeError, ValueError, LookupError) as error:
        raise RecordError(
            f"the snapshot does not fit this session's state at {path}: {error}; if the log was "
            "recorded by another version, replay it from its start"
        ) from None


def _array(old: NDArray[Any], data: Any, arrays: _Arrays) -> NDArray[Any]:
    kind, shape, order, raw = data
    values = np.frombuffer(raw, np.dtype(kind)).reshape(shape, order=order)
    if values.shape != old.shape:
        if old.size:
            raise ValueError(f"has the shape {values.shape}, not {old.shape}")
        return values.copy("K")
    new = arrays.renew(old, order)
    new[...] = values
    return new
