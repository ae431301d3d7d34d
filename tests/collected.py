"""What a link puts into its inbox, where there is no exchange."""

from __future__ import annotations

from typing import Any, NamedTuple

from hilrt.link import Link
from hilrt.solver import Floats, Sample


class Arrived(NamedTuple):
    """A sample, when it arrived in session time [s], and what else is known of its way."""

    sample: Sample
    t_arrived: float
    way: dict[str, Any]


class Collected:
    """Keeps the samples that are put in."""

    def __init__(self) -> None:
        self.arrived: list[Arrived] = []

    def put(self, sample: Sample, t_arrived: float, **way: Any) -> None:
        self.arrived.append(Arrived(sample, t_arrived, way))


def collect(link: Link) -> None:
    """Keep what the link puts in from now on, for `received`."""
    link.inbox = Collected()


def received(link: Link) -> list[Arrived]:
    """Let the link receive; what it has put in since the last call."""
    if not isinstance(link.inbox, Collected):
        collect(link)
    link.receive()
    assert isinstance(link.inbox, Collected)
    found, link.inbox.arrived = link.inbox.arrived, []
    return found


def dispatch(link: Link, tick: int, t: float, h: float, coefficients: Floats) -> None:
    """Dispatch over the link, and have its message sent."""
    link.dispatch(tick, t, h, coefficients)
    if link.carrier is not None:
        link.carrier.flush()
