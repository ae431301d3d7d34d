"""FMUs in whole sessions: in process and hosted."""

import json

import numpy as np
import pytest

import hilrt
from hilrt.session.run import RunOptions
from hilrt.solver import Port
from tests.exchange.test_event_points import Integral
from tests.fmu.build import mass, needs_compiler, oscillator
from tests.scenarios.sessions import LINUX

SESSION = """
[session]
name = "fmu"
duration = {duration}
pace = "asap"

[master]
step = 0.001
extrapolation = {{ order = {order} }}
step_timeout = 2.0

[subsystems.mass1]
{mass1}

[subsystems.mass2]
{mass2}

[[connections]]
from = "mass1.force"
to = "mass2.{force}"

[[connections]]
from = "mass2.x"
to = "mass1.x2"

[[connections]]
from = "mass2.v"
to = "mass1.v2"
"""
PYTHON = {
    name: f'adapter = "inprocess"\nmodel = "hilrt.models.two_mass:{name.capitalize()}"'
    for name in ("mass1", "mass2")
}
#: Micro step of the FMUs is the Python models' default, 1 ms: the macro step.
FOLLOW = {2: {"canInterpolateInputs": "true"}, 3: {"providesIntermediateUpdate": "true"}}


def own_fmus(major):
    """The C FMU as mass 1 and as mass 2, with their parameters."""
    path = mass(major, **FOLLOW[major])
    return path, {
        "mass1": {"v": 100.0, "F": 0.0},
        "mass2": {"k": 1000.0, "kc": 0.0, "v": -100.0, "x2": 0.0, "v2": 0.0},
    }


def in_process(path, params):
    table = ", ".join(f'"{key}" = {value}' for key, value in params.items())
    return f'adapter = "fmu"\nfmu = "{path}"\nparams = {{ {table} }}'


def hosted(path, params, *options):
    argv = ["hilrt", "solver", str(path)]
    for option in options:
        argv += ["--option", option]
    for key, value in params.items():
        argv += ["--param", f"{key}={value}"]
    return f'adapter = "zeromq"\nspawn = {json.dumps(argv)}'


def run(folder, order, mass1, mass2, duration=0.1, force="force"):
    """Recorded log of a session."""
    file = folder / "session.toml"
    text = SESSION.format(order=order, mass1=mass1, mass2=mass2, duration=duration, force=force)
    file.write_text(text)
    result = hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=folder / "runs"))
    assert not result.fault, result.fault
    return hilrt.load_log(result.folder)


SIGNALS = ("mass1.force", "mass1.x", "mass1.v", "mass2.x", "mass2.v")


@pytest.fixture(scope="module", params=[0, 1, 2])
def expected(request, tmp_path_factory):
    """Order of the inputs' polynomials, and the log of the session with the Python models."""
    folder = tmp_path_factory.mktemp("python")
    return request.param, run(folder, request.param, PYTHON["mass1"], PYTHON["mass2"])


def differing(log, expected):
    """Signals that are not the same to 1e-9, relative and absolute."""
    near = {"rtol": 1e-9, "atol": 1e-9}
    return [name for name in SIGNALS if not np.allclose(log[name], expected[name], **near)]


@LINUX
@needs_compiler
def test_fmus_of_both_versions_equal_the_python_models(expected, tmp_path):
    order, log = expected
    (first, params), (second, _) = own_fmus(2), own_fmus(3)
    both = in_process(first, params["mass1"]), in_process(second, params["mass2"])
    assert differing(run(tmp_path, order, *both, force="F"), log) == []


def test_so_do_fmus_of_the_python_packages(expected, tmp_path):
    order, log = expected
    held = "\ninput_derivatives = false\nend_inputs = true"
    both = (
        f'adapter = "fmu"\nfmu = "{oscillator(package, side)}"{held}'
        for package, side in (("pythonfmu", "Mass1"), ("pythonfmu3", "Mass2"))
    )
    assert differing(run(tmp_path, order, *both), log) == []


@LINUX
@needs_compiler
def test_so_do_hosted_ones(expected, tmp_path):
    order, log = expected
    path, params = own_fmus(2)
    python = hosted(oscillator("pythonfmu3", "Mass2"), {}, "input_derivatives=false")
    assert differing(run(tmp_path, order, hosted(path, params["mass1"]), python), log) == []


@LINUX
@needs_compiler
def test_so_do_hosted_ones_the_other_way_round(expected, tmp_path):
    order, log = expected
    path, params = own_fmus(3)
    python = hosted(oscillator("pythonfmu", "Mass1"), {}, "end_inputs=true")
    other = hosted(path, params["mass2"])
    assert differing(run(tmp_path, order, python, other, force="F"), log) == []


class Area(Integral):
    """The integral of a place over time, exact for polynomials."""

    inputs = (Port("u", "m"),)
    outputs = (Port("x", "m.s"), Port("through", "m", feedthrough=("u",)))


#: Far above the ground, falling: place x0 - g t²/2.
FALLING = {"g": 9.81, "x": 1000.0, "k": 0.0, "kc": 0.0, "F": 0.0, "x2": 0.0, "v2": 0.0}


@LINUX
@needs_compiler
@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("major", [2, 3])
def test_inputs_are_extrapolated_with_the_derivatives_that_an_fmu_tells(major, remote, tmp_path):
    path = mass(major, maxOutputDerivativeOrder="1")
    fmu = hosted(path, FALLING) if remote else in_process(path, FALLING)
    step, n = 0.01, 50
    file = tmp_path / "session.toml"
    file.write_text(
        f'[session]\nname = "taylor"\nduration = {n * step}\npace = "asap"\n[master]\n'
        f'step = {step}\nextrapolation = {{ order = 1, source = "taylor" }}\n'
        f"[subsystems.fall]\n{fmu}\n"
        '[subsystems.sum]\nadapter = "inprocess"\nmodel = "tests.scenarios.test_fmu:Area"\n'
        '[[connections]]\nfrom = "fall.x"\nto = "sum.u"\n'
    )
    result = hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=tmp_path))
    assert not result.fault, result.fault
    t = step * np.arange(n)
    # Each step begins with the right slope, -g t: no difference of samples has that.
    pieces = (1000.0 - 0.5 * 9.81 * t**2) * step - 9.81 * t * 0.5 * step**2
    log = hilrt.load_log(result.folder)
    np.testing.assert_allclose(log["sum.x"][1:], np.cumsum(pieces), rtol=1e-12)


@LINUX
@needs_compiler
@pytest.mark.parametrize("remote", [False, True])
def test_what_an_fmu_says_is_in_the_log_of_the_session(remote, tmp_path):
    params = {"x2": 0.0, "v2": 0.0, "F": 0.0, "fault": 7}  # warns at every step
    fmu = hosted(mass(2), params) if remote else in_process(mass(2), params)
    file = tmp_path / "session.toml"
    file.write_text(
        '[session]\nname = "said"\nduration = 0.05\npace = "asap"\n[master]\nstep = 0.001\n'
        f"[subsystems.fmu]\n{fmu}\n"
    )
    result = hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=tmp_path))
    assert not result.fault, result.fault
    said = [e for e in hilrt.load_log(result.folder).events if "step size is small" in e.text]
    assert said
    assert {event.level for event in said} == {"warning"}
    assert any(event.text.startswith("mass.fmu [logStatus]: step") for event in said)
