"""Offset and drift of a peer's clock against the master's, from two-way exchanges.

Cristian (1989). The master sends its reading `sent_ns`; the peer replies with its own, `peer_ns`;
the master receives the answer at `received_ns`. Whatever the delays, the peer's reading was taken
between the two, so the offset peer − master is in ``[peer_ns − received_ns, peer_ns − sent_ns]``.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from hilrt.peers.wire import Heartbeat

#: Interval of which the fastest exchange is kept for the regression, ns.
BUCKET_NS = 1_000_000_000
#: Number of exchanges kept.
KEPT = 64
#: Largest plausible drift; a larger one is due to a change of the path.
LARGEST_DRIFT = 1e-3
#: A drift is used once it has changed the offset by this many round trips: delays within twice the
#: shortest round trip can look like a drift of at most three.
SIGNIFICANT = 4.0


class _Exchange(NamedTuple):
    at: int  #: middle of the exchange, master's clock
    offset: int
    round_trip: int


class ClockOffset:
    """Running estimate of one peer's clock.

    The offset is the middle of the interval of the exchange with the shortest round trip: its error
    is at most half that round trip. The drift is a regression over the fastest exchanges of the
    last minute, used once it exceeds the possible effect of their delays. A later exchange corrects
    the offset only as far as the two contradict each other. Averaging was rejected because delays
    are one-sided: an answer waits until the master next reads.

    Attributes
    ----------
    offset_ns : int
        Peer's clock minus master's at the newest exchange, ns; 0 before the first.
    drift : float
        Rate of change of the offset, s/s.
    round_trip_ns : int or None
        Shortest round trip so far, ns; half of it bounds the error if the clocks do not drift.
    """

    __slots__ = ("_at_ns", "_kept", "_newest", "drift", "offset_ns", "round_trip_ns")

    def __init__(self) -> None:
        self.offset_ns = 0
        self.drift = 0.0
        self.round_trip_ns: int | None = None
        self._at_ns = 0
        self._newest: _Exchange | None = None
        self._kept: deque[_Exchange] = deque(maxlen=KEPT)

    @property
    def uncertainty(self) -> float:
        """Bound of the offset's error, s: half the shortest round trip; NaN before the first."""
        return math.nan if self.round_trip_ns is None else 0.5e-9 * self.round_trip_ns

    def add(self, sent_ns: int, peer_ns: int, received_ns: int) -> bool:
        """Use one exchange.

        Parameters
        ----------
        sent_ns, received_ns : int
            Master's clock when it sent the request and when it read the answer, ns.
        peer_ns : int
            Peer's clock in between, ns.

        Returns
        -------
        bool
            False if the times are impossible (an answer before its request); nothing is changed.
        """
        round_trip = received_ns - sent_ns
        if round_trip < 0:
            return False
        low, high = peer_ns - received_ns, peer_ns - sent_ns
        now = _Exchange((sent_ns + received_ns) // 2, (low + high) // 2, round_trip)
        self._keep(now)
        expected = self.offset_at(now.at)
        if self.round_trip_ns is None or round_trip < self.round_trip_ns:
            self.round_trip_ns, expected = round_trip, now.offset
        self.offset_ns, self._at_ns = min(max(expected, low), high), now.at
        return True

    def offset_at(self, master_ns: int) -> int:
        """Peer's clock minus master's at a reading of the latter, ns."""
        return self.offset_ns + round(self.drift * (master_ns - self._at_ns))

    def to_master_ns(self, peer_ns: int) -> int:
        """Master's clock at a peer's reading, ns."""
        return peer_ns - self.offset_at(peer_ns - self.offset_ns)

    def _keep(self, now: _Exchange) -> None:
        newest = self._newest
        if newest is not None and now.at // BUCKET_NS == newest.at // BUCKET_NS:
            if now.round_trip < newest.round_trip:
                self._newest = now
            return
        self._newest = now
        if newest is not None:
            self._kept.append(newest)
            self._regress()

    def _regress(self) -> None:
        least = min(one.round_trip for one in self._kept)
        good = [one for one in self._kept if one.round_trip <= 2 * least]
        t0, span = good[0].at, (good[-1].at - good[0].at) * 1e-9
        if len(good) < 8 or span <= 0.0:
            return
        times = [(one.at - t0) * 1e-9 for one in good]
        offsets = [(one.offset - good[0].offset) * 1e-9 for one in good]
        mean_t, mean_o = sum(times) / len(good), sum(offsets) / len(good)
        pairs = list(zip(times, offsets, strict=True))
        slope = sum((t - mean_t) * (o - mean_o) for t, o in pairs) / sum(
            (t - mean_t) ** 2 for t in times
        )
        significant = abs(slope) * span > SIGNIFICANT * least * 1e-9
        self.drift = slope if significant and abs(slope) <= LARGEST_DRIFT else 0.0


#: Exchanges that measure a peer's clock right after it has connected.
OFFSET_EXCHANGES = 12
#: Open requests kept.
OPEN_REQUESTS = 16


class ClockExchanges:
    """Requests for one peer's clock, matched with the heartbeats that answer them."""

    def __init__(self) -> None:
        self._open: deque[int] = deque(maxlen=OPEN_REQUESTS)
        self._left = OFFSET_EXCHANGES
        self._discarded = 0

    def count_turn(self) -> bool:
        """Return whether an exchange in addition to regular heartbeats is due, and count it."""
        if self._left == 0:
            return False
        self._left -= 1
        return True

    def restart(self) -> None:
        """Schedule a few more measurements, if earlier answers were read late."""
        self._left = OFFSET_EXCHANGES

    def request(self, now_ns: int) -> Heartbeat:
        """The heartbeat that requests the peer's clock."""
        self._discarded += len(self._open) == OPEN_REQUESTS
        self._open.append(now_ns)
        return Heartbeat(sent_ns=now_ns)

    def is_answer(self, message: Heartbeat) -> bool:
        """Whether the message answers an open request; each is answered once."""
        if message.echo_ns not in self._open:
            return False
        self._open.remove(message.echo_ns)
        return True

    def is_late_answer(self, message: Heartbeat) -> bool:
        """Whether the message answers a request that is no longer stored; each is answered once.

        A peer that was busy for a long time answers all requests of that time.
        """
        late = self._discarded > 0 and (not self._open or message.echo_ns < self._open[0])
        self._discarded -= late
        return late
