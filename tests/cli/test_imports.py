"""What a command loads before it does anything: most of what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TWO_MASS = str(ROOT / "bench_configs" / "two_mass.toml")
ENGINE = str(ROOT / "bench_configs" / "engine_in_the_loop.toml")
READERS = {"asammdf", "pandas", "pyarrow"}
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
    [["--version"], ["schema"], ["check", TWO_MASS], ["check", ENGINE], ["log", "--help"]],
    ids=" ".join,
)
def test_only_commands_that_make_a_step_load_the_compiler(arguments):
    assert not {"numba", "dask", "distributed"} & loaded(*arguments)


def test_the_keys_of_fmus_are_told_without_their_library():
    assert "fmpy" not in loaded("schema")


def test_the_version_is_told_without_numpy():
    assert not {"numpy", "msgspec", "zmq"} & loaded("--version")


def test_a_session_with_a_bench_is_checked_without_readers_of_other_logs():
    packages = loaded("check", ENGINE)
    assert "can" in packages
    assert not READERS & packages


@pytest.mark.parametrize(
    "module",
    [
        "hilrt.bench.gateway_process",
        "hilrt.bench.emulate",
        "hilrt.can.tools.bus_watcher",
        "hilrt.logs.source_can",
        "hilrt.logs.decode_frames",
        "hilrt_adapters.replay",
    ],
)
def test_what_uses_python_can_loads_no_readers_of_other_logs_and_the_program_still_can(module):
    look = f"""
import sys, {module}
print(*sorted({READERS} & set(sys.modules)), "can.io.mf4" in sys.modules)
import asammdf
print(asammdf.MDF.__name__)
"""
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["True", "MDF"], done.stderr


#: Started with every session, and made of sockets alone: asyncio would take a fifth of their start.
WITHOUT_LOOP = ("hilrt.cli.recorder_process", "hilrt.monitor.terminal")
#: What the processes of a session begin with.
PROCESSES = (
    *WITHOUT_LOOP,
    "hilrt.hosting.solver_process",
    "hilrt.fmu.fmu_solver",
    "hilrt.fmu.fmi2",
    "hilrt.bench.gateway_process",
    "hilrt.monitor.relay",
    "hilrt.monitor.foxglove",
    "hilrt.web.server",
    "hilrt.session.session",
)


@pytest.fixture(scope="module")
def loaded_by() -> dict[str, list[str]]:
    """What of the compiler and the loop is there after each of these, imported one by one."""
    look = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    look += "    print(name, *{'numba', 'asyncio'} & {*sys.modules})"
    command = [sys.executable, "-c", look, *PROCESSES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return {name: found for name, *found in map(str.split, done.stdout.splitlines())}


@pytest.mark.parametrize("module", PROCESSES)
def test_no_process_loads_the_compiler_but_the_master_when_the_others_have_started(
    loaded_by, module
):
    """It would take as long to load as all else, and memory that they do not need."""
    assert "numba" not in loaded_by[module]
    if module in WITHOUT_LOOP:
        assert "asyncio" not in loaded_by[module]


LACKING = """
import sys
from pathlib import Path
from types import SimpleNamespace
sys.modules[sys.argv[1]] = None
from hilrt.cli.main import _write_report
assert _write_report(SimpleNamespace(folder=Path(sys.argv[2])), True) is None
"""


@pytest.mark.parametrize(
    ("package", "said"),
    [("bokeh", "no report: it needs bokeh"), ("cantools", "no report: ")],
)
def test_a_report_that_lacks_its_library_names_the_extra(package, said, tmp_path):
    command = [sys.executable, "-c", LACKING, package, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(said)
    assert ("install hilrt[report]" in done.stderr) == (package == "bokeh")
    assert "cantools" not in done.stderr  # only a log with CAN frames needs it
