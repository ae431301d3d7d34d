"""Reference models of subsystems that cannot be tried out, tried out in their place."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hilrt.config.structs import Session
from hilrt.errors import ConfigError
from hilrt.hosting.reference_model import load_reference, try_reference
from hilrt.link import LinearModel, Link
from hilrt.solver import Floats, Ports
from hilrt.tables.network import coupled_ports

log = logging.getLogger("hilrt.reference_model")


class References:
    """Those of a session; what does not work with one is logged, which the session notes."""

    def __init__(self, tables: Session, links: Sequence[Link]) -> None:
        self._tables, self._links = tables, links

    def try_out(self, s: int, h: float, u: Floats) -> LinearModel | None:
        """Answers of the reference model of subsystem `s`; None without one that can be tried out.

        Parameters
        ----------
        s : int
        h : float
            Macro step of the subsystem, s.
        u : ndarray, shape (nu,)
            Its inputs at the start.
        """
        link = self._links[s]
        options = self._tables.subsystems.get(link.name)
        if options is None or options.reference_model is None:
            return None
        try:
            solver = load_reference(options, link.folder)
            ports = Ports(tuple(link.inputs), tuple(link.outputs))
            return try_reference(solver, ports, coupled_ports(self._tables, link.name), u, h)
        except ConfigError as error:
            log.warning(
                "the reference model %s of %s is not used, errors are estimated without it: %s",
                options.reference_model,
                link.name,
                "; ".join(error.problems),
            )
            return None
