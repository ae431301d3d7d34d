"""Unit conversion: spellings of the field, offsets, and what is refused."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.config import units
from hilrt.config.units import UNSTATED, conversion, is_power, power_factor
from hilrt.errors import ConfigError

RPM = 2 * math.pi / 60


@pytest.mark.parametrize(
    ("source", "target", "factor", "offset"),
    [
        ("rpm", "rad/s", RPM, 0.0),
        ("1/min", "rad/s", RPM, 0.0),
        ("Volt", "mV", 1000.0, 0.0),
        ("Amps", "A", 1.0, 0.0),
        ("Ampere", "mA", 1000.0, 0.0),
        ("min-1", "rad/s", RPM, 0.0),
        ("U/min", "rpm", 1.0, 0.0),
        ("deg", "rad", math.pi / 180, 0.0),
        ("°/s", "rad/s", math.pi / 180, 0.0),
        ("1/s", "rad/s", 1.0, 0.0),
        ("rad", "1", 1.0, 0.0),
        ("%", "", 0.01, 0.0),
        ("", "%", 100.0, 0.0),
        ("-", "%", 100.0, 0.0),
        ("-", "", 1.0, 0.0),
        ("°C", "K", 1.0, 273.15),
        ("degC", "K", 1.0, 273.15),
        ("deg C", "°C", 1.0, 0.0),
        ("K", "degC", 1.0, -273.15),
        ("degC", "degF", 1.8, 32.0),
        ("km/h", "m/s", 1 / 3.6, 0.0),
        ("kPa", "bar", 0.01, 0.0),
        ("l/h", "m^3/s", 1e-3 / 3600, 0.0),
        ("g/s", "kg/h", 3.6, 0.0),
        ("N.m", "N*m", 1.0, 0.0),
        ("Nm", "N*m", 1.0, 0.0),
        ("N·m", "kNm", 1e-3, 0.0),
        ("kg.m2", "g*m**2", 1e3, 0.0),
        ("m.s-2", "m/s^2", 1.0, 0.0),
        ("W.h", "J", 3600.0, 0.0),
    ],
)
def test_converts(source, target, factor, offset):
    assert conversion(source, target) == pytest.approx((factor, offset), rel=1e-14)


@pytest.mark.parametrize(
    ("source", "target"),
    [("N*m", "rad/s"), ("", "V"), ("degC", "bar"), ("kg/s", "kg"), ("N*m", "N")],
)
def test_different_dimensions_are_refused_naming_both(source, target):
    with pytest.raises(ConfigError, match="dimensions differ") as caught:
        conversion(source, target)
    assert repr(source) in str(caught.value)
    assert repr(target) in str(caught.value)


@pytest.mark.parametrize(
    ("source", "target"), [("Hz", "rad/s"), ("rpm", "1/s"), ("deg", ""), ("turn", "-")]
)
def test_counts_do_not_silently_become_angles(source, target):
    with pytest.raises(ConfigError, match="angular unit"):
        conversion(source, target)


@pytest.mark.parametrize(("source", "target"), [("N*m", "J"), ("kWh", "Nm"), ("lbf*ft", "kJ")])
def test_a_torque_is_not_an_energy(source, target):
    with pytest.raises(ConfigError, match="a torque is not an energy"):
        conversion(source, target)


@pytest.mark.parametrize("unit", ["furlongs per glass", "(", "N**", "stroke"])
def test_an_unknown_unit_is_named(unit):
    with pytest.raises(ConfigError, match="is unknown") as caught:
        conversion(unit, "m")
    assert repr(unit) in str(caught.value)


def test_unknown_units_that_are_equal_convert_unchanged():
    assert conversion("mg/stroke", "mg/stroke") == (1.0, 0.0)


def test_an_unstated_unit_converts_to_anything():
    assert conversion(UNSTATED, "%") == (1.0, 0.0)
    assert conversion("rpm", UNSTATED) == (1.0, 0.0)


UNITS = [
    ["N*m", "kNm", "lbf*ft"],
    ["rpm", "rad/s", "deg/s"],
    ["K", "degC", "degF"],
    ["bar", "kPa", "psi"],
    ["%", "", "-"],
]


@given(
    st.sampled_from(UNITS).flatmap(lambda same: st.tuples(*[st.sampled_from(same)] * 3)),
    st.floats(-1e6, 1e6),
)
def test_conversions_chain_and_invert(units, value):
    def convert(x, a, b):
        factor, offset = conversion(a, b)
        return factor * x + offset

    a, b, c = units
    direct = convert(value, a, c)
    assert convert(convert(value, a, b), b, c) == pytest.approx(direct, rel=1e-9, abs=1e-9)
    assert convert(direct, c, a) == pytest.approx(value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("effort", "flow", "power"),
    [
        ("N*m", "rad/s", True),
        ("Nm", "1/min", True),
        ("N", "m/s", True),
        ("V", "A", True),
        ("Pa", "m^3/s", True),
        ("bar", "l/h", True),
        ("N", "m", False),
        ("N", "rad/s", False),
        ("N*m", "rad", False),
        ("", "", False),
        ("K", "W/K", True),
        ("degC", "W/K", False),
        (UNSTATED, "rad/s", True),
    ],
)
def test_is_power(effort, flow, power):
    assert is_power(effort, flow) is power
    assert is_power(flow, effort) is power


@pytest.mark.parametrize(
    ("effort", "flow", "watt"),
    [
        ("N*m", "rad/s", 1.0),
        ("kNm", "rpm", 1000 * RPM),
        ("bar", "L/min", 1e5 * 1e-3 / 60),
        (UNSTATED, "rad/s", 1.0),
    ],
)
def test_power_factor(effort, flow, watt):
    assert power_factor(effort, flow) == pytest.approx(watt, rel=1e-14)


@pytest.mark.parametrize("pair", units._WATTS, ids=lambda pair: "*".join(sorted(pair)))
def test_pairs_told_without_pint_are_what_pint_says_of_them(pair, monkeypatch):
    told = is_power(*pair), power_factor(*pair)
    monkeypatch.setattr(units, "_WATTS", ())
    assert (is_power.__wrapped__(*pair), power_factor(*pair)) == told == (True, 1.0)


def test_power_factor_refuses_what_is_no_power():
    with pytest.raises(ConfigError, match=r"'N' times 'rad/s' is not a power"):
        power_factor("N", "rad/s")


def test_is_power_names_an_unknown_unit():
    with pytest.raises(ConfigError, match="'glass'"):
        is_power("N", "glass")


def test_pint_is_imported_only_when_a_unit_needs_it():
    code = (
        "import sys; from hilrt.config.units import conversion, power_factor; conversion('m', 'm');"
        "assert power_factor('N*m', 'rad/s') == power_factor('m/s', 'N') == 1.0;"
        "assert 'pint' not in sys.modules; conversion('m', 'km'); assert 'pint' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
