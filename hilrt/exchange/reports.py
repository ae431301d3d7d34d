"""Messages of subsystems for users, and errors about missing samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hilrt.errors import PeerLost
from hilrt.exchange.channel_table import ChannelTable
from hilrt.link import Carrier, Link
from hilrt.peers.wire import Event
from hilrt.sequences.bench import STEP

#: Maximum messages returned per call, so that a subsystem that sends many does not delay ticks.
REPORTS_AT_ONCE = 20


class Reports:
    """Collected messages of the subsystems.

    Parameters
    ----------
    carrier : Carrier or None
        Connection shared by the remote subsystems; lists those with messages.
    links : sequence of Link
        All links; those that do not share the carrier are polled.

    Attributes
    ----------
    any : bool
        Whether any link can send messages.
    """

    def __init__(self, carrier: Carrier | None, links: Sequence[Link] = ()) -> None:
        self._reporting = {} if carrier is None else carrier.reporting
        self._local = [link for link in links if link.events is not None and link.carrier is None]
        self.any = carrier is not None or bool(self._local)
        self._last: dict[str, str] = {}
        self._steps: dict[str, str] = {}

    def take(self) -> list[tuple[str, Event]]:
        """Return at most `REPORTS_AT_ONCE` new messages, each with its subsystem."""
        found: list[tuple[str, Event]] = []
        for link in self._local:
            self._take(link.name, link.events or deque(), found)
        # Sorted, so that the order does not depend on the speed of the processes.
        for remote in sorted(self._reporting, key=lambda link: link.name):
            self._take(remote.name, remote.events, found)
            if not remote.events:
                del self._reporting[remote]
        return found

    def _take(self, name: str, events: deque[Event], found: list[tuple[str, Event]]) -> None:
        while events and len(found) < REPORTS_AT_ONCE:
            event = events.popleft()
            found.append((name, event))
            if event.cause == STEP:
                self._steps[name] = event.text
            elif event.level != "info":
                self._last[name] = event.text

    def step_of(self, name: str) -> str:
        """Line and text of a sequence's newest step in the messages returned so far, or empty."""
        return self._steps.get(name, "")

    def last_of(self, name: str) -> str:
        """Newest warning or error of a subsystem in the messages returned so far; empty if none."""
        return self._last.get(name, "")


class MissedSamples:
    """Errors about missing samples, which end a session, from the data of the `ChannelTable`.

    Parameters
    ----------
    links : sequence of Link
    table : ChannelTable
    reports : Reports
    """

    def __init__(self, links: Sequence[Link], table: ChannelTable, reports: Reports) -> None:
        self._links, self._table, self._reports = links, table, reports

    def too_many(self, s: int) -> PeerLost:
        """Error for a subsystem `s` that has exceeded its limit of consecutive missed ticks."""
        row, name = self._table.rows[s], self._links[s].name
        self._reports.take()
        last = self._reports.last_of(name)
        why = self._absent(s) or (f"; it reported: {last}" if last else "") + self._dropped(s)
        return PeerLost(
            name,
            f"no sample for {row.misses} ticks (late.max_misses is {row.max_misses}); "
            f"newest sample is {row.age:.3f} s old{why}",
        )

    def no_answer(self, s: int, t_ns: int, timeout: float) -> PeerLost:
        """Error for a subsystem `s` without a reply to the step to `t_ns` within `timeout` [s]."""
        self._links[s].lost += 1
        why = self._absent(s) or f"{self._dropped(s)}; see its log"
        return PeerLost(
            self._links[s].name,
            f"no answer to the step towards t = {t_ns * 1e-9:g} s within {timeout:g} s "
            f"(master.step_timeout){why}",
        )

    def _absent(self, s: int) -> str:
        """Reason for the absence of a subsystem that may return."""
        absent = self._links[s].absent
        return f"; it has not returned: {absent}" if absent else ""

    def _dropped(self, s: int) -> str:
        """Mention messages of a subsystem that could not be used."""
        link = self._links[s]
        dropped = "" if link.carrier is None else link.carrier.why_dropped(link.name)
        return f"; {dropped}" if dropped else ""
