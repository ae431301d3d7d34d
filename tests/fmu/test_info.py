"""The page of an FMU, and the ports that a description gives."""

import re

import pytest
from typer.testing import CliRunner

from hilrt.cli.main import app
from hilrt.errors import ConfigError
from hilrt.fmu.description import read_fmu
from hilrt.fmu.fmu_ports import select
from hilrt.fmu.info import capabilities, page
from tests.fmu.build import FLAGS, description, linear, mass, needs_compiler, oscillator

pytestmark = needs_compiler


def test_the_page_names_ports_parameters_and_what_follows():
    done = CliRunner().invoke(app, ["fmu", "info", str(mass(3, types=True))])
    assert done.exit_code == 0
    for text in ("FMI 3.0", "runs here", "force", "feedthrough from x2, v2", "3 elements", "N.s/m"):
        assert text in done.output
    assert re.search(r"mode +Enumeration, 1=off 2=eco, no unit, start 1", done.output)


def test_what_is_guessed_is_said_and_how_large_parameters_are():
    text = page(read_fmu(oscillator("pythonfmu", "Mass1")))
    assert (
        "force  Real, no unit, feedthrough from all inputs (assumed; the FMU does not declare it)"
        in text
    )
    text = page(read_fmu(linear()))
    assert "y  Float64, 2 elements, no unit, feedthrough from u\n" in text
    assert "C  Float64 0, 6 elements\n" in text


def test_a_file_that_is_none_is_bad_input(tmp_path):
    done = CliRunner().invoke(app, ["fmu", "info", str(tmp_path / "no.fmu")])
    assert isinstance(done.exception, ConfigError)


@pytest.mark.parametrize("major", [2, 3])
def test_every_flag_changes_the_page(major):
    plain = page(read_fmu(mass(major)))
    for flag, value in FLAGS[major].items():
        if flag == "mightReturnEarlyFromDoStep":
            continue  # says nothing without event mode
        other = {"true": "false", "false": "true", "0": "1"}[value]
        assert page(read_fmu(mass(major, **{flag: other}))) != plain, flag


def test_what_else_a_description_says_of_running_it():
    flags = ("needsExecutionTool", "canBeInstantiatedOnlyOncePerProcess")
    more = " ".join(f'{flag}="true"' for flag in flags) + ' fixedInternalStepSize="0.002"'
    text = page(
        read_fmu(mass(3, xml=description(3).replace("<CoSimulation ", f"<CoSimulation {more} ")))
    )
    for words in ("needs the tool", "once per process", "internal steps of 0.002 s"):
        assert words in text
        assert words not in page(read_fmu(mass(3)))


def test_no_binary_is_shouted():
    assert "does NOT run here" in page(read_fmu(mass(2, binary=False)))


def test_capabilities_without_any():
    fmu = read_fmu(mass(2, canHandleVariableCommunicationStepSize="false"))
    assert not any(row.there for row in capabilities(fmu))


@pytest.mark.parametrize(
    ("variable", "row"),
    [("x2", "intermediate update of inputs"), ("force", "intermediate update of outputs")],
)
def test_intermediate_update_is_there_where_all_ports_have_it(variable, row):
    text = description(3, providesIntermediateUpdate="true")
    start = text.index(f'name="{variable}"')
    without = text[:start] + text[start:].replace('intermediateUpdate="true"', "", 1)
    there = [
        {one.name: one.there for one in capabilities(read_fmu(mass(3, xml=xml)))}
        for xml in (text, without)
    ]
    assert [rows[row] for rows in there] == [True, False]


# -- ports -----------------------------------------------------------------------------------------


def ports(path, params=None, **more):
    chosen = select(read_fmu(path), params or {}, **more)
    names = [port.name for port in chosen.input_ports], [p.name for p in chosen.output_ports]
    return chosen, *names


def test_ports_of_a_description():
    chosen, inputs, outputs = ports(mass(2))
    assert inputs == ["x2", "v2", "F"]
    assert outputs == ["force", "x", "v"]
    assert [port.unit for port in chosen.output_ports] == ["N", "m", "m/s"]
    assert [port.feedthrough for port in chosen.output_ports] == [("x2", "v2"), (), ()]


def test_an_input_with_a_value_is_held():
    _, inputs, _ = ports(mass(2), {"F": 3.0})
    assert inputs == ["x2", "v2"]


def test_outputs_by_name_and_pattern():
    _, _, outputs = ports(mass(2), outputs=["der(*)", "x"])
    assert outputs == ["der(x)", "der(v)", "x"]
    with pytest.raises(ConfigError, match=r"outputs = 'forse'.*did you mean 'force'"):
        ports(mass(2), outputs=["forse"])


def test_feedthrough_from_the_session():
    chosen, *_ = ports(mass(2), feedthrough={"force": ["x2"]})
    assert chosen.output_ports[0].feedthrough == ("x2",)
    with pytest.raises(ConfigError) as caught:
        ports(mass(2), feedthrough={"force": ["x3"], "forcee": []})
    assert len(caught.value.problems) == 2


def test_an_fmu_that_says_nothing_depends_on_everything():
    chosen, inputs, _ = ports(oscillator("pythonfmu", "Mass1"))
    assert all(port.feedthrough == tuple(inputs) for port in chosen.output_ports)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mm": 1.0}, "no such parameter; did you mean 'm'"),
        ({"m": "heavy"}, "does not fit its type Real: give a number"),
        ({"fault": 1.5}, "give a whole number"),
        ({"on": 3}, "give true or false"),
        ({"mode": "ecco"}, "there is no item 'ecco'; did you mean 'eco'"),
        ({"force": 1.0}, "cannot be set"),
    ],
)
def test_parameters_that_do_not_fit(params, message):
    with pytest.raises(ConfigError, match=message):
        ports(mass(2, types=True), params)


def test_enumerations_by_name():
    chosen, *_ = ports(mass(2, types=True), {"mode": "eco"})
    assert chosen.start == {"mode": 2}


def test_units_that_only_the_fmu_defines():
    text = description(2).replace('unit="N"', 'unit="Kraft"')
    base = text.replace(
        '<Unit name="N"/>', '<Unit name="Kraft"><BaseUnit kg="1" m="1" s="-2"/></Unit>'
    )
    chosen, *_ = ports(mass(2, xml=base))
    assert chosen.output_ports[0].unit == "kg**1*m**1*s**-2"
    chosen, *_ = ports(mass(2, xml=text))
    assert chosen.output_ports[0].unit == "?"
    assert "unit 'Kraft' of 'force' is unknown" in " ".join(chosen.remarks)
