"""
A solver in C
=============

The quarter of a car again, with its two models in separate processes: the wheel in Python, the
body in C. Messages go over ZeroMQ, or on one Linux machine over a Unix socket. The solver was
written from :doc:`/protocol` alone. Read :doc:`plot_two_models` first.

The solver
----------

:download:`body.c </examples/body.c>` is the complete solver: 200 lines, without any library. Half
of these lines read and write MessagePack; in most languages there are libraries for MessagePack and
ZeroMQ. The solver sends a hello with its ports, then answers one message at a time:

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

An input arrives as a polynomial: its derivatives at the beginning of the step. From these the model
computes the input at any time inside the step:

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
# ``adapter = "zeromq"`` stands for a process that speaks the protocol. ``spawn`` is the command
# that starts it; the session appends ``--connect ADDRESS --name body``. Without ``spawn`` the
# session waits for a process that you start. (If this machine has no C compiler, the body is in
# Python here, too.)

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
# `hilrt.simulate` only runs sessions whose models are in the calling process. `hilrt.run_session`
# runs any session, like ``hilrt run``.

remote = hilrt.run_session(
    hilrt.load_session(folder / "remote.toml"),
    options=hilrt.RunOptions(out=folder / "runs"),
)
inside = hilrt.simulate("quarter_car.toml")
print("in processes:", remote.summary["verdict"], "  in one process:", inside.verdict)

# %%
# In both cases the master makes the same 2000 steps, and waits for both models at each step. The
# motions differ only by rounding. The summary contains the cost of the exchange:

difference = np.abs(remote.log["body.x"] - inside.log["body.x"]).max()
print(f"largest difference of body.x: {difference:.1e} m")
for name, peer in remote.summary["peers"].items():
    computing, wire = peer["compute_us"]["p50"], peer["wire_us"]["p50"]
    print(f"{name}: a step takes {computing:.1f} µs, its messages {wire:.0f} µs (medians)")

# %%
# The solver also answers the message ``linearise``, with matrices that describe how the model
# responds to its inputs. This is optional. Without the matrices the responses are unknown, and the
# estimated error has a wider interval: :doc:`plot_verdict`.

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
# * Test vectors of the messages that a simple solver exchanges, byte by byte, are in
#   :doc:`/protocol`.
# * Receive with a timeout in one blocking call: a poll before each receive adds latency.
# * In real time the master does not wait for answers. If one comes too late, the solver's ``late``
#   table says what is used instead (:doc:`/session`).
# * A solver on another machine needs ZeroMQ and :doc:`keys </keys>`.
