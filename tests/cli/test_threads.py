"""How many threads of OpenBLAS a command has, and what it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TWO_MASS = str(Path(__file__).resolve().parents[2] / "bench_configs" / "two_mass.toml")
LOOK = """
import os, sys
from hilrt.cli.main import main
from hilrt.isolation.limited_process import inherited_environment
sys.argv = ["hilrt", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print(os.environ.get("OPENBLAS_NUM_THREADS"), inherited_environment().get("OPENBLAS_NUM_THREADS"))
"""
#: Ends at once: there is no such class.
SOLVER = ["solver", "no_such_module:Class", "--connect", "tcp://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("arguments", "given", "threads"),
    [
        (["check", TWO_MASS], {}, "1 None"),
        (["log", "ls", "none.mcap"], {}, "1 None"),
        (["check", TWO_MASS], {"OPENBLAS_NUM_THREADS": "2"}, "2 2"),
        (["check", TWO_MASS], {"OMP_NUM_THREADS": "2"}, "None None"),
        (SOLVER, {}, "None None"),
    ],
)
def test_one_unless_the_user_says_more_and_solvers_have_all(arguments, given, threads):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")} | given
    command = [sys.executable, "-c", LOOK, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == threads, done.stderr
