"""The kinds of physics: those of the first trial, and those reserved for a second and a third."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.calibration.kinds import apparatus as b
from tools.calibration.kinds import electrical as e
from tools.calibration.kinds import later as x
from tools.calibration.kinds import living as a
from tools.calibration.kinds import mechanical as m
from tools.calibration.kinds import organisms as o
from tools.calibration.kinds import process as p
from tools.calibration.systems import CoupledSystem, Random

Build = Callable[[Random], CoupledSystem]


def _named(*kinds: Build) -> Mapping[str, Build]:
    return {kind.__name__.replace("_", " "): kind for kind in kinds}


FIRST = _named(
    e.resonant_circuit, e.constant_power, e.chopper, e.rectifier, e.motor_and_gear,
    e.controlled_plant, e.levitation, e.van_der_pol_pair, e.battery,
    m.stick_slip, m.clutch, m.late_spring, m.duffing_pair, m.torsion_pendula, m.rotor,
    m.beam_segments, m.tyre, m.ring, m.star, m.cam_and_valve,
    p.thermostat, p.heat_exchanger, p.wall_heat, p.tanks, p.pneumatic_actuator, p.hydraulic_press,
    p.stirred_reactor, p.brusselator, p.autocatalysis,
    a.prey_and_predator, a.food_chain, a.epidemic, a.repressors,
)  # fmt: skip
SECOND = _named(
    x.neurons, x.generators, x.crane, x.ship_and_tank, x.surge, x.laser, x.toggle, x.phase_lock,
    x.ladder, x.hopping_ball, x.truck_and_trailer, x.relay_servo,
)  # fmt: skip
THIRD = _named(
    b.junction, b.loudspeaker, b.elevator, b.water_hammer, b.wind_turbine, b.solar_panel, b.shimmy,
    b.pantograph, b.mooring, b.cold_store, b.drill_string, b.micro_mirror, b.tether,
    o.chemostat, o.insulin, o.virus, o.heart, o.budworm, o.growth_cycle, o.two_oceans, o.pacific,
    o.reactor, o.neutraliser, o.calcium, o.frost,
)  # fmt: skip
#: Kinds and evidence of a trial, by its name: one session per kind and evidence.
RESTORABLE, REFERENCE, NONE = "restorable", "reference model", "none"
TRIALS: Mapping[str, tuple[Mapping[str, Build], tuple[str, ...]]] = {
    "first": (FIRST, (RESTORABLE, RESTORABLE, REFERENCE, NONE)),
    "second": (SECOND, (RESTORABLE, RESTORABLE, REFERENCE, NONE)),
    "third": (THIRD, (RESTORABLE, RESTORABLE, REFERENCE, NONE)),
}
