"""Sockets within a session: what a stranger would have to know, or to be, to reach them."""

import os
import socket
import stat
import sys
from pathlib import Path

import pytest
import zmq

from hilrt.isolation.local_sockets import KEY_VARIABLE, MAX_NAME, LocalAddresses, bind, connect


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
def test_a_long_path_for_temporary_files_is_not_used_for_sockets(context, tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 100)
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
