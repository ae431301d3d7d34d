"""The propagation matrix against the steps that the core takes, and against the other analysis."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench_configs.models.mass_chain import two_mass_chain
from bench_configs.models.two_mass_rotational import Side1, Side2
from hilrt.analyze.propagation import SessionScheme, immediate_result
from hilrt.analyze.stability import spectral_radius
from hilrt.analyze.subsystem_models import SubsystemModel, find_subsystem_models
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError
from hilrt.exchange.jacobians import find_feedthrough, find_jacobians
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linearise import leaves
from hilrt.link import Ports
from hilrt.models.linear import Linear
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.solver import InputPolynomial, Port, Sample, Solver
from tests.stepping import Stepping, make_session
from tools.papers.linear_scheme import LinearScheme as PaperScheme
from tools.papers.linear_scheme import propagation_matrix, trajectory

BENCH = Path(__file__).parents[2] / "bench_configs"


def members_of(solvers: dict[str, Solver], session: Any) -> list[SubsystemModel]:
    subsystems = []
    for name, solver in solvers.items():
        ports = Ports(tuple(solver.inputs), tuple(solver.outputs))
        subsystem = SubsystemModel(name, session.subsystems[name], Path(), ports)
        subsystem.hosted = HostedSolver(solver)
        subsystems.append(subsystem)
    return subsystems


def filled(tables: dict[str, Any], solvers: dict[str, Solver]) -> dict[str, Any]:
    given = tables.get("subsystems", {})
    return {**tables, "subsystems": {name: given.get(name, {}) for name in solvers}}


def scheme_of(solvers: dict[str, Solver], **tables: Any) -> SessionScheme:
    session = make_session(filled(tables, solvers))
    return SessionScheme(session, members_of(solvers, session))


class Corrected(Stepping):
    """The core with the corrections of outputs that the tables ask for."""

    def __init__(self, solvers: dict[str, Solver], **tables: Any) -> None:
        super().__init__(solvers, **tables)
        links = members_of(solvers, self.tables)
        feedthrough = find_feedthrough(self.network, self.tables, links, self.u0)
        jacobians = find_jacobians(self.network, self.tables, links, self.u0)
        self.correct(
            feedthrough=immediate_result(feedthrough), jacobians=immediate_result(jacobians)
        )

    def z(self) -> np.ndarray:
        """What the propagation matrix acts on, at a communication point of all subsystems."""
        session, outputs = self.plan.session[0], self.state.outputs
        solvers = [link.solver for link in self.links.values()]
        parts = [np.array(leaves(solver.save_state()), dtype=float) for solver in solvers]
        parts.append(outputs["y_past"][:, : session.samples].T.ravel())
        if session.derivatives:
            dy = self.given.outputs["dy"][:, : session.derivatives].T
            parts.append(np.nan_to_num(dy.ravel()))  # not known: no effect
        if self.plan.model.settings["corrects"][0]:
            parts.append(self.state.inputs["offset"])
        return np.concatenate(parts)

    def cycles(self, cycle: int, n: int) -> np.ndarray:
        """`z` as columns, n + 1 cycles, the first when the histories are complete."""
        found: list[np.ndarray] = []
        while len(found) <= n:
            self.look()
            complete = self.state.outputs["count"] == self.plan.session["samples"]
            if self.tick % cycle == 0 and complete.all():
                found.append(self.z())
            self.go()
        return np.array(found).T


def assert_same_steps(solvers: dict[str, Solver], n: int = 12, **tables: Any) -> SessionScheme:
    """Every step of the core is the matrix times what was before."""
    tables = filled(tables, solvers)
    scheme = scheme_of(solvers, **tables)
    matrix = scheme.matrix(tables["master"]["step"])
    z = Corrected(solvers, **tables).cycles(scheme.cycle, n)
    scale = np.abs(z).max(axis=1)
    expected = matrix @ z[:, :-1]
    error = np.abs(z[:, 1:] - expected) / np.where(scale > 0.0, scale, 1.0)[:, None]
    assert error.max() < 1e-8
    # What was compared moved in every way: the trajectory spans more than one mode.
    assert np.linalg.matrix_rank(z / np.where(scale > 0, scale, 1.0)[:, None], tol=1e-6) > 3
    return scheme


def oscillator(
    every: tuple[int, int] = (1, 1), order: tuple[int, int] = (0, 0), **more: Any
) -> Any:
    method = more.pop("method", "none")
    correction = {"method": method, **more}
    return {
        "solvers": {
            "one": Mass1(c=0.3, cc=0.2, micro_step=2e-4),
            "two": Mass2(c=0.1, micro_step=5e-4),
        },
        "master": {"step": 1e-3},
        "subsystems": {
            "one": {"every": every[0], "jacobian": {"source": "probe"}},
            "two": {"every": every[1], "jacobian": {"source": "probe"}},
        },
        "connections": [
            {"from": "one.force", "to": "two.force", "order": order[0]},
            {"from": "two.x", "to": "one.x2", "order": order[1]},
            {"from": "two.v", "to": "one.v2", "order": order[1]},
        ],
        "bonds": [
            {"name": "spring", "effort": "one.force", "flow": "two.v", "correction": correction}
        ],
    }


def step_jacobian(session: Corrected) -> np.ndarray:
    """One step of the core from every unit vector of its memory, as columns, at a single rate."""
    tables, model = session.plan.session[0], session.state.model
    samples, terms = int(tables.samples), int(tables.coefficients)
    outputs, inputs = session.state.outputs, session.state.inputs
    corrects = bool(session.plan.model.settings["corrects"][0])
    solvers = [link.solver for link in session.links.values()]
    session.look()
    while not (outputs["count"] == samples).all():
        session.go()
        session.look()

    def memory() -> np.ndarray:
        parts = [np.array(leaves(solver.save_state()), dtype=float) for solver in solvers]
        parts += [outputs["y_past"][:, :samples].ravel(), inputs["polynomial"][:, :terms].ravel()]
        return np.concatenate([*parts, inputs["offset"] if corrects else []])

    def step_from(w: np.ndarray) -> np.ndarray:
        motion, past, sent, offset = np.split(
            w,
            np.cumsum([2 * len(solvers), len(outputs) * samples, len(inputs) * terms]),
        )
        for solver, state in zip(solvers, motion.reshape(-1, 2).tolist(), strict=True):
            solver.restore_state(tuple(state))
        outputs["y_past"][:, :samples] = past.reshape(-1, samples)
        outputs["y"] = outputs["y_past"][:, 0]
        inputs["polynomial"][:, :terms] = sent.reshape(-1, terms)
        if corrects:
            inputs["offset"] = model.inputs["offset"] = offset
            model.outputs["past"][:, :samples] = outputs["y_past"][:, :samples]
        session.go()
        session.look()
        return memory()

    size = len(memory())
    return (
        np.array([step_from(unit) for unit in np.eye(size)]).T - step_from(np.zeros(size))[:, None]
    )


@pytest.mark.parametrize("method", ["none", "feedthrough", "model"])
@pytest.mark.parametrize("order", [(0, 0), (1, 0), (2, 1)])
def test_eigenvalues_are_those_of_the_step_itself(order: tuple[int, int], method: str) -> None:
    """Beyond the matrix, the step's memory has what left: a function of the rest, eigenvalues 0."""
    tables = oscillator(order=order, method=method)
    solvers, step = tables.pop("solvers"), tables["master"]["step"]
    tables = filled(tables, solvers)
    expected = np.linalg.eigvals(scheme_of(solvers, **tables).matrix(step))
    expected = expected[np.abs(expected) > 0.05]  # others are known less well: zeros are multiple
    found = np.linalg.eigvals(step_jacobian(Corrected(solvers, **tables)))
    distance = np.abs(found[:, None] - expected).min(axis=0) / np.abs(expected)
    assert len(expected) >= 4
    assert distance.max() < 1e-12


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 2), (2, 1), (4, 5)])
@pytest.mark.parametrize("every", [(1, 1), (3, 1), (1, 4), (2, 3)])
def test_extrapolation_at_every_order_and_rate(
    order: tuple[int, int], every: tuple[int, int]
) -> None:
    scheme = assert_same_steps(**oscillator(every, order))
    assert scheme.cycle == math.lcm(*every)


