"""Array states, clocks and binaries of a built FMU, against FMPy's calls and exact solutions."""

import contextlib
import shutil

import fmpy
import numpy as np
from fmpy.fmi3 import FMU3Slave
from scipy.linalg import expm

import hilrt
from hilrt.check.check import check_file
from hilrt.fmu.description import read_fmu
from hilrt.hosting.hosted_solver import HostedSolver
from tests.fmu.build import needs_compiler, sampled
from tests.fmu.driving import fmu_solver

pytestmark = needs_compiler

STEP, SAMPLE = 4e-3, 0.01
#: Value references.
X, D, R, HELD, AT_CROSSING, X_RESET, SAMPLES, CROSSED, RESET, COMMAND, ECHO = (
    *(1, 3, 10, 11, 12, 13, 40, 41, 42, 50, 51),
)
#: Places in the vector of the inputs: d (2), r, x_reset (2), reset.
N_INPUTS = 6


@contextlib.contextmanager
def in_fmpy(path):
    """The FMU, instantiated by FMPy alone."""
    folder = fmpy.extract(str(path))
    fmu = FMU3Slave("sampled", guid="sampled", modelIdentifier="sampled", unzipDirectory=folder)
    fmu.instantiate(eventModeUsed=True, earlyReturnAllowed=True)
    yield fmu
    fmu.terminate()
    fmu.freeInstance()
    shutil.rmtree(folder, ignore_errors=True)


def inputs(steps):
    """Inputs of each step, shape (steps, N_INPUTS); `reset` ticks in some, never with `sample`."""
    rng = np.random.default_rng(3)
    u = rng.normal(size=(steps, N_INPUTS))
    u[:, 5] = np.cumsum(np.isin(np.arange(steps) % 40, (7, 23)))
    return u


def after(x, b, h):
    """Exact state of x' = A x + b after `h` [s]."""
    whole = np.zeros((4, 4))
    whole[:2, :2], whole[:2, 2:] = [[0.0, 1.0], [-4000.0, -0.5]], np.eye(2)  # b' = 0
    return (expm(whole * h) @ np.concatenate((x, b)))[:2]


class Loop:
    """A loop over FMPy's calls as the standard has them, for the inputs of `inputs`."""

    def __init__(self, fmu):
        self.fmu, self.t, self.crossings, self.resets, self.ticks = fmu, 0.0, 0, 0.0, 0
        fmu.enterInitializationMode()
        fmu.setFloat64([D, R, X_RESET], [0.0] * 5)
        self.held, self.at_crossing = fmu.getFloat64([HELD], 2), fmu.getFloat64([AT_CROSSING], 2)
        fmu.exitInitializationMode()
        self.settle()

    def settle(self):
        again = True
        while again:
            if self.fmu.getClock([CROSSED])[0]:
                self.crossings += 1
                self.at_crossing = self.fmu.getFloat64([AT_CROSSING], 2)
            again, *_ = self.fmu.updateDiscreteStates()
        self.fmu.enterStepMode()

    def step(self, u):
        fmu, end = self.fmu, self.t + STEP
        if u[5] != self.resets:
            self.resets = u[5]
            fmu.enterEventMode()
            fmu.setClock([RESET], [True])
            fmu.setFloat64([X_RESET, D], [*u[3:5], *u[:2]])
            self.settle()
        fmu.setFloat64([D], u[:2].tolist())
        now = self.t
        while now < end:
            tick = self.ticks * SAMPLE
            if tick < end - 1e-9 and tick <= now + 1e-9:
                self.ticks += 1
                fmu.enterEventMode()
                fmu.setClock([SAMPLES], [True])
                fmu.setFloat64([R, D], u[[2, 0, 1]].tolist())
                self.held = fmu.getFloat64([HELD], 2)
                self.settle()
                continue
            until = tick if tick < end - 1e-9 else end
            event, _, early, last = fmu.doStep(now, until - now)
            now = last if early else until
            if event:
                fmu.enterEventMode()
                fmu.setFloat64([D], u[:2].tolist())
                self.settle()
        self.t = end
        return [*fmu.getFloat64([X], 2), *self.held, *self.at_crossing, float(self.crossings)]


def test_every_output_is_that_of_a_loop_over_fmpy():
    path, steps = sampled(), 200
    solver = HostedSolver(fmu_solver(path))
    assert [port.name for port in solver.inputs] == ["d", "r", "x_reset", "reset"]
    assert [port.name for port in solver.outputs] == ["x", "held", "at_crossing", "crossed"]
    first = solver.initialize(0.0, np.zeros(N_INPUTS)).y
    assert first.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    with in_fmpy(path) as fmu:
        loop, t = Loop(fmu), 0.0
        for u in inputs(steps):
            got = solver.advance(t, STEP, u[None]).y
            assert got.tolist() == loop.step(u), t
            t += STEP
        assert loop.crossings > 5
        assert loop.ticks == 80
    solver.stop("done")


