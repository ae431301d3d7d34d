"""Step and order control inside the macro step, on signals and models with known answers."""

import math
from itertools import pairwise

import numpy as np
import pytest

from bench_configs.models.two_mass_rotational import Side1, Side2
from hilrt.coupling.estimate_signals import tolerance
from hilrt.errors import ConfigError
from hilrt.reliability.flags import active_flags
from hilrt.session.summary import _order
from hilrt.solver import Port
from tests.stepping import Recorded, Stepping


def one_signal(function, *, feedthrough=(), order=None, **master) -> Stepping:
    """A source that follows `function`, and a subsystem that takes it."""
    source = Recorded({"y": function}, [Port("v")] if feedthrough else ())
    source.outputs = (Port("y", feedthrough=feedthrough),)
    sink = Recorded({"z": lambda t: 0.0}, [Port("u")])
    connections = [
        {"from": "source.y", "to": "sink.u", **({} if order is None else {"order": order})}
    ]
    if feedthrough:
        connections.append({"from": "sink.z", "to": "source.v"})
    return Stepping(
        {"source": source, "sink": sink}, master={"step": 1e-3, **master}, connections=connections
    )


def rotational(**master) -> Stepping:
    return Stepping(
        {"s1": Side1(), "s2": Side2()},
        master={"step": 1e-3, **master},
        connections=[
            {"from": "s1.torque", "to": "s2.torque"},
            {"from": "s2.omega", "to": "s1.omega2"},
        ],
        bonds=[{"name": "shaft", "effort": "s1.torque", "flow": "s2.omega"}],
    )


def seen(stepping: Stepping):
    """What a step was like: its end, the next step, order, error."""
    session = stepping.state.session[0]
    return stepping.t, float(session.h_next), int(session.order), float(session.error)


@pytest.mark.parametrize("order", range(5))
def test_the_estimate_is_of_the_order_of_extrapolation(order):
    steps = 0.04 * 2.0 ** -np.arange(3)
    largest = []
    for h in steps:
        stepping = one_signal(
            math.sin,
            step=float(h),
            extrapolation={"order": order},
            step_control={"atol": 1e-3},
        )
        rows = stepping.run(4.0, seen)  # every derivative of the sine has been at its peak
        largest.append(max(error for t, _, _, error in rows if t > 0.5))
    slope = np.polyfit(np.log(steps), np.log(largest), 1)[0]
    assert slope == pytest.approx(order + 1, abs=0.05)
    # and it is the error itself: u^(k+1) h^(k+1), as the product over the nodes is (k+1)! h^(k+1)
    assert largest[-1] == pytest.approx(steps[-1] ** (order + 1) / 1e-3, rel=0.05)


@pytest.mark.parametrize("order", range(4))
def test_steps_grow_with_the_root_of_the_tolerance(order):
    tolerances = 10.0 ** -(order + np.array([1.0, 1.5, 2.0]))
    counts = [
        len(
            one_signal(
                math.sin,
                extrapolation={"order": order},
                step_control={"method": "local", "atol": float(tolerance)},
            ).run(2.0 * math.pi)
        )
        for tolerance in tolerances
    ]
    slope = np.polyfit(np.log(tolerances), np.log(counts), 1)[0]
    assert slope == pytest.approx(-1.0 / (order + 1), abs=0.06)


def test_a_failed_test_shortens_the_next_step_and_raises_a_flag():
    stepping = one_signal(
        lambda t: 1.0 if t > 0.5 else 0.0,
        step_control={"method": "local", "atol": 1e-2, "maximum": 0.1},
    )
    rows = stepping.run(0.8, seen)
    failed = [i for i, row in enumerate(rows) if row[3] > 1.0]
    assert failed
    first = failed[0]
    assert rows[first - 1][0] <= 0.5 < rows[first][0]
    assert rows[first][1] == pytest.approx(0.5 * rows[first - 1][1])
    raised = next(change for change in stepping.changes if change.cause == "error_estimate")
    assert (raised.where, raised.raised) == ("sink.u", True)
    assert raised.t == pytest.approx(rows[first][0])


def test_an_output_with_feedthrough_makes_the_estimate_an_indicator():
    stepping = one_signal(
        lambda t: float(t > 0.5), feedthrough=("v",), step_control={"method": "local", "atol": 1e-2}
    )
    stepping.run(0.8)
    where = {change.where for change in stepping.changes if change.cause == "error_estimate"}
    assert where == {"sink.u (indicator)"}


def test_a_known_feedthrough_makes_it_an_estimate():
    tables = {
        "master": {"step": 1e-3, "step_control": {"method": "local", "rtol": 1e-3}},
        "connections": [
            {"from": "s1.torque", "to": "s2.torque"},
            {"from": "s2.omega", "to": "s1.omega2"},
        ],
    }
    bond = {"name": "shaft", "effort": "s1.torque", "flow": "s2.omega"}
    for method, shadow, mark in (
        ("feedthrough", False, ""),
        ("feedthrough", True, " (indicator)"),
        ("none", False, " (indicator)"),
    ):
        stepping = Stepping(
            {"s1": Side1(), "s2": Side2()},
            shadow=shadow,
            bonds=[{**bond, "correction": {"method": method}}],
            **tables,
        )
        assert stepping.numerics.checks.of("error_estimate") == ["s1.omega2", f"s2.torque{mark}"]


def test_a_fixed_step_with_tolerances_is_tested_too():
    stepping = one_signal(
        math.sin, step=0.1, extrapolation={"order": 0}, step_control={"atol": 1e-3}
    )
    rows = stepping.run(1.0, seen)
    assert {h for _, h, _, _ in rows} == {0.1}
    assert rows[1][3] == pytest.approx(math.sin(0.1) / 1e-3)
    assert ("error_estimate", "sink.u") in active_flags(stepping.numerics.checks, stepping.state)


