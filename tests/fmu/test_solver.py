"""FMUs as solvers: the same numbers as the Python model, the right calls, every capability."""

import ctypes
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import hilrt
from hilrt import RunOptions
from hilrt.errors import ConfigError, SolverError
from hilrt.fmu.derivatives import states_and_rates
from hilrt.fmu.solver import FmuSolver
from hilrt.hosting import HostedSolver
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.probe import probe_jacobian
from hilrt.solver import InputPolynomial
from tests.fmu.build import FLAGS, description, mass, needs_compiler, oscillator

STEP = 4e-3  # macro step: four micro steps of the model
HELD = {"F": 0.0}
ORDERS = (0, 1, 2)
#: How each kind of FMU is brought to follow an input polynomial.
FOLLOWING = {
    "input derivatives": (2, {"canInterpolateInputs": "true"}, {}),
    "intermediate update": (3, {"providesIntermediateUpdate": "true"}, {}),
    "substeps, fmi 2": (2, {"providesDirectionalDerivative": "true"}, {"substeps": 4}),
    "substeps, fmi 3": (3, {"providesDirectionalDerivatives": "true"}, {"substeps": 4}),
    "inputs of the end": (2, {}, {"substeps": 4, "end_inputs": True}),
}


def made(major, options=None, params=None, types=False, **flags):
    params = {"v": 100.0, **HELD} if params is None else params
    return FmuSolver(mass(major, types=types, **flags), params=params, **(options or {}))


def trace(solver):
    """The calls that the FMU has seen."""
    lib = solver._instance.fmi.dll
    lib.recorded.restype = ctypes.c_char_p
    calls = lib.recorded().decode().split()
    lib.forget()
    return [name for name, _ in itertools.groupby(calls)]  # one call per type counts once


def compare(solver, model, n, order, steps=6):
    """Largest difference of the outputs over some steps with one and the same inputs."""
    rng = np.random.default_rng(7)
    u0 = rng.normal(size=n)
    difference = np.abs(solver.initialize(0.0, u0).y - model.initialize(0.0, u0).y).max()
    scale = np.array([10.0 ** (2 * m) for m in range(order + 1)])[:, None]
    for i in range(steps):
        t = i * STEP
        u = InputPolynomial(t, rng.normal(size=(order + 1, n)) * scale)
        y, expected = solver.advance(t, STEP, u).y, model.advance(t, STEP, u).y
        difference = max(difference, np.abs(y - expected).max())
    solver.stop("done")
    return difference


@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", FOLLOWING)
def test_it_follows_the_polynomial_like_the_python_model(way, order):
    major, flags, options = FOLLOWING[way]
    assert compare(made(major, options, **flags), Mass1(), 2, order) < 1e-9


@needs_compiler
def test_held_inputs_are_held_from_the_start_of_each_step():
    solver, held = made(2), made(2, {"input_derivatives": False}, canInterpolateInputs="true")
    assert compare(solver, Mass1(), 2, 0) < 1e-9
    assert compare(held, Mass1(), 2, 1) > 1e-3


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("package", ["pythonfmu", "pythonfmu3"])
@pytest.mark.parametrize(("side", "model", "n"), [("Mass1", Mass1, 2), ("Mass2", Mass2, 1)])
def test_fmus_of_python_packages_equal_the_python_model(package, side, model, n, order):
    solver = FmuSolver(oscillator(package, side), substeps=4, end_inputs=True)
    assert compare(solver, model(), n, order) < 1e-9


# -- calls -----------------------------------------------------------------------------------------


@needs_compiler
def test_call_sequence_of_fmi_2():
    solver = made(2, {"tolerance": 1e-4, "start_time": 2.0, "stop_time": 9.0})
    solver.initialize(0.0, np.zeros(2))
    solver.initialize(0.0, np.ones(2))
    start = ["instantiate", "set", "setup(0.0001,2,9)", "enter"]
    assert trace(solver) == [*start, "set", "get", "set", "get"]
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    assert trace(solver) == ["exit", "set", "step(2,0.001,1)", "get"]
    library = solver._instance.fmi.dll
    library.recorded.restype = ctypes.c_char_p
    solver.stop("done")
    solver.stop("again")
    assert library.recorded().decode().split() == ["terminate", "free"]


