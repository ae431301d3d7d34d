"""Energy correction: the effort is changed so that it takes back what the interface created.

METHODS section 3, paper 001. With ``ς = μ H δP`` and 𝒰 the energy not yet corrected::

    e_corr = −(ς + ν 𝒰) / (f H'),   limited to ±cap |e| and ±cap_abs

H' is the interval that the correction acts in, the next one; with a fixed step it is H. For a
vector bond the correction points along the flow: ``e_corr = −(ς + ν 𝒰) f / (f·f H')``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hilrt.compiled import compiled
from hilrt.coupling.power_bond import add_efforts, at_point, used_values
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints

#: Below this flow (in its own unit) the correction has nothing to push against.
FLOW_FLOOR = 1e-12


@dataclass(frozen=True)
class Settings:
    """How each bond is corrected, arrays of shape (nb,); `cap_abs` is in the effort's unit."""

    mu: Floats
    nu: Floats
    cap: Floats
    cap_abs: Floats
    held: Bools
    wanted: Bools  #: the session file asks for the correction
    active: Bools  #: and it may act; otherwise it runs in shadow

    @cached_property
    def none(self) -> Bools:
        """What `active` is while nothing may act."""
        return np.zeros_like(self.active)


@dataclass(slots=True)
class EnergyState:
    """What the correction remembers between communication points.

    Attributes
    ----------
    e, f : ndarray, shape (ne,)
        Effort and flow at the previous communication point.
    correction : ndarray, shape (ne,)
        Correction in force since then (also when it is not applied).
    in_force : ndarray of bool, shape (nb,)
        Whether it has been applied since then.
    budget : ndarray, shape (nb,)
        ``ς`` of then, J.
    uncorrected : ndarray, shape (nb,)
        𝒰 up to the interval before, J.
    power : ndarray, shape (nb,)
        δP at each bond's own last communication point, W.
    residual, corrected, shadow, tracking : ndarray, shape (nb,)
        Ledger [J]: ΣH δP; −ΣH e_corr f as applied, and as computed; ΣH e (f_realised − f̃).
    capped, steps : ndarray, shape (nb,)
        Steps at the cap, and steps.
    """

    e: Floats
    f: Floats
    correction: Floats
    in_force: Bools
    budget: Floats
    uncorrected: Floats
    power: Floats
    residual: Floats
    corrected: Floats
    shadow: Floats
    tracking: Floats
    capped: Floats
    steps: Floats

    @classmethod
    def start(cls, e: Floats, f: Floats, n_bonds: int) -> EnergyState:
        """State at the first communication point, with effort and flow there, shape (ne,)."""
        zero = [np.zeros(n_bonds) for _ in range(9)]
        in_force = np.zeros(n_bonds, dtype=bool)
        return cls(e.copy(), f.copy(), np.zeros(len(e)), in_force, *zero)


@dataclass(slots=True)
class Corrected:
    """Result at a communication point.

    Attributes
    ----------
    power : ndarray, shape (nb,)
        δP at the bond's own last communication point, W.
    effort : ndarray, shape (ne,)
        Effort to add over the next interval.
    capped : ndarray of bool, shape (nb,)
        The correction is at its cap.
    energy, work, applied_work : ndarray, shape (nb,)
        Of the interval that ended [J]: H δP, and e_corr f H as computed and as applied; 0 where
        the bond did not communicate.
    due : ndarray of bool, shape (nb,)
        The bond communicates now.
    """

    power: Floats
    effort: Floats
    capped: Bools
    energy: Floats
    work: Floats
    applied_work: Floats
    due: Bools

    @classmethod
    def nothing(cls, n_bonds: int, n_elements: int) -> Corrected:
        """No correction and no energy."""
        power, energy, work, applied = np.zeros((4, n_bonds))
        capped, due = np.zeros((2, n_bonds), dtype=bool)
        return cls(power, np.zeros(n_elements), capped, energy, work, applied, due)


@compiled
def correct_bonds(
    tick: int,
    t: float,
    h_next: float,
    y: Floats,
    flown: Floats,
    flown_t0: Floats,
    flown_added: Floats,
    flown_others: Floats,
    bonds_effort: Ints,
    bonds_more: Ints,
    bonds_more_of: Ints,
    bonds_flow: Ints,
    bonds_inputs: Ints,
    bonds_shared: bool,
    effort_gain: Floats,
    flow_gain: Floats,
    bonds_every: Ints,
    first: Ints,
    watt: Floats,
    mu: Floats,
    nu: Floats,
    cap: Floats,
    cap_abs: Floats,
    held: Bools,
    acting: Bools,
    bond_time: Floats,
    e_past: Floats,
    f_past: Floats,
    correction: Floats,
    in_force: Bools,
    budget: Floats,
    uncorrected: Floats,
    past_power: Floats,
    due: Bools,
    power: Floats,
    effort: Floats,
    capped: Bools,
    energy: Floats,
    work: Floats,
    applied_work: Floats,
    added: Floats,
) -> None:
    """From the outputs at a communication point to the corrections in the inputs.

    Parameters as in `at_point`, `as_used`, `correct_energy` and `add_efforts`, which it calls.
    """
    points, spans = np.empty((4, len(bonds_effort))), np.empty((2, len(first)))
    e, f, used = points[0], points[1], points[2:]
    at_point(
        tick, t, h_next, y, bonds_effort, bonds_more, bonds_more_of, bonds_flow, bonds_every,
        bond_time, e, f, spans[0], spans[1], due,
    )  # fmt: skip
    used_values(
        bonds_inputs, flown, t - flown_t0, flown_added, flown_others, bonds_shared, effort_gain,
        flow_gain, used,
    )  # fmt: skip
    correct_energy(
        first, watt, mu, nu, cap, cap_abs, held, acting, e_past, f_past, correction, in_force,
        budget, uncorrected, past_power, e, f, used[0], used[1], spans[0], spans[1], due, power,
        effort, capped, energy, work, applied_work,
    )  # fmt: skip
    add_efforts(effort, effort_gain, bonds_inputs, added)


