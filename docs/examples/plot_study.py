"""
A study in a notebook
=====================

For those who have Python models and a question: which damper lets the body move least? The page can
be downloaded as a notebook, at its end. A notebook shows the last value of a cell: results, logs
and sweeps show the verdict and sparklines of the main signals there.

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
result.log

# %%
# A sweep
# -------
#
# ``sweep`` runs the session once for each setting, in processes on all processors, and keeps the
# statistics of the signals that you name. A sweep that was interrupted goes on when it is called
# again with the same folder. In a script, put all that runs below ``if __name__ == "__main__":``,
# since the processes import the script. Keep the models in a file, which they import, too.

dampers = np.linspace(1000.0, 5000.0, 5)  # N*s/m
sweep = hilrt.sweep(
    "quarter_car.toml",
    {"subsystems.wheel.params.damper": dampers.tolist()},
    out=tempfile.mkdtemp(),
    options=hilrt.SweepOptions(statistics=["body.v"], progress=False, workers=2),
)
sweep

# %%
# The answer
# ----------
#
# ``sweep.frame`` is a pandas frame with a row per case. The verdict goes with each row: a case
# whose coupling was wrong is no basis for a decision.

frame = sweep.frame
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
