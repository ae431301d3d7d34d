"""What a run starts to be watched, and who gets to know its secrets."""

from types import SimpleNamespace

import msgspec
import pytest

from hilrt.config.structs import MonitorTable
from hilrt.monitor.operator_commands import TOKEN_VARIABLE
from hilrt.monitor.relay import SETTINGS_VARIABLE, RelaySettings
from hilrt.session.monitoring import Monitoring
from hilrt.session.run import RunOptions
from tests.stepping import make_session

OPERATOR = SimpleNamespace(obey=None, refused=None)
TABLES = {"master": {"step": 1e-3}, "subsystems": {"a": {}}}


class Started:
    """Takes the place of the children: notes what was to be started."""

    def __init__(self):
        self.argv, self.env, self.nice = {}, {}, {}

    def start(self, name, argv, *, nice=0, env=None):
        self.argv[name], self.env[name], self.nice[name] = argv, env or {}, nice


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
