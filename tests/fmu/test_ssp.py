"""Sessions from SSP archives: nested systems, transformations, units, parameter sets."""

import tomllib
import zipfile

import pytest

from hilrt.check.check import check_file
from hilrt.errors import ConfigError
from hilrt.fmu.ssp import read_ssp
from hilrt.fmu.ssp_session import import_ssp
from tests.fmu.build import description, mass, needs_compiler

HEAD = (
    '<ssd:SystemStructureDescription version="1.0" name="two masses" '
    'xmlns:ssd="http://ssp-standard.org/SSP1/SystemStructureDescription" '
    'xmlns:ssc="http://ssp-standard.org/SSP1/SystemStructureCommon" '
    'xmlns:ssv="http://ssp-standard.org/SSP1/SystemStructureParameterValues" '
    'xmlns:ssm="http://ssp-standard.org/SSP1/SystemStructureParameterMapping">'
)


def connector(name, kind, unit=None):
    inside = "<ssc:Real/>" if unit is None else f'<ssc:Real unit="{unit}"/>'
    return f'<ssd:Connector name="{name}" kind="{kind}">{inside}</ssd:Connector>'


def connection(start, end, inside="", **more):
    def side(which, text):
        element, _, name = text.rpartition(".")
        given = f'{which}Element="{element}" ' if element else ""
        return f'{given}{which}Connector="{name}"'

    extra = " ".join(f'{key}="{value}"' for key, value in more.items())
    return (
        f"<ssd:Connection {side('start', start)} {side('end', end)} {extra}>{inside}"
        "</ssd:Connection>"
    )


def component(name, source, inside=""):
    return (
        f'<ssd:Component name="{name}" source="resources/{source}" '
        f'type="application/x-fmu-sharedlibrary">{inside}</ssd:Component>'
    )


LINEAR = '<ssc:LinearTransformation factor="{}" offset="{}"/>'
PARAMETERS = (
    "<ssd:ParameterBindings><ssd:ParameterBinding><ssd:ParameterValues>"
    '<ssv:ParameterSet version="1.0" name="p"><ssv:Parameters>{}</ssv:Parameters>'
    "</ssv:ParameterSet></ssd:ParameterValues></ssd:ParameterBinding></ssd:ParameterBindings>"
)
REAL = '<ssv:Parameter name="{}"><ssv:Real value="{}" unit="{}"/></ssv:Parameter>'

SYSTEM = (
    HEAD
    + '<ssd:System name="root">'
    + PARAMETERS.format(REAL.format("left.m", 2000, "g") + REAL.format("box.right.k", 1, "N/mm"))
    + "<ssd:Elements>"
    + component(
        "left",
        "mass.fmu",
        "<ssd:Connectors>"
        + connector("force", "output", "N")
        + "</ssd:Connectors>"
        + PARAMETERS.format(REAL.format("m", 5, "kg") + REAL.format("v", 100, "m/s")),
    )
    + '<ssd:System name="box"><ssd:Connectors>'
    + connector("pull", "input", "kN")
    + connector("place", "output")
    + "</ssd:Connectors><ssd:Elements>"
    + component("right", "mass.fmu")
    + "</ssd:Elements><ssd:Connections>"
    + connection("pull", "right.F", LINEAR.format(2, 1))
    + connection("right.x", "place")
    + "</ssd:Connections></ssd:System>"
    + "</ssd:Elements><ssd:Connections>"
    + connection("left.force", "box.pull")
    + connection("box.place", "left.x2", LINEAR.format(-1, 0.5))
    + connection("box.place", "left.v2", suppressUnitConversion="true")
    + "</ssd:Connections></ssd:System>"
    + '<ssd:DefaultExperiment startTime="1.0" stopTime="3.0"/>'
    + "</ssd:SystemStructureDescription>"
)


def archive(folder, text=SYSTEM, fmu=True):
    path = folder / "system.ssp"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("SystemStructure.ssd", text)
        if fmu:
            packed.write(mass(3), "resources/mass.fmu")
    return path


@needs_compiler
def test_a_nested_system_becomes_a_session(tmp_path):
    out = tmp_path / "session.toml"
    notes = import_ssp(archive(tmp_path), out)
    session = tomllib.loads(out.read_text())
    assert session["session"] == {"name": "two-masses", "duration": 2.0, "pace": "asap"}
    left, right = session["subsystems"]["left"], session["subsystems"]["box_right"]
    assert left["fmu"] == "session/mass.fmu"
    assert (left["start_time"], right["start_time"]) == (1.0, 1.0)  # FMU time at session time 0
    assert left["params"] == {"m": 2.0, "v": 100.0}  # the outer system's binding, in kg
    assert right["params"] == {"k": 1000.0}
    assert left["inputs"] == {"F": {"start": 0.0}}
    by_target = {c["to"]: c for c in session["connections"]}
    # N to kN at the box, then 2 u + 1 in newtons, whatever the box counts in.
    assert by_target["box_right.F"] == {
        "from": "left.force",
        "to": "box_right.F",
        "gain": 2.0,
        "offset": 1.0,
    }
    assert (by_target["left.x2"]["gain"], by_target["left.x2"]["offset"]) == (-1.0, 0.5)
    assert [note for note in notes if "left.v2" in note]  # metres into metres per second
    errors = [problem for problem in check_file(out) if problem.level == "error"]
    assert len(errors) == 1
    assert "left.v2" in str(errors[0])


