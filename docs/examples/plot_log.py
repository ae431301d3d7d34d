"""
A recorded log: look, replay, what if
=====================================

Every run leaves a log, ``session.mcap``, with all signals at all ticks, the events, and the session
file. This page records the quarter of a car of :doc:`plot_two_models`, looks at the log, replays
what the master decided, and lets the recorded force drive another body. All this works with the log
of a bench, too.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hilrt

FOLDER = Path(tempfile.mkdtemp())


def run(*command):
    """Run a command of hilrt in the folder, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "hilrt", *command], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


for file in ("quarter_car.py", "quarter_car.toml"):
    shutil.copy(file, FOLDER)
print(run("run", "quarter_car.toml", "--folder", "recorded", "--quiet").partition(", files in")[0])

# %%
# Look
# ----
#
# ``hilrt log info`` summarises a log, ``hilrt log ls`` lists its signals, and ``hilrt report``
# writes a page with figures. In Python, a log is a mapping from signal names to arrays; a notebook
# displays its main signals.

with contextlib.chdir(FOLDER):  # so that the log's display names the path in this folder
    log = hilrt.load_log("recorded")
peak = np.argmax(np.abs(log["wheel.force"]))
print(f"largest force: {log['wheel.force'][peak]:.0f} N at {log.t[peak]:.3f} s")
for event in log.events:
    print(f"{event.t:6.3f} s  {event.text}")

# %%
log

# %%
# ``log.plot("wheel.force", "body.*")`` draws signals, with one pair of axes per unit.
#
# Replay the master's decisions
# -----------------------------
#
# From the recorded samples, ``hilrt replay`` computes again what the master decided at each tick:
# what it sent, corrected, limited and flagged. With the version that recorded the log, every bit
# must agree.

print(run("replay", "recorded"))

# %%
# With ``--set`` it shows what the master would have decided with other settings, from the same
# samples. It does not show how the models would have reacted. Both verdicts in the result leave out
# what the session learned by probing the models, because that may not hold for other settings: so
# the log counts as ``unverified`` here, although the session's own verdict was ``good``.

print(run("replay", "recorded", "--set", "master.extrapolation.order=0"))

# %%
# What if
# -------
#
# A log can replace a subsystem: ``adapter = "replay"`` plays back a session's log, MF4, CSV,
# Parquet or CAN logs. Here the recorded force drives the body, first with its own 400 kg, then with
# 500 kg.

PLAYBACK = """
[session]
name = "playback"
duration = 2.0                       # s
pace = "asap"

[master]
step = 0.001                         # s

[subsystems.wheel]
adapter = "replay"
log = "recorded/session.mcap"
interpolation = "linear"
outputs = { force = "wheel.force" }

[subsystems.body]
adapter = "inprocess"
model = "quarter_car:Body"
params = { mass = 400.0 }            # kg

[[connections]]
from = "wheel.force"
to = "body.force"
"""
(FOLDER / "playback.toml").write_text(PLAYBACK, "utf-8")
HEAVY = {"subsystems.body.params.mass": 500.0}
same = hilrt.simulate(FOLDER / "playback.toml").log
played = hilrt.simulate(FOLDER / "playback.toml", HEAVY).log
coupled = hilrt.simulate(FOLDER / "quarter_car.toml", HEAVY).log

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(log.t, 1e3 * log["body.x"], label="recorded, 400 kg")
axes.plot(same.t, 1e3 * same["body.x"], "k:", label="recorded force, 400 kg")
axes.plot(played.t, 1e3 * played["body.x"], label="recorded force, 500 kg")
axes.plot(coupled.t, 1e3 * coupled["body.x"], "--", label="coupled again, 500 kg")
axes.set(xlabel="session time in s", ylabel="height of the body in mm")
axes.legend()
plt.show()
shutil.rmtree(FOLDER)

# %%
# With 400 kg the body moves as recorded. With 500 kg it does not come to rest at the height of the
# kerb, because the recorded force, unlike a suspension, does not react to the body. So play back
# only signals that do not react to the models, such as those of a driver, a road or a load, and
# couple the others.
#
# What next
# ---------
#
# * :doc:`Cut, merge, export and compare logs </logs>`
# * :doc:`The signals of a log </recording>`
# * :doc:`Sweeps over settings </studies>`
