"""Before the first tick: the subsystems are tried out, for the estimate of the coupling's error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hilrt.config.structs import Session
from hilrt.coupling.closed_loop import Sensitivities, sensitivities_of
from hilrt.link import LinearModel, Link
from hilrt.solver import Floats
from hilrt.tables.network import MOST_TRIED, Network

#: From the number of a subsystem, its macro step [s] and its inputs, shape (nu,), to the answers of
#: its reference model; None where it has none that can be tried out.
Reference = Callable[[int, float, Floats], LinearModel | None]


async def find_sensitivities(
    network: Network, tables: Session, links: Sequence[Link], u0: Floats, reference: Reference
) -> Sensitivities:
    """Try out what the subsystems answer to their inputs, as far as that is possible.

    Beyond `MOST_TRIED` coupled outputs no subsystem is tried out.

    Parameters
    ----------
    network, tables, links
        The session's.
    u0 : ndarray, shape (nu,)
        Inputs of the initialized subsystems.
    reference : callable
        Asked for what cannot be tried out itself.
    """
    models: list[LinearModel | None] = []
    few = np.count_nonzero(network.L.transposed.in_row) <= MOST_TRIED
    for s, link in enumerate(links if few else ()):
        h, inputs = float(network.every[s]) * tables.master.step, network.inputs.slices[s]
        found = None if link.physical else await link.probes.linear_model(h, u0[inputs])
        models.append(reference(s, h, u0[inputs]) if found is None else found)
    models += [None] * (len(links) - len(models))
    return sensitivities_of(_without_demands(network, tables), models, tables.master.step)


def _without_demands(network: Network, tables: Session) -> Network:
    """The network through which errors pass: what test sequences set is demanded, by definition.

    Neither does an error of what they read go round through them.
    """
    of_sequence = np.array([tables.subsystems[name].is_sequence for name in network.subsystems])
    inputs, outputs = ~of_sequence[network.inputs.owner], ~of_sequence[network.outputs.owner]
    return replace(network, L=network.L.where(inputs, outputs))
