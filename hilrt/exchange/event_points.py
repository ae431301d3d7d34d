"""Event points: a discontinuity inside a step becomes a communication point, as fast as possible.

A solver tells of it with the sample of the step that it fell into, when everybody has made that
step. Those that can go back do so, and make the step again, shorter, with the inputs that they
had: nothing is iterated, the step has only got another end. From there the next one leads back to
the grid. In real time nobody goes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hilrt.exchange.exchange import Exchange
from hilrt.step.plan import Plan

#: Least distance of an event point from its neighbours, as a share of the macro step. A ball that
#: comes to rest has infinitely many impacts.
LEAST = 0.01


class EventPoints:
    """Moves communication points to discontinuities.

    Parameters
    ----------
    exchange : Exchange
        Its links that can go back keep the state before each step from now on.
    plan : Plan
        Of one rate: solvers of other rates have steps under way that nobody could end.

    Attributes
    ----------
    count : int
        Event points so far.
    """

    def __init__(self, exchange: Exchange, plan: Plan) -> None:
        self._exchange, self._variable = exchange, plan.variable_step
        self._step_ns = round(plan.step * 1e9)
        least = plan.step_control.minimum if self._variable else LEAST * plan.step
        self._least_ns = max(1, round(least * 1e9))
        self._crossing = any(not link.can_go_back for link in exchange.links)
        self.count = 0
        for link in exchange.links:
            if link.can_go_back:
                link.keep_states()

    @staticmethod
    def possible(exchange: Exchange, plan: Plan) -> bool:
        """Whether anybody can tell of a discontinuity, and go back to it."""
        tells = any(link.tells_events and link.can_go_back for link in exchange.links)
        return tells and bool((plan.network.every == 1).all())

    async def stop(
        self, before_ns: int, t_ns: int, timeout: float, stopping: Callable[[], bool]
    ) -> int:
        """Communication point after `before_ns`, where all have answered for `t_ns`, ns.

        It is `t_ns`, or a discontinuity before it, to which all that can have gone back.
        """
        exchange = self._exchange
        exchange.rest_ns = 0
        told = exchange.told_event()
        if told is None:
            return t_ns
        event_ns = max(math.ceil(told * 1e9), before_ns + self._least_ns)
        rest_ns = t_ns - event_ns
        if rest_ns < self._least_ns:
            if self._crossing or rest_ns <= 0:
                return t_ns  # as good as at the end of the step
            rest_ns += self._step_ns
        exchange.send_back(event_ns)
        await exchange.collect(event_ns, timeout, stopping)
        exchange.rest_ns = rest_ns
        self.count += 1
        return event_ns
