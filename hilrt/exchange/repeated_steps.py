"""Repetition of steps whose error is too large, with a shorter length; as fast as possible.

The error is estimated after all subsystems have made the step and before its samples are accepted.
If the test fails, the order is chosen again, all subsystems go back and make a shorter step
(*Multibody Syst. Dyn.* 09817 (2022), section 5, Figs. 6 to 8). The macro step receives the estimate
and the order of the step that passed.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import bound
from hilrt.config.read_values import repeats_steps
from hilrt.config.structs import StepControl
from hilrt.coupling.choose_step import shorten_step
from hilrt.errors import HilrtError
from hilrt.exchange.exchange import Exchange
from hilrt.exchange.implicit_scheme import ImplicitScheme
from hilrt.exchange.local_errors import LocalErrors, StepError
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.tables.plan import Plan
from hilrt.tables.record import as_bytes
from hilrt.tables.state import State
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Stopping
from hilrt.timing.timeline import RepeatedCounts

#: Tables of the state that change when a step is repeated with another order.
CHANGED = ("session", "outputs", "inputs", "connections")


class RepeatedSteps:
    """Repetition of steps until their error passes the test; called between two steps.

    Parameters
    ----------
    numerics : Numerics
    exchange : Exchange
        Its links keep the state before each step from now on.
    control : StepControl
    counts : RepeatedCounts
    corrector : ImplicitScheme, optional
        Makes the steps of the implicit scheme.

    Raises
    ------
    ConfigError
        If a subsystem cannot repeat a step.
    """

    def __init__(
        self,
        numerics: Numerics,
        exchange: Exchange,
        control: StepControl,
        counts: RepeatedCounts,
        corrector: ImplicitScheme | None = None,
    ) -> None:
        exchange.keep_states(
            f"[master.step_control] estimator = {control.estimator!r}",
            "estimator = 'inputs' without repeat",
        )
        self._exchange, self._state, self._given = exchange, numerics.state, numerics.given
        self._errors, self._corrector = LocalErrors(numerics, exchange, control), corrector
        self._repeats, self._counts = repeats_steps(control), counts
        self._minimum_ns = max(1, round(control.minimum * 1e9))
        #: Copies for the repetitions of one step.
        own = {name: getattr(numerics.state, name).copy() for name in CHANGED}
        self._trial: State = numerics.state._replace(**own)
        self._tried = numerics.given._replace(session=numerics.given.session.copy())
        self._shorten = bound(shorten_step, numerics.plan, self._trial, self._tried)

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Test the step to `point`; return the end of the one that passed.

        A step that was shortened to end at a discontinuity is not tested.
        """
        now = self._given.session[0]
        now.repetitions, now.error, now.scaling = 0, math.nan, math.nan
        if not point.elapsed_ns or self._exchange.rest_ns:
            return point if self._corrector is None else await self._corrector(point, stopping)
        state, sent = self._state, self._exchange.sent
        while True:
            found = self._error_of(point, state, sent)
            now.error, now.scaling = found.error, found.scaling
            if stopping() or not (found.error > 1.0 and (self._repeats or math.isinf(found.error))):
                break
            if math.isinf(found.error):
                self._counts.unsettled += 1
            else:
                self._counts.refused += 1
            state = self._prepare(point, found, first=now.repetitions == 0)
            sent = state.inputs["polynomial"][:, : len(sent)].T
            began_ns = point.t_ns - point.elapsed_ns
            h_ns = round(float(state.session[0].h_next) * 1e9)
            point = point._replace(t_ns=began_ns + h_ns, elapsed_ns=h_ns)
            self._exchange.repeat(point.t_ns, h_ns / 1e9, sent)
            now.repetitions += 1
            now.order = state.session[0].order
        self._counts.steps += int(now.repetitions > 0)
        if math.isfinite(found.scaling):
            self._counts.largest_scaling = max(self._counts.largest_scaling, found.scaling)
        if self._corrector is not None:
            self._corrector.accept(point)
        return point

    def _error_of(self, point: CommunicationPoint, state: State, sent: Floats) -> StepError:
        """Correct the step to `point` if required; return its error, infinite on failure."""
        predicted = None
        if self._corrector is not None:
            corrected = self._corrector.correct(point, state, sent)
            if corrected.unsettled:
                return StepError(math.inf, math.nan, corrected.unsettled)
            predicted = corrected.predicted
        return self._errors.estimate(point, state, sent, predicted)

    def _prepare(self, point: CommunicationPoint, failed: StepError, *, first: bool) -> State:
        """Restore the step's beginning, with the order, length and inputs of its repetition.

        Raises
        ------
        HilrtError
            If the step already has its minimum length.
        """
        if point.elapsed_ns <= self._minimum_ns:
            text = f"the error is {failed.error:.3g} times the tolerance of [master.step_control]"
            if math.isinf(failed.error):
                text = "the corrector has not converged"
            raise HilrtError(
                f"{text} at t = {point.t_ns / 1e9:.9g} s, worst at {failed.worst}, with a step of "
                f"{point.elapsed_ns / 1e9:g} s, which is the minimum; raise the tolerance, or "
                "lower the minimum"
            )
        for name in CHANGED:
            if first or name != "session":  # it counts consecutive failures
                source, target = getattr(self._state, name), getattr(self._trial, name)
                as_bytes(target)[...] = as_bytes(source)
        tried = self._tried.session[0]
        tried.elapsed, tried.scaling = point.elapsed_ns / 1e9, failed.scaling
        self._shorten()
        h = self._trial.session
        h["h_next"] = max(float(h["h_next"][0]), self._minimum_ns / 1e9)
        return self._trial


# Event points: a discontinuity inside a step becomes a communication point, as fast as possible.
#
# When all solvers have made a step, a solver's sample may report a discontinuity within it. Solvers
# that can go back then repeat the step with the same inputs, but end it at the discontinuity,
# without iteration. The following step returns to the grid. In real time no solver goes back.

#: Smallest distance of an event point from its neighbours, as a share of the macro step: a bouncing
#: ball that comes to rest has infinitely many impacts.
LEAST = 0.01


class EventPoints:
    """Shift of communication points to discontinuities; called between two steps.

    Parameters
    ----------
    exchange : Exchange
        Its links that can go back keep the state before each step from now on.
    plan : Plan
        Must have a single rate: slower subsystems would be within a step at an event, and cannot
        end it there.
    timeout : float
        Time allowed for a solver's step, s.

    Attributes
    ----------
    count : int
        Number of event points so far.
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
        """Whether any subsystem can report a discontinuity and go back to it."""
        able = any(link.tells_events and link.rewinds is not None for link in exchange.links)
        return able and bool((plan.subsystems["every"] == 1).all())

    async def __call__(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Return the next communication point: `point`, or a discontinuity before it.

        Before the call, all subsystems have stepped to `point`; afterwards those that can have gone
        back to the discontinuity.
        """
        exchange = self._exchange
        exchange.rest_ns = 0
        reported = exchange.reported_event()
        if reported is None or not point.elapsed_ns:
            return point
        before_ns = point.t_ns - point.elapsed_ns
        event_ns = max(math.ceil(reported * 1e9), before_ns + self._least_ns)
        rest_ns = point.t_ns - event_ns
        if rest_ns < self._least_ns:
            if self._crossing or rest_ns <= 0:
                return point  # too close to the end of the step
            rest_ns += self._step_ns
        exchange.send_back(event_ns)
        await exchange.collect(event_ns, self._timeout, stopping)
        exchange.rest_ns = rest_ns
        self.count += 1
        return point._replace(t_ns=event_ns, elapsed_ns=event_ns - before_ns)
