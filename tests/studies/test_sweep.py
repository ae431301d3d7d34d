"""Sweeps: right numbers, each case once whatever dies, and no bench."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from distributed import LocalCluster
from typer.testing import CliRunner

import hilrt
from hilrt import SweepOptions
from hilrt.cli.main import app
from hilrt.errors import ConfigError, RecordError
from hilrt.session import assembly, placer
from hilrt.studies.run_cases import (
    StudyCase,
    SweptSession,
    known_sensitivities,
    mixed_keys,
    run_case,
    run_cases,
    worst_error,
)
from hilrt.studies.subject import basis_of, refuse_benches
from hilrt.studies.sweep import _progress, named
from hilrt.studies.sweep_data import (
    FORMAT,
    PARTS,
    AboutSweep,
    finished_cases,
    write_about,
    write_data,
    write_part,
)
from hilrt.studies.workers import connected
from tests.two_mass_reference import K1, K2, KC

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "bench_configs"
TWO_MASS = CONFIGS / "two_mass.toml"
MU = "bonds.spring.correction.mu"
REFERENCE = ROOT.parent / "shared" / "reference" / "energy_two_mass.json"

#: A model that kills its worker, or the program that runs the sweep, at one of its settings.
MODEL = """
import os
import signal
from pathlib import Path

import numpy as np

from hilrt import Port, Sample, Solver


class Mortal(Solver):
    inputs = ()
    outputs = (Port("y"),)

    def __init__(self, number, folder):
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 7 and not (Path(folder) / "killed").exists():
            (Path(folder) / "killed").touch()
            os.kill(os.getppid(), signal.SIGKILL)
        if number == 5:
            raise ValueError("five is out")
        self.number = number

    def initialize(self, t0, u0):
        return Sample(np.array([float(self.number)]))

    def advance(self, t, h, u):
        return Sample(np.array([float(self.number)]))
