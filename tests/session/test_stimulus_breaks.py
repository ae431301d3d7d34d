"""With a variable step, known jumps and bends of stimuli end a step; against scipy."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hilrt.coupling.choose_step import step_to_break
from hilrt.replay.replay_log import replay
from hilrt.session.result import Result
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.session.simulate import simulate

SESSION = f"""
[session]
name = "pushed"
duration = 1.0
pace = "asap"

[master]
step = 0.02
extrapolation = {{ order = 1 }}
step_control = {{ method = "local", atol = 1e9, maximum = 0.02 }}

[subsystems.left]
adapter = "inprocess"
model = "coupled_models:Neighbour"
path = {str(Path(__file__).parents[1] / "exchange")!r}

[subsystems.right]
adapter = "inprocess"
model = "coupled_models:Neighbour"
path = {str(Path(__file__).parents[1] / "exchange")!r}
params = {{ x = -0.5, c = 20.0 }}

[[connections]]
from = "left.x"
to = "right.z"

[[connections]]
from = "right.x"
to = "left.z"

[[stimuli]]
name = "push"
input = "left.z"
start = 0.3137
then = "hold"
segments = [
  {{ shape = "step", to = 5.0, duration = 0.2042 }},
  {{ shape = "ramp", to = 1.0, rate = 20.0 }},
]
"""
#: The step, and both ends of the ramp, s.
BREAKS = (0.3137, 0.5179, 0.7179)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.toml"
    path.write_text(SESSION, encoding="utf-8")
    return path


def truth(times: np.ndarray) -> np.ndarray:
    """Both displacements by scipy, shape (2, n): solved from break to break."""
    pushes = (
        (lambda t: 0.0),
        (lambda t: 5.0),
        (lambda t: 5.0 - 20.0 * (t - BREAKS[1])),
        (lambda t: 1.0),
    )
    start, parts = np.array([1.0, 0.0, -0.5, 0.0]), []
    for push, (begin, end) in zip(pushes, pairwise((0.0, *BREAKS, times[-1] + 1e-3)), strict=True):

        def rates(t: float, y: np.ndarray, push: Any = push) -> list[float]:
            x, v, other, w = y
            return [v, -80.0 * x + 30.0 * (other + push(t)), w, -50.0 * other + 30.0 * x]

        among = times[(times >= begin) & (times < end)]
        options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12}
        found = solve_ivp(rates, (begin, end), start, t_eval=[*among, end], **options)
        start = found.y[:, -1]
        parts.append(found.y[[0, 2], :-1])
    return np.concatenate(parts, axis=1)


def error_of(result: Result) -> float:
    """Largest error of a displacement."""
    assert not result.fault
    found = np.array([result.log["left.x"], result.log["right.x"]])
    return float(np.abs(found - truth(result.log.t)).max())


def with_steps(h: float, order: int, scheme: str = "explicit") -> dict[str, Any]:
    """Settings of a variable step that the control always makes as long as `h` [s]."""
    return {
        "master.extrapolation.order": order,
        "master.step_control.maximum": h,
        "master.step_control.initial": h,
        "master.scheme": scheme,
    }


@pytest.mark.parametrize(("order", "scheme"), [(0, "explicit"), (1, "explicit"), (1, "implicit")])
def test_the_order_of_the_error_is_that_of_a_smooth_run(
    session: Path, order: int, scheme: str
) -> None:
    steps = np.array([0.02, 0.01, 0.005, 0.0025])
    errors = [error_of(simulate(session, with_steps(h, order, scheme))) for h in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(order + 1, abs=0.15)


def test_no_step_crosses_a_break_and_the_one_after_it_is_the_first_one(session: Path) -> None:
    log = simulate(session, {"master.step_control.initial": 0.002}).log
    for at in BREAKS:
        (k,) = np.flatnonzero(np.abs(log.t - at) < 1e-9)
        np.testing.assert_allclose(np.diff(log.t)[k : k + 3], [0.002, 0.004, 0.008], atol=2e-9)


def test_a_replay_finds_the_same_points(session: Path, tmp_path: Path) -> None:
    result = run_session(session, options=RunOptions(out=tmp_path / "runs"))
    assert not result.fault
    assert replay(result.folder).exact


@pytest.mark.parametrize("until", [1e-9, 0.3e-3, 1e-3, 1.7e-3, 4.9e-3, 5.2e-3, 8e-3, 1.0, np.inf])
def test_no_step_is_shorter_than_the_minimum(until: float) -> None:
    """`until` the break, with steps of 5 ms, of at least 1 ms and at most 6 ms."""
    h, low = step_to_break(5e-3, until, 1e-3, 6e-3), 1e-3
    assert low <= h <= 6e-3
    left = until - h
    assert left == 0.0 or left >= low * (1.0 - 1e-12) or until < low
    assert h == 5e-3 or left <= low


def test_a_break_close_after_a_point_is_crossed_by_the_shortest_step(session: Path) -> None:
    """Two jumps, 0.1 ms apart: a step of the minimum, 0.5 ms, crosses the second one."""
    jumps = [{"shape": "step", "to": 5.0, "duration": 1e-4}, {"shape": "step", "to": 4.0}]
    changes = {"stimuli.push.segments": jumps, "master.step_control.minimum": 5e-4}
    log = simulate(session, changes).log
    h = np.diff(log.t)
    assert h.min() == pytest.approx(5e-4, abs=1e-9)
    assert h[np.searchsorted(log.t, BREAKS[0] - 1e-9)] == pytest.approx(5e-4, abs=1e-9)
