"""What the macro step knows and never changes: the session file turned into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hilrt.config.structs import Reliability, Session, StepControl
from hilrt.coupling.compensate import sampled_at
from hilrt.coupling.correct_energy import Settings
from hilrt.coupling.correct_feedthrough import Feedthrough
from hilrt.coupling.limit import Bounds
from hilrt.coupling.mu import bond_mu, spurious_share
from hilrt.reliability.alarms import AlarmPlan, build_alarms
from hilrt.reliability.flags import Checks, build_checks
from hilrt.reliability.measures import staying_shares
from hilrt.solver import Floats
from hilrt.step.control import Controls, build_controls
from hilrt.tables.network import Bools, Ints, Network

#: A sample this close to the communication point, relative to the step, counts as taken at it.
SAMPLED_SHARE = 0.1
#: Default of ``master.step_control.safety`` by method.
SAFETY = {"local": 6.0, "ecco": 0.95}


@dataclass(frozen=True)
class Plan:
    """Constants of the macro step.

    Attributes
    ----------
    step, first_step : float
        Macro step, and the first one where the step is variable, s.
    depth, rows : int
        Samples kept per output, and coefficients of the polynomials sent: the highest order + 1.
        Order control looks at more samples than it uses.
    full_order : ndarray of int, shape (ny,)
        ``depth - 1``.
    spacing : ndarray, shape (ny,)
        Smallest distance of two samples that count as two, s.
    base : ndarray, shape (nu,)
        Connected inputs: the sum of their offsets; others: their start value.
    lead : ndarray, shape (nu,)
        Actuation delay of a bench's inputs, compensated by sending what is wanted then, s.
    holds_when_late : ndarray of bool, shape (n subsystems,)
        Late policy "hold".
    predicts : ndarray of bool, shape (n subsystems,)
        Late policy "predict".
    shadow : bool
        Corrections of the outputs are computed and not applied.
    feedthrough : Feedthrough or None
    dithers : bool
        Whether any input is excited for identification.
    spurious : ndarray, shape (nb,)
        Share of each bond's residual energy that counts as spurious energy.
    elsewhere : ndarray of bool, shape (nb,)
        Bonds whose effort is corrected by its feedthrough or a model. Their residual, which is that
        of the exchange, is no energy error then.
    """

    network: Network
    step: float
    first_step: float
    step_control: StepControl
    controls: Controls
    depth: int
    rows: int
    full_order: Ints
    spacing: Floats
    base: Floats
    lead: Floats
    bounds: Bounds
    energy: Settings
    holds_when_late: Bools
    predicts: Bools
    reliability: Reliability
    checks: Checks
    shadow: bool
    feedthrough: Feedthrough | None
    dithers: bool
    alarms: AlarmPlan
    spurious: Floats
    elsewhere: Bools

    @cached_property
    def coupled(self) -> Bools:
        """Outputs that are connected to something, shape (ny,)."""
        coupled: Bools = (self.network.L != 0.0).any(axis=0)
        return coupled

    @cached_property
    def predicts_any(self) -> bool:
        """Whether any subsystem has the late policy "predict"."""
        return bool(self.predicts.any())

    @cached_property
    def taylor(self) -> bool:
        """Whether any connection uses output derivatives."""
        return bool(self.network.connections.taylor.any())

    @cached_property
    def fed(self) -> Bools:
        """Inputs that a subsystem gives to another one, shape (nu, n subsystems)."""
        net = self.network
        own = np.arange(len(net.subsystems))
        from_subsystem = (net.L != 0.0).astype(np.intp) @ (net.outputs.owner[:, None] == own)
        fed: Bools = (from_subsystem > 0) & (net.inputs.owner[:, None] != own)
        return fed

    @cached_property
    def passes(self) -> Bools:
        """Outputs that depend directly on inputs that another subsystem gives, shape (ny, n)."""
        through: Bools = self.network.feedthrough @ self.fed
        return through

    @cached_property
    def receives(self) -> Bools:
        """Subsystems with an input that another subsystem gives, shape (n, n)."""
        net = self.network
        own = np.arange(len(net.subsystems))
        receives: Bools = (net.inputs.owner[:, None] == own).T @ self.fed
        return receives

    @property
    def variable_step(self) -> bool:
        """Whether each step depends on the one before."""
        return self.step_control.method != "fixed"

    def sampled(self, fresh: Bools, t_valid: Floats, t: float) -> list[bool]:
        """For every subsystem, whether all its outputs were measured at `t` [s]."""
        sampled = np.empty(len(self.network.subsystems), dtype=bool)
        sampled_at(
            t, SAMPLED_SHARE * self.step, t_valid, fresh, self.network.outputs.owner, sampled
        )
        return sampled.tolist()

    def at_minimum(self, h: float) -> bool:
        """Whether a step of size `h` [s] is the smallest that the step control may choose."""
        return self.variable_step and h <= self.step_control.minimum

    @cached_property
    def corrects_elsewhere(self) -> bool:
        """Whether any bond's effort is corrected otherwise than by energy."""
        return bool(self.elsewhere.any())

    def spurious_shares(self, untrusted: Floats, applied: bool) -> Floats:
        """Share of each bond's residual energy that stays in the system, shape (nb,).

        Parameters
        ----------
        untrusted : ndarray, shape (ny,)
            Not zero for outputs that are not corrected because their Jacobian is not trusted.
        applied : bool
            Whether the session applies corrections at all.
        """
        if self.shadow or not applied or not self.corrects_elsewhere:
            return self.spurious
        bonds, shares = self.network.bonds, np.empty_like(self.spurious)
        staying_shares(
            self.spurious, self.elsewhere, bonds.of_element, bonds.effort, untrusted, shares
        )
        return shares

    @cached_property
    def safety(self) -> float:
        """Safety factor of the step control."""
        given = self.step_control.safety
        return given if given is not None else SAFETY.get(self.step_control.method, 1.0)


