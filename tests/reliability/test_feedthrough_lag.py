"""Direct feedthrough answers a step late; where that cannot be probed, it counts as a delay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import hilrt
from tests.fmu.build import by_pythonfmu

MODELS = '''
import numpy as np
from hilrt import Port, Sample, Solver


class Mass(Solver):
    """2 kg, exact under a held force; its state cannot be saved."""

    inputs = (Port("force", "N"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))
    x, v = 1.0, 0.0

    def initialize(self, t0, u0):
        return Sample(np.array([self.x, self.v]))

    def advance(self, t, h, u):
        a = u(t)[0] / 2.0
        self.x, self.v = self.x + h * self.v + h * h * a / 2, self.v + h * a
        return Sample(np.array([self.x, self.v]))


class Spring(Solver):
    """200 N/m and 1 N s/m, without memory."""

    inputs = (Port("x", "m", start=1.0), Port("v", "m/s"))
    outputs = (Port("force", "N", feedthrough=("x", "v")),)

    def force(self, u):
        return Sample(np.array([-200.0 * u[0] - u[1]]))

    def initialize(self, t0, u0):
        return self.force(u0)

    def advance(self, t, h, u):
        return self.force(u(t + h))
'''

SESSION = """
[session]
name = "lag"
duration = 5.0
pace = "asap"

[master]
step = {step}
extrapolation = {{ order = {order} }}

[subsystems.mass]
adapter = "inprocess"
model = "lag_models:Mass"

[subsystems.spring]
adapter = "inprocess"
model = "lag_models:Spring"

[[connections]]
from = "mass.x"
to = "spring.x"

[[connections]]
from = "mass.v"
to = "spring.v"

[[connections]]
from = "spring.force"
to = "mass.force"
"""


#: The same for pythonfmu: outputs are computed in the step, with the inputs of its beginning.
SLAVES = {
    "Mass": """
from pythonfmu import Fmi2Causality, Fmi2Slave, Real


class Mass(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.force, self.x, self.v = 0.0, 1.0, 0.0
        self.register_variable(Real("force", causality=Fmi2Causality.input))
        self.register_variable(Real("x", causality=Fmi2Causality.output))
        self.register_variable(Real("v", causality=Fmi2Causality.output))

    def do_step(self, current_time, h):
        a = self.force / 2.0
        self.x, self.v = self.x + h * self.v + h * h * a / 2, self.v + h * a
        return True
""",
    "Spring": """
from pythonfmu import Fmi2Causality, Fmi2Slave, Real


class Spring(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.x, self.v, self.force = 1.0, 0.0, -200.0
        self.register_variable(Real("x", causality=Fmi2Causality.input))
        self.register_variable(Real("v", causality=Fmi2Causality.input))
        self.register_variable(Real("force", causality=Fmi2Causality.output))

    def do_step(self, current_time, h):
        self.force = -200.0 * self.x - self.v
        return True
""",
}


def error_against_truth(result: Any) -> float:
    t, x = result.log.time("mass.x"), result.log["mass.x"]
    A = np.array([[0.0, 1.0], [-100.0, -0.5]])
    truth = np.array([(expm(A * at) @ [1.0, 0.0])[0] for at in t])
    return float(np.sqrt(np.mean((x - truth) ** 2)) / truth.std())


def deserved(result: Any, true_percent: int) -> str:
    """Word of the true error, to which the estimate is near and which its interval holds."""
    error = error_against_truth(result)
    assert error == pytest.approx(true_percent / 100, rel=0.1)  # METHODS, section 7
    estimate = result.summary["estimated_error"]["mass.x"]
    assert estimate["how"] == "gain range, lag of feedthrough as a delay"
    spread = result.log["mass.x"].std()
    assert 0.7 < estimate["value"] / spread / error < 2.5
    assert estimate["low"] < error * spread < estimate["high"]
    return "unreliable" if error > 0.2 else "degraded"


@pytest.mark.parametrize(
    ("order", "step", "true_percent"),
    [(0, 5e-3, 154), (0, 2.5e-3, 52), (0, 1e-3, 17), (1, 5e-3, 31)],
)
def test_a_lag_that_was_not_tried_out_counts_as_a_delay(
    tmp_path: Path, order: int, step: float, true_percent: int
) -> None:
    (tmp_path / "lag_models.py").write_text(MODELS)
    path = tmp_path / "lag.toml"
    path.write_text(SESSION.format(step=step, order=order))
    result = hilrt.simulate(path)
    assert result.verdict == deserved(result, true_percent)


@pytest.mark.parametrize(
    ("package", "step", "true_percent"),
    [
        ("pythonfmu", 5e-3, 154),
        ("pythonfmu", 2.5e-3, 52),
        ("pythonfmu", 1e-3, 17),
        ("pythonfmu3", 2.5e-3, 52),
    ],
)
def test_the_lag_of_fmus_counts_alike_and_one_without_feedthrough_silences_no_other(
    tmp_path: Path, package: str, step: float, true_percent: int
) -> None:
    path = tmp_path / "lag.toml"
    text = SESSION.format(step=step, order=0)
    for name, source in SLAVES.items():
        fmu = by_pythonfmu(package, name, source)
        text = text.replace(
            f'adapter = "inprocess"\nmodel = "lag_models:{name}"', f'adapter = "fmu"\nfmu = "{fmu}"'
        )
    path.write_text(text)
    result = hilrt.simulate(path, {"subsystems.mass.feedthrough": {"x": [], "v": []}})
    assert result.verdict == deserved(result, true_percent)
    advice = " ".join(change["text"] for change in result.summary["advice"])
    assert "end_inputs" in advice
    undeclared = hilrt.simulate(path)  # then the mass's outputs may have the lag, too
    value = {
        name: found.summary["estimated_error"]["mass.x"]["value"]
        for name, found in (("declared", result), ("undeclared", undeclared))
    }
    assert value["undeclared"] > value["declared"]
    assert undeclared.verdict == "unreliable"


DRIVE = """

class Drive(Solver):
    outputs = (Port("f", "N"),)

    def initialize(self, t0, u0):
        return Sample(np.array([0.0]))

    def advance(self, t, h, u):
        return Sample(np.array([50.0 * np.sin(3.0 * (t + h))]))
"""


def test_a_damped_loop_that_is_driven_forgets(tmp_path: Path) -> None:
    (tmp_path / "lag_models.py").write_text(MODELS.replace("- u[1]", "- 12.0 * u[1]") + DRIVE)
    path = tmp_path / "lag.toml"
    drive = """
[subsystems.drive]
adapter = "inprocess"
model = "lag_models:Drive"

[[connections]]
from = "drive.f"
to = "mass.force"
"""
    text = SESSION.format(step=5e-3, order=0).replace("duration = 5.0", "duration = 20.0")
    path.write_text(text + drive)
    result = hilrt.simulate(path)
    t, x = result.log.time("mass.x"), result.log["mass.x"]

    def motion(at: float, y: Any) -> list[float]:
        return [y[1], (50.0 * np.sin(3.0 * at) - 200.0 * y[0] - 12.0 * y[1]) / 2.0]

    within = np.clip(t, 0.0, 20.0)
    truth = solve_ivp(motion, (0.0, 20.0), [1.0, 0.0], t_eval=within, rtol=1e-9, atol=1e-9).y[0]
    error = float(np.sqrt(np.mean((x - truth) ** 2)))
    assert error / truth.std() == pytest.approx(0.043, rel=0.05)
    estimate = result.summary["estimated_error"]["mass.x"]
    assert estimate["low"] < error < estimate["high"]
    assert result.verdict == "degraded"
