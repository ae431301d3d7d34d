"""Event points: a discontinuity inside a step becomes a communication point, as fast as possible.

A solver tells of it with the sample of the step that it fell into, when all solvers have made that
step. Those that can go back do so, and make the step again, shorter, with the inputs that they
had: nothing is iterated, the step has only got another end. From there the next one leads back to
the grid. In real time no solver goes back.
"""

from __future__ import annotations

import math

from hilrt.exchange.exchange import Exchange
from hilrt.tables.plan import Plan
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping

#: Least distance of an event point from its neighbours, as a share of the macro step. A ball that
#: comes to rest has infinitely many impacts.
LEAST = 0.01


class EventPoints:
    """Moves communication points to discontinuities; one of the things to do between two steps.

    Parameters
    ----------
    exchange : Exchange
        Its links that can go back keep the state before each step from now on.
    plan : Plan
        Of one rate: the steps of other rates are under way at an event and cannot be ended there.
    timeout : float
        How long a solver may take for a step, s.

    Attributes
    ----------
    count : int
        Event points so far.
    """

    def __init__(self, exchange: Exchange, plan: Plan, timeout: float = 60.0) -> None:
        self._exchange, self._timeout = exchange, timeout
        session = plan.session[0]
        self._step_ns = round(float(session.step) * 1e9)
        least = float(session.minimum_step if session.variable_step else LEAST * session.step)
        self._least_ns = max(1, round(least * 1e9))
        self._crossing = any(link.rewinds is None for link in exchange.links)
        self.count = 0
        for link in exchange.links:
            if link.rewinds is not None:
                link.rewinds.keep_states()

    @staticmethod
    def possible(exchange: Exchange, plan: Plan) -> bool:
        """Whether any subsystem can tell of a discontinuity, and go back to it."""
        tells = any(link.tells_events and link.rewinds is not None for link in exchange.links)
        return tells and bool((plan.subsystems["every"] == 1).all())

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Return the point to continue with: `point`, or one at a discontinuity before it.

        All subsystems have answered for `point`; those that can have gone back to the other one.
        """
        exchange = self._exchange
        exchange.rest_ns = 0
        told = exchange.told_event()
        if told is None or not point.elapsed_ns:
            return point
        before_ns = point.t_ns - point.elapsed_ns
        event_ns = max(math.ceil(told * 1e9), before_ns + self._least_ns)
        rest_ns = point.t_ns - event_ns
        if rest_ns < self._least_ns:
            if self._crossing or rest_ns <= 0:
                return point  # as good as at the end of the step
            rest_ns += self._step_ns
        exchange.send_back(event_ns)
        await exchange.collect(event_ns, self._timeout, stopping)
        exchange.rest_ns = rest_ns
        self.count += 1
        return point._replace(t_ns=event_ns, elapsed_ns=event_ns - before_ns)
