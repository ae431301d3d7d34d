"""
I have FMUs
===========

Two FMUs for co-simulation are coupled: wheel and body of the quarter of a car of
:doc:`plot_two_models`. This page builds them with pythonfmu; use your own FMUs in their place. To
install, run ``pip install '.[fmu,report]' pythonfmu scipy`` in a checkout; after ``make demo`` only
``.venv/bin/pip install pythonfmu`` is missing. For your own FMUs, ``'.[fmu,report]'`` suffices.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

import hilrt

FOLDER = Path(tempfile.mkdtemp())


def run(*command):
    """Run a command in the folder of the FMUs, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


for file in ("quarter_car.py", "quarter_car_fmus.toml"):
    shutil.copy(file, FOLDER)
for file in ("body_fmu.py", "wheel_fmu.py"):
    shutil.copy(file, FOLDER)
    run("pythonfmu", "build", "-f", file)

# %%
# See what they can do
# --------------------
#
# ``hilrt fmu info Wheel.fmu`` lists ports and capabilities, and what each capability enables.

print(run("hilrt", "fmu", "info", "Wheel.fmu"))

# %%
# Two lines matter most:
#
# * *feedthrough from all inputs (assumed; the FMU does not declare it)*: an output with direct
#   feedthrough depends on an input at the same time. If an FMU does not declare its dependencies,
#   each output is assumed to depend on all inputs, unless the session file declares the true
#   dependencies.
# * *directional derivatives*: with them, if the FMU also names its state derivatives, the master
#   finds how the FMU responds to its inputs, and the estimated error has a narrow interval. These
#   FMUs have none (:doc:`FMUs </fmu>`, "What the verdict needs of an FMU").
#
# Write the session
# -----------------
#
# .. literalinclude:: /examples/quarter_car_fmus.toml
#    :language: toml
#    :caption: quarter_car_fmus.toml
#
# ``hilrt new quarter_car_fmus.toml --model Wheel.fmu --model Body.fmu`` writes most of this file:
# it connects ports of the same names. (It also adds ``repeat = "half"``, the first kind of evidence
# below.)
#
# ``hilrt check`` compares the session with the model descriptions, without running the FMUs' code.

print(run("hilrt", "check", "quarter_car_fmus.toml"))

# %%
# Run it
# ------

session = FOLDER / "quarter_car_fmus.toml"
result = hilrt.simulate(session)
print(result.verdict, "– evidence lacking:", result.summary["evidence_lacking"])
print(*result.summary["reasons"], sep="\n")

# %%
# The session is *degraded for lack of evidence*: it is not known how the FMUs respond to their
# inputs, and with some possible responses the error would be large. Two kinds of evidence can show
# how large it is. The first is to repeat the session at half and a quarter of its step, and to see
# how the results change. By this evidence, the force is wrong by 2.1 N (RMS). The exact solution
# below confirms it:

repeated = run("hilrt", "analyze", "repeat", "quarter_car_fmus.toml")
print(repeated)

# %%
# The second kind is a reference model for each FMU: a class that responds much like the FMU, and
# that can make trial steps in its place. Here the Python models of the quarter of a car serve as
# reference models.

models = {f"subsystems.{n.lower()}.reference_model": f"quarter_car:{n}" for n in ("Wheel", "Body")}
judged = hilrt.simulate(session, models)
force = judged.summary["estimated_error"]["wheel.force"]
print(judged.verdict, f"± {force['high']:.2g} N, by {force['how']}")

# %%
# The verdict then rests on these models. It is only as good as their resemblance to the FMUs, which
# is not perfect here: the models follow their inputs inside a step, the FMUs hold them.
#
# Make it more accurate
# ---------------------
#
# These FMUs hold their inputs for the whole macro step. With ``substeps = 10`` the inputs are set
# ten times per step, along the polynomial of the master, and the error falls. With ``end_inputs =
# false`` it rises: the force is then read before the FMU has the inputs of the step's end, so that
# the force is late by a step.
#
# Both FMUs can vary their step ("variable step size" in the list above). Step control then makes
# short steps after the kerb and long ones later, up to ``maximum``. ``half_steps`` also shows it
# the middle of each step; the method ``"pi"`` suits outputs with feedthrough. The error is nearly
# that of the fixed step, with 1,181 instead of 2,000 steps. (For a verdict, add
# ``reliability.reference = "before"``: :doc:`FMUs </fmu>`, "Variable step".)


