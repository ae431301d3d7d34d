"""What an expectation says, as a tree: comparisons, and/or, and operators over time.

Negation is not in it: it stands in the comparisons, where the parser has moved it. Windows are
relative to the sample that an operator is evaluated at, both ends included, in ns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, eq=False)
class Atom:
    """A comparison: its margin is positive where it holds, and its size is the distance.

    Attributes
    ----------
    text : str
        As it was written.
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
    """All of the parts (the worst one counts), or any of them (the best one counts)."""

    all: bool
    parts: tuple[Formula, ...]


@dataclass(frozen=True, eq=False)
class Window:
    """The part at every sample of a window (always), or at one of them (eventually).

    Attributes
    ----------
    always : bool
    part : Formula
    begin_ns : int
    end_ns : int or None
        None: to the end of what is judged.
    """

    always: bool
    part: Formula
    begin_ns: int = 0
    end_ns: int | None = None


@dataclass(frozen=True, eq=False)
class HoldsUntil:
    """`part` at every sample before one of the window, at which `goal` holds."""

    part: Formula
    goal: Formula
    begin_ns: int = 0
    end_ns: int | None = None


Formula: TypeAlias = Atom | Junction | Window | HoldsUntil


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """The formulas right below."""
    match formula:
        case Junction():
            return formula.parts
        case Window():
            return (formula.part,)
        case HoldsUntil():
            return (formula.part, formula.goal)
    return ()


def walk(formula: Formula) -> Iterator[Formula]:
    """The formula and everything in it, from the top."""
    yield formula
    for part in parts_of(formula):
        yield from walk(part)


def atoms(formula: Formula) -> list[Atom]:
    """Comparisons, from left to right."""
    return [one for one in walk(formula) if isinstance(one, Atom)]


def is_limit(formula: Formula) -> bool:
    """Whether it only says what must hold all the time, so that one sample can break it."""
    return all(
        one.always if isinstance(one, Window) else not isinstance(one, HoldsUntil)
        for one in walk(formula)
    )


def reach_ns(formula: Formula) -> int | None:
    """How far the samples that it depends on lie after its own, ns; None: to the end."""
    farthest = 0
    for part in parts_of(formula):
        reach = reach_ns(part)
        if reach is None:
            return None
        farthest = max(farthest, reach)
    if isinstance(formula, (Window, HoldsUntil)):
        return None if formula.end_ns is None else formula.end_ns + farthest
    return farthest
