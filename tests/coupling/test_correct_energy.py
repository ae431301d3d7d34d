import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.coupling.power_bond import correct_energy, measure_bonds
from tests.coupling.test_power_bond import make_bonds, measure, use

H = 0.01


class Bench:
    """Bonds, their settings and their state, one communication point after the other.

    `settings` are of the energy correction, for all bonds: ``mu``, ``nu``, ``cap``, ``cap_abs``,
    ``held``, ``active``.
    """

    def __init__(self, *sizes, effort="N*m", flow="rad/s", e=0.0, f=0.0, **settings):
        self.numerics = make_bonds(*sizes, effort=effort, flow=flow)
        plan, state = self.numerics.plan, self.numerics.state
        values = {"mu": 0.5, "nu": 0.0, "held": 0, "active": 1, "wanted": 1}
        values |= {"cap": np.inf, "cap_abs": np.inf} | settings
        for name, value in values.items():
            (state.bonds if name in ("cap", "cap_abs", "mu") else plan.bonds)[name] = value
        plan.session["coefficients"] = 1
        state.elements["e"], state.elements["f"] = e, f
        self.bonds, self.elements = state.bonds, state.elements
        self.every = plan.bonds["every"]
        self.tick = 0

    def step(self, e, f, e_sent=None, f_sent=None, due=None, applied=True):
        """One macro step of `H`; `due` says which bonds communicate at its end."""
        plan, state, given = self.numerics.plan, self.numerics.state, self.numerics.given
        n = len(self.elements)
        e, f = (np.broadcast_to(np.asarray(x, float), n) for x in (e, f))
        self.tick += 1
        if due is not None:  # a bond is due where its number of steps divides the tick's
            self.every[:] = np.where(due, 1, self.tick + 1)
        state.bonds["t"] = 0.0
        measure(self.numerics, e, f)
        e_used = e if e_sent is None else np.asarray(e_sent, float)
        f_used = f if f_sent is None else np.asarray(f_sent, float)
        use(self.numerics, e_used, f_used)
        given.session["tick"], given.session["t"] = self.tick, H
        given.session["elapsed"], given.session["apply"] = H, applied
        state.session["h_next"] = H
        correct_energy(plan, state, given)
        measure_bonds(plan, state, given)
        return self

    @property
    def power(self):
        return self.bonds["residual_power"].copy()

    @property
    def effort(self):
        return self.elements["effort"].copy()

    @property
    def capped(self):
        return self.bonds["capped"].copy()


def test_effort_answers_half_the_residual():
    bench = Bench(1)
    result = bench.step(e=8.0, f=2.0, e_sent=10.0, f_sent=1.0)
    assert result.power == pytest.approx([10.0 * 2.0 - 8.0 * 1.0])
    assert result.effort == pytest.approx([-0.5 * 12.0 / 2.0])
    assert not result.capped[0]


def test_held_residual_takes_the_previous_values():
    bench = Bench(1, e=10.0, f=1.0, held=True)
    result = bench.step(e=8.0, f=2.0, e_sent=-77.0, f_sent=55.0)
    assert result.power == pytest.approx([12.0])
    result = bench.step(e=5.0, f=3.0, e_sent=-77.0, f_sent=55.0)
    assert result.power == pytest.approx([8.0 * 3.0 - 5.0 * 2.0])


@pytest.mark.parametrize(
    ("cap", "cap_abs", "expected"), [(0.1, np.inf, 0.8), (0.1, 0.5, 0.5), (np.inf, 2.0, 2.0)]
)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_caps_bound_the_effort_and_are_counted(cap, cap_abs, expected, sign):
    bench = Bench(1, cap=cap, cap_abs=cap_abs)
    result = bench.step(e=-8.0, f=2.0, e_sent=-8.0 + sign * 6.0)
    assert result.effort == pytest.approx([-sign * expected])
    assert result.capped[0]
    assert not bench.step(e=-8.0, f=2.0).capped[0]
    assert (bench.bonds["capped_steps"][0], bench.bonds["steps"][0]) == (1, 2)


