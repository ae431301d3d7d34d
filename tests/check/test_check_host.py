"""What a session needs of the host, as warnings of `hilrt check`; lines, and another pace."""

import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import hilrt
from hilrt.check.check import check, check_file
from hilrt.cli.main import app
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError
from hilrt.peers.keys import make_keys
from tests.fmu.build import mass, needs_compiler

SESSION = """
[session]
name = "s"
duration = 1.0
pace = "asap"
[master]
step = 0.001
{master}
[subsystems.a]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass1"
[subsystems.b]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass2"
[[connections]]
from = "a.force"
to = "b.force"
[[connections]]
from = "b.x"
to = "a.x2"
[[connections]]
from = "b.v"
to = "a.v2"
{more}
"""


def written(folder, master="", more=""):
    path = folder / "session.toml"
    path.write_text(SESSION.format(master=master, more=more))
    return path


def lines(path, **how):
    return [str(problem) for problem in check_file(path, **how)]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_keys_that_others_may_change_are_refused_with_the_commands_that_mend_it(tmp_path):
    make_keys(tmp_path / "keys", ["c"])
    path = written(tmp_path, 'keys = "keys"')
    assert lines(path) == []
    (tmp_path / "keys").chmod(0o777)
    (tmp_path / "keys" / "c.pub").chmod(0o666)
    (tmp_path / "keys" / "c.key").chmod(0o644)
    found = check_file(path)
    assert [(problem.level, problem.table, problem.key) for problem in found] == [
        ("error", "master", "keys")
    ] * 3
    for problem, command in zip(found, ("700", "600", "644"), strict=True):
        subprocess.run(problem.remedy, shell=True, check=True)
        assert f"; chmod {command} " in str(problem)
    assert lines(path) == []


def test_taken_ports_are_warned_of(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        address = f"127.0.0.1:{port}"
        monitor = f'[monitor]\npage = "{address}"\nlisten = "tcp://{address}"\n'
        path = written(tmp_path, f'listen = "tcp://{address}"', monitor)
        found = check_file(path)
        session = load_session(path)
        assert [problem.level for problem in found] == ["warning"] * 3
        assert [problem.at for problem in found] == [8, 25, 26]
        assert all("cannot be used on this host: address already in" in x for x in lines(path))
        assert check(session, here=True) == []  # it takes them itself
    assert lines(path) == []


@needs_compiler
def test_a_binary_for_another_host_is_a_warning_and_keeps_from_running(tmp_path):
    fmu = mass(3, binary=False)
    more = f'[subsystems.c]\nadapter = "fmu"\nfmu = "{fmu}"\n'
    path = written(tmp_path, "", f"{more}params = {{ x2 = 0.0, v2 = 0.0, F = 0.0 }}")
    (problem,) = check_file(path)
    assert (problem.level, problem.table) == ("warning", "subsystems.c")
    assert "has no binary for" in str(problem)
    with pytest.raises(ConfigError, match=r"\[subsystems\.c\] fmu = .*has no binary for"):
        hilrt.simulate(path)


def test_the_command_knows_the_pace_and_says_the_line(tmp_path):
    path = written(
        tmp_path, 'step_control.method = "pi"', '[[connections]]\nfrom = "a.x"\nto = "b.x"'
    )
    done = CliRunner().invoke(app, ["check", str(path)])
    assert f"{path}:26: error: [connections 4: a.x -> b.x] to = 'b.x': " in done.output
    assert "wall clock" not in done.output
    done = CliRunner().invoke(app, ["check", str(path), "--pace", "realtime"])
    assert (
        "[master.step_control] method = 'pi': a variable step is not possible against the wall"
        in (done.output)
    )
    for wrong in ("fast", "0", "-1", "nan"):
        done = CliRunner().invoke(app, ["check", str(path), "--pace", wrong])
        assert done.exit_code == 2
        assert "is not realtime, asap or a number above 0" in done.output


def test_what_is_set_beside_the_file_has_no_line_of_it(tmp_path):
    path = written(tmp_path)
    (problem,) = check_file(path, ["connections.1.gain=nan"])
    assert (problem.at, problem.table) == (0, "connections.1")
    assert str(problem).startswith("[connections 2: b.x -> a.x2] gain = nan: ")
