"""Conversion of Python's syntax tree to a typed tree; only known nodes are allowed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from hilrt.config.from_toml import nearest
from hilrt.expressions import operations as do
from hilrt.expressions.functions import (
    CONSTANTS,
    FOLDED,
    FUNCTIONS,
    NAMES,
    RESERVED,
    TIME,
    Function,
)
from hilrt.expressions.nodes import (
    Conversion,
    ExpressionRefused,
    Lookup,
    Node,
    Number,
    Operation,
    Reading,
    lookup_table,
)

#: Maximum nesting, and number of parts, of one expression.
MAX_DEPTH: Final = 100
MAX_PARTS: Final = 1000

_ARITHMETIC: Final[dict[type[ast.AST], int]] = {
    ast.Add: do.ADD,
    ast.Sub: do.SUBTRACT,
    ast.Mult: do.MULTIPLY,
    ast.Div: do.DIVIDE,
    ast.Pow: do.POWER,
    ast.Mod: do.MODULO,
}
#: Comparisons, and whether their operands are swapped.
_COMPARISONS: Final[dict[type[ast.AST], tuple[int, bool]]] = {
    ast.Lt: (do.LESS, False),
    ast.LtE: (do.LESS_EQUAL, False),
    ast.Gt: (do.LESS, True),
    ast.GtE: (do.LESS_EQUAL, True),
    ast.Eq: (do.EQUAL, False),
    ast.NotEq: (do.NOT_EQUAL, False),
}
#: Syntax that differs from Python's.
_INSTEAD: Final[dict[type[ast.AST], str]] = {
    ast.FloorDiv: "// is unknown; write floor(a / b)",
    ast.BitAnd: "& is unknown; write `and`",
    ast.BitOr: "| is unknown; write `or`",
    ast.BitXor: "^ is unknown; write a power as **",
    ast.Invert: "~ is unknown; write `not`",
    ast.In: "`in` is unknown; write comparisons, joined by `or`",
    ast.NotIn: "`not in` is unknown; write comparisons, joined by `and`",
    ast.Is: "`is` is unknown; write ==",
    ast.IsNot: "`is not` is unknown; write !=",
    ast.NamedExpr: ":= is unknown; write a comparison as ==",
    ast.Tuple: "a comma only separates arguments of functions; write decimals with a point",
    ast.List: "points in brackets are only allowed in lookup(x, [...], [...])",
    ast.Lambda: "`lambda` is a reserved word; write the whole name as signal('…')",
}


class TreeReader:
    """Converter of one text's syntax tree.

    Parameters
    ----------
    source : str
        The text, in one line.
    before : int
        Number of spaces removed before it.

    Attributes
    ----------
    names : dict of str
        Names that it refers to, in the order of their first appearance.
    """

    def __init__(self, source: str, before: int = 0) -> None:
        self.names: dict[str, None] = {}
        self._bytes, self._before = source.encode(errors="replace"), before
        self._parts = self._depth = 0
        self._kinds: dict[type[ast.AST], Callable[[Any], Node]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Attribute: self._name,
            ast.Subscript: self._name,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._arithmetic,
            ast.BoolOp: self._logic,
            ast.Compare: self._comparison,
            ast.IfExp: self._choice,
            ast.Call: self._call,
        }

    def node(self, tree: ast.expr) -> Node:
        """Convert a tree; `ExpressionRefused` describes the problem."""
        read = self._kinds.get(type(tree))
        if read is None:
            what = f"{type(tree).__name__} is not allowed in expressions"
            raise self._refusal(_INSTEAD.get(type(tree), what), tree)
        self._parts += 1
        self._depth += 1
        if self._depth > MAX_DEPTH or self._parts > MAX_PARTS:
            raise self._refusal(
                f"more than {MAX_PARTS} parts, or {MAX_DEPTH} within one another; divide it into "
                "several calculated channels",
                tree,
            )
        node = read(tree)
        self._depth -= 1
        return node

    # --- names and numbers --------------------------------------------------------------------

    def _constant(self, tree: ast.Constant) -> Node:
        value = tree.value
        if isinstance(value, str):
            raise self._refusal(f"a text is not a value; write a signal as signal({value!r})", tree)
        if not isinstance(value, int | float):  # True and False are integers
            raise self._refusal(f"{value!r} is not a real number", tree)
        try:
            return Number(float(value), column=self._column(tree))
        except OverflowError:
            raise self._refusal("the number is too large", tree) from None

    def _name(self, tree: ast.Name | ast.Attribute | ast.Subscript) -> Node:
        base: ast.expr = tree
        while isinstance(base, ast.Attribute | ast.Subscript):
            if isinstance(base, ast.Subscript) and not _is_index(base.slice):
                raise self._refusal(
                    "write an element of a vector as engine.x[0], another name as signal('…')", base
                )
            base = base.value
        if not isinstance(base, ast.Name):
            raise self._refusal("only signals have parts after a dot or in brackets", tree)
        # As written: Python normalises names, µ to μ.
        name = "".join(self._source(tree).split())
        if isinstance(tree, ast.Name) and name in RESERVED:
            if name in CONSTANTS:
                return Number(CONSTANTS[name], column=self._column(tree))
            if name == TIME:
                return Operation(do.TIME, (), column=self._column(tree))
            raise self._refusal(f"{name} is a function; call it as {_usage(name)}", tree)
        return self._reading(name, tree)

    def _reading(self, name: str, tree: ast.expr) -> Node:
        self.names[name] = None
        return Reading(name, column=self._column(tree))

    # --- operators ----------------------------------------------------------------------------

    def _unary(self, tree: ast.UnaryOp) -> Node:
        if isinstance(tree.op, ast.Invert):
            raise self._refusal(_INSTEAD[ast.Invert], tree)
        operand = self.node(tree.operand)
        if isinstance(tree.op, ast.UAdd):
            return operand
        if isinstance(tree.op, ast.Not):
            return self._operation(do.NOT, tree, operand)
        if isinstance(operand, Number):
            return Number(-operand.value, column=self._column(tree))
        return self._operation(do.NEGATE, tree, operand)

    def _arithmetic(self, tree: ast.BinOp) -> Node:
        code = _ARITHMETIC.get(type(tree.op))
        if code is None:
            name = type(tree.op).__name__
            raise self._refusal(_INSTEAD.get(type(tree.op), f"{name} is not known"), tree)
        a, b = self.node(tree.left), self.node(tree.right)
        if isinstance(a, Number) and isinstance(b, Number):
            return Number(self._folded(code, a.value, b.value, tree), column=self._column(tree))
        return self._operation(code, tree, a, b)

    def _folded(self, code: int, a: float, b: float, tree: ast.expr) -> float:
        """Arithmetic of two numbers in the text."""
        try:
            value = {
                do.ADD: lambda: a + b,
                do.SUBTRACT: lambda: a - b,
                do.MULTIPLY: lambda: a * b,
                do.DIVIDE: lambda: a / b,
                do.POWER: lambda: math.pow(a, b),
                do.MODULO: lambda: a % b,
            }[code]()
        except (ArithmeticError, ValueError) as error:
            raise self._refusal(f"these numbers have no valid result ({error})", tree) from None
        return value

    def _logic(self, tree: ast.BoolOp) -> Node:
        code = do.AND if isinstance(tree.op, ast.And) else do.OR
        operands = [self.node(value) for value in tree.values]
        return reduce(lambda a, b: self._operation(code, tree, a, b), operands)

    def _comparison(self, tree: ast.Compare) -> Node:
        operands = [self.node(tree.left)]
        links: list[Node] = []
        for op, right in zip(tree.ops, tree.comparators, strict=True):
            if type(op) not in _COMPARISONS:
                raise self._refusal(_INSTEAD[type(op)], tree)
            operands.append(self.node(right))
            code, swapped = _COMPARISONS[type(op)]
            a, b = operands[-2:]
            links.append(self._operation(code, right, *((b, a) if swapped else (a, b))))
        return reduce(lambda a, b: self._operation(do.AND, tree, a, b), links)

    def _choice(self, tree: ast.IfExp) -> Node:
        return self._operation(
            do.SELECT, tree, self.node(tree.test), self.node(tree.body), self.node(tree.orelse)
        )

    # --- functions ----------------------------------------------------------------------------

    def _call(self, tree: ast.Call) -> Node:
        if not isinstance(tree.func, ast.Name):
            raise self._refusal(
                "only functions can be called; write a name with (…) as signal('…')", tree
            )
        name = tree.func.id
        if name not in NAMES:
            raise self._refusal(
                f"there is no function {name!r}{nearest(name, NAMES)}; write a signal with "
                "brackets in its name as signal('…')",
                tree,
            )
        if any(isinstance(argument, ast.Starred) for argument in tree.args) or any(
            keyword.arg is None for keyword in tree.keywords
        ):
            raise self._refusal("give arguments one by one", tree)
        if name in FUNCTIONS:
            return self._function(name, FUNCTIONS[name], tree)
        if tree.keywords:
            raise self._refusal(f"{name} takes no named arguments: {_usage(name)}", tree)
        if name in FOLDED:
            if len(tree.args) < 2:
                raise self._refusal(f"write {_usage(name)}", tree)
            operands = [self.node(argument) for argument in tree.args]
            return reduce(lambda a, b: self._operation(FOLDED[name], tree, a, b), operands)
        if name == "signal":
            return self._reading(self._last_text(name, tree, 1), tree)
        if name == "lookup":
            return self._lookup(tree)
        unit = self._last_text(name, tree, 2)
        operand = self.node(tree.args[0])
        return Conversion(operand, unit, name == "unit", column=self._column(tree))

    def _function(self, name: str, function: Function, tree: ast.Call) -> Node:
        given = dict(zip(function.parameters, tree.args, strict=False))
        if len(tree.args) > len(function.parameters):
            raise self._refusal(f"too many arguments; write {_usage(name)}", tree)
        for keyword in tree.keywords:
            if keyword.arg not in function.parameters or keyword.arg in given:
                raise self._refusal(f"{keyword.arg}= does not fit; write {_usage(name)}", tree)
            given[keyword.arg] = keyword.value
        missing = [p for p in function.parameters if p not in given and p not in function.optional]
        if missing:
            raise self._refusal(f"{missing[0]} is missing; write {_usage(name)}", tree)
        nodes = {
            p: self.node(given[p])
            if p in given
            else Number(function.optional[p], column=self._column(tree))
            for p in function.parameters
        }
        numbers = tuple(self._number(name, function, p, nodes[p]) for p in function.numbers)
        operands = tuple(nodes[p] for p in function.operands)
        return Operation(function.code, operands, numbers, column=self._column(tree))

    def _number(self, name: str, function: Function, parameter: str, node: Node) -> float:
        """A constant parameter."""
        if not isinstance(node, Number):
            raise ExpressionRefused(
                f"{parameter} of {name} must be a number, not an expression", node.column
            )
        if not math.isfinite(node.value) or (function.times and node.value <= 0.0):
            wanted = "a positive time in s" if function.times else "a finite number"
            raise ExpressionRefused(
                f"{parameter} of {name} must be {wanted}, not {node.value:g}", node.column
            )
        return node.value

    def _last_text(self, name: str, tree: ast.Call, count: int) -> str:
        """Last of `count` arguments, a string."""
        last = tree.args[-1] if len(tree.args) == count else None
        if not isinstance(last, ast.Constant) or not isinstance(last.value, str):
            raise self._refusal(f"write {_usage(name)}", tree)
        return last.value

    # --- lookup tables ------------------------------------------------------------------------

    def _lookup(self, tree: ast.Call) -> Node:
        args, column = tree.args, self._column(tree)
        first = args[0] if args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and len(args) in (2, 3):
            return Lookup(first.value, tuple(map(self.node, args[1:])), column=column)
        axes = {3: 1, 5: 2}.get(len(args))
        if axes is None:
            raise self._refusal(f"write {_usage('lookup')}", tree)
        x, *y = (self._points(argument) for argument in args[axes:-1])
        try:
            table = lookup_table(x, self._values(args[-1], axes), y[0] if y else ())
        except ValueError as error:
            raise self._refusal(str(error), tree) from None
        return Lookup(table, tuple(map(self.node, args[:axes])), column=column)

    def _values(self, tree: ast.expr, axes: int) -> list[Any]:
        if axes == 1:
            return self._points(tree)
        if not isinstance(tree, ast.List):
            raise self._refusal("give values in brackets, row by row", tree)
        return [self._points(row) for row in tree.elts]

    def _points(self, tree: ast.expr) -> list[float]:
        if not isinstance(tree, ast.List):
            raise self._refusal("give points in brackets, such as [0, 10, 20]", tree)
        nodes = [self.node(element) for element in tree.elts]
        for node in nodes:
            if not isinstance(node, Number):
                raise ExpressionRefused("points must be numbers", node.column)
        return [node.value for node in nodes if isinstance(node, Number)]

    # --- places -------------------------------------------------------------------------------

    def _operation(self, code: int, tree: ast.expr, *operands: Node) -> Node:
        return Operation(code, operands, column=self._column(tree))

    def _column(self, tree: ast.expr) -> int:
        """Column of a node in characters; Python's parser counts bytes."""
        return self._before + len(self._bytes[: tree.col_offset].decode(errors="replace"))

    def _source(self, tree: ast.expr) -> str:
        return self._bytes[tree.col_offset : tree.end_col_offset].decode(errors="replace")

    def _refusal(self, reason: str, tree: ast.expr) -> ExpressionRefused:
        return ExpressionRefused(reason, self._column(tree))


def _is_index(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and type(tree.value) is int


def _usage(name: str) -> str:
    """Usage of a function."""
    if name in FUNCTIONS:
        function = FUNCTIONS[name]
        return f"{name}({', '.join(map(_parameter(function), function.parameters))})"
    return {
        "signal": 'signal("subsystem.port")',
        "lookup": 'lookup("table", x), lookup("table", x, y), lookup(x, [0, 1], [5, 6]) or '
        "lookup(x, y, [0, 1], [0, 1], [[1, 2], [3, 4]])",
        "convert": 'convert(x, "rad/s")',
        "unit": 'unit(x, "rad/s")',
    }.get(name, f"{name}(a, b, ...)")


def _parameter(function: Function) -> Callable[[str], str]:
    def show(parameter: str) -> str:
        if parameter in function.optional:
            return f"{parameter}={function.optional[parameter]:g}"
        return parameter

    return show
