"""What answers at the page's address before the page has loaded, and after its session."""

import http.client
import json
import re
import socket
import struct
import threading
import urllib.request

import pytest
import zmq

from hilrt.monitor.read_token import bind_page, close
from hilrt.monitor.telemetry import Status, encode
from hilrt.web import plain_server
from hilrt.web.page_access import PROXY_VARIABLE
from hilrt.web.plain_server import STATUS, Answer, EndedPage, PlainServer, WaitingPage, how_it_ended
from tests.scenarios.sessions import until

TOKEN = "read-token"


def get(port, path, host=None, token=TOKEN):
    """Status and body of a request, under the name `host`, with the token that readers need."""
    path += f"{'&' if '?' in path else '?'}token={token}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10.0)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_what_is_waited_for_is_told_before_the_page_has_loaded(unused_tcp_port):
    context = zmq.Context()
    telemetry = context.socket(zmq.PUB)
    source = telemetry.bind_to_random_port("tcp://127.0.0.1")
    sockets = bind_page(f"127.0.0.1:{unused_tcp_port}")
    page = WaitingPage(sockets, "127.0.0.1", unused_tcp_port, f"tcp://127.0.0.1:{source}", TOKEN)
    status = Status(session="<s>", state="CONNECTING", message="waiting for engine", waited_s=3.2)
    try:
        assert "the session starts" in get(unused_tcp_port, "/")[1]

        def told():
            telemetry.send_multipart([STATUS, encode(status)])
            return "waiting for engine (3 s)" in get(unused_tcp_port, "/")[1]

        until(told, "the status")
        with urllib.request.urlopen(f"http://127.0.0.1:{unused_tcp_port}/?token={TOKEN}") as answer:
            (nonce,) = re.findall(r'<script nonce="(\S+)">', answer.read().decode())
            assert f"'nonce-{nonce}'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "&lt;s&gt;: CONNECTING" in get(unused_tcp_port, "/")[1]
        assert get(unused_tcp_port, "/ended.json")[0] == 404  # which makes an old page load anew
        assert get(unused_tcp_port, "/", host=f"evil.example:{unused_tcp_port}")[0] == 403
        assert get(unused_tcp_port, "/", token="guess")[0] == 403
    finally:
        page.stop()
        context.destroy(linger=0)
    assert sockets[0].fileno() >= 0  # the page's server goes on with it
    close(sockets)


def test_what_is_no_address_is_refused_without_a_traceback(unused_tcp_port, capsys):
    sockets = bind_page(f"127.0.0.1:{unused_tcp_port}")
    server = PlainServer(sockets, "127.0.0.1", unused_tcp_port, TOKEN, lambda path: Answer(b"page"))
    try:
        with socket.create_connection(("127.0.0.1", unused_tcp_port)) as stranger:
            host = f"127.0.0.1:{unused_tcp_port}"
            stranger.sendall(
                f"GET http://[/?token={TOKEN} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode()
            )
            assert stranger.makefile().readline().split()[1] == "403"
    finally:
        server.stop()
        close(sockets)
    assert capsys.readouterr().err == ""


def test_a_browser_that_goes_away_in_a_request_leaves_no_traceback(unused_tcp_port, capsys):
    sockets = bind_page(f"127.0.0.1:{unused_tcp_port}")
    server = PlainServer(sockets, "127.0.0.1", unused_tcp_port, TOKEN, lambda path: Answer(b"page"))
    try:
        with socket.create_connection(("127.0.0.1", unused_tcp_port)) as gone:
            at_once = struct.pack("ii", 1, 0)  # closing resets the connection
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            gone.sendall(b"GET / HT")
        assert get(unused_tcp_port, "/") == (200, "page")  # requests are served one by one
    finally:
        server.stop()
        close(sockets)
    assert capsys.readouterr().err == ""


@pytest.fixture
def plain(unused_tcp_port):
    sockets = bind_page(f"127.0.0.1:{unused_tcp_port}")
    server = PlainServer(sockets, "127.0.0.1", unused_tcp_port, TOKEN, lambda path: Answer(b"page"))
    server.port = unused_tcp_port
    yield server
    close(sockets)


class Drip(threading.Thread):
    """A stranger that sends its request byte by byte until it is cut off; at most 400 bytes."""

    def __init__(self, port):
        super().__init__()
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.settimeout(10.0)
        self.connection.sendall(b"GET /")
        self.over, self.cut = threading.Event(), False
        self.start()

    def run(self):
        with self.connection:
            for _ in range(400):
                try:
                    self.connection.sendall(b"x")
                except OSError:
                    self.cut = True
                    return
                if self.over.wait(0.02):
                    return


def test_who_sends_byte_by_byte_keeps_nobody_waiting_and_is_cut_off(plain):
    drips = [Drip(plain.port) for _ in range(3)]
    assert get(plain.port, "/") == (200, "page")
    for drip in drips:
        drip.join()
    assert all(drip.cut for drip in drips)  # while the server runs: each request has a deadline
    plain.stop()


