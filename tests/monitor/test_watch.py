"""``hilrt watch``: the terminal view of a session elsewhere, and keys for who has the token."""

import threading

import pytest
import zmq
from rich.console import Console

from hilrt.monitor import screen, stream, watch
from hilrt.monitor.operator_commands import TOKEN_VARIABLE, Reply
from hilrt.monitor.operator_keys import OperatorKeys
from hilrt.monitor.screen import SILENCE_S
from hilrt.monitor.stream import Head
from hilrt.monitor.telemetry import encode
from hilrt.monitor.viewer import Viewer
from hilrt.monitor.watch import RemoteWatcher
from tests.monitor.test_relay import Bench
from tests.monitor.test_terminal import RUNNING, STOPPED


@pytest.fixture(autouse=True)
def _signals_are_left_alone(monkeypatch):
    monkeypatch.setattr(watch.signal, "signal", lambda *_: None)


def test_what_is_no_address_is_a_clear_error(capsys):
    assert watch.main("bench-pc") == 2
    assert "write it as tcp://HOST:PORT" in capsys.readouterr().err


def test_nothing_heard_is_a_clear_error(capsys, monkeypatch, unused_tcp_port):
    monkeypatch.setattr(watch, "CONNECT_S", 0.2)
    assert watch.main(f"tcp://127.0.0.1:{unused_tcp_port}") == 3
    assert "check the address" in capsys.readouterr().err


@pytest.fixture
def ending_session():
    """Address of a session elsewhere that is heard to run and to have stopped."""
    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    ended = threading.Event()

    def publish():
        while not ended.wait(0.02):
            for status in (RUNNING, STOPPED):
                socket.send_multipart([stream.STATUS, encode(status)])

    thread = threading.Thread(target=publish)
    thread.start()
    yield f"tcp://127.0.0.1:{port}"
    ended.set()
    thread.join()
    context.destroy(linger=0)


def test_session_elsewhere_is_shown_until_its_end(ending_session, capsys):
    assert watch.main(ending_session, plain=True) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1].startswith("engine-in-the-loop: STOPPED")


def test_panel_leaves_the_end_behind(ending_session, capsys, monkeypatch):
    """It goes away; how the session ended stays."""
    monkeypatch.setattr(watch, "run", run_on_a_terminal)
    assert watch.main(ending_session) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1].endswith("engine-in-the-loop: STOPPED, at 12.3 s, degraded, finished")


def run_on_a_terminal(source, console, plain, print_end):
    screen.run(source, Console(force_terminal=True, width=100, height=30), plain, print_end)


def test_silence_ends_the_view_after_the_stated_time(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(watch, "Viewer", lambda *_, **__: viewer)
    viewer = Viewer("tcp://127.0.0.1:9", clock=lambda: now[0])
    viewer.receive([stream.STATUS, encode(RUNNING)])
    watcher = RemoteWatcher(viewer)
    watcher.poll(0)
    for now[0], silent in ((4.0, False), (SILENCE_S - 0.1, False), (SILENCE_S + 0.1, True)):
        watcher.poll(0)
        assert watcher.silent == silent
    assert watch.main("tcp://127.0.0.1:9", plain=True) == 3
    assert "silent for 30 s" in capsys.readouterr().out


@pytest.fixture
def viewer():
    made = Viewer("tcp://127.0.0.1:9")
    made.head = Head(session="s", commands=9)
    yield made
    made.close()


def test_without_a_token_there_is_nobody_to_ask(viewer, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert RemoteWatcher(viewer).client() is None
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    assert RemoteWatcher(viewer).client() is not None


def test_session_that_takes_no_commands_from_elsewhere(viewer, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    viewer.head = Head(session="s")
    assert RemoteWatcher(viewer).client() is None


@pytest.mark.parametrize("token", ["token", "guess"])
def test_keys_work_with_the_token_alone(token, monkeypatch, unused_tcp_port):
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    address = f"tcp://127.0.0.1:{unused_tcp_port}"
    bench = Bench(public_telemetry=address, public_commands="tcp://127.0.0.1:*")
    viewer = Viewer(address, signals=False)
    try:
        watcher = RemoteWatcher(viewer)
        bench.until(lambda: viewer.poll(20) and viewer.head)
        assert watcher.client().connected(10.0)
        keys = OperatorKeys(watcher.client(), watcher.key)
        keys.type("mknock\r", None)
        if token == "token":
            assert bench.obey_one(Reply(True, "noted")).text == "knock"
        bench.until(lambda: keys.show_replies() or keys.line != "sent")
        shown = keys.line
    finally:
        viewer.close()
        bench.close()
    assert shown == ("noted" if token == "token" else "not done: refused: wrong token")
