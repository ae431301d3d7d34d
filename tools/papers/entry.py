"""One entry of the gallery: a claim, our runs, our pictures, and whether the claim holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["holds", "in part", "does not hold"]

#: Titles of the papers, by the number used in the entries.
PAPERS = {
    0: "Variable step and order",
    1: "Power residual and energy correction",
    2: "Model-based corrector",
    3: "Defects and step control",
}


@dataclass
class Entry:
    """What is drawn, and what is said beside it.

    Attributes
    ----------
    paper : int
        Key of `PAPERS`.
    figures : str
        Figures of the paper that are redrawn.
    title, claim, seen : str
        Heading; what the paper says, in our words; what our runs say.
    verdict : str
    plots : list
        Bokeh models, below each other.
    setting : str
        What was run.
    """

    paper: int
    figures: str
    title: str
    claim: str
    seen: str
    verdict: Verdict
    setting: str
    plots: list[Any] = field(default_factory=list)


#: Draws an entry anew.
Drawer = Callable[[], Entry]
