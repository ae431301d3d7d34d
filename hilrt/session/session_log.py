"""The log of a session that runs: its recorder process, and what the log says of the session."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hilrt.check.check_record import build_trigger
from hilrt.config.session_file import SessionFile
from hilrt.errors import PeerLost
from hilrt.link import Link
from hilrt.monitor.monitoring import topology
from hilrt.record.facts import attachments_of, collect_facts
from hilrt.record.feed import Attachment, Feed, NullFeed
from hilrt.record.messages import Trigger
from hilrt.record.signals import build_topics
from hilrt.session.assembly import Initialized, Numerics
from hilrt.session.spawn import Children

#: How long the recorder may take to start, s.
START_TIMEOUT = 10.0
#: A recorder that cannot follow holds up a session in virtual time for at most that long, s.
PATIENCE_S = 10.0


class SessionLog:
    """Opens, begins and ends a session's log.

    Parameters
    ----------
    file : SessionFile
    folder : Path
        The run folder.
    links : sequence of Link
        The session's, which may still grow until `open`.

    Attributes
    ----------
    feed : Feed or None
        Where rows and events go; None before it is made.
    """

    def __init__(self, file: SessionFile, folder: Path, links: Sequence[Link]) -> None:
        self._file, self._folder, self._links = file, folder, links
        self._attachments: list[Attachment] = []
        self._trigger: Trigger | None = None
        self.feed: Feed | None = None

    def leave_out(self, numerics: Numerics) -> None:
        """Nothing is recorded."""
        self.feed = NullFeed(build_topics(numerics.plan))

    async def open(
        self,
        numerics: Numerics,
        initialized: Initialized,
        children: Children,
        *,
        cpus: Iterable[int],
        real_time: bool,
        tap: str = "",
        frames: str = "",
    ) -> None:
        """Start the recorder and wait until it listens.

        Parameters
        ----------
        numerics, initialized
            What the log is to be replayed from.
        children : Children
            Starts the recorder on the processors `cpus`.
        real_time : bool
            Whether rows that the recorder cannot take are dropped, and counted, at once.
        tap, frames : str
            Address that gets the rows, too, for views; address at which CAN frames come in.

        Raises
        ------
        PeerLost
            If it does not start in time.
        """
        plan, state, _ = numerics
        topics = build_topics(plan)
        self._trigger = build_trigger(self._file.tables, topics)
        facts = collect_facts(self._links, plan, state, initialized.samples, initialized.u0)
        self._attachments = attachments_of(self._file, self._links, facts)
        self.feed = feed = Feed(topics, patience_s=0.0 if real_time else PATIENCE_S)
        argv = [sys.executable, "-m", "hilrt.session.recorder_process", "--connect", feed.address]
        argv += ["--tap", tap] if tap else []
        argv += ["--frames", frames] if any(link.buses for link in self._links) else []
        children.start("recorder", argv, affinity=cpus, nice=5)
        limit = max(START_TIMEOUT, self._file.tables.master.connect_timeout)
        deadline = time.monotonic() + limit
        while not feed.ready:
            if time.monotonic() > deadline or "recorder" not in children.running():
                raise PeerLost("recorder", "did not start; see logs/recorder.log in the run folder")
            await asyncio.sleep(0.01)

    def begin(
        self, wall_epoch_ns: int, clock_ns: int, *, duration: float, pace: str, shadow: bool
    ) -> None:
        """Session time 0 is `wall_epoch_ns` on the system's clock, `clock_ns` on the monotonic."""
        assert self.feed is not None
        tables = self._file.tables
        bonds = [
            {"name": bond.name, "effort": " + ".join(bond.efforts), "flow": bond.flow}
            for bond in tables.bonds
        ]
        metadata = {
            "overrides": json.dumps(self._file.overrides),
            "duration_s": repr(duration),
            "pace": pace,
            "shadow": str(shadow),
            "session_file": self._file.path.name,
            "topology": msgspec.json.encode(topology(tables)).decode(),
            "bonds": json.dumps(bonds),
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

    async def end(self, summary: dict[str, Any]) -> list[str]:
        """Have the recorder close the file; what was lost, in words."""
        if self.feed is None:
            return []
        text = json.dumps(summary, indent=1).encode()
        await asyncio.to_thread(self.feed.end, text)
        self.feed.close()
        return self.feed.losses()
