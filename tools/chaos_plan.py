"""What is done to a session in which round: drawn from the seed and the round's number alone."""

from __future__ import annotations

import random
import signal
from typing import NamedTuple

#: A session is disturbed that long after its first tick at the latest, and then goes on for …
RUNNING_S = 1.2
#: … that long at least before it ends by itself, s.
AFTER_S = 0.8
#: Some rounds strike before the first tick: that long after the process is there at the latest, s.
STARTING_S = 1.0
EARLY_SHARE = 0.15
#: Shortest and longest time for which a process is stopped, or messages are lost or held back, s.
LENGTH_S = (0.02, 1.5)
#: By how much the wall clock is set, s.
CLOCK_STEPS_S = (-86_400.0, -3600.0, -1.5, 0.7, 3600.0, 31_536_000.0)

FINISHED, FAULT, LESS, INTERRUPTED = 0, 3, 5, 130
KILLED = -int(signal.SIGKILL)

#: Session, what happens, and to what.
CASES = (
    *(("engine", "kill", "master"),) * 4,  # what this product promises most about
    *(
        ("engine", "kill", target)
        for target in ("recorder", "gateway", "solver", "emulator", "view")
    ),
)


class Round(NamedTuple):
    """One round.

    Attributes
    ----------
    session : str
        "engine": a bench on a bus; "masses": two solvers in real time; "fast": the same as fast
        as possible.
    fault : str
    target : str
        Process or connection that it happens to.
    early : bool
        Whether it happens before the first tick.
    moment : float
        When: after the first tick, or after the target is there, s.
    length : float
        How long it lasts, s.
    amount : float
        Of the fault's own: share of messages that are lost, delay in s, step of the clock in s.
    """

    number: int
    seed: int
    session: str
    fault: str
    target: str
    early: bool
    moment: float
    length: float
    amount: float

    @property
    def what(self) -> str:
        """The row of the table that it belongs to."""
        return f"{self.fault} {self.target}".strip()


def draw(seed: int, number: int) -> Round:
    """The round of that number; every case comes once in `len(CASES)` rounds."""
    turn, place = divmod(number, len(CASES))
    cases = list(CASES)
    random.Random(f"{seed} {turn}").shuffle(cases)
    session, fault, target = cases[place]
    chance = random.Random(f"{seed} round {number}")
    early = chance.random() < EARLY_SHARE
    moment = chance.uniform(0.0, STARTING_S if early else RUNNING_S)
    length = chance.uniform(*LENGTH_S)
    amount = 0.0
    return Round(number, seed, session, fault, target, early, moment, length, amount)


def documented(one: Round) -> set[int]:
    """Exit statuses that docs/session.md gives for what is done in a round."""
    if one.target == "master":
        return {KILLED}
    if one.target == "view":
        return {FINISHED}
    if one.target == "recorder":
        return {FAULT, LESS}
    return {FAULT}
