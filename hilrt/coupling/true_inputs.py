"""True inputs of the step that ended: polynomials through the outputs that drive them.

The true input is ``u = L y + offset`` with the outputs at both ends of the step (docs/methods.md,
"Model-based correction"). Each connection interpolates at its own order, on the nodes s = 1, 0, -1,
... of the normalised time ``s = (t - start)/h``.
"""

from __future__ import annotations

import numpy as np

from hilrt.compilation.compiled import stage
from hilrt.solver import Floats
from hilrt.tables.state import CorrectionTables

#: Highest order supported with Jacobians.
MAX_ORDER = 4


def lagrange_basis(nodes: Floats) -> Floats:
    """Power coefficients of the Lagrange basis: ``l_j(s) = sum_m out[j, m] s^m``.

    Parameters
    ----------
    nodes : ndarray, shape (n,)
        Distinct normalised times s.

    Returns
    -------
    ndarray, shape (n, n)
    """
    n = len(nodes)
    basis = np.empty((n, n))
    for j in range(n):
        others = np.delete(nodes, j)
        polynomial = np.poly(others) if n > 1 else np.ones(1)
        basis[j] = polynomial[::-1] / np.prod(nodes[j] - others)
    return basis


def basis_by_degree(order: int, nodes: Floats | None = None) -> tuple[Floats, Floats]:
    """`basis` and `means` of the model's settings.

    Parameters
    ----------
    order : int
        p.
    nodes : ndarray, shape (p + 2,), optional
        Normalised times of the newest samples; default 1, 0, -1, ... (constant step).

    Raises
    ------
    ValueError
        If the order is none of 0 to `MAX_ORDER`.
    """
    if not 0 <= order <= MAX_ORDER:
        raise ValueError(f"Jacobians of order {order}; the correction has orders 0 to {MAX_ORDER}")
    n = order + 2
    nodes = 1.0 - np.arange(float(n)) if nodes is None else nodes
    basis: Floats = np.zeros((n, n, n))
    for degree in range(n):
        basis[degree, : degree + 1, : degree + 1] = lagrange_basis(nodes[: degree + 1])
    return basis, basis @ (1.0 / np.arange(1.0, n + 1.0))


@stage
def start_errors(parts: CorrectionTables) -> None:
    """Start the true inputs less inputs as sent, with the contributions of past outputs.

    Inputs without connection are exact: their error stays zero.
    """
    connections, ports, settings = parts.connections, parts.ports, parts.settings[0]
    outputs, inputs, samples = parts.outputs, parts.inputs, parts.session[0].samples
    for u in range(len(inputs)):
        for m in range(settings.order + 1):
            inputs[u].error[m] = -inputs[u].sent[m] if ports[u].connected else 0.0
        if not ports[u].connected:
            continue
        if ports[u].drive < 0:
            inputs[u].error[0] += ports[u].constant
        else:
            for m in range(settings.order + 1):
                inputs[u].error[m] += inputs[u].own[m]
    for c in range(len(connections)):
        if not parts.carried[c].acts:
            continue
        error, past = inputs[connections[c].target].error, outputs[connections[c].source].past
        degree = min(connections[c].order, samples)
        for j in range(degree):
            value = parts.carried[c].gain * past[j]
            for m in range(degree + 1):
                error[m] += settings.basis[degree, j + 1, m] * value


@stage
def finish_errors(parts: CorrectionTables) -> None:
    """Add the contribution of the newest, corrected outputs to the errors."""
    connections, settings = parts.connections, parts.settings[0]
    outputs, inputs, samples = parts.outputs, parts.inputs, parts.session[0].samples
    for c in range(len(connections)):
        if not parts.carried[c].acts:
            continue
        error, degree = inputs[connections[c].target].error, min(connections[c].order, samples)
        value = parts.carried[c].gain * outputs[connections[c].source].corrected
        for m in range(degree + 1):
            error[m] += settings.basis[degree, 0, m] * value


@stage
def mean_error(parts: CorrectionTables, u: int) -> float:
    """Mean over the step of the true input, one degree higher than as sent, less the sent one."""
    connections, at, settings = parts.connections, parts.ports[u], parts.settings[0]
    outputs, sent, samples = parts.outputs, parts.inputs[u].sent, parts.session[0].samples
    mean = 0.0
    for c in range(at.first_connection, at.first_connection + at.connections):
        if not parts.carried[c].acts:
            continue
        out, degree = outputs[connections[c].source], min(connections[c].order + 1, samples)
        value = settings.means[degree, 0] * out.corrected
        for j in range(degree):
            value += settings.means[degree, j + 1] * out.past[j]
        mean += parts.carried[c].gain * value
    if at.drive < 0:
        mean += at.constant
    for m in range(settings.order + 1):
        if at.drive >= 0:
            mean += parts.inputs[u].own[m] / (m + 1)
        mean -= sent[m] / (m + 1)
    return mean
