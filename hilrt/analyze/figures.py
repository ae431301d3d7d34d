"""The figures of a report, from a session's curves.

Time figures share one range, so that zooming one zooms all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.annotations import BoxAnnotation, Span

from hilrt.analyze.curves import for_plot
from hilrt.analyze.figure_style import COLOURS, Drawing, legend_above, literal, time_figure
from hilrt.analyze.log_analysis import LogAnalysis, bonds_of, recorded_settings
from hilrt.monitor.stream import SessionGraph
from hilrt.record.decimate import Curve
from hilrt.record.notebook import multiplexers_of, varies
from hilrt.record.reader import LogEvent, LogStream
from hilrt.wording import words

#: Time shown on either side of the deciding sample, s.
AROUND_S = 1.0
#: Results with figures of their own; those that failed come first.
MAX_FAILURES = 12
_COLOURS = {"failed": "#b93a32", "inconclusive": "#b06a12"}


def draw_failures(analysis: LogAnalysis) -> list[Drawing]:
    """Draw one figure for each unit of the signals of a result that did not pass."""
    material = Material.gather(analysis.stream, analysis.curves)
    results = [one for one in analysis.summary.get("results") or () if one["result"] in _COLOURS]
    results.sort(key=lambda one: one["result"] != "failed")
    found: list[Drawing] = []
    for result in results[:MAX_FAILURES]:
        if result.get("t") is not None:
            found += _draw(material, result)
    return found


def _draw(material: Material, result: Mapping[str, Any]) -> list[Drawing]:
    t = float(result["t"])
    start, end = material.span()
    shown = Range1d(start=max(start, t - AROUND_S), end=min(end, t + AROUND_S))
    by_unit: dict[str, list[str]] = {}
    for name in material.present(result.get("signals") or ()):
        by_unit.setdefault(material.units.get(name, ""), []).append(name)
    drawings = []
    for names in by_unit.values():
        plot = draw_lines(material, shown, names)
        colour = _COLOURS[result["result"]]
        plot.add_layout(Span(location=t, dimension="height", line_color=colour, line_dash="dashed"))
        heading = f"{result['name']}: {result['result']}"
        drawings.append(Drawing(heading, f"{result['text']}; decided at {t:.4f} s", plot))
    return drawings


FLAG_COLOUR = "#e0802b"
GAP_COLOUR = "#d0574e"
MAX_LINES = 8
MAX_GAPS = 50
#: Causes of events that mark missing rows: rows that were lost, and rows outside all triggers.
GAPS = ("record_gap", "record_pause")
#: Colour of faults, and causes of events that are marked in every figure of signals.
FAULT_COLOUR = "#d0574e"
MARKS = {"fault_injected": FAULT_COLOUR, "parameter_changed": "#8b70d6", "source": "#8b70d6"}
MAX_MARKS = 50
PARAMETER = "parameters."
#: Remaining outputs are drawn until the report has this many figures.
MAX_FIGURES = 30


@dataclass
class Material:
    """Data from which the figures are drawn.

    Attributes
    ----------
    curves : dict
        Points of each signal.
    units : dict
        Unit of each signal.
    topics : dict
        Topic to its signals, in the order of the row.
    bonds : dict
        Bond to ``{"effort": signal, "flow": signal}``, from the log's metadata.
    connections : list of (output, input)
    set_points : list of str
        Inputs of benches.
    gaps : list of LogEvent
        Events of missing rows.
    marks : list of LogEvent
        Faults that begin and end, and parameters that change or whose stimuli begin and end.
    multiplexers : set of str
        Outputs that identify the form of a CAN message.
    """

    curves: dict[str, Curve]
    units: dict[str, str]
    topics: dict[str, list[str]]
    bonds: dict[str, dict[str, str]]
    connections: list[tuple[str, str]]
    set_points: list[str]
    gaps: list[LogEvent]
    marks: list[LogEvent] = field(default_factory=list)
    multiplexers: set[str] = field(default_factory=set)
    drawn: set[str] = field(default_factory=set)

    @classmethod
    def gather(cls, stream: LogStream, curves: dict[str, Curve]) -> Material:
        """Gather the figures' data from a log that has been read."""
        signals = [s for channel in stream.channels.values() for s in channel.signals]
        return cls(
            curves=curves,
            units={signal.name: signal.unit for signal in signals},
            topics={c.topic: [s.name for s in c.signals] for c in stream.channels.values()},
            bonds=bonds_of(stream),
            connections=connections_of(stream),
            set_points=set_points_of(stream),
            gaps=[event for event in stream.events if event.cause in GAPS][:MAX_GAPS],
            marks=[event for event in stream.events if _is_marked(event)][:MAX_MARKS],
            multiplexers=multiplexers_of(stream.metadata),
        )

    def present(self, names: Iterable[str]) -> list[str]:
        """Select the names that have points, once each."""
        return [n for n in dict.fromkeys(names) if n in self.curves and len(self.curves[n].t)]

    def broken(self, name: str) -> Curve:
        """Points of a signal, with breaks at missing rows."""
        t, y = self.curves[name]
        at = np.searchsorted(t, [gap.t for gap in self.gaps], side="right")
        if not len(at):
            return Curve(t, y)
        return Curve(np.insert(t, at, [gap.t for gap in self.gaps]), np.insert(y, at, np.nan))

    def span(self) -> tuple[float, float]:
        """First and last time of all curves, s."""
        ends = [(c.t[0], c.t[-1]) for c in self.curves.values() if len(c.t)]
        if not ends:
            return (0.0, 1.0)
        low, high = min(e[0] for e in ends), max(e[1] for e in ends)
        return (float(low), float(high) if high > low else float(low) + 1.0)