@pytest.mark.parametrize("order", [(0, 0), (1, 2)])
@pytest.mark.parametrize("every", [(1, 1), (4, 1), (1, 3), (2, 3)])
def test_feedthrough_correction(order: tuple[int, int], every: tuple[int, int]) -> None:
    assert_same_steps(**oscillator(every, order, method="feedthrough"))


@pytest.mark.parametrize("order", [(0, 0), (1, 1), (2, 1), (0, 3)])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_model_based_correction(order: tuple[int, int], alpha: float) -> None:
    assert_same_steps(**oscillator((1, 1), order, method="model", alpha=alpha))


def test_model_based_correction_with_two_rates() -> None:
    assert_same_steps(**oscillator((3, 1), (1, 0), method="model"))


def random_network(seed: int, every: tuple[int, int, int]) -> Any:
    """Three linear subsystems; inputs that add up several connections with gains."""
    rng = np.random.default_rng(seed)
    solvers, connections = {}, []
    for name, (nx, nu, ny) in {"a": (2, 2, 2), "b": (3, 1, 2), "c": (1, 2, 1)}.items():
        A = rng.normal(size=(nx, nx)) - 3.0 * np.eye(nx)
        matrices = rng.normal(size=(nx, nu)), rng.normal(size=(ny, nx))
        D = rng.normal(size=(ny, nu)) * (rng.random((ny, nu)) < 0.3)
        rows = [m.tolist() for m in (A, *matrices, D)]
        solvers[name] = Linear(*rows, x0=rng.normal(size=nx).tolist())
    inputs = [(n, port.name) for n, s in solvers.items() for port in s.inputs]
    outputs = [(n, port.name) for n, s in solvers.items() for port in s.outputs]
    for to in inputs:
        others = [source for source in outputs if source[0] != to[0]]
        for i in rng.choice(len(others), size=2, replace=False):
            connections.append(
                {
                    "from": ".".join(others[i]),
                    "to": ".".join(to),
                    "gain": float(rng.normal(scale=0.3)),
                    "order": int(rng.integers(0, 4)),
                }
            )
    return {
        "solvers": solvers,
        "master": {"step": 0.05},
        "subsystems": {n: {"every": e} for n, e in zip(solvers, every, strict=True)},
        "connections": connections,
    }


