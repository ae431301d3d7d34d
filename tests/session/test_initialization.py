import numpy as np
import pytest

from hilrt.config.structs import Session, SubsystemOptions
from hilrt.errors import SessionFault
from hilrt.session.initialization import close_loop, initialize
from hilrt.session.opening import Connected
from hilrt.solver import Port, Sample, Solver
from tests.stepping import MemoryLink, make_session


class Gain(Solver):
    """``y = gain u + constant``, without a state."""

    inputs = (Port("u"),)
    outputs = (Port("y", feedthrough=("u",)),)

    def __init__(self, gain: float, constant: float) -> None:
        self.gain, self.constant, self.asked = gain, constant, 0

    def initialize(self, t0, u0):
        self.asked += 1
        return Sample(self.gain * u0 + self.constant)

    def advance(self, t, h, u):
        return Sample(self.gain * u(t + h) + self.constant)


class Link(MemoryLink):
    async def initialize(self, t0, u0):
        return self.solver.initialize(t0, u0)


def session(*pairs) -> Session:
    tables = {
        "master": {"step": 1e-3},
        "subsystems": {"a": {}, "b": {}},
        "connections": [{"from": source, "to": target} for source, target in pairs],
    }
    made = make_session(tables)
    assert isinstance(made.subsystems["a"], SubsystemOptions)
    return made


async def test_a_loop_of_a_gain_above_one_is_closed():
    a, b = Gain(3.0, 1.0), Gain(-2.0, 4.0)
    links = [Link("a", a), Link("b", b)]
    found = await initialize(Connected.of(links, session(("a.y", "b.u"), ("b.y", "a.u"))))
    # y_a = 3 y_b + 1, y_b = -2 y_a + 4
    y = [float(sample.y[0]) for sample in found.samples]
    np.testing.assert_allclose(y, [13 / 7, 2 / 7], rtol=1e-9)
    np.testing.assert_allclose(found.u0, [y[1], y[0]], rtol=1e-9)


async def test_a_chain_is_asked_once():
    a, b = Gain(3.0, 1.0), Gain(-2.0, 4.0)
    tables = session(("a.y", "b.u"))
    found = await initialize(Connected.of([Link("a", a), Link("b", b)], tables))
    assert (a.asked, b.asked) == (1, 1)
    assert [float(sample.y[0]) for sample in found.samples] == [1.0, 2.0]


async def test_a_loop_without_a_solution_is_a_fault():
    links = [Link("a", Gain(1.0, 1.0)), Link("b", Gain(1.0, 0.0))]
    with pytest.raises(SessionFault, match=r"loop through .*a\.u.*no consistent start values"):
        await initialize(Connected.of(links, session(("a.y", "b.u"), ("b.y", "a.u"))))


async def test_a_nonlinear_loop():
    async def evaluate(u):
        return np.cos(u)

    found = await close_loop(evaluate, np.array([0.0]), ["u"])
    np.testing.assert_allclose(found, 0.7390851332151607, rtol=1e-9)
