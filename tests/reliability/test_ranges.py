"""Values outside the range that is declared for them, in the step and in words."""

import numpy as np
import pytest

from hilrt.errors import SessionFault
from hilrt.link import Ports
from hilrt.reliability.alarms import SAFE, STOP, Ranges
from hilrt.reliability.flags import active_flags, flag_totals
from hilrt.session.ending import value_fault
from hilrt.solver import Port
from tests.stepping import make_numerics

H = 0.01
PORTS = {
    "bench": Ports(
        (Port("demand", "1/min", min=0.0, max=1000.0),),
        (
            Port("speed", "1/min", start=100.0, min=-100.0, max=800.0),
            Port("torque", "N*m"),
        ),
    ),
    "model": Ports((Port("speed", "1/min"), Port("torque", "N*m")), (Port("demand", "1/min"),)),
}
CONNECTIONS = [
    {"from": "bench.speed", "to": "model.speed"},
    {"from": "bench.torque", "to": "model.torque"},
    {"from": "model.demand", "to": "bench.demand"},
]
SPEED, TORQUE = 0, 1


class Cut:
    """Ticks of a bench and a model, with the samples of the bench given."""

    def __init__(self, policy=None, alarms=(), max_misses=50, **bench):
        bench["out_of_range"] = policy
        bench["late"] = {"max_misses": max_misses}
        self.numerics = make_numerics(
            PORTS,
            physical=("bench",),
            master={"step": H},
            connections=CONNECTIONS,
            alarms=list(alarms),
            subsystems={"bench": bench, "model": {}},
        )
        self.state, self.given = self.numerics.state, self.numerics.given
        self.tick = -1

    def step(self, speed=None, torque=0.0):
        """One tick; without a `speed` none has arrived."""
        self.tick += 1
        session, outputs = self.given.session[0], self.given.outputs
        session.tick, session.t = self.tick, self.tick * H
        session.elapsed = H if self.tick else 0.0
        self.given.subsystems["reached"] = session.t
        outputs["y"], outputs["fresh"], outputs["t_valid"] = [0.0, torque, 0.0], 1, session.t
        if speed is None:
            outputs["fresh"][SPEED] = 0
        else:
            outputs["y"][SPEED] = speed
        self.numerics.macro_step()
        self.numerics.assess()
        return self.out.y

    @property
    def out(self):
        return self.state.outputs[SPEED]

    @property
    def sent(self):
        """What the model gets of it: value and slope."""
        return self.state.inputs["polynomial"][1, :2].tolist()

    @property
    def flags(self):
        return active_flags(self.numerics.checks, self.state)

    @property
    def level(self):
        return int(self.state.session[0].alarm_level)


def test_a_value_outside_is_not_used_but_flagged_and_counted():
    """The last value before it is held, without the slope that led to it."""
    cut = Cut("hold")
    for speed in (100.0, 110.0, 120.0):
        assert cut.step(speed) == speed
    assert cut.sent == pytest.approx([120.0, 1000.0])
    assert [cut.step(-8200.0), cut.step(-8200.0), cut.step(None)] == [120.0] * 3
    assert cut.sent == [120.0, 0.0]
    # What it has done meanwhile is unknown: it may have gone on, and the input would be wrong.
    assert cut.flags == [("connection_defect", "model.speed"), ("out_of_range", "bench.speed")]
    assert (cut.out.outside_samples, cut.level) == (2, -1)
    assert cut.step(130.0) == 130.0
    assert not cut.out.outside
    for _ in range(10):
        cut.step(130.0)
    assert cut.flags == []
    assert flag_totals(cut.numerics.checks, cut.state)["out_of_range"].raised == 1


@pytest.mark.parametrize("value", [-100.0, 800.0])
def test_the_bounds_belong_to_the_range(value):
    cut = Cut("hold")
    assert cut.step(value) == value
    assert cut.step(value * (1.0 + 1e-8)) == value * (1.0 + 1e-8)  # rounding
    assert cut.step(value * 1.001) == pytest.approx(value)


def test_used_all_the_same_and_flagged():
    cut = Cut("use", max_misses=1)
    for _ in range(5):
        assert cut.step(-8200.0) == -8200.0
    assert cut.flags == [("out_of_range", "bench.speed")]
    assert (cut.out.outside_samples, cut.level) == (5, -1)


def test_safe_ends_the_session_at_once():
    cut = Cut({"speed": "safe"})
    cut.step(100.0)
    assert cut.level == -1
    cut.step(-8200.0)
    assert cut.level == SAFE
    assert value_fault(cut.numerics) == (
        "bench.speed = -8200 1/min is below -100: its declared range is -100 to 800 "
        '(its out_of_range is "safe")'
    )


def test_outside_without_a_break_it_ends_as_silence_does():
    cut = Cut("hold", max_misses=3)
    for _ in range(2):  # a break in between: the count begins anew
        for _ in range(3):
            cut.step(900.0)
            assert cut.level == -1
        cut.step(100.0)
    for _ in range(3):
        cut.step(900.0)
    cut.step(900.0)
    assert cut.level == SAFE
    text = value_fault(cut.numerics)
    assert "(no usable sample for 4 ticks, late.max_misses is 3; check the sensor, correct" in text