"""
SESSION = """
[session]
name = "mortal"
duration = 0.01
pace = "asap"
[master]
step = 0.001
[subsystems.one]
adapter = "inprocess"
model = "mortal:Mortal"
params = { number = 0, folder = FOLDER }
"""


def swept(**keys) -> SweptSession:
    return SweptSession(str(TWO_MASS), TWO_MASS.read_text(), **keys)


def mean_energy_error(row: pd.Series) -> float:
    """Mean over the last second of 10, relative to the start."""
    x1, v1, x2, v2 = (
        row[f"signal.{name}"] for name in ("mass1.x", "mass1.v", "mass2.x", "mass2.v")
    )
    energy = (v1**2 + v2**2 + K1 * x1**2 + K2 * x2**2 + KC * (x1 - x2) ** 2) / 2.0
    return float(np.mean(energy[-1001:]) / energy[0] - 1.0)


def test_a_sweep_of_mu_gives_the_energy_errors_of_the_reference(tmp_path):
    """Single rate, held inputs: +93.9 % uncorrected, −0.79 % with μ = 0.5.

    The numbers are of a symplectic Euler loop in plain floats that shares no code with the package.
    """
    done = hilrt.sweep(
        TWO_MASS,
        {MU: [0.0, 0.5, 1.0]},
        out=tmp_path,
        options=SweepOptions(workers=2, signals=["mass?.[xv]"], progress=False),
    )
    assert (done.cases, done.ran, done.lost) == (3, 3, 0)
    frame = done.frame.set_index(MU)
    assert list(frame.index) == [0.0, 0.5, 1.0]
    errors = {mu: mean_energy_error(row) for mu, row in frame.iterrows()}
    assert errors[0.0] == pytest.approx(0.9392174706, abs=1e-4)
    assert errors[0.5] == pytest.approx(-0.0078987173, abs=1e-4)
    assert errors[1.0] < -0.3
    assert frame["verdict"][0.5] == "good"
    assert frame["verdict"][0.0] != "good"


def test_rows_have_what_simulate_says():
    case = StudyCase("c", {MU: 0.4, "session.duration": 0.2})
    row = run_case(swept(statistics=("mass1.x",)), case)
    result = hilrt.simulate(TWO_MASS, case.settings)
    assert row[MU] == 0.4
    assert (row["verdict"], row["failure"], row["steps"]) == (result.verdict, "", 200)
    bond = result.summary["bonds"]["spring"]
    assert row["bonds.spring.residual_energy_j"] == bond["residual_energy_j"]
    errors = result.summary["estimated_error"].values()
    assert row["error"] == max(error["relative"] for error in errors)
    x = result.log["mass1.x"]
    assert row["statistic.mass1.x.max"] == x.max()
    assert row["statistic.mass1.x.rms"] == pytest.approx(np.sqrt(np.mean(x**2)))
    assert row["statistic.mass1.x.last"] == x[-1]
    assert 0.0 < row["wall_s"] < row["case_s"]


def test_what_does_not_depend_on_a_setting_is_tried_out_once_and_changes_no_row(monkeypatch):
    trials = []
    find = assembly.find_sensitivities

    def counted(network, tables, *others):
        trials.append(tables.master.step)
        return find(network, tables, *others)

    monkeypatch.setattr(assembly, "find_sensitivities", counted)
    known_sensitivities.cache_clear()  # of another test
    swept = SweptSession(str(TWO_MASS), TWO_MASS.read_text("utf-8"), ("session.duration=0.1",))
    settings = [{MU: 0.0}, {MU: 0.5}, {MU: 0.5, "master.step": 0.002}, {MU: 0.25}]
    rows = run_cases(swept, [StudyCase("", one) for one in settings], 1e9).rows
    assert trials == [0.001, 0.002]
    for one, row in zip(settings, rows, strict=True):
        alone = hilrt.simulate(TWO_MASS, {"session.duration": 0.1, **one}, record=False).summary
        assert row["error"] == worst_error(alone)
        for bond in ("interface_energy_j", "carried_energy_j"):
            assert row[f"bonds.spring.{bond}"] == alone["bonds"]["spring"][bond]


def test_a_case_that_cannot_run_is_a_row_with_its_reason():
    row = run_case(swept(), StudyCase("c", {MU: "wide"}))
    assert row["verdict"] == ""
    assert row["failure"].startswith("bad input: ")
    assert "mu" in row["failure"]


def test_a_task_hands_back_what_it_had_no_time_for():
    cases = [StudyCase(f"{i}", {"session.duration": 0.01 * (i + 1)}) for i in range(3)]
    done = run_cases(swept(), cases, task_s=0.0)
    assert [row["case"] for row in done.rows] == ["0"]
    assert done.left == 2


def test_names_tell_sessions_settings_and_files_apart(tmp_path):
    (tmp_path / "mortal.py").write_text(MODEL)
    (tmp_path / "s.toml").write_text(SESSION.replace("FOLDER", '"."'))
    file = hilrt.load_session(tmp_path / "s.toml")
    basis = basis_of(file)
    assert basis == basis_of(hilrt.load_session(tmp_path / "s.toml"))
    assert basis != basis_of(hilrt.load_session(tmp_path / "s.toml", {"master.step": 2e-3}))
    assert named(basis, {"a.x": 1, "a.y": 2}).name == named(basis, {"a.y": 2, "a.x": 1}).name
    assert named(basis, {"a.x": 1}).name != named(basis, {"a.x": 2}).name
    (tmp_path / "mortal.py").write_text(MODEL + "\n")
    assert basis != basis_of(file)


@pytest.mark.parametrize("text", ["試" * 90, "x" * 253, "a\0b"], ids=["wide", "long", "null"])
def test_a_setting_that_cannot_be_a_path_names_no_file(tmp_path, text):
    (tmp_path / "mortal.py").write_text(MODEL)
    (tmp_path / "s.toml").write_text(SESSION.replace("FOLDER", '"."'))
    basis = basis_of(hilrt.load_session(tmp_path / "s.toml"))
    file = hilrt.load_session(tmp_path / "s.toml", {"subsystems.one.params.folder": text})
    assert basis_of(file) != basis


def test_values_of_several_kinds_are_kept_as_text():
    cases = [
        StudyCase("1", {"a.x": 1, "a.y": 1, "a.z": True}),
        StudyCase("2", {"a.x": 0.5, "a.y": "w", "a.z": False}),
    ]
    assert mixed_keys(cases) == ("a.y",)


def sweep_of_mortals(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hilrt", "sweep", str(folder / "s.toml")]
    command += ["--vary", "subsystems.one.params.number=0:19:int", "--workers", "2"]
    command += ["--out", str(folder / "out"), "--recycle", "4"]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def test_a_killed_sweep_goes_on_and_a_case_that_kills_its_worker_is_a_row(tmp_path):
    """Killed with -9 in case 7, called again; case 3 kills each worker that takes it."""
    (tmp_path / "mortal.py").write_text(MODEL)
    (tmp_path / "s.toml").write_text(SESSION.replace("FOLDER", json.dumps(str(tmp_path))))
    killed = sweep_of_mortals(tmp_path)
    assert killed.returncode == -9, killed.stderr
    again = sweep_of_mortals(tmp_path)
    assert again.returncode == 5, again.stderr
    assert "2 without a result" in again.stdout
    assert "20/20" in again.stderr  # of the progress
    assert "remaining" in again.stderr
    frame = hilrt.load_sweep(tmp_path / "out").set_index("subsystems.one.params.number")
    assert list(frame.index) == list(range(20))
    assert frame["case"].is_unique
    assert "its worker process died with it, 2 times" in frame["failure"][3]
    assert "five is out" in frame["failure"][5]
    others = frame.drop([3, 5])
    assert (others["failure"] == "").all()
    assert (others["steps"] == 10).all()
    assert (others["ports.one.y.last"] == others.index).all()


def test_a_case_that_was_run_twice_counts_once_in_the_order_of_the_design(tmp_path):
    about = AboutSweep(FORMAT, "s.toml", "b", "v", [], ["a.x"], "grid", 0, ["one", "seven"])
    (tmp_path / PARTS).mkdir()
    write_about(tmp_path, about)
    one, two = ({"case": name, "a.x": len(name), "verdict": "good"} for name in ("one", "seven"))
    write_part(tmp_path, [two, one])
    write_part(tmp_path, [one | {"verdict": "", "failure": "late"}])
    assert finished_cases(tmp_path) == {"one", "seven"}
    lost = write_data(tmp_path, about)
    frame = hilrt.load_sweep(tmp_path)
    assert frame["case"].tolist() == ["one", "seven"]
    assert frame["a.x"].tolist() == [3, 5]
    assert lost == (frame["verdict"] == "").sum()


#: A model that says which process runs it.
WHERE = """
import os

