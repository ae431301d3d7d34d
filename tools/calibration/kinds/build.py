"""Notation of a kind of physics: parts as functions on lists; the first states are the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hilrt.solver import Port
from tools.calibration.parts import Equation, Part, Values
from tools.calibration.systems import CoupledSystem, Random, log_uniform

#: Feedthrough of an output that has none at the start, but may have it later.
NONE_YET = 1e-12
#: Suffix of the inputs' names, which distinguishes the ports in a summary.
INTO = "_in"


def make(
    name: str,
    ports: tuple[str, str],
    x0: list[float],
    fastest: float,
    rates: Equation,
    output: Equation | None = None,
    direct: str = "",
) -> Part:
    """A part with scalar ports.

    Parameters
    ----------
    name : str
    ports : (str, str)
        Names of the inputs and of the outputs, with blanks between.
    x0 : list of float
        State at the start.
    fastest : float
        Fastest motion with the inputs held, rad/s.
    rates, output : callable
        See `Part`; without `output`, the first states are the outputs.
    direct : str
        Outputs with direct feedthrough.
    """
    inputs, outputs = (text.split() for text in ports)
    found = output or (lambda t, x, u: list(x[: len(outputs)]))
    through = np.zeros((len(outputs), len(inputs)))
    for j in range(len(inputs)):
        up, down = ([d * (i == j) for i in range(len(inputs))] for d in (1e-6, -1e-6))
        change = np.subtract(found(0.0, x0, up), found(0.0, x0, down)) / 2e-6
        through[:, j] = [
            (change[i] or NONE_YET) * (port in direct.split()) for i, port in enumerate(outputs)
        ]
    taken = tuple(f"{port}{INTO}" for port in inputs)
    made = tuple(
        Port(port, feedthrough=taken if port in direct.split() else ()) for port in outputs
    )
    return Part(name, tuple(map(Port, taken)), made, x0, fastest, through, rates, found)


def couple(parts: list[Part], wires: str, omega: float, span: float) -> CoupledSystem:
    """System of parts with wires as ``a.y>b.u``; fastest relevant motion [rad/s] and duration [s].

    The last part can be a bench.
    """
    pairs = [
        (source, target + INTO) for source, _, target in (w.partition(">") for w in wires.split())
    ]
    return CoupledSystem(parts, pairs, [], omega, parts[-1].name, {"span": span})


def draws(random: Random) -> Callable[[float], float]:
    """Numbers up to a third smaller or larger than those given."""
    return lambda value: value * log_uniform(random, 0.75, 1.333)


def smooth_step(t: float, at: float, width: float) -> float:
    """Smooth step from 0 to 1 about a time, s."""
    return 0.5 * (1.0 + math.tanh((t - at) / width))


def above_zero(x: float, soft: float) -> float:
    """Larger of `x` and 0 with a rounded corner, for contacts and slack ropes."""
    return 0.5 * (x + math.hypot(x, soft))


def schmitt(s: float, drive: float, time: float) -> float:
    """Rate of a two-state switch at -1 or 1, which switches where `drive` exceeds ± 0.385."""
    return (s - s * s * s + drive) / time


def root(x: float, soft: float) -> float:
    """Square root with the sign of its argument and a finite slope at 0."""
    return x / math.sqrt(math.sqrt(x * x + soft * soft))


__all__ = ["Values", "above_zero", "couple", "draws", "make", "root", "schmitt", "smooth_step"]
