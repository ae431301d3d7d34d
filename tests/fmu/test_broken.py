"""FMUs that are broken: each is told apart, with what to do about it, and nothing hangs."""

import contextlib
import logging
import zipfile

import numpy as np
import pytest
from lxml import etree

from hilrt.errors import ConfigError, SolverError
from hilrt.fmu.description import read_fmu
from hilrt.fmu.info import page
from hilrt.fmu.instance import MESSAGES
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.solver_process import LogRelay, serve
from hilrt.peers import wire
from tests.fmu.build import clocked, description, mass, needs_compiler
from tests.fmu.driving import Calls, fmu_solver
from tests.fmu.test_clocks import EVERY
from tests.hosting.test_solver_process import FakePeer

HELD = {"F": 0.0}


def hosted(major, params=None, **how):
    solver = HostedSolver(fmu_solver(mass(major, **how), params={**HELD, **(params or {})}))
    solver.initialize(0.0, np.zeros(2))
    return solver


def step(solver, t=0.0, h=1e-3):
    return solver.advance(t, h, np.zeros((1, 2)))


# -- files -----------------------------------------------------------------------------------------


def test_no_file(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.fmu'.*no such file; check the path"):
        read_fmu(tmp_path / "nothing.fmu")


def test_a_file_of_another_name(tmp_path):
    (tmp_path / "engine.fmu").write_text("")
    with pytest.raises(ConfigError, match=r"no such file; did you mean 'engine\.fmu'\?"):
        read_fmu(tmp_path / "engin.fmu")


def test_no_archive(tmp_path):
    (tmp_path / "text.fmu").write_text("hello")
    with pytest.raises(ConfigError, match="no ZIP archive"):
        read_fmu(tmp_path / "text.fmu")


def test_no_description(tmp_path):
    with zipfile.ZipFile(tmp_path / "empty.fmu", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ConfigError, match=r"no modelDescription\.xml"):
        read_fmu(tmp_path / "empty.fmu")


@needs_compiler
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[: len(x) // 2], "is not XML"),
        (lambda x: x.replace("fmiModelDescription", "html"), "has no fmiVersion"),
        (lambda x: x.replace('fmiVersion="2.0"', 'fmiVersion="1.0"'), "is of FMI 1.0; hilrt runs"),
        (lambda x: x.replace("CoSimulation", "ModelExchange"), "has no co-simulation interface"),
        (
            lambda x: x.replace('index="4"', 'index="99"'),
            "to a missing variable",
        ),
        (lambda x: x.replace('modelIdentifier="mass"', ""), "does not name its binary"),
        (lambda x: x.replace('declaredType="Mode"', ""), None),
    ],
)
def test_bad_descriptions(change, message):
    path = mass(2, xml=change(description(2)))
    if message is None:
        assert read_fmu(path).notes == []
        return
    with pytest.raises(ConfigError, match=message):
        read_fmu(path)


def said_of(path):
    try:
        return page(read_fmu(path))
    except ConfigError as error:
        return str(error)


@pytest.mark.parametrize("major", [2, 3])
@pytest.mark.parametrize("new", [None, "nonsense"])
def test_whatever_attribute_is_missing_or_nonsense_is_told(major, new):
    text = clocked(EVERY, trigger=True) if major == 3 else description(2)
    root = etree.fromstring(text.encode())
    attributes = {(e.tag, name): e for e in root.iter() for name in e.attrib}
    path = mass(major, binary=False)
    for (tag, name), element in attributes.items():
        old = element.attrib.pop(name)
        if new is not None:
            element.set(name, new)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("modelDescription.xml", etree.tostring(root))
        assert path.name in said_of(path), (tag, name)
        element.set(name, old)


@needs_compiler
def test_a_description_against_the_schema_is_used_with_a_note():
    fmu = read_fmu(mass(2, xml=description(2).replace('modelName="mass"', 'modelname="mass"')))
    assert fmu.notes
    assert "modelName" in " ".join(fmu.notes)