@pytest.mark.parametrize("flow", [0.0, -0.0, 1e-13])
@pytest.mark.parametrize("n", [1, 2])
def test_without_flow_there_is_nothing_to_push_against(n, flow):
    bench = Bench(n)
    result = bench.step(e=np.full(n, 5.0), f=np.full(n, flow), f_sent=np.full(n, 1.0))
    assert result.power == pytest.approx([-5.0 * n])
    np.testing.assert_allclose(result.effort, 0.0, atol=0.0)


def test_near_zero_flow_the_cap_acts():
    result = Bench(1, cap=1.0).step(e=5.0, f=1e-9, f_sent=1.0)
    assert result.effort == pytest.approx([5.0])
    assert result.capped[0]


def test_what_the_cap_left_over_is_taken_out_with_nu():
    bench = Bench(1, cap_abs=1.0, nu=1.0)
    bench.step(e=8.0, f=2.0, e_sent=18.0)  # ς = 0.5 H 20 W, of which H 2 W can be taken
    left = 0.1 - 0.02
    bench.step(e=8.0, f=2.0)
    assert bench.bonds["uncorrected"] == pytest.approx([left])
    for _ in range(3):
        bench.step(e=8.0, f=2.0)
    assert bench.bonds["uncorrected"] == pytest.approx([left - 3 * 0.02])
    for _ in range(3):
        result = bench.step(e=8.0, f=2.0)
    assert bench.bonds["uncorrected"] == pytest.approx([0.0], abs=1e-15)
    assert result.effort == pytest.approx([0.0], abs=1e-12)


numbers = st.floats(-10.0, 10.0, width=32)
walks = st.lists(st.tuples(*[numbers] * 4, st.booleans()), min_size=2, max_size=12)


@settings(max_examples=60)
@given(walks, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.01, 2.0))
def test_the_ledger_adds_up(walk, mu, nu, cap):
    bench = Bench(1, mu=mu, nu=nu, cap=cap)
    effort = budget = uncorrected = corrected = residual = 0.0
    for e, f, e_sent, f_sent, _ in walk:
        result = bench.step(e, f, e_sent, f_sent)
        power = e_sent * f - e * f_sent
        uncorrected += budget + effort * f * H
        corrected -= effort * f * H
        residual += power * H
        assert bench.bonds["uncorrected"][0] == pytest.approx(uncorrected, abs=1e-9)
        assert bench.bonds["corrected_energy"][0] == pytest.approx(corrected, abs=1e-9)
        assert bench.bonds["residual_energy"][0] == pytest.approx(residual, abs=1e-9)
        budget, effort = mu * H * power, result.effort[0]
        if abs(f) > 1e-6:  # the rule, and its limit
            wanted = -(budget + nu * uncorrected) / (f * H)
            bound = cap * abs(e)
            assert effort == pytest.approx(min(max(wanted, -bound), bound), rel=1e-9, abs=1e-9)


@settings(max_examples=40)
@given(walks)
def test_shadow_computes_the_same_and_applies_nothing(walk):
    active, shadow, unarmed = (
        Bench(1, nu=0.2, cap=1.0),
        Bench(1, nu=0.2, cap=1.0, active=False),
        Bench(1, nu=0.2, cap=1.0),
    )
    for e, f, e_sent, f_sent, _ in walk:
        active.step(e, f, e_sent, f_sent)
        for bench, applied in ((shadow, True), (unarmed, False)):
            result = bench.step(e, f, e_sent, f_sent, applied=applied)
            assert result.effort[0] == 0.0
            assert bench.bonds["corrected_energy"][0] == 0.0
            np.testing.assert_array_equal(
                bench.elements["correction"], active.elements["correction"]
            )
            np.testing.assert_array_equal(
                bench.bonds["shadow_energy"], active.bonds["shadow_energy"]
            )
    np.testing.assert_array_equal(active.bonds["shadow_energy"], active.bonds["corrected_energy"])


