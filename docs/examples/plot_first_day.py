"""
From rehearsal to hardware
==========================

The checklist for a first day at a real bench. Each step sends a little more than the one before,
and says what you must see before you go on. First work through the whole list at your desk, with an
emulated bench. The output on this page is from such a rehearsal: the bench is a separate process on
a CAN bus within this machine, and everything else is as on the day.

.. admonition:: Before you go

   Ask the people who run the bench, and write the answers down:

   * the limits of each set-point, its largest rate, and the value at which it is safe;
   * the order in which set-points must be brought to these values;
   * how the bench is enabled, and how it confirms this;
   * what the bench does by itself when set-points stop coming, and after how long;
   * which counters and checksums it checks.

   **The bench must have an emergency stop, a watchdog for set-points and limits of its own.**
   ``hilrt`` replaces none of them. Somebody who knows the bench stands at the emergency stop.
"""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hilrt

folder = Path(tempfile.mkdtemp())
for name in ("drive.dbc", "dyno_model.py"):
    shutil.copy(name, folder)


def start(*command, output=subprocess.PIPE):
    """Start a command of hilrt in the folder, as in a terminal of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "hilrt", *command],
        cwd=folder,
        text=True,
        stdout=output,
        stderr=output,
    )


def run(*command):
    """Run a command of hilrt to its end; return what it prints, and its exit status."""
    started = start(*command)
    text = "".join(started.communicate())
    return text.strip(), started.returncode


# %%
# The session
# -----------
#
# ``hilrt new`` writes the session of the rehearsal from the database (:doc:`plot_dbc`). The
# emulated bench is a model of a dynamometer that follows its set-point with a lag of 40 ms.
#
# .. literalinclude:: /examples/dyno_model.py
#    :language: python
#    :caption: dyno_model.py

text, _ = run("new", "rehearsal.toml", "--database", "drive.dbc", "--emulator", "dyno_model:Dyno")
rehearsal = (folder / "rehearsal.toml").read_text("utf-8")

# %%
# For the real bench, change four things in the file: remove the lines that are only for the
# rehearsal, enter the limits that the bench's owner gave you, set the timeouts, and name the real
# ``bus`` (this page keeps the bus of the rehearsal):
#
# .. code-block:: toml
#
#    bus = { interface = "socketcan", channel = "can0" }

changes = {
    r"^emulator = .*\n": "",
    r"^late = .*\n": "",
    r"^# So that something moves.*\n(?:.+\n)+": "",  # the first stimulus
    r"^# (bench_timeout|master_timeout) = \S+ ": r"\1 = 0.2 ",
    r"^max = .*": "max = 250.0",  # rad/s
    r"^max_rate = .*": "max_rate = 150.0",  # rad/s²
}
day = rehearsal
for pattern, replacement in changes.items():
    day = re.sub(pattern, replacement, day, flags=re.MULTILINE)
day += """
[[stimuli]]
name = "run-up"
input = "bench.speed"
start = 1.0                          # s
segments = [{ shape = "ramp", to = 100.0, rate = 50.0 }, { shape = "hold", duration = 2.0 }]
"""
(folder / "day.toml").write_text(day, "utf-8")
print(*run("check", "day.toml"), sep="\nexit status ")

# %%
# 1. Listen, and send nothing
# ---------------------------
#
# Set the real bus up, and check that frames arrive:
#
# .. code-block:: console
#
#    $ sudo ip link set can0 up type can bitrate 1000000
#    $ sudo ip link set can0 txqueuelen 1000
#    $ hilrt can stats --bus interface=socketcan,channel=can0 --database drive.dbc

bus = re.search(r"^bus = \{ (.*) \}", rehearsal, re.MULTILINE)[1].replace('"', "").replace(" ", "")


def start_bench(*options):
    """Start the emulated bench; on the day, the bench's own people do that."""
    own = ("--session", "rehearsal.toml", "--subsystem", "bench")
    bench = start("emulate", "dyno_model:Dyno", *own, *options, output=subprocess.DEVNULL)
    watched = ""
    while "Status" not in watched:
        watched, _ = run(
            "can", "sniff", "--lines", "--bus", bus, "--database", "drive.dbc", "--duration", "0.5"
        )
    return bench


