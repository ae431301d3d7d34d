"""All figures of a report, in reading order."""

from __future__ import annotations

from hilrt.analyze.can_traffic import CanTraffic
from hilrt.analyze.figure_can import draw_can
from hilrt.analyze.figure_steps import draw_worst
from hilrt.analyze.figure_style import Drawing
from hilrt.analyze.figure_timing import draw_timing
from hilrt.analyze.figures import Material, draw_all, time_range
from hilrt.analyze.log_analysis import LogAnalysis


def draw_report(analysis: LogAnalysis, traffic: CanTraffic | None) -> list[Drawing]:
    """The figures for which a log has data."""
    material = Material.gather(analysis.stream, analysis.curves)
    shared = time_range(material)
    names = material.present(material.topics.get("timing", []))
    curves = {name: analysis.curves[name] for name in names}
    deadline_us = analysis.deadline_us
    timing = draw_timing(curves, shared, analysis.summary, deadline_us)
    timing += draw_worst(analysis.statistics.worst_steps())
    can = [] if traffic is None else draw_can(traffic, shared)
    return draw_all(material, shared, [*can, *timing])
