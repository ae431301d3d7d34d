"""As fast as possible, the recorder is waited for between two steps, and the event loop goes on."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from hilrt.record.messages import Signal, Topic
from hilrt.record.recorder_feed import RecorderFeed, open_feed_socket
from hilrt.session import session_log
from hilrt.session.session_log import wait_for_room


@pytest.fixture
def feed(tmp_path: Path):
    """A feed with rows that no recorder takes."""
    opened = open_feed_socket("tcp://127.0.0.1:*")
    topics = [Topic("t", [Signal("a")])]
    with contextlib.closing(RecorderFeed(topics, opened, holds_back=True)) as feed:
        feed.begin(tmp_path, "demo", 0)
        feed.commit(0)
        feed.flush()
        assert feed.behind
        yield feed


async def test_the_event_loop_goes_on_until_the_session_is_to_stop(feed: RecorderFeed) -> None:
    stop = asyncio.Event()
    wait = asyncio.ensure_future(wait_for_room(feed, stop.is_set))
    for _ in range(5):
        await asyncio.sleep(0)
        assert not wait.done()
    stop.set()
    await wait
    assert feed.behind  # the end of the log still has it
    assert not feed.dropped


async def test_a_recorder_that_has_ended_is_not_waited_for(feed: RecorderFeed) -> None:
    feed.recorder_runs = lambda: False
    await wait_for_room(feed, lambda: False)
    assert (feed.behind, feed.dropped) == (False, 1)


async def test_patience_has_an_end(feed: RecorderFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "PATIENCE_S", 0.0)
    await wait_for_room(feed, lambda: False)
    assert (feed.behind, feed.dropped) == (False, 1)
