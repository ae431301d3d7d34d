"""Drawing of a session: subsystems, connections, bonds, and raised flags at their places."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hilrt.monitor.stream import SessionGraph
from hilrt.monitor.telemetry import RaisedFlag
from hilrt.web.panels import text
from hilrt.wording import words

#: Sizes in the drawing's unit, which is two thirds of a pixel on the narrowest screen.
WIDTH, BOX_WIDTH, BOX_HEIGHT = 640, 172, 62
#: Maximum names on an edge (further ones are counted), and maximum letters of a name.
MAX_NAMES, MAX_LETTERS = 2, 26
#: Height of a line of text.
LINE = 22
#: Bend of the curves between two subsystems, one per direction, as a share of their distance.
BEND = 0.16


def graph_svg(topology: SessionGraph, flags: Sequence[RaisedFlag]) -> str:
    """SVG drawing that scales with its frame, in the page's colours."""
    names = [part.name for part in topology.subsystems]
    if not names:
        return ""
    height = 300 if len(names) <= 2 else 440
    places = _places(names, height)
    raised: dict[str, list[str]] = {}
    for flag in flags:
        raised.setdefault(_place(flag), []).append(flag.cause)
    shapes, drawn = [], set(names)
    for pair, ports in _edges(topology).items():
        if shape := _edge(pair, ports, places, raised):
            shapes.append(shape)
            drawn.update(name for port in ports for name in port)
    for bond in topology.bonds:
        if shape := _bond(bond.name, bond.effort[0], bond.flow, places, raised):
            shapes.append(shape)
            drawn.add(bond.name)
    for place in [place for place in raised if place not in drawn]:  # no line, so use a box
        raised.setdefault(_owner(topology, place), []).extend(raised[place])
    kinds = {part.name: part.adapter for part in topology.subsystems}
    shapes += [_box(name, kinds[name], places[name], raised.get(name, [])) for name in names]
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="session graph"><defs>'
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="11" markerHeight="11" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" class="tip"/></marker>'
        "</defs>"
        f"{''.join(shapes)}</svg>"
    )


def _place(flag: RaisedFlag) -> str:
    """Port, bond or subsystem to which a flag refers; for an alarm the monitored port."""
    if flag.cause == "alarm":
        return flag.where.rpartition(": ")[2].partition(" ")[0].partition("[")[0]
    return flag.where.removesuffix(" (indicator)").partition("[")[0]


def _owner(topology: SessionGraph, place: str) -> str:
    """Subsystem of a port or bond; empty if it is not drawn."""
    bonds = {bond.name: bond.effort[0] for bond in topology.bonds}
    return bonds.get(place, place).partition(".")[0]


Point = tuple[float, float]


def _places(names: Sequence[str], height: float) -> dict[str, Point]:
    """Centres of the boxes: two boxes side by side, more on an ellipse."""
    middle_x, middle_y = WIDTH / 2, height / 2
    if len(names) == 1:
        return {names[0]: (middle_x, middle_y)}
    rx, ry = WIDTH / 2 - BOX_WIDTH / 2 - 4, height / 2 - BOX_HEIGHT / 2 - LINE - 2
    return {
        name: (
            middle_x - rx * math.cos(2 * math.pi * i / len(names)),
            middle_y - ry * math.sin(2 * math.pi * i / len(names)),
        )
        for i, name in enumerate(names)
    }


