"""Strangers on the port of the page or the bridge: they are cut off, and keep nobody out."""

import asyncio
import socket

import pytest

pytest.importorskip("tornado", reason="page and bridge need hilrt[web]")

from tornado.web import Application, RequestHandler

from hilrt.monitor import limited_server
from hilrt.monitor.limited_server import LimitedServer, trust
from hilrt.monitor.read_token import listen_at


class Page(RequestHandler):
    def get(self):
        if self.get_query_argument("token", "") == "token":
            trust(self.request)
        self.finish("page")


@pytest.fixture
async def port(unused_tcp_port):
    sockets = listen_at("127.0.0.1", unused_tcp_port)
    for one in sockets:
        one.setblocking(False)
    server = LimitedServer(Application([("/.*", Page)]))
    server.add_sockets(sockets)
    yield unused_tcp_port
    server.stop()
    await server.close_all_connections()


async def ask(port, path="/?token=token"):
    """Reader and writer of a connection, after an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(4) == b"page"
    return reader, writer


async def closed(reader):
    """Wait, at most 10 s, until the server has closed a connection."""
    async with asyncio.timeout(10.0):
        await reader.read()


async def test_a_request_in_pieces_is_cut_off_at_its_deadline(port, monkeypatch):
    monkeypatch.setattr(limited_server, "REQUEST_S", 0.1)
    sockets = listen_at("127.0.0.1", 0)
    for one in sockets:
        one.setblocking(False)
    server = LimitedServer(Application([("/.*", Page)]))
    server.add_sockets(sockets)
    other = sockets[0].getsockname()[1]
    for beginning in (b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"):
        reader, writer = await asyncio.open_connection("127.0.0.1", other)
        writer.write(beginning)
        await closed(reader)
        assert reader.at_eof()
        writer.close()
    server.stop()


async def test_a_stranger_has_its_time_and_who_knows_the_token_stays(port, monkeypatch):
    monkeypatch.setattr(limited_server, "STRANGER_S", 0.05)
    known, kept = await ask(port)
    stranger, cut = await ask(port, "/")
    await closed(stranger)
    assert not known.at_eof()
    for writer in (kept, cut):
        writer.close()


async def test_strangers_beyond_the_number_give_way_to_who_comes(port, monkeypatch):
    monkeypatch.setattr(limited_server, "MAX_CONNECTIONS", 4)
    known = [await ask(port) for _ in range(2)]
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
    newest = await ask(port)
    for reader, _ in silent[:5]:
        await closed(reader)
    assert not any(reader.at_eof() for reader, _ in [*known, newest])
    for _, writer in [*silent, *known, newest]:
        writer.close()


async def test_a_body_beyond_all_measure_is_refused(port):
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(one, b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n")
        assert (await loop.sock_recv(one, 100)).startswith(b"HTTP/1.1 400")
