"""Before the first tick: the subsystems are tried out, for the estimate of the coupling's error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hilrt.config.structs import Session
from hilrt.coupling.closed_loop import Sensitivities, sensitivities_of
from hilrt.link import LinearModel, Link
from hilrt.solver import Floats
from hilrt.tables.network import Network

#: From the number of a subsystem, its macro step [s] and its inputs, shape (nu,), to the answers of
#: its reference model; None where it has none that can be tried out.
Reference = Callable[[int, float, Floats], LinearModel | None]


async def find_sensitivities(
    network: Network, tables: Session, links: Sequence[Link], u0: Floats, reference: Reference
) -> Sensitivities:
    """What the subsystems answer to their inputs, as far as it can be tried out.

    Parameters
    ----------
    network, tables, links
        The session's.
    u0 : ndarray, shape (nu,)
        Inputs of the initialized subsystems.
    reference : callable
        Asked for what cannot be tried out itself.
    """
    models = []
    for s, link in enumerate(links):
        h, inputs = float(network.every[s]) * tables.master.step, network.inputs.slices[s]
        found = None if link.physical else await link.linear_model(h, u0[inputs])
        models.append(reference(s, h, u0[inputs]) if found is None else found)
    return sensitivities_of(network, models, tables.master.step)
