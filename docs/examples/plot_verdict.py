"""
Reading a verdict
=================

A session ends ``good``, ``unverified``, ``degraded`` or ``unreliable``. This *verdict* says how far
the coupling may have changed the result, by the exchange at discrete times, the extrapolation in
between, and late samples. Here the same system runs with longer and longer macro steps, and the
error that the session estimates is compared with the true error. The system consists of two masses
between springs. It is linear, so a matrix exponential gives its exact motion. The models'
integrators are exact, so only the coupling causes errors. :doc:`/reliability` has the rules of the
verdict.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

import hilrt

EXACT = {f"subsystems.mass{i}.params.integrator": "exact" for i in (1, 2)}
session = hilrt.load_session(
    "../../bench_configs/two_mass.toml",
    {"session.duration": 4.0, "master.extrapolation.order": 1}
    | {"bonds.spring.correction.method": "none"}
    | EXACT,
)


def exact_force(t):
    """Force of the spring between the masses, N, at the times `t`, s."""
    k1, kc, k2 = 10.0, 100.0, 1000.0  # N/m; both masses are 1 kg
    a = np.array([[0, 1, 0, 0], [-k1 - kc, 0, kc, 0], [0, 0, 0, 1], [kc, 0, -kc - k2, 0]])
    states = np.array([expm(a * time) @ [0.0, 100.0, 0.0, -100.0] for time in t])
    return kc * (states[:, 0] - states[:, 2])


# %%
# The estimated error of a signal has a ``value`` (RMS) and an interval from ``low`` to ``high``,
# which should contain the true error in 95 of 100 sessions. ``reasons`` says why a verdict is not
# ``good``.

steps = [0.0005, 0.001, 0.002, 0.004, 0.008, 0.016]  # s
truth, estimate, verdicts = [], [], []
for step in steps:
    result = hilrt.simulate(session, {"master.step": step})
    error = result.log["mass1.force"] - exact_force(result.log.t)
    truth.append(np.sqrt(np.mean(error**2)))
    estimate.append(result.summary["estimated_error"]["mass1.force"])
    verdicts.append(result.verdict)
    print(f"{1e3 * step:4.1f} ms: {result.verdict}", *result.summary["reasons"][:1], sep=", ")

# %%
# The evidence
# ------------
#
# The estimate depends on how the models respond to their inputs; ``how`` names the source of this
# knowledge. The masses can save and restore their state, so the master *probes* them before the
# first step: it makes them take trial steps with changed inputs, and undo them. If a model does not
# allow this, a wide range of responses is assumed. The motion is then the same, but the interval of
# the error is wider:

folder = Path(tempfile.mkdtemp())
(folder / "closed.py").write_text(
    """from hilrt import Solver
from hilrt.models.two_mass import Mass1


class Closed(Mass1):
    save_state, restore_state = Solver.save_state, Solver.restore_state
""",
    "utf-8",
)
closed = {"subsystems.mass1.model": "closed:Closed", "subsystems.mass1.path": str(folder)}
cases = {"probed": {}, "closed": closed}
found = {}
for name, settings in cases.items():
    result = hilrt.simulate(session, settings)
    found[name] = result.summary["estimated_error"]["mass1.force"]
    print(f"{name}: {result.verdict}, at most {found[name]['high']:.1f} N, by {found[name]['how']}")

# %%
# A bench cannot be probed: give it a reference model (:doc:`/reliability`, "Reference models"), or
# accept the wide interval.
#
# What a verdict does not cover
# -----------------------------
#
# The verdict is about the coupling only. If a model is wrong but coupled well, the verdict is
# ``good``. Here the second mass is 20 % too heavy:

result = hilrt.simulate(session, {"subsystems.mass2.params.m": 1.2})
wrong = np.sqrt(np.mean((result.log["mass1.force"] - exact_force(result.log.t)) ** 2))
claimed = result.summary["estimated_error"]["mass1.force"]["high"]
print(f"{result.verdict}: the coupling adds at most {claimed:.2f} N; off by {wrong:.0f} N")

# %%
# Nor does it cover wrong sensors, wrong units in a database, or events between two communication
# points that leave no trace in the samples.
#
# The picture
# -----------
#
# The estimated error follows the true error over more than three decades. :doc:`/calibration` shows
# how often it does so for other systems, and where it fails.

COLOURS = {
    "good": "tab:green",
    "unverified": "tab:purple",
    "degraded": "tab:orange",
    "unreliable": "tab:red",
}
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
low, value, high = np.array([[e["low"], e["value"], e["high"]] for e in estimate]).T
axes.fill_between(np.multiply(1e3, steps), low, high, alpha=0.2, label="estimated interval")
axes.loglog(np.multiply(1e3, steps), value, color="tab:blue", label="estimated error")
for verdict, colour in COLOURS.items():
    chosen = [i for i, found in enumerate(verdicts) if found == verdict]
    x, y = [1e3 * steps[i] for i in chosen], [truth[i] for i in chosen]
    axes.scatter(x, y, color=colour, zorder=3, label=f"true error, verdict {verdict}")
axes.set(xlabel="macro step in ms", ylabel="RMS error of the force in N")
axes.legend()
plt.show()
