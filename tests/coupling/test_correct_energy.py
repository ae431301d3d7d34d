import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.coupling.correct_energy import (
    Corrected,
    EnergyState,
    Settings,
    correct_energy,
    keep_ledger,
)
from tests.coupling.test_power_bond import make_bonds

H = 0.01


def make_settings(n: int = 1, **changes) -> Settings:
    values = {"mu": 0.5, "nu": 0.0, "cap": np.inf, "cap_abs": np.inf}
    flags = {"held": False, "wanted": True, "active": True}
    return Settings(
        **{key: np.full(n, changes.get(key, value)) for key, value in values.items()},
        **{key: np.full(n, changes.get(key, value), bool) for key, value in flags.items()},
    )


class Bench:
    """Bonds, their settings and their state, one communication point after the other."""

    def __init__(self, bonds, *, e=0.0, f=0.0, **changes):
        self.bonds, self.settings = bonds, make_settings(len(bonds), **changes)
        n = len(bonds.effort)
        self.state = EnergyState.start(np.full(n, e), np.full(n, f), len(bonds))

    def step(self, e, f, e_sent=None, f_sent=None, h=H, ahead=None, due=None, applied=True):
        bonds = self.bonds
        e, f = np.array(e, float, ndmin=1), np.array(f, float, ndmin=1)
        due = np.ones(len(bonds), bool) if due is None else np.array(due)
        e_sent = e if e_sent is None else np.array(e_sent, float, ndmin=1)
        f_sent = f if f_sent is None else np.array(f_sent, float, ndmin=1)
        elapsed = np.full(len(bonds), h)
        ahead = elapsed if ahead is None else np.full(len(bonds), ahead)
        result = Corrected.nothing(len(bonds), len(e))
        result.due[:] = due
        s, memory = self.settings, self.state
        correct_energy(
            bonds.first, bonds.watt, s.mu, s.nu, s.cap, s.cap_abs, s.held,
            s.active if applied else s.none, memory.e, memory.f, memory.correction,
            memory.in_force, memory.budget, memory.uncorrected, memory.power, e, f, e_sent, f_sent,
            elapsed, ahead, result.due, result.power, result.effort, result.capped, result.energy,
            result.work, result.applied_work,
        )  # fmt: skip
        keep_ledger(self.state, result)
        return result


SCALAR = make_bonds(1)


def test_effort_answers_half_the_residual():
    bench = Bench(SCALAR)
    result = bench.step(e=8.0, f=2.0, e_sent=10.0, f_sent=1.0)
    assert result.power == pytest.approx([10.0 * 2.0 - 8.0 * 1.0])
    assert result.effort == pytest.approx([-0.5 * 12.0 / 2.0])
    assert not result.capped[0]


def test_held_residual_takes_the_previous_values():
    bench = Bench(SCALAR, e=10.0, f=1.0, held=True)
    result = bench.step(e=8.0, f=2.0, e_sent=-77.0, f_sent=55.0)
    assert result.power == pytest.approx([12.0])
    result = bench.step(e=5.0, f=3.0, e_sent=-77.0, f_sent=55.0)
    assert result.power == pytest.approx([8.0 * 3.0 - 5.0 * 2.0])


@pytest.mark.parametrize(
    ("cap", "cap_abs", "expected"), [(0.1, np.inf, 0.8), (0.1, 0.5, 0.5), (np.inf, 2.0, 2.0)]
)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_caps_bound_the_effort_and_are_counted(cap, cap_abs, expected, sign):
    bench = Bench(SCALAR, cap=cap, cap_abs=cap_abs)
    result = bench.step(e=-8.0, f=2.0, e_sent=-8.0 + sign * 6.0)
    assert result.effort == pytest.approx([-sign * expected])
    assert result.capped[0]
    assert not bench.step(e=-8.0, f=2.0).capped[0]
    assert (bench.state.capped[0], bench.state.steps[0]) == (1.0, 2.0)


