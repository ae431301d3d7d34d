"""A session whose solver process must have a key."""

import pytest

from hilrt.errors import ConfigError
from hilrt.peers.keys import make_keys
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from tests.two_masses import CONNECTIONS

SESSION = """
[session]
name = "keys"
duration = 0.05
pace = "asap"
[master]
step = 0.001
listen = "tcp://0.0.0.0:*"
keys = "keys"
connect_timeout = 15.0
[subsystems.mass1]
adapter = "zeromq"
spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass1"]
[subsystems.mass2]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass2"
"""


@pytest.fixture
def run(tmp_path):
    def load(text):
        path = tmp_path / "keys.toml"
        path.write_text(text + CONNECTIONS, encoding="utf-8")
        options = RunOptions(out=tmp_path / "runs", record=False)
        return run_session(path, options=options)

    make_keys(tmp_path / "keys", ["mass1"])
    return load


def test_with_its_key_the_solver_takes_part(run):
    result = run(SESSION)
    assert (result.fault, result.exit_status) == (None, 0)
    assert result.summary["steps"] == 50
    assert result.summary["strangers"] == {}


def test_an_open_address_without_keys_is_refused(run):
    with pytest.raises(ConfigError, match="can be reached by other machines"):
        run(SESSION.replace('keys = "keys"', ""))


def test_an_open_address_on_request_is_reported_at_the_start(run, capfd):
    result = run(SESSION.replace('keys = "keys"', "insecure = true"))
    assert result.exit_status == 0
    assert "anybody who reaches tcp://0.0.0.0:*" in capfd.readouterr().err