def test_one_sample_outside_ends_nothing_however_late_the_next_one_is():
    """A message may come more rarely than ticks; that it stays away is a matter of its timeout."""
    cut = Cut("hold", max_misses=3)
    cut.step(100.0)
    cut.step(900.0)
    for _ in range(10):
        assert cut.step(None) == 100.0
    assert cut.level == -1
    assert cut.flags == [("out_of_range", "bench.speed")]
    cut.step(900.0)
    assert cut.level == SAFE


@pytest.mark.parametrize("policy", ["hold", "use"])
def test_an_alarm_trips_on_the_value_that_is_not_used(policy):
    """A real overspeed beyond the declared range."""
    overspeed = {"name": "overspeed", "signal": "bench.speed", "max": 850.0, "action": "stop"}
    cut = Cut(policy, alarms=[overspeed])
    cut.step(790.0)
    cut.step(830.0)
    assert cut.level == -1
    cut.step(870.0)
    assert cut.level == STOP
    assert value_fault(cut.numerics) == "alarm: overspeed: bench.speed above 850"


def test_an_alarm_and_a_range_are_both_named_and_the_graver_one_counts():
    overspeed = {"signal": "bench.speed", "max": 850.0, "action": "stop"}
    cut = Cut("safe", alarms=[overspeed])
    cut.step(870.0)
    assert cut.level == SAFE
    assert value_fault(cut.numerics).startswith(
        "alarm: bench.speed above 850; bench.speed = 870 1/min is above 800: its declared range"
    )


def test_what_is_no_number_is_outside_every_range_but_of_no_port_without_one():
    cut = Cut("hold")
    cut.step(100.0)
    assert cut.step(np.nan, torque=np.nan) == 100.0
    assert set(cut.flags) == {
        ("sample_implausible", "bench.speed"),
        ("sample_implausible", "bench.torque"),
        ("out_of_range", "bench.speed"),
    }
    assert not cut.state.outputs["withheld"][TORQUE]


def test_no_number_without_a_break_ends_as_silence_does_where_it_is_connected():
    cut = Cut("hold", max_misses=3)
    for _ in range(4):
        assert cut.level == -1
        cut.step(100.0, torque=np.nan)
    assert cut.level == SAFE
    assert value_fault(cut.numerics) == (
        "bench.torque = nan N*m is not a finite number "
        "(no usable sample for 4 ticks, late.max_misses is 3)"
    )


def test_measurements_are_held_by_default_and_what_is_computed_is_used():
    assert make_numerics(PORTS).plan.outputs["range_policy"].tolist() == [0, 0, 0]
    bench = make_numerics(PORTS, physical=("bench",))
    assert bench.plan.outputs["range_policy"].tolist() == [1, 1, 0]


def test_an_input_is_not_taken_for_realised_by_a_value_that_is_not_used():
    ports = {
        "bench": Ports(
            (Port("torque", "N*m"),), (Port("speed", "rad/s", start=10.0, min=-100.0, max=800.0),)
        ),
        "model": Ports((Port("speed", "rad/s"),), (Port("torque", "N*m", start=5.0),)),
    }
    connections = [
        {"from": "bench.speed", "to": "model.speed"},
        {"from": "model.torque", "to": "bench.torque"},
    ]
    bond = {"name": "shaft", "effort": "bench.speed", "flow": "model.torque"}
    numerics = make_numerics(
        ports, physical=("bench",), connections=connections, bonds=[bond], master={"step": H}
    )
    numerics.plan.inputs["realised_by"][0] = 0
    numerics.given.outputs["fresh"] = 1
    numerics.given.inputs["realised"][0] = 7.0
    for y, lost in ((10.0, 70.0), (-8200.0, 0.0)):
        numerics.given.outputs["y"] = [y, 5.0]
        numerics.macro_step()
        numerics.assess()
        assert numerics.state.bonds[0].tracking == pytest.approx(lost)


def test_the_session_is_not_armed_with_a_value_outside():
    cut = Cut("hold")
    ranges = Ranges(cut.numerics.network, cut.numerics.plan)
    ranges.refuse(np.array([100.0, 0.0, 0.0]))
    text = r"before the first tick: bench.speed = -8200 1/min is below -100: .* -100 to 800;"
    with pytest.raises(SessionFault, match=text):
        ranges.refuse(np.array([-8200.0, 0.0, 0.0]))
    used = Cut("use")
    Ranges(used.numerics.network, used.numerics.plan).refuse(np.array([-8200.0, 0.0, 0.0]))


def test_a_range_with_one_end():
    numerics = make_numerics({"tank": Ports((), (Port("level", "m", min=0.0),))})
    ranges = Ranges(numerics.network, numerics.plan)
    assert ranges.outside(np.array([1e9])).tolist() == [False]
    assert ranges.text(0, -1.0) == "tank.level = -1 m is below 0, a declared limit"