@compiled
def correct_energy(
    first: Ints,
    watt: Floats,
    mu: Floats,
    nu: Floats,
    cap: Floats,
    cap_abs: Floats,
    held: Bools,
    acting: Bools,
    e_past: Floats,
    f_past: Floats,
    correction: Floats,
    in_force: Bools,
    budget: Floats,
    uncorrected: Floats,
    past_power: Floats,
    e: Floats,
    f: Floats,
    e_sent: Floats,
    f_sent: Floats,
    elapsed: Floats,
    ahead: Floats,
    due: Bools,
    power: Floats,
    effort: Floats,
    capped: Bools,
    energy: Floats,
    work: Floats,
    applied_work: Floats,
) -> None:
    """Power residual of the interval that ended, and the correction for the next one.

    Parameters
    ----------
    first, watt, mu, nu, cap, cap_abs, held
        Of `Bonds` and `Settings`.
    acting : ndarray of bool, shape (nb,)
        Bonds whose correction is applied from now on.
    e_past, f_past, correction, in_force, budget, uncorrected, past_power
        Of `EnergyState`; changed for the bonds that are due.
    e, f : ndarray, shape (ne,)
        Effort and flow now, uncorrected, in the outputs' units.
    e_sent, f_sent : ndarray, shape (ne,)
        Values now of the polynomials as sent for the interval that ends, without the correction.
    elapsed, ahead : ndarray, shape (nb,)
        Time since each bond's previous communication point, and to its next one, s.
    due : ndarray of bool, shape (nb,)
        Bonds whose slower side communicates now; the others keep their correction.
    power, effort, capped, energy, work, applied_work
        Of `Corrected`; overwritten.
    """
    for b in range(len(first)):
        stop = first[b + 1] if b + 1 < len(first) else len(e)
        if due[b]:
            # Close the interval that ends: what its correction did with the flow now known.
            residual, done, square_e, square_f = 0.0, 0.0, 0.0, 0.0
            for i in range(first[b], stop):
                e_used = e_past[i] if held[b] else e_sent[i]
                f_used = f_past[i] if held[b] else f_sent[i]
                residual += watt[i] * (e_used * f[i] - e[i] * f_used)
                done += watt[i] * correction[i] * f[i]
                square_e += e[i] * e[i]
                square_f += f[i] * f[i]
                e_past[i], f_past[i] = e[i], f[i]
            past_power[b] = residual
            energy[b], work[b] = elapsed[b] * residual, done * elapsed[b]
            applied_work[b] = work[b] if in_force[b] else 0.0
            uncorrected[b] += budget[b] + work[b]
            budget[b] = mu[b] * energy[b]
            # Energy to take out over the next interval, and the effort along the flow for it.
            target = budget[b] + nu[b] * uncorrected[b]
            flow, size = np.sqrt(square_f), np.sqrt(square_e)
            wanted = -target / (watt[first[b]] * flow * ahead[b]) if flow > FLOW_FLOOR else 0.0
            bound = cap_abs[b] if np.isinf(cap[b]) else min(cap[b] * size, cap_abs[b])
            allowed = max(min(wanted, bound), -bound)
            capped[b] = allowed != wanted
            for i in range(first[b], stop):
                correction[i] = allowed * (f[i] / flow) if flow > FLOW_FLOOR else 0.0
        else:  # a bond that is not due keeps everything as it is
            energy[b], work[b], applied_work[b], capped[b] = 0.0, 0.0, 0.0, False
        power[b], in_force[b] = past_power[b], acting[b]
        for i in range(first[b], stop):
            effort[i] = correction[i] if acting[b] else 0.0


def keep_ledger(state: EnergyState, corrected: Corrected) -> None:
    """Enter a communication point's energies into the ledger (in the slack)."""
    _keep_ledger(
        corrected.energy,
        corrected.work,
        corrected.applied_work,
        corrected.capped,
        corrected.due,
        state.residual,
        state.shadow,
        state.corrected,
        state.capped,
        state.steps,
    )


@compiled
def _keep_ledger(
    energy: Floats,
    work: Floats,
    applied_work: Floats,
    capped_now: Bools,
    due: Bools,
    residual: Floats,
    shadow: Floats,
    corrected: Floats,
    capped: Floats,
    steps: Floats,
) -> None:
    for b in range(len(energy)):
        residual[b] += energy[b]
        shadow[b] -= work[b]
        corrected[b] -= applied_work[b]
        capped[b] += capped_now[b]
        steps[b] += due[b]