def test_no_binary_for_this_machine():
    path = mass(2, binary=False)
    assert not read_fmu(path).runs_on_this_host
    with pytest.raises(ConfigError, match=r"no binary for .* \(it has: none\).*hilrt solver"):
        fmu_solver(path).initialize(0.0, np.zeros(3))


def test_a_folder_is_no_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"is a folder; name the \.fmu file"):
        read_fmu(tmp_path)
    (tmp_path / "modelDescription.xml").write_text(description(2))
    with pytest.raises(ConfigError, match=r"is a folder; it contains an unpacked FMU"):
        read_fmu(tmp_path)


# -- loading ---------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_it_refuses_to_be_instantiated(major):
    xml = description(major).replace('="mass">', '="other">')
    with pytest.raises(SolverError, match=r"cannot be instantiated: .*is another one"):
        hosted(major, xml=xml)


@needs_compiler
def test_one_that_is_not_instantiated_says_what_its_description_does(tmp_path):
    xml = description(3).replace('="mass">', '="other" generationTool="Maker 2.1">')
    more = 'needsExecutionTool="true" canBeInstantiatedOnlyOncePerProcess="true" '
    with pytest.raises(SolverError, match="cannot be instantiated") as caught:
        hosted(3, xml=xml.replace("<CoSimulation ", f"<CoSimulation {more}"))
    assert "it needs the tool that created it (Maker 2.1) on this machine" in str(caught.value)
    assert "it can only be loaded once per process" in str(caught.value)


@needs_compiler
def test_one_without_the_event_mode_it_promises_names_the_way_out():
    flags = {"hasEventMode": "true", "mightReturnEarlyFromDoStep": "true"}
    solver = HostedSolver(fmu_solver(mass(3, flags=("-DNO_EVENTS",), **flags), params=HELD))
    solver.initialize(0.0, np.zeros(2))
    with pytest.raises(SolverError, match=r"returned error; with events = false the FMU"):
        step(solver)
    solver.stop("failed")


@needs_compiler
def test_a_function_is_missing(tmp_path):
    path = mass(3)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data.replace(b"fmi3DoStep\0", b"fmi3Nothin\0"))
    with pytest.raises(SolverError, match="fmi3DoStep"):
        fmu_solver(path, HELD).initialize(0.0, np.zeros(2))


@needs_compiler
def test_the_binary_is_none(tmp_path):
    path = mass(3, binary=False)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"binaries/{read_fmu(path).platform}/mass.so", "not a library")
    with pytest.raises(SolverError, match="cannot be instantiated: Failed to load"):
        fmu_solver(path, HELD).initialize(0.0, np.zeros(2))


# -- status ----------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (1, r"not finite: v = nan"),
        (2, r"DoStep returned discard: no solution"),
        (3, r"DoStep returned error: singular matrix"),
        (4, r"DoStep returned fatal: out of memory"),
    ],
)
def test_a_step_fails(major, fault, message):
    solver = hosted(major, {"fault": fault})
    with pytest.raises(SolverError, match=message):
        step(solver)
    solver.stop("failed")


@needs_compiler
@pytest.mark.parametrize(("fault", "calls"), [(3, ["free"]), (4, [])])
def test_no_terminate_after_an_error_and_nothing_after_a_fatal_status(fault, calls):
    solver = hosted(2, {"fault": fault})
    with pytest.raises(SolverError):
        step(solver)
    seen = Calls(solver.solver)
    seen.forget()
    solver.stop("failed")
    assert seen.seen() == calls


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_each_warning_is_logged_once_and_each_step_goes_on(major, caplog):
    solver = hosted(major, {"fault": 7})
    with caplog.at_level(logging.WARNING, "hilrt.fmu"):
        for i in range(3):
            step(solver, i * 1e-3)
    assert solver.solver._instance.warnings == 3
    # Of FMI 2, this FMU puts the time into its words, so that each is another warning.
    assert caplog.text.count("step size is small") == (3 if major == 2 else 1)
    assert "returned a warning" not in caplog.text
    solver.stop("done")