def test_work_counts_as_corrected_only_where_the_effort_was_sent():
    bench = Bench(1)
    bench.step(e=8.0, f=2.0, e_sent=10.0, applied=False)  # not armed: the −1 N m stay at home
    bench.step(e=8.0, f=2.0, e_sent=10.0, applied=True)
    assert bench.bonds["corrected_energy"][0] == 0.0
    bench.step(e=8.0, f=2.0, applied=False)  # armed until now: these −1 N m were sent
    assert bench.bonds["corrected_energy"] == pytest.approx([1.0 * 2.0 * H])
    assert bench.bonds["shadow_energy"] == pytest.approx([2.0 * 2.0 * H])


@settings(max_examples=60)
@given(walks)
def test_bonds_that_are_not_due_keep_their_correction(walk):
    # The second bond sees only the points at which it is due; the first is always due.
    both = Bench(1, 1, cap=1.0, nu=0.1)
    alone = Bench(1, cap=1.0, nu=0.1)
    last = 0.0
    for e, f, e_sent, f_sent, due in walk:
        result = both.step([1.0, e], [1.0, f], [2.0, e_sent], [1.0, f_sent], due=[True, due])
        if due:
            last = alone.step(e, f, e_sent, f_sent).effort[0]
        assert result.effort[1] == last
        assert due or not result.capped[1]
    energies = ("residual_energy", "corrected_energy", "shadow_energy")
    for key in ("uncorrected", *energies, "capped_steps", "steps", "budget"):
        np.testing.assert_array_equal(both.bonds[key][1:], alone.bonds[key])


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.tuples(numbers, numbers)] * 4), min_size=1, max_size=6))
def test_a_vector_bond_takes_out_what_its_scalars_residuals_say(walk):
    bench = Bench(2, cap=1.0)
    budget = uncorrected = 0.0
    effort = np.zeros(2)
    for e, f, e_sent, f_sent in (np.array(step) for step in walk):
        result = bench.step(e, f, e_sent, f_sent)
        assert result.power == pytest.approx([e_sent @ f - e @ f_sent], abs=1e-9)
        length, flow = np.linalg.norm(result.effort), np.linalg.norm(f)
        assert length <= np.linalg.norm(e) * (1 + 1e-9)
        uncorrected += budget + np.dot(effort, f) * H
        assert bench.bonds["uncorrected"][0] == pytest.approx(uncorrected, abs=1e-9)
        assert abs(result.effort @ f) == pytest.approx(length * flow, abs=1e-9)  # along the flow
        budget, effort = 0.5 * H * result.power[0], result.effort
        if not result.capped[0] and flow > 1e-9:
            assert effort @ f * H == pytest.approx(-budget, abs=1e-9)


def test_a_vector_bond_along_one_axis_is_a_scalar_bond():
    vector, scalar = Bench(3, cap=0.5, nu=0.1), Bench(1, cap=0.5, nu=0.1)
    rng = np.random.default_rng(1)
    for _ in range(20):
        e, f, e_sent, f_sent = rng.normal(size=4)
        inside = [np.array([0.0, value, 0.0]) for value in (e, f, e_sent, f_sent)]
        result = vector.step(*inside)
        expected = scalar.step(e, f, e_sent, f_sent)
        np.testing.assert_allclose(result.effort, [0.0, expected.effort[0], 0.0], rtol=1e-12)
        np.testing.assert_array_equal(result.capped, expected.capped)
    np.testing.assert_allclose(vector.bonds["uncorrected"], scalar.bonds["uncorrected"], rtol=1e-12)


def test_power_in_watts_whatever_the_units():
    # the same bond in kN and mm/s: the same correction, in the effort's own unit
    si = Bench(1, effort="N", flow="m/s")
    expected = si.step(e=8.0, f=2.0, e_sent=10.0, f_sent=1.0).effort
    bench = Bench(1, effort="kN", flow="mm/s")
    effort = bench.step(e=0.008, f=2000.0, e_sent=0.010, f_sent=1000.0).effort
    np.testing.assert_allclose(effort * 1000.0, expected, rtol=1e-12)
    np.testing.assert_allclose(
        bench.bonds["residual_energy"], si.bonds["residual_energy"], rtol=1e-12
    )