@needs_compiler
def test_call_sequence_of_fmi_3():
    solver = made(3, {"tolerance": 1e-4})
    solver.initialize(0.0, np.zeros(2))
    assert trace(solver) == ["instantiate(0,0,0)", "set", "enter(0.0001,0,-1)", "set", "get"]
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    assert trace(solver) == ["exit", "set", "step(0,0.001,1)", "get"]
    solver.stop("done")


@needs_compiler
def test_event_mode_settles_before_the_first_step():
    solver = made(3, hasEventMode="true", mightReturnEarlyFromDoStep="true")
    solver.initialize(0.0, np.zeros(2))
    assert trace(solver)[0] == "instantiate(1,1,0)"
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    assert trace(solver)[:4] == ["exit", "update", "stepmode", "set"]
    solver.stop("done")


@needs_compiler
def test_discrete_inputs_are_set_in_event_mode_when_they_change():
    flags = {"hasEventMode": "true", "providesIntermediateUpdate": "true"}
    solver = made(3, {"outputs": ["gear_out", "v"]}, {}, types=True, **flags)
    n = sum(port.size for port in solver.inputs)
    gear = [port.name for port in solver.inputs].index("gear")
    solver.initialize(0.0, np.zeros(n))
    got = []
    for i, value in enumerate((0.0, 0.0, 3.0, 3.0)):
        u = np.zeros((1, n))
        u[0, gear] = value
        trace(solver)
        sample = solver.advance(i * 1e-3, 1e-3, InputPolynomial(i * 1e-3, u))
        calls = trace(solver)
        got.append((sample.y[0], "event" in calls))
    assert got == [(0.0, False), (0.0, False), (3.0, True), (3.0, False)]
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("flag", ["true", "false"])
def test_input_derivatives_only_where_offered(flag):
    solver = made(2, canInterpolateInputs=flag)
    solver.initialize(0.0, np.zeros(2))
    trace(solver)
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.ones((2, 2))))
    assert ("derivatives" in trace(solver)) == (flag == "true")
    solver.stop("done")


@needs_compiler
def test_output_derivatives_of_arrays():
    flags = {"maxOutputDerivativeOrder": "1"}
    solver = made(3, {"outputs": ["twice", "x"]}, {"v": 3.0, "size": 2}, types=True, **flags)
    n = sum(port.size for port in solver.inputs)
    solver.initialize(0.0, np.zeros(n))
    sample = solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, n))))
    assert sample.dy[0, :2].tolist() == [2.0, 4.0]
    assert sample.dy[0, 2] == pytest.approx(3.0, rel=1e-2)
    solver.stop("done")


def test_states_that_are_arrays_have_the_size_of_their_derivatives():
    size = SimpleNamespace(name="size", start="3")
    state = SimpleNamespace(dimensions=[SimpleNamespace(start=None, variable=size)])
    rate = SimpleNamespace(dimensions=state.dimensions, derivative=state)
    model = SimpleNamespace(derivatives=[SimpleNamespace(variable=rate)])
    instance = SimpleNamespace(fmu=SimpleNamespace(model=model))
    assert states_and_rates(instance, {}) == ([(state, 3)], [(rate, 3)])
    assert states_and_rates(instance, {"size": 2}) == ([(state, 2)], [(rate, 2)])


def discrete(name):
    """Description of FMI 2 where the real variable `name` is discrete."""
    return description(2, canInterpolateInputs="true", maxOutputDerivativeOrder="1").replace(
        f'name="{name}"', f'name="{name}" variability="discrete"'
    )


@needs_compiler
def test_derivatives_of_continuous_variables_only():
    solver = made(2, params=STILL, xml=discrete("x2"))
    solver.initialize(0.0, np.zeros(1))
    sample = solver.advance(0.0, 0.01, InputPolynomial(0.0, np.array([[0.0], [1.0]])))
    assert sample.y[0] == pytest.approx(0.0, abs=1e-6)  # the input was held
    solver.stop("done")
    for xml, rate in ((discrete("force"), 0.0), (discrete("none"), -100.0)):
        solver = made(2, params=STILL, xml=xml)
        solver.initialize(0.0, np.zeros(1))
        sample = solver.advance(0.0, 0.01, InputPolynomial(0.0, np.array([[0.0], [1.0]])))
        assert sample.dy[0, 0] == pytest.approx(rate, rel=1e-6)
        solver.stop("done")