def simple(components, connections="", more=""):
    """An SSP's text of components side by side."""
    return (
        f'{HEAD}<ssd:System name="root"><ssd:Elements>{components}</ssd:Elements>'
        f"<ssd:Connections>{connections}</ssd:Connections></ssd:System>{more}"
        "</ssd:SystemStructureDescription>"
    )


def imported(folder, text, fmus, **how):
    """The session file's content and the notes, for an archive with these FMUs."""
    path, out = archive(folder, text, fmu=False), folder / "session.toml"
    with zipfile.ZipFile(path, "a") as packed:
        for name, file in fmus.items():
            packed.write(file, f"resources/{name}")
    notes = import_ssp(path, out, **how)
    return tomllib.loads(out.read_text()), notes


@needs_compiler
def test_a_parameter_that_does_not_fit_is_left_out_with_component_and_file(tmp_path):
    wrong = '<ssv:Parameter name="gear"><ssv:Real value="1.5"/></ssv:Parameter>'
    given = REAL.format("kk", 1, "N/m") + REAL.format("c", 3, "N.s/m") + wrong
    text = simple(component("a", "mass.fmu", PARAMETERS.format(given)))
    session, notes = imported(tmp_path, text, {"mass.fmu": mass(3, types=True)})
    assert session["subsystems"]["a"]["params"]["c"] == 3.0
    assert [note for note in notes if "component 'a', resources/mass.fmu: params.kk = 1.0" in note]
    assert [note for note in notes if "params.gear = 1.5: does not fit its type" in note]
    written = (tmp_path / "session.toml").read_text()
    assert "# left out: params.kk = 1.0: mass.fmu has no such parameter; did you mean" in written


def test_an_import_that_fails_leaves_nothing_behind(tmp_path):
    path = archive(tmp_path, simple(component("a", "mass.fmu")), fmu=False)
    with zipfile.ZipFile(path, "a") as packed:
        packed.writestr("resources/mass.fmu", "no archive")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=r"component 'a', resources/mass\.fmu: is not an FMU"):
        import_ssp(path, tmp_path / "session.toml")
    assert sorted(tmp_path.rglob("*")) == before


@needs_compiler
def test_fmus_of_one_file_name_are_kept_apart(tmp_path):
    names = ["a/mass.fmu", "b/mass.fmu", "c/MASS.fmu"]
    files = {name: mass(major) for name, major in zip(names, (2, 3, 2), strict=True)}
    text = simple("".join(component(name[0], name) for name in names) + component("d", names[0]))
    session, _ = imported(tmp_path, text, files)
    copies = {name: tmp_path / table["fmu"] for name, table in session["subsystems"].items()}
    assert copies["d"] == copies["a"]
    for name, file in files.items():
        assert copies[name[0]].read_bytes() == file.read_bytes()


@needs_compiler
@pytest.mark.parametrize("hosted", [False, True])
def test_a_start_value_of_a_connected_input(hosted, tmp_path):
    value = PARAMETERS.format(REAL.format("x2", 1.5, "mm") + REAL.format("F", 3, "N"))
    text = simple(
        component("a", "mass.fmu") + component("b", "mass.fmu", value), connection("a.x", "b.x2")
    )
    session, notes = imported(tmp_path, text, {"mass.fmu": mass(2)}, hosted=hosted)
    b = session["subsystems"]["b"]
    assert b["inputs"] == {"x2": {"start": 0.0015}, "v2": {"start": 0.0}}
    if hosted:
        assert b["spawn"][3:] == ["--param", "F=3.0"]
    else:
        assert b["params"] == {"F": 3.0}  # not connected: held
    assert notes == []
    found = check_file(tmp_path / "session.toml")
    assert [problem for problem in found if problem.level == "error"] == []


@needs_compiler
def test_hosted_components_get_a_process_each(tmp_path):
    out = tmp_path / "session.toml"
    import_ssp(archive(tmp_path), out, hosted=True)
    left = tomllib.loads(out.read_text())["subsystems"]["left"]
    assert left["adapter"] == "zeromq"
    command = ["hilrt", "solver", "session/mass.fmu", "--param", "m=2.0", "--param", "v=100.0"]
    assert left["spawn"] == [*command, "--option", "start_time=1.0"]


