"""Steps that are repeated for their error, held to closed forms and to the paper's rules."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from hilrt.check.check import check_file
from hilrt.coupling.choose_step import shorten_step
from hilrt.errors import ConfigError
from hilrt.exchange.implicit_scheme import Corrected, ImplicitScheme
from hilrt.exchange.local_errors import LocalErrors, newton_terms, padded
from hilrt.link import Ports
from hilrt.replay.replay_log import replay
from hilrt.session.result import Result
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.session.simulate import simulate
from hilrt.solver import InputPolynomial, Port, Sample
from hilrt.tables.record import table
from hilrt.tables.state import OutputState
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.timeline import RepeatedCounts
from hilrt_adapters.inprocess import InProcessLink
from tests.exchange.coupled_models import Neighbour, Swinging
from tests.stepping import Stepping, hosted, make_numerics

FOLDER = Path(__file__).parent
ONE_WAY: dict[str, Any] = {
    "master": {
        "step": 0.1,
        "extrapolation": {"order": 2},
        "step_control": {
            "method": "local",
            "estimator": "milne",
            "rtol": 1.0,
            "atol": 1e9,
            "initial": 0.1,
            "maximum": 0.1,
        },
    },
    "connections": [{"from": "a.z", "to": "b.z"}],
}
CHAIN = FOLDER.parents[1] / "bench_configs" / "nonlinear_chain.toml"
SESSION = f"""
[session]
name = "neighbours"
duration = 1.0
pace = "asap"

[master]
step = 0.05

[master.extrapolation]
order = 2

[master.step_control]
method = "local"
estimator = "higher_degree"
rtol = 1e-5
atol = {{ "*.x" = 1e-6, "*.v" = 1e-5 }}
positions = ["*.x"]

[subsystems.left]
adapter = "inprocess"
model = "coupled_models:Neighbour"
path = {str(FOLDER)!r}

[subsystems.right]
adapter = "inprocess"
model = "coupled_models:Neighbour"
path = {str(FOLDER)!r}
params = {{ x = -0.5, c = 20.0 }}

[[connections]]
from = "left.x"
to = "right.z"

[[connections]]
from = "right.x"
to = "left.z"
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.toml"
    path.write_text(SESSION, encoding="utf-8")
    return path


def truth(t: np.ndarray) -> np.ndarray:
    """States x, v of the left, x, v of the right mass, shape (n, 4)."""
    A = np.zeros((4, 4))
    A[0, 1] = A[2, 3] = 1.0
    A[1, 0], A[1, 2], A[3, 2], A[3, 0] = -80.0, 30.0, -50.0, 30.0
    return np.array([expm(A * at) @ [1.0, 0.0, -0.5, 0.0] for at in t])


def error_of(result: Result) -> float:
    """Largest error of a displacement."""
    exact = truth(result.log.t)
    return max(
        float(np.abs(result.log[f"{name}.x"] - exact[:, i]).max())
        for name, i in (("left", 0), ("right", 2))
    )


def run(session: Path, **control: Any) -> Result:
    result = simulate(session, {f"master.step_control.{k}": v for k, v in control.items()})
    assert not result.fault
    return result


def in_a_row(degree: int, h: float, estimator: str) -> tuple[Stepping, Neighbour]:
    """A mass behind a known signal, before its first step."""
    mass = Neighbour()
    control = {"method": "local", "rtol": 1.0, "atol": 1.0, "maximum": h, "initial": h}
    control |= {"estimator": estimator, "positions": ["mass.x"]}
    s = Stepping(
        {"source": hosted("source", Swinging()), "mass": hosted("mass", mass)},
        master={"step": h, "extrapolation": {"order": degree}, "step_control": control},
        connections=[{"from": "source.z", "to": "mass.z"}],
    )
    s.exchange.keep_states("", "")
    return s, mass