def build_plan(
    network: Network,
    tables: Session,
    physical: Bools,
    lead: Floats,
    shadow: bool = False,
    feedthrough: Feedthrough | None = None,
) -> Plan:
    """Turn a session file into the constants of the macro step.

    Parameters
    ----------
    physical : ndarray of bool, shape (n subsystems,)
        Benches and whatever else runs by itself.
    lead : ndarray, shape (n subsystems,)
        Actuation delay of each subsystem, s.
    shadow : bool
        Compute every correction and apply none.
    feedthrough : Feedthrough, optional
        Where any bond is corrected by its feedthrough.
    """
    controls = build_controls(network, tables.master)
    mus = [bond_mu(network, b, physical).value for b in range(len(network.bonds))]
    alarms = build_alarms(network, tables.alarms, tables.master.step)
    master, owner = tables.master, network.outputs.owner
    control = master.step_control
    spacing = np.where(physical[owner], 0.5 * master.step * network.every[owner], 0.0)
    late = [tables.subsystems[name].late.policy for name in network.subsystems]
    return Plan(
        network=network,
        step=master.step,
        first_step=control.initial
        if control.initial is not None and control.method != "fixed"
        else master.step,
        step_control=control,
        controls=controls,
        depth=controls.depth,
        rows=controls.highest + 1,
        full_order=np.full(len(network.outputs), controls.depth - 1, dtype=np.intp),
        spacing=spacing,
        base=np.where(network.connected, network.offset, network.u_start),
        lead=lead[network.inputs.owner],
        bounds=Bounds(network.u_min, network.u_max, network.u_rate, network.u_jerk),
        energy=_energy(network, mus, physical, shadow),
        holds_when_late=np.array([policy == "hold" for policy in late]),
        predicts=np.array([policy == "predict" for policy in late]),
        reliability=tables.reliability,
        checks=build_checks(
            network, tests_errors=controls.tests, alarms=alarms.names, acting=not shadow
        ),
        alarms=alarms,
        shadow=shadow,
        feedthrough=feedthrough,
        dithers=any(
            table.jacobian is not None and table.jacobian.dither > 0.0
            for table in tables.subsystems.values()
        ),
        spurious=np.array([spurious_share(network, b, physical) for b in range(len(mus))]),
        elsewhere=np.array(
            [b.correction.method in ("feedthrough", "model") for b in network.bonds.tables],
            dtype=bool,
        ),
    )


def _energy(
    network: Network, mus: Sequence[float | None], physical: Bools, shadow: bool
) -> Settings:
    """Settings per bond; with μ unknown, or where it would act on a bench, it is shadow."""
    tables = [bond.correction for bond in network.bonds.tables]
    flow_side = network.inputs.owner[network.bonds.effort_input[network.bonds.first]]
    allowed = [
        mu is not None
        and (not physical[side] or (correction.permit_on_bench and correction.cap_abs is not None))
        for mu, correction, side in zip(mus, tables, flow_side, strict=True)
    ]
    wanted = np.array([c.method == "energy" for c in tables], dtype=bool)
    return Settings(
        mu=np.array([0.0 if mu is None else mu for mu in mus]),
        nu=np.array([c.nu for c in tables]),
        cap=np.array([c.cap for c in tables]),
        cap_abs=np.array([np.inf if c.cap_abs is None else c.cap_abs for c in tables]),
        held=np.array([c.residual == "held" for c in tables], dtype=bool),
        wanted=wanted,
        active=wanted & np.array(allowed, dtype=bool) & (not shadow),
    )