def _is_marked(event: LogEvent) -> bool:
    """Whether an event is one of `MARKS`; for stimuli, only those of parameters."""
    return event.cause in MARKS and (event.cause != "source" or event.source.startswith(PARAMETER))


def connections_of(stream: LogStream) -> list[tuple[str, str]]:
    """Output and input of each connection, from the session file in the log."""
    tables = recorded_settings(stream.metadata, stream.attachments).get("connections")
    try:
        return [(table["from"], table["to"]) for table in tables or []]
    except (TypeError, KeyError):
        return []


def set_points_of(stream: LogStream) -> list[str]:
    """Inputs of benches, from the log's metadata."""
    try:
        graph = msgspec.json.decode(stream.metadata.get("topology") or "{}", type=SessionGraph)
    except msgspec.MsgspecError:  # of another version
        return []
    return [point.input for point in graph.set_points]


def time_range(material: Material) -> Range1d:
    """Session time of all figures; scrolling stops shortly past the ends."""
    start, end = material.span()
    air = 0.02 * (end - start)
    return Range1d(start=start, end=end, bounds=(start - air, end + air))


@dataclass
class ReportFigures:
    """The figures of a report: quantities of the session, and its timing."""

    physical: list[Drawing]
    diagnostic: list[Drawing]


def draw_all(material: Material, shared: Range1d, timing: Sequence[Drawing]) -> ReportFigures:
    """Draw all figures for which the log has data, in reading order, with the given ones."""
    physical = _set_points(material, shared) + _demanded(material, shared)
    for bond, ports in material.bonds.items():
        physical += _bond_ends(material, shared, bond, ports)
    diagnostic = [
        drawing for bond in material.bonds for drawing in _bond_energy(material, shared, bond)
    ]
    diagnostic += _flags(material, shared)
    diagnostic += _defects(material, shared)
    diagnostic += _steps(material, shared)
    diagnostic += timing
    physical += _rest(material, shared, MAX_FIGURES - len(physical) - len(diagnostic))
    return ReportFigures(physical, diagnostic)


# -- time figures --------------------------------------------------------------------------------


def draw_lines(
    material: Material,
    shared: Range1d,
    names: Sequence[str],
    labels: Mapping[str, str] | None = None,
    *,
    overlaid: bool = False,
) -> Any:
    """Draw curves of one unit; `overlaid`: the first one broad and pale below the others."""
    plot = time_figure(shared, material.units.get(names[0], ""))
    for i, (name, colour) in enumerate(zip(names[:MAX_LINES], COLOURS, strict=False)):
        curve = material.broken(name)
        source = ColumnDataSource({"t": curve.t, "y": for_plot(curve.y)})
        label = literal((labels or {}).get(name, name))
        broad = overlaid and i == 0 and len(names) > 1
        plot.line(
            "t",
            "y",
            source=source,
            color=colour,
            line_width=3.5 if broad else 1.3,
            line_alpha=0.45 if broad else 1.0,
            legend_label=label,
        )
        material.drawn.add(name)
        _band(plot, material, name, colour)
        if material.present([f"{name}:faulted"]):
            used = material.broken(f"{name}:faulted")
            data = ColumnDataSource({"t": used.t, "y": for_plot(used.y)})
            dashed = {"color": FAULT_COLOUR, "line_dash": "dashed"}
            plot.line("t", "y", source=data, legend_label=f"{label} with faults", **dashed)
    values = [("t", "$x{0.000} s"), ("value", "$y{0.0000}")]
    plot.add_tools(HoverTool(renderers=plot.renderers[:], tooltips=values))
    for gap in material.gaps:
        plot.add_layout(
            BoxAnnotation(
                left=gap.t,
                right=gap.t if gap.until is None else gap.until,
                fill_color=GAP_COLOUR,
                fill_alpha=0.15,
            )
        )
    _mark(plot, material)
    legend_above(plot)
    return plot