def of_both(key, value):
    """Set a key of both subsystems."""
    return {f"subsystems.{name}.{key}": value for name in ("wheel", "body")}


CONTROL = {"method": "pi", "rtol": 0.001, "maximum": 0.01}
VARIANTS = {
    "end_inputs = false": {"subsystems.wheel.end_inputs": False},
    "as it is": {},
    "substeps = 10": of_both("substeps", 10),
    "variable step": {"master.step_control": CONTROL, **of_both("half_steps", True)},
}


def exact_force(t):
    """Force of the suspension, N, of the whole system at the times `t`, s."""
    tyre, k, d, wheel, body = 180e3, 20e3, 1.5e3, 40.0, 400.0
    from_wheel = np.array([k, d, -k, -d])  # force by wheel.x, wheel.v, body.x, body.v
    a = np.array([[0, 1, 0, 0], -from_wheel / wheel, [0, 0, 0, 1], from_wheel / body])
    a[1, 0] -= tyre / wheel
    rest = np.array([0.05, 0.0, 0.05, 0.0])
    after = np.maximum(t - 0.2, 0.0)
    return np.array([from_wheel @ (rest - expm(a * time) @ rest) for time in after])


figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
rms, steps = {}, {}
for label, overrides in VARIANTS.items():
    log = hilrt.simulate(session, overrides).log
    error = log["wheel.force"] - exact_force(log.t)
    rms[label] = np.sqrt(np.trapezoid(error**2, log.t) / log.t[-1])
    steps[label] = len(log.t) - 1
    axes.plot(log.t, error, label=f"{label}: {rms[label]:.2f} N RMS, {steps[label]} steps")
axes.set(xlabel="session time in s", ylabel="error of the force in N", xlim=(0.15, 1.0))
axes.legend()
plt.show()

# %%
# Import an SSP package
# ---------------------
#
# An SSP package is a ZIP file with the FMUs and a description of how they are connected. This one
# contains the two FMUs and :download:`SystemStructure.ssd </examples/quarter_car.ssd>`.
# ``hilrt import-ssp`` writes a session from it.

with zipfile.ZipFile(FOLDER / "quarter_car.ssp", "w") as package:
    package.write("quarter_car.ssd", "SystemStructure.ssd")
    for file in ("Wheel.fmu", "Body.fmu"):
        package.write(FOLDER / file, f"resources/{file}")
print(run("hilrt", "import-ssp", "quarter_car.ssp", "--out", "imported.toml"))
imported = FOLDER / "imported.toml"
print(imported.read_text())

# %%
# ``hilrt check imported.toml`` warns of algebraic loops: neither the package nor the FMUs declare
# dependencies. So they are declared here, as in the first session, and the kerb is added. The
# result is the same as in the first session, to the last bit.

kerb = session.read_text().partition("[[stimuli]]")
imported.write_text(imported.read_text() + "\n" + "".join(kerb[1:]))
declared = {
    "session.duration": 2.0,
    "subsystems.wheel.feedthrough": {"force": ["body_x", "body_v"], "x": []},
    "subsystems.body.feedthrough": {"x": [], "v": []},
}
again = hilrt.simulate(imported, declared).log

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(again.t, again["wheel.force"], label="session from the package")
axes.plot(result.log.t, result.log["wheel.force"], "--", label="first session")
axes.set(xlabel="session time in s", ylabel="force in N", xlim=(0.15, 1.0))
axes.legend()
plt.show()
shutil.rmtree(FOLDER)

# %%
# What next
# ---------
#
# * :doc:`FMUs in separate processes, clocks, events, arrays, SSP in detail </fmu>`
# * :doc:`Reading a verdict <plot_verdict>`
