"""Units of ports: what an FMU defines counts, not what a name may mean elsewhere."""

from pathlib import Path

import pytest

from hilrt.errors import ConfigError
from hilrt.fmu.description import read_fmu
from hilrt.fmu.fmu_options import FmuOptions
from hilrt.fmu.fmu_ports import select
from hilrt.fmu.fmu_solver import FmuSolver
from tests.fmu.build import description, mass, needs_compiler

pytestmark = needs_compiler


def force(name, base):
    """The port, and the remarks, where the unit `name` is defined by `base`."""
    text = description(2).replace('unit="N"', f'unit="{name}"')
    text = text.replace('<Unit name="N"/>', f'<Unit name="{name}">{base}</Unit>')
    chosen = select(read_fmu(mass(2, xml=text)), {})
    return chosen.output_ports[0], chosen.remarks


@pytest.mark.parametrize(
    ("name", "base", "unit"),
    [
        ("ton", '<BaseUnit kg="1" factor="1000"/>', "t"),
        ("ton", '<BaseUnit kg="1" factor="907.185"/>', "ton"),
        ("C", '<BaseUnit K="1" offset="273.15"/>', "degC"),
        ("C", '<BaseUnit s="1" A="1"/>', "C"),
        ("C", "", "C"),
        ("degC", '<BaseUnit K="1" factor="1.0" offset="273.15"/>', "degC"),
        ("degF", '<BaseUnit K="1" factor="0.55556" offset="255.372"/>', "degF"),
        ("K", '<BaseUnit K="1"/>', "K"),
        ("J", '<BaseUnit kg="1" m="2" s="-2"/>', "J"),
        ("N.m", '<BaseUnit kg="1" m="2" s="-2"/>', "N.m"),
        ("N.m/rad", '<BaseUnit kg="1" m="2" s="-2" rad="-1"/>', "N.m/rad"),
        ("bar", '<BaseUnit kg="1" m="-1" s="-2" factor="1e5"/>', "bar"),
        ("deg", '<BaseUnit rad="1" factor="0.0174533"/>', "deg"),
        ("rpm", '<BaseUnit rad="1" s="-1" factor="0.10472"/>', "rpm"),
        ("rpm", '<BaseUnit s="-1" factor="0.0166667"/>', "rpm"),
        ("Hz", '<BaseUnit s="-1"/>', "Hz"),
        ("%", '<BaseUnit factor="0.01"/>', "%"),
        ("1", "<BaseUnit/>", "1"),
        ("h", '<BaseUnit m="1"/>', "m**1"),
    ],
)
def test_a_known_name_counts_where_the_definition_agrees(name, base, unit):
    port, remarks = force(name, base)
    assert port.unit == unit
    assert remarks == []


def test_a_definition_that_cannot_be_written_leaves_no_unit():
    port, remarks = force("pound", '<BaseUnit kg="1" factor="0.5"/>')
    assert port.unit == "?"
    assert "unit 'pound' of 'force' is defined differently in the FMU" in remarks[-1]


def stated(**given):
    """Options of the FMU with units stated in the session file."""
    return FmuOptions(adapter="fmu", fmu=str(mass(2)), units=given)


def test_units_of_the_session_file_replace_those_of_the_fmu():
    solver = FmuSolver(stated(F="kN", v="km/h", x=""), Path())
    found = {port.name: port.unit for port in (*solver.inputs, *solver.outputs)}
    assert found == {"x2": "m", "v2": "m/s", "F": "kN", "force": "N", "x": "", "v": "km/h"}


def test_a_stated_unit_leaves_no_remark_on_that_of_the_fmu():
    text = description(2).replace('unit="N"', 'unit="strength"')
    path = mass(2, xml=text)
    assert any("'strength'" in remark for remark in select(read_fmu(path), {}).remarks)
    assert select(read_fmu(path), {}, stated={"force": "N", "F": "N"}).remarks == []


def test_unknown_ports_and_units_are_refused_together():
    with pytest.raises(ConfigError) as refused:
        FmuSolver(stated(forze="N", force="newtonish"), Path())
    unknown, unreadable = sorted(refused.value.problems)
    assert unknown.startswith("units.force: ")
    assert unreadable == "units.forze: there is no such port; did you mean 'force'?"
