"""Heartbeats that measure a peer's clock: which were asked for, and which answers count. No I/O."""

from __future__ import annotations

from collections import deque

from hilrt.peers.wire import Heartbeat

#: Exchanges that measure a peer's clock right after it connected.
OFFSET_EXCHANGES = 12
#: Unanswered questions that are remembered.
QUESTIONS = 16


class ClockExchanges:
    """Questions for one peer's clock, and which heartbeats answer them."""

    def __init__(self) -> None:
        self._questions: deque[int] = deque(maxlen=QUESTIONS)
        self._left = OFFSET_EXCHANGES
        self._forgotten = 0

    def take_turn(self) -> bool:
        """Whether one more exchange is due beside those of the regular heartbeats; it counts."""
        if self._left == 0:
            return False
        self._left -= 1
        return True

    def begin_again(self) -> None:
        """Measure the clock a few times more: the answers so far were read late."""
        self._left = OFFSET_EXCHANGES

    def question(self, now_ns: int) -> Heartbeat:
        """The heartbeat that asks for the peer's clock."""
        self._forgotten += len(self._questions) == QUESTIONS
        self._questions.append(now_ns)
        return Heartbeat(sent_ns=now_ns)

    def is_answer(self, message: Heartbeat) -> bool:
        """Whether it was asked for; an answer counts once."""
        if message.echo_ns not in self._questions:
            return False
        self._questions.remove(message.echo_ns)
        return True

    def is_late_answer(self, message: Heartbeat) -> bool:
        """Whether it answers a question that is no longer remembered; each of them counts once.

        A peer that has loaded or computed for long answers all that it was asked meanwhile.
        """
        late = self._forgotten > 0 and (not self._questions or message.echo_ns < self._questions[0])
        self._forgotten -= late
        return late
