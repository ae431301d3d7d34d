"""Whose samples are missing, for how long already, and what is known of the reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.errors import PeerLost
from hilrt.link import Link
from hilrt.peers.remote_link import RemoteLink
from hilrt.peers.wire import Event

#: Events taken at once: a talkative peer costs no ticks.
REPORTS_AT_ONCE = 20


class Absences:
    """Counts missing samples, and gives a subsystem up when there are too many in a row.

    Parameters
    ----------
    links : sequence of Link
    max_misses : sequence of int
        Consecutive due ticks without a sample after which each subsystem counts as lost.

    Attributes
    ----------
    late : ndarray of int, shape (n,)
        Ticks at which each subsystem's sample was late.
    in_a_row : list of int
        Due ticks without a sample, up to now.
    """

    def __init__(self, links: Sequence[Link], max_misses: Sequence[int]) -> None:
        self.late = np.zeros(len(links), dtype=np.intp)
        self.in_a_row = [0] * len(links)
        self._links = links
        self._remote = [link for link in links if isinstance(link, RemoteLink)]
        self._max_misses = list(max_misses)
        self._last_words: dict[str, str] = {}

    def count(self, s: int, *, due: bool, missing: bool, age: float) -> None:
        """Count a tick of one subsystem whose newest sample is `age` [s] old.

        Raises
        ------
        PeerLost
            If it has been missing for longer than its policy allows.
        """
        if not missing:
            self.in_a_row[s] = 0 if due else self.in_a_row[s]
            return
        self.late[s] += 1
        self.in_a_row[s] += 1
        if self.in_a_row[s] <= self._max_misses[s]:
            return
        self.reports()
        words = self._last_words.get(self._links[s].name)
        said = self._away(s) or (f"; it said: {words}" if words else "") + self._dropped(s)
        raise PeerLost(
            self._links[s].name,
            f"no sample for {self.in_a_row[s]} ticks (late.max_misses is {self._max_misses[s]}); "
            f"newest sample is {age:.3f} s old{said}",
        )

    def give_up(self, s: int, t_ns: int, timeout: float) -> PeerLost:
        """The error that a subsystem has not answered the step to `t_ns` within `timeout` [s]."""
        self._links[s].lost += 1
        why = self._away(s) or f"{self._dropped(s)}; see its log"
        return PeerLost(
            self._links[s].name,
            f"no answer to the step towards t = {t_ns * 1e-9:g} s within {timeout:g} s "
            f"(master.step_timeout){why}",
        )

    def reports(self) -> list[tuple[str, Event]]:
        """Subsystem and event: what they have told for people since the last call, some of it."""
        found: list[tuple[str, Event]] = []
        for link in self._remote:
            while link.events and len(found) < REPORTS_AT_ONCE:
                event = link.events.popleft()
                found.append((link.name, event))
                if event.level != "info":
                    self._last_words[link.name] = event.text
        return found

    def _away(self, s: int) -> str:
        """Why a subsystem that may come back is away, for a message."""
        absent = self._links[s].absent
        return f"; it has not come back: {absent}" if absent else ""

    def _dropped(self, s: int) -> str:
        """What came from a subsystem and could not be used, for a message."""
        link = self._links[s]
        dropped = link.why_dropped() if isinstance(link, RemoteLink) else ""
        return f"; {dropped}" if dropped else ""
