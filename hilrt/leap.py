"""Leaps: many macro steps in one compiled call, as fast as possible, where that can be.

Between two macro steps there is usually somebody to be asked or told in Python: a socket, a
solver, a clock. Not where all subsystems are FMUs in the master's own process whose steps are three
calls of C functions: there, the steps until the next batch of rows is full are one call. Whatever
only Python can deal with ends it early: a flag that moves, an FMU that answers other than "ok", a
snapshot that is due, others that shall have their turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hilrt.c_functions import clock_address
from hilrt.compiled_step import Block, CompiledSteps, Pace, Ran
from hilrt.fmu.fmi2_steps import build_steps
from hilrt.link import Arrival
from hilrt.solver import Sample

if TYPE_CHECKING:
    from hilrt.exchange.exchange import Exchange
    from hilrt.record.feed import Feed
    from hilrt.record.snapshots import Snapshots
    from hilrt.step.plan import Plan
    from hilrt.step.step_state import StepState
    from hilrt.timing.progress import Progress


def can_leap(plan: Plan, state: StepState, exchange: Exchange) -> bool:
    """Whether a session as fast as possible has nothing that only single steps know."""
    return (
        clock_address() != 0
        and not plan.variable_step
        and not plan.controls.any
        and not plan.taylor
        and not len(plan.alarms)
        and not plan.network.bonds.shared
        and plan.feedthrough is None
        and not plan.corrects_elsewhere
        and state.model is None
        and bool((plan.network.every == 1).all())
        and all(link.steps_in_c for link in exchange.links)
    )


class Leap:
    """Makes leaps in a session that `can_leap`.

    Parameters
    ----------
    plan, state, exchange
        Of the session.
    feed, snapshots
        Where its rows go, and its states.
    """

    def __init__(
        self,
        plan: Plan,
        state: StepState,
        exchange: Exchange,
        feed: Feed,
        snapshots: Snapshots,
    ) -> None:
        self._plan, self._state, self._exchange = plan, state, exchange
        self._feed, self._snapshots = feed, snapshots
        self._h_ns = round(plan.step * 1e9)
        self._parts_ns = np.zeros((len(feed.room()[1]), 3), dtype=np.int64)
        net, calls = plan.network, [link.c_step() for link in exchange.links]
        self._solvers = build_steps(calls, net.inputs, net.outputs)
        self._steps = CompiledSteps(
            plan, state, exchange.given, exchange, self._solvers, clock_address()
        )
        self._ran = Ran(0, 0, True, 0)

    @property
    def t_ns(self) -> int:
        """Session time of the communication point that a leap has come to, ns."""
        return round(self._steps.t * 1e9)

    def run(self, t_ns: int, duration_ns: int, until_ns: int, progress: Progress) -> int:
        """Make macro steps from `t_ns` on, where the cut is made; how many there were.

        After any, `hand_back` is to be called.

        Parameters
        ----------
        t_ns, duration_ns : int
            Session time of the first one, and of the end, which is not for a leap, ns.
        until_ns : int
            Reading of the monotonic clock after which no further step is begun.
        progress : Progress
            Told of each step.
        """
        given = self._exchange.given
        if not given.regular or given.elapsed <= 0.0 or given.t < self._plan.reliability.warm_up:
            return 0
        end_ns = min(duration_ns, self._snapshots.due_ns)
        n = -((t_ns - end_ns) // self._h_ns)
        if n < 1:
            return 0
        rows, times = self._feed.room()
        block = Block(rows[:n], times[:n], self._parts_ns[:n])
        tick, timeline = given.tick, progress.timeline
        ran = self._steps.run(block, Pace(t_ns, self._h_ns, until_ns, timeline.slack_ns))
        timeline.add_run(tick, t_ns, self._h_ns, block.parts_ns[: ran.steps], ran.slack_ns)
        progress.count_run(t_ns, self._h_ns, block.parts_ns[: ran.steps])
        self._feed.commit_rows(ran.steps)
        self._state.monitor.note_changes(given.t, ran.moved)
        self._ran = ran
        return ran.steps

    def hand_back(self) -> None:
        """Let single steps go on from here: with the answers, and with who has yet to answer.

        Raises
        ------
        PeerLost
            Where an FMU has failed.
        """
        exchange, solvers, net = self._exchange, self._solvers, self._plan.network
        tick, t, h = exchange.given.tick, exchange.given.t, self._state.h_next
        made = len(exchange.links) if self._ran.answered else int(solvers.answer[0])
        answers = [
            Arrival(tick, Sample(solvers.y[part].copy(), compute_us=float(us)), t + h)
            for part, us in zip(net.outputs.slices[:made], solvers.compute_us, strict=False)
        ]
        exchange.leap(round(t * 1e9), self._h_ns, self._ran.steps, answers)
        if self._ran.answered:
            return
        inputs = [self._state.sent[:, part] for part in net.inputs.slices]
        for link, u in list(zip(exchange.links, inputs, strict=True))[made + 1 :]:
            link.dispatch(tick, t, h, u)
        _, asked, status = solvers.answer.tolist()
        link = exchange.links[made]
        exchange.park(made, link.resume(tick, t, h, inputs[made], asked, status))
