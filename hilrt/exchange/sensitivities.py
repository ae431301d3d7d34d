"""Before the first tick: the subsystems are tried out, for the estimate of the coupling's error."""

from __future__ import annotations

from collections.abc import Sequence

from hilrt.config.structs import Session
from hilrt.coupling.closed_loop import Sensitivities, sensitivities_of
from hilrt.link import Link
from hilrt.solver import Floats
from hilrt.tables.network import Network


async def find_sensitivities(
    network: Network, tables: Session, links: Sequence[Link], u0: Floats
) -> Sensitivities:
    """What the subsystems answer to their inputs, as far as it can be tried out.

    Parameters
    ----------
    network, tables, links
        The session's.
    u0 : ndarray, shape (nu,)
        Inputs of the initialized subsystems.
    """
    models = []
    for s, link in enumerate(links):
        h, inputs = float(network.every[s]) * tables.master.step, network.inputs.slices[s]
        models.append(None if link.physical else await link.linear_model(h, u0[inputs]))
    return sensitivities_of(network, models, tables.master.step)