@pytest.mark.parametrize("seed", range(6))
def test_sums_and_gains_between_linear_subsystems(seed: int) -> None:
    every = [(1, 1, 1), (1, 2, 3), (4, 1, 2)][seed % 3]
    assert_same_steps(**random_network(seed, every))


class WithDerivatives(Linear):
    """Tells the derivatives of its outputs, but not beyond the second one."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        sample = super().advance(t, h, u)
        A, B, C = self.system.A, self.system.B, self.system.C
        dx = A @ self.x + B @ u(t + h)
        ddx = A @ dx + B @ u.derivative(t + h)
        sample.dy = np.array([C @ dx, C @ ddx, np.full(len(C), np.nan)])
        return sample


def derivatives(every: int, order: int) -> Any:
    A, B, C = [[0.0, 1.0], [-40.0, -1.0]], [[0.0], [1.0]], [[1.0, 0.3]]
    return {
        "solvers": {
            "a": WithDerivatives(A, B, C, x0=[1.0, -2.0]),
            "b": WithDerivatives(A, [[0.0], [9.0]], C, x0=[-1.0, 0.5]),
        },
        "master": {"step": 0.02, "extrapolation": {"order": order, "source": "taylor"}},
        "subsystems": {"a": {"every": every}},
        "connections": [{"from": "a.y0", "to": "b.u0"}, {"from": "b.y0", "to": "a.u0"}],
    }


@pytest.mark.parametrize(("every", "order"), [(1, 1), (1, 2), (1, 4), (3, 2)])
def test_extrapolation_with_output_derivatives(every: int, order: int) -> None:
    assert_same_steps(**derivatives(every, order))


def paper_session(ck: float, dk: float, order: int, corrected: bool, alpha: float = 1.0) -> Any:
    first, second = two_mass_chain(ck, dk)[0]
    names = {"inputs": ["force [N]"], "outputs": ["s [m]", "v [m/s]"]}
    solvers = {
        "one": Linear(*(m.tolist() for m in (first.A, first.B, first.C, first.D)), **names),
        "two": Linear(
            *(m.tolist() for m in (second.A, second.B, second.C, second.D)),
            inputs=["s [m]", "v [m/s]"],
            outputs=["force [N]"],
        ),
    }
    correction = {"method": "model" if corrected else "none", "alpha": alpha}
    return {
        "solvers": solvers,
        "master": {"step": 1e-4, "extrapolation": {"order": order}},
        "subsystems": {name: {"jacobian": {"source": "solver"}} for name in solvers},
        "connections": [
            {"from": "two.force", "to": "one.force"},
            {"from": "one.s", "to": "two.s"},
            {"from": "one.v", "to": "two.v"},
        ],
        "bonds": [{"name": "b", "effort": "two.force", "flow": "one.v", "correction": correction}],
    }


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize(("corrected", "alpha"), [(False, 1.0), (True, 1.0), (True, 0.4)])
def test_spectral_radius_of_the_proven_matrix(order: int, corrected: bool, alpha: float) -> None:
    for ck, dk in ((1e5, 1e2), (1e6, 1e3), (1e8, 1e4)):
        chain, L = two_mass_chain(ck, dk)
        scheme = scheme_of(**paper_session(ck, dk, order, corrected, alpha))
        for h in (4e-7, 3e-5, 5e-4, 2e-3):
            paper = propagation_matrix(chain, L, h, PaperScheme(order, corrected, alpha))
            found = spectral_radius(scheme.matrix(h))
            assert found == pytest.approx(spectral_radius(paper), rel=1e-11)


def test_growth_of_the_undamped_oscillator() -> None:
    """Along the growing mode (its left eigenvector), the core grows as the matrix says."""
    file = load_session(BENCH / "two_mass.toml")
    matrix = SessionScheme(file.tables, find_subsystem_models(file)).matrix(1e-3)
    values, vectors = np.linalg.eig(matrix.T)
    dominant = int(np.abs(values).argmax())
    assert abs(values[dominant]) > 1.0
    raw = tomllib.loads(file.text)
    z = Corrected(
        {"mass1": Mass1(), "mass2": Mass2()},
        master=raw["master"],
        subsystems={"mass1": {}, "mass2": {}},
        connections=raw["connections"],
    ).cycles(1, 1500)
    mode = np.abs(vectors[:, dominant] @ z)
    growth = np.log(mode[-1] / mode[0]) / 1500
    assert growth == pytest.approx(math.log(abs(values[dominant])), rel=0.01)

    x1, v1, x2, v2 = trajectory(matrix, z[:, 0], 10_000)[:4]
    energy = 0.5 * (v1**2 + v2**2 + 10 * x1**2 + 100 * (x1 - x2) ** 2 + 1000 * x2**2)
    assert energy[-1000:].mean() / energy[0] - 1.0 == pytest.approx(0.939, abs=0.005)


def test_rotational_oscillator_with_one_euler_step_per_macro_step() -> None:
    solvers = {"side1": Side1(), "side2": Side2()}
    raw = tomllib.loads((BENCH / "two_mass_rotational.toml").read_text())
    assert_same_steps(solvers, master={"step": 0.01}, connections=raw["connections"])


def test_weights_of_the_paper_for_a_hold_and_a_line() -> None:
    weights = scheme_of(**oscillator((2, 1), (1, 0))).weights
    # force -> two.force: a line through samples two steps apart, seen at the second of them.
    depth, ny, nu = 2, 5, 3
    first, second = (w.reshape(2, nu, depth, ny)[:, 2, :, 0] for w in weights.inputs)
    np.testing.assert_allclose(first, [[1.0, 0.0], [0.5, -0.5]])
    np.testing.assert_allclose(second, [[1.5, -0.5], [0.5, -0.5]])


def test_order_control_is_taken_at_its_initial_order() -> None:
    tables = oscillator((1, 1), (0, 0))
    for connection in tables["connections"][1:]:
        del connection["order"]
    tables["master"]["order_control"] = {"method": "derivatives", "initial": 2}
    scheme = scheme_of(**tables)
    assert scheme.describe_order() == "0 and 2"
    assert any("order control" in text for text in scheme.left_out)


def test_names_what_a_linear_analysis_leaves_out() -> None:
    tables = oscillator(method="energy", mu=0.5)
    tables["subsystems"]["two"]["inputs"] = {"force": {"min": -1.0, "max": 1.0}}
    tables["subsystems"]["one"]["jacobian"] = {"source": "identify"}
    text = "\n".join(scheme_of(**tables).left_out)
    assert "energy correction of spring" in text
    assert "limits of two.force" in text
    assert "identification of one" in text


def test_identified_jacobians_are_taken_as_exact() -> None:
    exact = scheme_of(**oscillator(method="model"))
    tables = oscillator(method="model")
    for table in tables["subsystems"].values():
        table["jacobian"] = {"source": "identify", "dither": 0.001}
    np.testing.assert_allclose(scheme_of(**tables).matrix(1e-3), exact.matrix(1e-3), rtol=1e-12)


class Opaque(Mass2):
    save_state = Solver.save_state
    restore_state = Solver.restore_state


def test_a_solver_that_cannot_go_back_is_named_with_the_remedy() -> None:
    tables = oscillator()
    tables["solvers"]["two"] = Opaque()
    with pytest.raises(ConfigError, match=r"subsystems\.two.*save and restore.*give A, B, C, D"):
        scheme_of(**tables)


def test_matrices_of_the_session_file_stand_in_for_an_opaque_solver() -> None:
    tables = oscillator()
    tables["solvers"]["two"] = Opaque()
    tables["subsystems"]["two"]["jacobian"] = {
        "source": "given",
        "A": [[0.0, 1.0], [-1000.0, -0.1]],
        "B": [[0.0], [1.0]],
        "C": [[0.0, 1.0], [1.0, 0.0]],
    }
    found = spectral_radius(scheme_of(**tables).matrix(1e-3))
    tables = oscillator()
    tables["solvers"]["two"] = Mass2(c=0.1, micro_step=1e-6)
    fine = spectral_radius(scheme_of(**tables).matrix(1e-3))
    assert found == pytest.approx(fine, abs=1e-6)


class Gauge(Solver):
    inputs = (Port("v", "m/s"),)

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return Sample(np.zeros(0))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(np.zeros(0))


def test_what_only_listens_changes_nothing() -> None:
    alone = scheme_of(**oscillator()).matrix(1e-3)
    tables = oscillator()
    tables["solvers"]["gauge"] = Gauge()
    tables["connections"].append({"from": "two.v", "to": "gauge.v", "order": 0})
    scheme = scheme_of(**tables)
    assert "it has no" in scheme.subsystems[2].dynamics.source
    np.testing.assert_array_equal(scheme.matrix(1e-3), alone)


def test_a_session_without_connections() -> None:
    tables = {"solvers": {"two": Mass2(c=1.0)}, "master": {"step": 1e-3}}
    scheme = scheme_of(**tables)
    assert 0.99 < spectral_radius(scheme.matrix(1e-3)) < 1.0
    assert scheme.describe_order() == "none"