@needs_compiler
def test_a_lower_order_forgets_the_derivatives_of_a_higher_one():
    solver, model = made(2, canInterpolateInputs="true"), Mass1()
    for one in (solver, model):
        one.initialize(0.0, np.zeros(2))
    for i, order in enumerate((2, 0, 1)):
        u = InputPolynomial(i * STEP, np.full((order + 1, 2), 100.0))
        y, expected = (one.advance(i * STEP, STEP, u).y for one in (solver, model))
        np.testing.assert_allclose(y, expected, rtol=1e-9)
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("flag", ["true", "false"])
def test_intermediate_variables_only_where_provided(flag):
    solver = made(3, providesIntermediateUpdate=flag)
    solver.initialize(0.0, np.zeros(2))
    assert trace(solver)[0] == f"instantiate(0,0,{5 if flag == 'true' else 0})"
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
@pytest.mark.parametrize("flag", ["true", "false"])
def test_state_only_where_offered(major, flag):
    name = "canGetAndSetFMUstate" if major == 2 else "canGetAndSetFMUState"
    solver = made(major, **{name: flag})
    assert solver.can_restore() == (flag == "true")
    solver.initialize(0.0, np.zeros(2))
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    # The promise never to go back is made only by who cannot.
    assert f"step(0,0.001,{int(flag == 'false')})" in trace(solver)
    if flag == "true":
        state = solver.save_state()
        ahead = solver.advance(1e-3, 1e-3, InputPolynomial(1e-3, np.ones((1, 2)))).y
        solver.restore_state(state)
        again = solver.advance(1e-3, 1e-3, InputPolynomial(1e-3, np.ones((1, 2)))).y
        assert again.tolist() == ahead.tolist()
        trace(solver)
        del state
        assert trace(solver) == ["release"]
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_output_derivatives_where_offered(major):
    solver = made(major, maxOutputDerivativeOrder="1")
    solver.initialize(0.0, np.zeros(2))
    sample = solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    force, x, v = sample.y
    expected = [[100.0 * v, v, -10.0 * x - force]]
    np.testing.assert_allclose(sample.dy, expected, rtol=1e-12)
    solver.stop("done")
    other = made(major)
    other.initialize(0.0, np.zeros(2))
    assert other.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2)))).dy is None
    other.stop("done")


@needs_compiler
@pytest.mark.parametrize("way", ["half steps", "intermediate update"])
def test_outputs_in_the_middle(way):
    halves = way == "half steps"
    options = {"half_steps": True} if halves else {}
    flags = {} if halves else {"providesIntermediateUpdate": "true"}
    solver, model = made(3, options, **flags), Mass1()
    u = InputPolynomial(0.0, np.ones((1, 2)))
    solver.initialize(0.0, np.ones(2))
    sample = solver.advance(0.0, STEP, u)
    middle = model.advance(0.0, STEP / 2, u).y
    end = model.advance(STEP / 2, STEP / 2, u).y
    np.testing.assert_allclose(sample.y_mid, middle, atol=1e-9)
    np.testing.assert_allclose(sample.y, end, atol=1e-9)
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("way", ["half steps", "intermediate update"])
def test_outputs_in_the_middle_are_those_of_the_inputs_there(way):
    halves = way == "half steps"
    flag = "providesDirectionalDerivatives" if halves else "providesIntermediateUpdate"
    params = STILL | {"micro": 5e-3}
    solver = made(3, {"half_steps": halves}, params, **{flag: "true"})
    solver.initialize(0.0, np.zeros(1))
    sample = solver.advance(0.0, 0.01, InputPolynomial(0.0, np.array([[0.0], [1.0]])))
    assert sample.y_mid[0] == pytest.approx(-0.5, rel=1e-6)
    solver.stop("done")


@needs_compiler
def test_no_middle_where_nobody_asks():
    solver = made(2)
    solver.initialize(0.0, np.ones(2))
    assert solver.advance(0.0, STEP, InputPolynomial(0.0, np.ones((1, 2)))).y_mid is None
    solver.stop("done")


@needs_compiler
def test_constant_steps_are_kept():
    solver = made(2, canHandleVariableCommunicationStepSize="false")
    solver.initialize(0.0, np.zeros(2))
    u = np.zeros((1, 2))
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, u))
    trace(solver)
    solver.advance(1e-3, 3e-3, InputPolynomial(1e-3, u))  # a merged step after a late one
    steps = [call for call in trace(solver) if call.startswith("step")]
    assert steps == ["step(0.001,0.001,1)", "step(0.002,0.001,1)", "step(0.003,0.001,1)"]
    with pytest.raises(SolverError, match="do not add up"):
        solver.advance(4e-3, 1.5e-3, InputPolynomial(4e-3, u))
    solver.stop("done")


