"""Where the page is served, and whom it answers."""

import re

import pytest

pytest.importorskip("bokeh", reason="the page needs hilrt[web]")

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from hilrt.peers.addresses import parse_address
from hilrt.web import server as web_server
from hilrt.web.page_access import NOTHING_RUNS, own_names
from hilrt.web.server import main, make_server
from hilrt.web.shared_session import SharedSession
from tests.web.views import RUNNING, StillViewer


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("5118", "127.0.0.1"),
        (":5118", "127.0.0.1"),
        ("0.0.0.0:5118", "0.0.0.0"),
        ("[::1]:5118", "::1"),
    ],
)
def test_a_bare_port_is_for_this_machine_alone(text, host):
    assert parse_address(text) == (host, 5118)


@pytest.mark.parametrize("text", ["127.0.0.1:99999", "127.0.0.1:0", "here", "127.0.0.1:", ""])
def test_what_is_no_address_is_said_with_a_remedy(text, capsys):
    assert main(["--connect", "tcp://127.0.0.1:9", "--page", text]) == 2
    assert capsys.readouterr().err.startswith(f"--page {text}: write it as ADDRESS:PORT or PORT")


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("", "http://127.0.0.1:{port}/?token=read-token\n"),
        ("0.0.0.0:", "http://0.0.0.0:{port}/?token=read-token (anyone who reaches"),
    ],
)
def test_start_says_where_and_to_whom(host, said, unused_tcp_port, monkeypatch, capsys):
    bound = []

    def make(source, host, port, token, sockets):
        server = make_server(source, host, port, token, sockets)
        bound.extend(s.getsockname()[0] for s in server._http._sockets.values())
        server.io_loop.add_callback(server.io_loop.stop)
        return server

    monkeypatch.setattr(web_server, "make_server", make)
    monkeypatch.setattr(web_server.signal, "signal", lambda *_: None)
    assert main(["--connect", "tcp://127.0.0.1:9", "--page", f"{host}{unused_tcp_port}"]) == 0
    assert bound == [host.rstrip(":") or "127.0.0.1"]
    assert f"page: {said.format(port=unused_tcp_port)}" in capsys.readouterr().out


def test_names_of_a_page_for_one_network():
    assert own_names("192.168.1.5", 80) >= {"192.168.1.5:80", "localhost:80", "127.0.0.1:80"}
    assert own_names("::1", 80) >= {"[::1]:80"}


async def test_every_answer_says_what_the_browser_may_do_with_it(unused_tcp_port):
    viewer = StillViewer(RUNNING)
    server = make_server(SharedSession(viewer), "127.0.0.1", unused_tcp_port, "token")
    server.start()
    policies, texts = {}, {}
    try:
        for path, name in [("", ""), ("", ""), ("metrics", ""), ("none", ""), ("", "evil.example")]:
            host = {"Host": name} if name else {}
            request = HTTPRequest(
                f"http://127.0.0.1:{unused_tcp_port}/{path}?token=token", headers=host
            )
            answer = await AsyncHTTPClient().fetch(request, raise_error=False)
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            policy = answer.headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in policy
            assert "unsafe-inline" not in policy.partition("style-src")[0]
            policies.setdefault((path, name), []).append(policy)
            texts[path, name] = answer.body.decode()
    finally:
        server.stop()
        server.unlisten()
        viewer.close()
    first, second = policies.pop(("", ""))
    assert first != second  # a nonce is for one answer
    assert {policy for (policy,) in policies.values()} == {NOTHING_RUNS}
    (nonce,) = re.findall(r"'nonce-(\S+)'", second)
    inline = re.findall(r"<script(?![^>]* src=)[^>]*>", texts["", ""])
    assert len(inline) == 3
    assert all(f'nonce="{nonce}"' in tag for tag in inline)


async def asked(port, name, origin, query="?token=token", bearer=""):
    """Status of page, metrics and WebSocket, asked for under a name, from an origin."""
    found = []
    own = {"Host": name} | ({"Authorization": bearer} if bearer else {})
    for path in ("", "metrics"):
        request = HTTPRequest(f"http://127.0.0.1:{port}/{path}{query}", headers=own)
        answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        found.append(answer.code)
    request = HTTPRequest(f"ws://127.0.0.1:{port}/ws{query}", headers=own | {"Origin": origin})
    try:
        (await websocket_connect(request, subprotocols=["bokeh", "eyJ9"])).close()
    except HTTPClientError as error:
        return [*found, error.code]
    return [*found, 101]


@pytest.mark.parametrize(
    ("bound", "name", "origin", "codes"),
    [
        ("127.0.0.1", "localhost:{port}", "localhost:{port}", [200, 200, 101]),
        ("127.0.0.1", "localhost:{port}", "evil.example", [200, 200, 403]),
        ("127.0.0.1", "evil.example:{port}", "evil.example:{port}", [403, 403, 403]),
        ("127.0.0.1", "10.0.0.5:{port}", "10.0.0.5:{port}", [403, 403, 403]),
        ("0.0.0.0", "10.0.0.5:{port}", "10.0.0.5:{port}", [200, 200, 101]),
        ("0.0.0.0", "evil.example:{port}", "evil.example:{port}", [403, 403, 403]),
        ("127.0.0.1", "bench.example.org", "bench.example.org", [200, 200, 101]),
    ],
)
async def test_only_names_of_its_own_are_answered(
    bound, name, origin, codes, unused_tcp_port, monkeypatch
):
    """A page whose name was made to point here would be its own origin otherwise."""
    if name == "bench.example.org":
        monkeypatch.setenv("BOKEH_ALLOW_WS_ORIGIN", name)
    viewer = StillViewer(RUNNING)
    server = make_server(SharedSession(viewer), bound, unused_tcp_port, "token")
    server.start()
    name, origin = (text.format(port=unused_tcp_port) for text in (name, origin))
    try:
        assert await asked(unused_tcp_port, name, f"http://{origin}") == codes
    finally:
        server.stop()
        server.unlisten()
        viewer.close()


@pytest.mark.parametrize(
    ("query", "bearer", "codes"),
    [
        ("", "", [403, 403, 403]),
        ("?token=", "", [403, 403, 403]),
        ("?token=guess", "", [403, 403, 403]),
        ("?token=t%C3%B6ken", "", [403, 403, 403]),
        ("", "Bearer guess", [403, 403, 403]),
        ("", "Basic dG9rZW4=", [403, 403, 403]),
        ("", "Bearer token", [200, 200, 101]),
        ("?token=token", "", [200, 200, 101]),
    ],
)
async def test_nothing_is_read_without_the_token(query, bearer, codes, unused_tcp_port):
    viewer = StillViewer(RUNNING)
    server = make_server(SharedSession(viewer), "127.0.0.1", unused_tcp_port, "token")
    server.start()
    name = f"127.0.0.1:{unused_tcp_port}"
    try:
        assert await asked(unused_tcp_port, name, f"http://{name}", query, bearer) == codes
        hidden = f"http://{name}/autoload.js?bokeh-autoload-element=1000"
        assert (await AsyncHTTPClient().fetch(hidden, raise_error=False)).code == 403
    finally:
        server.stop()
        server.unlisten()
        viewer.close()
