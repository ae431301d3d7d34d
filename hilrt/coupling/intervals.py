"""Intervals: from when to when each subsystem uses what leaves at a communication point.

A subsystem that is due gets the interval ``[t, t + H]`` of its own rate. A late solver that has
just come back stands behind the communication point and gets one merged interval up to the same
end. A bench acts `lead` after it is told (its actuation delay), so that what it is sent belongs to
a time later by that. Polynomials leave about the start of the interval in which they act.
"""

from __future__ import annotations

import numpy as np

from hilrt.compiled import compiled
from hilrt.coupling.limit import limit_channel, limit_jerk
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints


@compiled
def leave(
    t: float,
    h_next: float,
    every: Ints,
    reached: Floats,
    due: Bools,
    busy: Bools,
    owner: Ints,
    lead: Floats,
    low: Floats,
    high: Floats,
    rate: Floats,
    jerk: Floats,
    at_bonds: Ints,
    sent: Floats,
    sent_t0: Floats,
    added: Floats,
    others: Floats,
    flown: Floats,
    flown_t0: Floats,
    flown_added: Floats,
    flown_others: Floats,
    last: Floats,
    last_t: Floats,
    motion: Floats,
    limited: Bools,
    t_start: Floats,
    h: Floats,
    dispatch: Bools,
) -> None:
    """From polynomials about `t` to what leaves; parameters as in the functions below."""
    open_intervals(t, h_next, every, reached, due, busy, t_start, h, dispatch)
    about_starts(sent, sent_t0, t, t_start, owner, lead, others, at_bonds)
    limit_or_keep(
        sent, sent_t0, flown, flown_t0, t, owner, h, dispatch, lead, last, last_t, motion,
        low, high, rate, jerk, limited,
    )  # fmt: skip
    keep_corrections(added, flown_added, others, flown_others, at_bonds, owner, dispatch)


@compiled
def open_intervals(
    t: float,
    h_next: float,
    every: Ints,
    reached: Floats,
    due: Bools,
    busy: Bools,
    t_start: Floats,
    h: Floats,
    dispatch: Bools,
) -> None:
    """Start and length of each subsystem's interval, and whether it gets one now.

    Parameters
    ----------
    t, h_next : float
        Communication point and base macro step from it, s.
    every, reached, due, busy : ndarray, shape (n subsystems,)
        Base steps of a subsystem's own, session time it has been advanced to [s], communicating at
        this point, still computing.
    t_start, h, dispatch : ndarray, shape (n subsystems,)
        Overwritten: start and length [s], and whether inputs leave.
    """
    for s in range(len(every)):
        t_start[s] = reached[s]
        h[s] = every[s] * h_next + (t - reached[s])
        dispatch[s] = due[s] and not busy[s]


@compiled
def about_starts(
    sent: Floats,
    sent_t0: Floats,
    t: float,
    t_start: Floats,
    owner: Ints,
    lead: Floats,
    others: Floats,
    at_bonds: Ints,
) -> None:
    """Move polynomials about `t` to the time when their interval begins to act, in place.

    Parameters
    ----------
    sent : ndarray, shape (order + 1, nu)
    sent_t0 : ndarray, shape (nu,)
        Overwritten: the time each is about now, s.
    t_start, owner, lead
        Start of each subsystem's interval, whose input each is (nu,), and its actuation delay (nu,)
        [s].
    others, at_bonds : ndarray, shape (order + 1, n), (n,)
        Further polynomials to be moved like the inputs `at_bonds`.
    """
    for i in range(len(sent_t0)):
        moved = lead[i] + (t_start[owner[i]] - t)
        sent_t0[i] = t + moved
        _shift_channel(sent, i, moved)
    for j in range(len(at_bonds)):
        i = at_bonds[j]
        _shift_channel(others, j, lead[i] + (t_start[owner[i]] - t))


@compiled
def _shift_channel(c: Floats, i: int, dt: float) -> None:
    orders = len(c)
    if dt == 0.0:
        return
    for k in range(orders - 1):
        value = c[orders - 1, i]
        for m in range(orders - 1 - k, 0, -1):
            value = c[k + m - 1, i] + value * (dt / m)
        c[k, i] = value


@compiled
def limit_or_keep(
    sent: Floats,
    sent_t0: Floats,
    flown: Floats,
    flown_t0: Floats,
    t: float,
    owner: Ints,
    h: Floats,
    dispatch: Bools,
    lead: Floats,
    last: Floats,
    last_t: Floats,
    motion: Floats,
    low: Floats,
    high: Floats,
    rate: Floats,
    jerk: Floats,
    limited: Bools,
) -> None:
    """Limit what leaves over its interval; inputs that do not leave go on with what they have.

    Parameters
    ----------
    sent, sent_t0, flown, flown_t0 : ndarray, shape (order + 1, nu), (nu,)
        What would leave, and what left before, each about its own time [s].
    owner : ndarray of int, shape (nu,)
        The subsystem each input belongs to; `h` [s] and `dispatch` are of the subsystems.
    lead, last, last_t : ndarray, shape (nu,)
        Actuation delay [s], value sent before, and when that was [s].
    motion : ndarray, shape (3, nu)
        How inputs with a bound of their jerk came there: see `limit_jerk`.
    low, high, rate, jerk, limited : ndarray, shape (nu,)
        The bounds, and whether one was in force.
    """
    rows = len(sent)
    for i in range(len(owner)):
        if not dispatch[owner[i]]:
            sent[:, i] = flown[:, i]
            sent_t0[i] = flown_t0[i]
            continue
        end, dt = flown[rows - 1, i], t - flown_t0[i] + lead[i]
        for m in range(rows - 1, 0, -1):
            end = flown[m - 1, i] + end * (dt / m)
        length, elapsed = h[owner[i]], t - last_t[i]
        if np.isfinite(jerk[i]):
            limited[i] = limit_jerk(
                sent, i, length, t, elapsed, last[i], end, motion, low[i], high[i], rate[i], jerk[i]
            )
        else:
            limited[i] = limit_channel(
                sent, i, length, elapsed, last[i], end, low[i], high[i], rate[i]
            )
        last[i], last_t[i] = sent[0, i], t


@compiled
def keep_corrections(
    added: Floats,
    flown_added: Floats,
    others: Floats,
    flown_others: Floats,
    at_bonds: Ints,
    owner: Ints,
    dispatch: Bools,
) -> None:
    """Inputs of subsystems that are not dispatched keep the corrections in them, too.

    Parameters
    ----------
    added, flown_added : ndarray, shape (nu,)
        Corrections in what would leave, and in what left before.
    others, flown_others : ndarray, shape (order + 1, n)
        What of them came to the bonds' inputs `at_bonds` (n,) from elsewhere.
    owner, dispatch : ndarray, shape (nu,), (n subsystems,)
        Whose input each is, and whether inputs leave.
    """
    for i in range(len(added)):
        if not dispatch[owner[i]]:
            added[i] = flown_added[i]
    for j in range(len(at_bonds)):
        if not dispatch[owner[at_bonds[j]]]:
            others[:, j] = flown_others[:, j]
