"""Start values of array inputs: a port has one for all elements, and says where that is not so."""

import pytest

from hilrt.check.check import check_file
from hilrt.fmu.description import read_fmu
from hilrt.fmu.fmu_ports import select
from tests.fmu.build import description, mass, needs_compiler
from tests.fmu.test_ssp import PARAMETERS, component, imported, simple

pytestmark = needs_compiler


@pytest.mark.parametrize(("start", "differ"), [("1 2 3", True), ("2 2 2", False), ("2", False)])
def test_start_values_that_differ_are_warned_of(start, differ):
    extra = (
        f'<Float64 name="array" valueReference="70" causality="input" start="{start}">'
        '<Dimension start="3"/></Float64></ModelVariables>'
    )
    xml = description(3).replace("</ModelVariables>", extra)
    chosen = select(read_fmu(mass(3, xml=xml)), {})
    port = chosen.input_ports[-1]
    assert (port.size, port.start) == (3, float(start[0]))
    assert ["the elements of 'array' differ" in remark for remark in chosen.remarks] == (
        [True] if differ else []
    )


@pytest.mark.parametrize("hosted", [False, True])
def test_an_imported_array_is_held_at_all_of_its_values(hosted, tmp_path):
    fmus = {"mass.fmu": mass(3, types=True)}
    session, notes = imported(tmp_path, simple(component("a", "mass.fmu")), fmus, hosted=hosted)
    a = session["subsystems"]["a"]
    if hosted:
        assert a["spawn"][3:] == ["--param", "array=[1.0, 2.0, 3.0]"]
    else:
        assert a["params"] == {"array": [1.0, 2.0, 3.0]}
    assert "array" not in a["inputs"]
    assert notes == []
    found = check_file(tmp_path / "session.toml")
    assert [problem for problem in found if problem.level == "error"] == []


def test_start_values_of_another_size_are_noted(tmp_path):
    size = PARAMETERS.format('<ssv:Parameter name="size"><ssv:Integer value="2"/></ssv:Parameter>')
    text = simple(component("a", "mass.fmu", size))
    session, notes = imported(tmp_path, text, {"mass.fmu": mass(3, types=True)})
    assert session["subsystems"]["a"]["inputs"]["array"] == {"start": 1.0}
    assert ["a.array has 2 elements, but start values for 3" in note for note in notes] == [True]
