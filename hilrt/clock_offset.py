"""Offset between a peer's clock and the master's, from two-way exchanges (METHODS section 8).

The master sends its reading `sent_ns`; the peer answers with its own, `peer_ns`; the answer is read
at `received_ns`. Whatever the delays were, the peer's reading was taken between the two, so the
offset peer − master lies within ``[peer_ns − received_ns, peer_ns − sent_ns]``.
"""

from __future__ import annotations


class ClockOffset:
    """Running estimate of one peer's clock offset.

    The middle of the interval of the exchange with the least round trip is the estimate: its error
    is at most half that round trip. Later, slower exchanges correct it only as far as they
    contradict it, which follows a drift without taking over their asymmetric delays. Averaging
    was rejected: an answer waits for the master's next look, so delays are one-sided.

    Attributes
    ----------
    offset_ns : int
        Peer's clock minus master's clock, ns; 0 before the first exchange.
    round_trip_ns : int or None
        Least round trip so far, ns; half of it bounds the error while the clocks do not drift.
    """

    __slots__ = ("offset_ns", "round_trip_ns")

    def __init__(self) -> None:
        self.offset_ns = 0
        self.round_trip_ns: int | None = None

    def add(self, sent_ns: int, peer_ns: int, received_ns: int) -> bool:
        """Use one exchange.

        Parameters
        ----------
        sent_ns, received_ns : int
            Master's clock when it asked and when it read the answer, ns.
        peer_ns : int
            Peer's clock in between, ns.

        Returns
        -------
        bool
            False, and nothing changes, when the times are impossible (an answer before its
            question).
        """
        round_trip = received_ns - sent_ns
        if round_trip < 0:
            return False
        low, high = peer_ns - received_ns, peer_ns - sent_ns
        if self.round_trip_ns is None or round_trip < self.round_trip_ns:
            self.round_trip_ns = round_trip
            self.offset_ns = (low + high) // 2
        else:
            self.offset_ns = min(max(self.offset_ns, low), high)
        return True

    def to_master_ns(self, peer_ns: int) -> int:
        """Master's clock at the moment of a peer's reading, ns."""
        return peer_ns - self.offset_ns