@pytest.mark.parametrize("flow", [0.0, -0.0, 1e-13])
@pytest.mark.parametrize("bonds", [SCALAR, make_bonds(2)])
def test_without_flow_there_is_nothing_to_push_against(bonds, flow):
    n = len(bonds.effort)
    bench = Bench(bonds)
    result = bench.step(e=np.full(n, 5.0), f=np.full(n, flow), f_sent=np.full(n, 1.0))
    assert result.power == pytest.approx([-5.0 * n])
    np.testing.assert_allclose(result.effort, 0.0, atol=0.0)


def test_near_zero_flow_the_cap_acts():
    result = Bench(SCALAR, cap=1.0).step(e=5.0, f=1e-9, f_sent=1.0)
    assert result.effort == pytest.approx([5.0])
    assert result.capped[0]


def test_what_the_cap_left_over_is_taken_out_with_nu():
    bench = Bench(SCALAR, cap_abs=1.0, nu=1.0)
    bench.step(e=8.0, f=2.0, e_sent=18.0)  # ς = 0.5 H 20 W, of which H 2 W can be taken
    left = 0.1 - 0.02
    bench.step(e=8.0, f=2.0)
    assert bench.state.uncorrected == pytest.approx([left])
    for _ in range(3):
        bench.step(e=8.0, f=2.0)
    assert bench.state.uncorrected == pytest.approx([left - 3 * 0.02])
    for _ in range(3):
        result = bench.step(e=8.0, f=2.0)
    assert bench.state.uncorrected == pytest.approx([0.0], abs=1e-15)
    assert result.effort == pytest.approx([0.0], abs=1e-12)


numbers = st.floats(-10.0, 10.0, width=32)
walks = st.lists(st.tuples(*[numbers] * 4, st.booleans()), min_size=2, max_size=12)


@settings(max_examples=60)
@given(walks, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.01, 2.0))
def test_the_ledger_adds_up(walk, mu, nu, cap):
    bench = Bench(SCALAR, mu=mu, nu=nu, cap=cap)
    effort = budget = uncorrected = corrected = residual = 0.0
    for e, f, e_sent, f_sent, _ in walk:
        result = bench.step(e, f, e_sent, f_sent)
        power = e_sent * f - e * f_sent
        uncorrected += budget + effort * f * H
        corrected -= effort * f * H
        residual += power * H
        assert bench.state.uncorrected[0] == pytest.approx(uncorrected, abs=1e-9)
        assert bench.state.corrected[0] == pytest.approx(corrected, abs=1e-9)
        assert bench.state.residual[0] == pytest.approx(residual, abs=1e-9)
        budget, effort = mu * H * power, result.effort[0]
        if abs(f) > 1e-6:  # the rule, and its limit
            wanted = -(budget + nu * uncorrected) / (f * H)
            bound = cap * abs(e)
            assert effort == pytest.approx(min(max(wanted, -bound), bound), rel=1e-9, abs=1e-9)


@settings(max_examples=40)
@given(walks)
def test_shadow_computes_the_same_and_applies_nothing(walk):
    active, shadow, unarmed = (
        Bench(SCALAR, nu=0.2, cap=1.0),
        Bench(SCALAR, nu=0.2, cap=1.0, active=False),
        Bench(SCALAR, nu=0.2, cap=1.0),
    )
    for e, f, e_sent, f_sent, _ in walk:
        active.step(e, f, e_sent, f_sent)
        for bench, applied in ((shadow, True), (unarmed, False)):
            result = bench.step(e, f, e_sent, f_sent, applied=applied)
            assert result.effort[0] == 0.0
            assert bench.state.corrected[0] == 0.0
            np.testing.assert_array_equal(bench.state.correction, active.state.correction)
            np.testing.assert_array_equal(bench.state.shadow, active.state.shadow)
    np.testing.assert_array_equal(active.state.shadow, active.state.corrected)


