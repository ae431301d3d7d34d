"""Errors for a subsystem whose samples stay away: for how long, and what is known of it."""

from __future__ import annotations

from collections.abc import Sequence

from hilrt.errors import PeerLost
from hilrt.exchange.channel_table import ChannelTable
from hilrt.exchange.reports import Reports
from hilrt.link import Link


class MissedSamples:
    """Makes the errors that end a session; the numbers are those of the `ChannelTable`.

    Parameters
    ----------
    links : sequence of Link
    table : ChannelTable
    reports : Reports
    """

    def __init__(self, links: Sequence[Link], table: ChannelTable, reports: Reports) -> None:
        self._links, self._table, self._reports = links, table, reports

    def too_many(self, s: int) -> PeerLost:
        """Subsystem `s` has missed more ticks in a row than its policy allows."""
        row, name = self._table.rows[s], self._links[s].name
        self._reports.take()
        last = self._reports.last_of(name)
        said = self._absent(s) or (f"; it said: {last}" if last else "") + self._dropped(s)
        return PeerLost(
            name,
            f"no sample for {row.misses} ticks (late.max_misses is {row.max_misses}); "
            f"newest sample is {row.age:.3f} s old{said}",
        )

    def no_answer(self, s: int, t_ns: int, timeout: float) -> PeerLost:
        """Subsystem `s` has not answered the step to `t_ns` within `timeout` [s]."""
        self._links[s].lost += 1
        why = self._absent(s) or f"{self._dropped(s)}; see its log"
        return PeerLost(
            self._links[s].name,
            f"no answer to the step towards t = {t_ns * 1e-9:g} s within {timeout:g} s "
            f"(master.step_timeout){why}",
        )

    def _absent(self, s: int) -> str:
        """Why a subsystem that may come back is away."""
        absent = self._links[s].absent
        return f"; it has not come back: {absent}" if absent else ""

    def _dropped(self, s: int) -> str:
        """Name the messages of a subsystem that could not be used."""
        link = self._links[s]
        dropped = "" if link.carrier is None else link.carrier.why_dropped(link.name)
        return f"; {dropped}" if dropped else ""
