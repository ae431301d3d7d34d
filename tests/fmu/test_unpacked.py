"""The folder an FMU is unpacked to goes with the process that uses it, however that ends."""

import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from tests.fmu.build import folder, mass, needs_compiler
from tests.fmu.driving import fmu_solver

ENDING = """
import os, pathlib, sys
import numpy as np
from hilrt.fmu.fmu_options import FmuOptions
from hilrt.fmu.fmu_solver import FmuSolver
from hilrt.solver import InputPolynomial

options = FmuOptions(adapter="fmu", fmu=sys.argv[1], params={"F": 0.0, "fault": 5})
solver = FmuSolver(options, pathlib.Path())
solver.initialize(0.0, np.zeros(2))
print(*os.listdir(os.environ["TMPDIR"]), flush=True)
solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary folder of our own."""
    folder()  # the one of this run's FMUs is elsewhere
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@needs_compiler
def test_the_next_fmu_removes_what_a_crash_left(temporary):
    command = [sys.executable, "-c", ENDING, str(mass(3))]
    done = subprocess.run(
        command, env={"TMPDIR": str(temporary)}, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGSEGV, done.stderr.decode()
    (left,) = temporary.glob("hilrt_fmu_*")
    assert done.stdout.decode().split() == [left.name]
    assert (left / "resources" / "readme.txt").exists()
    solver = fmu_solver(mass(2), params={"F": 0.0})
    solver.initialize(0.0, np.zeros(2))
    (own,) = temporary.glob("hilrt_fmu_*")
    assert own != left
    solver.stop("done")
    assert list(temporary.iterdir()) == []
