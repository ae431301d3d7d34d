"""What a command loads before it does anything: most of what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TWO_MASS = str(ROOT / "bench_configs" / "two_mass.toml")
LOOK = """
import sys
from hilrt.cli.main import main
sys.argv = ["hilrt", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("loaded:", *sorted({module.partition(".")[0] for module in sys.modules}))
"""


def loaded(*arguments: str) -> set[str]:
    """Packages that a command has loaded when it ends."""
    command = [sys.executable, "-c", LOOK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["schema"], ["check", TWO_MASS], ["log", "--help"], ["run", "--help"]],
    ids=" ".join,
)
def test_only_commands_that_make_a_step_load_the_compiler(arguments):
    assert "numba" not in loaded(*arguments)


def test_the_version_is_told_without_numpy():
    assert not {"numpy", "msgspec", "zmq"} & loaded("--version")
