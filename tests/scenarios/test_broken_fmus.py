"""Broken FMUs, in the master's process and in one of their own: clear words, right state, no hang.

What the model description shows is refused before anything starts; the rest is a fault. What takes
its process down, or never returns, is hosted here; `test_fmu_in_process` has it in the master's.
"""

import json
import re
import tempfile
import time
import zipfile

import pytest

import hilrt
from hilrt import RunOptions
from hilrt.config.session_file import override
from hilrt.errors import ConfigError
from hilrt.fmu.description import read_fmu
from hilrt.session import processes
from tests.fmu import build
from tests.fmu.build import description, mass, needs_compiler
from tests.scenarios.sessions import LINUX

pytestmark = [LINUX, needs_compiler]

#: A session with a broken FMU is over by then on a busy machine, s.
PATIENCE = 30.0
HELD = {"x2": 0.0, "v2": 0.0, "F": 0.0}


def repacked(change):
    """The FMU of FMI 3 with the files of its archive changed, name to content."""
    path = mass(3)
    binary = f"binaries/{read_fmu(path).platform}/mass.so"
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in change(files, binary).items():
            archive.writestr(name, data)
    return path


def text_file():
    path = mass(3)
    path.write_text("no archive")
    return path


def gone():
    path = mass(3)
    path.unlink()
    return path


def described(old, new, major=2):
    text = description(major)
    assert old in text
    return mass(major, xml=text.replace(old, new))


#: What the description shows: how it is made, what is said.
REFUSED = {
    "no file": (gone, r"there is no such file; check the path"),
    "no archive": (text_file, r"is not an FMU \(no ZIP archive\); export it again"),
    "no description": (
        lambda: repacked(lambda files, binary: {binary: files[binary]}),
        r"it has no modelDescription\.xml; export it again",
    ),
    "bad XML": (lambda: described("</ModelVariables>", ""), r"modelDescription\.xml is not XML"),
    "wrong version": (
        lambda: described('fmiVersion="2.0"', 'fmiVersion="1.0"'),
        r"is of FMI 1\.0; hilrt runs FMI 2\.0 and 3\.0",
    ),
    "model exchange": (
        lambda: described("CoSimulation", "ModelExchange"),
        r"has no co-simulation interface.*export it for co-simulation",
    ),
    "unknown reference": (
        lambda: described('<Unknown index="4"', '<Unknown index="99"'),
        r"refers to a missing variable",
    ),
    "no binary": (
        lambda: mass(3, binary=False),
        r"has no binary for .*export it for this platform, or host it on a machine of",
    ),
    "missing variable": (
        lambda: described('name="fault"', 'name="default"'),
        r"has no such parameter; did you mean 'default'\?",
    ),
}

#: What is seen when it runs: how it is made, `fault`, what is said.
FAILING = {
    "binary is none": (
        lambda: repacked(lambda files, binary: files | {binary: b"no library"}),
        0,
        r"cannot be instantiated: Failed to load",
    ),
    "function missing": (
        lambda: repacked(
            lambda files, binary: (
                files | {binary: files[binary].replace(b"fmi3DoStep\0", b"fmi3Nothin\0")}
            )
        ),
        0,
        r"fmi3DoStep",
    ),
    "refuses to be instantiated": (
        lambda: described('="mass">', '="other">', 3),
        0,
        r"cannot be instantiated: .*the token is another one",
    ),
    "binary lacks a variable": (
        lambda: described('name="x2" valueReference="1"', 'name="x2" valueReference="25"'),
        0,
        r"fmi2SetReal returned error",
    ),
    "outputs are not finite": (lambda: mass(3), 1, r"v = nan|outputs v are not finite"),
    "discards": (lambda: mass(3), 2, r"fmi3DoStep returned discard: no solution"),
    "error": (lambda: mass(2), 3, r"fmi2DoStep returned error: singular matrix at t = 0 s"),
    "fatal": (lambda: mass(3), 4, r"fmi3DoStep returned fatal: out of memory"),
    "gets nowhere": (lambda: mass(2), 10, r"only reached .* s in 1024 parts of its step"),
}

