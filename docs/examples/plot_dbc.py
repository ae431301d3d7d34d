"""
I have a DBC file
=================

From the database of a bench to a recorded session in real time, without the bench: ``hilrt`` sends
the set-points, and an emulated bench answers with the messages of the database. To install, run
``pip install '.[can,mdf,report]'`` in a checkout, or ``make demo``, which installs everything.

The database has two messages, each with a counter and a checksum: ``Demand`` with a speed and an
enable request, ``Status`` with torque, speed and the confirmation of the enable. Use your own
database in its place.

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
shutil.copy("drive.dbc", FOLDER)


def run(*command):
    """Run a command of hilrt in the folder of the database, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "hilrt", *command], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# %%
# Write the session
# -----------------
#
# In the session, ``hilrt`` takes the place of one node of the database: the node whose name looks
# like a gateway, or the one that ``--node`` names. Below are parts of the session file: the tables
# of the bench and of its set-point, a first stimulus, and the numbers that you may change on the
# web page of the running session. (For a real bus, ``hilrt can generate`` writes the file without
# the emulated bench and the stimulus, and marks the values that you must choose.)

print(run("new", "drive.toml", "--database", "drive.dbc"))
text = SESSION.read_text("utf-8")
bench, inputs = text.index("[subsystems.bench]"), text.index("[subsystems.bench.inputs.speed]")
print(text[bench : text.index("# ---- sent")], text[inputs:], sep="…\n\n")

# %%
# ``bus`` is a CAN bus between processes of this machine. ``emulator = "database"`` starts a process
# that answers on this bus. It confirms the enable request, and its torque is constant. Its
# ``speed`` follows the set-point, because the input names that output as ``realised``.
#
# Set limits and move the set-point
# ---------------------------------
#
# You choose the limits. The bench gets no set-point beyond the limits, whatever a model or a
# stimulus asks for. Here the stimulus asks for 300 rad/s at 200 rad/s²; the limits are 250 rad/s
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
# ``hilrt run drive.toml --web`` also serves a page on which you can watch the session and move the
# set-point; it prints the address, and the token that permits commands. At the end the set-point
# ramps to its safe value, and the enable request is withdrawn. The run's folder has these files:

run("run", "drive.toml", "--duration", "6", "--quiet")
print(*sorted(path.name for path in next(FOLDER.glob("runs/*")).iterdir()), sep="\n")

# %%
# Look at it
# ----------
#
# Open ``report.html`` in a browser: it begins with the verdict, plots each set-point as sent and as
# measured, and counts the frames of each CAN message. For plots of your own, load the log.
# ``bench.speed:sent`` is the set-point that was sent. First the largest rate limits it, then the
# largest speed.

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
# The log also has the CAN frames. ``hilrt export`` writes signals as MF4 for tools such as asammdf
# and CANape, and frames as BLF, ASC and other formats.

exported = run("export", str(next(FOLDER.glob("runs/*"))), "--to", "mf4")
print(exported.rpartition(" in ")[0])
shutil.rmtree(FOLDER)

# %%
# What next
# ---------
#
# * :doc:`Go to the real bus: the checklist for the first day <plot_first_day>`
# * :doc:`Use your own model as the emulated bench </own_bench>`
# * :doc:`Checksums, multiplexed messages, J1939, bus faults </can>`
# * :doc:`Watch a session, and operate it </monitor>`
# * :doc:`Everything that a report shows </logs>`