def _mark(plot: Any, material: Material) -> None:
    """Mark begins and ends of faults, and changes of parameters, with their texts as tooltips."""
    if not material.marks:
        return
    marks = {
        "t": [mark.t for mark in material.marks],
        "text": [literal(mark.text) for mark in material.marks],
        "colour": [MARKS[mark.cause] for mark in material.marks],
    }
    lines = plot.vspan("t", source=ColumnDataSource(marks), color="colour", line_dash="dotted")
    plot.add_tools(HoverTool(renderers=[lines], tooltips=[("t", "@t{0.000} s"), ("", "@text")]))


def _band(plot: Any, material: Material, name: str, colour: str) -> None:
    """Draw the estimated error around an output, if the log has one: a band of 95 %."""
    width = f"{name}:estimated_error"
    if not material.present([width]):
        return
    error, curve = material.broken(width), material.broken(name)
    middle = np.interp(error.t, curve.t, curve.y)
    known = np.isfinite(middle) & np.isfinite(error.y)
    low, high = (np.where(known, middle + s * error.y, np.nan) for s in (-1.0, 1.0))
    band = {"t": error.t, "low": for_plot(low), "high": for_plot(high)}
    plot.varea(
        "t", "low", "high", source=ColumnDataSource(band), fill_color=colour, fill_alpha=0.15
    )
    material.drawn.add(width)


def _set_points(material: Material, shared: Range1d) -> list[Drawing]:
    """Demanded, sent and measured value of each input of a bench, in one figure."""
    drawings = []
    for name in material.set_points:
        sent, realised = f"{name}:sent", f"{name}:realised"
        unit = material.units.get(sent, "")
        sources = [source for source, target in material.connections if target == name]
        demanded = [source for source in sources if material.units.get(source, "") == unit]
        labels = {source: f"demanded, {source}" for source in demanded}
        labels |= {sent: "sent", realised: "measured"}
        names = material.present([*demanded, sent, realised])
        if sent in names:
            measured = " and measured" if realised in names else ""
            plot = draw_lines(material, shared, names, labels, overlaid=True)
            heading = f"Set-point {name}: {'demanded, ' if demanded else ''}sent{measured}"
            drawings.append(Drawing(heading, "", plot))
    return drawings


def _demanded(material: Material, shared: Range1d) -> list[Drawing]:
    """Demanded and measured value of a quantity: ``X.demanded_speed`` and ``X.….speed``."""
    drawings = []
    for name in material.present(material.topics.get("outputs", [])):
        subsystem, _, port = name.partition(".")
        if not port.startswith("demanded_"):
            continue
        quantity = port.removeprefix("demanded_")
        driven = [
            other
            for other in (f"{subsystem}.{quantity}", f"{subsystem}.{subsystem}_{quantity}")
            if other in material.present([other])
        ]
        if driven:
            labels = {name: "demanded", driven[0]: "driven"}
            plot = draw_lines(material, shared, [name, driven[0]], labels, overlaid=True)
            heading = f"{words(quantity).capitalize()} of {subsystem}: demanded and driven"
            drawings.append(Drawing(heading, "", plot))
    return drawings


def _bond_ends(
    material: Material, shared: Range1d, bond: str, ports: Mapping[str, str]
) -> list[Drawing]:
    """Effort and flow of a bond, except for a set-point, which has its own figure."""
    drawings = []
    for role in ("effort", "flow"):
        signals = ports.get(role, "").split(" + ")
        sent = list({f"{to}:sent": 0 for source, to in material.connections if source in signals})
        labels = {signal: f"{signal} (as output)" for signal in signals}
        labels |= {f"{signal}:corrected": "corrected" for signal in signals}
        labels |= {name: f"sent to {name.removesuffix(':sent')}" for name in sent}
        realised = [name.replace(":sent", ":realised") for name in sent]
        labels |= dict.fromkeys(realised, "realised")
        corrected = [f"{signal}:corrected" for signal in signals]
        names = material.present([*signals, *sent, *corrected, *realised])
        if names and not (sent and material.drawn.issuperset(sent)):
            plot = draw_lines(material, shared, names, labels, overlaid=True)
            drawings.append(Drawing(f"Bond {bond}: {role}, as measured and as sent", "", plot))
    return drawings


def _bond_energy(material: Material, shared: Range1d, bond: str) -> list[Drawing]:
    """Power, residual, energies and correction of a bond."""
    drawings = []
    for quantities, heading, note in _BOND_FIGURES:
        names = material.present(f"{bond}:{quantity}" for quantity in quantities)
        if names:
            labels = {name: words(name.removeprefix(f"{bond}:")) for name in names}
            plot = draw_lines(material, shared, names, labels)
            drawings.append(Drawing(f"Bond {bond}: {heading}", note, plot))
    return drawings


