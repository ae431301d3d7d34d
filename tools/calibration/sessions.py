"""One session run by the master: in this process, as fast as possible or on a virtual clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np

from hilrt.config.from_toml import build
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.session.assembly import as_fast_as_possible, assemble, real_time
from hilrt.session.ending import finish, prepare, run, summarise
from hilrt.session.event_log import EventLog
from hilrt.session.initialization import initialize
from hilrt.session.opening import Connected
from hilrt.session.result import Result
from hilrt.step_log.signals import build_topics
from tools.calibration.law import Draw
from tools.calibration.parts import PartSolver, RestorableSolver
from tools.calibration.scripted_links import BenchLink, MeasuredLink, StallingClock, SteppedLink
from tools.calibration.systems import Channels


@dataclass
class Made:
    """Result of a session: its summary, and the outputs of the parts."""

    summary: dict[str, Any]
    fault: str | None
    solvers: dict[str, PartSolver]


def make_session(draw: Draw, renews: bool = True) -> Made:
    """Run the session; without `renews` its parts are not probed along the way."""
    solvers = _solvers(draw)
    clock = StallingClock(draw.stalls[0], round(draw.stalls[1] * 1e9), draw.random)
    links = [_link(draw, name, solver, clock) for name, solver in solvers.items()]
    summary, fault = asyncio.run(_run(draw, links, clock, renews))
    return Made(summary, fault, solvers)


def tables_of(draw: Draw) -> Session:
    """Validated tables of the session."""
    problems: list[str] = []
    pace = "realtime" if draw.scripts else "asap"
    head = {"name": f"session-{draw.number}", "duration": draw.duration, "pace": pace}
    raw = {"session": head, **draw.tables, "subsystems": {}}
    session = build(Session, raw, "", problems)
    subsystems = {
        name: options
        for name, table in draw.tables["subsystems"].items()
        if (options := build(SubsystemOptions, {"adapter": "inprocess", **table}, name, problems))
    }
    if problems or session is None:
        raise ValueError(problems)
    session.subsystems = subsystems
    return session


def _solvers(draw: Draw) -> dict[str, PartSolver]:
    channels, solvers = Channels(draw.system), {}
    for i, part in enumerate(draw.system.parts):
        bonds = []
        for effort, flow in draw.system.bonds:
            pair = _power(draw, channels, i, effort.split("+"), flow)
            bonds.append(pair)
        make = RestorableSolver if draw.restorable[part.name] else PartSolver
        solvers[part.name] = make(part, draw.integrator, bonds, draw.middle)
    return solvers


def _power(
    draw: Draw, channels: Channels, i: int, efforts: list[str], flow: str
) -> tuple[list[int], list[int]]:
    """Outputs and inputs of part `i` whose products are the power of a bond."""
    name = draw.system.parts[i].name
    outputs: list[int] = []
    inputs: list[int] = []
    target = dict(draw.system.connections)
    for effort in efforts:
        if effort.startswith(f"{name}."):
            mine = [b for a, b in draw.system.connections if a == flow and b.startswith(f"{name}.")]
            outputs += channels.outputs[effort]
            inputs += channels.inputs[mine[0]]
    if flow.startswith(f"{name}."):
        outputs += channels.outputs[flow]
        inputs += channels.inputs[target[efforts[0]]]
    first_y, first_u = channels.rows[i].start, channels.columns[i].start
    return [o - first_y for o in outputs], [u - first_u for u in inputs]


def _link(draw: Draw, name: str, solver: PartSolver, clock: StallingClock) -> MeasuredLink:
    script = draw.scripts.get(name)
    kind: type[MeasuredLink] = MeasuredLink
    if script is not None:
        kind = BenchLink if name == draw.bench else SteppedLink
    random = np.random.default_rng(draw.random.integers(2**63))
    link = kind(name, solver, draw.measurements[name], random)
    if isinstance(link, BenchLink | SteppedLink):
        assert script is not None
        link.clock, link.script = clock, script
    return link


async def _run(
    draw: Draw, links: list[MeasuredLink], clock: StallingClock, renews: bool
) -> tuple[dict[str, Any], str | None]:
    tables = tables_of(draw)
    connected = Connected.of(links, tables)
    renews = renews and not draw.scripts
    assembled = await assemble(await initialize(connected), renews=renews)
    if draw.scripts:
        pace = real_time(assembled, tables, clock, 1.0, lambda ns: None)
    else:
        pace = as_fast_as_possible(assembled, tables, links)
    publisher = StatusPublisher(None, tables.session.name, tables.session.duration)
    feed, result = Feed(build_topics(assembled.numerics)), Result()
    prepared = prepare(connected, assembled, pace, feed, EventLog(publisher))
    fault = (await run(prepared, 0)).fault
    finish(prepared.events, assembled.exchange, result, fault)
    summarise(prepared, result, 0.0, real_time=bool(draw.scripts))
    return result.summary, fault
