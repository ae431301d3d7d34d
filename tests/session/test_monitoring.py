"""What a run starts to be watched, and who gets to know its secrets."""

import os
import socket
import sys
from types import SimpleNamespace

import msgspec
import pytest

from hilrt.config.session_tables import MonitorTable
from hilrt.errors import ConfigError
from hilrt.isolation.temporary_folder import LocalAddresses
from hilrt.monitor.operator_commands import TOKEN_VARIABLE
from hilrt.monitor.relay import SETTINGS_VARIABLE, RelaySettings
from hilrt.session.monitoring import Monitoring
from hilrt.session.opened import open_parts
from hilrt.session.run import RunOptions
from tests.stepping import make_session

OPERATOR = SimpleNamespace(obey=None, refused=None)
TABLES = {"master": {"step": 1e-3}, "subsystems": {"a": {}}}


class Started:
    """Takes the place of the children: notes what was to be started."""

    def __init__(self):
        self.argv, self.env, self.nice, self.inherits = {}, {}, {}, {}

    def start(self, name, argv, *, nice=0, env=None, inherits=()):
        self.argv[name], self.env[name], self.nice[name] = argv, env or {}, nice
        self.inherits[name] = inherits


@pytest.fixture
def monitoring(monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    made = []

    def make(web=False, **table):
        tables = make_session(TABLES)
        tables.monitor = MonitorTable(**table)
        made.append(Monitoring(tables, RunOptions(web=web), real_time=True))
        return made[-1]

    yield make
    for one in made:
        one.close()


async def test_nothing_is_started_that_nobody_asked_for(monitoring):
    started = Started()
    alone = monitoring(control=["stop"])
    alone.start(started, OPERATOR)
    assert started.argv == {}
    assert alone.rows == ""
    assert alone.hints() == []


async def test_everything_is_low_in_priority(monitoring):
    started = Started()
    monitoring(web=True, foxglove="127.0.0.1:8765").start(started, OPERATOR)
    assert set(started.argv) == {"relay", "page", "foxglove"}
    assert all(nice > 0 for nice in started.nice.values())


async def test_the_bridge_to_foxglove_knows_no_commands(monitoring):
    """An address for them, which it took for its own, crashed it."""
    started = Started()
    watched = monitoring(
        foxglove="127.0.0.1:8765", commands="tcp://127.0.0.1:5571", control=["stop"]
    )
    watched.start(started, OPERATOR)
    settings = msgspec.json.decode(started.env["relay"][SETTINGS_VARIABLE], type=RelaySettings)
    assert settings.public_commands == "tcp://127.0.0.1:5571"
    *_, connect, stream, foxglove, address, own = started.argv["foxglove"]
    assert (connect, stream) == ("--connect", settings.telemetry)
    assert (foxglove, address, own) == ("--foxglove", "127.0.0.1:8765", "--of-session")


@pytest.mark.skipif(sys.platform == "win32", reason="hands on no sockets there")
async def test_the_page_gets_the_port_that_was_taken_for_it(monitoring, unused_tcp_port):
    started = Started()
    watched = monitoring(web=True, page=f"127.0.0.1:{unused_tcp_port}")
    watched.listen()
    watched.start(started, OPERATOR)
    (number,) = started.inherits["page"].descriptors
    assert started.argv["page"][-2:] == ["--sockets", str(number)]
    with socket.create_server(("127.0.0.1", unused_tcp_port)):  # with its process it is free
        pass


async def test_secrets_are_on_no_command_line(monitoring):
    started = Started()
    watched = monitoring(web=True, foxglove="127.0.0.1:8765", control=["stop"])
    watched.start(started, OPERATOR)
    words = " ".join(word for argv in started.argv.values() for word in argv)
    assert watched.token
    assert watched.token not in words
    assert watched.key not in words
    settings = msgspec.json.decode(started.env["relay"][SETTINGS_VARIABLE], type=RelaySettings)
    assert (settings.token, settings.key) == (watched.token, watched.key)
    assert settings.head.control == ["stop"]
    secrets = {watched.token, watched.key}
    assert not secrets & set(started.env["page"].values())


@pytest.mark.skipif(os.name != "posix", reason="elsewhere they are guarded by keys")
async def test_nothing_internal_is_open_to_the_network(monitoring):
    started = Started()
    watched = monitoring(web=True, foxglove="127.0.0.1:8765", control=["stop"])
    watched.start(started, OPERATOR)
    settings = msgspec.json.decode(started.env["relay"][SETTINGS_VARIABLE], type=RelaySettings)
    inside = (settings.rows, settings.status, settings.master, settings.telemetry)
    assert all(address.startswith("ipc://") for address in (*inside, settings.commands))


def test_token_is_given_or_made_up_and_then_told(monitoring, monkeypatch):
    first, second = (monitoring(web=True, control=["stop"]) for _ in range(2))
    assert first.token != second.token
    assert first.hints()[-1] == f"token for stop: {first.token}"
    monkeypatch.setenv(TOKEN_VARIABLE, "")  # as good as not set
    assert monitoring(web=True, control=["stop"]).hints()[-1].startswith("token for stop: ")
    monkeypatch.setenv(TOKEN_VARIABLE, "mine")
    given = monitoring(web=True, control=["stop"])
    assert given.token == "mine"
    assert "mine" not in " ".join(given.hints())
    assert monitoring(web=True).token == ""  # a session that allows nothing has none


@pytest.fixture
def taken():
    """A port at which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("key", "address"),
    [
        ("page", "127.0.0.1:{}"),
        ("listen", "tcp://127.0.0.1:{}"),
        ("commands", "tcp://127.0.0.1:{}"),
        ("foxglove", "127.0.0.1:{}"),
    ],
)
def test_a_port_that_is_taken_is_refused_before_anything_starts(monitoring, taken, key, address):
    made = monitoring(web=key == "page", **{key: address.format(taken)})
    with pytest.raises(ConfigError, match=rf"^\[monitor\] {key} = '.*{taken}': address already"):
        made.listen()


@pytest.mark.skipif(os.name != "posix", reason="Unix sockets with accounts are POSIX's")
def test_a_unix_socket_of_another_session_is_refused_and_one_left_behind_is_not(monitoring):
    local = LocalAddresses()
    address = local.get("stream")
    made = monitoring(listen=address)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(address.removeprefix("ipc://"))
        other.listen()
        with pytest.raises(ConfigError, match=r"^\[monitor\] listen = 'ipc://.*': address already"):
            made.listen()
    made.listen()
    local.close()
    with pytest.raises(ConfigError, match="no writable folder"):
        made.listen()


def test_a_taken_page_leaves_no_folder_behind(taken, tmp_path):
    tables = make_session(TABLES | {"monitor": {"page": f"127.0.0.1:{taken}"}})
    file = SimpleNamespace(tables=tables, folder=tmp_path)
    with pytest.raises(ConfigError, match="another session"):
        open_parts(file, RunOptions(out=tmp_path / "runs", web=True))
    assert list(tmp_path.iterdir()) == []


def test_ports_that_nobody_has_taken_are_free_afterwards(monitoring, unused_tcp_port):
    address = f"127.0.0.1:{unused_tcp_port}"
    for _ in range(2):
        made = monitoring(web=True, page=address, listen="tcp://*:*", foxglove="here:1")
        made.listen()
        with pytest.raises(ConfigError):
            monitoring(web=True, page=address).listen()
        made.close()


@pytest.mark.parametrize(
    ("web", "control", "real_time", "answers"),
    [
        (True, ["answer"], True, True),
        (True, ["stop"], True, False),
        (False, ["answer"], True, False),
        (True, ["answer"], False, False),
    ],
)
def test_prompts_wait_only_where_an_operator_can_answer(web, control, real_time, answers):
    tables = make_session(TABLES)
    tables.monitor = MonitorTable(control=control)
    made = Monitoring(tables, RunOptions(web=web), real_time=real_time)
    assert made.answers_prompts is answers
    made.view_has_keys = True
    assert made.answers_prompts is real_time
    made.close()
