"""Formula of an expectation as a tree of comparisons, and/or, and operators over time.

The tree has no negation: the parser moves it into the comparisons. Windows are in ns, relative to
the sample at which an operator is evaluated, and include both ends.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hilrt.errors import ConfigError
from hilrt.expressions.parse import MAX_LENGTH, parse


@dataclass(frozen=True, eq=False)
class Atom:
    """Comparison with its margin: the distance to the limit, positive where it holds.

    Attributes
    ----------
    text : str
        Comparison as written by the user.
    margin : str
        Expression of the margin.
    strict : bool
        Whether a margin of 0 is a violation.
    """

    text: str
    margin: str
    strict: bool = False


@dataclass(frozen=True, eq=False)
class Junction:
    """Conjunction (the value of its worst part) or disjunction (that of its best part)."""

    all: bool
    parts: tuple[Formula, ...]


@dataclass(frozen=True, eq=False)
class Window:
    """Operator "always" (`part` at every sample of a window) or "eventually" (at one of them).

    Attributes
    ----------
    always : bool
    part : Formula
    begin_ns : int
    end_ns : int or None
        None: to the end of the judged time.
    """

    always: bool
    part: Formula
    begin_ns: int = 0
    end_ns: int | None = None


@dataclass(frozen=True, eq=False)
class HoldsUntil:
    """Operator "until": `goal` at a sample of the window, and `part` at every sample before."""

    part: Formula
    goal: Formula
    begin_ns: int = 0
    end_ns: int | None = None


Formula: TypeAlias = Atom | Junction | Window | HoldsUntil


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """Direct parts of a formula."""
    match formula:
        case Junction():
            return formula.parts
        case Window():
            return (formula.part,)
        case HoldsUntil():
            return (formula.part, formula.goal)
    return ()


def walk(formula: Formula) -> Iterator[Formula]:
    """Yield a formula and all formulas in it, from the top."""
    yield formula
    for part in parts_of(formula):
        yield from walk(part)


def atoms(formula: Formula) -> list[Atom]:
    """Comparisons in a formula, from left to right."""
    return [one for one in walk(formula) if isinstance(one, Atom)]


def is_limit(formula: Formula) -> bool:
    """Whether a formula must hold at all times, so that one sample can violate it."""
    return all(
        one.always if isinstance(one, Window) else not isinstance(one, HoldsUntil)
        for one in walk(formula)
    )


def reach_ns(formula: Formula) -> int | None:
    """Span of later samples on which a sample's value depends, ns; None: to the end."""
    farthest = 0
    for part in parts_of(formula):
        reach = reach_ns(part)
        if reach is None:
            return None
        farthest = max(farthest, reach)
    if isinstance(formula, (Window, HoldsUntil)):
        return None if formula.end_ns is None else formula.end_ns + farthest
    return farthest


#: Operators over time, and the number of conditions of each.
OPERATORS = {"always": 1, "eventually": 1, "until": 2}
IMPLIES = "implies"
#: Margin by comparison, from the texts of both sides, and whether equal sides violate it.
_MARGINS: dict[type[ast.cmpop], tuple[str, bool]] = {
    ast.Lt: ("({right}) - ({left})", True),
    ast.LtE: ("({right}) - ({left})", False),
    ast.Gt: ("({left}) - ({right})", True),
    ast.GtE: ("({left}) - ({right})", False),
    ast.Eq: ("-abs(({left}) - ({right}))", False),
    ast.NotEq: ("abs(({left}) - ({right}))", True),
}
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def read_condition(text: str) -> Formula:
    """Read a formula without operators over time; `ConfigError` with problem and remedy."""
    formula = read_formula(text)
    if any(isinstance(one, (Window, HoldsUntil)) for one in walk(formula)):
        raise ConfigError(
            f"{text!r} contains an operator over time; give a condition here, or use the key "
            "formula"
        )
    return formula


def read_formula(text: str) -> Formula:
    """Read a formula; `ConfigError` with problem and remedy."""
    if len(text) > MAX_LENGTH:
        raise ConfigError(
            f"{len(text)} characters, {MAX_LENGTH} at most; divide it into several expectations"
        )
    try:
        body = ast.parse(text.strip(), mode="eval").body
        formula = _FormulaReader().read(body, negated=False)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parse(text)  # raises with the problem and its place
        raise ConfigError(f"{text!r} cannot be parsed; write a condition such as a.x > 3") from None
    _refuse_unbounded(formula)
    return formula


def seconds_ns(seconds: float) -> int:
    """Convert seconds to whole nanoseconds."""
    return round(seconds * 1e9)