import numpy as np

from hilrt import Port, Sample, Solver


class Where(Solver):
    inputs, outputs = (), (Port("pid"),)

    def __init__(self, number):
        pass

    def initialize(self, t0, u0):
        return Sample(np.array([float(os.getpid())]))

    def advance(self, t, h, u):
        return self.initialize(t, None)
"""


def test_a_worker_is_restarted_after_a_number_of_cases(tmp_path):
    (tmp_path / "where.py").write_text(WHERE)
    text = SESSION.replace("mortal:Mortal", "where:Where").replace(", folder = FOLDER", "")
    (tmp_path / "s.toml").write_text(text)
    frame = hilrt.sweep(
        tmp_path / "s.toml",
        {"subsystems.one.params.number": range(9)},
        out=tmp_path / "out",
        options=SweepOptions(workers=1, recycle=3, progress=False),
    ).frame
    assert (frame["failure"] == "").all()
    assert frame["ports.one.pid.last"].nunique() > 1


def test_every_processor_has_a_worker(monkeypatch):
    asked = []

    @contextlib.contextmanager
    def local(cluster, count):
        asked.append((cluster, count))
        yield

    monkeypatch.setattr(placer, "connected", local)
    with connected(None, None):
        pass
    assert asked == [("local", len(os.sched_getaffinity(0)))]


def test_progress_is_shown_in_a_notebook(monkeypatch):
    """Stand-ins for IPython and ipywidgets collect what rich displays there."""
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr("builtins.get_ipython", lambda: shell, raising=False)
    shown, widgets = [], []

    class Output(contextlib.nullcontext):
        def clear_output(self, wait):
            widgets.append(self)

    for name, content in (
        ("IPython", {}),
        ("IPython.display", {"display": shown.append}),
        ("ipywidgets", {"Output": Output}),
    ):
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    with _progress(True, 20, 5) as advance:
        advance(15)
    assert len(set(map(id, widgets))) == 1
    said = [one.text for one in shown if not isinstance(one, Output) and one.text.strip()]
    assert "5/20" in said[0]
    assert "20/20" in said[-1]
    assert "remaining" in said[-1]


def test_a_session_with_a_bench_is_refused_with_the_remedy():
    done = CliRunner().invoke(
        app, ["sweep", str(CONFIGS / "engine_in_the_loop.toml"), "--vary", "session.duration=1,2"]
    )
    assert isinstance(done.exception, ConfigError)
    assert "is a bench" in str(done.exception)
    assert "replace it with a model" in str(done.exception)


def test_what_cannot_be_swept_is_refused_before_anything_starts(tmp_path):
    refuse_benches(hilrt.load_session(TWO_MASS))
    with pytest.raises(ConfigError, match="corection"):
        hilrt.sweep(TWO_MASS, {"bonds.spring.corection.mu": [0.1]}, out=tmp_path)
    with pytest.raises(RecordError, match="not the folder of a sweep"):
        hilrt.load_sweep(tmp_path)
    command = ["sweep", str(TWO_MASS), "--vary", f"{MU}=0:1:2"]
    assert CliRunner().invoke(app, [*command, "--random", "3", "--latin", "3"]).exit_code == 2
    assert CliRunner().invoke(app, ["sweep", str(TWO_MASS)]).exit_code == 2


def test_a_script_without_a_guard_is_refused_with_its_line(tmp_path):
    call = f"hilrt.sweep({str(TWO_MASS)!r}, {{'master.step': [1e-3]}}, out='swept')"
    (tmp_path / "study.py").write_text(f"import hilrt\n\n{call}\n")
    command = [sys.executable, "study.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "study.py, line 3: the worker processes import this file" in last
    assert 'below the line  if __name__ == "__main__":' in last
    assert done.stderr.count("Traceback") == 1
    assert not (tmp_path / "swept").exists()


def test_a_program_from_the_standard_input_is_refused_with_a_remedy(tmp_path):
    call = f"hilrt.sweep({str(TWO_MASS)!r}, {{'master.step': [1e-3]}}, out='swept')"
    done = subprocess.run(
        [sys.executable, "-"],
        input=f"import hilrt\n{call}\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "standard input" in (last := done.stderr.splitlines()[-1])
    assert "store it in a file" in last


def test_a_folder_has_cases_of_one_session(tmp_path):
    (tmp_path / "mortal.py").write_text(MODEL)
    (tmp_path / "s.toml").write_text(SESSION.replace("FOLDER", '"."'))
    (tmp_path / "sweep.json").write_text(
        json.dumps(
            {"format": "hilrt-sweep-1", "session": "x.toml", "basis": "0", "version": "0",
             "overrides": [], "axes": [], "design": "grid", "seed": 0, "cases": []}
        )
    )  # fmt: skip
    with pytest.raises(ConfigError, match="has a sweep of another session"):
        hilrt.sweep(tmp_path / "s.toml", {"subsystems.one.params.number": [1]}, out=tmp_path)


def test_a_cluster_that_is_named_gives_the_same_rows(tmp_path):
    """By the address of its scheduler, with workers that someone else has started."""
    vary, short = {MU: [0.0, 0.25, 0.5]}, {"session.duration": 0.05}
    here = SweepOptions(workers=1, progress=False)
    own = hilrt.sweep(TWO_MASS, vary, short, out=tmp_path / "own", options=here).frame
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    with local as cluster:
        there = SweepOptions(cluster=cluster.scheduler_address, progress=False)
        named = hilrt.sweep(TWO_MASS, vary, short, out=tmp_path / "named", options=there).frame
    times = ["wall_s", "case_s", "cost"]
    pd.testing.assert_frame_equal(named.drop(columns=times), own.drop(columns=times))


def test_a_scheduler_of_another_machine_needs_tls(tmp_path):
    for address in ("tcp://192.0.2.7:8786", "tcp://node1:8786"):
        args = ["sweep", str(TWO_MASS), "--vary", f"{MU}=0,0.5", "--out", str(tmp_path / "out")]
        args += ["--quiet", "--cluster", address]
        with pytest.raises(ConfigError, match="start it and its workers with TLS"):
            CliRunner().invoke(app, args, catch_exceptions=False)
    assert not (tmp_path / "out").exists()


def test_the_page_s_loop_pool_and_dask_print_the_same():
    page = (ROOT / "docs" / "studies.md").read_text("utf-8")
    examples = {
        block.split("\n", 1)[0].removeprefix("# "): block
        for block in re.findall(r"```python\n(# .*?)```", page, re.DOTALL)
    }
    assert list(examples) == ["a loop", "a pool", "Dask"]
    printed = []
    for number, block in enumerate(examples.values()):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / f"example_{number}.py"
            script.write_text(block, "utf-8")
            done = subprocess.run(
                [sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, timeout=280
            )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1] == printed[2]
    rows = [line.split() for line in printed[0].splitlines()]
    assert [float(row[0]) for row in rows] == [0.0, 0.25, 0.5]
    energies = [float(row[2]) for row in rows]  # uncorrected, the coupling makes energy
    assert energies[0] > energies[1] > abs(energies[2])


NOTEBOOK = """
import numpy as np
import hilrt

