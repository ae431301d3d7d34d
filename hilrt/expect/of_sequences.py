"""Results of test sequences: measured values, and expectations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from hilrt.config.from_toml import build
from hilrt.config.structs import Expect
from hilrt.errors import ConfigError, PeerLost
from hilrt.expect.expectation import read_expectation
from hilrt.expect.judge import Judge
from hilrt.expect.outcome import Coordinate, ResultEntry, measured
from hilrt.record.messages import EXPECT, MEASURE
from hilrt.solver import Floats
from hilrt.tables.network import Network


class Measured(msgspec.Struct):
    """Measured value with its limits; `value` is None if it is not a number.

    For a value at coordinates, `at` has these, and `quantity` is the measured quantity.
    """

    name: str
    value: float | None = None
    unit: str = ""
    min: float | None = None
    max: float | None = None
    t: float | None = None
    quantity: str = ""
    at: list[Coordinate] = []


def judge_event(
    judge: Judge, network: Network, errors: Floats, name: str, cause: str, text: str
) -> None:
    """Pass reports of the sequence `name` that concern results to the judge.

    `errors`, shape (ny,), are the estimated errors of all outputs. `PeerLost` for a report that is
    neither a measurement nor an expectation.
    """
    try:
        if cause == MEASURE:
            judge.measured(outcome_of(text, name, partial(error_of_reads, network, errors, name)))
        elif cause == EXPECT:
            keys, problems = msgspec.json.decode(text, type=dict), list[str]()
            table = build(Expect, keys, "expect", problems)
            if table is None or problems:
                raise ConfigError(problems)
            judge.expect(read_expectation(table, name))
    except (ConfigError, msgspec.MsgspecError) as error:
        raise PeerLost(name, f"its expectations cannot be checked: {error}") from None


def outcome_of(
    text: str, name: str, error_of: Callable[[str], float | None] = lambda unit: None
) -> ResultEntry:
    """Result of a measurement, from an event of the sequence `name`.

    `error_of` returns the estimated error of a value in a unit; without it, the error is unknown.
    """
    found = msgspec.json.decode(text, type=Measured)
    outcome = measured(
        found.name,
        math.nan if found.value is None else found.value,
        unit=found.unit,
        min=found.min,
        max=found.max,
        t=found.t,
        error=error_of(found.unit),
        of=name,
    )
    outcome.quantity, outcome.at = found.quantity, found.at
    return outcome


def error_of_reads(network: Network, errors: Floats, name: str, unit: str) -> float:
    """Largest estimated error of a sequence's inputs in a unit; NaN: unknown, 0: no such input.

    It is the largest one because it is unknown how the sequence has computed its value.
    Units are compared as text: parsing them would delay a tick.
    """
    part = network.inputs.slices[network.subsystems.index(name)]
    units = network.inputs.units[part]
    reads = np.zeros(len(network.inputs), dtype=bool)
    reads[part] = [one == unit for one in units]
    sources = network.L.where(rows=reads).column
    return float(np.max(errors[sources], initial=0.0))


def not_at_its_end(name: str, step: str, t: float) -> ResultEntry:
    """Result for a session that ended at `t` [s], before the sequence did."""
    return ResultEntry(
        name=f"{name} ends",
        result="inconclusive",
        text="the sequence ends before the session does",
        t=t,
        of=name,
        reason=f"the session ended at {t:g} s, with the sequence at {step}",
    )