def exact_step(t: float, h: float, start: np.ndarray) -> np.ndarray:
    """x, v of the mass after a step of `h` from `t`: ``x'' = -80 x + 30 sin(t + 1)``."""
    w = math.sqrt(80.0)

    def particular(at: float) -> np.ndarray:
        return 30.0 / 79.0 * np.array([math.sin(at + 1.0), math.cos(at + 1.0)])

    turn = np.array(
        [[math.cos(w * h), math.sin(w * h) / w], [-w * math.sin(w * h), math.cos(w * h)]]
    )
    return particular(t + h) + turn @ (start - particular(t))


def local_errors(degree: int, h: float, estimator: str) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and errors of x and v in a step from a history without error."""
    s, mass = in_a_row(degree, h, estimator)
    for _ in range(degree + 3):
        s.look()
        start = mass.state.copy()
        s.go()
        s.exchange.run_local()
    found = LocalErrors(s.numerics, s.exchange, s.tables.master.step_control)
    y = s.exchange.waiting_outputs(s.t)
    lowest, inputs, (of_velocity, of_position) = found.other_inputs(h, s.state, degree, y)
    assert lowest == degree
    estimate = found.differences(h, s.exchange.sent, inputs, y)[1:] * [of_position, of_velocity]
    return estimate, np.abs(mass.state - exact_step(s.t - h, h, start))


def corrected_errors(degree: int, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Likewise of steps that are corrected (eqs. 22 and 23)."""
    s, mass = in_a_row(degree, h, "milne")
    scheme = ImplicitScheme(s.numerics, s.exchange, RepeatedCounts())
    for n in range(degree + 3):
        s.look()
        scheme.accept(CommunicationPoint(n, s.t_ns, s.elapsed_ns))
        start = mass.state.copy()
        s.go()
        s.exchange.run_local()
        point = CommunicationPoint(s.tick, s.t_ns, s.elapsed_ns)
        predicted = scheme.correct(point, s.state, s.exchange.sent).predicted
    found = LocalErrors(s.numerics, s.exchange, s.tables.master.step_control)
    of_velocity, of_position = np.abs(1.0 - found.error_constants(h, s.state, degree))
    estimate = np.abs(predicted - s.exchange.waiting_outputs(s.t))[1:] * [of_position, of_velocity]
    return estimate, np.abs(mass.state - exact_step(s.t - h, h, start))


@pytest.mark.parametrize("estimator", ["higher_degree", "milne", "corrected"])
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_the_estimate_has_the_order_of_the_local_error_and_tends_to_it(
    degree: int, estimator: str
) -> None:
    """k + 3 of the position, k + 2 of the velocity (eqs. 12 and 14), by regression."""
    steps = 0.02 / 2.0 ** np.arange(3)
    found = [
        corrected_errors(degree, h)
        if estimator == "corrected"
        else local_errors(degree, h, estimator)
        for h in steps.tolist()
    ]
    both = np.array(found)
    for output, order in ((0, degree + 3), (1, degree + 2)):
        slope = np.polyfit(np.log(steps), np.log(both[:, 0, output]), 1)[0]
        assert slope == pytest.approx(order, abs=0.15)
        assert both[-1, 0, output] == pytest.approx(both[-1, 1, output], rel=0.03)


class Guided(Neighbour):
    """On the exact course of both masses until it is let go; `first` says where its states are."""

    def __init__(self, A: np.ndarray, start: np.ndarray, first: int, unit: str) -> None:
        super().__init__()
        self.inputs = (Port("z", unit),)
        self.A, self.start, self.own = A, start, slice(first, first + 2)
        self.state, self.guided = start[self.own].copy(), True

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        if not self.guided:
            return super().advance(t, h, u)
        self.state = (expm(self.A * (t + h)) @ self.start)[self.own]
        return Sample(self.state.copy())