def test_tolerances_by_port():
    table = {"method": "local", "atol": {"sink.*": 1e-2}, "rtol": 0.1}
    plan = one_signal(math.sin, step_control=table).plan
    assert tolerance(plan.inputs[0], -2.0) == pytest.approx(1e-2 + 0.2)
    assert plan.outputs["atol"].tolist() == [0.0, 1e-2]  # source.y, sink.z
    plan = one_signal(math.sin, step_control={**table, "rtol": {"*.u": 0.3}}).plan
    assert plan.inputs["rtol"].tolist() == [0.3]
    assert plan.outputs["rtol"].tolist() == [0.0, 0.0]
    with pytest.raises(ConfigError, match=r"no port is named 'sink\.x'"):
        one_signal(math.sin, step_control={**table, "atol": {"sink.x": 1.0}})


@pytest.mark.parametrize(("order", "tolerance"), [(0, 1e-3), (1, 1e-4), (2, 1e-5)])
def test_pi_control_keeps_the_defect_at_the_tolerance(order, tolerance):
    stepping = rotational(
        extrapolation={"order": order},
        step_control={"method": "pi", "tolerance": tolerance, "initial": 1e-4},
    )
    rows = [row for row in stepping.run(10.0, seen) if row[0] > 1.0]
    errors = np.array([error for *_, error in rows]) / tolerance
    assert len(errors) > 80
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(1.0, abs=0.2)
    assert errors.max() < 2.5


@pytest.mark.parametrize(("order", "share"), [(0, 1e-2), (1, 1e-3), (2, 1e-3)])
def test_ecco_keeps_the_energy_residual_at_its_share(order, share):
    stepping = rotational(
        extrapolation={"order": order},
        step_control={"method": "ecco", "rtol": share, "initial": 1e-4},
    )
    rows = stepping.run(10.0, seen)
    errors = np.array([error for t, _, _, error in rows if t > 1.0])
    # The residual passes through zero now and then, and the next few steps are too long.
    assert np.mean(np.abs(errors)) == pytest.approx(1.0, abs=0.35)
    assert np.abs(errors).max() < 10.0
    assert {-1.0, 1.0} == set(np.sign(errors))
    # The residual that is controlled is that of the ledger (nothing is corrected here).
    session, bond = stepping.state.session[0], stepping.state.bonds[0]
    energy = rows[-1][3] * share * bond.mean_power * session.previous_elapsed
    assert bond.residual_power * session.previous_elapsed == pytest.approx(energy, rel=1e-6)


def test_the_order_climbs_while_a_signal_is_smooth():
    stepping = one_signal(
        math.sin,
        step=0.01,
        extrapolation={"order": 0},
        order_control={"method": "derivatives", "maximum": 3, "initial": 0},
    )
    orders = [row[2] for row in stepping.run(0.3, seen)]
    assert all(b - a in (0, 1) for a, b in pairwise(orders))
    assert (orders[0], orders[-1]) == (0, 3)
    # SDN(k + 2) needs k + 3 samples; what is sent has one coefficient per order
    assert stepping.plan.session[0].samples == 6
    assert stepping.links["sink"].asked[-1].coefficients.shape == (4, 1)
    assert np.all(stepping.links["sink"].asked[-1].coefficients != 0.0)
    assert stepping.state.session["points_of_order"].sum() == len(orders)
    summary = _order(stepping.state.session[0].points_of_order)
    assert (summary["min"], summary["max"]) == (0, 3)
    assert summary["mean"] == pytest.approx(np.mean(orders))


def test_the_order_falls_where_a_signal_is_too_fast_for_its_samples():
    stepping = one_signal(
        lambda t: math.sin(t) if t < 0.5 else math.sin(250.0 * t),
        step=0.01,
        order_control={"method": "derivatives"},
    )
    rows = stepping.run(1.0, seen)
    assert max(order for t, _, order, _ in rows if t < 0.5) == 4
    assert max(order for t, _, order, _ in rows if t > 0.6) <= 1


def test_after_a_change_the_new_order_is_used_at_once_with_a_variable_step():
    stepping = one_signal(
        math.sin,
        step_control={"method": "local", "atol": 1e-4},
        order_control={"method": "derivatives", "initial": 0},
    )
    used, orders = [], []
    for _ in range(60):
        stepping.look()
        orders.append(int(stepping.state.session[0].order))
        stepping.go()
        coefficients = stepping.links["sink"].asked[-1].coefficients[:, 0]
        used.append(int(np.flatnonzero(coefficients).max(initial=0)))
    assert max(orders) >= 3
    assert used[3:] == orders[3:]


def test_a_connection_with_an_order_of_its_own_keeps_it():
    stepping = one_signal(
        math.sin, order=1, feedthrough=("v",), step=0.01, order_control={"method": "derivatives"}
    )
    stepping.run(0.3)
    coefficients = stepping.links["sink"].asked[-1].coefficients
    assert np.all(coefficients[2:] == 0.0)
    assert coefficients[1, 0] != 0.0


def test_nothing_of_this_is_there_when_it_is_off():
    stepping = one_signal(math.sin, extrapolation={"order": 2})
    stepping.run(0.05)
    plan, state = stepping.plan, stepping.state
    settings = plan.session[0]
    assert not settings.tests_errors
    assert not settings.controls_order
    assert not settings.variable_step
    assert (settings.samples, settings.coefficients) == (3, 3)
    assert math.isnan(state.session[0].error)
    assert not any("indicator" in where for where in stepping.numerics.checks.where)
