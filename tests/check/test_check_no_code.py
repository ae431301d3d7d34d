"""`hilrt check --no-code` runs nothing that a session file names, and says what it left out.

The interpreter's own audit events tell what was executed, loaded and started.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hilrt.check.check import check_file, names_code
from hilrt.cli.main import app
from hilrt.config import registry
from tests.fmu.build import mass, needs_compiler

CONFIGS = Path(__file__).parents[2] / "bench_configs"
SESSION = """
[session]
name = "of-a-stranger"
duration = 1.0
pace = "asap"
[master]
step = 0.001
[subsystems.model]
adapter = "inprocess"
model = "hostile_model:Model"
[subsystems.foreign]
adapter = "hostile"
anything = 1
[subsystems.spawned]
adapter = "zeromq"
spawn = ["./hostile_command"]
[[connections]]
from = "model.y"
to = "foreign.u"
[[connections]]
from = "nowhere.y"
to = "foreign.v"
"""
WITH_FMU = """
[subsystems.fmu]
adapter = "fmu"
fmu = "mass.fmu"
[[connections]]
from = "fmu.no_such_output"
to = "foreign.w"
"""
HOSTILE = "import pathlib; pathlib.Path(__file__).with_name('touched').touch()\n"
METADATA = "Metadata-Version: 2.1\nName: hostile\nVersion: 1\n"
#: Prints what was executed, loaded and started of files below the folder that comes first.
WATCH = """
import json, sys
folder, *sys.argv[1:] = sys.argv[1:]
seen = []

