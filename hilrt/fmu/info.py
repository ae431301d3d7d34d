"""``hilrt fmu info``: an FMU's capabilities, and their use here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from hilrt.config import units
from hilrt.fmu.clocks import FmuClock
from hilrt.fmu.description import Fmu, why_not_driven
from hilrt.fmu.fmu_ports import Selection, select
from hilrt.fmu.variables import CONTINUOUS, NUMERIC, flows, items_of, size_of


class Capability(NamedTuple):
    """One capability: its name in FMI, whether it is present, and its consequence here."""

    name: str
    there: bool
    means: str


def capabilities(fmu: Fmu) -> list[Capability]:
    """The capabilities that affect the use of an FMU."""
    co, three = fmu.interface, fmu.major == 3
    order = int(co.maxOutputDerivativeOrder or 0)
    exposed = bool(fmu.model.derivatives)
    rows = [
        _row("variable step size", fmu.variable_step, "any step_control", "fixed macro step only"),
        _row(
            "get and set state",
            bool(co.canGetAndSetFMUstate),
            'jacobian source "probe"; stops at the events of others, as fast as possible',
            'no jacobian source "probe"; steps across the events of others',
        ),
        _row(
            "directional derivatives",
            fmu.directional,
            'jacobian source "solver": '
            + ("A, B, C, D, also for the verdict" if exposed else "only the feedthrough D"),
            "the verdict needs other evidence; inputs at the end of the step are set before "
            "feedthrough is read (end_inputs)",
        ),
        _row(
            f"output derivatives (order {order})",
            order > 0,
            'extrapolation source "taylor"',
            'extrapolation source "lagrange" only',
        ),
    ]
    if three:
        inside = bool(co.providesIntermediateUpdate)
        # Used for all ports or for none.
        settable = [v for v in fmu.named("input") if flows(v)]
        readable = [v for v in fmu.named("output") if v.type in NUMERIC and not v.clocks]
        follows = inside and bool(settable) and all(v.intermediateUpdate for v in settable)
        shows = inside and bool(readable) and all(v.intermediateUpdate for v in readable)
        rows += [
            _row("intermediate update of inputs", follows, *_FOLLOWS),
            _row(
                "intermediate update of outputs",
                shows,
                "output defect without half steps",
                "output defect with half_steps = true",
            ),
            _row(
                "event mode",
                bool(co.hasEventMode),
                "events and clocks handled at their time, inside the step; with get and set state "
                "they become communication points as fast as possible",
                "events are seen at the next communication point, as a defect",
            ),
        ]
    else:
        rows.insert(2, _row("input derivatives", bool(co.canInterpolateInputs), *_FOLLOWS))
    return rows


_FOLLOWS = (
    "follows input polynomials of any order inside a step",
    "inputs are held; substeps = N sets them N times per macro step",
)


def _row(name: str, there: bool, yes: str, no: str) -> Capability:
    return Capability(name, there, yes if there else no)


def page(fmu: Fmu) -> str:
    """The page, as plain text."""
    chosen = select(fmu, {})
    return "\n".join(_lines(fmu, chosen)) + "\n"


def _lines(fmu: Fmu, chosen: Selection) -> Iterator[str]:
    model = fmu.model
    yield f"{fmu.path.name}: {model.modelName}, FMI {model.fmiVersion}, co-simulation"
    if model.description:
        yield f"  {' '.join(model.description.split())}"
    if model.generationTool:
        yield f"  made by {model.generationTool}"
    runs = (
        "runs here"
        if fmu.runs_on_this_host
        else f"does NOT run here: it needs one for {fmu.platform}"
    )
    yield f"  binaries: {', '.join(fmu.platforms) or 'none'} ({runs})"
    for need in fmu.needs:
        yield f"  {need}"
    yield from _experiment(fmu)
    yield ""
    yield from _ports("Inputs", fmu, chosen.inputs, chosen.input_ports)
    yield from _ports("Outputs", fmu, chosen.outputs, chosen.output_ports)
    yield from _parameters(fmu)
    yield from _left_out(fmu)
    yield from _clocks(fmu)
    yield "Capabilities"
    rows = capabilities(fmu)
    width = max(len(row.name) for row in rows)
    for row in rows:
        yield f"  {'yes' if row.there else 'no ':3}  {row.name:{width}}  {row.means}"
    yield from _remarks(chosen)
    if fmu.notes:
        yield ""
        yield "The model description violates the standard:"
        for note in fmu.notes:
            yield f"  {note}"


def _experiment(fmu: Fmu) -> Iterator[str]:
    internal = fmu.interface.fixedInternalStepSize
    if internal:
        yield f"  steps of {internal} s inside: take macro steps that are a multiple of them"
    default = fmu.model.defaultExperiment
    if default is None:
        return
    values = (("step", default.stepSize), ("tolerance", default.tolerance))
    said = ", ".join(f"{name} {value}" for name, value in values if value is not None)
    if said:
        yield f"  made for {said}"


def _ports(title: str, fmu: Fmu, variables: list[Any], ports: Any) -> Iterator[str]:
    yield f"{title} ({len(ports)})"
    described = {u.variable.name for u in fmu.model.outputs if u.dependencies is not None}
    width = max((len(port.name) for port in ports), default=0)
    for variable, port in zip(variables, ports, strict=True):
        words = [variable.type]
        if port.size > 1:
            words.append(f"{port.size} elements")
        words += _items(variable)
        if variable.type == "Clock":
            words.append("a number of ticks")
        elif port.unit and port.unit != units.UNSTATED:
            words.append(port.unit)
        else:
            words.append("no unit" if not variable.unit else f"unknown unit {variable.unit!r}")
        if variable.causality == "input":
            words.append(f"start {port.start:g}")
        elif variable.name not in described and port.feedthrough:
            words.append("direct from all inputs (a guess: the FMU does not declare it)")
        elif port.feedthrough:
            words.append(f"direct from {', '.join(port.feedthrough)}")
        if variable.variability not in ("continuous", None) and variable.type in CONTINUOUS:
            words.append(variable.variability)
        text = f"  {port.name:{width}}  {', '.join(words)}"
        yield text + (f"  – {port.description}" if port.description else "")
    yield ""


def _parameters(fmu: Fmu) -> Iterator[str]:
    some = [*fmu.named("structuralParameter"), *fmu.named("parameter")]
    yield f"Parameters ({len(some)})"
    width = max((len(v.name) for v in some), default=0)
    for v in some:
        unit = f" {v.unit}" if v.unit else ""
        kind = "" if v.causality == "parameter" else "  (structural)"
        size = "".join(f", {size_of(v, {})} elements" for _ in v.dimensions[:1])
        items = "".join(f", {text}" for text in _items(v))
        start = v.start if v.start is not None else "–"
        yield f"  {v.name:{width}}  {v.type} {start}{unit}{size}{items}{kind}"
    yield ""


def _items(variable: Any) -> list[str]:
    """Items of an enumeration, in one text; none for other types."""
    items = items_of(variable)
    return [" ".join(f"{number}={name}" for name, number in items.items())] if items else []


def _clocks(fmu: Fmu) -> Iterator[str]:
    """The clocks, and when they tick here."""
    if not fmu.clocks:
        return
    yield f"Clocks ({len(fmu.clocks)})"
    width = max(len(clock.name) for clock in fmu.clocks)
    for clock in fmu.clocks:
        yield f"  {clock.name:{width}}  {_use_of(fmu, clock)}"
    yield ""


def _use_of(fmu: Fmu, clock: FmuClock) -> str:
    if clock.causality != "input":
        if not clock.is_output:
            return "is internal to the FMU"
        if not fmu.event_mode:
            return "is not used: the FMU has no event mode (hasEventMode)"
        return "an output: the number of its ticks, which are events"
    why = why_not_driven(fmu, clock, True)
    if why:
        return f"is not driven: {why}; its clocked variables keep their start values"
    if clock.triggered:
        return "an input, ticks whenever its number changes: connect a clock that is an output"
    if not clock.periodic:
        return "ticks at times that the FMU gives, driven from here"
    if math.isnan(clock.interval):
        return "ticks in an interval that the FMU gives at its start, driven from here"
    shift = f", first after {clock.shift:g} s" if clock.shift else ""
    return f"ticks every {clock.interval:g} s{shift}, driven from here"


def _left_out(fmu: Fmu) -> Iterator[str]:
    """Inputs and outputs that no port can represent."""
    some = [*fmu.named("input"), *fmu.named("output")]
    for v in (v for v in some if v.type not in (*NUMERIC, "Clock")):
        yield f"  {v.name} ({v.type} {v.causality}) is not a number, so it is not a port"


def _remarks(chosen: Selection) -> Iterator[str]:
    """Warnings, the same as those of `hilrt check`."""
    if chosen.remarks:
        yield ""
        yield "To check"
        for remark in chosen.remarks:
            yield f"  {remark}"