def end(process):
    """End a process at once, as a power failure does."""
    process.kill()
    process.wait()


bench = start_bench()
print(run("can", "stats", "--bus", bus, "--database", "drive.dbc", "--duration", "2")[0])

# %%
# **Go on if** every message of the bench arrives as often as the database says, none is lost or
# undecodable, and ``hilrt can sniff`` shows the same values as the bench's own display. Otherwise
# see :doc:`/howto/troubleshooting`, "Nothing arrives from the bench". Before you go on, set
# ``bench_timeout`` to a few times the longest interval in the table.
#
# 2. Without the bench's release
# ------------------------------
#
# The *release* is the bench's own permission to be enabled, such as a key switch or an interlock.
# Ask the bench's people to withdraw it, so that the bench does not confirm an enable request. Then
# run the session, which must refuse to begin:

end(bench)
(folder / "no_release.toml").write_text(
    '[[events]]\nat = 0.0\nkind = "stuck"\nsignals = ["Enabled"]\n', "utf-8"
)
bench = start_bench("--scenario", "no_release.toml")
text, refused = run("run", "day.toml", "--quiet")
print(text.splitlines()[-2], f"exit status {refused}", sep="\n")
end(bench)

# %%
# **Go on if** the exit status is 3 and the fault names the enable signal. If the session begins
# although the bench is not released, ``enable.state`` names the wrong signal.
#
# 3. A little motion
# ------------------
#
# Set low limits, and keep corrections from acting (``--shadow``). The stimulus asks for 100 rad/s;
# at most 20 rad/s may be sent.

bench = start_bench()
limits = "subsystems.bench.inputs.speed"
low = ("--set", f"{limits}.max=20", "--set", f"{limits}.max_rate=20", "--shadow")
text, status = run("run", "day.toml", "--duration", "4", "--out", "low", "--quiet", *low)
print(text.partition(", files in")[0], f"exit status {status}", sep="\n")
log = hilrt.load_log(folder / "low" / "*")
most = log["bench.speed:sent"].max()
print(f"sent at most {most:.2f} rad/s")

# %%
# **Go on if** the bench moved to 20 rad/s and in the right direction, ``bench.speed`` in the log
# agrees with the display, and after the end the bench was at rest with its enable withdrawn. As
# intended, the session reports that set-points were limited.
#
# 4. Stop it on purpose
# ---------------------
#
# At low speed, test everything that must work in an emergency. Watch the bus with a program that is
# not part of the session: ``candump -l can0``, or as here ``hilrt can sniff``.

