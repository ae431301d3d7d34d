"""Values that grow beyond every measure: where, and in which loop of the topology."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

import numpy as np

from hilrt.tables.given import LARGEST, StepInput
from hilrt.tables.network import Network

#: From an output, by its number, to an input that it is connected to.
Connection = tuple[int, int]


def describe_divergence(network: Network, given: StepInput) -> str:
    """The largest sample beyond all limits, and the loop that it is in, with the remedies."""
    samples = np.where(given.outputs["fresh"] != 0, np.abs(given.outputs["y"]), 0.0)
    samples[~(samples > LARGEST)] = 0.0
    output = int(np.argmax(samples))
    value, unit = float(given.outputs["y"][output]), network.outputs.units[output]
    what = f"{network.outputs.names[output]} = {value:.3g} {unit}".rstrip()
    loop = shortest_loop(network, output)
    if not loop:
        subsystem = network.members[network.outputs.member[output]]
        return (
            f"divergence: {what}; no connection leads back to {subsystem}, so check its model "
            "and its inputs"
        )
    names = network.outputs.names, network.inputs.names
    path = ", ".join(f"{names[0][a]} -> {names[1][b]}" for a, b in loop)
    return (
        f"divergence: {what}, in the loop {path}; a smaller macro step or a lower order of "
        "extrapolation may be stable; `hilrt analyze stability` finds out"
    )


def shortest_loop(network: Network, output: int) -> list[Connection]:
    """Connections from a subsystem back to itself, through `output` if that is possible.

    Within a subsystem every output is taken to depend on every input. Empty if nothing leads back.
    """
    start = int(network.outputs.member[output])
    from_subsystem: dict[int, list[Connection]] = defaultdict(list)
    of = network.outputs.member[network.L.column].tolist()
    for giver, a, b in zip(of, network.L.column.tolist(), network.L.row.tolist(), strict=True):
        from_subsystem[giver].append((a, b))
    others = from_subsystem[start]
    first = [(a, b) for a, b in others if a == output]
    return _way_back(network, from_subsystem, first, start) or _way_back(
        network, from_subsystem, others, start
    )


def _way_back(
    network: Network,
    from_subsystem: Mapping[int, list[Connection]],
    first: list[Connection],
    start: int,
) -> list[Connection]:
    """Shortest chain of connections that begins with one of `first` and ends at `start`."""
    ways = deque([connection] for connection in first)
    seen: set[int] = set()
    while ways:
        way = ways.popleft()
        reached = int(network.inputs.member[way[-1][1]])
        if reached == start:
            return way
        if reached not in seen:
            seen.add(reached)
            ways += [[*way, c] for c in from_subsystem.get(reached, ())]
    return []
