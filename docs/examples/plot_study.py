"""
A study in a notebook
=====================

With which damper does the body move least? A sweep answers this with Python models. A link at the
bottom of this page downloads it as a notebook. In a notebook, results, logs and sweeps display
themselves, with the verdict and small plots of the main signals.

A first run
-----------

The models and the session are those of :doc:`plot_two_models`.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import hilrt

result = hilrt.simulate("quarter_car.toml")
result

# %%
# ``result.log`` displays itself likewise, with the path of the session.
#
# A sweep
# -------
#
# ``sweep`` runs the session once for each setting, in parallel processes, and keeps statistics of
# the signals that you name. To continue an interrupted sweep, call it again with the same folder.
# In a script, put all code that runs something below ``if __name__ == "__main__":``, because the
# processes import the script. In a notebook, a cell that ends with ``sweep`` displays its folder,
# the best cases, and a small plot of the estimated errors of all; here are three columns of its
# table:

dampers = np.linspace(1000.0, 5000.0, 5)  # N*s/m
sweep = hilrt.sweep(
    "quarter_car.toml",
    {"subsystems.wheel.params.damper": dampers.tolist()},
    out=tempfile.mkdtemp(),
    options=hilrt.SweepOptions(statistics=["body.v"], progress=False, workers=2),
)
frame = sweep.frame
frame[["subsystems.wheel.params.damper", "verdict", "error"]]

# %%
# The answer
# ----------
#
# ``sweep.frame`` is a pandas frame with a row for each case. Check the verdict of each row: do not
# base a decision on a case with a wrong coupling.

moved = frame["statistic.body.v.rms"].to_numpy()
print(
    *(
        f"{d:4.0f} N*s/m: {v:.4f} m/s, {w}"
        for d, v, w in zip(dampers, moved, frame["verdict"], strict=True)
    ),
    sep="\n",
)

# %%
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(dampers, moved, "o-")
axes.set(xlabel="damper in N*s/m", ylabel="RMS velocity of the body in m/s")
plt.show()

# %%
# What next
# ---------
#
# * :doc:`Designs with fewer cases, clusters, automatic tuning </studies>`
# * :doc:`Sessions written in Python, recorded runs, runs in real time </python>`
