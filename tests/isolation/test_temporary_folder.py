"""Temporary folders go with the process that uses them, however that ends."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import zmq

from hilrt.errors import ConfigError
from hilrt.isolation.temporary_folder import (
    KEY_VARIABLE,
    MAX_NAME,
    LocalAddresses,
    TemporaryFolder,
    bind,
    connect,
    remove_abandoned_folders,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="accounts and signals are POSIX")
KILLED = """
import os, signal
from hilrt.isolation.temporary_folder import LocalAddresses

addresses = LocalAddresses()
print(addresses.get("rows"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(monkeypatch):
    """A temporary folder of our own, with a path that leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(dir="/tmp" if os.name == "posix" else None) as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_where_there_can_be_none_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"No such file.*; set TMPDIR"):
        LocalAddresses()


@posix
def test_the_next_session_removes_what_a_killed_one_left(temporary):
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    (left,) = temporary.iterdir()
    assert str(left) in done.stdout.decode()
    addresses = LocalAddresses()
    assert not left.exists()
    assert len(list(temporary.iterdir())) == 1
    addresses.close()
    assert list(temporary.iterdir()) == []


@posix
def test_only_this_account_can_enter(temporary):
    folder = TemporaryFolder("sockets")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.remove()


def test_a_folder_in_use_stays(temporary):
    folder = TemporaryFolder("fmu")
    remove_abandoned_folders()
    assert folder.path.is_dir()
    folder.remove()
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_what_is_none_of_ours_stays(temporary):
    """Of the same name, without the lock that tells whether a process uses it."""
    Path(temporary, "hilrt_fmu_notes").mkdir()
    Path(temporary, "hilrt_fmu_notes.txt").write_text("mine")
    remove_abandoned_folders()
    assert len(list(temporary.iterdir())) == 2


@posix
def test_a_folder_of_another_account_stays(temporary, monkeypatch):
    folder = TemporaryFolder("fmu")
    os.close(folder._lock)  # as if its process had been killed
    monkeypatch.setattr(os, "getuid", lambda: folder.path.stat().st_uid + 1)
    remove_abandoned_folders()
    assert folder.path.is_dir()
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    remove_abandoned_folders()
    assert list(temporary.iterdir()) == []


class Context:
    """Makes sockets, and closes them."""

    def __init__(self):
        self._context, self._made = zmq.Context(), []

    def socket(self, kind):
        self._made.append(self._context.socket(kind))
        return self._made[-1]

    def close(self):
        self._context.destroy(linger=0)


@pytest.fixture
def context():
    made = Context()
    yield made
    made.close()


@pytest.fixture
def loopback():
    """As on a system without Unix sockets."""
    made = LocalAddresses(unix=False)
    yield made
    made.close()


def pair(context, address):
    """A bound end and a connected one."""
    near, far = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    connect(far, bind(near, address))
    return near, far


@pytest.mark.skipif(os.name != "posix", reason="Unix sockets with permissions are POSIX's")
def test_unix_sockets_stand_in_a_folder_of_this_account_alone(context):
    local = LocalAddresses()
    near, far = pair(context, local.get("rows"))
    near.send(b"row")
    assert far.poll(5000)
    folder = Path(local.get("rows").removeprefix("ipc://")).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    local.close()
    assert not folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="names the account on Linux alone")
@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root can be another account")
@pytest.mark.parametrize("account", [0, 65534])
def test_another_account_is_cut_off_even_where_the_folder_lets_it_in(context, account):
    local = LocalAddresses()
    bind(context.socket(zmq.PUSH), local.get("rows"))
    path = Path(local.get("rows").removeprefix("ipc://"))
    path.parent.chmod(0o755)
    path.chmod(0o777)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(5.0)
        os.seteuid(account)
        try:
            stranger.connect(str(path))
        finally:
            os.seteuid(0)
        assert bool(stranger.recv(1)) == (account == 0)  # the greeting
    local.close()


@pytest.mark.skipif(os.name != "posix", reason="Unix sockets with permissions are POSIX's")
@pytest.mark.parametrize("letter", ["x", "ü"])  # of one byte, and of two
def test_a_long_path_for_temporary_files_is_not_used_for_sockets(
    context, temporary, monkeypatch, letter
):
    deep = temporary / (letter * (100 if letter == "x" else 45))
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    local = LocalAddresses()
    pair(context, local.get("n" * MAX_NAME))
    assert not list(deep.iterdir())
    local.close()


def test_a_key_of_the_session_opens_loopback_sockets(context, loopback):
    near, far = pair(context, loopback.get("rows"))
    near.send(b"row")
    assert far.poll(5000)
    assert far.recv() == b"row"


def test_a_started_process_has_the_key_from_its_environment(context, loopback, monkeypatch):
    near = context.socket(zmq.PUSH)
    address = bind(near, loopback.get("rows"))
    secret = loopback.environment[KEY_VARIABLE]
    loopback.close()  # what this process knows of it
    monkeypatch.setenv(KEY_VARIABLE, secret)
    far = context.socket(zmq.PULL)
    connect(far, address)
    near.send(b"row")
    assert far.poll(5000)


@pytest.mark.parametrize("curve", [False, True])
def test_a_stranger_gets_nothing_from_a_loopback_socket(context, loopback, curve):
    near, far = pair(context, loopback.get("rows"))
    stranger = context.socket(zmq.PULL)
    if curve:  # with keys, but not the session's
        stranger.curve_serverkey, _ = zmq.curve_keypair()
        stranger.curve_publickey, stranger.curve_secretkey = zmq.curve_keypair()
    stranger.connect(near.getsockopt_string(zmq.LAST_ENDPOINT))
    assert near.poll(5000, zmq.POLLOUT)  # the session's own
    for _ in range(50):
        near.send(b"row")
    for _ in range(50):
        assert far.poll(5000)
        far.recv()
    assert not stranger.poll(50)


def test_what_is_bound_after_a_guarded_address_is_open(context, loopback):
    near = context.socket(zmq.PUB)
    bind(near, loopback.get("telemetry"))
    public = bind(near, "tcp://127.0.0.1:*")
    watcher = context.socket(zmq.SUB)
    watcher.subscribe(b"")
    connect(watcher, public)
    for _ in range(250):
        near.send(b"status")
        if watcher.poll(20):
            break
    assert watcher.recv(zmq.NOBLOCK) == b"status"
