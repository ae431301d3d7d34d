"""Reference model: approximates a subsystem that cannot be probed itself.

It is created in the master's process before the first tick and probed about the subsystem's start
(`linear_model`). It serves only the estimate of the coupling's error: it sends no samples and
drives nothing. Its ports match the subsystem's by name, and may have other units.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hilrt.config import units
from hilrt.config.structs import SubsystemOptions
from hilrt.errors import ConfigError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import probe
from hilrt.hosting.load_solver import load_solver
from hilrt.link import LinearModel
from hilrt.solver import Floats, Port, Ports, Solver
from hilrt.tables.ports import Coupled, wrong_ports


class SameChannels(NamedTuple):
    """Common channels of the model and the subsystem, with unit conversion.

    ``model[to] = factor * subsystem[of] + offset``, arrays of shape (n,).
    """

    to: list[int]
    of: list[int]
    factor: Floats
    offset: Floats


def load_reference(options: SubsystemOptions, folder: Path) -> Solver:
    """Create the model named by a table; `ConfigError` describes any problem."""
    assert options.reference_model is not None
    return load_solver(options.reference_model, options.reference_params, [folder])


def try_reference(
    solver: Solver, ports: Ports, coupled: Coupled, u: Floats, h: float
) -> LinearModel:
    """Linearise the model about its start, with the subsystem's ports and units.

    Parameters
    ----------
    solver, ports, coupled
        As for `wrong_ports`.
    u : ndarray, shape (nu,)
        The subsystem's inputs at its start.
    h : float
        Its macro step, s.

    Raises
    ------
    ConfigError
        If it cannot represent the subsystem, or cannot be probed.
    """
    problems = list(wrong_ports(Ports(tuple(solver.inputs), tuple(solver.outputs)), ports, coupled))
    if problems:
        raise ConfigError(problems)
    hosted = HostedSolver(solver)
    inputs = same_channels(solver.inputs, ports.inputs)
    outputs = same_channels(solver.outputs, ports.outputs)
    start = np.zeros(hosted.n_inputs)
    start[inputs.to] = inputs.factor * u[inputs.of] + inputs.offset
    try:
        hosted.initialize(0.0, start)
        found = probe(hosted, start, h)
    except Exception as error:  # the user's model may raise any; it must not end the session
        raise ConfigError(f"cannot be probed: {error}") from error
    nu, ny = (sum(port.size for port in side) for side in ports)
    B, D = np.zeros((len(found.A), nu)), np.zeros((ny, nu))
    C = np.zeros((ny, len(found.A)))
    B[:, inputs.of] = found.B[:, inputs.to] * inputs.factor
    C[outputs.of] = found.C[outputs.to] / outputs.factor[:, None]
    through = found.D[np.ix_(outputs.to, inputs.to)] * inputs.factor / outputs.factor[:, None]
    D[np.ix_(outputs.of, inputs.of)] = through
    lacking = tuple(i for i in range(ny) if i not in outputs.of)
    # The model does not show how finely the subsystem follows its inputs.
    return LinearModel(
        *(found.A, B, C, D, np.ones(nu)), False, lacking, of_reference=True, inside=found.inside
    )


def same_channels(own: Sequence[Port], theirs: Sequence[Port]) -> SameChannels:
    """Common channels of a model's and a subsystem's ports, by name."""
    first, at = {}, 0
    for port in theirs:
        first[port.name], at = (at, port), at + port.size
    to: list[int] = []
    of: list[int] = []
    factors, offsets, at = [], [], 0
    for port in own:
        if port.name in first:
            start, other = first[port.name]
            factor, offset = units.conversion(other.unit, port.unit)
            to += range(at, at + port.size)
            of += range(start, start + port.size)
            factors += [factor] * port.size
            offsets += [offset] * port.size
        at += port.size
    return SameChannels(to, of, np.array(factors), np.array(offsets))
