"""Plan of the rounds: each fault is drawn from the seed and the round's number only."""

from __future__ import annotations

import random
import signal
from typing import NamedTuple

#: Latest time of a fault after the first tick, and time from there …
RUNNING_S = 1.2
#: … until the session is ended, if it does not end by itself; longer if rows are lost, s.
AFTER_S = 0.8
AFTER_LOSS_S = 4.0
#: Some rounds begin before the first tick: latest time of the fault after the process's start, s.
STARTING_S = 1.0
EARLY_SHARE, EARLY = 0.2, ("kill", "stop", "clock", "interrupt")
#: Shortest and longest stop of a process, or loss or delay of messages, s.
LENGTH_S = (0.02, 1.5)
#: Step of the wall clock, s.
CLOCK_STEPS_S = (-86_400.0, -3600.0, -1.5, 0.7, 3600.0, 31_536_000.0)
#: Shares of lost messages, and their delays, s.
LOSS, DELAY_S = (0.05, 0.9), (0.005, 0.3)

FINISHED, INPUT, FAULT, LESS, INTERRUPTED = 0, 2, 3, 5, 130
KILLED = -int(signal.SIGKILL)

#: Session, kind of fault, and its target.
CASES = (
    *(("engine", "kill", "master"),) * 4,  # the most important guarantees
    *(("engine", "kill", name) for name in ("recorder", "gateway", "solver", "emulator", "view")),
    *(
        ("engine", "stop", name)
        for name in ("master", "recorder", "gateway", "solver", "emulator", "view")
    ),
    ("engine", "kill", "others"),  # all at once but the gateway and the bench
    ("engine", "stop", "all"),
    *((session, "interrupt", "master") for session in ("engine", "masses", "fast")),
    *(("engine", "bus", kind) for kind in ("loss", "latency", "silent", "dead")),
    *(("masses", fault, name) for fault in ("kill", "stop") for name in ("master", "solver")),
    *(("masses", fault, name) for fault in ("kill", "stop") for name in ("recorder", "relay")),
    *(("fast", fault, name) for fault in ("kill", "stop") for name in ("master", "solver")),
    *(("fast", fault, "recorder") for fault in ("kill", "stop")),
    *((session, "disk", "full") for session in ("engine", "masses", "fast")),
    *((session, "disk", "limit") for session in ("engine", "masses")),
    *((session, "clock", "step") for session in ("engine", "masses")),
    *(
        (session, "link", kind)
        for session in ("engine", "masses", "fast")
        for kind in ("loss", "delay", "cut")
    ),
)


class Round(NamedTuple):
    """One round.

    Attributes
    ----------
    session : str
        "engine": a bench on a bus; "masses": two solvers in real time; "fast": the same as fast
        as possible.
    fault, target : str
        Kind of fault and affected process; for "disk", "clock", "bus" and "link" its variant.
    early : bool
        Whether it is injected before the first tick.
    moment : float
        Time of the fault after the first tick, or after the start of the target, s.
    length : float
        Duration of the fault, s; 0 if it is permanent.
    amount : float
        Further value of the fault: share of lost messages, delay in s, step of the clock in s.
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
        """Row of the table for this round."""
        return f"{self.fault} {self.target}"

    @property
    def loses_rows(self) -> bool:
        """Whether the process with the log dies or cannot write."""
        return self.fault == "disk" or self.what in ("kill recorder", "kill others")

    @property
    def kills_master(self) -> bool:
        """Whether the master ends without shutting down."""
        return self.what in ("kill master", "kill others")

    @property
    def duration(self) -> float:
        """Time from the first tick to the regular end of the session, s."""
        return self.moment + self.length + (AFTER_LOSS_S if self.loses_rows else AFTER_S)


def draw(seed: int, number: int) -> Round:
    """Draw the round of that number; every case occurs once in `len(CASES)` rounds."""
    turn, place = divmod(number, len(CASES))
    cases = list(CASES)
    random.Random(f"{seed} turn {turn}").shuffle(cases)
    session, fault, target = cases[place]
    chance = random.Random(f"{seed} round {number}")
    early = chance.random() < EARLY_SHARE and fault in EARLY
    moment = chance.uniform(0.0, STARTING_S if early else RUNNING_S)
    length = chance.uniform(*LENGTH_S) if fault in ("stop", "link", "bus") else 0.0
    amount = 0.0
    if fault == "clock":
        amount = chance.choice(CLOCK_STEPS_S)
    elif target == "loss":
        amount = chance.uniform(*LOSS)
    elif target in ("delay", "latency"):
        amount = chance.uniform(*DELAY_S)
    return Round(number, seed, session, fault, target, early, moment, length, amount)


def documented(one: Round) -> set[int]:
    """Exit statuses that docs/session_life.md specifies for the fault of a round."""
    # Without a duration to reach, the session that runs as fast as possible is ended by Ctrl-C.
    undisturbed = INTERRUPTED if one.session == "fast" else FINISHED
    if one.kills_master:
        return {KILLED}
    if one.fault == "interrupt":
        return {INTERRUPTED}
    if one.loses_rows:
        # Before the first tick, a missing recorder counts as not started.
        return {LESS, INTERRUPTED} if one.session == "fast" and not one.early else {FAULT}
    if one.fault == "kill" and one.target not in ("view", "relay"):
        return {FAULT}
    if one.fault in ("link", "bus"):
        return {undisturbed, FAULT}
    if one.fault == "stop" and one.target in ("master", "gateway", "solver", "emulator", "all"):
        return {undisturbed, FAULT}
    return {undisturbed}
