"""One entry of the gallery: a claim, own runs, plots, and whether the claim holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["holds", "in part", "does not hold"]

#: Subjects of the articles; their titles are in docs/methods.md, "Literature".
PAPERS = {
    "Multibody Syst. Dyn. 09817 (2022)": "Variable step and order",
    "Rodríguez et al. (2022)": "Power residual and energy correction",
    "Haid et al. (2022)": "Model-based corrector",
    "Glumac and Kovačić (2023)": "Defects and step control",
}


@dataclass
class Entry:
    """Plots for a claim, and their text.

    Attributes
    ----------
    paper : str
        Key of `PAPERS`.
    figures : str
        Figures of the paper that are reproduced.
    title, claim, seen : str
        Heading; the paper's claim, paraphrased; the result of the runs.
    verdict : str
    plots : list
        Bokeh models, below each other.
    setting : str
        Settings of the runs.
    """

    paper: str
    figures: str
    title: str
    claim: str
    seen: str
    verdict: Verdict
    setting: str
    plots: list[Any] = field(default_factory=list)


#: Function that makes an entry.
Drawer = Callable[[], Entry]
