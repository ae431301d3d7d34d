"""The log of a running session: its rows, and facts about the session."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import zmq

from hilrt.check.check_monitor import build_trigger
from hilrt.config.session_file import SessionFile
from hilrt.errors import PeerLost
from hilrt.files.formats import json_bytes
from hilrt.link import Link
from hilrt.monitor.stream import session_graph
from hilrt.record.feed import ProgressReceiver
from hilrt.record.recorder_feed import RecorderFeed
from hilrt.session.initialization import InitializedSession
from hilrt.session.spawn import Children
from hilrt.step.numerics import Numerics
from hilrt.step_log.facts import attachments_of, collect_facts, numerics_metadata
from hilrt.step_log.signals import build_topics
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping

#: Time limit for the recorder to start, s.
START_TIMEOUT = 10.0
#: Maximum time for which a slow recorder delays a session in virtual time, and interval at which it
#: is polled, s.
PATIENCE_S = 10.0
ASK_AGAIN_S = 0.002
#: Time limit for sending the end of the log to the recorder, s.
END_S = 5.0


async def wait_for_room(feed: RecorderFeed, stopping: Stopping) -> None:
    """Wait until the recorder has accepted queued rows; the event loop continues meanwhile.

    If the recorder has ended, or accepts nothing for `PATIENCE_S`, the wait ends and rows are lost.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not feed.hand_over() and not stopping():
        if time.monotonic() > deadline or not feed.recorder_runs():
            feed.give_up()
            return
        await asyncio.sleep(ASK_AGAIN_S)


class SessionLog:
    """The log of a recorded session, from its opening to its end.

    Parameters
    ----------
    file : SessionFile
    folder : Path
        The run folder.
    links : sequence of Link
        Links of the session.
    numerics, initialized
        Initial data for a replay of the log.
    opened : zmq.Socket
        Socket from `open_feed_socket`, from which the recorder receives rows and events.
    progress : str
        Address at which the recorder reports its progress.
    real_time : bool
        Whether rows that the recorder cannot accept are dropped and counted at once.

    Attributes
    ----------
    feed : RecorderFeed
        Destination of rows and events.
    progress : ProgressReceiver
    """

    def __init__(
        self,
        file: SessionFile,
        folder: Path,
        links: Sequence[Link],
        numerics: Numerics,
        initialized: InitializedSession,
        opened: zmq.Socket[bytes],
        progress: str,
        *,
        real_time: bool,
    ) -> None:
        self._file, self._folder, self._links = file, folder, links
        self._numerics = numerics
        topics = build_topics(numerics)
        self._trigger = build_trigger(file.tables, topics)
        facts = collect_facts(links, numerics, initialized.samples, initialized.u0)
        self._attachments = attachments_of(file, links, facts)
        self._multiplexers = [f"{link.name}.{port}" for link in links for port in link.multiplexers]
        self.feed = RecorderFeed(topics, opened, holds_back=not real_time)
        self.progress = ProgressReceiver(progress)
        self._ended_whole = False

    async def wait_for_recorder(self, children: Children) -> None:
        """Wait until the recorder accepts rows; `PeerLost` if it does not start in time."""
        limit = max(START_TIMEOUT, self._file.tables.master.connect_timeout)
        deadline = time.monotonic() + limit
        self.feed.recorder_runs = lambda: children["recorder"].returncode is None
        while not self.feed.ready:
            if time.monotonic() > deadline or "recorder" not in children.running():
                raise PeerLost("recorder", "did not start; see logs/recorder.log in the run folder")
            await asyncio.sleep(0.01)

    def begin(
        self, wall_epoch_ns: int, clock_ns: int, *, duration: float, pace: str, shadow: bool
    ) -> None:
        """Begin the log; time 0 is `wall_epoch_ns` (system clock) and `clock_ns` (monotonic)."""
        tables = self._file.tables
        metadata = {
            "overrides": json.dumps(self._file.overrides),
            "duration_s": repr(duration),
            "pace": pace,
            "shadow": str(shadow),
            "session_file": self._file.path.name,
            "benches": json.dumps([link.name for link in self._links if link.physical]),
            "topology": msgspec.json.encode(session_graph(tables)).decode(),
            "multiplexers": json.dumps(self._multiplexers),
            **numerics_metadata(self._numerics),
        }
        self.feed.begin(
            self._folder,
            tables.session.name,
            wall_epoch_ns,
            self._attachments,
            metadata,
            clock_ns=clock_ns,
            buses=[bus for link in self._links for bus in link.buses],
            trigger=self._trigger,
        )

    async def wait_for_room(
        self, point: CommunicationPoint, stopping: Stopping
    ) -> CommunicationPoint:
        """Wait between two steps until the recorder has accepted the rows of the last one."""
        if self.feed.behind:
            await wait_for_room(self.feed, stopping)
        return point

    async def end(self, summary: dict[str, Any]) -> None:
        """Have the recorder close the file, after it has received everything sent before."""
        text = json_bytes(summary)
        self._ended_whole = await asyncio.to_thread(self.feed.end, text, END_S)

    async def close(self, failed: bool) -> list[str]:
        """Close the sockets after the recorder has ended; return texts about losses.

        If the recorder has `failed`, everything that it had not reported as written is lost.
        """
        await asyncio.to_thread(self.feed.close)
        self.progress.poll()
        self.progress.close()
        written, unwritten = self.progress.newest, self.feed.unwritten
        unwritten.written(written.events)
        cut_off = failed or not self._ended_whole
        self.feed.lost_events = unwritten.lost(failed=cut_off)
        if cut_off:
            self.feed.events_dropped = max(self.feed.events_dropped, len(unwritten))
        if failed:
            lost = self.feed.rows - written.rows + written.missing
            self.feed.dropped = max(self.feed.dropped, lost)
        untaken = "recorder: the end of the log, with the summary, is lost"
        return self.feed.losses() or ([] if self._ended_whole else [untaken])
