"""
I have a DBC file
=================

From the database of a bench to a recorded session in real time, without the bench: ``hilrt`` sends
the set-points, and an emulated bench answers with the messages of the database. The real bench then
needs another bus and values that only its owner knows. You need ``pip install '.[can,mdf,report]'``
in a checkout, or ``make demo``, which installs everything.

The database has two messages, both with a counter and a checksum: ``Demand`` with a speed and an
enable request, ``Status`` with torque, speed and the confirmation. Take your own in its place.

.. literalinclude:: /examples/drive.dbc
   :language: dbc
   :lines: 7-22
   :caption: drive.dbc
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import hilrt

FOLDER = Path(tempfile.mkdtemp())
SESSION = FOLDER / "drive.toml"


def run(*command):
    """Run a command of hilrt in the folder of the database, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "hilrt", *command], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


shutil.copy("drive.dbc", FOLDER)

# %%
# Write the session
# -----------------
#
# ``hilrt new`` replaces the node whose name looks like a gateway; ``--node`` names another
# one. Here are the tables of the bench and of its set-point, a first stimulus, and what the page
# may change:

print(run("new", "drive.toml", "--database", "drive.dbc"))
text = SESSION.read_text("utf-8")
bench, inputs = text.index("[subsystems.bench]"), text.index("[subsystems.bench.inputs.speed]")
print(text[bench : text.index("# ---- sent")], text[inputs:], sep="…\n\n")

# %%
# ``bus`` is a CAN bus between processes of this machine. ``emulator = "database"`` starts a process
# that answers on it: the enable request is confirmed, ``speed`` follows the set-point, because the
# input names it as ``realised``, and the torque is constant.
#
# Set limits and move the set-point
# ---------------------------------
#
# The limits are yours to choose: the bench gets no set-point beyond them, whatever a model or a
# stimulus asks for. The speed is to go to 300 rad/s at 200 rad/s²; the bench gets at most 250 rad/s
# and 150 rad/s².

text = text.replace("max = 400.0", "max = 250.0").replace("max_rate = 400.0", "max_rate = 150.0")
text = text.replace("to = 40.0, rate = 200.0", "to = 300.0, rate = 200.0")
text = text.replace("\nlate =", "\nemulator_params = { torque = 12.5 }  # N*m\nlate =")
SESSION.write_text(text, "utf-8")
print(run("check", "drive.toml"))

# %%
# Run it
# ------
#
# ``hilrt run drive.toml --web`` also serves a page at which you can watch the session and move the
# set-point; it prints the address and the token for commands. At the end the set-point goes to its
# safe value, at its largest rate, and the enable request is withdrawn. The report and the figures
# of the run are in its folder.

run("run", "drive.toml", "--duration", "6", "--quiet")
print(*sorted(path.name for path in next(FOLDER.glob("runs/*")).iterdir()), sep="\n")

# %%
# Look at it
# ----------
#
# ``:sent`` is what left for the bench. The rate limit acts first, then the limit of the speed.

log = hilrt.load_log(FOLDER / "runs" / "*")
sent, speed = log["bench.speed:sent"], log.held("bench.speed")
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
asked = [0.0 if t < 1.0 else min(300.0, 200.0 * (t - 1.0)) for t in log.t if t < 4.5]
axes.plot(log.t[: len(asked)], asked, ":", label="asked for")
axes.plot(log.t, sent, label="sent")
axes.plot(log.t, speed, "--", label="measured")
axes.set(xlabel="session time in s", ylabel="speed in rad/s")
axes.legend()
plt.show()

# %%
# For other tools
# ---------------
#
# The frames are in the log, too. ``hilrt export`` writes MF4 for tools such as asammdf and CANape,
# BLF, ASC and others for those that read frames.

exported = run("export", str(next(FOLDER.glob("runs/*"))), "--to", "mf4")
print(exported.rpartition(" in ")[0])
shutil.rmtree(FOLDER)

# %%
# What next
# ---------
#
# * :doc:`Go to the real bus: the checklist for the first day <plot_first_day>`
# * :doc:`Let your own model answer in the bench's place </own_bench>`
# * :doc:`Checksums, multiplexed messages, J1939, bus faults </can>`
# * :doc:`Watch a session, and operate it </monitor>`