def errors_of_inputs(
    degree: int, h: float, output: str, start: np.ndarray, scheme: str
) -> tuple[float, float]:
    """RMS over both inputs of the estimate (eqs. 21 and 24) and of the error of what was sent."""
    A = np.zeros((4, 4))
    A[0, 1] = A[2, 3] = 1.0
    A[1, 0] = A[3, 2] = -80.0
    source = "xv".index(output)
    A[1, 2 + source] = A[3, source] = 30.0
    unit = ("m", "m/s")[source]
    masses = {"left": Guided(A, start, 0, unit), "right": Guided(A, start, 2, unit)}
    tolerated = 1e9  # no step is cut
    control = {"method": "local", "rtol": 0.0, "atol": tolerated, "maximum": h, "initial": h}
    s = Stepping(
        {name: hosted(name, mass) for name, mass in masses.items()},
        master={"step": h, "extrapolation": {"order": degree}, "step_control": control},
        connections=[
            {"from": f"{one}.{output}", "to": f"{other}.z"}
            for one, other in (("left", "right"), ("right", "left"))
        ],
    )
    s.exchange.keep_states("", "")
    corrector = ImplicitScheme(s.numerics, s.exchange, RepeatedCounts())
    for n in range(degree + 3):
        s.look()
        corrector.accept(CommunicationPoint(n, s.t_ns, s.elapsed_ns))
        for mass in masses.values():
            mass.guided = n < degree + 2
        s.go()
        s.exchange.run_local()
    point = CommunicationPoint(s.tick, s.t_ns, s.elapsed_ns)
    if scheme == "implicit":
        corrector.correct(point, s.state, s.exchange.sent)
    found = LocalErrors(s.numerics, s.exchange, s.tables.master.step_control)
    estimate = tolerated * found.estimate(point, s.state, s.exchange.sent, None).error
    powers = [h**m / math.factorial(m) for m in range(len(s.exchange.sent))]
    truth = (expm(A * s.t) @ start)[[2 + source, source]]
    return estimate, float(np.sqrt(np.mean((powers @ s.exchange.sent - truth) ** 2)))