def test_the_states_are_those_of_the_matrix_exponential():
    """Without resets: sampled control is constant between two ticks, and the plant linear."""
    solver = HostedSolver(fmu_solver(sampled()))
    solver.initialize(0.0, np.zeros(N_INPUTS))
    x, z, u = np.array([1.0, 0.0]), 0.0, np.zeros((1, N_INPUTS))
    u[0, :3] = 0.2, -0.3, 0.7
    for i in range(100):
        if i % 2 == 0:
            z = 0.7 - 3.0 * x[0] - x[1]
        x = after(x, u[0, :2] + (0.0, z), SAMPLE / 2)
        y = solver.advance(i * SAMPLE / 2, SAMPLE / 2, u).y
        np.testing.assert_allclose(y[:2], x, atol=1e-9)
        np.testing.assert_allclose(y[2], z, atol=1e-9)
    solver.stop("done")


def test_a_saved_state_has_arrays_and_clocks():
    solver = fmu_solver(sampled())
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(N_INPUTS))
    u = inputs(120)
    for i in range(40):
        hosted.advance(i * STEP, STEP, u[i][None])
    state = solver.save_state()
    ahead = [hosted.advance(i * STEP, STEP, u[i][None]).y.tolist() for i in range(40, 120)]
    assert ahead[-1][-1] > ahead[0][-1], "clocks have ticked meanwhile"
    solver.restore_state(state)
    again = [hosted.advance(i * STEP, STEP, u[i][None]).y.tolist() for i in range(40, 120)]
    assert again == ahead
    hosted.stop("done")


SESSION = """
[session]
name = "clocks"
duration = 1.0
pace = "asap"
[master]
step = 0.004
extrapolation = {{ order = 0 }}
[subsystems.leader]
adapter = "fmu"
fmu = "{path}"
inputs = {{ d.start = 0.1, r.start = 0.2, x_reset.start = 0.0, reset.start = 0.0 }}
[subsystems.follower]
adapter = "fmu"
fmu = "{path}"
inputs = {{ d.start = -0.4, r.start = 0.0 }}
[[connections]]
from = "leader.crossed"
to = "follower.reset"
[[connections]]
from = "leader.at_crossing"
to = "follower.x_reset"
{more}
"""


def written(folder, more=""):
    file = folder / "session.toml"
    file.write_text(SESSION.format(path=sampled(), more=more))
    return file


def test_in_a_session_the_clock_of_one_sets_the_array_states_of_another(tmp_path):
    result = hilrt.simulate(written(tmp_path))
    assert result.fault is None
    log = result.log
    ticks = np.flatnonzero(np.diff(log["leader.crossed"])) + 1
    compared = 0
    for i in ticks:
        # The event is a communication point, so the follower begins there with the leader's state.
        assert log["leader.x[0]"][i] == log["leader.at_crossing[0]"][i]
        begin = [log[f"leader.at_crossing[{j}]"][i] for j in (0, 1)]
        z = log["follower.held[0]"]
        if z[i] == z[i + 1]:  # no tick of its own in that step
            x = [log[f"follower.x[{j}]"][i + 1] for j in (0, 1)]
            exact = after(begin, [-0.4, -0.4 + z[i]], log.t[i + 1] - log.t[i])
            np.testing.assert_allclose(x, exact, atol=1e-8)
            compared += 1
    assert compared >= 3


def test_binaries_are_refused_and_the_rest_of_the_fmu_runs(tmp_path):
    path = sampled()
    with in_fmpy(path) as fmu:  # that is what they hold
        fmu.enterInitializationMode()
        assert fmu.getBinary([ECHO]) == [b"trats"]
        fmu.setBinary([COMMAND], [b"\x01\x02\x03"])
        assert fmu.getBinary([ECHO]) == [b"\x03\x02\x01"]
        fmu.exitInitializationMode()
    assert read_fmu(path).notes == []
    found = check_file(written(tmp_path))
    assert [problem.level for problem in found] == ["warning", "warning"]
    assert all("Binary input 'command' gets no" in str(problem) for problem in found)
    more = '[[connections]]\nfrom = "leader.echo"\nto = "follower.command"\n'
    wrong = [problem for problem in check_file(written(tmp_path, more)) if problem.level == "error"]
    assert [(problem.table, problem.key) for problem in wrong] == [
        ("connections.2", "from"),
        ("connections.2", "to"),
    ]
    assert all("is a Binary, not a number, but ports only carry numbers" in str(p) for p in wrong)
