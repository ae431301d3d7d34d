"""Have every compiled kernel ready before the first subsystem starts.

A kernel is compiled, or loaded from the cache of an earlier run, when it is first called: up to
seconds the first time, milliseconds later. A tick has no time for that, and neither has a bench
that waits for the master. So the macro step is run on a session of two subsystems that exist only
here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hilrt.config.from_toml import build
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.coupling import correct_model, identify, regression, trust
from hilrt.coupling.extrapolate import divided_differences, newton_value
from hilrt.coupling.past import follow_error, lay_realised
from hilrt.coupling.polynomial import evaluate, shift
from hilrt.coupling.true_inputs import couple
from hilrt.exchange.channel_table import CHANNELS
from hilrt.exchange.peer_times import AnswerTimes
from hilrt.record.signals import RowWriter, build_topics
from hilrt.reliability.measures import staying_shares
from hilrt.solver import Port, Ports
from hilrt.step.macro_step import assess, macro_step
from hilrt.step.plan import build_plan
from hilrt.step.step_state import StepInput, start
from hilrt.tables.network import build_network

_TABLES: dict[str, Any] = {
    "session": {"name": "warm-up", "duration": 1.0},
    "master": {"step": 1e-3, "extrapolation": {"order": 1}},
    "subsystems": {},
    "connections": [{"from": "a.force", "to": "b.force"}, {"from": "b.speed", "to": "a.speed"}],
    "bonds": [
        {
            "name": "bond",
            "effort": "a.force",
            "flow": "b.speed",
            "correction": {"method": "energy", "mu": 0.5},
        }
    ],
    "alarms": [{"signal": "b.speed", "max": 1e3, "max_rate": 1e6}],
}


class _Peers:
    """Of whom nothing is known."""

    age = compute_us = wire_us = np.zeros(2, CHANNELS)["age"]  # strided, as in a session


def warm_up() -> None:
    """Run a few macro steps of a session that is not there."""
    force, speed = (Port("force", "N"),), (Port("speed", "m/s"),)
    ports = {"a": Ports(speed, force), "b": Ports(force, speed)}
    problems: list[str] = []
    tables = build(Session, _TABLES, "", problems)
    options = build(SubsystemOptions, {"adapter": "none"}, "", problems)
    assert tables is not None, problems
    assert options is not None, problems
    tables.subsystems = dict.fromkeys(ports, options)
    network = build_network(ports, tables)
    zero = np.zeros(2)
    plan = build_plan(network, tables, np.zeros(2, dtype=bool), zero)
    state = start(plan, 0.0, zero, zero)
    given = StepInput.empty(2, 2, 2, 0)
    row = RowWriter(plan, np.zeros(sum(len(topic.signals) for topic in build_topics(plan))))
    for tick in range(3):
        given.tick, given.t, given.elapsed = tick, tick * plan.step, plan.step * (tick > 0)
        given.t_valid[:] = given.reached[:] = given.t - 0.1 * plan.step * (tick == 2)
        given.fresh[:] = True
        given.regular = tick < 2
        macro_step(plan, state, given)
        assess(plan, state, given)
        row.fill(state, given, _Peers(), plan.step, 0, 0)
    # What follows belongs to correctors and subsystems that this session has not.
    evaluate(state.flown, 0.0)
    shift(state.flown, 0.0)
    plan.sampled(given.fresh, given.t_valid, given.t)
    bonds, share = network.bonds, plan.spurious
    staying_shares(share, plan.elsewhere, bonds.of_element, bonds.effort, zero, share.copy())
    answers = AnswerTimes(np.zeros(1))
    answers.keep(0, compute_us=1.0, round_trip_us=1.0, way_us=1.0, t_arrived=0.0)
    answers.count()
    newton_value(*divided_differences(state.history, 0.0), state.degree)
    one, gamma = slice(0, 1), np.zeros((1, 1, 1))
    correction = correct_model.build_plan(couple(np.eye(1), 0), gamma)
    corrected = correct_model.start(correction, zero[:1])
    part = identify.Part(one, one, regression.Settings(warm_up=1))
    learning = identify.prepare([part], np.eye(1), trust.Limits(window=1))
    learned = identify.start(learning, gamma)
    for tick in range(6):
        y, sent = zero[:1] + tick, np.full((1, 1), tick % 3.0)
        correct_model.correct(corrected, correction, y, sent)
        errors = correct_model.input_errors(corrected, correction, sent)
        identify.identify(learned, learning, y, sent, errors)
    regression.predict(learned.models[0], sent)
    regression.assume(learned.models[0], y, sent)
    regression.forget(learned.models[0])
    follow_error(y, np.zeros((2, 1)), True, 0.5, zero[:1])
    lay_realised(zero[:1], zero[:1], sent)
