"""Parsing of an expression into its typed tree; errors include the location.

The text has the syntax of Python expressions and is parsed by Python's own parser; it is never
executed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import keyword
import re
import tokenize
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Final

from hilrt.config.structs import CALCULATED
from hilrt.errors import ConfigError
from hilrt.expressions.nodes import ExpressionRefused, LookupTable, Node, at
from hilrt.expressions.read_tree import TreeReader

#: Maximum length of a text, in characters.
MAX_LENGTH: Final = 4000

#: Patterns of other languages' syntax, and the replacement here.
_HINTS: Final = (
    (r"&&", "write `and`"),
    (r"\|\|", "write `or`"),
    (r"\?", "write a choice as `a if condition else b`"),
    (r":=", "write a comparison as =="),
    (r"(?<![=<>!:])=(?!=)", "write a comparison as =="),
    (r"!(?!=)", "write `not`, or != for unequal"),
    (r";", "an expression is a single value"),
)


@dataclass(frozen=True)
class Expression:
    """A parsed text.

    Attributes
    ----------
    text : str
    node : Node
        Root of the typed tree.
    signals : tuple of str
        Names that it refers to, as written, in the order of their first appearance.
    where : str
        Table and key of its origin.
    """

    text: str
    node: Node
    signals: tuple[str, ...]
    where: str = ""

    def refused(self, refusal: ExpressionRefused) -> ConfigError:
        """Error that includes the location."""
        return _refused(self.text, self.where, refusal)


def parse(text: str, where: str = "") -> Expression:
    """Parse an expression.

    Parameters
    ----------
    text : str
    where : str, optional
        Table and key of its origin, for messages.

    Raises
    ------
    ConfigError
        With the location in the text, and the remedy.
    """
    try:
        flat = re.sub(r"[\r\n]", " ", text)
        source = flat.strip()
        before = len(flat) - len(flat.lstrip())
        reader = TreeReader(source, before)
        node = reader.node(_syntax_tree(source, before))
    except ExpressionRefused as refusal:
        raise _refused(text, where, refusal) from None
    return Expression(text, node, tuple(reader.names), where)


def _refused(text: str, where: str, refusal: ExpressionRefused) -> ConfigError:
    place = f"{where}: " if where else ""
    return ConfigError(f"{place}{at(text, refusal.column)}: {refusal.reason}")


def _syntax_tree(source: str, before: int) -> ast.expr:
    """Syntax tree of a text on one line, which is preceded by `before` spaces."""
    if not source:
        raise ExpressionRefused(
            "it is empty; write a value, such as engine.speed, or remove the key"
        )
    if len(source) > MAX_LENGTH:
        raise ExpressionRefused(
            f"{len(source)} characters, {MAX_LENGTH} at most; divide it into several calculated "
            "channels, and give lookup tables a name"
        )
    try:
        with warnings.catch_warnings():  # Python warns about spellings that are refused here
            warnings.simplefilter("ignore")
            if "#" in source:
                _refuse_comments(source, before)
            tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise _in_words(source, before, error) from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionRefused(
            "it cannot be parsed: nested too deeply, or with invalid characters; divide it "
            "into several calculated channels"
        ) from None
    return tree


def _refuse_comments(source: str, before: int) -> None:
    """Refuse comments: text after one would be ignored silently."""
    with contextlib.suppress(tokenize.TokenError):  # the parser has a better message
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                column = before + token.start[1]
                raise ExpressionRefused("comments are not allowed; use the key description", column)


def _in_words(source: str, before: int, error: SyntaxError) -> ExpressionRefused:
    """Translate Python's message about a text that is not an expression."""
    words = re.finditer(r"\.\s*([^\W\d]\w*)", source)
    reserved = next((word for word in words if keyword.iskeyword(word[1])), None)
    if reserved is not None:
        name = re.search(r"[\w.\s]*$", source[: reserved.end()])
        shown = "".join((name[0] if name else reserved[1]).split())
        return ExpressionRefused(
            f"{reserved[1]} is a reserved word; write signal({shown!r}), with the whole name",
            before + reserved.start(1),
        )
    for spelled, instead in _HINTS:
        if (found := re.search(spelled, source)) is not None:
            return ExpressionRefused(f"{found[0]} is not known; {instead}", before + found.start())
    column = min(max((error.offset or 1) - 1, 0), len(source) - 1)
    return ExpressionRefused(
        f"this is not an expression ({error.msg}); write one value, such as "
        "`2 * engine.speed`, and names with other characters as signal('…')",
        before + column,
    )


@dataclass(frozen=True)
class CalculatedChannel:
    """A calculated channel: its expression, and its unit; None: that of the expression."""

    expression: Expression
    unit: str | None = None


@dataclass(frozen=True)
class KnownSignals:
    """Signals that expressions may refer to.

    Attributes
    ----------
    units : mapping of str
        Unit of every signal, by name ``subsystem.port``.
    channels : mapping of str
        Calculated channels by name.
    tables : mapping of str
        Lookup tables by name.
    """

    units: Mapping[str, str]
    channels: Mapping[str, CalculatedChannel] = field(default_factory=dict)
    tables: Mapping[str, LookupTable] = field(default_factory=dict)

    def read_by(self, expressions: Iterable[Expression]) -> list[str]:
        """Signals that expressions and the channels read, each once."""
        everything = [*(channel.expression for channel in self.channels.values()), *expressions]
        names = dict.fromkeys(name for e in everything for name in e.signals)
        return [name for name in names if name in self.units]

    def channels_in_order(self) -> list[str]:
        """Names of the channels, each after those that it reads.

        Raises
        ------
        ConfigError
            If channels depend on each other.
        """
        needs = {
            name: [n for n in map(channel_name, channel.expression.signals) if n in self.channels]
            for name, channel in self.channels.items()
        }
        try:
            return list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            path = " -> ".join(reversed(error.args[1]))
            raise ConfigError(
                f"[[calculated]]: channels depend on one another: {path}; all are computed from "
                "samples of the same tick, so break the loop"
            ) from None


def channel_name(name: str) -> str:
    """Name of a calculated channel, also for the form ``calculated.NAME``."""
    return name.removeprefix(CALCULATED + ".")
