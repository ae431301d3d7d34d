"""
Tests that run in CI
====================

A test sequence is a Python class. Its method ``run`` steps inputs, waits for conditions and checks
limits, one after another. Here a sequence drives the quarter of a car over a kerb. The same
sequence can run on a bench. In CI it runs on models, as fast as possible, and every run gives the
same result.

Write the test
--------------

.. literalinclude:: /examples/kerb.py
   :language: python
   :caption: kerb.py

From the call on, the condition of ``expect`` is checked at every sample; ``measure`` checks its
limit once. Times are session time, so a slow machine does not change the result. :doc:`/sequences`
lists everything that ``bench`` can do.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import hilrt

folder = Path(tempfile.mkdtemp())
for name in ("quarter_car.py", "kerb.py"):
    shutil.copy(name, folder)


def run(*command):
    """Run a command in the folder; return its exit status, and show the end of what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True
    )
    lines = done.stdout.replace(f"{folder}/", "").strip().splitlines()
    print(*lines[-6:], f"exit status {done.returncode}", sep="\n")
    return done.returncode


# %%
# Add it to a session
# -------------------
#
# The session is that of :doc:`plot_two_models`. The sequence is a subsystem like any other. Its
# output ``road`` drives the road, in place of the stimulus. The signals that the sequence reads
# need no connections: the class names them in ``reads``.

text = Path("quarter_car.toml").read_text("utf-8").replace("duration = 2.0 ", "duration = 20.0")
text = text[: text.index("[[stimuli]]")]
test = """[subsystems.test]
adapter = "sequence"
sequence = "kerb.py:Kerb"            # a file beside the session file, and a class in it

[[connections]]
from = "test.road"
to = "wheel.road"
"""
(folder / "kerb.toml").write_text(text + test, "utf-8")
print(test)

# %%
# Run it
# ------
#
# ``hilrt test`` runs each sequence of a file in a session of its own, which ends with the sequence.

passed = run("hilrt", "test", "kerb.py", "--session", "kerb.toml", "--out", "good")

# %%
# With another damper the test fails. CI reads the exit status and the JUnit file:

worn = ("--set", "subsystems.wheel.params.damper=800.0", "--junit", "results.xml")
failed = run("hilrt", "test", "kerb.py", "--session", "kerb.toml", "--out", "worn", *worn)
junit = (folder / "results.xml").read_text("utf-8")
print(junit[junit.index("<failure") : junit.index("</failure>")])

# %%
# The same test from pytest: the marker names the session file, and the fixture runs the sequence.

(folder / "test_kerb.py").write_text(
    """import pytest
from kerb import Kerb


@pytest.mark.hilrt("kerb.toml")
def test_kerb(bench):
    result = bench.run(Kerb)  # fails the test unless every result has passed
    assert result.verdict == "good"
""",
    "utf-8",
)
by_pytest = run("pytest", "-q", "test_kerb.py", "--basetemp", "artifacts")

# %%
# In CI
# -----
#
# Keep the folder of the runs and the JUnit file, whatever the exit status is::
#
#    pytest --junit-xml=results.xml --basetemp=artifacts
#
# Always check the verdict, as above: if the coupling is wrong, the test has tested another system.
# In sessions without a sequence, state the conditions in ``[[expect]]`` tables
# (:doc:`/expectations`); ``hilrt run --fail-on degraded`` turns a bad verdict into an exit status.
#
# Why did it fail?
# ----------------
#
# Each run has its own log and report. With the worn damper the body swings too high, and for too
# long:

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
logs = {}
for name in ("good", "worn"):
    logs[name] = hilrt.load_log(next((folder / name).glob("*")))
    axes.plot(logs[name].t, 1e3 * logs[name]["body.x"], label=f"damper {name}")
axes.axhline(80.0, color="tab:red", linestyle="--", label="limit of the swing")
axes.axhspan(45.0, 55.0, color="tab:green", alpha=0.15, label="settled")
axes.set(xlabel="session time in s", ylabel="height of the body in mm")
axes.legend(ncols=2, loc="lower right")
plt.show()
