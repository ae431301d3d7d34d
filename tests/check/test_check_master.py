"""`hilrt check` on step and order control."""

from pathlib import Path

import pytest

from hilrt.check.check import check
from hilrt.check.check_master import check_control
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.session_file import load_session
from hilrt.link import Ports
from hilrt.solver import Port
from tests.stepping import make_session

PORTS = {
    "a": Ports(inputs=(Port("u"),), outputs=(Port("y"), Port("z", feedthrough=("u",)))),
    "b": Ports(inputs=(Port("v"),), outputs=(Port("w"),)),
}
BOND = {"name": "shaft", "effort": "a.y", "flow": "b.w"}


def found(
    level="error", *, subsystems=None, source="a.y", order=None, bonds=(), ports=PORTS, **master
):
    connection = {"from": source, "to": "b.v", **({} if order is None else {"order": order})}
    tables = make_session(
        {
            "master": {"step": 1e-3, **master},
            "subsystems": subsystems or {"a": {}, "b": {}},
            "connections": [connection],
            "bonds": list(bonds),
        }
    )
    findings = Findings()
    check_control(Topology(tables, dict(ports), set()), findings)
    return [str(problem) for problem in findings.problems if problem.level == level]


LOCAL = {"method": "local", "rtol": 1e-3, "maximum": 0.1}
CONTROL = {"method": "derivatives"}


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"step_control": {"method": "pi", "tolerance": 0.1, "maximum": 0.1}},
        {"step_control": LOCAL, "order_control": CONTROL},
        {"step_control": {"method": "ecco", "rtol": 0.01, "maximum": 0.1}, "bonds": [BOND]},
        {"step_control": {"atol": {"b.*": 1.0, "a.y": 2.0}}, "order_control": CONTROL},
    ],
)
def test_what_goes_together(tables):
    assert found(**tables) == found("warning", **tables) == []


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        (
            {"step_control": {"method": "local"}},
            "[master.step_control] method = 'local': needs a tolerance; "
            "give rtol, or atol, or both",
        ),
        (
            {"step_control": {"method": "ecco", "rtol": 0.1}},
            "[master.step_control] method = 'ecco': uses power bonds; there are none; "
            "add [[bonds]]",
        ),
        (
            {"step_control": {"method": "ecco", "atol": {"a.y": 1.0}}, "bonds": [BOND]},
            "[master.step_control] atol = {'a.y': 1.0}: is an energy here; give one number in J",
        ),
        (
            {"step_control": {**LOCAL, "atol": {"a.x": 1.0}}},
            "[master.step_control.atol]: no port is named 'a.x'; "
            'write "subsystem.port", with * for any characters',
        ),
        (
            {"order_control": {**CONTROL, "minimum": 2, "maximum": 3}},
            "[master.order_control] initial = 1: lies outside minimum = 2 to maximum = 3; "
            "move it between them",
        ),
        (
            {"order_control": CONTROL, "extrapolation": {"source": "taylor"}},
            "[master.order_control] method = 'derivatives': evaluates Lagrange polynomials, but "
            "the session extrapolates with output derivatives"
            "; "
            'use [master] extrapolation.source = "lagrange", or fix the order',
        ),
        (
            {"order_control": CONTROL, "subsystems": {"a": {"every": 2}, "b": {}}},
            "[subsystems.a] every = 2: needs fixed orders, but [master.order_control] "
            'method = "derivatives"; leave it out, or fix the order',
        ),
        (
            {"step_control": LOCAL, "bonds": [{**BOND, "correction": {"method": "model"}}]},
            "[bonds.shaft.correction] method = 'model': corrects for one step, but "
            '[master.step_control] method = "local"; fix the step, or use another correction',
        ),
        (
            {"order_control": CONTROL, "bonds": [{**BOND, "correction": {"method": "model"}}]},
            "[bonds.shaft.correction] method = 'model': corrects for one order, but "
            '[master.order_control] method = "derivatives"; '
            "fix the order, or use another correction",
        ),
    ],
)
def test_what_does_not(tables, line):
    assert found(**tables) == [line]


