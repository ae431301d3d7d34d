"""The implicit scheme, held to numbers from outside the project, and to closed forms."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hilrt.check.check import check_file
from hilrt.errors import ConfigError
from hilrt.exchange.implicit_scheme import basis, integrals
from hilrt.replay.replay_log import replay
from hilrt.session.result import Result
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.session.simulate import simulate

SESSION = f"""
[session]
name = "mass-spring"
duration = 1.0
pace = "asap"

[master]
step = 0.02
scheme = "implicit"

[subsystems.mass]
adapter = "inprocess"
model = "coupled_models:PointMass"
path = {str(Path(__file__).parent)!r}

[subsystems.spring]
adapter = "inprocess"
model = "coupled_models:SpringDamper"
path = {str(Path(__file__).parent)!r}

[[connections]]
from = "spring.f"
to = "mass.f"

[[connections]]
from = "mass.x"
to = "spring.x"

[[connections]]
from = "mass.v"
to = "spring.v"
"""
#: ``(step, degree): (x, v at 1 s, RMS error of x)``, computed independently from the equations.
INDEPENDENT = {
    (0.02, 0): (-0.4382143491702251, 2.249660354525018, 0.1554782701236714),
    (0.02, 1): (-0.672997202642904, 4.108912205979447, 0.005203301540415675),
    (0.02, 2): (-0.6665758655284517, 4.220685125086236, 0.000633377076609799),
    (0.02, 3): (-0.6654835433786257, 4.214769567836756, 0.00033830575983051666),
    (0.01, 0): (-0.536551652305132, 3.13702525300702, 0.08464653953569373),
    (0.01, 1): (-0.6672720425458418, 4.190540047573017, 0.0013031022361816018),
    (0.01, 2): (-0.6654893595280718, 4.218156800988733, 8.00937358716109e-05),
    (0.01, 3): (-0.6653609766647283, 4.217255526333563, 4.6841251915355954e-05),
    (0.005, 1): (-0.6658205206172141, 4.2109223703403735, 0.000325863210399194),
    (0.005, 2): (-0.6653541234893776, 4.21777389586654, 1.0064130513969117e-05),
}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.toml"
    path.write_text(SESSION, encoding="utf-8")
    return path


def run(session: Path, step: float, degree: int, **more: Any) -> Result:
    settings = {"master.step": step, "master.extrapolation.order": degree}
    result = simulate(session, {**settings, **more})
    assert not result.fault
    return result


def error_of_x(result: Result) -> float:
    t = result.log.t
    decay, w = 0.25, math.sqrt(100.0 - 0.25**2)
    truth = np.exp(-decay * t) * (np.cos(w * t) + decay / w * np.sin(w * t))
    return float(np.sqrt(np.mean((result.log["mass.x"] - truth) ** 2)))


@pytest.mark.parametrize(("step", "degree"), INDEPENDENT)
def test_the_converged_solution_is_that_of_an_independent_program(
    session: Path, step: float, degree: int
) -> None:
    x, v, error = INDEPENDENT[step, degree]
    result = run(session, step, degree)
    assert result.log["mass.x"][-1] == pytest.approx(x, rel=1e-8)
    assert result.log["mass.v"][-1] == pytest.approx(v, rel=1e-8)
    assert error_of_x(result) == pytest.approx(error, rel=1e-6)


def test_the_solution_does_not_depend_on_how_the_jacobian_was_had(session: Path) -> None:
    low = run(session, 0.01, 1, **{"master.interface_jacobian": "low_order"})
    assert low.log["mass.x"][-1] == pytest.approx(INDEPENDENT[0.01, 1][0], rel=1e-8)


@pytest.mark.parametrize(("degree", "order"), [(0, 1.0), (1, 2.0), (2, 3.0)])
def test_the_global_error_has_order_k_plus_one(session: Path, degree: int, order: float) -> None:
    """Regression over five steps; the first step, of degree 1 at most, shows from degree 3 on."""
    steps = np.array([0.02, 0.01, 0.005, 0.0025, 0.00125])
    errors = [error_of_x(run(session, float(step), degree)) for step in steps]
    slope = np.polyfit(np.log(steps[1:]), np.log(errors[1:]), 1)[0]
    assert slope == pytest.approx(order, abs=0.1)


def test_where_the_explicit_scheme_diverges_the_implicit_one_does_not(session: Path) -> None:
    explicit = run(session, 0.02, 0, **{"master.scheme": "explicit"})
    assert error_of_x(explicit) > 1.0
    assert error_of_x(run(session, 0.02, 0)) < 0.2


def test_with_local_error_control_the_step_varies(session: Path) -> None:
    """ImSLocal: predicted against corrected inputs (eq. 24)."""
    control = {"method": "local", "rtol": 1e-4, "atol": 1e-6, "maximum": 0.1}
    result = run(session, 0.001, 2, **{"master.step_control": control})
    steps = np.diff(result.log.t)
    assert error_of_x(result) < 1e-3
    assert steps[10:-1].max() > 1.5 * steps[10:-1].min()


@pytest.mark.parametrize("nodes", [(0.0, -0.1, -0.25), (0.0, -0.02, -0.3)])
def test_error_constants_are_those_of_a_derivation(nodes: tuple[float, ...]) -> None:
    """``C^k`` of eqs. 17 and 20 for k = 0, 1, 2, integrated by hand."""
    h, (_, b, _) = 0.2, nodes
    times = np.array(nodes)
    assert basis(0, times, h) == pytest.approx([1.0])
    assert integrals(basis(0, times, h), h) == pytest.approx((h, h * h / 2))
    assert basis(1, times, h) == pytest.approx([0.0, 1.0 / h])
    assert integrals(basis(1, times, h), h) == pytest.approx((h / 2, h * h / 6))
    top = h * (h - b)  # t (t - b) over its value at h
    by_hand = (h**3 / 3 - b * h**2 / 2) / top, (h**4 / 12 - b * h**3 / 6) / top
    assert integrals(basis(2, times, h), h) == pytest.approx(by_hand)


def test_the_decisions_are_replayed_bit_for_bit(session: Path, tmp_path: Path) -> None:
    result = run_session(session, options=RunOptions(out=tmp_path / "runs"))
    assert result.fault is None
    assert replay(result.folder).exact


def test_what_cannot_make_a_step_again_is_refused_with_the_reason(
    session: Path, tmp_path: Path
) -> None:
    for change, said in (
        ("subsystems.spring.model='coupled_models:Final'", "spring does not save and restore"),
        ("session.pace='realtime'", "the pace is realtime"),
        ("subsystems.spring.every=2", "spring communicates less often"),
        ("subsystems.spring.adapter='zeromq'", "spring does not run in this process"),
    ):
        found = [str(p) for p in check_file(session, [change]) if "scheme" in str(p)]
        assert any(said in problem for problem in found), (change, found)
    with pytest.raises(ConfigError, match="spring does not save and restore"):
        simulate(session, {"subsystems.spring.model": "coupled_models:Final"})
