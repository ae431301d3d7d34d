"""When the step's state is recorded: once a second, so that a replay can start there."""

from __future__ import annotations

import msgspec

from hilrt.record.feed import Feed
from hilrt.record.messages import ADJUSTMENTS, JACOBIANS, SNAPSHOTS
from hilrt.record.snapshot import encode_state
from hilrt.step.step_state import StepState

#: Session time between two snapshots, ns.
EVERY_NS = 1_000_000_000


class Snapshots:
    """Records the state once a second, and Jacobians that were replaced between two steps.

    Parameters
    ----------
    feed : Feed
    state : StepState
        As it is before the first step.
    """

    def __init__(self, feed: Feed, state: StepState) -> None:
        self._feed = feed
        self._next_ns = EVERY_NS
        model = state.model
        self._first_plan = None if model is None else model.plan
        self._gamma = None if model is None else model.gamma

    def look(self, state: StepState, t_ns: int) -> None:
        """Look at the state after the step at `t_ns`, before its row is committed."""
        model, row = state.model, self._feed.rows
        if model is not None and model.gamma is not self._gamma:
            self._gamma = model.gamma
            self._feed.aside(JACOBIANS, row, t_ns, msgspec.msgpack.encode(model.gamma.tolist()))
        if t_ns >= self._next_ns:
            self._next_ns = t_ns - t_ns % EVERY_NS + EVERY_NS
            replaced = model is not None and model.plan is not self._first_plan
            self._feed.aside(SNAPSHOTS, row + 1, t_ns, encode_state(state, replaced))

    def adjusted(self, t_ns: int, what: str, value: float) -> None:
        """Note that an operator has set a number of the plan, from the next step on."""
        data = msgspec.msgpack.encode((what, value))
        self._feed.aside(ADJUSTMENTS, self._feed.rows, t_ns, data)
