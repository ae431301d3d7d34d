"""Keys: made, read, and which peers are accepted with them."""

import asyncio
import os
import shlex
import subprocess
import sys
import threading

import pytest

from hilrt.errors import ConfigError, SessionFault
from hilrt.peers.authenticator import KeyAuthenticator
from hilrt.peers.hub import Hub
from hilrt.peers.keys import VARIABLE, is_local, make_keys, peer_keys, read_key
from hilrt.peers.peer import Peer
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are POSIX")


def test_pairs_are_made_once(tmp_path):
    folder = tmp_path / "keys"
    made = make_keys(folder, ["a"])
    assert sorted(path.name for path in made) == ["a.key", "a.pub", "master.key", "master.pub"]
    before = (folder / "a.key").read_bytes()
    assert [path.name for path in make_keys(folder, ["a", "b"])] == ["b.key", "b.pub"]
    assert (folder / "a.key").read_bytes() == before
    assert all((folder / f"{n}.key").stat().st_mode & 0o777 == 0o600 for n in ("a", "b", "master"))


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_umask_decides_nothing(tmp_path, umask):
    before = os.umask(umask)
    try:
        make_keys(tmp_path / "keys", ["a"])
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("**/*")}
    assert modes.pop("keys") == 0o700
    assert {mode for name, mode in modes.items() if name.endswith(".key")} == {0o600}
    assert {mode for name, mode in modes.items() if name.endswith(".pub")} == {0o644}


@posix
@pytest.mark.parametrize(
    ("name", "mode", "command"),
    [
        ("", 0o775, "chmod 700 {}"),
        ("", 0o707, "chmod 700 {}"),
        ("a.key", 0o640, "chmod 600 {}"),
        ("master.key", 0o604, "chmod 600 {}"),
        ("a.pub", 0o664, "chmod 644 {}"),
        ("master.pub", 0o646, "chmod 644 {}"),
    ],
)
def test_what_others_may_do_with_keys_is_refused_with_the_command_that_mends_it(
    tmp_path, monkeypatch, name, mode, command
):
    folder = tmp_path / "bench keys"
    make_keys(folder, ["a"])
    monkeypatch.setenv(VARIABLE, str(folder))
    (folder / name).chmod(mode)
    sides = [
        lambda: KeyAuthenticator(folder),
        lambda: peer_keys("a"),
        lambda: make_keys(folder, "b"),
    ]
    told = set()
    for side in sides:
        try:
            side()
        except ConfigError as error:
            told.add(str(error).rpartition("; ")[2])
    assert told == {command.format(shlex.quote(str(folder / name)))}
    subprocess.run(told.pop(), shell=True, check=True)
    assert peer_keys("a") is not None
    KeyAuthenticator(folder)


@posix
def test_keys_of_another_account_are_refused(tmp_path, monkeypatch):
    make_keys(tmp_path, ["a"])
    owner = os.geteuid()
    if owner == 0:  # as root, who could be any account
        owner = 65533
        os.chown(tmp_path / "a.pub", owner, owner)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match=rf"belongs to another account.*chown {owner + 1} "):
        read_key(tmp_path / "a.pub")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert len(read_key(tmp_path / "a.pub")) == 40


@pytest.mark.parametrize("name", ["../a", "a b", "", "-x"])
def test_names_are_names(tmp_path, name):
    with pytest.raises(ConfigError, match="not a valid name of a subsystem"):
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
    hub = Hub("test", authenticator=KeyAuthenticator(ours), heartbeat_s=0.05)
    try:
        # No subsystem is expected: being told so means that the connection was let in.
        assert "no remote subsystem is called 'a'" in await attempt(hub, ours, monkeypatch)
        assert not hub.counters["?", "unknown_key"]
        said = await attempt(hub, strangers, monkeypatch)
        assert "may not know this peer's key" in said
        assert hub.counters["?", "unknown_key"] >= 1
        assert "only admits peers that have theirs" in await attempt(hub, None, monkeypatch)
    finally:
        hub.close()
    strangers = hub.protocol.unused.strangers()  # also the first, which names no subsystem
    assert strangers.keys() == {"unknown_key", "no_key", "rejected"}
    assert strangers["no_key"] >= 1


def test_a_master_without_peers_keys_is_refused(tmp_path):
    make_keys(tmp_path, [])
    with pytest.raises(ConfigError, match=r"has no peer's \.pub"):
        KeyAuthenticator(tmp_path)


async def test_a_key_is_a_name(tmp_path, monkeypatch):
    """A peer with the key of `b` says that it is `a`; and one key may have several names."""
    make_keys(tmp_path, ["a", "b"])
    (tmp_path / "a.key").write_bytes((tmp_path / "b.key").read_bytes())
    hub = Hub("test", authenticator=KeyAuthenticator(tmp_path), heartbeat_s=0.05)
    try:
        hub.add(ZeroMQLink("a", ZeroMQOptions(adapter="zeromq"), tmp_path))
        said = await attempt(hub, tmp_path, monkeypatch)
        assert "a key only admits the name of its file: that of b, not 'a'" in said
        assert "127.0.0.1 by TCP with the key of b" in hub.protocol.unused.why_refused("a", 0)
    finally:
        hub.close()
    (tmp_path / "a.pub").write_bytes((tmp_path / "b.pub").read_bytes())
    hub = Hub("test", authenticator=KeyAuthenticator(tmp_path), heartbeat_s=0.05)
    try:
        hub.add(ZeroMQLink("a", ZeroMQOptions(adapter="zeromq"), tmp_path))
        assert await attempt(hub, tmp_path, monkeypatch) == "accepted"
    finally:
        hub.close()
