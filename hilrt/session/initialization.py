"""Initialization of a session's subsystems, before the first step.

In a feedthrough loop outputs and inputs depend on each other. Before the first step, subsystems can
be evaluated repeatedly at the same time. The unknowns are the inputs of the loop. Newton's method
with one difference per input solves a linear loop in one iteration, whatever its gain; fixed-point
iteration needs a gain below 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import numpy as np

from hilrt.errors import ConfigError, SessionFault
from hilrt.expressions.session_program import ChannelValues
from hilrt.link import Link
from hilrt.session.opening import Connected
from hilrt.solver import Floats, Ports, Sample
from hilrt.tables.network import Network, build_network

MAX_ROUNDS = 20
#: Residual at which the loop counts as solved, relative to the inputs or absolute below 1.
TOLERANCE = 1e-9
_DIFFERENCE = 1e-6
#: Condition number above which the differences are unusable.
_SINGULAR = 1e9

#: Map the inputs of the loop to the inputs that the connections then compute, both (n,).
Evaluate = Callable[[Floats], Awaitable[Floats]]


class InitializedSession(NamedTuple):
    """The session at its first communication point: `u0` (nu,), and a sample per subsystem."""

    connected: Connected
    network: Network
    samples: list[Sample]
    u0: Floats


async def initialize(connected: Connected) -> InitializedSession:
    """Initialize the subsystems in the order of feedthrough, with ``u0 = L y``.

    Subsystems in a feedthrough loop are initialized repeatedly until ``u0 = L y`` also holds there.
    If the announced ports do not fit the session, every subsystem is notified and ends.
    """
    tables, links = connected.file.tables, connected.links
    ports = {link.name: Ports(tuple(link.inputs), tuple(link.outputs)) for link in links}
    try:
        network = build_network(ports, tables)
    except ConfigError as error:
        reason = f"the ports do not fit the session: {error}"
        await asyncio.gather(*(link.stop(reason) for link in links))
        raise
    u0, y0 = network.u_start.copy(), np.zeros(len(network.outputs))
    for part, port in network.outputs.ports.values():
        y0[part] = port.start
    samples: dict[int, Sample] = {}
    calculated = ChannelValues(network, tables)
    for s in network.initialization_order(calculated.needs):
        _couple(network, calculated, y0, u0, s)
        await _initialize(links[s], network, samples, y0, u0, s)
    again = [s for s in network.entangled() if not links[s].physical]
    for _ in network.members if again else ():  # after these rounds, only loops still change
        before = u0.copy()
        for s in again:
            _couple(network, calculated, y0, u0, s)
            await _initialize(links[s], network, samples, y0, u0, s)
        if np.array_equal(before, u0):
            break
    _couple(network, calculated, y0, u0)
    if network.loop_members():
        await _close_loop(links, network, calculated, samples, y0, u0)
    if calculated.subsystem is not None:
        channels = network.outputs.slices[calculated.subsystem]
        samples[calculated.subsystem] = Sample(y0[channels])
    return InitializedSession(connected, network, [samples[s] for s in range(len(links))], u0)


async def _initialize(
    link: Link, network: Network, samples: dict[int, Sample], y0: Floats, u0: Floats, s: int
) -> None:
    """Initialize a subsystem with its inputs in `u0`, and store its outputs."""
    samples[s] = await link.initialize(0.0, u0[network.inputs.slices[s]])
    y0[network.outputs.slices[s]] = samples[s].y


async def _close_loop(
    links: Sequence[Link],
    network: Network,
    calculated: ChannelValues,
    samples: dict[int, Sample],
    y0: Floats,
    u0: Floats,
) -> None:
    """Initialize the members of feedthrough loops again until outputs and inputs agree.

    Benches cannot be initialized twice, and are left out.
    """
    members = [s for s in network.loop_members() if not links[s].physical]
    owned = np.isin(network.inputs.owner, members) & network.connected
    unknown = np.flatnonzero(owned)
    if not len(unknown):
        return

    async def evaluate(u: Floats) -> Floats:
        u0[unknown] = u
        for s in members:
            await _initialize(links[s], network, samples, y0, u0, s)
        coupled = u0.copy()
        _couple(network, calculated, y0, coupled)
        return coupled[unknown]

    names = [network.inputs.names[i] for i in unknown]
    u0[unknown] = await close_loop(evaluate, u0[unknown], names)
    _couple(network, calculated, y0, u0)


def _couple(
    network: Network, calculated: ChannelValues, y0: Floats, u0: Floats, of: int | None = None
) -> None:
    """Compute calculated channels and connected inputs from the outputs, within their bounds.

    Either for all subsystems, or for a given one.
    """
    part = slice(0, len(u0)) if of is None else network.inputs.slices[of]
    L = network.L.part(part)
    if of is None or calculated.subsystem in network.outputs.owner[L.column]:
        calculated.fill(y0)
    coupled = np.clip(L @ y0 + network.offset[part], network.u_min[part], network.u_max[part])
    np.copyto(u0[part], coupled, where=network.connected[part])


async def close_loop(evaluate: Evaluate, u: Floats, names: list[str]) -> Floats:
    """Inputs for which the connections return the same inputs, shape (n,).

    Parameters
    ----------
    evaluate : callable
        Evaluates the subsystems; the last call uses the result.
    u : ndarray, shape (n,)
        Initial guess.
    names : list of str
        Names of the inputs, for the message.

    Raises
    ------
    SessionFault
        If there is no solution nearby.
    """
    residual = await evaluate(u) - u
    for _ in range(MAX_ROUNDS):
        if _small(residual, u):
            return u
        slopes = np.empty((len(u), len(u)))
        for i in range(len(u)):
            change = _DIFFERENCE * max(1.0, abs(float(u[i])))
            moved = u.copy()
            moved[i] += change
            slopes[:, i] = (await evaluate(moved) - moved - residual) / change
        if not np.isfinite(slopes).all() or np.linalg.cond(slopes) > _SINGULAR:
            break
        u = u - np.linalg.solve(slopes, residual)
        if not np.isfinite(u).all():
            break
        residual = await evaluate(u) - u
    if _small(residual, u):
        return u
    worst = ", ".join(names[i] for i in np.argsort(-np.abs(residual))[:3])
    raise SessionFault(
        f"the algebraic loop through {worst} has no consistent start values near those of the "
        "ports; give other start values, or break the loop with a state or a filter"
    )


def _small(residual: Floats, u: Floats) -> bool:
    return bool((np.abs(residual) <= TOLERANCE * np.maximum(1.0, np.abs(u))).all())
