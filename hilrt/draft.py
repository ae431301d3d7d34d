"""Draft: the macro step made shortly before the tick, from what has arrived by then.

At the tick the master takes what has arrived, and nothing else. Mostly nothing arrives in the last
hundred microseconds before it; then the step that was made in the wait, on a copy of the state, is
the very step of the tick, and its inputs, encoded already, leave at once. If something has arrived
after all, the draft is thrown away, and was a rehearsal: the processor's caches are warm.
"""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

import numpy as np

from hilrt.exchange.exchange import Exchange, Outbound
from hilrt.step.macro_step import macro_step
from hilrt.step.plan import Plan
from hilrt.step.step_state import StepInput, StepState
from hilrt.timing.clock import monotonic_ns

#: A draft begins only if this many times what it usually takes is left until the tick.
MARGIN = 1.3
#: And no earlier than this many times before it: something might still arrive.
WINDOW = 2.5
#: What a macro step with a fixed step and no model corrector changes in its state.
CHANGED = (
    *("history", "differences", "nodes", "degree", "y", "measured", "carried", "implausible"),
    *("sent", "sent_t0", "added", "others", "flown", "flown_t0", "flown_added", "flown_others"),
    *("energy", "corrected", "bond_time", "alarms"),
    *("jumps", "limited", "last", "last_t", "motion", "t_start", "h", "dispatch"),
)
#: And what of it, it looks at first: arrays, and parts whose arrays and numbers are meant.
ARRAYS = (
    *("sent", "sent_t0", "added", "others", "bond_time", "jumps", "limited"),
    *("last", "last_t", "motion"),
)
PARTS = ("history", "energy", "alarms")


class Draft:
    """Makes drafts, and puts one into force at its tick.

    Parameters
    ----------
    plan : Plan
        With a fixed step.
    state : StepState
        Of the master, without a model corrector; a draft that stands exchanges its contents.
    exchange : Exchange

    Attributes
    ----------
    state : StepState
        What the draft has come to.
    ready : list of Outbound
        Its inputs, as they will be sent.
    took_ns : int
        Running mean of a draft's duration, ns.
    made, stood : int
        Drafts made, and ticks at which one stood.
    """

    def __init__(self, plan: Plan, state: StepState, exchange: Exchange) -> None:
        self._plan, self._state, self._exchange = plan, state, exchange
        self.state = copy.deepcopy(state)
        self.ready: list[Outbound] = []
        self._fields = [(name, _names_of(getattr(state, name))) for name in PARTS]
        self._due = (0, 0, 0)
        self._basis: tuple[int, int, bool] | None = None
        self._fresh = exchange.given.fresh.copy()
        self.took_ns = 100_000
        self.made = self.stood = 0

    def announce(self, tick: int, t_ns: int, elapsed_ns: int) -> None:
        """Tell which communication point comes next, as `Exchange.cut` will be told."""
        self._due = (tick, t_ns, elapsed_ns)
        self._basis = None

    def wanted(self, left_ns: int, more: bool = True) -> bool:
        """Whether to make a draft, with `left_ns` until the tick; `more`: may anything arrive?"""
        if not self._due[2] or left_ns <= 0:
            return False
        # Once nothing more arrives, what does not fit before the tick is at least begun before it.
        if more and not MARGIN * self.took_ns < left_ns < WINDOW * self.took_ns:
            return False
        return self._basis is None or self._basis[1] != self._exchange.taken

    def make(self) -> None:
        """Make the macro step of the announced point from what has arrived."""
        begun = monotonic_ns()
        tick = self._due[0]
        given = self._exchange.preview(*self._due)
        self._copy_state()
        np.copyto(self._fresh, given.fresh)  # the step clears what is not a finite number
        macro_step(self._plan, self.state, given)
        np.copyto(given.fresh, self._fresh)
        self.ready = self._exchange.encoded(self.state)
        self._basis = (tick, self._exchange.taken, given.apply)
        self.made += 1
        # A stall in one draft must not end them all: the mean moves by an eighth at most.
        more = monotonic_ns() - begun - self.took_ns
        self.took_ns += max(min(more, self.took_ns), -self.took_ns) >> 3

    def stands(self, given: StepInput) -> bool:
        """Whether the draft is the step of the cut `given`."""
        return self._basis == (given.tick, self._exchange.taken, given.apply)

    def put_into_force(self, given: StepInput) -> None:
        """Make a draft that stands the master's state; its inputs may have left before."""
        state, spare = self._state, self.state
        for name in CHANGED:
            mine = getattr(state, name)
            setattr(state, name, getattr(spare, name))
            setattr(spare, name, mine)
        given.fresh &= ~state.implausible
        self.stood += 1

    def _copy_state(self) -> None:
        state, spare = self._state, self.state
        for name in ARRAYS:
            np.copyto(getattr(spare, name), getattr(state, name))
        for part, (arrays, numbers) in self._fields:
            source, target = getattr(state, part), getattr(spare, part)
            for name in arrays:
                np.copyto(getattr(target, name), getattr(source, name))
            for name in numbers:
                setattr(target, name, getattr(source, name))


def _names_of(part: Any) -> tuple[list[str], list[str]]:
    """Names of a dataclass's arrays, and of the rest."""
    names = [field.name for field in fields(part)]
    arrays = [name for name in names if isinstance(getattr(part, name), np.ndarray)]
    return arrays, [name for name in names if name not in arrays]
