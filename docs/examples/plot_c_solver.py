"""
A solver in C
=============

The quarter of a car again, with its two models in separate processes: the wheel in Python, the
body in C. Messages go over ZeroMQ, or between processes of one Linux machine over a socket of their
own; :doc:`/protocol` is all that the author of a solver needs. Take :doc:`plot_two_models` first.

The solver
----------

The whole of it is :download:`body.c </examples/body.c>`, 200 lines without a library. Half of them
read and write MessagePack; with a library for that and one for ZeroMQ, which most languages have,
the other half is left. It says hello with its ports, then answers one message at a time:

.. literalinclude:: /examples/body.c
   :language: c
   :start-at: message(6, "hello")
   :end-at: send(s, out
   :dedent: 4

.. literalinclude:: /examples/body.c
   :language: c
   :start-at: else if (is(type, "advance"))
   :end-before: else if (is(type, "probe"))
   :dedent: 8

An input arrives as the derivatives of a polynomial about the beginning of the step, so that the
model may ask for its value at any time inside:

.. literalinclude:: /examples/body.c
   :language: c
   :start-at: static double input
   :end-before: /* ---- the protocol
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hilrt

folder = Path(tempfile.mkdtemp())
shutil.copy("quarter_car.py", folder)
compiler = shutil.which("cc")
if compiler:
    subprocess.run([compiler, "-O2", "-o", folder / "body", "body.c"], check=True)

# %%
# The session
# -----------
#
# ``adapter = "zeromq"`` stands for any process that speaks the protocol. ``spawn`` starts it, with
# ``--connect ADDRESS --name body`` appended; without it the session waits for one that you start.
# (Where there is no C compiler, the same model in Python takes its place here.)

body = '["./body"]' if compiler else '["hilrt", "solver", "quarter_car:Body"]'
text = Path("quarter_car.toml").read_text("utf-8")
for name, command in (("Wheel", '["hilrt", "solver", "quarter_car:Wheel"]'), ("Body", body)):
    inside = f'adapter = "inprocess"\nmodel = "quarter_car:{name}"\n'
    text = text.replace(inside, f'adapter = "zeromq"\nspawn = {command}\n')
(folder / "remote.toml").write_text(text, "utf-8")
print(text[text.index("[subsystems.wheel]") : text.index("[[connections]]")])

# %%
# Run it
# ------
#
# `hilrt.simulate` runs models in its own process; `hilrt.run_session` works like ``hilrt run``,
# processes included.

remote = hilrt.run_session(
    hilrt.load_session(folder / "remote.toml"),
    options=hilrt.RunOptions(out=folder / "runs"),
)
inside = hilrt.simulate("quarter_car.toml")
print("in processes:", remote.summary["verdict"], "  in one process:", inside.verdict)

# %%
# The master does the same in both cases, and waits for the answers of both models at each of the
# 2000 steps. The motions differ by rounding alone. What the exchange costs is in the summary:

difference = np.abs(remote.log["body.x"] - inside.log["body.x"]).max()
print(f"largest difference of body.x: {difference:.1e} m")
for name, peer in remote.summary["peers"].items():
    computing, wire = peer["compute_us"]["p50"], peer["wire_us"]["p50"]
    print(f"{name}: half of its steps took {computing:.1f} µs, and their messages {wire:.0f} µs")

# %%
# The answer to ``linearise`` makes the interval of the verdict narrow. A solver without it works as
# well, but the session then knows nothing of how it responds to its inputs, and says so:
# :doc:`plot_verdict`.

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(remote.log.t, 1e3 * remote.log["wheel.x"], label="wheel, Python")
axes.plot(remote.log.t, 1e3 * remote.log["body.x"], label="body, C" if compiler else "body")
axes.set(xlabel="session time in s", ylabel="height in mm")
axes.legend()
plt.show()

# %%
# Write your own
# --------------
#
# * Test vectors of every message, byte by byte, are in :doc:`/protocol`.
# * Receive with a timeout in one blocking call. Polling first and receiving then costs latency.
# * In real time the master does not wait: a solver that answers too late is handled by its
#   ``late`` table (:doc:`/session`).
# * A solver on another machine needs ZeroMQ and :doc:`keys </keys>`.