CONSTANT = {"canHandleVariableCommunicationStepSize": "false", "canGetAndSetFMUstate": "true"}


@needs_compiler
def test_a_probe_of_constant_steps_leaves_no_trace():
    solver = made(2, **CONSTANT)
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(2))
    assert hosted.jacobian("probe", 0.0, 1e-9, 0, np.zeros(2)) is None  # not even a step of it
    assert "save" not in trace(solver)
    assert hosted.jacobian("probe", 0.0, 1e-3, 0, np.zeros(2)) is not None
    trace(solver)
    hosted.advance(0.0, 2e-3, np.zeros((1, 2)))
    assert [call for call in trace(solver) if call.startswith("step")] == ["step(0,0.002,0)"]
    hosted.stop("done")


@needs_compiler
@pytest.mark.parametrize("step", [1e-3, 0.5])
def test_the_feedthrough_of_constant_steps_is_to_be_given(step, tmp_path):
    file = tmp_path / "session.toml"
    file.write_text(
        f"""
[session]
name = "constant"
duration = {2 * step}
pace = "asap"
[master]
step = {step}
[subsystems.first]
adapter = "fmu"
fmu = "{mass(2, **CONSTANT)}"
params = {{ F = 0.0 }}
outputs = ["force", "x", "v"]
jacobian = {{ source = "probe" }}
[subsystems.second]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass2"
[[connections]]
from = "first.force"
to = "second.force"
[[connections]]
from = "second.x"
to = "first.x2"
[[connections]]
from = "second.v"
to = "first.v2"
[[bonds]]
name = "spring"
effort = "first.force"
flow = "second.v"
correction = {{ method = "feedthrough" }}
"""
    )
    with pytest.raises(ConfigError, match="steps of one length only; give D"):
        hilrt.run_session(hilrt.load_session(file), RunOptions(out=tmp_path))


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
    result = hilrt.run_session(hilrt.load_session(file), RunOptions(out=tmp_path))
    assert not result.fault, result.fault
    log = hilrt.load_log(result.folder)
    # force = 0.5 (1 - force / 2)
    assert log["damper.force"][0] == pytest.approx(0.4, abs=1e-9)
    assert log["mass.der(v)"][0] == pytest.approx(0.2, abs=1e-9)


ORDER_OUT = "maxOutputDerivativeOrder"
#: Flags that change nothing here.
ANY = ("canBeInstantiatedOnlyOncePerProcess", "needsExecutionTool")
UNUSED = {
    2: (*ANY, "canRunAsynchronuously", "canSerializeFMUstate"),
    3: (*ANY, "providesAdjointDerivatives", "canSerializeFMUState"),
}


def other_way(flag, value):
    """The value of a flag that it does not have by default."""
    return "1" if flag == ORDER_OUT else {"true": "false", "false": "true"}[value]


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_no_flag_alone_and_not_all_of_them_change_what_comes_out(major):
    other = {flag: other_way(flag, value) for flag, value in FLAGS[major].items()}
    on = {flag: "1" if flag == ORDER_OUT else "true" for flag in other}
    off = {flag: "0" if flag == ORDER_OUT else "false" for flag in other}
    for flags in (on, off, *({flag: value} for flag, value in other.items())):
        assert compare(made(major, **flags), Mass1(), 2, 0) < 1e-9, flags
    more = " ".join(f'{flag}="true"' for flag in UNUSED[major])
    xml = description(major).replace("<CoSimulation ", f"<CoSimulation {more} ")
    solver = made(major, xml=xml)
    assert solver.fmu.notes == []  # they are spelt as the standard does
    assert compare(solver, Mass1(), 2, 0) < 1e-9


# -- derivatives -----------------------------------------------------------------------------------

