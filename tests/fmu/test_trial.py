"""What is found out of an FMU by instances made for the purpose, before a session begins."""

import numpy as np
import pytest

import hilrt
from hilrt.fmu.trial import FmuTrial
from hilrt.link import FINDINGS
from tests.fmu.build import mass, needs_compiler
from tests.fmu.driving import fmu_solver, made

pytestmark = needs_compiler

STATE = {2: {"canGetAndSetFMUstate": "true"}, 3: {"canGetAndSetFMUState": "true"}}
DIFFERS = "its results change if its steps may be repeated"
FORGETS = "it does not return to a state that it has saved"


@pytest.mark.parametrize("major", [2, 3])
@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("PLAIN", FmuTrial()),
        ("FREEZES", FmuTrial(DIFFERS)),
        ("FORGETS", FmuTrial(FORGETS)),
        ("IGNORES", FmuTrial(inputs_ignored=True)),
        ("NOISY", FmuTrial()),  # two instances that step alike do not answer alike
    ],
)
def test_what_goes_wrong_when_steps_may_be_repeated_is_found(major, flag, expected):
    params = {"v": 1.0}
    solver = fmu_solver(mass(major, flags=(f"-D{flag}",), **STATE[major]), params=params)
    assert solver.trial == expected
    assert solver.can_restore() == (not expected.steps_final)
    assert solver.findings == [n for n, is_so in zip(FINDINGS, expected, strict=True) if is_so]
    found = "its outputs did not respond" if expected.inputs_ignored else expected.steps_final
    assert [text.partition(": ")[2].startswith(found) for text in solver.remarks] == (
        [True] if found else []
    )


@pytest.mark.parametrize("major", [2, 3])
def test_an_fmu_that_saves_no_state_is_not_tried_out(major):
    solver = made(major)
    assert solver.trial == FmuTrial()
    assert not solver.can_restore()


SESSION = """
[session]
name = "promised"
duration = 0.2
pace = "asap"
[master]
step = 1e-3
[subsystems.mass]
adapter = "fmu"
fmu = "{fmu}"
params = {{ v = 1.0, kc = 1000.0, x2 = 0.0, v2 = 0.0 }}
[subsystems.pendulum]
adapter = "inprocess"
model = "bouncing:Ball"
[[connections]]
from = "pendulum.y"
to = "mass.F"
"""
#: Its event becomes a communication point, to which all go back that can.
BALL = """
import numpy as np
from hilrt import Port, Sample, Solver


class Ball(Solver):
    outputs = (Port("y", "N"),)
    tells_events = True
    y = 1.0

    def initialize(self, t0, u0):
        return Sample(np.array([self.y]))

    def advance(self, t, h, u):
        hit = 0.1005
        if self.y > 0.0 and t < hit <= t + h + 1e-12:
            self.y = -1.0
            return Sample(np.array([self.y]), event_t=hit)
        return Sample(np.array([self.y]))

    def save_state(self):
        return self.y

    def restore_state(self, state):
        self.y = state
"""


def run(folder, major, *flags, state):
    (folder / "bouncing.py").write_text(BALL)
    file = folder / "promised.toml"
    fmu = mass(major, flags=flags, **(STATE[major] if state else {}))
    file.write_text(SESSION.format(fmu=fmu))
    return hilrt.simulate(file)


@pytest.mark.parametrize("major", [2, 3])
def test_its_steps_are_made_with_the_promise_and_the_verdict_says_so(tmp_path, major):
    frozen = run(tmp_path, major, "-DFREEZES", state=True)
    plain = run(tmp_path, major, state=False)
    np.testing.assert_array_equal(frozen.log["mass.x"], plain.log["mass.x"])
    assert np.nanmax(frozen.log["mass.x"]) > 1e-2
    assert np.isnan(frozen.log["mass.x"]).sum() == 1  # at the ball's event it is under way
    assert frozen.verdict == "unverified"
    assert any(reason.startswith("steps_final: ") for reason in frozen.summary["reasons"])
    back = run(tmp_path, major, state=True)
    assert np.isfinite(back.log["mass.x"]).all()  # it goes back to the event
    assert not any("steps_final" in reason for reason in back.summary["reasons"])


def test_one_that_ignores_its_inputs_is_named(tmp_path):
    result = run(tmp_path, 2, "-DIGNORES", state=True)
    assert result.verdict == "degraded"
    (reason,) = [r for r in result.summary["reasons"] if r.startswith("inputs_ignored")]
    assert "no output of mass responded to its inputs" in reason
