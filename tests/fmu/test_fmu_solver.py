"""An FMU as a solver: its loops of direct feedthrough, its types, and its parameters."""

import re

import numpy as np
import pytest

import hilrt
from hilrt import RunOptions
from hilrt.errors import ConfigError
from hilrt.hosting.hosted_solver import HostedSolver
from tests.fmu.build import description, mass, needs_compiler, oscillator
from tests.fmu.driving import STEP, STILL, fmu_solver, made, trace


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_a_loop_of_direct_feedthrough_starts_with_what_solves_it(major, tmp_path):
    """A damper's force on one mass, whose acceleration is the speed that the damper sees."""
    text = description(major).replace('unit="m/s2"', 'unit="m/s"')
    path = mass(major, xml=text)
    file = tmp_path / "session.toml"
    file.write_text(
        f"""
[session]
name = "loop"
duration = 0.001
pace = "asap"
[master]
step = 0.001
[subsystems.damper]
adapter = "fmu"
fmu = "{path}"
params = {{ kc = 0.0, cc = 0.5, v = 1.0, x2 = 0.0, F = 0.0 }}
outputs = ["force"]
[subsystems.mass]
adapter = "fmu"
fmu = "{path}"
params = {{ m = 2.0, k = 0.0, kc = 0.0, x2 = 0.0, v2 = 0.0 }}
outputs = ["der(v)"]
[[connections]]
from = "damper.force"
to = "mass.F"
[[connections]]
from = "mass.der(v)"
to = "damper.v2"
"""
    )
    result = hilrt.run_session(hilrt.load_session(file), options=RunOptions(out=tmp_path))
    assert not result.fault, result.fault
    log = hilrt.load_log(result.folder)
    # force = 0.5 (1 - force / 2)
    assert log["damper.force"][0] == pytest.approx(0.4, abs=1e-9)
    assert log["mass.der(v)"][0] == pytest.approx(0.2, abs=1e-9)


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_every_type_travels(major):
    params = {"label": "hello", **({"size": 2} if major == 3 else {})}
    solver = made(major, params=params, types=True)
    u = {"gear": 2.6, "on": 0.4, "mode": 2.0, "array": [3.0, 4.0], "single": 0.5}
    values = [x for port in solver.inputs for x in np.atleast_1d(u.get(port.name, 0.0))]
    y = solver.initialize(0.0, np.array(values)).y
    names = [name for port in solver.outputs for name in port.channels()]
    got = dict(zip(names, y.tolist(), strict=True))
    assert (got["gear_out"], got["on_out"], got["mode_out"]) == (3.0, 0.0, 2.0)
    if major == 3:
        assert (got["twice[0]"], got["twice[1]"], got["single_out"]) == (6.0, 8.0, 0.5)
    calls = trace(solver)
    assert "label(hello)" in calls
    assert ("size(2)" in calls) == (major == 3)
    solver.stop("done")


def test_a_wrong_parameter_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"did you mean 'model\.micro_step'"):
        fmu_solver(oscillator("pythonfmu", "Mass1"), params={"model.micro_stp": 1e-3})


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_tunable_parameters_change_between_two_steps(major):
    """The force of a mass that does not move is ``-kc x2``; others are fixed before the start."""
    text = description(major)
    (tag,) = re.findall(r"<[^<>]*name=\"kc\"[^<>]*>", text)
    xml = text.replace(tag, tag.replace('"fixed"', '"tunable" min="0" max="500"'))
    if major == 2:  # bounds belong to the type
        xml = text.replace(tag, tag.replace('"fixed"', '"tunable"'))
    solver = fmu_solver(mass(major, xml=xml), params=STILL)
    (parameter,) = solver.parameters
    assert (parameter.name, parameter.unit, parameter.default) == ("kc", "N/m", 100.0)
    hosted = HostedSolver(solver)
    u = np.array([[0.5] + [0.0] * (hosted.n_inputs - 1)])
    hosted.initialize(0.0, u[0])
    force = [port.name for port in solver.outputs].index("force")
    seen = [hosted.advance(0.0, STEP, u).y[force]]
    assert hosted.set_parameter("kc", 40.0) == ""
    seen.append(hosted.advance(STEP, STEP, u).y[force])
    if major == 3:
        assert hosted.set_parameter("kc", 600.0) == "600 is outside 0 to 500"
    assert hosted.set_parameter("m", 2.0).startswith("there is no parameter 'm'")
    seen.append(hosted.advance(2 * STEP, STEP, u).y[force])
    hosted.stop("done")
    np.testing.assert_allclose(seen, [-50.0, -20.0, -20.0], rtol=1e-10)
