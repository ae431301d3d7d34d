"""An adapter of the user's own: the one on docs/adapters.md, in one file and an entry point."""

import socket
import sys
import threading
import types

import pytest

import hilrt
from hilrt.check.check import check_file
from hilrt.config import registry
from hilrt.errors import ConfigError
from hilrt.link import Link
from tests.test_docs import DOCS, files_of

H = 0.01
SESSION = """
[session]
name = "echo"
duration = 0.5

[master]
step = 0.01

[subsystems.ramp]
adapter = "inprocess"
model = "ramp:Ramp"

[subsystems.echo]
adapter = "udp_echo"
port = {port}

[[connections]]
from = "ramp.y"
to = "echo.u"
order = 0
"""
RAMP = '''
import numpy as np

from hilrt import Port, Sample, Solver


class Ramp(Solver):
    """Its output is the time."""

    outputs = (Port("y", "V"),)

    def initialize(self, t0, u0):
        return Sample(np.array([t0]))

    def advance(self, t, h, u):
        return Sample(np.array([t + h]))
'''


@pytest.fixture
def port():
    """UDP port of a peer that answers with what it is sent, until that is nothing."""
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.bind(("127.0.0.1", 0))

    def echo():
        while True:
            data, address = peer.recvfrom(1024)
            if not data:
                return
            peer.sendto(data, address)

    thread = threading.Thread(target=echo)
    thread.start()
    yield peer.getsockname()[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
        last.sendto(b"", peer.getsockname())
    thread.join()
    peer.close()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The adapter as an installed package; the folder."""
    text = files_of(DOCS / "adapters.md")["udp_echo.py"]
    code = [line for line in text.partition("import asyncio")[2].splitlines() if line.strip()]
    assert len(code) <= 40
    (tmp_path / "udp_echo.py").write_text(text, encoding="utf-8")
    information = tmp_path / "udp_echo-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: udp-echo\nVersion: 1\n")
    (information / "entry_points.txt").write_text(
        "[hilrt.adapters]\nudp_echo = udp_echo:UdpEchoLink\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._entries.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    registry._entries.cache_clear()


def test_the_adapter_of_the_page_answers_over_udp(installed, port):
    (installed / "ramp.py").write_text(RAMP)
    (installed / "echo.toml").write_text(SESSION.format(port=port))
    result = hilrt.simulate(installed / "echo.toml")
    assert not result.fault
    # What it was sent at the start of each step comes back as valid at its end.
    assert result.log["echo.y"][1:] == pytest.approx(result.log.t[1:] - H, abs=1e-12)
    assert len(result.log.t) == 51


def test_what_is_wrong_in_its_table_is_named(installed):
    (installed / "ramp.py").write_text(RAMP)
    (installed / "echo.toml").write_text(SESSION.format(port='"none"'))
    (problem,) = check_file(installed / "echo.toml")
    assert str(problem).startswith("[subsystems.echo] port")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import no_such_package", "the adapter needs no_such_package, which is not installed"),
        (
            "from json import missing",
            "importing udp_echo:UdpEchoLink failed: ImportError: cannot import",
        ),
        (
            "raise ImportError('no licence')",
            "importing udp_echo:UdpEchoLink failed: ImportError: no licence",
        ),
        (
            "",
            "failed: AttributeError: .* has no attribute 'UdpEchoLink'; correct the package",
        ),
        (
            "def",
            r"failed: SyntaxError: invalid syntax \(udp_echo.py, line 1\); correct the package",
        ),
        ("raise SystemExit(1)", "failed: SystemExit: 1; correct the package, or install it again"),
        ("from hilrt.errors import ConfigError\nraise ConfigError('poll is now')", "^poll is now$"),
    ],
)
def test_an_adapter_that_cannot_be_imported_is_refused_with_the_reason(installed, code, text):
    (installed / "udp_echo.py").write_text(code)
    sys.modules.pop("udp_echo", None)
    with pytest.raises(ConfigError, match=text):
        registry.link_class("udp_echo")


@pytest.mark.parametrize(
    ("name", "now"), [("poll", "receive"), ("learn", "prepare"), ("jacobian", "probes")]
)
def test_an_adapter_for_an_earlier_version_is_refused_with_the_way_to_move_it(name, now):
    with pytest.raises(ConfigError, match=f'{name} is now {now}; "Move an adapter'):
        types.new_class("Old", (Link,), exec_body=lambda names: names.update({name: None}))


def test_a_link_has_a_dozen_methods_and_four_to_write():
    methods = {name for name, value in vars(Link).items() if callable(value) and name[0] != "_"}
    assert len(methods | {"describe"}) <= 12
    assert Link.__abstractmethods__ == {"open", "initialize", "dispatch", "receive"}