class _FormulaReader:
    """Converter of a syntax tree of Python's parser to a formula."""

    def read(self, node: ast.expr, negated: bool) -> Formula:
        match node:
            case ast.BoolOp():
                parts = tuple(self.read(part, negated) for part in node.values)
                return Junction(isinstance(node.op, ast.And) != negated, parts)
            case ast.UnaryOp(op=ast.Not()):
                return self.read(node.operand, not negated)
            case ast.Compare():
                return self._comparison(node, negated)
            case ast.Call(func=ast.Name(id=name)) if name in OPERATORS:
                return self._operator(name, node, negated)
            case ast.Call(func=ast.Name(id=name)) if name == IMPLIES:
                given, then = self._arguments(name, node, 2)
                parts = self.read(given, not negated), self.read(then, negated)
                return Junction(negated, parts)
        return self._truth(node, negated)

    def _comparison(self, node: ast.Compare, negated: bool) -> Formula:
        """Read a comparison; ``a < b < c`` becomes both of its comparisons."""
        sides = [node.left, *node.comparators]
        parts = []
        for left, kind, right in zip(sides, node.ops, sides[1:], strict=False):
            if type(kind) not in _MARGINS:
                parse(ast.unparse(node))
            chosen = _NEGATED[type(kind)] if negated else type(kind)
            margin, strict = _MARGINS[chosen]
            texts = {"left": ast.unparse(left), "right": ast.unparse(right)}
            text = f"{texts['left']} {_SIGNS[chosen]} {texts['right']}"
            parts.append(_atom(text, margin.format(**texts), strict))
        return parts[0] if len(parts) == 1 else Junction(not negated, tuple(parts))

    def _truth(self, node: ast.expr, negated: bool) -> Atom:
        """Read a value used as a condition: true where it is not 0."""
        text = ast.unparse(node)
        if negated:
            return _atom(f"not {text}", f"-abs({text})", strict=False)
        return _atom(text, f"abs({text})", strict=True)

    def _operator(self, name: str, node: ast.Call, negated: bool) -> Formula:
        count = OPERATORS[name]
        conditions = self._arguments(name, node, count)
        begin_ns, end_ns = _window(name, node, count)
        if name == "until":
            if negated:
                raise ConfigError(
                    "not until(...) is not allowed here; write the opposite condition instead"
                )
            part, goal = (self.read(one, False) for one in conditions)
            return HoldsUntil(part, goal, begin_ns, end_ns)
        part = self.read(conditions[0], negated)
        return Window((name == "always") != negated, part, begin_ns, end_ns)

    def _arguments(self, name: str, node: ast.Call, count: int) -> list[ast.expr]:
        if len(node.args) < count:
            what = "a condition" if count == 1 else "two conditions"
            raise ConfigError(f"{name}(...) needs {what}")
        if name == IMPLIES and (len(node.args) > count or node.keywords):
            raise ConfigError("implies(...) takes exactly two conditions")
        return node.args[:count]


def _window(name: str, node: ast.Call, count: int) -> tuple[int, int | None]:
    """Beginning and end [ns] of a window, from the numbers after the conditions."""
    numbers = node.args[count:]
    if node.keywords or len(numbers) > 2:
        raise ConfigError(
            f"{name}(...) needs its window in seconds: {name}(…, 2.0) for the next 2 s, "
            f"{name}(…, 1.0, 2.0) from 1 s to 2 s"
        )
    seconds = [_seconds(name, number) for number in numbers]
    if not seconds:
        return 0, None
    begin, end = seconds if len(seconds) == 2 else (0.0, seconds[0])
    if begin > end:
        raise ConfigError(f"the window of {name}(...) ends before it begins; swap its numbers")
    return seconds_ns(begin), seconds_ns(end)


def _seconds(name: str, node: ast.expr) -> float:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"{name}(..., {ast.unparse(node)}): a window needs a number of seconds")
    if not 0.0 <= value <= 1e9 or not math.isfinite(value):
        raise ConfigError(f"{name}(..., {value:g}): a window is 0 s or later, up to 1e9 s")
    return float(value)


def _atom(text: str, margin: str, strict: bool) -> Atom:
    parse(text.removeprefix("not "))
    return Atom(text, margin, strict)


def _refuse_unbounded(formula: Formula) -> None:
    """Refuse inner operators that extend to the end, and inner `until`."""
    for one in walk(formula):
        if one is formula:
            continue
        if isinstance(one, HoldsUntil):
            raise ConfigError("until(...) must be outermost; make it a separate expectation")
        if isinstance(one, Window) and one.end_ns is None:
            name = "always" if one.always else "eventually"
            raise ConfigError(
                f"{name}(...) inside another operator needs a window, such as {name}(…, 2.0); or "
                "divide it into two expectations"
            )
    below = formula.parts if isinstance(formula, Junction) else ()
    if any(reach_ns(part) is None for part in below):
        raise ConfigError("only the outermost operator may extend to the end")