STATE_AND_DERIVATIVES = {
    2: {"providesDirectionalDerivative": "true", "canGetAndSetFMUstate": "true"},
    3: {"providesDirectionalDerivatives": "true", "canGetAndSetFMUState": "true"},
}


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_jacobian_of_the_derivatives_agrees_with_the_probe(major):
    micro = 1e-6  # so fine that Euler and the exact exponential agree
    params = {"v": 1.0, "micro": micro, "cc": 2.0, **HELD}
    solver = made(major, {"end_inputs": True}, params, **STATE_AND_DERIVATIVES[major])
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(2))
    exact = hosted.jacobian("solver", 0.0, 1e-3, 0, np.zeros(2))
    probed = hosted.jacobian("probe", 0.0, 1e-3, 0, np.zeros(2))
    np.testing.assert_allclose(exact, probed, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(exact[0, 0], [-100.0, -2.0], rtol=1e-2)
    hosted.stop("done")


#: How an FMU has its inputs inside a step, with the flags and options for it.
INSIDE = {
    "held": (2, {}, {}),
    "substeps": (3, {}, {"substeps": 3}),
    "constant steps": (2, {"canHandleVariableCommunicationStepSize": "false"}, {"substeps": 2}),
    "inputs of the end": (2, {}, {"substeps": 2, "end_inputs": True}),
    "no feedthrough known": (2, {}, {"substeps": 2, "feedthrough": {"force": []}}),
    "input derivatives": (2, {"canInterpolateInputs": "true"}, {}),
    "discrete": (2, {}, {}),
}


@needs_compiler
@pytest.mark.parametrize("way", INSIDE)
def test_jacobian_has_the_inputs_as_they_are_inside_a_step(way):
    major, flags, options = INSIDE[way]
    flags = STATE_AND_DERIVATIVES[major] | flags
    if way == "discrete":
        text = description(major, canInterpolateInputs="true", **flags)
        flags = {"xml": text.replace('name="x2"', 'name="x2" variability="discrete"')}
    solver = made(major, options, {"v": 1.0, "micro": 1e-5, "cc": 2.0, **HELD}, **flags)
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(2))
    probed = hosted.jacobian("probe", 0.0, 0.01, 2, np.zeros(2))
    exact = hosted.jacobian("solver", 0.0, 0.01, 2, np.zeros(2))
    np.testing.assert_allclose(exact, probed, rtol=5e-3, atol=2e-3)
    hosted.stop("done")


#: A mass that does not move: its force is -100 N/m times the displacement `x2`.
STILL = {"m": 1e9, "k": 0.0, "v2": 0.0, **HELD}


@needs_compiler
@pytest.mark.parametrize("fault", [0, 9])
def test_outputs_are_brought_to_the_end_from_where_inputs_were_last_set(fault):
    params = STILL | {"fault": fault}  # 9 stops half way, and inputs are set there
    solver = made(2, params=params, providesDirectionalDerivative="true")
    solver.initialize(0.0, np.zeros(1))
    force = solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.array([[0.0], [1.0]]))).y[0]
    assert force == pytest.approx(-0.1, rel=1e-6)
    solver.stop("done")


@needs_compiler
def test_hidden_states_leave_the_feedthrough_or_a_probe():
    flags = {"states": False, "providesDirectionalDerivative": "true"}
    solver = made(2, params={"cc": 2.0, **HELD}, **flags)
    solver.initialize(0.0, np.zeros(2))
    gamma = solver.jacobian(1e-9, 1)
    np.testing.assert_allclose(gamma, [[[-100, -2], [0, 0], [0, 0]]] * 2)
    assert solver.jacobian(1e-3, 0) is None
    solver.stop("done")
    able = made(2, {"end_inputs": True}, **flags, canGetAndSetFMUstate="true")
    able.initialize(0.0, np.zeros(2))
    probed = probe_jacobian(
        able, lambda t, h, c: able.advance(t, h, InputPolynomial(t, c)).y, 0.0, STEP, np.zeros(2), 1
    )
    np.testing.assert_allclose(able.jacobian(STEP, 1), probed, atol=1e-9)
    able.stop("done")


@needs_compiler
def test_without_any_of_it_there_is_no_jacobian():
    solver = made(2)
    solver.initialize(0.0, np.zeros(2))
    assert solver.jacobian(1e-3, 0) is None
    solver.stop("done")


# -- types -----------------------------------------------------------------------------------------


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


@needs_compiler
def test_what_is_not_continuous_keeps_its_value_inside_a_step():
    solver = made(2, {"substeps": 2}, {}, types=True)
    solver.initialize(0.0, np.zeros(6))
    u = np.zeros((2, 6))
    u[1] = 1e6
    sample = solver.advance(0.0, 1e-3, InputPolynomial(0.0, u))
    assert dict(zip([p.name for p in solver.outputs], sample.y, strict=True))["gear_out"] == 0.0
    solver.stop("done")


def test_a_wrong_parameter_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"did you mean 'model\.micro_step'"):
        FmuSolver(oscillator("pythonfmu", "Mass1"), params={"model.micro_stp": 1e-3})
