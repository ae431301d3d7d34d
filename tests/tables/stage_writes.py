"""What the stages write, read from their source: for each field of a state, the stages in order.

A function's parameters say what tables and rows they are; from there, assignments are followed
through names, indices and calls. What a stage's helper writes is the stage's.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from hilrt.step import macro_step as order
from hilrt.tables.record import TableRow

#: A row's class and a field.
Field = tuple[str, str]
#: Type of an expression: names of row classes, a table of one, a namedtuple, or fields' arrays.
Kind = tuple[str, tuple[Any, ...]]
NOTHING: Kind = ("", ())
MODULES = ("plan", "state", "given", "model", "channels", "program_tables")


@cache
def classes() -> dict[str, type]:
    """Rows and namedtuples of tables, by name."""
    modules = [importlib.import_module(f"hilrt.tables.{name}") for name in MODULES]
    return {
        name: cls for module in modules for name, cls in inspect.getmembers(module, inspect.isclass)
    }


def kind_of(annotation: str) -> Kind:
    """Kind of what is annotated so."""
    if match := re.fullmatch(r"Table\[(\w+)\]", annotation):
        return ("table", (match[1],))
    names = annotation.split(" | ")
    if all(issubclass(classes().get(name, int), TableRow) for name in names):
        return ("row", tuple(names))
    tables = issubclass(classes().get(annotation, int), tuple)
    return ("tables", (annotation,)) if tables else NOTHING


class Function:
    """A compiled function: what it writes itself, and what it calls with what.

    Attributes
    ----------
    writes : set of Field
    fills : set of str
        Parameters whose elements it sets.
    calls : list of (function, kinds of the arguments)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        function = getattr(function, "py_func", function)
        self.module: ModuleType = inspect.getmodule(function)  # type: ignore[assignment]
        (self.tree,) = ast.parse(inspect.getsource(function)).body
        assert isinstance(self.tree, ast.FunctionDef)
        self.names = [a.arg for a in self.tree.args.args]
        self.kinds: dict[str, Kind] = {}
        for a in self.tree.args.args:
            kind = kind_of(ast.unparse(a.annotation) if a.annotation else "")
            self.kinds[a.arg] = ("argument", (a.arg,)) if kind == NOTHING else kind
        self.writes: set[Field] = set()
        self.fills: set[str] = set()
        self.calls: list[tuple[Callable[..., Any], list[Kind]]] = []
        self.unknown: list[str] = []
        for node in self._in_order(self.tree):
            self._read(node)

    def _in_order(self, node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            yield child
            yield from self._in_order(child)

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.For):
            self._assign(node.target, None)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = getattr(self.module, node.func.id, None)
            if hasattr(called, "py_func") or inspect.isfunction(called):
                self.calls.append((called, [self.kind(a) for a in node.args]))

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Tuple):
            values = value.elts if isinstance(value, ast.Tuple) else [None] * len(target.elts)
            for one, of in zip(target.elts, values, strict=True):
                self._assign(one, of)
        elif isinstance(target, ast.Name):
            self.kinds[target.id] = NOTHING if value is None else self.kind(value)
        elif isinstance(target, ast.Attribute):
            self._write(self.kind(target), target)
        elif isinstance(target, ast.Subscript):
            self._write(self.kind(target.value), target)

    def _write(self, kind: Kind, target: ast.expr) -> None:
        if kind[0] == "fields":
            self.writes |= set(kind[1])
        elif kind[0] == "argument":
            self.fills |= set(kind[1])
        elif kind[0] != "array":
            self.unknown.append(f"{self.tree.name}: {ast.unparse(target)}")  # type: ignore[attr-defined]

    def kind(self, node: ast.expr) -> Kind:
        """Kind of an expression."""
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id, NOTHING)
        if isinstance(node, ast.IfExp):
            return self.kind(node.body)
        if isinstance(node, ast.Attribute):
            return self._attribute(self.kind(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            kind, names = self.kind(node.value)
            if kind == "table" and not isinstance(node.slice, ast.Slice):
                return ("row", names)
            return (kind, names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = getattr(self.module, node.func.id, None)
            called = getattr(called, "py_func", called)
            return kind_of(str(getattr(called, "__annotations__", {}).get("return", "")))
        return NOTHING

    def _attribute(self, kind: Kind, name: str) -> Kind:
        if kind[0] == "row":
            return ("fields", tuple((row, name) for row in kind[1]))
        if kind[0] != "tables":
            return NOTHING
        annotation = str(classes()[kind[1][0]].__annotations__[name])
        annotation = re.sub(r"^ForwardRef\('([^']*)'.*", r"\1", annotation)
        found = kind_of(annotation)
        return ("array", ()) if found == NOTHING else found


@cache
def function_of(function: Callable[..., Any]) -> Function:
    """What a compiled function does itself."""
    return Function(function)


def written_by(stage: Callable[..., Any]) -> tuple[set[Field], list[str]]:
    """Fields that a stage writes, its helpers included; and targets that could not be followed."""
    fields: set[Field] = set()
    unknown: list[str] = []
    seen: set[Callable[..., Any]] = set()

    def follow(function: Callable[..., Any]) -> None:
        if function in seen:
            return
        seen.add(function)
        own = function_of(function)
        fields.update(own.writes)
        unknown.extend(own.unknown)
        for called, kinds in own.calls:
            follow(called)
            filled = filled_by(called)
            for name, kind in zip(function_of(called).names, kinds, strict=False):
                if name in filled and kind[0] == "fields":
                    fields.update(kind[1])

    follow(stage)
    return fields, unknown


@cache
def filled_by(function: Callable[..., Any]) -> frozenset[str]:
    """Parameters whose elements a function sets, or has others set."""
    own = function_of(function)
    found = set(own.fills)
    for called, kinds in own.calls:
        if called is function:
            continue
        filled = filled_by(called)
        for name, kind in zip(function_of(called).names, kinds, strict=False):
            if name in filled and kind[0] == "argument":
                found |= set(kind[1])
    return frozenset(found)


def stages() -> list[Callable[..., Any]]:
    """Stages in the order of the macro step and of the slack."""
    calls = [*function_of(order.macro_step).calls, *function_of(order.assess).calls]
    return list(dict.fromkeys(called for called, _ in calls))


def writers() -> tuple[dict[Field, list[str]], list[str]]:
    """Stages that write each field, in order; and what could not be followed."""
    found: dict[Field, list[str]] = {}
    lost: list[str] = []
    for stage in stages():
        fields, unknown = written_by(stage)
        lost += unknown
        for field in sorted(fields):
            found.setdefault(field, []).append(stage.__name__)
    return found, lost
