"""Direct feedthrough answers a step late; where that cannot be probed, no session is `good`."""

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

import hilrt

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


@pytest.mark.parametrize(
    ("order", "step", "true_percent"),
    [(0, 5e-3, 154), (0, 2.5e-3, 52), (0, 1e-3, 17), (1, 5e-3, 31)],
)
def test_a_lag_that_nothing_counts_is_never_good(
    tmp_path: Path, order: int, step: float, true_percent: int
) -> None:
    (tmp_path / "lag_models.py").write_text(MODELS)
    path = tmp_path / "lag.toml"
    path.write_text(SESSION.format(step=step, order=order))
    result = hilrt.simulate(path)
    t, x = result.log.time("mass.x"), result.log["mass.x"]
    A = np.array([[0.0, 1.0], [-100.0, -0.5]])
    truth = np.array([(expm(A * at) @ [1.0, 0.0])[0] for at in t])
    error = np.sqrt(np.mean((x - truth) ** 2)) / truth.std()
    assert error == pytest.approx(true_percent / 100, rel=0.1)  # METHODS, section 7
    assert result.verdict != "good"
    assert "lag of feedthrough" in str(result.summary["estimated_error"]["mass.x"]["how"])
