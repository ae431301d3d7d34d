"""A source and a receiver with stimuli on the receiver's input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hilrt.solver import Port
from tests.stepping import MemoryLink, Recorded, Stepping


def stimulated(
    *stimuli: Mapping[str, Any],
    order: int = 1,
    h: float = 0.1,
    y: Callable[[float], float] = lambda t: 3.0,
    bounds: Mapping[str, Any] | None = None,
    connected: bool = True,
    physical: bool = False,
    **tables: Any,
) -> Stepping:
    """Session of ``source.y -> sink.u`` with stimuli, whose input is filled in."""
    sink = MemoryLink("sink", Recorded({"z": lambda t: 0.0}, [Port("u")]), physical=physical)
    filled = [{"name": f"s{k}", "input": "sink.u", **one} for k, one in enumerate(stimuli)]
    tables.setdefault("master", {"step": h, "extrapolation": {"order": order}})
    tables.setdefault("subsystems", {"source": {}, "sink": {"inputs": {"u": bounds or {}}}})
    connections = [{"from": "source.y", "to": "sink.u"}] if connected else []
    links = {"source": Recorded({"y": y}), "sink": sink}
    return Stepping(links, connections=connections, stimuli=filled, **tables)


def sent(session: Stepping, duration: float) -> np.ndarray:
    """Coefficients of the input that left at each communication point, shape (n, 6)."""
    return np.array(session.run(duration, lambda s: s.state.inputs["polynomial"][0].copy()))


def values(segments: Sequence[Mapping[str, Any]], h: float, duration: float, **keys: Any) -> Any:
    """What the segments put into an input that is not connected, at each communication point."""
    session = stimulated({"segments": segments, **keys}, order=0, h=h, connected=False)
    return sent(session, duration)[:, 0]