SIGNALS = {"ctrl-c": signal.SIGINT, "kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


def strike(what):
    """Run a session, disturb it at about 3 s; return the speed on the bus around that moment."""
    begun = f"{what}.txt"
    with (folder / begun).open("w") as file:
        listener = start(
            "can", "sniff", "--lines", "--bus", bus, "--database", "drive.dbc", output=file
        )
        session = start("run", "day.toml", "--out", what, "--duration", "60", "--quiet")
        while not re.search(r"Speed=4\d", (folder / begun).read_text("utf-8")):
            time.sleep(0.05)
        struck = time.time()
        if what == "bench off":
            end(bench)
        else:
            session.send_signal(SIGNALS[what])
        time.sleep(2.0)
        session.send_signal(signal.SIGCONT)
        text = "".join(session.communicate()).strip().splitlines()
        listener.send_signal(signal.SIGINT)
        listener.wait()
    print(
        f"{what}: exit status {session.returncode}",
        *[line for line in text if line.startswith("session ended")],
        sep=", ",
    )
    lines = (folder / begun).read_text("utf-8")
    seen = re.findall(
        r"^([\d.]+) .* Status .*Speed=([-\d.]+) rad/s Enabled=(\d)", lines, re.MULTILINE
    )
    t, speed, enabled = np.array(seen, dtype=float).T
    return t - struck, speed, enabled


seen = {what: strike(what) for what in (*SIGNALS, "bench off")}

# %%
# **Go on if**, in all cases in which the bench was on, the speed went to its safe value no faster
# than ``max_rate``, and somebody at the bench saw the same. After the kill the gateway brings the
# speed down at once, because the kernel signals the end of the session's process; after the freeze
# it does so when ``master_timeout`` has passed. When the bench falls silent, the session ends with
# status 3 and says so. Also kill the gateway once, or pull the cable: then only the bench's own
# watchdog can act, and ``hilrt`` cannot replace it.
#
# 5. Measure the delay
# --------------------
#
# The *actuation delay* is the time from sending a set-point to its effect in a measurement. On a
# steady ramp it is the difference between set-point and measurement, divided by the slope. The lag
# of the bench's controller is part of it.


def behind(log, wanted):
    """Return by how much the measured speed is behind `wanted` on the ramp, rad/s."""
    valid = log["bench.speed:t_valid"]  # s, when the measurement was made
    ramp = (log.t > 1.5) & (log.t < 2.5)
    return np.nanmean((np.interp(valid, log.t, wanted) - log["bench.speed"])[ramp])


def measure(folder_name):
    """Run for 6 s, and return the log."""
    text, status = run("run", "day.toml", "--duration", "6", "--out", folder_name, "--quiet")
    assert status == 0, text
    return hilrt.load_log(folder / folder_name / "*")


bench = start_bench()
logs = {"not compensated": measure("open")}
sent = logs["not compensated"]["bench.speed:sent"]
delay = behind(logs["not compensated"], sent) / 50.0  # rad/s over rad/s²
print(f"{1e3 * delay:.0f} ms")

# %%
# Enter the delay as ``actuation_delay``. Set-points are then extrapolated by that time, and the
# bench follows the ramp:

(folder / "day.toml").write_text(
    day.replace("actuation_delay = 0.0 ", f"actuation_delay = {delay:.3f} "), "utf-8"
)
logs["compensated"] = measure("ahead")
late = {name: behind(log, 50.0 * (log.t - 1.0)) for name, log in logs.items()}
print(*(f"{name}: {speed:.2f} rad/s behind the ramp" for name, speed in late.items()), sep="\n")
end(bench)

# %%
# 6. The first whole run
# ----------------------
#
# Now connect your model, with the limits of the bench's owner, and run for half a minute. Then read
# the figures, in ``report.html`` or ``summary.json`` (:doc:`/summary`):
#
# * ``missed_ticks`` and ``lateness_us``: if more than a few ticks in a thousand are missed, the
#   host is not fit for this macro step (:doc:`/doctor`). Reserve a processor for the master:
#   ``pacing = { affinity = [1] }``.
# * ``peers``: numbers of frames that were lost or dropped. A bus of 1 Mbit/s carries about 8,000
#   frames/s.
# * ``flags`` with ``input_limited``: the model demands more than the limits allow.
# * ``verdict`` and ``estimated_error``: a bench cannot make trial steps, so the interval of the
#   error stays wide until the bench has a reference model (:doc:`/reliability`, "Reference
#   models").
#
# Then make the timeouts as short as the bench allows: ``master_timeout`` a few steps,
# ``bench_timeout`` a few cycles of the bench's fastest message. (Slower messages have longer
# timeouts: three of their cycles in the database, or ``timeout`` in their own tables.) If a timeout
# is too short, a single delay ends the session. Switch corrections on last, one at a time
# (:doc:`/methods`, "How to choose").
#
# What the bus has seen
# ---------------------
#
# The figure shows the speed of the bench as the listener saw it, in the four cases of step 4. The
# line ``bench off`` ends at 0 s, when the bench was switched off:

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for what, (t, speed, _) in seen.items():
    axes.plot(t[t > -0.5], speed[t > -0.5], label=what)
axes.axvline(0.0, color="black", linewidth=0.8)
axes.set(xlabel="time since the event in s", ylabel="speed of the bench in rad/s", xlim=(-0.5, 1.5))
axes.legend()
plt.show()
shutil.rmtree(folder)

# %%
# What next
# ---------
#
# * :doc:`Something is wrong: by symptom </howto/troubleshooting>`
# * :doc:`Faults of the bus, and what the gateway does </can>`
# * :doc:`Test sequences on the bench <plot_sequence>`
# * :doc:`Protection against attackers, and the tests that show it </threat_model>`
