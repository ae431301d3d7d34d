"""What a process that has to do with a bus imports, and what it does not."""

import subprocess
import sys

import pytest

from hilrt.light_start import start_light

LOOK = """
import sys
from hilrt.light_start import start_light

start_light()
import hilrt.bench.emulate, hilrt.bench.gateway_process

assert "can.io.mf4" in sys.modules
print(sorted({"asammdf", "pandas", "pyarrow"} & set(sys.modules)))
import asammdf

print(asammdf.MDF.__name__)
"""


def test_processes_on_a_bus_import_no_reader_of_files_and_others_still_can():
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[]", "MDF"], done.stderr


@pytest.mark.parametrize(
    "module", ["hilrt.hosting.solver_process", "hilrt.fmu.fmu_solver", "hilrt.fmu.fmi2"]
)
def test_a_process_that_hosts_a_solver_has_no_compiler(module):
    """Which would take as long to import as all else, and memory that no step needs."""
    look = f"import sys, {module}; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


def test_it_is_set_up_once(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    start_light()
    before = list(sys.meta_path)
    start_light()
    assert sys.meta_path == before
