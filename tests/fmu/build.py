"""Build the FMUs that the tests run: of pythonfmu and pythonfmu3, and one of our own in C."""

import atexit
import functools
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import fmpy
import pytest
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Slave

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform != "linux", reason="no C compiler"
)


@functools.cache
def folder():
    """Folder of this test run's FMUs."""
    place = Path(tempfile.mkdtemp(prefix="hilrt_test_fmus_"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


@functools.cache
def oscillator(package, side, *options):
    """FMU of one mass of the two-mass oscillator, by pythonfmu (2.0) or pythonfmu3 (3.0)."""
    source = (HERE / "oscillator_pythonfmu.py").read_text()
    return by_pythonfmu(package, side, source.replace("Oscillator", side), *options)


@functools.cache
def by_pythonfmu(package, name, source, *options):
    """FMU of the slave `name` of a source for pythonfmu (2.0), also by pythonfmu3 (3.0)."""
    place = folder() / "_".join([package, name, *options])
    place.mkdir()
    if package == "pythonfmu3":  # the same under other names
        names = (("pythonfmu", "pythonfmu3"), ("Fmi2", "Fmi3"), ("Real", "Float64"))
        source = functools.reduce(lambda text, pair: text.replace(*pair), names, source)
    script = place / f"{package}_{name}.py"
    script.write_text(source)
    command = [sys.executable, "-m", package, "build", "-f", str(script), "-d", str(place)]
    subprocess.run([*command, *options], check=True, capture_output=True, cwd=ROOT, timeout=60)
    return next(place.glob("*.fmu"))


# -- the FMU in C ----------------------------------------------------------------------------------


@functools.cache
def library(major, *flags, name="mass"):
    """Compiled ``mass.c``, or another one."""
    source = (HERE / f"{name}.c").read_text()
    have = set(re.findall(r"\b(fmi\d\w+)\(", source))
    needed = {n for n in dir(FMU2Slave if major == 2 else FMU3Slave) if n.startswith(f"fmi{major}")}
    stubs = "".join(f"int {name}(void) {{ return 3; }}\n" for name in sorted(needed - have))
    place = folder() / f"{name}{major}{''.join(flags)}.so"
    code = place.with_suffix(".c")
    code.write_text(source + stubs)
    command = ["cc", "-shared", "-fPIC", "-O1", f"-DFMI={major}", *flags, str(code), "-lm"]
    subprocess.run([*command, "-o", str(place)], check=True, capture_output=True, timeout=60)
    return place


REALS = {  # name: (reference, causality, start, unit)
    "x2": (1, "input", 0.0, "m"),
    "v2": (2, "input", 0.0, "m/s"),
    "F": (3, "input", 0.0, "N"),
    "force": (4, "output", None, "N"),
    "x": (5, "output", 0.0, "m"),
    "v": (6, "output", 0.0, "m/s"),
    "der(x)": (7, "local", None, "m/s"),
    "der(v)": (8, "local", None, "m/s2"),
    "m": (10, "parameter", 1.0, "kg"),
    "k": (11, "parameter", 10.0, "N/m"),
    "c": (12, "parameter", 0.0, "N.s/m"),
    "kc": (13, "parameter", 100.0, "N/m"),
    "cc": (14, "parameter", 0.0, "N.s/m"),
    "micro": (15, "parameter", 1e-3, "s"),
    "g": (16, "parameter", 0.0, "m/s2"),
    "e": (17, "parameter", 1.0, None),
}
OTHERS = {  # name: (reference, causality, type, start)
    "gear": (30, "input", "Integer", "1"),
    "gear_out": (31, "output", "Integer", None),
    "on": (40, "input", "Boolean", "true"),
    "on_out": (41, "output", "Boolean", None),
    "mode": (50, "input", "Enumeration", "1"),
    "mode_out": (51, "output", "Enumeration", None),
}
FLAGS = {
    2: {
        "canHandleVariableCommunicationStepSize": "true",
        "canInterpolateInputs": "false",
        "maxOutputDerivativeOrder": "0",
        "canGetAndSetFMUstate": "false",
        "providesDirectionalDerivative": "false",
    },
    3: {
        "canHandleVariableCommunicationStepSize": "true",
        "providesIntermediateUpdate": "false",
        "maxOutputDerivativeOrder": "0",
        "canGetAndSetFMUState": "false",
        "providesDirectionalDerivatives": "false",
        "mightReturnEarlyFromDoStep": "false",
        "hasEventMode": "false",
    },
}


def mass(
    major: int,
    name: str = "mass",
    *,
    types: bool = False,
    states: bool = True,
    flags: Sequence[str] = (),
    xml: Any = None,
    binary: bool = True,
    **changed: Any,
) -> Path:
    """The C FMU with some flags of its model description changed; with `types`, more variables."""
    capabilities = FLAGS[major] | changed
    unknown = capabilities.keys() - FLAGS[major].keys()
    assert not unknown, unknown
    text = _description(major, capabilities, types, states) if xml is None else xml
    return _pack(name, text, library(major, *flags) if binary else None, major, "mass")


def _pack(name, text, binary, major, identifier):
    path = Path(tempfile.mkdtemp(dir=folder())) / f"{name}.fmu"
    platform = fmpy.platform if major == 2 else fmpy.platform_tuple
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", text)
        archive.writestr("resources/readme.txt", "nothing")
        if binary is not None:
            archive.write(binary, f"binaries/{platform}/{identifier}.so")
    return path


def linear(*, inside=False, directional=True):
    """The FMU of FMI 3 of a linear system, whose states, inputs and outputs are arrays."""

    def array(name, reference, attributes, *sizes):
        inside = "".join(f'<Dimension valueReference="{size}"/>' for size in sizes)
        values = f'name="{name}" valueReference="{reference}" {attributes}'
        return f"<Float64 {values}>{inside}</Float64>"

    fixed = 'causality="parameter" variability="fixed" start="0"'
    settable = f'intermediateUpdate="{str(inside).lower()}"'
    sizes = "".join(
        f'<UInt64 name="{name}" valueReference="{reference}" causality="structuralParameter" '
        f'variability="fixed" start="{start}"/>'
        for name, reference, start in (("n", 1, 3), ("m", 2, 2), ("p", 3, 2))
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<fmiModelDescription fmiVersion="3.0" '
        'modelName="linear" instantiationToken="linear"><CoSimulation modelIdentifier="linear" '
        'canHandleVariableCommunicationStepSize="true" canGetAndSetFMUState="true" '
        f'providesDirectionalDerivatives="{str(directional).lower()}" '
        f'providesIntermediateUpdate="{str(inside).lower()}"/><ModelVariables>'
        '<Float64 name="time" valueReference="0" causality="independent"/>'
        + sizes
        + array("A", 10, fixed, 1, 1)
        + array("B", 11, fixed, 1, 2)
        + array("C", 12, fixed, 3, 1)
        + array("D", 13, fixed, 3, 2)
        + array("u", 20, f'causality="input" start="0" {settable}', 2)
        + array("x", 21, 'causality="local" initial="exact" start="0"', 1)
        + array("der(x)", 22, 'causality="local" derivative="21"', 1)
        + array("y", 23, 'causality="output"', 3)
        + '</ModelVariables><ModelStructure><Output valueReference="23" dependencies="20 21"/>'
        '<ContinuousStateDerivative valueReference="22" dependencies="20 21"/></ModelStructure>'
        "</fmiModelDescription>"
    )
    return _pack("linear", text, library(3, name="linear"), 3, "linear")


def sampled(events=True):
    """The FMU of FMI 3 of a sampled controller: array states, clocks with arrays, binaries."""

    def real(name, reference, attributes):
        return (
            f'<Float64 name="{name}" valueReference="{reference}" {attributes}>'
            '<Dimension start="2"/></Float64>'
        )

    discrete = 'variability="discrete"'
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<fmiModelDescription fmiVersion="3.0" '
        'modelName="sampled" instantiationToken="sampled"><CoSimulation modelIdentifier="sampled" '
        'canHandleVariableCommunicationStepSize="true" canGetAndSetFMUState="true" '
        f'hasEventMode="{str(events).lower()}" mightReturnEarlyFromDoStep="true"/>'
        '<ModelVariables><Float64 name="time" valueReference="0" causality="independent"/>'
        + real("x", 1, 'causality="output" initial="exact" start="1 0"')
        + real("der(x)", 2, 'causality="local" derivative="1"')
        + real("d", 3, 'causality="input" start="0 0"')
        + f'<Float64 name="r" valueReference="10" causality="input" {discrete} clocks="40" '
        'start="0"/>'
        + real("held", 11, f'causality="output" {discrete} clocks="40"')
        + real("at_crossing", 12, f'causality="output" {discrete} clocks="41"')
        + real("x_reset", 13, f'causality="input" {discrete} clocks="42" start="0 0"')
        + '<Clock name="sample" valueReference="40" causality="input" '
        'intervalVariability="constant" intervalDecimal="0.01"/>'
        '<Clock name="crossed" valueReference="41" causality="output" '
        'intervalVariability="triggered"/>'
        '<Clock name="reset" valueReference="42" causality="input" '
        'intervalVariability="triggered"/>'
        '<Binary name="command" valueReference="50" causality="input" maxSize="64">'
        '<Start value="7374617274"/></Binary>'
        '<Binary name="echo" valueReference="51" causality="output" maxSize="64"/>'
        "</ModelVariables><ModelStructure>"
        + "".join(
            f'<Output valueReference="{reference}" dependencies=""/>'
            for reference in (1, 11, 12, 41, 51)
        )
        + '<ContinuousStateDerivative valueReference="2" dependencies="1 3"/></ModelStructure>'
        "</fmiModelDescription>"
    )
    return _pack("sampled", text, library(3, name="sampled"), 3, "sampled")


def description(major, types=False, **changed):
    """The text of its model description."""
    return _description(major, FLAGS[major] | changed, types, True)


def clocked(sample, trigger=False, **changed):
    """The model description of the FMU of FMI 3 with clocks.

    `sample` are the attributes of the input clock; with `trigger` there is one more, that others
    trigger.
    """
    clocks = (
        f'<Clock name="sample" valueReference="90" causality="input" {sample}/>'
        '<Clock name="bounced" valueReference="91" causality="output" '
        'intervalVariability="triggered"/>'
        '<Float64 name="sampled" valueReference="92" causality="output" variability="discrete" '
        'clocks="90"/>'
        '<Float64 name="demand" valueReference="93" causality="input" variability="discrete" '
        'clocks="90" start="0"/>'
        '<Float64 name="struck" valueReference="96" causality="output" variability="discrete" '
        'clocks="91"/>'
        '<Int32 name="timing" valueReference="33" causality="parameter" variability="fixed" '
        'start="0"/>'
    )
    outputs = ["91", "92", "96"]
    if trigger:
        outputs.append("95")
        clocks += (
            '<Clock name="trigger" valueReference="94" causality="input" '
            'intervalVariability="triggered"/>'
            '<Float64 name="caught" valueReference="95" causality="output" variability="discrete" '
            'clocks="94"/>'
        )
    flags = {"hasEventMode": "true", "mightReturnEarlyFromDoStep": "true"} | changed
    text = description(3, **flags)
    text = text.replace("</ModelVariables>", f"{clocks}</ModelVariables>")
    named = "".join(f'<Output valueReference="{reference}"/>' for reference in outputs)
    return text.replace("<ModelStructure>", f"<ModelStructure>{named}")


def _description(major, capabilities, types, states):
    flags = " ".join(f"{key}={quoteattr(value)}" for key, value in capabilities.items())
    variables, order = _variables(major, capabilities, types)
    version, token = ("2.0", "guid") if major == 2 else ("3.0", "instantiationToken")
    enum = (
        '<TypeDefinitions><SimpleType name="Mode"><Enumeration><Item name="off" value="1"/>'
        '<Item name="eco" value="2"/></Enumeration></SimpleType></TypeDefinitions>'
        if major == 2
        else '<TypeDefinitions><EnumerationType name="Mode"><Item name="off" value="1"/>'
        '<Item name="eco" value="2"/></EnumerationType></TypeDefinitions>'
    )
    units = "".join(
        f"<Unit name={quoteattr(u)}/>" for u in sorted({r[3] for r in REALS.values() if r[3]})
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<fmiModelDescription fmiVersion="{version}" '
        f'modelName="mass" {token}="mass">\n'
        f'<CoSimulation modelIdentifier="mass" {flags}/>\n'
        f"<UnitDefinitions>{units}</UnitDefinitions>{enum}\n"
        f"<ModelVariables>\n{variables}</ModelVariables>\n"
        f"<ModelStructure>{_structure(major, order, states)}</ModelStructure>\n"
        "</fmiModelDescription>\n"
    )


def _variables(major, capabilities, types):
    lines, order = [], {}
    if major == 3:
        lines.append('<Float64 name="time" valueReference="0" causality="independent"/>\n')
    inside = capabilities.get("providesIntermediateUpdate") == "true"
    for name, (reference, causality, start, unit) in REALS.items():
        values = {"name": name, "valueReference": reference, "causality": causality}
        if causality == "parameter":
            values["variability"] = "fixed"
        if name in ("x", "v"):
            values["initial"] = "exact"
        real = {} if unit is None else {"unit": unit}
        if start is not None:
            real["start"] = start
        if name.startswith("der("):
            state = REALS[name[4:-1]][0]
            real["derivative"] = state if major == 3 else order[name[4:-1]]
        order[name] = len(order) + 1
        if inside and causality in ("input", "output"):
            real["intermediateUpdate"] = "true"
        lines.append(_tag(major, "Real", values, real))
    some = OTHERS if types else {}
    for name, (reference, causality, kind, start) in some.items():
        values = {"name": name, "valueReference": reference, "causality": causality}
        extra = {} if start is None else {"start": start}
        if kind == "Enumeration":
            extra["declaredType"] = "Mode"
        values["variability"] = "discrete"
        order[name] = len(order) + 1
        lines.append(_tag(major, kind, values, extra))
    values = {"valueReference": 32, "name": "fault", "causality": "parameter"}
    lines.append(_tag(major, "Integer", values | {"variability": "fixed"}, {"start": 0}))
    if types and major == 3:
        lines.append(
            '<UInt64 name="size" valueReference="80" causality="structuralParameter" start="3" '
            'variability="fixed"/>\n'
            '<Float64 name="array" valueReference="70" causality="input" start="1 2 3">'
            '<Dimension valueReference="80"/></Float64>\n'
            '<Float64 name="twice" valueReference="71" causality="output">'
            '<Dimension valueReference="80"/></Float64>\n'
            '<Float32 name="single" valueReference="72" causality="input" start="0"/>\n'
            '<Float32 name="single_out" valueReference="73" causality="output"/>\n'
            '<String name="label" valueReference="60" causality="parameter" variability="fixed">'
            '<Start value="none"/></String>\n'
        )
    elif types:
        values = {"name": "label", "valueReference": 60, "causality": "parameter"}
        lines.append(_tag(2, "String", values | {"variability": "fixed"}, {"start": "none"}))
    return "".join(lines), order


def _tag(major, kind, values, extra):
    def text(table):
        return " ".join(f"{key}={quoteattr(str(value))}" for key, value in table.items())

    if major == 2:
        return f"<ScalarVariable {text(values)}><{kind} {text(extra)}/></ScalarVariable>\n"
    name = {"Real": "Float64", "Integer": "Int32"}.get(kind, kind)
    return f"<{name} {text(values | extra)}/>\n"


def _structure(major, order, states):
    """Outputs with what they depend on, and the state derivatives."""
    depends = {"force": ["x2", "v2"], "x": [], "v": []}
    depends |= {name: [name.removesuffix("_out")] for name in order if name.endswith("_out")}
    rates = ["der(x)", "der(v)"] if states else []
    if major == 3:
        ref = {name: row[0] for name, row in (REALS | OTHERS).items()}
        outputs = "".join(
            f'<Output valueReference="{ref[name]}" '
            f'dependencies="{" ".join(str(ref[d]) for d in needs)}"/>'
            for name, needs in depends.items()
        )
        return outputs + "".join(
            f'<ContinuousStateDerivative valueReference="{ref[name]}"/>' for name in rates
        )
    outputs = "".join(
        f'<Unknown index="{order[name]}" dependencies="{" ".join(str(order[d]) for d in needs)}"/>'
        for name, needs in depends.items()
    )
    inside = "".join(f'<Unknown index="{order[name]}"/>' for name in rates)
    derivatives = f"<Derivatives>{inside}</Derivatives>" if rates else ""
    return f"<Outputs>{outputs}</Outputs>{derivatives}"
