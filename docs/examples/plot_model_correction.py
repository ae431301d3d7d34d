"""
Model-based correction
======================

If the master knows how a subsystem responds to its inputs, it can undo the effects of an input's
error: it corrects the outputs at once, and the states by way of the next inputs (:doc:`/methods`,
"Model-based correction"). Here two masses are coupled by a stiff spring and a damper, and both
subsystems provide their matrices. Inputs are held (order 0), the least accurate choice. The session
runs without a correction, with the energy correction, and with the model-based correction.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

import hilrt

session = hilrt.load_session("../../bench_configs/two_mass_model.toml")

# %%
# Both subsystems are linear. Their matrices combine to the matrix of the whole system, and its
# exponential gives the exact motion:

one, two = (session.tables.subsystems[name].params for name in ("mass1", "mass2"))
A1, B1, A2, B2 = (np.array(each) for each in (one["A"], one["B"], two["A"], two["B"]))
C2, D2 = np.array(two["C"])[:1], np.array(two["D"])[:1]  # of the force alone
whole = np.block([[A1 + B1 @ D2, B1 @ C2], [B2, A2]])
start = np.array([*one["x0"], *two["x0"]])


def exact(t):
    """States s1, v1, s2, v2 at the times `t`, s; shape (n, 4)."""
    return np.array([expm(whole * time) @ start for time in t])


# %%
# The three runs
# --------------

errors, logs = {}, {}
for method in ("none", "energy", "model"):
    result = hilrt.simulate(session, {"bonds.coupling.correction.method": method})
    logs[method] = result.log
    wrong = result.log["mass1.s"] - exact(result.log.t)[:, 0]
    errors[method] = np.sqrt(np.mean(wrong**2))
    print(f"{method}: {result.verdict}, RMS error {1e3 * errors[method]:.1f} mm of a motion of 1 m")

# %%
# The energy correction corrects the energy only; the model-based correction removes most of the
# error. It needs a model of the responses: from the solver (``jacobian.source = "solver"``), from
# probing, from identification while the session runs, or from matrices in the session file. With a
# wrong model the correction does harm. So an identified model's predictions are compared with the
# values that arrive; while they are wrong, the model is not used, and the flag ``model_untrusted``
# is up.
#
# The picture
# -----------

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for method, log in logs.items():
    late = log.t > log.t[-1] - 0.05
    axes.plot(log.t[late], log["mass1.s"][late], label=f"correction {method}")
axes.plot(log.t[late], exact(log.t[late])[:, 0], "k--", linewidth=1.0, label="exact")
axes.set(xlabel="session time in s", ylabel="position of mass 1 in m")
axes.legend(ncols=2)
plt.show()
