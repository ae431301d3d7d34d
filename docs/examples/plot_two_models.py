"""
Two models in one process
=========================

From installation to a plot in ten minutes: a quarter of a car drives over a kerb. The wheel, with
tyre and suspension, is one model; the body above it is another. They exchange the force of the
suspension and the motion of the body once per millisecond.

Install
-------

In a checkout, ``make demo`` installs everything into ``.venv``, and shows that it runs; ``.
.venv/bin/activate`` puts ``hilrt`` on the path. Without ``make``, in an environment of your own:
``pip install '.[all]'``.

Write the models
----------------

A model is a class with ports and two methods: `initialize` returns its outputs at the start, and
`advance` integrates over one macro step. Inside the step, `u(t)` returns the inputs at any time:
the master continues them from the past by a polynomial. With `save_state` and `restore_state` the
master can probe the model, which makes the estimate of the error much narrower.

.. literalinclude:: /examples/quarter_car.py
   :language: python
   :caption: quarter_car.py

Write the session
-----------------

A TOML file says which models take part, how their ports are connected, and how long a macro step
is.

.. literalinclude:: /examples/quarter_car.toml
   :language: toml
   :caption: quarter_car.toml

``hilrt new quarter_car.toml --model quarter_car:Wheel --model quarter_car:Body`` writes most of it:
it connects ports of the same names and units.

``hilrt check quarter_car.toml`` reports every mistake in it at once, with its line. ``hilrt run
quarter_car.toml`` runs it and leaves a log, figures and a report in a folder below ``runs``.

Run it from Python
------------------

`hilrt.simulate` runs the session in this process, and writes no files.
"""

import matplotlib.pyplot as plt

import hilrt

result = hilrt.simulate("quarter_car.toml")
log = result.log
print(result.verdict, log.units["wheel.force"], log["wheel.force"].shape)

# %%
# The verdict is ``good``. Its basis is the estimated error of each signal that is exchanged, in the
# unit of the signal: the upper end, by 95 %, of the root mean square of its error over the session.
# Single samples may be further off; ``log["wheel.force:estimated_error"]`` has a band over time.

for name, error in result.summary["estimated_error"].items():
    print(f"{name}: ± {error['high']:.1e} {error['unit']}")

# %%
# Without `save_state` and `restore_state` in the models the session is as right, but nothing shows
# it: its verdict is worse, and says which evidence is missing. ``[reliability] repeat = "half"``,
# which also runs the session at shorter steps, is evidence that needs nothing of a model.

# %%
# Plot
# ----
#
# A log is a mapping from the names of the signals to arrays; ``log.t`` are the times of the ticks.

figure, (motion, force) = plt.subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
motion.plot(log.t, 1e3 * log["wheel.x"], label="wheel")
motion.plot(log.t, 1e3 * log["body.x"], label="body")
motion.set_ylabel("height in mm")
motion.legend()
force.plot(log.t, log["wheel.force"])
force.set(xlabel="session time in s", ylabel="suspension force in N")
plt.show()

# %%
# What next
# ---------
#
# * :doc:`The same in separate processes, with one model in C <plot_c_solver>`
# * :doc:`A bench on CAN </own_bench>`
# * :doc:`Sweeps, recorded runs and runs in real time from Python </python>`
# * :doc:`The basis of a verdict <plot_verdict>`