@pytest.mark.parametrize("scheme", ["explicit", "implicit"])
@pytest.mark.parametrize(
    ("output", "level", "start", "longest"),
    [("v", 2, (1.0, 1.0, 1.0, 2.0), 0.002), ("x", 3, (1.0, 5.0, -0.5, 3.0), 0.005)],
)
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_the_estimate_of_inputs_tends_to_their_error(
    degree: int, output: str, level: int, start: tuple[float, ...], longest: float, scheme: str
) -> None:
    """ExSLocal and ImSLocal: order k + 1, and k + 2 of what is missing (sections 4.3 and 4.5).

    It is k + 3 where displacements alone are exchanged: what is missing is the error of a source.
    """
    steps = longest / 2.0 ** np.arange(3)
    x = np.array(start)
    both = np.array([errors_of_inputs(degree, h, output, x, scheme) for h in steps.tolist()])
    slopes = [
        np.polyfit(np.log(steps), np.log(values), 1)[0]
        for values in (both[:, 0], np.abs(both[:, 0] - both[:, 1]))
    ]
    assert slopes == pytest.approx([degree + 1, degree + level], abs=0.2)


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("estimator", ["higher_degree", "milne"])
def test_the_second_step_has_the_paper_s_polynomial(degree: int, estimator: str) -> None:
    """Figs 4 and 5 for k = 0, 1 and 2: through k + 2 samples, or k of them and their end."""
    h = 0.1
    s, _ = in_a_row(degree, h, estimator)
    for _ in range(degree + 3):
        s.look()
        s.go()
        s.exchange.run_local()
    found = LocalErrors(s.numerics, s.exchange, s.tables.master.step_control)
    _, more, _ = found.other_inputs(h, s.state, degree, s.exchange.waiting_outputs(s.t))
    coefficients = padded(s.exchange.sent, more)[:, 0]
    nodes = -h * np.arange(degree + 2)  # relative to the beginning of the step
    samples = np.sin(s.t - h + nodes + 1.0)
    higher = np.polynomial.Polynomial.fit(nodes, samples, degree + 1)
    if estimator == "milne":
        nodes = np.append(h, nodes[:degree])
        higher = np.polynomial.Polynomial.fit(nodes, higher(nodes), degree)
    expected = [higher.deriv(m)(0.0) for m in range(len(coefficients))]
    assert coefficients == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("degree", "of_velocity", "of_position"), [(0, 1 / 2, 1 / 3), (1, 5 / 6, 3 / 4)]
)
def test_the_error_constants_of_equal_steps(
    degree: int, of_velocity: float, of_position: float
) -> None:
    """``C^{k+1} / C^k`` (eqs. 17 and 20) by hand: L^1 = s, L^2 = s (s + 1) / 2 with s = t / H.

    Velocities: 1, 1/2, 5/12; positions: 1/2, 1/6, 1/8.
    """
    s = Stepping({"a": hosted("a", Swinging()), "b": hosted("b", Neighbour())}, **ONE_WAY)
    s.exchange.keep_states("", "")
    for _ in range(4):
        s.look()
        s.go()
        s.exchange.run_local()
    found = LocalErrors(s.numerics, s.exchange, s.tables.master.step_control)
    ratios = found.error_constants(0.1, s.state, degree)
    assert ratios == pytest.approx([of_velocity, of_position], rel=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_the_terms_are_those_of_newton_s_form(degree: int) -> None:
    """Degree 0, 1 and 2 by hand: y, [y0 y1] (t - t0), [y0 y1 y2] (t - t0) (t - t1)."""
    out = table(OutputState, 1)
    out["nodes"][0, :3], out["differences"][0, :3] = [-0.1, -0.3, -0.4], [2.0, 5.0, 7.0]
    by_hand = ([2.0], [0.5, 5.0], [7.0 * 0.03, 7.0 * 0.4, 7.0 * 2.0])[degree]
    assert newton_terms(out, np.array([degree]))[:, 0] == pytest.approx(by_hand)


def test_a_step_that_is_too_long_is_made_again_and_what_passes_is_tolerated(session: Path) -> None:
    result = run(session)
    log = result.log
    again = log["cut:repetitions"]
    assert again.sum() > 2  # 0.05 s, with which the session begins, is too long
    assert log["cut:error"][1:].max() <= 1.0
    scaling = log["cut:scaling"]
    assert result.summary["repeated"] == {
        "steps": np.count_nonzero(again),
        "refused": again.sum(),
        "unsettled": 0,
        "corrections": 0,
        "largest_scaling": scaling[np.isfinite(scaling)].max(),
    }
    assert error_of(result) < 3e-4


def test_the_step_follows_the_rules(session: Path) -> None:
    """Without repetition or change of order: doubled, kept, or cut as section 5.3 says."""
    log = run(session).log
    h, r, again = np.diff(log.t), log["cut:scaling"], log["cut:repetitions"]
    seen = set()
    for n in range(3, len(h) - 1):
        if again[n + 1]:
            continue
        factor = 2.0 if r[n] >= 2.0 else 1.0 if r[n] >= 1.0 else min(0.9, max(0.5, r[n]))
        seen.add(factor)
        assert h[n] == pytest.approx(factor * h[n - 1], rel=1e-5)
    assert {1.0, 2.0} < seen


def test_the_error_of_the_run_follows_the_tolerance(session: Path) -> None:
    """Over a factor of a thousand."""
    errors = []
    for factor in (10.0, 1.0, 0.1, 0.01):
        atol = {"*.x": 1e-6 * factor, "*.v": 1e-5 * factor}
        errors.append(error_of(run(session, rtol=1e-5 * factor, atol=atol)))
    ratios = np.array(errors[:-1]) / errors[1:]
    assert (ratios > 3.0).all()
    assert errors[-1] < 1e-5


@pytest.mark.parametrize(
    ("scaling", "before", "factor"),
    [(0.5, 0, 0.45), (0.1, 0, 0.25), (0.999, 0, 0.8991), (1.2, 0, 0.9), (0.5, 1, 0.25)],
)
def test_repetitions_are_shorter_by_the_rules(scaling: float, before: int, factor: float) -> None:
    """``min(0.9, max(0.25, 0.9 r))``, and 0.25 from the second failure on (section 5.3)."""
    sink = Ports((Port("u"),), (Port("x"),))
    numerics = make_numerics(
        {"a": Ports((), (Port("y"),)), "b": sink},
        master={"step": 0.1, "step_control": {"method": "local", "rtol": 1.0}},
        connections=[{"from": "a.y", "to": "b.u"}],
    )
    numerics.given.session["elapsed"], numerics.given.session["scaling"] = 0.1, scaling
    numerics.state.session["failures"] = before
    shorten_step(numerics.plan, numerics.state, numerics.given)
    assert numerics.state.session[0].h_next == pytest.approx(0.1 * factor)


@pytest.mark.parametrize(("step", "order"), [(0.05, 3), (1.0, 1), (20.0, 0)])
def test_failures_in_a_row_lower_the_order_and_a_replay_follows(
    session: Path, tmp_path: Path, step: float, order: int
) -> None:
    """To 1 after more than three, to 0 after more than five (section 5.2.2)."""
    control = {"method": "derivatives", "initial": 3, "maximum": 3}
    changes = {"master.order_control": control, "master.step_control.initial": step}
    result = run_session(session, changes, options=RunOptions(out=tmp_path / "runs"))
    assert result.fault is None
    log = result.log
    first = int(log["cut:repetitions"][1])
    assert order == (0 if first > 5 else 1 if first > 3 else 3)
    assert log["cut:order"][1] == order
    assert error_of(result) < 3e-4
    assert replay(result.folder).exact


def test_the_step_falls_where_an_impulse_begins() -> None:
    control = {"estimator": "higher_degree", "positions": ["*.x_*"], "maximum": 0.1, "rtol": 1e-5}
    changes = {f"master.step_control.{key}": value for key, value in control.items()}
    result = simulate(CHAIN, {"session.duration": 0.12, "master.step": 1e-4, **changes})
    assert not result.fault
    h, t = np.diff(result.log.t), result.log.t[:-1]
    before = np.median(h[(t > 0.05) & (t < 0.08)])
    assert h[np.abs(t - 0.1) < 0.012].min() < 0.5 * before  # tanh, 5 ms wide


@pytest.mark.parametrize(
    ("scheme", "estimator"),
    [("explicit", "milne"), ("explicit", "inputs"), ("implicit", "milne"), ("implicit", "inputs")],
)
def test_every_estimator_keeps_the_error_and_is_replayed(
    session: Path, tmp_path: Path, scheme: str, estimator: str
) -> None:
    changes = {
        "master.scheme": scheme,
        "master.step_control.estimator": estimator,
        "master.step_control.repeat": True,
        "master.order_control.method": "derivatives",
    }
    errors = []
    for factor in (1.0, 0.01):
        changes["master.step_control.rtol"] = 1e-5 * factor
        changes["master.step_control.atol"] = {"*.x": 1e-6 * factor, "*.v": 1e-5 * factor}
        if estimator == "inputs":
            changes["master.step_control.atol"] = {"*.z": 1e-6 * factor}
        result = run_session(session, changes, options=RunOptions(out=tmp_path / "runs"))
        assert result.fault is None
        assert result.log["cut:repetitions"].sum() > 0
        assert result.log["cut:error"][1:].max() <= 1.0
        assert replay(result.folder).exact
        errors.append(error_of(result))
    assert errors[0] < 3e-4
    assert errors[1] < 0.1 * errors[0]


def test_where_the_corrector_fails_the_step_is_a_quarter(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 5.3; here it fails in all steps longer than 0.1 s."""
    correct = ImplicitScheme.correct

    def fail(self: ImplicitScheme, point: CommunicationPoint, *more: Any) -> Corrected:
        found = correct(self, point, *more)
        return found._replace(unsettled="left.z") if point.elapsed_ns > 1e8 else found

    monkeypatch.setattr(ImplicitScheme, "correct", fail)
    control = {"method": "local", "rtol": 1e9, "initial": 1.0, "minimum": 1e-6, "repeat": False}
    changes = {"master.scheme": "implicit", "master.step_control": control}
    result = simulate(session, changes)
    log, counts = result.log, result.summary["repeated"]
    assert log["cut:repetitions"][1] == 2
    assert log.t[1] == pytest.approx(1.0 / 16.0)
    assert counts["unsettled"] == log["cut:repetitions"].sum()
    assert counts["refused"] == 0
    assert counts["corrections"] >= len(log.t) - 1 + counts["unsettled"]
    control["minimum"] = 0.3
    fault = simulate(session, changes).fault
    assert "the corrector has not converged at t = 0.3 s, worst at left.z" in str(fault)


def test_calculated_channels_are_part_of_the_coupling_conditions(session: Path) -> None:
    """The sum of both by an expression instead of two connections: the same session."""
    text = session.read_text(encoding="utf-8")
    text = text.replace('from = "right.x"', 'from = "calculated.twice"\ngain = 0.5')
    text += '\n[[calculated]]\nname = "twice"\nunit = "m"\nexpression = "2 * right.x"\n'
    other = session.with_name("calculated.toml")
    other.write_text(text, encoding="utf-8")
    changes = {"master.scheme": "implicit", "master.step_control": {"method": "fixed"}}
    changes["master.step"] = 0.01
    for jacobian in ("differences", "low_order"):
        changes["master.interface_jacobian"] = jacobian
        one, two = simulate(session, changes).log, simulate(other, changes).log
        np.testing.assert_allclose(one["left.x"], two["left.x"], atol=1e-8)


@pytest.mark.parametrize("scheme", ["explicit", "implicit"])
def test_members_of_a_group_are_repeated_like_subsystems(
    session: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their columns of the interface Jacobian come from one trial instead of two."""
    text = session.read_text(encoding="utf-8")
    a, b = text.index("[subsystems.left]"), text.index("[[connections]]")
    group = f"""
[groups.pair]
model = "coupled_models:Neighbour"
path = {str(FOLDER)!r}
members = ["left", "right"]
own = {{ right = {{ x = -0.5, c = 20.0 }} }}

"""
    other = session.with_name("group.toml")
    other.write_text(text[:a] + group + text[b:], encoding="utf-8")
    trials, tried = [], InProcessLink.tried

    def counted(self: InProcessLink, h: float, coefficients: np.ndarray) -> np.ndarray:
        trials.append(self.name)
        return tried(self, h, coefficients)

    monkeypatch.setattr(InProcessLink, "tried", counted)
    changes: dict[str, Any] = {"master.scheme": scheme}
    if scheme == "implicit":
        changes["master.step_control.estimator"] = "milne"
    alone, together = simulate(session, changes).log, simulate(other, changes).log
    assert together["cut:repetitions"].sum() > 2
    assert trials.count("left") == trials.count("right") == trials.count("pair") > 0
    for name in ("left.x", "right.v", "cut:error"):
        np.testing.assert_array_equal(together[name], alone[name])


def test_without_repetition_a_failed_step_only_shortens_the_next(session: Path) -> None:
    log = run(session, repeat=False).log
    assert not log["cut:repetitions"].any()
    assert log["cut:error"][1:].max() > 1.0


def test_the_session_ends_where_the_shortest_step_fails(session: Path) -> None:
    result = simulate(session, {"master.step_control.minimum": 0.02})
    assert "with a step of 0.02 s, which is the minimum" in str(result.fault)
    assert "worst at right.v" in str(result.fault)


def test_what_cannot_be_repeated_is_refused_with_the_reason(session: Path) -> None:
    def problems(*changes: str) -> list[str]:
        return [str(problem) for problem in check_file(session, list(changes))]

    assert not problems()
    for change, said in (
        ("subsystems.left.model='coupled_models:Final'", "left does not save and restore"),
        ("subsystems.left.adapter='zeromq'", "left does not run in this process"),
        ("master.step_control.method='pi'", 'is for "local", not "pi"'),
        ("master.scheme='implicit'", "is for the explicit scheme"),
        ("master.step_control.positions=['*.y']", "names no output"),
        ("master.extrapolation.source='taylor'", "compares polynomials through samples"),
    ):
        assert any(said in problem for problem in problems(change)), (change, problems(change))
    with pytest.raises(ConfigError, match="left does not save and restore"):
        simulate(session, {"subsystems.left.model": "coupled_models:Final"})
