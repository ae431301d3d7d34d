"""Values that variables may have: in params, as start of inputs, in the description itself."""

import json

import numpy as np
import pytest

from hilrt.check.check import check_file
from hilrt.errors import ConfigError
from hilrt.fmu.description import read_fmu
from hilrt.fmu.fmu_ports import select
from hilrt.solver import InputPolynomial
from tests.fmu.build import description, linear, mass, needs_compiler
from tests.fmu.driving import fmu_solver

pytestmark = needs_compiler

SESSION = """
[session]
name = "check"
duration = 1.0
pace = "asap"
[master]
step = 0.001
[subsystems.a]
{subsystem}
"""
ITEMS = '<Item name="off" value="1"/><Item name="eco" value="2"/>'
SPARSE = ITEMS + '<Item name="sport" value="7"/>'


def held(**changed):
    """Start values of all inputs of the FMU with many types."""
    values = {"x2": 0.0, "v2": 0.0, "F": 0.0, "gear": 1, "on": 1, "mode": 1} | changed
    return "".join(
        f"[subsystems.a.inputs.{key}]\nstart = {value}\n" for key, value in values.items()
    )


def found(tmp_path, path, table="", hosted=False, more=""):
    """Errors and warnings of a session with one FMU."""
    if hosted:
        subsystem = f'adapter = "zeromq"\nspawn = {json.dumps(["hilrt", "solver", str(path)])}'
    else:
        subsystem = f'adapter = "fmu"\nfmu = "{path}"'
    file = tmp_path / "session.toml"
    file.write_text(SESSION.format(subsystem=f"{subsystem}\n{more}\n{table}"))
    return [str(problem) for problem in check_file(file) if problem.level != "info"]


@pytest.mark.parametrize("hosted", [False, True])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"mode": 9},
            "[subsystems.a.inputs.mode] start = 9.0: does not fit its type Enumeration: ",
        ),
        ({"mode": 5}, "there is no item 5; there are 1 (off), 2 (eco), 7 (sport)"),
        ({"gear": 2**31}, "give a whole number from -2147483648 to 2147483647"),
        ({"gear": 2.5}, "give a whole number"),
        ({"on": 0.5}, "give 0 or 1"),
        ({}, None),
    ],
)
def test_the_start_of_an_input_has_to_fit_its_variable(wrong, message, hosted, tmp_path):
    path = mass(2, xml=description(2, types=True).replace(ITEMS, SPARSE))
    lines = found(tmp_path, path, held(**wrong), hosted)
    assert len(lines) == (message is not None)
    assert message is None or message in lines[0]


def test_bounds_of_whole_numbers_and_items_are_those_of_the_port():
    chosen = select(read_fmu(mass(3, types=True, xml=None)), {})
    bounds = {port.name: (port.min, port.max) for port in chosen.input_ports}
    assert bounds["gear"] == (-(2.0**31), 2.0**31 - 1)
    assert bounds["mode"] == (1.0, 2.0)
    assert bounds["on"] == (0.0, 1.0)
    assert bounds["single"] == pytest.approx((-3.4028235e38, 3.4028235e38))
    assert bounds["F"] == (-np.inf, np.inf)


@pytest.mark.parametrize("major", [2, 3])
def test_between_two_items_the_nearest_one_is_set(major):
    path = mass(major, xml=description(major, types=True).replace(ITEMS, SPARSE))
    solver = fmu_solver(path, {"F": 0.0}, outputs=["mode_out"])
    names = [port.name for port in solver.inputs]
    got = []
    for value in (1.0, 1.6, 4.0, 5.0, 9.0):
        u = np.zeros(sum(port.size for port in solver.inputs))
        u[names.index("mode")] = value
        got.append(solver.initialize(0.0, u).y[0])
    assert got == [1.0, 2.0, 2.0, 7.0, 7.0]
    solver.stop("done")


@pytest.mark.parametrize("major", [2, 3])
def test_values_beyond_the_declared_bounds_are_refused(major):
    xml = description(major)
    bounded = xml.replace('unit="N/m" start="10.0"', 'unit="N/m" start="10.0" min="0" max="10"')
    assert bounded != xml
    fmu = read_fmu(mass(major, xml=bounded))
    assert select(fmu, {"k": 10.0}).start == {"k": 10.0}
    for value in (10.5, -1):
        with pytest.raises(ConfigError, match=r"params\.k = .*its description allows 0 to 10$"):
            select(fmu, {"k": value})


