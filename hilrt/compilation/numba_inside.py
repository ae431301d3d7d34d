"""Everything that relies on undocumented parts of numba: tables as one pointer, stored code.

numba passes a namedtuple of tables as 60 arrays of seven numbers each. `Tables` passes one pointer
instead, to a block with the address and the shape of each array; ``plan.bonds`` in compiled code
loads an ordinary array from it. `Tables` keeps references to the arrays, so that their addresses
remain valid.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import typeof, types
from numba.core import caching, cgutils
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

#: These have no type declarations.
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
_caching: Any = caching


class TablesType(types.Type):
    """numba's type of a namedtuple of tables.

    Attributes
    ----------
    fields : dict
        numba type of each field and the index of its first word in the block, by name.
    """

    def __init__(self, name: str, fields: tuple[tuple[str, Any, int], ...]) -> None:
        self.fields = {field: (kind, word) for field, kind, word in fields}
        inside = ",".join(f"{field}:{kind}" for field, kind, _ in fields)
        _types.Type.__init__(self, name=f"Tables({name},{inside})")


class Tables:
    """A namedtuple of tables, arrays and nested namedtuples, for compiled code.

    Raises
    ------
    TypeError
        If a field is neither a C-contiguous, aligned array nor a namedtuple of such arrays.

    Attributes
    ----------
    tables : namedtuple
    type : TablesType
    address : int
        Address of the block.
    """

    def __init__(self, tables: Any) -> None:
        self.tables = tables
        self.type, words = _layout(tables, type(tables).__name__)
        self._words = np.array(words, np.int64)
        self._words.flags.writeable = False  # compiled code may read it at any time
        self.address = self._words.ctypes.data


def _layout(tables: Any, name: str) -> tuple[TablesType, list[int]]:
    """Type and words of a namedtuple; `name` is its path."""
    fields: list[tuple[str, Any, int]] = []
    words: list[int] = []
    for field, value in zip(tables._fields, tables, strict=True):
        where = f"{name}.{field}"
        if isinstance(value, tuple):
            kind, part = _layout(value, where)
        elif not isinstance(value, np.ndarray):
            raise TypeError(f"{where} is not a table but a {type(value).__name__}")
        elif not (value.flags.c_contiguous and value.flags.aligned):
            raise TypeError(f"{where} is not contiguous in memory, as compiled code requires")
        else:
            kind = _array_type(value.dtype, value.ndim)
            part = [value.ctypes.data, *value.shape]
        fields.append((field, kind, len(words)))
        words += part
    return _tables_type(type(tables).__name__, tuple(fields)), words


# numba takes 0.3 ms to determine the type of a record, and all sessions have the same types: the
# second session of a process takes 1 ms instead of 15.


@functools.cache
def _array_type(dtype: np.dtype[Any], dimensions: int) -> Any:
    return _Array(_typeof(np.empty((0,) * dimensions, dtype)).dtype, dimensions, "C")


@functools.cache
def _tables_type(name: str, fields: tuple[tuple[str, Any, int], ...]) -> TablesType:
    return TablesType(name, fields)


def difference(kind: Any, other: Any, name: str = "") -> str:
    """First field in which two types of arguments differ, as text."""
    if isinstance(kind, TablesType) and isinstance(other, TablesType):
        if kind.fields.keys() != other.fields.keys():
            return f"{name or 'a namedtuple'} has different fields"
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
    """Load an array from the block, or return a pointer to the block of a nested namedtuple."""
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


# Compiled functions, and their storage between starts.


def jit(function: Callable[..., Any], cache: Any | None, *, forceinline: bool) -> Any:
    """Dispatcher of a function without reference counting, with this cache or none."""
    options = {"_nrt": False, "no_cfunc_wrapper": True, "forceinline": forceinline}
    njit: Any = numba.njit
    dispatcher = njit(error_model="numpy", **options)(function)
    # Same effect as `cache=True`, but errors of the cache are tolerated.
    dispatcher._cache = _caching.NullCache() if cache is None else cache
    return dispatcher


def code_for(dispatcher: Any, signature: tuple[Any, ...]) -> Callable[..., Any]:
    """Compile for these types, or load stored code; return the code without its dispatcher."""
    dispatcher.compile(signature)
    return cast(Callable[..., Any], dispatcher.get_overload(signature))


def is_cached(dispatcher: Any, signature: Any) -> bool:
    """Whether the dispatcher's cache has code for these types; True without a cache."""
    contains = getattr(dispatcher._cache, "contains", None)
    return contains is None or bool(contains(signature, dispatcher.targetctx))


def cache_in_folder(function: Callable[..., Any], say: Callable[[str], None]) -> Any:
    """Cache of one function in `numba.config.CACHE_DIR`; `RuntimeError` if that is not writable."""
    made: Callable[..., Any] = TolerantCache
    return made(function, say)


class _InOurFolder(caching.CompileResultCacheImpl):
    """numba's implementation, restricted to our folder even if that is not writable."""

    _locator_classes = caching.CompileResultCacheImpl._locator_classes[:1]


class _UniqueNames(caching.IndexDataCacheFile):
    """Files of one function with unique names, so that processes do not overwrite each other's.

    numba takes the next number from the index that it has read. Two processes that compile a
    function for different types at the same time would choose the same number: the index of one
    then refers to the code of the other. With unique names, at worst an entry is missing and
    compiled again.
    """

    def _data_name(self, number: int) -> str:
        names: Any = super()
        return cast(str, names._data_name(uuid.uuid4().int >> 64))


class TolerantCache(caching.FunctionCache):
    """numba's cache of one function; unreadable or unwritable entries are compiled again.

    `say` is called with failures, as text.
    """

    _impl_class = _InOurFolder

    def __init__(self, function: Callable[..., Any], say: Callable[[str], None]) -> None:
        _caching.FunctionCache.__init__(self, function)
        own: Any = self
        self._say = say
        files: Any = _UniqueNames
        stamp = own._impl.locator.get_source_stamp()
        own._cache_file = files(own._cache_path, own._impl.filename_base, stamp)

    def contains(self, signature: Any, target_context: Any) -> bool:
        """Whether there is an entry for these types."""
        own: Any = self
        key = own._index_key(signature, target_context.codegen())
        try:
            return key in own._cache_file._load_index()
        except Exception:  # as in `load_overload`, which reports it
            return False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Compiled code of a signature, or None."""
        try:
            return _caching.FunctionCache.load_overload(self, sig, target_context)
        except Exception as error:  # a truncated file may raise anything
            self._say(f"compiled code in {self.cache_path} is unreadable ({error}): recompiling")
            with contextlib.suppress(OSError):
                _caching.FunctionCache.flush(self)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code, if there is room."""
        try:
            _caching.FunctionCache.save_overload(self, sig, data)
        except OSError as error:
            self._say(
                f"compiled code cannot be stored in {self.cache_path} ({error.strerror}): every "
                "start will take longer; free some space there, or set XDG_CACHE_HOME"
            )
