"""Mypy plugin: columns of tables are the fields of their rows (`hilrt.tables.record`)."""

from collections.abc import Callable
from typing import Any

from mypy.nodes import StrExpr
from mypy.plugin import MethodContext, MethodSigContext, Plugin
from mypy.types import FunctionLike, Instance, Type, get_proper_type

TABLE = "hilrt.tables.record.RowTable"


class ColumnNames(Plugin):
    """Checks ``table["name"]``, read or written."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _column if fullname == f"{TABLE}.__getitem__" else None

    def get_method_signature_hook(
        self, fullname: str
    ) -> Callable[[MethodSigContext], FunctionLike] | None:
        return _assigned if fullname == f"{TABLE}.__setitem__" else None


def _column(context: MethodContext) -> Type:
    _check(context, context.args[0])
    return context.default_return_type


def _assigned(context: MethodSigContext) -> FunctionLike:
    _check(context, context.args[0])
    return context.default_signature


def _check(context: Any, keys: Any) -> None:
    table = get_proper_type(context.type)
    row = get_proper_type(table.args[0]) if isinstance(table, Instance) and table.args else None
    if isinstance(row, Instance) and isinstance(keys[0], StrExpr):
        name = keys[0].value
        if name not in row.type.names:
            context.api.fail(f'"{row.type.name}" has no field "{name}"', context.context)


def plugin(version: str) -> type[Plugin]:
    return ColumnNames
