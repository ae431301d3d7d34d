"""A namedtuple of tables as one pointer in compiled code. What numba does not document is here.

numba passes a namedtuple of tables as 60 arrays of seven numbers each. `Tables` passes the address
of a block of words instead, address and number of rows of each array in turn, and ``plan.bonds`` in
compiled code loads an ordinary array from it. The block refers to arrays; they must stay where they
are, which `Tables` ensures by keeping them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import typeof, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array, populate_array

Lowering = Callable[..., Any]
_type_impl: Callable[..., Callable[[Lowering], Lowering]] = typeof_impl.register

#: They declare no types.
_Array: Any = types.Array
_typeof: Any = typeof
_register_model: Any = register_model
_unbox: Callable[..., Callable[[Lowering], Lowering]] = unbox
_lower: Callable[..., Callable[[Lowering], Lowering]] = lower_getattr_generic
_infer: Any = infer_getattr
_make_array: Any = make_array
_populate: Any = populate_array
_tools: Any = cgutils
_types: Any = types
_model: Any = models.PrimitiveModel


class TablesType(types.Type):
    """numba's type of a namedtuple of tables.

    Attributes
    ----------
    fields : dict
        Name to the field's numba type and the word at which it begins.
    """

    def __init__(self, name: str, fields: tuple[tuple[str, Any, int], ...]) -> None:
        self.fields = {field: (kind, word) for field, kind, word in fields}
        inside = ",".join(f"{field}:{kind}" for field, kind, _ in fields)
        _types.Type.__init__(self, name=f"Tables({name},{inside})")


class Tables:
    """A namedtuple of tables, arrays and further such namedtuples, for compiled code.

    Raises
    ------
    TypeError
        If a field is neither an array, C-contiguous and aligned, nor a namedtuple of these.

    Attributes
    ----------
    tables : namedtuple
    type : TablesType
    address : int
        Of the block.
    """

    def __init__(self, tables: Any) -> None:
        self.tables = tables
        self.type, words = _layout(tables, type(tables).__name__)
        self._words = np.array(words, np.int64)
        self._words.flags.writeable = False  # compiled code may read it at any time
        self.address = self._words.ctypes.data


def _layout(tables: Any, name: str) -> tuple[TablesType, list[int]]:
    """Type and words of a namedtuple; `name` says where it stands."""
    fields: list[tuple[str, Any, int]] = []
    words: list[int] = []
    for field, value in zip(tables._fields, tables, strict=True):
        where = f"{name}.{field}"
        if isinstance(value, tuple):
            kind, part = _layout(value, where)
        elif not isinstance(value, np.ndarray):
            raise TypeError(f"{where} is no table but a {type(value).__name__}")
        elif not (value.flags.c_contiguous and value.flags.aligned):
            raise TypeError(f"{where} is not contiguous in memory; compiled code needs it to be")
        else:
            kind = _array_type(value.dtype, value.ndim)
            part = [value.ctypes.data, *value.shape]
        fields.append((field, kind, len(words)))
        words += part
    return _tables_type(type(tables).__name__, tuple(fields)), words


# numba takes 0.3 ms to find the type of a record, and sessions have the same types: the second one
# in a process takes 1 ms in the place of 15.


@functools.cache
def _array_type(dtype: np.dtype[Any], dimensions: int) -> Any:
    return _Array(_typeof(np.empty((0,) * dimensions, dtype)).dtype, dimensions, "C")


@functools.cache
def _tables_type(name: str, fields: tuple[tuple[str, Any, int], ...]) -> TablesType:
    return TablesType(name, fields)


def difference(kind: Any, other: Any, name: str = "") -> str:
    """First field in which two types of arguments differ, in words."""
    if isinstance(kind, TablesType) and isinstance(other, TablesType):
        if kind.fields.keys() != other.fields.keys():
            return f"{name or 'a namedtuple'} has other fields"
        for field, (mine, _) in kind.fields.items():
            if mine != other.fields[field][0]:
                return difference(mine, other.fields[field][0], f"{name}.{field}".lstrip("."))
    return f"{name or 'a table'} is {kind} instead of {other}"


@_type_impl(Tables)
def _type_of(value: Tables, context: Any) -> TablesType:
    return value.type


@_register_model(TablesType)
class _Pointer(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        _model.__init__(self, manager, kind, ir.IntType(64).as_pointer())


@_unbox(TablesType)
def _address_of(kind: Any, value: Any, c: Any) -> Any:
    found = c.pyapi.object_getattr_string(value, "address")
    number = c.pyapi.long_as_longlong(found)
    c.pyapi.decref(found)
    native: Any = NativeValue
    return native(c.builder.inttoptr(number, c.context.get_value_type(kind)))


@_infer
class _Fields(AttributeTemplate):
    key = TablesType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return kind.fields[name][0] if name in kind.fields else None


@_lower(TablesType)
def _field(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    """Load an array from the block, or point at the block of a namedtuple within."""
    found, word = kind.fields[name]
    integer = context.get_value_type(_types.intp)
    begin = builder.gep(value, [integer(word)])
    if isinstance(found, TablesType):
        return begin

    def load(k: int) -> Any:
        loaded = builder.load(builder.gep(begin, [integer(k)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    array = _make_array(found)(context, builder)
    element = context.get_data_type(found.dtype)
    shape = [load(1 + k) for k in range(found.ndim)]
    itemsize = integer(context.get_abi_sizeof(element))
    strides: list[Any] = []
    stride = itemsize
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    _populate(
        array,
        data=builder.inttoptr(load(0), element.as_pointer()),
        shape=_tools.pack_array(builder, shape),
        strides=_tools.pack_array(builder, strides),
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()
