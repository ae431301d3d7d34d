"""At the end of a session each part is closed, whatever another one came to."""

from types import SimpleNamespace

import pytest

from hilrt.session.closing import close_session


class Link:
    def __init__(self, closed, name, error=None):
        self.closed, self.name, self.error = closed, name, error

    async def close(self):
        self.closed.append(self.name)
        if self.error is not None:
            raise self.error


async def test_a_link_that_cannot_be_closed_keeps_nothing_open(monkeypatch):
    closed = []

    async def done(parts):
        closed.append("done")

    for name in ("_end_log", "_end_processes"):
        monkeypatch.setattr(f"hilrt.session.closing.{name}", done)
    monkeypatch.setattr("hilrt.session.closing._write_summary", lambda parts: None)
    parts = SimpleNamespace(
        processes=SimpleNamespace(ending=False),
        result=SimpleNamespace(),
        brought_down=True,
        links=[Link(closed, "one"), Link(closed, "two", OSError("gone"))],
        hub=SimpleNamespace(close=lambda: closed.append("hub")),
    )
    with pytest.raises(OSError, match="gone"):
        await close_session(parts)
    assert sorted(closed) == ["done", "done", "hub", "one", "two"]
