"""True error of a session: its outputs compared with the truth, and the energy of its bonds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hilrt.solver import Floats
from tools.calibration.law import Draw
from tools.calibration.sessions import Made
from tools.calibration.truth import scales

#: Limits of the true error, and the classes between them.
CLASSES = ("< 1 %", "1-5 %", "5-20 %", "> 20 %")
EDGES = (0.01, 0.05, 0.2)
#: Energy errors of a bond above the first limit count as at least the second error.
ENERGY = ((0.5, 0.2), (0.1, 0.05))


def error_class(error: float) -> int:
    """Number of the class of a true error."""
    return int(np.searchsorted(EDGES, error, side="right"))


def compare(draw: Draw, made: Made) -> dict[str, Any]:
    """Part of a session's line that describes its true error."""
    signals, worst, span = {}, 0.0, 0.0
    channels = draw.truth.channels
    coupled = set(channels.coupled())
    for part, rows in zip(draw.system.parts, channels.rows, strict=True):
        times, y = _seen(made, part.name, draw.duration)
        span = max(span, times[-1])
        right = draw.truth.outputs(times)[:, rows]
        measurement = draw.measurements[part.name]
        resolution = np.maximum(measurement.noise, measurement.step)
        scale, _ = scales(right, resolution)
        with np.errstate(all="ignore"):
            error = np.sqrt(np.mean((y - right) ** 2, axis=0))
        for i in range(rows.start, rows.stop):
            if i not in coupled:
                continue
            k = i - rows.start
            relative = _finite(error[k] / scale[k])
            worst = max(worst, relative)
            signals[channels.names[i]] = {
                "error": _finite(error[k]),
                "relative": relative,
                "scale": float(scale[k]),
                "resolution": float(resolution[k]),
            }
    bonds = _bonds(draw, made)
    for bond in bonds.values():
        for energy, least in ENERGY:
            if bond["relative"] > energy:
                worst = max(worst, least)
    diverged = made.fault is not None and "no sample" not in made.fault
    if diverged:
        worst = max(worst, 1.0)
    return {
        "error": worst,
        "class": error_class(worst),
        "signals": signals,
        "bonds": bonds,
        "ended": made.fault,
        "span": span,
    }


def _seen(made: Made, name: str, duration: float) -> tuple[list[float], Floats]:
    """Times and outputs of a part, up to the end of the session."""
    seen = [(t, y) for t, y in made.solvers[name].seen if t <= duration * (1.0 + 1e-9)]
    times = [min(t, duration) for t, _ in seen]
    return times, np.array([y for _, y in seen])


def _bonds(draw: Draw, made: Made) -> dict[str, Any]:
    """Energy created by each bond in addition to the truth's [J], and the range of carried energy.

    In the truth, limits of inputs also create energy at a bond.
    """
    if not draw.system.bonds:
        return {}
    channels, limits = draw.truth.channels, draw.truth.limits
    times = np.linspace(0.0, draw.duration, draw.settings["steps"] + 1)
    y = draw.truth.outputs(times)
    u = np.clip(y @ channels.L.T, limits.low, limits.high)
    found = {}
    for b, (effort, flow) in enumerate(draw.system.bonds):
        into, out = np.zeros(len(times)), np.zeros(len(times))
        target = dict(draw.system.connections)[effort.split("+")[0]]
        for i, j in zip(channels.inputs[target], channels.outputs[flow], strict=True):
            into += u[:, i] * y[:, j]
        for name in effort.split("+"):
            back = _input_of(draw, flow, name.split(".")[0])
            for i, j in zip(channels.outputs[name], channels.inputs[back], strict=True):
                out += y[:, i] * u[:, j]
        carried = float(np.ptp(_integral(times, into)))
        right = float(_integral(times, into - out)[-1])
        receiver = flow.split(".")[0]
        error = made.solvers[receiver].energy[b] - right
        error -= sum(s.energy[b] for name, s in made.solvers.items() if name != receiver)
        found["bond"] = {
            "error_j": _finite(error),
            "carried_j": carried,
            "relative": _finite(abs(error) / max(carried, 1e-300)),
        }
    return found


def _input_of(draw: Draw, output: str, part: str) -> str:
    """Input of a part that is connected to the output."""
    targets = [b for a, b in draw.system.connections if a == output]
    return next(target for target in targets if target.split(".")[0] == part)


def _integral(times: Floats, power: Floats) -> Floats:
    steps = 0.5 * (power[1:] + power[:-1]) * np.diff(times)
    return np.append(0.0, np.cumsum(steps))


def _finite(value: float) -> float:
    """Limit a value to numbers that JSON can represent."""
    return min(float(value), 1e300) if math.isfinite(value) else 1e300