def test_names_are_not_judged_while_ports_are_unknown():
    ports = {**PORTS, "b": None}
    assert found(ports=ports, step_control={**LOCAL, "atol": {"b.x": 1.0}}) == []


def test_nothing_to_control_is_said():
    (line,) = found("warning", order=2, order_control=CONTROL)
    assert "has nothing to control: every connection has its own order" in line


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        ({"step_control": LOCAL}, "[master.step_control] method = 'local'"),
        ({"order_control": CONTROL}, "[master.order_control] method = 'derivatives'"),
    ],
)
def test_feedthrough_makes_the_estimate_an_indicator(tables, place):
    (line,) = found("warning", source="a.z", **tables)
    assert line.startswith(f"{place}: outputs with feedthrough (a.z) are evaluated")
    assert "declare the feedthrough of FMUs that declare no dependencies" in line
    assert found("warning", source="a.z", step_control={"method": "pi", "maximum": 0.1}) == []


def test_a_step_that_may_grow_without_end_is_warned_of_where_none_is_repeated():
    (line,) = found("warning", step_control={"method": "local", "rtol": 1e-3})
    assert "past the stability limit of the coupling" in line
    assert "give maximum, for example" in line
    repeats = {"method": "local", "rtol": 1e-3, "repeat": True}
    assert found("warning", step_control=repeats) == []


def test_a_model_correction_needs_a_single_rate() -> None:
    file = load_session(
        Path(__file__).parents[2] / "bench_configs" / "two_mass_model.toml",
        ["subsystems.mass1.every=2"],
    )
    errors = [str(problem) for problem in check(file) if problem.level == "error"]
    assert len(errors) == 1
    assert "'mass1' communicates every 2" in errors[0]


def test_prediction_needs_a_model_that_is_identified() -> None:
    late = {"late": {"policy": "predict"}}
    model = {**BOND, "correction": {"method": "model"}}
    learned = {"jacobian": {"source": "identify"}}
    assert found(subsystems={"a": {**late, **learned}, "b": {}}, bonds=[model]) == []
    for subsystem, bonds in ((late, [model]), ({**late, **learned}, [BOND])):
        (line,) = found(subsystems={"a": subsystem, "b": {}}, bonds=bonds)
        assert "[subsystems.a.late] policy = 'predict'" in line
        assert "there is none" in line


def test_pi_control_beside_an_energy_correction_needs_a_minimum() -> None:
    energy = {**BOND, "correction": {"method": "energy"}}
    (line,) = found("warning", step_control={"method": "pi", "maximum": 0.1}, bonds=[energy])
    assert "minimum = 1e-09: can shrink the step without end: the energy correction of sh" in line
    assert "give minimum = 1e-05 or more" in line
    held = {"method": "pi", "minimum": 1e-5, "maximum": 0.1}
    assert found("warning", step_control=held, bonds=[energy]) == []


def test_matrices_beside_a_source_that_takes_others_are_named() -> None:
    for source in ("probe", "solver"):
        jacobian = {"source": source, "D": [[1.0], [0.0]], "gamma": []}
        (line,) = found("warning", subsystems={"a": {"jacobian": jacobian}, "b": {}})
        assert f"[subsystems.a.jacobian] source = '{source}'" in line
        assert "D, gamma is not used" in line
    for source in ("given", "identify"):
        jacobian = {"source": source, "D": [[1.0], [0.0]]}
        assert found("warning", subsystems={"a": {"jacobian": jacobian}, "b": {}}) == []


@pytest.mark.parametrize(
    ("method", "source", "refused"),
    [("feedthrough", "probe", True), ("feedthrough", "given", False), ("model", "probe", False)],
)
def test_refresh_is_refused_where_it_would_renew_nothing(method, source, refused):
    bond = BOND | {"correction": {"method": method}}
    jacobian = {"source": source, "refresh": 10} | ({"D": [[1.0]]} if source == "given" else {})
    lines = found(subsystems={"a": {"jacobian": jacobian}, "b": {}}, bonds=[bond])
    assert any("refresh = 10: has no effect on a feedthrough" in one for one in lines) == refused