def _edges(topology: SessionGraph) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Connections, grouped by the pair of subsystems that they connect."""
    edges: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for wire in topology.connections:
        pair = wire.source.partition(".")[0], wire.target.partition(".")[0]
        edges.setdefault(pair, []).append((wire.source, wire.target))
    return edges


def _edge(
    pair: tuple[str, str],
    ports: Sequence[tuple[str, str]],
    places: dict[str, Point],
    raised: dict[str, list[str]],
) -> str:
    if pair[0] not in places or pair[1] not in places or pair[0] == pair[1]:
        return ""
    start, end, middle = _curve(places[pair[0]], places[pair[1]])
    causes = [c for port in ports for name in port for c in raised.get(name, [])]
    labels = [source.partition(".")[2] for source, _ in ports]
    shown = named(labels)
    title = "; ".join(f"{source} → {target}" for source, target in ports)
    kind = "edge flagged" if causes else "edge"
    path = (
        f"M{start[0]:.0f} {start[1]:.0f}Q{middle[0]:.0f} {middle[1]:.0f} {end[0]:.0f} {end[1]:.0f}"
    )
    at_x = (start[0] + 2 * middle[0] + end[0]) / 4
    at_y = (start[1] + 2 * middle[1] + end[1]) / 4
    return (
        f'<g class="{kind}"><title>{text(title)}</title><path d="{path}" marker-end="url(#tip)"/>'
        f'<text x="{at_x:.0f}" y="{at_y - 6:.0f}">{text(shown)}</text>'
        f"{_warning(causes, at_x, at_y + LINE - 3)}</g>"
    )


def named(labels: Sequence[str]) -> str:
    """As many first names as fit, and the number of the others."""
    n = MAX_NAMES if len(", ".join(labels[:MAX_NAMES])) <= MAX_LETTERS else 1
    first = ", ".join(labels[:n])
    if len(first) > MAX_LETTERS:
        first = f"{first[: MAX_LETTERS - 1]}…"
    return f"{first} +{len(labels) - n}" if len(labels) > n else first


def _curve(a: Point, b: Point) -> tuple[Point, Point, Point]:
    """Curve from box to box, bent to the left of its direction."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    middle = ((a[0] + b[0]) / 2 + BEND * dy * 2, (a[1] + b[1]) / 2 - BEND * dx * 2)
    return _leave(a, middle), _leave(b, middle), middle


def _leave(box: Point, towards: Point) -> Point:
    """Point at which a line from a box's centre to `towards` leaves the box."""
    dx, dy = towards[0] - box[0], towards[1] - box[1]
    reach = min(
        BOX_WIDTH / 2 / abs(dx) if dx else math.inf, BOX_HEIGHT / 2 / abs(dy) if dy else math.inf
    )
    return box[0] + dx * reach, box[1] + dy * reach


def _bond(
    name: str, effort: str, flow: str, places: dict[str, Point], raised: dict[str, list[str]]
) -> str:
    ends = [places.get(port.partition(".")[0]) for port in (effort, flow)]
    if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
        return ""
    (x1, y1), (x2, y2) = _leave(ends[0], ends[1]), _leave(ends[1], ends[0])
    causes = raised.get(name, [])
    kind = "bond flagged" if causes else "bond"
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    return (
        f'<g class="{kind}"><title>{text(f"bond {name}: {effort}, {flow}")}</title>'
        f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'
        f'<text x="{x:.0f}" y="{y - 6:.0f}">{text(name)}</text>'
        f"{_warning(causes, x, y + LINE - 3)}</g>"
    )


def _box(name: str, kind: str, place: Point, causes: Sequence[str]) -> str:
    x, y = place[0] - BOX_WIDTH / 2, place[1] - BOX_HEIGHT / 2
    state = "box flagged" if causes else "box"
    warning = _warning(causes, place[0], y + BOX_HEIGHT + LINE - 2)
    return (
        f'<g class="{state}"><rect x="{x:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" '
        f'height="{BOX_HEIGHT}" rx="7"/><text x="{place[0]:.0f}" y="{place[1] - 3:.0f}" '
        f'class="name">{text(name)}</text><text x="{place[0]:.0f}" y="{place[1] + LINE - 3:.0f}" '
        f'class="kind">{text(kind)}</text>{warning}</g>'
    )


def _warning(causes: Sequence[str], x: float, y: float) -> str:
    if not causes:
        return ""
    distinct = list(dict.fromkeys(causes))
    shown = words(distinct[0]) + (f" +{len(distinct) - 1}" if len(distinct) > 1 else "")
    return f'<text x="{x:.0f}" y="{y:.0f}" class="cause">▲ {text(shown)}</text>'
