"""
Defects and flags
=================

An input is sent before its source has computed the step. The values that the source then computes
differ from those that were sent. The difference is the *connection defect* (:doc:`/methods`,
"Defects"). It is cheap to compute and needs no model. While it is large compared with the signal,
the flag ``connection_defect`` is up, so that the log says when the results are doubtful. Here the
quarter of a car of :doc:`plot_two_models` drives over its kerb with a macro step of 20 ms instead
of 1 ms.
"""

import matplotlib.pyplot as plt
import numpy as np

import hilrt

session = hilrt.load_session("quarter_car.toml", {"master.step": 0.02})
result = hilrt.simulate(session)
log = result.log
print(result.verdict, *result.summary["reasons"], sep="\n")

# %%
# The defect of an input
# ----------------------
#
# The defect of the body's input is the difference between the force that was sent and the force
# that the wheel then computed, as RMS over each step:

defect = log["body.force:connection_defect"]
flag = log["flag:connection_defect"] > 0.0
largest, force = np.nanmax(defect), np.max(np.abs(log["wheel.force"]))
print(f"largest defect {largest:.0f} N; largest force {force:.0f} N")
print(f"flag up from {log.t[flag][0]:.2f} s to {log.t[flag][-1]:.2f} s")

# %%
# With a macro step of 1 ms, the flag is raised only at the kerb, for a time too short to matter:

fine = hilrt.simulate("quarter_car.toml")
affected = fine.summary["flags"]["connection_defect"]["affected_s"]
print(f"{fine.verdict}, {1e3 * affected:.0f} ms affected")

# %%
# The picture
# -----------

figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
above.plot(fine.log.t, fine.log["wheel.force"], color="black", label="macro step 1 ms")
above.step(log.t, log["wheel.force"], where="post", label="20 ms")
above.set_ylabel("suspension force in N")
above.legend()
below.plot(log.t, defect, label="connection defect")
below.fill_between(log.t, 0.0, 4e3, where=flag, alpha=0.2, color="tab:red", label="flag is up")
below.set(xlabel="session time in s", ylabel="defect in N", ylim=(0.0, 4e3), xlim=(0.0, 1.5))
below.legend()
plt.show()
