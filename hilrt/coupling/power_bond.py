"""Power bonds: power residual, tracking error, transmitted power (METHODS section 3, paper 001).

All arrays run over the elements of all bonds, shape (ne,), or over the bonds, shape (nb,), as said.
A bond's sums over its elements are taken with `per_bond`.
"""

from __future__ import annotations

import numpy as np

from hilrt.compiled import compiled
from hilrt.solver import Floats
from hilrt.tables.network import Bonds, Bools, Ints


def per_bond(bonds: Bonds, elements: Floats) -> Floats:
    """Sum over the elements of each bond, shape (nb,)."""
    if len(bonds.first) == len(elements):  # scalar bonds
        return elements
    total: Floats = np.add.reduceat(elements, bonds.first)
    return total


def transmitted_power(bonds: Bonds, e: Floats, f: Floats) -> Floats:
    """Power into the flow side [W], shape (nb,)."""
    return per_bond(bonds, bonds.watt * e * f)


@compiled
def at_point(
    tick: int,
    t: float,
    h_next: float,
    y: Floats,
    effort: Ints,
    more: Ints,
    more_of: Ints,
    flow: Ints,
    every: Ints,
    bond_time: Floats,
    e: Floats,
    f: Floats,
    elapsed: Floats,
    ahead: Floats,
    due: Bools,
) -> None:
    """Effort and flow at a communication point, and which bonds communicate there.

    Parameters
    ----------
    tick, t, h_next : int, float, float
        Number and time [s] of the point, and the base macro step from it, s; at a point between
        those of the grid the number is -1, and no bond is due.
    y : ndarray, shape (ny,)
        Outputs; `effort`, `more`, `more_of`, `flow`, `every` as in `Bonds`.
    bond_time : ndarray, shape (nb,)
        Previous communication point of each bond [s]; moved on where one is due.
    e, f : ndarray, shape (ne,)
        Overwritten: effort and flow.
    elapsed, ahead, due : ndarray, shape (nb,)
        Overwritten: time since each bond's previous point and to its next one [s]; communicating.
    """
    for i in range(len(effort)):
        e[i], f[i] = y[effort[i]], y[flow[i]]
    for m in range(len(more)):
        e[more_of[m]] += y[more[m]]
    for b in range(len(every)):
        elapsed[b], ahead[b] = t - bond_time[b], every[b] * h_next
        due[b] = tick >= 0 and tick % every[b] == 0
        if due[b]:
            bond_time[b] = t


@compiled
def add_efforts(effort: Floats, gain: Floats, effort_input: Ints, added: Floats) -> None:
    """Corrections (ne,), in the units of the inputs, added up at each input (nu,).

    `effort_input` (ne,) may go on with other inputs, which get nothing.
    """
    added[:] = 0.0
    for i in range(len(effort)):
        added[effort_input[i]] += effort[i] * gain[i]


def as_used(
    bonds: Bonds, flown: Floats, age: Floats, added: Floats, others: Floats
) -> tuple[Floats, Floats]:
    """Effort and flow that the receivers used, without the correction, shape (ne,) each.

    Parameters
    ----------
    flown : ndarray, shape (order + 1, nu)
        Input polynomials as sent.
    age : ndarray, shape (nu,)
        Time since each polynomial's origin, s.
    added : ndarray, shape (nu,)
        The correction in `flown`.
    others : ndarray, shape (order + 1, 2 ne)
        What of it came from connections outside the bond, with the same origins; columns as
        ``bonds.inputs``. Looked at only where a bond's input is shared.
    """
    n = len(bonds.effort)
    used: Floats = np.empty((2, n))
    used_values(
        bonds.inputs, flown, age, added, others, bonds.shared,
        bonds.effort_gain, bonds.flow_gain, used,
    )  # fmt: skip
    return used[0], used[1]


@compiled
def used_values(
    inputs: Ints,
    flown: Floats,
    age: Floats,
    added: Floats,
    others: Floats,
    shared: bool,
    effort_gain: Floats,
    flow_gain: Floats,
    used: Floats,
) -> None:
    """`as_used` on the bonds' arrays; into `used`, shape (2, ne): efforts and flows."""
    n, last = len(effort_gain), len(flown) - 1
    for j in range(2 * n):
        i = inputs[j]
        value, other = flown[last, i], others[last, j]
        for m in range(last, 0, -1):
            value = flown[m - 1, i] + value * (age[i] / m)
            other = others[m - 1, j] + other * (age[i] / m)
        own = value - added[i]
        if shared:
            own -= other
        gain = effort_gain[j] if j < n else flow_gain[j - n]
        used[j // n, j % n] = own / gain


def power_residual(bonds: Bonds, e: Floats, f: Floats, e_used: Floats, f_used: Floats) -> Floats:
    """``δP = ẽ f − e f̃`` [W], shape (nb,); positive where the interface created energy.

    Parameters
    ----------
    e, f : ndarray, shape (ne,)
        Effort and flow at the communication point, in the outputs' units, uncorrected.
    e_used, f_used : ndarray, shape (ne,)
        What the receivers used up to it: the polynomials as sent, or the held values.
    """
    return per_bond(bonds, bonds.watt * (e_used * f - e * f_used))


@compiled
def measure_bonds(
    t: float,
    elapsed: float,
    first: Ints,
    watt: Floats,
    effort: Ints,
    more: Ints,
    more_of: Ints,
    flow: Ints,
    flow_input: Ints,
    flow_gain: Floats,
    y: Floats,
    flown: Floats,
    flown_t0: Floats,
    realised: Floats,
    power: Floats,
    tracking: Floats,
    tracking_energy: Floats,
) -> None:
    """Transmitted power ``e f`` and tracking power ``e (f_realised − f̃)`` of every bond, W.

    Tracking power is lost to what a bench made of its demand. Elements whose realised flow is not
    measured (no finite number) count as perfectly realised.

    Parameters
    ----------
    t, elapsed : float
        Communication point, and time since the previous one, s.
    first, watt, effort, more, more_of, flow, flow_input, flow_gain
        Of `Bonds`.
    y, flown, flown_t0, realised : ndarray, shape (ny,), (order + 1, nu), (nu,), (nu,)
        Outputs now, input polynomials as sent with their origins [s], and what became of them.
    power, tracking, tracking_energy : ndarray, shape (nb,)
        The first two are overwritten [W]; to the third the interval's energy is added, J.
    """
    e = np.empty(len(effort))
    for i in range(len(effort)):
        e[i] = y[effort[i]]
    for m in range(len(more)):
        e[more_of[m]] += y[more[m]]
    for b in range(len(first)):
        stop = first[b + 1] if b + 1 < len(first) else len(e)
        power[b], tracking[b] = 0.0, 0.0
        for i in range(first[b], stop):
            power[b] += watt[i] * e[i] * y[flow[i]]
            u = flow_input[i]
            if np.isfinite(realised[u]):
                last, demanded = len(flown) - 1, flown[len(flown) - 1, u]
                for m in range(last, 0, -1):
                    demanded = flown[m - 1, u] + demanded * ((t - flown_t0[u]) / m)
                tracking[b] += watt[i] * e[i] * (realised[u] - demanded) / flow_gain[i]
        tracking_energy[b] += tracking[b] * elapsed
