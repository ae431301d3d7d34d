"""One entry of the gallery: a claim, our runs, our pictures, and whether the claim holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["holds", "in part", "does not hold"]

#: Subjects of the articles; the list with titles is in docs/methods.md, "Literature".
PAPERS = {
    "Multibody Syst. Dyn. 09817 (2022)": "Variable step and order",
    "Rodríguez et al. (2022)": "Power residual and energy correction",
    "Haid et al. (2022)": "Model-based corrector",
    "Glumac and Kovačić (2023)": "Defects and step control",
}


@dataclass
class Entry:
    """The figures of a claim, and the text beside them.

    Attributes
    ----------
    paper : str
        Key of `PAPERS`.
    figures : str
        Figures of the paper that are redrawn.
    title, claim, seen : str
        Heading; the paper's claim, paraphrased; the result of the runs.
    verdict : str
    plots : list
        Bokeh models, below each other.
    setting : str
        What was run.
    """

    paper: str
    figures: str
    title: str
    claim: str
    seen: str
    verdict: Verdict
    setting: str
    plots: list[Any] = field(default_factory=list)


#: Draws an entry anew.
Drawer = Callable[[], Entry]
