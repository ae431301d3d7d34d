"""Keys: made, read, and which peers are accepted with them."""

import asyncio
import threading

import pytest

from hilrt.errors import ConfigError, SessionFault
from hilrt.peers.hub import Hub
from hilrt.peers.keys import VARIABLE, Authenticator, is_local, make_keys, peer_keys, read_key
from hilrt.peers.peer import Peer


def test_pairs_are_made_once(tmp_path):
    folder = tmp_path / "keys"
    made = make_keys(folder, ["a"])
    assert sorted(path.name for path in made) == ["a.key", "a.pub", "master.key", "master.pub"]
    before = (folder / "a.key").read_bytes()
    assert [path.name for path in make_keys(folder, ["a", "b"])] == ["b.key", "b.pub"]
    assert (folder / "a.key").read_bytes() == before
    assert all((folder / f"{n}.key").stat().st_mode & 0o777 == 0o600 for n in ("a", "b", "master"))


@pytest.mark.parametrize("name", ["../a", "a b", "", "-x"])
def test_names_are_names(tmp_path, name):
    with pytest.raises(ConfigError, match="no name of a subsystem"):
        make_keys(tmp_path, [name])


def test_a_key_file_is_checked(tmp_path):
    make_keys(tmp_path, ["a"])
    with pytest.raises(ConfigError, match="hilrt keys"):
        read_key(tmp_path / "b.key")
    (tmp_path / "a.key").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key(tmp_path / "a.key")
    (tmp_path / "a.pub").write_text("short\n")
    with pytest.raises(ConfigError, match="40 characters"):
        read_key(tmp_path / "a.pub")


def test_a_peer_without_a_folder_uses_no_keys(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert peer_keys("a") is None
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=r"a\.key"):
        peer_keys("a")


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("tcp://127.0.0.1:*", True),
        ("tcp://127.9.9.9:1", True),
        ("tcp://localhost:5", True),
        ("tcp://[::1]:5", True),
        ("ipc:///tmp/x", True),
        ("tcp://0.0.0.0:5", False),
        ("tcp://*:5", False),
        ("tcp://192.0.2.1:5", False),
        ("tcp://eth0:5", False),
        ("tcp://[::]:5", False),
        ("udp://127.0.0.1:5", False),
    ],
)
def test_which_endpoints_only_this_machine_reaches(endpoint, local):
    assert is_local(endpoint) is local


def connect(address, keys, monkeypatch):
    """Try to say hello; the error's text, or what the master answered."""
    if keys is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, str(keys))
    peer = Peer(address, "a", "solver", (), ())
    try:
        peer.connect(timeout=0.6)
    except SessionFault as error:
        return str(error)
    finally:
        peer.close()
    return "accepted"


async def attempt(hub, keys, monkeypatch):
    """One attempt from a thread, while the hub is looked at."""
    said = []
    thread = threading.Thread(target=lambda: said.append(connect(hub.address, keys, monkeypatch)))
    thread.start()
    while thread.is_alive():
        hub.drain()
        await asyncio.sleep(0.005)
    return said[0]


async def test_known_keys_get_in_and_others_are_refused_and_counted(tmp_path, monkeypatch):
    ours, strangers = tmp_path / "ours", tmp_path / "strangers"
    make_keys(ours, ["a"])
    make_keys(strangers, ["a"])
    (strangers / "master.pub").write_bytes((ours / "master.pub").read_bytes())
    hub = Hub("test", authenticator=Authenticator(ours), heartbeat_s=0.05)
    try:
        # No subsystem is expected: being told so means that the connection was let in.
        assert "no remote subsystem is called 'a'" in await attempt(hub, ours, monkeypatch)
        assert not hub.counters["?", "unknown_key"]
        said = await attempt(hub, strangers, monkeypatch)
        assert "may not know this peer's key" in said
        assert hub.counters["?", "unknown_key"] >= 1
        assert "lets in only peers that have theirs" in await attempt(hub, None, monkeypatch)
    finally:
        hub.close()
    assert hub.counters["?", "no_key"] >= 1


def test_a_master_without_peers_keys_is_refused(tmp_path):
    make_keys(tmp_path, [])
    with pytest.raises(ConfigError, match=r"has no peer's \.pub"):
        Authenticator(tmp_path)
