"""Names that are shortened to a width, from the left, and stay different."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

ELLIPSIS = "…"
#: Letters of a name that are kept in any case.
LEAST = 4


def short_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Each name as it is shown within `width` letters.

    The end of a name says most. Names that would look the same then keep, in front of their end,
    the part in which they differ.
    """
    width = max(width, LEAST)
    shown = {name: _tail(name, width) for name in names}
    same: dict[str, list[str]] = {}
    for name, short in shown.items():
        same.setdefault(short, []).append(name)
    for group in same.values():
        if len(group) > 1:
            shown |= _distinguished(group, width)
    return shown


def _tail(name: str, width: int) -> str:
    return name if len(name) <= width else ELLIPSIS + name[1 - width :]


def _distinguished(group: Sequence[str], width: int) -> dict[str, str]:
    """Names with equal ends, told apart by their parts between the equal ones, or by numbers."""
    before = _common(group)
    after = _common([name[before:][::-1] for name in group])
    for kept in range(1, width - 2):
        short = {}
        for name in group:
            part = name[before : len(name) - after]
            part = part if len(part) <= kept else part[:kept]
            end = width - len(part) - 2
            short[name] = ELLIPSIS + part + ELLIPSIS + (name[-end:] if end > 0 else "")
        if len(set(short.values())) == len(group):
            return short
    return {name: _tail(f"{name} {i}", width) for i, name in enumerate(group, 1)}


def _common(names: Sequence[str]) -> int:
    """Number of letters with which all names begin."""
    first, last = min(names), max(names)
    return next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