def test_work_counts_as_corrected_only_where_the_effort_was_sent():
    bench = Bench(SCALAR)
    bench.step(e=8.0, f=2.0, e_sent=10.0, applied=False)  # not armed: the −1 N m stay at home
    bench.step(e=8.0, f=2.0, e_sent=10.0, applied=True)
    assert bench.state.corrected[0] == 0.0
    bench.step(e=8.0, f=2.0, applied=False)  # armed until now: these −1 N m were sent
    assert bench.state.corrected == pytest.approx([1.0 * 2.0 * H])
    assert bench.state.shadow == pytest.approx([2.0 * 2.0 * H])


@settings(max_examples=60)
@given(walks)
def test_bonds_that_are_not_due_keep_their_correction(walk):
    # The second bond sees only the points at which it is due; the first is always due.
    both = Bench(make_bonds(1, 1), cap=1.0, nu=0.1)
    alone = Bench(SCALAR, cap=1.0, nu=0.1)
    last = 0.0
    for e, f, e_sent, f_sent, due in walk:
        result = both.step([1.0, e], [1.0, f], [2.0, e_sent], [1.0, f_sent], due=[True, due])
        if due:
            last = alone.step(e, f, e_sent, f_sent).effort[0]
        assert result.effort[1] == last
        assert due or not result.capped[1]
    for key in ("uncorrected", "residual", "corrected", "shadow", "capped", "steps", "budget"):
        np.testing.assert_array_equal(getattr(both.state, key)[1:], getattr(alone.state, key))


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.tuples(numbers, numbers)] * 4), min_size=1, max_size=6))
def test_a_vector_bond_takes_out_what_its_scalars_residuals_say(walk):
    bench = Bench(make_bonds(2), cap=1.0)
    budget = uncorrected = 0.0
    effort = np.zeros(2)
    for e, f, e_sent, f_sent in (np.array(step) for step in walk):
        result = bench.step(e, f, e_sent, f_sent)
        assert result.power == pytest.approx([e_sent @ f - e @ f_sent], abs=1e-9)
        length, flow = np.linalg.norm(result.effort), np.linalg.norm(f)
        assert length <= np.linalg.norm(e) * (1 + 1e-9)
        uncorrected += budget + np.dot(effort, f) * H
        assert bench.state.uncorrected[0] == pytest.approx(uncorrected, abs=1e-9)
        assert abs(result.effort @ f) == pytest.approx(length * flow, abs=1e-9)  # along the flow
        budget, effort = 0.5 * H * result.power[0], result.effort
        if not result.capped[0] and flow > 1e-9:
            assert effort @ f * H == pytest.approx(-budget, abs=1e-9)


def test_a_vector_bond_along_one_axis_is_a_scalar_bond():
    vector, scalar = Bench(make_bonds(3), cap=0.5, nu=0.1), Bench(SCALAR, cap=0.5, nu=0.1)
    rng = np.random.default_rng(1)
    for _ in range(20):
        e, f, e_sent, f_sent = rng.normal(size=4)
        inside = [np.array([0.0, value, 0.0]) for value in (e, f, e_sent, f_sent)]
        result = vector.step(*inside)
        expected = scalar.step(e, f, e_sent, f_sent)
        np.testing.assert_allclose(result.effort, [0.0, expected.effort[0], 0.0], rtol=1e-12)
        np.testing.assert_array_equal(result.capped, expected.capped)
    np.testing.assert_allclose(vector.state.uncorrected, scalar.state.uncorrected, rtol=1e-12)


def test_power_in_watts_whatever_the_units():
    # the same bond in kN and mm/s: the same correction, in the effort's own unit
    si = Bench(make_bonds(1, effort="N", flow="m/s"))
    expected = si.step(e=8.0, f=2.0, e_sent=10.0, f_sent=1.0).effort
    bench = Bench(make_bonds(1, effort="kN", flow="mm/s"))
    effort = bench.step(e=0.008, f=2000.0, e_sent=0.010, f_sent=1000.0).effort
    np.testing.assert_allclose(effort * 1000.0, expected, rtol=1e-12)
    np.testing.assert_allclose(bench.state.residual, si.state.residual, rtol=1e-12)
