"""Objects of arrays lent to compiled loops: a kernel sees their attributes by the same names.

Handed over as a tuple, each array would be unpacked at every call, and every function that the
tuple goes through would copy some thousand machine words of it. So a loan is a table of words:
where an array begins in memory and how long it is in each direction, or a number itself; an
attribute of an attribute stands in the same table, further on. To a kernel it is one pointer.

An array is lent as it is, and stays where it is for as long as the owner keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    lower_setattr_generic,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

#: What is lent of an object: names of attributes, with the same of those that are objects again.
Layout = dict[str, Any]

#: Elements of arrays, as numpy describes them and as numba does.
_TYPES = {
    np.dtype(kind).str: from_dtype(np.dtype(kind)) for kind in (np.float64, np.int64, np.bool_)
}


class LentType(types.Type):
    """Type of a loan, for numba: name, word and type of every attribute."""

    def __init__(self, fields: tuple[tuple[str, int, Any], ...]) -> None:
        self.fields = fields
        self.places = {name: (word, kind) for name, word, kind in fields}
        super().__init__(f"Lent{fields}")


class Lent:
    """An object's attributes as a kernel gets them.

    Parameters
    ----------
    owner : object
    layout : dict
        Arrays (contiguous), numbers and truth values; a dict again for what is an object.

    Raises
    ------
    ValueError
        For an array that is not contiguous, or that has become one of another kind: a kernel would
        read and write where nothing of it is.
    """

    def __init__(self, owner: Any, layout: Layout) -> None:
        self._owner = owner
        fields, n = _fields(owner, layout)
        self.type = LentType(fields)
        self.words = np.zeros(n, dtype=np.int64)
        self.address = self.words.ctypes.data
        self.renew()

    def number(self, name: str) -> float:
        """What a kernel has made of a number."""
        word, kind = self.type.places[name]
        seen = self.words.view(np.float64) if kind == types.float64 else self.words
        return float(seen[word])

    def renew(self) -> None:
        """Lend what the attributes are now: some are given new arrays and numbers at times."""
        self.words[:] = list(_words(self._owner, self.type))


def _fields(owner: Any, layout: Layout) -> tuple[tuple[tuple[str, int, Any], ...], int]:
    """Attributes with their first words and types, and how many words they are."""
    fields: list[tuple[str, int, Any]] = []
    word = 0
    for name, inner in layout.items():
        value, size = getattr(owner, name), 1
        if inner is not None:
            places, size = _fields(value, inner)
            kind: Any = LentType(places)
        elif isinstance(value, np.ndarray):
            kind, size = types.Array(from_dtype(value.dtype), value.ndim, "C"), 1 + value.ndim
        else:
            kind = types.boolean if isinstance(value, bool) else numba.typeof(value)
        fields.append((name, word, kind))
        word += size
    return tuple(fields), word


def _words(owner: Any, lent: LentType) -> Iterator[int]:
    for name, _, kind in lent.fields:
        value = getattr(owner, name)
        if isinstance(kind, LentType):
            yield from _words(value, kind)
        elif isinstance(kind, types.Array):
            here = value.__array_interface__  # the quickest way to all that is to be known
            same = _TYPES.get(here["typestr"]) == kind.dtype and len(here["shape"]) == kind.ndim
            if here["strides"] is not None or not same:
                raise ValueError(f"{name!r} is not contiguous, or no longer of {kind.dtype}")
            yield here["data"][0]
            yield from here["shape"]
        elif kind == types.float64:
            yield int(np.float64(value).view(np.int64))
        else:
            yield int(value)


@typeof_impl.register(Lent)
def _type_of(value: Lent, _context: Any) -> LentType:
    return value.type


@register_model(LentType)
class _Model(models.PrimitiveModel):
    """A pointer to the words."""

    def __init__(self, manager: Any, kind: LentType) -> None:
        super().__init__(manager, kind, cgutils.intp_t.as_pointer())


@unbox(LentType)
def _unbox(_kind: LentType, value: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(value, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.bitcast(pointer, cgutils.intp_t.as_pointer()))


@infer_getattr
class _Attributes(AttributeTemplate):
    key = LentType

    def generic_resolve(self, value: LentType, attr: str) -> Any:  # type: ignore[override]
        return value.places[attr][1] if attr in value.places else None


@lower_getattr_generic(LentType)
def _get(context: Any, builder: Any, kind: LentType, words: Any, name: str) -> Any:
    first, wanted = kind.places[name]
    here = builder.gep(words, [cgutils.intp_t(first)])
    if isinstance(wanted, LentType):
        return here
    if not isinstance(wanted, types.Array):
        value = builder.load(here)
        if wanted == types.float64:
            return builder.bitcast(value, context.get_value_type(wanted))
        if wanted == types.boolean:
            return builder.trunc(value, context.get_value_type(wanted))
        return value
    array = make_array(wanted)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(wanted.dtype))
    shape = [
        builder.load(builder.gep(here, [cgutils.intp_t(1 + axis)])) for axis in range(wanted.ndim)
    ]
    strides: list[Any] = []
    stride = cgutils.intp_t(size)
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    populate_array(
        array,
        data=builder.inttoptr(builder.load(here), array.data.type),
        shape=cgutils.pack_array(builder, shape, cgutils.intp_t),
        strides=cgutils.pack_array(builder, strides, cgutils.intp_t),
        itemsize=cgutils.intp_t(size),
        meminfo=None,
    )
    return array._getvalue()


@lower_setattr_generic(LentType)
def _set(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    words, value = arguments
    kind = signature.args[0]
    first, wanted = kind.places[name]
    if wanted == types.float64:
        value = builder.bitcast(value, cgutils.intp_t)
    elif wanted == types.boolean:
        value = builder.zext(value, cgutils.intp_t)
    builder.store(value, builder.gep(words, [cgutils.intp_t(first)]))