@needs_compiler
@pytest.mark.parametrize(
    ("experiment", "duration", "start", "said"),
    [
        ('startTime="0.5"', 10.0, 0.5, None),
        ('stopTime="3.0"', 3.0, None, None),
        ('startTime="-1.0" stopTime="3.0"', 4.0, None, "startTime -1 is left out"),
        ('startTime="3.0" stopTime="3.0"', 10.0, 3.0, "is not after startTime 3"),
    ],
)
def test_times_of_the_experiment(experiment, duration, start, said, tmp_path):
    more = f"<ssd:DefaultExperiment {experiment}/>"
    text = simple(component("a", "mass.fmu"), more=more)
    session, notes = imported(tmp_path, text, {"mass.fmu": mass(2)})
    assert session["session"]["duration"] == duration
    assert session["subsystems"]["a"].get("start_time") == start
    assert [said in note for note in notes] == ([] if said is None else [True])


@needs_compiler
def test_parameter_sets_and_mappings_in_files(tmp_path):
    binding = (
        '<ssd:ParameterBindings><ssd:ParameterBinding source="set.ssv">'
        '<ssd:ParameterMapping source="map.ssm"/></ssd:ParameterBinding></ssd:ParameterBindings>'
    )
    text = SYSTEM.replace("<ssd:Elements>", binding + "<ssd:Elements>", 1)
    path = archive(tmp_path, text)
    namespaces = HEAD[HEAD.index("xmlns:ssd") :]
    mapping = '<ssm:MappingEntry source="mu" target="left.c">{}</ssm:MappingEntry>'
    with zipfile.ZipFile(path, "a") as packed:
        real = '<ssv:Parameter name="mu"><ssv:Real value="3"/></ssv:Parameter>'
        packed.writestr(
            "set.ssv",
            f'<ssv:ParameterSet version="1.0" name="s" {namespaces}<ssv:Parameters>{real}'
            "</ssv:Parameters></ssv:ParameterSet>",
        )
        packed.writestr(
            "map.ssm",
            f'<ssm:ParameterMapping version="1.0" {namespaces}'
            f"{mapping.format(LINEAR.format(10, 0))}</ssm:ParameterMapping>",
        )
    import_ssp(path, tmp_path / "session.toml")
    session = tomllib.loads((tmp_path / "session.toml").read_text())
    assert session["subsystems"]["left"]["params"]["c"] == 30.0


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('stopTime="3.0"', 'stopTime="abc"', r"stopTime = 'abc' is not a number"),
        ('startTime="1.0"', 'startTime="nan"', r"startTime = 'nan' is not a number"),
        ('factor="2"', 'factor="two"', r"factor = 'two' is not a number"),
        ('value="2000"', 'value="1,5"', r"Real \(line 1\): value = '1,5' is not a number"),
        ('value="2000"', 'value="INF"', r"value = 'INF' is not a number"),
        ('value="2000" ', "", "Real .* has no value"),
        ('<ssv:Real value="2000" unit="g"/>', '<ssv:Integer value="2.5"/>', "not an integer"),
        ('<ssd:Component name="left"', "<ssd:Component", "Component .* has no name"),
        ('<ssv:Parameter name="left.m"', "<ssv:Parameter", "Parameter .* has no name"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, right, wrong, said):
    assert right in SYSTEM
    with pytest.raises(ConfigError, match=said):
        read_ssp(archive(tmp_path, SYSTEM.replace(right, wrong), fmu=False))


def test_parameters_of_other_types_are_noted(tmp_path):
    text = SYSTEM.replace('<ssv:Real value="2000" unit="g"/>', '<ssv:Float64 value="2000"/>')
    notes = read_ssp(archive(tmp_path, text, fmu=False)).notes
    assert "parameter 'left.m' is of type Float64 and is left out" in notes


def test_what_a_mapping_leaves_open_is_noted(tmp_path):
    mapping = (
        "<ssd:ParameterBindings><ssd:ParameterBinding><ssd:ParameterMapping>"
        '<ssm:ParameterMapping version="1.0"><ssm:MappingEntry source="mu" target="left.c"/>'
        "</ssm:ParameterMapping></ssd:ParameterMapping><ssd:ParameterValues>"
    )
    start = PARAMETERS[: PARAMETERS.index("<ssv:ParameterSet")]
    found = read_ssp(archive(tmp_path, SYSTEM.replace(start, mapping, 1), fmu=False))
    assert [note for note in found.notes if "mapping" in note or "'mu'" in note] == [
        "'left.c' should have the value of parameter 'mu', which the parameter set does not have",
        "parameter 'left.m' is not in its mapping and is left out",
        "parameter 'box.right.k' is not in its mapping and is left out",
    ]
    assert "c" not in found.components["left",].params


