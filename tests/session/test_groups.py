"""A group against the same session with a table for each of its members."""

import numpy as np
import pytest

import hilrt
from hilrt import InputPolynomial, Port, Sample, Solver
from hilrt.check.check import check_file
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError
from hilrt.hosting.group import Group
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import find_linear_model, renew_linear_model
from hilrt.models.two_mass import Mass1, Mass2
from tests.chain import Link, chain, couplings, group, head


@pytest.fixture
def simulated(tmp_path):
    def run(text: str) -> hilrt.Result:
        file = tmp_path / "session.toml"
        file.write_text(text, encoding="utf-8")
        result = hilrt.simulate(file)
        assert result.fault is None
        assert result.log is not None
        return result

    return run


def assert_same(one: hilrt.Result, other: hilrt.Result, ordered: bool = True) -> None:
    """All signals but times on the clock, bit for bit.

    Where the subsystems are in another order, so are the sums of what is estimated.
    """
    assert one.log is not None
    assert other.log is not None
    shared = [n for n in other.log.names if n in one.log and not n.startswith("master:")]
    shared = [n for n in shared if not n.endswith(":compute")]
    assert len(shared) > 50
    for name in shared:
        if ordered or "estimate" not in name:
            assert np.array_equal(one.log[name], other.log[name], equal_nan=True), name
        else:
            np.testing.assert_allclose(one.log[name], other.log[name], rtol=1e-9, err_msg=name)
    if ordered:
        assert one.summary["estimated_error"] == other.summary["estimated_error"]
    assert one.verdict == other.verdict


@pytest.mark.parametrize("bonds", [True, False])
def test_a_chain_as_a_group_has_the_signals_of_one_as_subsystems(simulated, bonds):
    one, other = simulated(chain(5, bonds=bonds)), simulated(group(5, bonds=bonds))
    assert_same(one, other)
    assert {"m3.force", "m4.x"} <= set(other.log.names)
    assert "chain:compute" in other.log


def test_members_in_one_call_have_the_same_signals(simulated):
    text = group(5).replace("[groups.chain]\n", '[groups.chain]\ntogether = "tests.chain:Links"\n')
    assert_same(simulated(group(5)), simulated(text))


