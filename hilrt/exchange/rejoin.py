"""Solvers that were lost and come back while the session runs (``late.rejoin``).

They begin anew where the session is: at the next communication point, from the inputs that the
newest samples foretell for it. Nobody waits for that; until the answer is there the solver is late
like any other. Benches are never taken back (`RemoteLink.may_return`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.coupling import polynomial as poly
from hilrt.link import Link
from hilrt.peers.remote_link import RemoteLink
from hilrt.solver import Floats
from hilrt.tables.network import Network


class Returns:
    """Who may come back, and who is on the way.

    Attributes
    ----------
    restarted : set of int
        Subsystems that have been told to initialize again and have not answered.
    """

    def __init__(self, network: Network, links: Sequence[Link]) -> None:
        self._links = [
            (s, link)
            for s, link in enumerate(links)
            if isinstance(link, RemoteLink) and link.options.late.rejoin and not link.physical
        ]
        self._network = network
        self.restarted: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._links)

    def readmit(self, measured: Floats, t: float, t0: float) -> list[int]:
        """Have those that are connected again initialize at `t0` [s]; returns who; never waits.

        `measured`, shape (order + 1, nu), are the input polynomials about `t` [s].
        """
        told, net = [], self._network
        for s, link in self._links:
            if link.returned:
                part = net.inputs.slices[s]
                u0 = poly.evaluate(measured[:, part], t0 - t)
                link.initialize_again(t0, np.clip(u0, net.u_min[part], net.u_max[part]))
                self.restarted.add(s)
                told.append(s)
        return told
