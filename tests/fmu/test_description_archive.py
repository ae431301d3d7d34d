"""Archives that begin well and cannot be unpacked."""

import zipfile

import pytest

from hilrt.errors import ConfigError
from hilrt.fmu import description
from hilrt.fmu.description import read_fmu


@pytest.mark.parametrize("damage", ["data", "password", "method"])
def test_a_description_that_cannot_be_unpacked(damage, tmp_path):
    path, name = tmp_path / "damaged.fmu", "modelDescription.xml"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, "<fmiModelDescription/>" * 50)
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\x01\x02")
    if damage == "data":
        data[30 + len(name)] |= 0x07  # a kind of block that there is not
    elif damage == "password":
        data[6] |= 1
        data[central + 8] |= 1
    else:
        data[8] = data[central + 10] = 99
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"cannot be unpacked: .*; export it again"):
        read_fmu(path)


VARIABLE = """<ScalarVariable name="v{0}" valueReference="{0}" causality="local"
variability="continuous"><Real/></ScalarVariable>"""


@pytest.mark.parametrize("limit", [2, 3])
def test_many_variables_are_said_before_they_are_read(limit, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(description, "_MANY_VARIABLES", limit)
    variables = "".join(VARIABLE.format(i) for i in range(3))
    text = f"""<?xml version="1.0"?><fmiModelDescription fmiVersion="2.0" modelName="m" guid="1">
    <CoSimulation modelIdentifier="m"/><ModelVariables>{variables}</ModelVariables>
    <ModelStructure/></fmiModelDescription>"""
    path = tmp_path / "large.fmu"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", text)
    read_fmu(path)
    said = capsys.readouterr().err
    assert ("reading 3 variables" in said) == (limit < 3)