def test_components_keep_names_of_their_own(tmp_path):
    """One in a system, and one that is called like both together."""
    other = component("box_right", "mass.fmu")
    text = SYSTEM.replace('<ssd:System name="box">', other + '<ssd:System name="box">')
    found = read_ssp(archive(tmp_path, text, fmu=False)).components
    assert {path: one.name for path, one in found.items()} == {
        ("left",): "left",
        ("box_right",): "box_right",
        ("box", "right"): "box_right_2",
    }


def test_a_session_file_needs_its_suffix(tmp_path):
    with pytest.raises(ConfigError, match=r"use .*sess\.toml"):
        import_ssp(archive(tmp_path, fmu=False), tmp_path / "sess")


@needs_compiler
@pytest.mark.parametrize(
    ("transformation", "value"),
    [("", 2**53 + 1), (LINEAR.format(1, 0), 2**53 + 1), (LINEAR.format(2, 1), 2.0**54 + 2)],
)
def test_an_integer_of_64_bits_keeps_its_digits(transformation, value, tmp_path):
    xml = description(3).replace('<Int32 valueReference="32"', '<Int64 valueReference="32"')
    parameter = f'<ssv:Parameter name="n"><ssv:Integer value="{2**53 + 1}"/></ssv:Parameter>'
    mapping = (
        '</ssd:ParameterValues><ssd:ParameterMapping><ssm:ParameterMapping version="1.0">'
        f'<ssm:MappingEntry source="n" target="fault">{transformation}</ssm:MappingEntry>'
        "</ssm:ParameterMapping></ssd:ParameterMapping>"
    )
    bound = PARAMETERS.format(parameter).replace("</ssd:ParameterValues>", mapping)
    fmus = {"mass.fmu": mass(3, xml=xml)}
    content, _ = imported(tmp_path, simple(component("left", "mass.fmu", bound)), fmus)
    found = content["subsystems"]["left"]["params"]["fault"]
    assert (found, type(found)) == (value, int)


@needs_compiler
def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "session.toml").write_text("mine")
    with pytest.raises(ConfigError, match="exists"):
        import_ssp(archive(tmp_path), tmp_path / "session.toml")


@needs_compiler
def test_nothing_in_the_folder_of_the_fmus_is_overwritten(tmp_path):
    path, folder = archive(tmp_path), tmp_path / "session"
    folder.mkdir()
    (folder / "mass.fmu").write_text("mine")
    with pytest.raises(
        ConfigError, match=r"mass\.fmu: exists, and is not the FMU of .*system\.ssp"
    ):
        import_ssp(path, tmp_path / "session.toml")
    assert (folder / "mass.fmu").read_text() == "mine"
    assert not (tmp_path / "session.toml").exists()
    (folder / "mass.fmu").write_bytes(mass(3).read_bytes())  # of an earlier import
    import_ssp(path, tmp_path / "session.toml")


def test_a_file_in_place_of_the_folder_of_the_fmus_is_refused(tmp_path):
    (tmp_path / "session").write_text("mine")
    with pytest.raises(ConfigError, match=r"session: is a file, not a folder for the FMUs; name"):
        import_ssp(archive(tmp_path, fmu=False), tmp_path / "session.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<a>", "is not XML"),
        (HEAD + "</ssd:SystemStructureDescription>", "describes no system"),
        (
            HEAD + '<ssd:System name="r"/></ssd:SystemStructureDescription>',
            "has no components",
        ),
        (
            SYSTEM.replace("mass.fmu", "mass.xyz").replace("x-fmu-sharedlibrary", "x-other"),
            "is not an FMU",
        ),
    ],
)
def test_archives_that_cannot_be_used(text, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        read_ssp(archive(tmp_path, text, fmu=False))


def test_a_missing_fmu_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"has no resources/mass\.fmu, the FMU of 'left'"):
        import_ssp(archive(tmp_path, fmu=False), tmp_path / "session.toml")


def test_connections_in_a_circle(tmp_path):
    boxes = "".join(
        f'<ssd:System name="{n}"><ssd:Connectors>{connector("a", "input")}</ssd:Connectors>'
        "</ssd:System>"
        for n in "xy"
    )
    text = (
        f'{HEAD}<ssd:System name="r"><ssd:Elements>{component("left", "mass.fmu")}{boxes}'
        "</ssd:Elements><ssd:Connections>"
        + connection("x.a", "y.a")
        + connection("y.a", "x.a")
        + connection("x.a", "left.F")
        + "</ssd:Connections></ssd:System></ssd:SystemStructureDescription>"
    )
    with pytest.raises(ConfigError, match="circular"):
        read_ssp(archive(tmp_path, text, fmu=False))