@pytest.mark.parametrize(
    ("change", "params", "error"),
    [
        (
            ('unit="N" start="0.0"', 'unit="N" start="abc"'),
            "",
            "its start = 'abc' is not a value of",
        ),
        (('start="10.0"', 'start="abc"'), "k = 3.0", None),
        (('start="10.0"', 'start="abc"'), "", None),
        (('name="c"', 'name="k"'), "k = 3.0", "params.k = 3.0: cannot be set: 2 variables have"),
        (('name="c"', 'name="k"'), "", None),
        (
            ('unit="N/m" start="10.0"', 'unit="N/m" max="x"'),
            "k = 3.0",
            "its max = 'x' is not a number",
        ),
        (
            ('name="F"', 'name="v2"'),
            "",
            "its variable 'v2' cannot be used: 2 variables have that name",
        ),
    ],
)
def test_faults_of_the_description_are_errors_where_they_matter(change, params, error, tmp_path):
    xml = description(3)
    assert change[0] in xml
    path = mass(3, xml=xml.replace(*change))
    inputs = "".join(f"[subsystems.a.inputs.{x}]\nstart = 0.0\n" for x in ("x2", "v2", "F"))
    lines = found(tmp_path, path, inputs, more=f"params = {{ {params} }}")
    if error is None:
        (line,) = lines
        assert line.startswith("[subsystems.a]: mass.fmu: variable 'k': ")
    else:
        assert any(error in line for line in lines)


def test_truth_is_read_as_tools_write_it():
    xml = description(2, types=True)
    for start, value in (("true", 1.0), ("True", 1.0), ("False", 0.0), ("0", 0.0)):
        fmu = read_fmu(
            mass(2, xml=xml.replace('<Boolean start="true"', f'<Boolean start="{start}"'))
        )
        ports = {port.name: port for port in select(fmu, {}).input_ports}
        assert ports["on"].start == value


def test_a_start_of_its_own_that_an_fmu_may_refuse_is_warned_of(tmp_path):
    xml = description(3, types=True)
    xml = xml.replace(
        'causality="input" variability="discrete" start="1" declared',
        'causality="input" variability="discrete" start="9" declared',
    )
    fmu = read_fmu(mass(3, xml=xml))
    chosen = select(fmu, {})
    assert "input 'mode': its own start = 9 lies outside 1 to 2" in " ".join(chosen.remarks)
    assert {port.name: port.start for port in chosen.input_ports}["mode"] == 2.0
    assert select(fmu, {"mode": 2}).remarks == [r for r in chosen.remarks if "'mode'" not in r]


def test_what_carries_no_number_is_said_to(tmp_path):
    extra = (
        '<Binary name="frame" valueReference="97" causality="output"/>'
        '<Binary name="command" valueReference="98" causality="input"><Start value="00"/></Binary>'
        "</ModelVariables>"
    )
    xml = description(3, types=True).replace("</ModelVariables>", extra)
    fmu = read_fmu(mass(3, xml=xml))
    with pytest.raises(ConfigError) as caught:
        select(fmu, {"command": "00"}, ["frame", "lab*", "no"])
    command, frame, label, unknown = caught.value.problems
    assert "is a Binary input of mass.fmu, which cannot be set" in command
    assert frame.startswith(
        "outputs = 'frame': is a Binary, not a number, but ports only carry numbers"
    )
    assert label.startswith("outputs = 'lab*': label is a String, not a number")
    assert "has no such variable" in unknown
    (remark,) = [r for r in select(fmu, {}).remarks if "command" in r]
    assert "Binary input 'command' gets no" in remark
    connections = '[[connections]]\nfrom = "a.frame"\nto = "a.command"\n'
    table = held(single=0.0, array=0.0, command=0.0) + connections
    lines = found(tmp_path, mass(3, xml=xml), table)
    assert sum("not a number, but ports only carry numbers" in line for line in lines) == 3
    assert sum("gets no" in line for line in lines) == 1


def test_an_array_may_have_no_elements():
    params = {"n": 0, "m": 0, "A": [], "B": [], "C": [], "D": [], "x": []}
    solver = fmu_solver(linear(), params)
    assert solver.inputs == ()
    assert [(port.name, port.size) for port in solver.outputs] == [("y", 2)]
    sample = solver.initialize(0.0, np.empty(0))
    assert sample.y.tolist() == [0.0, 0.0]
    assert solver.advance(0.0, 0.1, InputPolynomial(0.0, np.empty((1, 0)))).y.tolist() == [0.0, 0.0]
    assert solver.jacobian(0.1, 1).shape == (2, 2, 0)
    solver.stop("done")
