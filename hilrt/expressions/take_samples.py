"""Stage: the newest samples of all outputs, those of calculated channels computed from the others.

All stages behind it see calculated channels as they see what subsystems send. A channel has a new
sample when a signal behind it has one, valid when the newest of these is; while none has come, it
is late like the signals themselves.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.expressions.evaluate import evaluate
from hilrt.tables.given import LARGEST, StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State


@stage
def take_samples(plan: Plan, state: State, given: StepInput) -> None:
    """Take what has arrived; then do the operations of the session's expressions."""
    for i in range(len(state.outputs)):
        out, arrived = state.outputs[i], given.outputs[i]
        out.fresh = arrived.fresh and not plan.outputs[i].calculated
        if out.fresh:
            out.newest, out.t_newest = arrived.y, arrived.t_valid
    for k in range(len(plan.readings)):
        read(state.outputs[plan.readings[k].output], state.registers[k])
    evaluate(plan.operations, plan.lookup_points, state.registers, state.memory, given.session[0].t)
    told = 0
    for s in range(len(given.subsystems)):
        told |= given.subsystems[s].event
    for k in range(len(plan.calculated)):
        channel = plan.calculated[k]
        calculated_sample(state.registers[channel.register], state.outputs[channel.output], told)


@compiled
def read(out: Table, register: Table) -> None:
    """A new sample into the register of its signal; what is no measurement is unknown."""
    if out.fresh and not out.t_newest < register.t:
        register.value = out.newest if abs(out.newest) <= LARGEST else math.nan
        register.t = out.t_newest


@compiled
def calculated_sample(register: Table, out: Table, told: int) -> None:
    """The value of a register as a sample of its channel, if there is something new in it.

    `told`: a subsystem has told of a discontinuity, which the channel may show.
    """
    before = out.t_newest
    unknown = register.value != register.value and out.newest != out.newest
    changed = register.value != out.newest and not unknown
    out.fresh = register.t > before or (register.t == before and changed)
    if out.fresh:
        out.jumps = told != 0 or before == -math.inf
        out.newest, out.t_newest = register.value, register.t