_BOND_FIGURES = (
    (("power",), "transmitted power", "Positive into the flow side."),
    (
        ("residual_power", "tracking_power"),
        "power residual",
        "A positive residual is power that the coupling created at the interface. Tracking power "
        "is due to a bench that did not follow its demand exactly.",
    ),
    (
        ("residual_energy", "tracking_energy", "corrected_energy", "uncorrected_energy"),
        "energy ledger",
        "Energy since the start, by its causes, and energy removed by the correction.",
    ),
    (
        ("correction_computed", "correction"),
        "correction",
        "Computed by the energy correction, and actually added to the effort, in its unit.",
    ),
)


def _flags(material: Material, shared: Range1d) -> list[Drawing]:
    """Draw one row per cause, with a bar while any of its flags was up."""
    bars: dict[str, list[tuple[float, float]]] = {}
    for name in material.present(material.topics.get("flags", [])):
        cause = words(name.rpartition(":")[2])
        bars.setdefault(cause, []).extend(up_times(material.curves[name]))
        material.drawn.add(name)
    raised = [cause for cause, times in bars.items() if times]
    if not raised:
        return []
    plot = time_figure(
        shared, " ", height=70 + 26 * len(raised), y_range=list(reversed(raised)), min_border_top=8
    )
    plot.min_border_left = 170
    plot.ygrid.grid_line_color = None
    for cause in raised:
        left, right = zip(*bars[cause], strict=True)
        plot.hbar([cause] * len(left), 0.5, right=right, left=left, color=FLAG_COLOUR)
    return [
        Drawing(
            "Flags: times at which each cause was up", "Causes without flags are omitted.", plot
        )
    ]


def up_times(curve: Curve) -> list[tuple[float, float]]:
    """Intervals in which a flag was up, s; each ends at the next point at which it is not.

    Parameters
    ----------
    curve : Curve
        Flag values; anything above 0 is up.
    """
    up = np.concatenate([[False], curve.y > 0.0, [False]])
    starts = np.flatnonzero(~up[:-1] & up[1:])
    ends = np.minimum(np.flatnonzero(up[:-1] & ~up[1:]), len(curve.t) - 1)
    return list(zip(curve.t[starts].tolist(), curve.t[ends].tolist(), strict=True))


def _steps(material: Material, shared: Range1d) -> list[Drawing]:
    """Step and order, if they change."""
    drawings = []
    timing = material.present(material.topics.get("timing", []))
    if "master:step" in timing and np.ptp(material.curves["master:step"].y) > 0.0:
        plot = draw_lines(material, shared, ["master:step"])
        drawings.append(Drawing("Length of the macro step", "", plot))
    if "master:order" in timing:
        plot = draw_lines(material, shared, ["master:order"])
        drawings.append(Drawing("Order of extrapolation", "Highest of all connections.", plot))
    material.drawn.update(timing)
    return drawings


def _defects(material: Material, shared: Range1d) -> list[Drawing]:
    drawings = []
    names = material.present(material.topics.get("defects", []))
    for unit, group in _by_unit(material, names).items():
        labels = {name: name.partition(":")[0] for name in group}
        note = (
            "RMS over each step. Inputs: the value sent compared with the source's actual value; "
            "outputs: the value inside the step compared with the output's polynomial."
        )
        plot = draw_lines(material, shared, group, labels)
        heading = f"Coupling defects of inputs and outputs{in_unit(unit)}"
        drawings.append(Drawing(heading, note, plot))
    return drawings


def _rest(material: Material, shared: Range1d, most: int) -> list[Drawing]:
    """Outputs that no other figure shows, by subsystem and unit, in the order of `_rank`."""
    names = [n for n in material.topics.get("outputs", []) if n not in material.drawn]
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(material.present(names), key=lambda name: _rank(material, name)):
        key = name.partition(".")[0], material.units[name]
        groups.setdefault(key, []).append(name)
    drawings = []
    for (subsystem, unit), group in list(groups.items())[: max(most, 0)]:
        labels = {name: words(name.partition(".")[2]) for name in group}
        plot = draw_lines(material, shared, group, labels)
        drawings.append(Drawing(f"Outputs of {subsystem}{in_unit(unit)}", "", plot))
    return drawings


def _rank(material: Material, name: str) -> int:
    """0 for an output of a connection, 1 for another; 2 if it never changed or is a multiplexer."""
    if name in material.multiplexers or not varies(material.curves[name].y):
        return 2
    return 0 if any(source == name for source, _ in material.connections) else 1


def in_unit(unit: str) -> str:
    """``, in N*m``, with 1 for dimensionless; empty for an unknown unit."""
    return "" if unit == "?" else f", in {unit or '1'}"


def _by_unit(material: Material, names: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(material.units[name], []).append(name)
    return groups
