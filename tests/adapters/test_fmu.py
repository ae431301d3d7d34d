"""``adapter = "fmu"``: an FMU behind a link, and what `hilrt check` says of its table."""

import json

import numpy as np
import pytest

from hilrt.check.check import check_file
from hilrt.errors import ConfigError, PeerLost
from hilrt.fmu.command import load_fmu
from hilrt.fmu.fmu_options import FmuOptions
from hilrt.hosting import solver_process
from hilrt_adapters.fmu import FmuLink
from tests.adapters.link_contract import arrivals
from tests.fmu.build import mass, needs_compiler

pytestmark = needs_compiler


def make(path, **table):
    table = {"params": {"F": 0.0}, **table}
    return FmuLink("model", FmuOptions(adapter="fmu", fmu=path.name, **table), path.parent)


async def test_a_step_through_the_link():
    link = make(mass(3))
    await link.open()
    sample = await link.initialize(0.0, np.array([1.0, 0.0]))
    assert sample.y.tolist() == [-100.0, 0.0, 0.0]
    link.dispatch(0, 0.0, 1e-3, np.array([[1.0, 0.0]]))
    (arrival,) = await arrivals(link)
    np.testing.assert_allclose(arrival.sample.y[2], 0.1)
    await link.close()


async def test_ports_are_known_without_the_binary_being_loaded():
    path = mass(3, flags=("-DCRASH",))
    ports = FmuLink.describe("model", make(path).options, path.parent).ports
    assert [port.name for port in ports.outputs] == ["force", "x", "v"]


async def test_a_failing_fmu_loses_the_subsystem():
    link = make(mass(3), params={"F": 0.0, "fault": 3})
    await link.open()
    await link.initialize(0.0, np.zeros(2))
    link.dispatch(0, 0.0, 1e-3, np.zeros((1, 2)))
    with pytest.raises(PeerLost, match="fmi3DoStep returned error: singular matrix"):
        await arrivals(link)
    with pytest.raises(PeerLost, match="singular matrix"):
        link.receive()
    await link.close()


SESSION = """
[session]
name = "check"
duration = 1.0
pace = "asap"
[master]
step = 0.001
[subsystems.a]
adapter = "fmu"
fmu = "{fmu}"
{table}
[subsystems.b]
adapter = "fmu"
fmu = "{fmu}"
params = {{ x2 = 0.0, v2 = 0.0 }}
[[connections]]
from = "a.{source}"
to = "b.F"
"""
HELD = "params = { x2 = 0.0, v2 = 0.0, F = 0.0 }"


@pytest.mark.parametrize(
    ("table", "source", "message"),
    [
        (HELD, "forse", "'a' has no output 'forse'; did you mean 'force'?"),
        (HELD, "x", "unit 'm' does not convert to 'N'"),
        (HELD.replace("F =", "FF ="), "force", "no such parameter"),
        (HELD + "\nsubstep = 2", "force", "did you mean 'substeps'?"),
        (HELD + "\nsubsteps = 0", "force", ">= 1"),
    ],
)
def test_check_names_what_is_wrong(table, source, message, tmp_path):
    file = tmp_path / "session.toml"
    file.write_text(SESSION.format(fmu=mass(2), table=table, source=source))
    assert message in "\n".join(map(str, check_file(file)))


@pytest.mark.parametrize("hosted", [False, True])
@pytest.mark.parametrize(
    ("times", "level", "message"),
    [
        ({"start_time": 5.0, "stop_time": 1.0}, "error", "is not after start_time = 5.0"),
        ({"start_time": 1.0, "stop_time": 1.0}, "error", "give a later one, or remove it"),
        ({"stop_time": 0.5}, "warning", "its stop_time is at 0.5 s of session time"),
        ({"start_time": 1.0, "stop_time": 1.5}, "warning", "its stop_time is at 0.5 s"),
        ({"start_time": 1.0, "stop_time": 2.0}, None, None),
        ({"stop_time": 1.0}, None, None),
    ],
)
def test_times_that_do_not_fit_the_session(hosted, times, level, message, tmp_path):
    path = mass(2)
    table = "\n".join([HELD, *(f"{key} = {value}" for key, value in times.items())])
    text = SESSION.format(fmu=path, table=table, source="force")
    if hosted:
        argv = ["hilrt", "solver", str(path)]
        argv += [word for name in ("x2", "v2", "F") for word in ("--param", f"{name}=0.0")]
        argv += [w for key, value in times.items() for w in ("--option", f"{key}={value}")]
        spawned = f'adapter = "zeromq"\nspawn = {json.dumps(argv)}'
        text = text.replace(f'adapter = "fmu"\nfmu = "{path}"\n{table}', spawned)
    file = tmp_path / "session.toml"
    file.write_text(text)
    problems = check_file(file)
    if level is None:
        assert problems == []
        return
    (problem,) = problems
    assert (problem.level, problem.table) == (level, "subsystems.a")
    assert message in str(problem)
    if level == "error":
        assert problem.key == ("spawn" if hosted else "stop_time")
        assert f"stop_time = {times['stop_time']}:" in str(problem)


def test_check_is_content_with_what_is_right(tmp_path):
    file = tmp_path / "session.toml"
    file.write_text(SESSION.format(fmu=mass(2), table=HELD, source="force"))
    assert not [problem for problem in check_file(file) if problem.level == "error"]


def test_check_without_a_binary(tmp_path):
    file = tmp_path / "session.toml"
    file.write_text(SESSION.format(fmu=mass(2, binary=False), table=HELD, source="force"))
    assert "has no binary for" in "\n".join(map(str, check_file(file)))


def test_options_of_the_command_line():
    path = str(mass(2))
    solver = load_fmu(path, {"F": 0.0}, {"substeps": 4, "outputs": ["x"]})
    assert [port.name for port in solver.outputs] == ["x"]
    with pytest.raises(ConfigError, match=r"\[--option\] substep: .*did you mean 'substeps'"):
        load_fmu(path, {}, {"substep": 4})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--param", "FF=0.0"], "no such parameter"),
        (["--param=F=0.0", "--option", "substep=4"], "did you mean 'substeps'?"),
        (["--param", "F=0.0", "--option", 'outputs=["x"]'], "'a' has no output 'force'"),
    ],
)
def test_check_looks_into_an_fmu_that_the_session_hosts(more, message, tmp_path):
    file = tmp_path / "session.toml"
    path = mass(2)
    argv = ["hilrt", "solver", path.name, "--param", "x2=0.0", "--param", "v2=0.0", *more]
    hosted = f'adapter = "zeromq"\nspawn = {json.dumps(argv)}'
    text = SESSION.format(fmu=path, table="", source="force")
    file.write_text(text.replace(f'adapter = "fmu"\nfmu = "{path}"', hosted, 1))
    (tmp_path / path.name).write_bytes(path.read_bytes())
    assert message in "\n".join(map(str, check_file(file)))


def test_a_solver_process_says_what_is_wrong_with_its_fmu(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(solver_process, "end_with_parent", lambda: None)
    monkeypatch.setattr(solver_process.signal, "signal", lambda *arguments: None)
    status = solver_process.main(str(tmp_path / "no.fmu"), "tcp://127.0.0.1:1", "a", {})
    assert status == solver_process.EXIT_CONFIG
    assert "there is no such file" in capsys.readouterr().err
    status = solver_process.main("m:C", "tcp://127.0.0.1:1", "a", {}, {"substeps": "2"})
    assert status == solver_process.EXIT_CONFIG
    assert "--option is for FMUs" in capsys.readouterr().err
