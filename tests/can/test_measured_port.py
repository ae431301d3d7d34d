"""Ranges that a database declares, as ranges of ports."""

import math
from types import SimpleNamespace

import cantools
import pytest

from hilrt.can.codec import codec
from hilrt.can.database import SignalRef, declared_range, measured_port

DBC = """VERSION ""
NS_ :
BS_:
BU_: Bench
BO_ 256 Engine: 64 Bench
 SG_ Speed : 0|16@1- (1,0) [-100|800] "1/min" Bench
 SG_ Tenths : 16|16@1+ (0.1,-40) [-40|110.07] "degC" Bench
 SG_ Falling : 32|8@1+ (-0.5,10) [-20|10] "" Bench
 SG_ Unstated : 40|8@1+ (1,0) [0|0] "" Bench
 SG_ Empty : 48|8@1+ (1,0) [5|1] "" Bench
 SG_ Real : 64|32@1- (1,0) [-0.1|0.1] "V" Bench
 SG_ Double : 96|64@1- (1,0) [-0.1|1e+300] "V" Bench
 SG_ Huge : 160|32@1- (1,0) [-1e+300|1e+300] "V" Bench
 SG_ Big : 192|64@1+ (1,0) [0|1.8446744073709552E+019] "" Bench
CM_ SG_ 256 Speed "of the shaft";
SIG_VALTYPE_ 256 Real : 1;
SIG_VALTYPE_ 256 Double : 2;
SIG_VALTYPE_ 256 Huge : 1;
"""


@pytest.fixture(scope="module")
def message():
    return cantools.database.load_string(DBC, "dbc", strict=False).messages[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Speed", (-100.0, 800.0)),
        ("Tenths", (-40.0, 110.10000000000001)),  # 110.1 is the step within half a step of it
        ("Falling", (-20.0, 10.0)),
        ("Unstated", (-math.inf, math.inf)),
        ("Empty", (-math.inf, math.inf)),
        ("Real", (-0.10000000149011612, 0.10000000149011612)),  # 0.1 as a float of 32 bits
        ("Double", (-0.1, 1e300)),
        ("Huge", (-math.inf, math.inf)),
        ("Big", (0.0, 2.0**64)),
    ],
)
def test_the_range_is_the_databases_to_half_a_step(message, name, expected):
    assert declared_range(message.get_signal_by_name(name)) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("name", ["Speed", "Tenths", "Falling", "Real"])
def test_what_cantools_codes_at_a_bound_is_inside(message, name):
    """It rounds to a raw step, too."""
    signal = message.get_signal_by_name(name)
    low, high = declared_range(signal)
    rest = {s.name: 1 for s in message.signals}
    for bound in (signal.minimum, signal.maximum):
        data = message.encode({**rest, name: bound}, strict=False)
        (value,) = codec(message, [name]).decode(data)
        assert low <= value <= high
        assert value == pytest.approx(message.decode(data)[name])


def test_a_port_has_range_unit_and_comment(message):
    port = measured_port("speed", SignalRef(message, message.get_signal_by_name("Speed")))
    assert (port.min, port.max, port.unit) == (-100.0, 800.0, "1/min")
    assert port.description == "of the shaft"


@pytest.mark.parametrize("scale", [0.0, 1e-308])
def test_a_bound_of_no_raw_step_is_taken_as_it_is(scale):
    """A scale of 0 is told of by the check; an error here would come before that."""
    signal = SimpleNamespace(minimum=0, maximum=1e10, is_float=False, scale=scale, offset=0)
    assert declared_range(signal) == (0.0, 1e10)
