"""
Two models in one process
=========================

From installation to a plot in ten minutes: a quarter of a car drives over a kerb. The wheel, with
tyre and suspension, is one model; the body above it is another. Once per millisecond they exchange
the force of the suspension and the motion of the body.

Install
-------

In a checkout, ``make demo`` installs everything into ``.venv`` and runs a demonstration. Then
activate the environment with ``. .venv/bin/activate``. Without ``make``, run ``pip install
'.[all]'`` in an environment of your own. Installing takes one to three minutes. The first start
then compiles the numerics once: 20 to 25 s on two idle processors, minutes on busy ones.

Write the models
----------------

A model is a class with ports and two methods: `initialize` returns its outputs at the start, and
`advance` integrates over one macro step. Inside the step, `u(t)` returns the inputs at any time
`t`; the master extrapolates them from past values by a polynomial. `save_state` and `restore_state`
let the master make trial steps to find out how the model responds to its inputs. That makes the
interval of the estimated error much narrower.

.. literalinclude:: /examples/quarter_car.py
   :language: python
   :caption: quarter_car.py

Write the session
-----------------

A TOML file names the models, their connections, and the length of a macro step.

.. literalinclude:: /examples/quarter_car.toml
   :language: toml
   :caption: quarter_car.toml

Three commands help:

* ``hilrt new quarter_car.toml --model quarter_car:Wheel --model quarter_car:Body`` writes most of
  this file: it connects ports of the same names and units.
* ``hilrt check quarter_car.toml`` reports all mistakes in the file, each with its line.
* ``hilrt run quarter_car.toml`` runs the session, and leaves a log, a summary and a report in a
  folder below ``runs``.

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
# The verdict is ``good``. It rests on the estimated error of each exchanged signal. The figures are
# upper ends of 95 % intervals of the error (root mean square over the session), so single samples
# may be further off. ``log["wheel.force:estimated_error"]`` has an error band over time.

for name, error in result.summary["estimated_error"].items():
    print(f"{name}: ± {error['high']:.1e} {error['unit']}")

# %%
# Without `save_state` and `restore_state` the results would be the same, but nothing would show
# that they are right: the verdict would be worse, and would name the missing evidence.
# ``[reliability] repeat = "half"`` gives evidence without these methods: it runs the session again
# at shorter steps.

# %%
# Plot
# ----
#
# ``log.plot("wheel.force", "body.*")`` is the shortest way to a plot: it draws signals, with one
# pair of axes per unit. For plots of your own, a log is a mapping from signal names to arrays;
# ``log.t`` has the times of the ticks.

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