#: What costs the process: how it is made, `fault`, what is said.
TAKING_DOWN = {
    "crash in instantiate": (lambda: mass(2, flags=("-DCRASH",)), 0, r"was ended by SIGABRT"),
    "crash in a step": (lambda: mass(3), 5, r"was ended by SIGSEGV"),
    "leaves its process": (lambda: mass(3), 13, r"its process ended with status 0"),
    "never returns from instantiate": (lambda: mass(3, flags=("-DHANG",)), 0, r"within 3 s"),
    "never returns from a step": (lambda: mass(2), 6, r"within 2 s"),
}
#: Long enough for a process to start on a busy machine, s.
CONNECT = 8.0


def session(folder, path, params, hosted, connect=CONNECT):
    table = ", ".join(f"{key} = {value}" for key, value in params.items())
    fmu = f'adapter = "fmu"\nfmu = "{path}"\nparams = {{ {table} }}'
    if hosted:
        argv = ["hilrt", "solver", str(path)]
        argv += [word for key, value in params.items() for word in ("--param", f"{key}={value}")]
        fmu = f'adapter = "zeromq"\nspawn = {json.dumps(argv)}'
    file = folder / "session.toml"
    file.write_text(
        '[session]\nname = "s"\nduration = 0.1\npace = "asap"\n'
        f"[master]\nstep = 0.01\nstep_timeout = 2.0\nconnect_timeout = {connect}\n"
        '[subsystems.sound]\nadapter = "inprocess"\nmodel = "hilrt.models.two_mass:Mass2"\n'
        f"inputs.force = {{ start = 0.0 }}\n[subsystems.broken]\n{fmu}\n"
    )
    return hilrt.load_session(file)


def assert_faulty(tmp_path, make, fault, message, hosted, connect=CONNECT):
    file = session(tmp_path, make(), HELD | {"fault": fault}, hosted, connect)
    began = time.monotonic()
    result = hilrt.run_session(file, options=RunOptions(out=tmp_path / "runs"))
    assert time.monotonic() - began < PATIENCE
    assert result.exit_status == 3
    assert "'broken'" in result.fault
    assert re.search(message, result.fault), result.fault
    if result.summary:
        assert (result.summary["state"], result.summary["verdict"]) == ("FAULT", "unreliable")
        events = hilrt.load_log(result.folder).events
        assert any(result.fault in event.text for event in events if event.level == "error")
    else:  # no tick, no log
        assert result.fault in (result.folder / "events.txt").read_text()


@pytest.mark.parametrize("hosted", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_what_its_description_shows_is_refused(what, hosted, tmp_path):
    make, message = REFUSED[what]
    file = session(tmp_path, make(), HELD | {"fault": 0}, hosted)
    with pytest.raises(ConfigError, match=message) as caught:
        hilrt.run_session(file, options=RunOptions(out=tmp_path / "runs"))
    (problem,) = caught.value.problems
    assert problem.startswith("[subsystems.broken] ")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("hosted", [False, True])
@pytest.mark.parametrize("what", FAILING)
def test_one_that_fails_is_a_fault(what, hosted, tmp_path):
    assert_faulty(tmp_path, *FAILING[what], hosted)


@pytest.mark.parametrize("meant", ["finish", "fault"])
def test_a_hosted_one_that_ends_its_simulation(meant, tmp_path):
    path, text = mass(3, flags=("-DLATE=0.045",)), "mass.fmu ended its simulation at t = 0.045 s"
    file = session(tmp_path, path, HELD | {"fault": 8}, hosted=True)
    file = override(file, {"subsystems.broken.when_ended": meant})
    result = hilrt.run_session(file, options=RunOptions(out=tmp_path / "runs"))
    assert result.exit_status == (0 if meant == "finish" else 3)
    assert result.fault == (None if meant == "finish" else f"subsystem 'broken': {text}")
    log = hilrt.load_log(result.folder)
    assert log.t[-1] == pytest.approx(0.05)
    assert [event.text for event in log.events if event.cause == "ended"] == [text]


@pytest.mark.parametrize("what", TAKING_DOWN)
def test_one_that_takes_its_process_down_leaves_the_master(what, tmp_path, monkeypatch):
    build.folder()  # the one of this run's FMUs is elsewhere
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make, fault, message = TAKING_DOWN[what]
    connect = CONNECT
    if what.startswith("never returns"):
        monkeypatch.setattr(processes, "NOTICE", 0.2)
        monkeypatch.setattr(processes, "STOP_TIMEOUT", 1.0)
        connect = 3.0 if "instantiate" in what else CONNECT
    assert_faulty(tmp_path, make, fault, message, True, connect)
    assert list(tmp_path.glob("hilrt_fmu_*")) == []