HALF = 0.5  # a value of the notebook that the class uses

class Wheel(hilrt.Solver):
    inputs, outputs = (hilrt.Port("other", "rad/s"),), (hilrt.Port("speed", "rad/s"),)

    def __init__(self, inertia=1.0, speed=0.0):
        self.inertia, self.speed = inertia, speed

    def initialize(self, t0, u0):
        return hilrt.Sample(np.array([self.speed]))

    def advance(self, t, h, u):
        self.speed += h * HALF * (u(t)[0] - self.speed) / self.inertia
        return hilrt.Sample(np.array([self.speed]))

builder = hilrt.SessionBuilder("wheels", duration=0.5, step=0.01, pace="asap")
builder.subsystem("a", "inprocess", model=Wheel, params={"speed": 100.0})
builder.subsystem("b", "inprocess", model=Wheel)
builder.connect("a.speed", "b.other").connect("b.speed", "a.other")
session = builder.build()
print(hilrt.simulate(session).log["a.speed"][-1])
options = hilrt.SweepOptions(workers=1, statistics=["a.speed"], progress=False)
vary = {"subsystems.b.params.inertia": [1.0, 2.0]}
done = hilrt.sweep(session, vary, out="sweep", options=options)
print(*done.frame["statistic.a.speed.last"], done.ran)
print(hilrt.sweep(session, vary, out="sweep", options=options).ran)
def refused():
    try:
        hilrt.sweep(session, vary, out="sweep", options=options)
    except hilrt.errors.ConfigError as error:
        print(error)

HALF = 0.25  # the class itself is the same
refused()
HALF, before = 0.5, Wheel.advance
Wheel.__init__.__defaults__ = (2.0, 0.0)
refused()
Wheel.__init__.__defaults__ = (1.0, 0.0)

def advance(self, t, h, u):
    return before(self, t, h, u)
Wheel.advance = advance  # a cell that defines the class again
refused()
Wheel.advance = before
print(hilrt.sweep(session, vary, out="sweep", options=options).ran)
"""


def test_classes_of_a_notebook_run_in_the_workers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    alone, swept, again, *refused, last = done.stdout.splitlines()
    first, second, ran = map(float, swept.split())
    assert first == float(alone) != second
    assert (ran, again, last) == (2, "0", "0")
    assert len(refused) == 3
    for text in refused:
        assert "models that have changed" in text
        assert "continues with its missing cases" in text