def hear(event, details):
    if event == "exec":
        named = details[0].co_filename
    elif event in ("ctypes.dlopen", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        named = str(details)
    else:
        return
    if folder in named or "hilrt_fmu_" in named:
        seen.append([event, named])

sys.addaudithook(hear)
from hilrt.cli.main import main
try:
    main()
except SystemExit as end:
    print(json.dumps({"status": end.code or 0, "seen": seen, "modules": list(sys.modules)}))
"""


@pytest.fixture
def hostile(tmp_path):
    """A session file, and code beside it and installed that must not run."""
    installed = tmp_path / "installed"
    information = installed / "hostile-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(METADATA)
    (information / "entry_points.txt").write_text("[hilrt.adapters]\nhostile = hostile_adapter:L\n")
    (installed / "hostile_adapter.py").write_text(HOSTILE + "raise ImportError")
    (tmp_path / "hostile_model.py").write_text(HOSTILE)
    command = tmp_path / "hostile_command"
    command.write_text('#!/bin/sh\ntouch "$(dirname "$0")/touched"\n')
    command.chmod(0o755)
    path = tmp_path / "session.toml"
    path.write_text(SESSION)
    return path


def watched(path, *options):
    """What the command did, and its output."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(path.parent), "check", str(path), *options],
        env={"PYTHONPATH": ":".join([str(path.parent / "installed"), *sys.path])},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    *output, last = done.stdout.splitlines()
    return json.loads(last), "\n".join([*output, done.stderr])


@needs_compiler
def test_nothing_that_the_file_names_is_run_and_what_is_left_out_is_listed(hostile):
    shutil.copy(mass(3), hostile.parent / "mass.fmu")
    hostile.write_text(SESSION + WITH_FMU)
    did, output = watched(hostile, "--no-code")
    assert did["seen"] == []
    assert not {"hostile_model", "hostile_adapter"} & set(did["modules"])
    assert not list(hostile.parent.glob("**/touched"))
    assert did["status"] == 2
    assert "there is no subsystem 'nowhere'" in output
    assert "no output 'no_such_output'" in output  # the FMU's description is read
    assert (
        f"{hostile}:10: not checked: [subsystems.model] model = 'hostile_model:Model': " in output
    )
    assert f"{hostile}:12: not checked: [subsystems.foreign] adapter = 'hostile': " in output
    assert (
        f"{hostile}:14: info: [subsystems.spawned]: announces its ports when it connects" in output
    )


def test_a_plain_check_says_whose_code_it_runs(hostile):
    did, output = watched(hostile)
    ran = {Path(file).name for event, file in did["seen"] if event == "exec"}
    assert ran == {"hostile_model.py", "hostile_adapter.py"}
    assert "this check runs the code that the file names for model, foreign; for a" in output


def test_the_driver_of_an_interface_is_left_out(tmp_path, monkeypatch):
    shutil.copy(CONFIGS / "engine_bench.dbc", tmp_path)
    path = tmp_path / "engine_in_the_loop.toml"
    text = (CONFIGS / path.name).read_text("utf-8")
    path.write_text(re.sub("^reference_model = .*$", "", text, flags=re.M), "utf-8")
    assert names_code(path) == []
    bus = ['subsystems.engine.bus={interface="pcan", channel="PCAN_USBBUS1"}']
    assert names_code(path, bus) == ["engine"]
    imported = []
    monkeypatch.setattr("importlib.import_module", imported.append)
    (found,) = [p for p in check_file(path, bus, code=False) if p.level == "not checked"]
    assert (found.table, found.key) == ("subsystems.engine", "bus")
    assert imported == []
    check_file(path, bus)
    assert set(imported) == {"can.interfaces.pcan"}


def test_only_adapters_of_hilrt_are_imported():
    assert all(registry.is_ours(name) for name in ("can", "fmu", "inprocess", "replay", "zeromq"))
    assert registry.is_ours("no such adapter")


def test_a_session_without_a_bench_needs_no_extra() -> None:
    """A bare installation has neither python-can nor cantools."""
    code = "import sys; sys.modules.update(can=None, cantools=None)\n"
    code += "from hilrt.cli.main import main; main()"
    command = [sys.executable, "-c", code, "check", str(CONFIGS / "two_mass.toml")]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60.0)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_work_of_a_check_grows_with_the_subsystems_and_not_with_their_square(
    tmp_path: Path,
) -> None:
    """10,000 subsystems took minutes without a word; calls are counted, not time."""
    path = tmp_path / "many.toml"

    def calls(pairs: int) -> int:
        lines = ['[session]\nname = "many"\nduration = 1.0\n[master]\nstep = 1e-3\n']
        for k in range(pairs):
            for side in ("a", "b"):
                lines.append(f'[subsystems.{side}{k}]\nadapter = "inprocess"\n')
                lines.append(f'model = "models:{side.upper()}"\n')
            lines.append(f'[[connections]]\nfrom = "a{k}.y"\nto = "b{k}.u"\n')
            lines.append(f'[[connections]]\nfrom = "b{k}.y"\nto = "a{k}.u"\n')
        path.write_text("".join(lines))
        counted = 0

        def count(*_: object) -> None:
            nonlocal counted
            counted += 1

        previous = sys.getprofile()
        sys.setprofile(count)
        try:
            found = check_file(path, code=False)
        finally:
            sys.setprofile(previous)
        assert all(problem.level != "error" for problem in found)
        return counted

    calls(10)  # what is loaded once
    assert calls(800) < 4.5 * calls(200)


def test_many_points_of_a_kind_are_counted_after_the_first_ten(tmp_path: Path) -> None:
    path = tmp_path / "many.toml"
    table = '[subsystems.m{}]\nadapter = "inprocess"\nmodel = "models:M"\n'
    tables = "".join(table.format(k) for k in range(37))
    path.write_text('[session]\nname = "m"\nduration = 1.0\n[master]\nstep = 1e-3\n' + tables)
    found = CliRunner().invoke(app, ["check", "--no-code", str(path)])
    lines = [line for line in found.output.splitlines() if ": not checked: " in line]
    assert (found.exit_code, len(lines)) == (0, 11)
    assert "not checked: 27 more of the same kind: model: " in lines[-1]
    assert "37 not checked" in found.output