def test_what_steps_the_members_together_is_a_group(tmp_path):
    text = group(2).replace("[groups.chain]\n", '[groups.chain]\ntogether = "tests.chain:Link"\n')
    (tmp_path / "session.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="Link is not a group"):
        hilrt.simulate(tmp_path / "session.toml")


def test_a_group_in_a_process_has_the_signals_of_one_in_the_masters(simulated, tmp_path):
    spawn = 'spawn = ["hilrt", "solver", "--group", "session.toml"]'
    text = group(40, steps=20)
    remote = text.replace("[groups.chain]\n", f'[groups.chain]\nadapter = "zeromq"\n{spawn}\n')
    (tmp_path / "session.toml").write_text(remote, encoding="utf-8")
    file = load_session(tmp_path / "session.toml", {"groups.chain.params.d": 2.0})
    result = hilrt.run_session(file, options=hilrt.RunOptions(folder=tmp_path / "run"))
    assert result.fault is None
    log = hilrt.load_log(tmp_path / "run")
    here = simulated(text.replace('prefix = "m"', 'prefix = "m"\nparams = { d = 2.0 }')).log
    for name in ("m0.force", "m20.x", "m39.v", "m39.x:estimated_error"):
        assert np.array_equal(log[name], here[name], equal_nan=True), name


def test_a_group_and_a_subsystem_share_a_chain(simulated):
    """A member's force follows a subsystem's position, and a subsystem's a member's."""
    single = (
        '[subsystems.m2]\nadapter = "inprocess"\nmodel = "tests.chain:Link"\n'
        "params = { m = 1.02, x = 0.02, v = 0.2 }\n"
    )
    own = "m0 = { m = 1.0 }, m1 = { m = 1.01, x = 0.01, v = 0.1 }, m3 = { m = 1.03, x = 0.03 }"
    grouped = (
        f'[groups.others]\nmodel = "tests.chain:Link"\nmembers = ["m0", "m1", "m3"]\n'
        f"own = {{ {own} }}\n"
        '[groups.others.inputs]\n"m0.push" = { start = 0.0 }\n'
        '"m3.x_right" = { start = 0.0 }\n"m3.v_right" = { start = 0.0 }\n'
    )
    text = head() + single + grouped + couplings(["m0", "m1", "m2", "m3"])
    assert_same(simulated(chain(4)), simulated(text), ordered=False)


def test_alarms_stimuli_and_calculated_channels_name_members(simulated):
    more = (
        '[[alarms]]\nsignal = "m1.x"\nmax = 0.011\n[[calculated]]\nname = "gap"\n'
        'expression = "m1.x - m2.x"\nunit = "m"\n'
        '[[stimuli]]\nname = "knock"\ninput = "m0.push"\n'
        'segments = [{ shape = "step", to = 5.0, duration = 1.0 }]\n'
    )
    one, other = simulated(chain(4) + more), simulated(group(4) + more)
    assert_same(one, other)
    assert np.array_equal(
        other.log["calculated.gap"][1:], (other.log["m1.x"] - other.log["m2.x"])[1:]
    )


def test_limits_are_of_all_members_or_of_one(tmp_path):
    file = tmp_path / "session.toml"
    text = group(3).replace(
        "[groups.chain.inputs]\n", "[groups.chain.inputs]\npush = { max = 5.0, min = -5.0 }\n"
    )
    file.write_text(text, encoding="utf-8")
    inputs = load_session(file).tables.subsystems["chain"].inputs
    assert (inputs["m0.push"].max, inputs["m0.push"].start) == (5.0, 0.0)
    assert (inputs["m2.push"].max, inputs["m2.push"].start) == (5.0, None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('"m0.force"', '"m0.forse"'), "'m0' has no output 'forse'; did you mean"),
        (('"m1.push"', '"m9.push"'), "there is no subsystem 'm9'"),
        (("members = 3", 'members = ["m0", "m1", "m1"]'), "m1 more than once"),
        (("members = 3", 'members = ["m0", "m.1", "m2"]'), "'m.1' is not a valid name"),
        (("each = { m = [1.0, ", "each = { m = ["), "has 2 values for 3 members"),
        (
            ('prefix = "m"', 'prefix = "m"\nown = { m7 = {} }'),
            "[groups.chain.own] m7: is not a member",
        ),
        (
            ('prefix = "m"', 'prefix = "m"\nparams = { w = 1 }'),
            "member m0: tests.chain:Link: unknown",
        ),
        (('prefix = "m"', 'adapter = "can"'), "does not support groups; choose one of inprocess"),
        (('"m0.push" = { start = 0.0 }\n', ""), "input m0.push is not connected"),
    ],
)
def test_errors_name_the_member(tmp_path, change, expected):
    file = tmp_path / "session.toml"
    text = group(3)
    assert change[0] in text
    file.write_text(text.replace(*change), encoding="utf-8")
    found = "\n".join(str(problem) for problem in check_file(file) if problem.level == "error")
    assert expected in found
    assert "subsystems.chain" not in found


def test_names_are_unique_among_subsystems_groups_and_members(tmp_path):
    file = tmp_path / "session.toml"
    text = group(2) + (
        '[subsystems.m1]\nadapter = "inprocess"\nmodel = "hilrt.models.two_mass:Mass1"\n'
    )
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="'m1' is the name of a subsystem, too"):
        load_session(file)


