"""At the end of a session each part is closed, whatever another one came to."""

from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from hilrt.session import session
from hilrt.session.opening import Described
from hilrt.session.session import close_described, close_opened


class Link:
    def __init__(self, closed, name, error=None):
        self.closed, self.name, self.error = closed, name, error

    async def close(self):
        self.closed.append(self.name)
        if self.error is not None:
            raise self.error


async def test_a_link_that_cannot_be_closed_keeps_nothing_open(monkeypatch):
    closed = []

    def closes(name):
        return lambda *given: closed.append(name)

    async def secure(reason):
        closed.append("benches")

    async def end_log(*given):
        closed.append("log")

    async def end_processes(*given):
        closed.append("processes")

    monkeypatch.setattr(session, "_end_log", end_log)
    monkeypatch.setattr(session, "_end_processes", end_processes)
    opened = SimpleNamespace(
        result=SimpleNamespace(fault="gone", warnings=[]),
        hub=SimpleNamespace(close=closes("hub")),
        monitoring=SimpleNamespace(close=closes("views")),
        timing=SimpleNamespace(release=closes("timing")),
    )
    links = (Link(closed, "one"), Link(closed, "two", OSError("gone")))
    benches = SimpleNamespace(brought_down=False, secure=secure, not_at_rest=lambda: ["bench: no"])
    summary, alive = (
        SimpleNamespace(write=closes("summary")),
        SimpleNamespace(cancel=closes("alive")),
    )

    async def end():
        async with AsyncExitStack() as undo:
            close_opened(undo, opened, summary, alive)
            close_described(undo, opened, Described(None, links, ((), ())), benches)

    with pytest.raises(OSError, match="gone"):
        await end()
    first = ["benches", "two", "one", "hub", "log", "summary", "processes", "summary"]
    assert closed == [*first, "alive", "views", "timing"]
    assert opened.result.warnings == ["bench: no"]