def test_a_stop_does_not_wait_for_who_sends_byte_by_byte(plain, monkeypatch):
    monkeypatch.setattr(plain_server, "REQUEST_S", 1e6)
    drips = [Drip(plain.port) for _ in range(3)]
    assert get(plain.port, "/") == (200, "page")
    plain.stop()
    for drip in drips:
        drip.join()
    assert all(drip.cut for drip in drips)


def test_silent_connections_beyond_the_limit_give_way(plain, monkeypatch):
    monkeypatch.setattr(plain_server, "REQUEST_S", 1e6)
    many = plain_server.MAX_CONNECTIONS + 5
    silent = [socket.create_connection(("127.0.0.1", plain.port)) for _ in range(many)]
    for _ in range(3):
        assert get(plain.port, "/") == (200, "page")
    plain.stop()
    for one in silent:
        with one:
            one.settimeout(10.0)
            assert one.recv(1) == b""


def test_a_reader_that_does_not_read_does_not_keep_the_server_from_stopping(unused_tcp_port):
    sockets = bind_page(f"127.0.0.1:{unused_tcp_port}")
    large = Answer(bytes(50_000_000))
    server = PlainServer(sockets, "127.0.0.1", unused_tcp_port, TOKEN, lambda path: large)
    with socket.create_connection(("127.0.0.1", unused_tcp_port)) as lazy:
        host = f"Host: 127.0.0.1:{unused_tcp_port}"
        lazy.sendall(f"GET /?token={TOKEN} HTTP/1.0\r\n{host}\r\n\r\n".encode())
        assert lazy.recv(9) == b"HTTP/1.0 "
        server.stop()
    close(sockets)


def test_a_page_gets_the_end_and_the_report(unused_tcp_port, tmp_path):
    report = tmp_path / "report.html"
    report.write_text("<p>the report</p>")
    over, page = threading.Event(), EndedPage(f"127.0.0.1:{unused_tcp_port}", "ended: stopped")

    def speak():
        with page:
            over.wait()
            page.report = report

    thread = threading.Thread(target=speak)
    thread.start()

    def ask():
        return json.loads(get(unused_tcp_port, "/ended.json?page=a")[1])

    until(lambda: page.answers, "an answer")
    assert ask() == {"text": "ended: stopped", "report": False, "over": False}
    assert get(unused_tcp_port, "/report.html?page=a")[0] == 404
    assert get(unused_tcp_port, "/ended.json?page=a", token="")[0] == 403
    over.set()
    until(lambda: ask()["report"], "the report")
    assert thread.is_alive()  # until the page has it
    assert get(unused_tcp_port, "/report.html?page=a") == (200, "<p>the report</p>")
    thread.join()
    with socket.create_server(("127.0.0.1", unused_tcp_port)):
        pass


def test_a_page_is_told_that_there_is_no_report(unused_tcp_port, monkeypatch):
    page = EndedPage(f"127.0.0.1:{unused_tcp_port}", "ended: fault, gone")
    told = []

    def ask(*_):
        told.append(json.loads(page.answer("/ended.json?page=a").content)["over"])

    monkeypatch.setattr(plain_server.time, "sleep", ask)
    with page:
        ask()
    assert told == [False, True]  # the page is waited for until it knows, and no longer


def test_nothing_is_waited_for_where_no_page_asks(unused_tcp_port, monkeypatch):
    waits = []
    monkeypatch.setattr(plain_server, "QUIET_S", 0.0)
    monkeypatch.setattr(plain_server.time, "sleep", waits.append)
    with EndedPage(f"127.0.0.1:{unused_tcp_port}", "ended: stopped"):
        pass
    assert not waits


def test_the_next_session_at_the_address_speaks_for_itself(unused_tcp_port):
    with (
        socket.create_server(("127.0.0.1", unused_tcp_port)),
        EndedPage(f"127.0.0.1:{unused_tcp_port}", "ended: stopped") as page,
    ):
        assert not page.answers


def test_names_of_a_proxy_are_answered(unused_tcp_port, monkeypatch):
    monkeypatch.setattr(plain_server, "QUIET_S", 0.0)
    monkeypatch.setenv(PROXY_VARIABLE, "bench.example.org,other.example")
    with EndedPage(f"127.0.0.1:{unused_tcp_port}", "ended: stopped"):
        found = [
            get(unused_tcp_port, "/report.html", host=host)[0]
            for host in ("bench.example.org", "evil.example", f"localhost:{unused_tcp_port}")
        ]
    assert found == [404, 403, 404]


@pytest.mark.parametrize(
    ("summary", "fault", "said"),
    [
        ({"verdict": "good"}, None, "ended: stopped, good"),
        (
            {"verdict": "degraded", "evidence_lacking": True},
            None,
            "ended: stopped, degraded for lack of evidence",
        ),
        ({}, None, "ended: stopped"),
        ({"verdict": "unreliable"}, "engine is gone", "ended: fault, engine is gone"),
    ],
)
def test_end_in_words(summary, fault, said):
    assert how_it_ended(summary, fault) == said
