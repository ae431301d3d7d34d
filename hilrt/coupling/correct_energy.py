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

from hilrt.coupling.power_bond import per_bond, power_residual
from hilrt.network import Bonds, Bools
from hilrt.solver import Floats

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
    def any_held(self) -> bool:
        """Whether any bond uses the held residual."""
        return bool(self.held.any())

    @cached_property
    def none(self) -> Bools:
        """What `active` is while nothing may act."""
        return np.zeros_like(self.active)

    @cached_property
    def everything(self) -> Bools:
        """What `active` is where every bond is corrected."""
        return np.ones_like(self.active)

    @cached_property
    def acting(self) -> Bools:
        """`active`, as the very object `everything` where it is that."""
        return self.everything if self.active.all() else self.active


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
        nb, no = np.zeros(n_bonds), np.zeros(n_bonds, dtype=bool)
        return cls(nb, np.zeros(n_elements), no, nb, nb, nb, no)


def correct_energy(
    bonds: Bonds,
    settings: Settings,
    state: EnergyState,
    e: Floats,
    f: Floats,
    e_sent: Floats,
    f_sent: Floats,
    elapsed: Floats,
    ahead: Floats,
    due: Bools,
    applied: bool,
) -> Corrected:
    """Power residual of the interval that ended, and the correction for the next one.

    Parameters
    ----------
    state : EnergyState
        Updated in place for the bonds that are `due`.
    e, f : ndarray, shape (ne,)
        Effort and flow now, uncorrected, in the outputs' units.
    e_sent, f_sent : ndarray, shape (ne,)
        Values now of the polynomials as sent for the interval that ends, without the correction.
    elapsed, ahead : ndarray, shape (nb,)
        Time since each bond's previous communication point, and to its next one, s.
    due : ndarray of bool, shape (nb,)
        Bonds whose slower side communicates now; the others keep their correction.
    applied : bool
        Whether the session applies corrections at all.
    """
    if settings.any_held:
        held = settings.held[bonds.of_element]
        e_sent = np.where(held, state.e, e_sent)
        f_sent = np.where(held, state.f, f_sent)
    power = power_residual(bonds, e, f, e_sent, f_sent)

    # Close the interval that ends: what its correction did with the flow now known.
    work = per_bond(bonds, bonds.watt * state.correction * f) * elapsed
    uncorrected = state.uncorrected + state.budget + work

    energy = elapsed * power
    budget = settings.mu * energy
    target = budget + settings.nu * uncorrected  # energy to take out over the next interval
    correction, capped = _capped_effort(bonds, settings, target, e, f, ahead)

    acting = settings.acting if applied else settings.none
    everywhere = np.count_nonzero(due) == len(due)
    if not everywhere:  # bonds that are not due keep everything as it is
        element_due = due[bonds.of_element]
        correction = np.where(element_due, correction, state.correction)
        e, f = np.where(element_due, e, state.e), np.where(element_due, f, state.f)
        uncorrected = np.where(due, uncorrected, state.uncorrected)
        budget = np.where(due, budget, state.budget)
        power = np.where(due, power, state.power)
        work, energy, capped = work * due, energy * due, capped & due
    state.uncorrected, state.budget, state.correction = uncorrected, budget, correction
    state.e, state.f, state.power = e, f, power
    effort = correction if acting is settings.everything else correction * acting[bonds.of_element]
    applied_work = work * state.in_force
    state.in_force = acting
    return Corrected(power, effort, capped, energy, work, applied_work, due)


def keep_ledger(state: EnergyState, corrected: Corrected) -> None:
    """Enter a communication point's energies into the ledger (in the slack)."""
    state.residual += corrected.energy
    state.shadow -= corrected.work
    state.corrected -= corrected.applied_work
    state.capped += corrected.capped
    state.steps += corrected.due


def _capped_effort(
    bonds: Bonds, settings: Settings, target: Floats, e: Floats, f: Floats, ahead: Floats
) -> tuple[Floats, Bools]:
    """Effort that takes out `target` [J] over the interval `ahead`, within the caps."""
    scalar = len(bonds) == len(f)
    flow = np.abs(f) if scalar else np.sqrt(per_bond(bonds, f * f))
    effort = np.abs(e) if scalar else np.sqrt(per_bond(bonds, e * e))
    push = bonds.watt_of_bond * flow * ahead  # energy per effort along the flow
    wanted = -target / np.where(flow > FLOW_FLOOR, push, np.inf)
    bound = np.minimum(settings.cap * effort, settings.cap_abs)
    allowed = np.maximum(np.minimum(wanted, bound), -bound)
    capped = allowed != wanted
    if scalar:
        return np.copysign(allowed, allowed * f), capped
    direction = f / np.maximum(flow, FLOW_FLOOR)[bonds.of_element]
    return allowed[bonds.of_element] * direction, capped