@needs_compiler
def test_one_that_warns_at_every_step_does_not_fill_the_log(caplog):
    solver = hosted(2, {"fault": 7})
    with caplog.at_level(logging.WARNING, "hilrt.fmu"):
        for i in range(MESSAGES + 20):
            step(solver, i * 1e-3)
    assert caplog.text.count("[logStatus]") == MESSAGES
    assert caplog.text.count("further warnings are at debug level") == 1
    assert solver.solver._instance.warnings == MESSAGES + 20
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize(
    ("fault", "told"),
    [(7, ["advanced", "event", "advanced", "event", "stopped"]), (3, ["event", "error"])],
)
def test_what_a_hosted_one_says_reaches_the_session_log(fault, told):
    relay, logger = LogRelay(), logging.getLogger("hilrt.fmu")
    logger.addHandler(relay)
    solver = hosted(2, {"fault": fault})
    steps = (wire.Advance(i, i * 1e-3, 1e-3, bytes(16)) for i in range(2))
    peer = FakePeer(*steps, wire.Stop(reason="done"))
    with contextlib.suppress(SolverError):
        serve(peer, solver, relay)
    logger.removeHandler(relay)
    assert [type(message).__name__.lower() for message in peer.sent] == told
    text = next(m.text for m in peer.sent if isinstance(m, wire.Event))
    assert text.startswith("mass.fmu [logStatus]: ")
    solver.stop("done")


@needs_compiler
def test_a_discarded_step_is_cut_into_parts_where_steps_may_vary():
    whole, parts = hosted(2, {"v": 1.0, "micro": 5e-4}), hosted(2, {"v": 1.0, "fault": 9})
    expected, got = step(whole), step(parts)
    np.testing.assert_allclose(got.y, expected.y, rtol=1e-12)
    for solver in (whole, parts):
        solver.stop("done")
    rigid = hosted(2, {"fault": 9}, canHandleVariableCommunicationStepSize="false")
    with pytest.raises(SolverError, match="fmi2DoStep returned discard"):
        step(rigid)
    rigid.stop("failed")


CREEPS, HALVES, SIGNALS = 10, 11, 12


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_a_step_that_is_made_in_parts_ends_at_its_end(major):
    falling = {"g": 9.81, "x": 1.0, "k": 0.0, "kc": 0.0, "fault": HALVES}
    solver = hosted(major, falling)
    x = [step(solver, i * 0.01, 0.01).y[1] for i in range(3)]
    times = 0.01 * np.arange(1, 4)
    np.testing.assert_allclose(x, 1.0 - 0.5 * 9.81 * times**2, rtol=1e-9)
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_a_step_that_gets_nowhere_ends(major):
    solver = hosted(major, {"fault": CREEPS})
    message = r"only reached 1\.02\d*e-06 s in 1024 parts of its step to 0\.001 s: it is too stiff"
    with pytest.raises(SolverError, match=message):
        step(solver)
    solver.stop("failed")


@needs_compiler
@pytest.mark.parametrize(
    ("events", "message"), [(True, "over 1000 events in one step"), (False, "in 1024 parts")]
)
def test_events_without_end_end(events, message):
    flags = {"hasEventMode": "true", "mightReturnEarlyFromDoStep": "true"}
    solver = fmu_solver(mass(3, **flags), {"F": 0.0, "fault": SIGNALS}, events=events)
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(2))
    with pytest.raises(SolverError, match=message):
        step(hosted)
    hosted.stop("failed")


@needs_compiler
def test_messages_belong_to_the_instance_that_sent_them():
    first, second = hosted(2, {"fault": 3}), hosted(2)
    with pytest.raises(SolverError, match="singular matrix at t = 0 s"):
        step(first)
    assert second.solver._instance._log_hint() == ""
    for solver in (first, second):
        solver.stop("done")