class Breaks(Link):
    """Raises in its third step."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        if t > 0.0015 and self.m > 1.005:
            raise RuntimeError("the spring has broken")
        return super().advance(t, h, u)


def test_what_a_member_raises_ends_the_session_with_its_name(tmp_path):
    file = tmp_path / "session.toml"
    text = group(2).replace("tests.chain:Link", "tests.session.test_groups:Breaks")
    file.write_text(text, encoding="utf-8")
    result = hilrt.simulate(file)
    assert "member m1: advance at t = 0.002 s raised" in (result.fault or "")
    assert "the spring has broken" in (result.fault or "")


class TestAlone:
    """A group without a session."""

    @pytest.fixture
    def hosted(self):
        hosted = HostedSolver(Group({"a": Mass1(), "b": Mass2(), "c": Mass1()}))
        hosted.initialize(0.0, np.zeros(hosted.n_inputs))
        return hosted

    def test_it_goes_back(self, hosted):
        rng = np.random.default_rng(1)
        hosted.keeps = True
        hosted.advance(0.0, 1e-2, rng.normal(size=(2, hosted.n_inputs)))
        expected = hosted.go_back(4e-3).y
        fresh = HostedSolver(Group({"a": Mass1(), "b": Mass2(), "c": Mass1()}))
        fresh.initialize(0.0, np.zeros(fresh.n_inputs))
        again = np.random.default_rng(1).normal(size=(2, fresh.n_inputs))
        assert np.array_equal(fresh.advance(0.0, 4e-3, again).y, expected)

    def test_its_linear_model_and_jacobians_are_its_members(self, hosted):
        u = np.zeros(hosted.n_inputs)
        model, gamma = find_linear_model(hosted, u, 1e-3), hosted.jacobian("probe", 0.0, 1e-3, 1, u)
        renewed = renew_linear_model(hosted, 0.0, u, 1e-3)
        assert model is not None
        assert gamma is not None
        assert renewed is not None
        at = 0
        for part in hosted.solver.parts:
            alone = HostedSolver(type(part.hosted.solver)())
            alone.initialize(0.0, u[part.inputs])
            own = find_linear_model(alone, u[part.inputs], 1e-3)
            assert own is not None
            states = slice(at, at := at + len(own.A))
            assert np.array_equal(model.A[states, states], own.A)
            assert np.array_equal(model.C[part.outputs, states], own.C)
            assert np.array_equal(model.B[states, part.inputs], own.B)
            expected = alone.jacobian("probe", 0.0, 1e-3, 1, u[part.inputs])
            assert np.array_equal(gamma[:, part.outputs, part.inputs], expected)
            gamma[:, part.outputs, part.inputs] = 0.0
        assert at == len(model.A)
        assert not gamma.any()
        np.testing.assert_allclose(renewed.A, model.A, rtol=1e-3, atol=1e-2)

    def test_trials_do_not_grow_with_the_members(self):
        """Counted are steps of members, of which a group of twice as many makes twice as many."""

        def steps(n: int) -> int:
            class Counted(Link):
                made = 0

                def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
                    Counted.made += 1
                    return super().advance(t, h, u)

            hosted = HostedSolver(Group({f"m{i}": Counted() for i in range(n)}))
            hosted.initialize(0.0, np.zeros(hosted.n_inputs))
            assert find_linear_model(hosted, np.zeros(hosted.n_inputs), 1e-3) is not None
            return Counted.made

        assert steps(20) == 20 * steps(1)


class Slides(Solver):
    """Tells derivatives, means, an event and its end, as it is asked to."""

    inputs = (Port("u"),)
    outputs = (Port("y"),)

    def __init__(self, **more: object) -> None:
        self.more = more

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return Sample(u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(u(t + h), **self.more)  # type: ignore[arg-type]


def test_the_rest_of_the_members_samples_is_joined():
    a = Slides(dy=np.ones((2, 1)), y_mean=np.ones(1), event_t=0.7)
    b = Slides(dy=np.full((1, 1), 2.0), event_t=0.4, ended="out of fuel", t_valid=np.full(1, 0.5))
    sample = Group({"a": a, "b": b}).advance(0.0, 1.0, InputPolynomial(0.0, np.ones((1, 2))))
    assert np.array_equal(sample.dy, [[1.0, 2.0]])
    assert (sample.y_mean, sample.event_t, sample.ended) == (None, 0.4, "member b: out of fuel")
    assert np.array_equal(sample.t_valid, [1.0, 0.5])
