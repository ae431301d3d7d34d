"""
Order and accuracy
==================

Between two communication points the master extrapolates each input by a polynomial through past
values. If an input is held (order 0), its error is proportional to the macro step; with a
polynomial of order *n* the error is proportional to the step to the power *n* + 1 (:doc:`/methods`,
"Extrapolation"). The two masses of :doc:`plot_verdict` show this.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

import hilrt

session = hilrt.load_session(
    "../../bench_configs/two_mass.toml",
    {"session.duration": 1.0, "bonds.spring.correction.method": "none"}
    | {f"subsystems.mass{i}.params.integrator": "exact" for i in (1, 2)},
)


def exact_force(t):
    """Force of the spring between the masses, N, at the times `t`, s."""
    k1, kc, k2 = 10.0, 100.0, 1000.0  # N/m; both masses are 1 kg
    a = np.array([[0, 1, 0, 0], [-k1 - kc, 0, kc, 0], [0, 0, 0, 1], [kc, 0, -kc - k2, 0]])
    states = np.array([expm(a * time) @ [0.0, 100.0, 0.0, -100.0] for time in t])
    return kc * (states[:, 0] - states[:, 2])


# %%
# Shorter steps
# -------------

steps = np.array([0.0005, 0.001, 0.002, 0.004, 0.008])  # s
defects, errors, slopes = {}, {}, {}
for order in (0, 1, 2):
    defects[order], errors[order] = [], []
    for step in steps:
        keys = {"master.step": float(step), "master.extrapolation.order": order}
        log = hilrt.simulate(session, keys).log
        missed = log["mass2.force:connection_defect"][10:]  # the first steps lack past samples
        defects[order].append(np.sqrt(np.mean(missed**2)))
        errors[order].append(np.sqrt(np.mean((log["mass1.force"] - exact_force(log.t)) ** 2)))
    slopes[order] = np.polyfit(np.log(steps[:3]), np.log(defects[order][:3]), 1)[0]
    print(f"order {order}: error of the input ~ step to the power {slopes[order]:.2f}")

# %%
# The error of the result is larger, because errors of inputs add up over time. With order 2 this
# error does not fall with the third power of the step. The cause is the first step: there are no
# past values yet, so its inputs are held, and without damping the resulting error stays.
#
# Noise
# -----
#
# A higher order amplifies noise. At the end of a step, the extrapolated value is a weighted sum of
# the last samples. So the standard deviation of white noise is multiplied by the norm of the
# weights:

weights = {0: [1.0], 1: [2.0, -1.0], 2: [3.0, -3.0, 1.0]}
for order, factors in weights.items():
    print(f"order {order}: noise × {np.linalg.norm(factors):.1f}")

# %%
# So use order 1 for signals of models, and order 0 for noisy measurements.
#
# The picture
# -----------

figure, axes = plt.subplots(1, 2, sharey=True, figsize=(8, 4), layout="constrained")
for axis, found, title in zip(axes, (defects, errors), ("input, as sent", "result"), strict=True):
    for order, values in found.items():
        (line,) = axis.loglog(1e3 * steps, values, "o-", label=f"order {order}")
        guide = values[-1] * (steps / steps[-1]) ** (order + 1)
        axis.loglog(1e3 * steps, guide, ":", color=line.get_color())
    axis.set(xlabel="macro step in ms", title=title)
axes[0].set_ylabel("RMS error of the force in N")
axes[0].plot([], [], "k:", label="step to the power n + 1")
axes[0].legend()
plt.show()
