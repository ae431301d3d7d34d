"""`StepInput`, the input of one macro step, and the additional input of `assess`."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import numpy as np

from hilrt.solver import Floats
from hilrt.tables.record import COEFFICIENTS, Table, TableRow, f8, i8, table

#: Kinds of changes, in `Change.what`. All are made by an operator except `contradicted`, the result
#: of a trial while the session runs.
THRESHOLDS: Final = (
    "connection_defect",
    "output_defect",
    "power_residual",
    "energy_drift",
    "tracking",
)
BOND_SETTINGS: Final = ("cap", "cap_abs", "share", "contradicted")
#: Likewise for an input; numbered after those of a bond.
INPUT_SETTINGS: Final = ("take", "give_back")
#: Likewise for a fault; `release` returns it to its times and conditions.
FAULT_SETTINGS: Final = ("inject", "clear", "release")
#: Maximum changes of one tick; further ones wait for the next.
CHANGES: Final = 8

#: Largest plausible magnitude of a sample: beyond every 64-bit number and every physical quantity
#: of a machine in any unit.
LARGEST: Final = 1e30


class GivenSession(TableRow):
    """Input of a step for the session; one record."""

    tick: i8  # number of the grid point
    t: f8  # session time of the communication point, s
    elapsed: f8  # since the previous one, s
    # At a point put at a discontinuity: the macro step that leads back to the grid, s;
    # 0 at all others.
    rest: f8
    # Of the step that ended, if its error was estimated before its samples were accepted:
    error: f8  # weighted RMS, 1 is the tolerance; NaN: not estimated
    scaling: f8  # resulting factor on the step; NaN likewise
    repetitions: i8  # number of repetitions with a shorter step
    order: i8  # controlled order of the last repetition's inputs
    has_middle: i8  # a middle or a mean of any output is known
    regular: i8  # every subsystem is due, has answered and has reached t
    apply: i8  # corrections act; not in shadow, and not before a bench is armed
    changes: i8  # number of rows used in the table of that name
    renewed: i8  # Jacobians were renewed: use those in `gamma`
    answers_renewed: i8  # sensitivities were renewed: use those in `answers`
    answers_moved: i8  # they differ from the previous ones by more than rounding errors
    # Difference, as a share of the errors that they propagate or of `MATTERS` of the signals;
    # and time since which they may have differed, s
    answers_change: f8
    answers_since: f8


class GivenSubsystem(TableRow):
    """Input of a step for a subsystem."""

    busy: i8  # still computing
    late: i8  # without the sample that was due
    due: i8  # communicates at this tick
    reached: f8  # session time that it has reached, s
    covered: f8  # length of the interval before its newest sample, s
    # Bound of the error of the mapping from a bench's clock to the master's, s; 0 for solvers, NaN
    # if not known yet.
    clock_error: f8
    event: i8  # reported a discontinuity in the interval of its newest sample
    switches: i8  # the latest trial found its outputs not smooth within a step
    rejoined: i8  # its newest sample is the first after it was lost


class GivenOutput(TableRow):
    """Newest sample of an output; in the output's unit unless stated."""

    y: f8  # newest sample; used where fresh
    t_valid: f8  # time at which it is valid, s
    fresh: i8  # it has arrived since the previous cut
    y_mid: f8  # in the middle of the interval before the sample; NaN if unknown
    y_mean: f8  # over that interval; NaN if unknown
    dy: Annotated[Floats, COEFFICIENTS - 1]  # time derivatives; NaN if unknown


class GivenInput(TableRow):
    """Measurement of an input; in the input's unit."""

    realised: f8  # the bench's measurement of it; NaN if not measured


class GivenChange(TableRow):
    """Change of a threshold (`row` -1), or of the bond, drive, fault or parameter `row`."""

    what: i8
    row: i8
    value: f8


class Slack(TableRow):
    """Recorded input of `assess`, known only after the dispatch; one record."""

    missed: i8  # this tick missed its dispatch deadline
    learns: i8  # there is time left for one turn of the identification


class StepInput(NamedTuple):
    """Samples, lateness, and changes; see the comments of each table's fields.

    `gamma`, shape (order + 1, ny, nu), holds the renewed Jacobians; without a model it is empty.
    `answers` holds the renewed factors of `State.answers`.
    """

    session: Table[GivenSession]
    subsystems: Table[GivenSubsystem]
    outputs: Table[GivenOutput]
    inputs: Table[GivenInput]
    changes: Table[GivenChange]
    gamma: Floats
    answers: Floats


def empty_input(
    subsystems: int,
    outputs: int,
    inputs: int,
    gamma: tuple[int, int, int] = (0, 0, 0),
    answers: int = 0,
) -> StepInput:
    """A `StepInput` with that many rows, without samples."""
    given = StepInput(
        session=table(GivenSession, 1),
        subsystems=table(GivenSubsystem, subsystems),
        outputs=table(GivenOutput, outputs),
        inputs=table(GivenInput, inputs),
        changes=table(GivenChange, CHANGES),
        gamma=np.zeros(gamma),
        answers=np.zeros(answers),
    )
    given.session["regular"] = given.session["apply"] = 1
    given.session["error"] = given.session["scaling"] = np.nan
    given.subsystems["due"] = 1
    given.outputs["y_mid"] = given.outputs["y_mean"] = given.outputs["dy"] = np.nan
    given.inputs["realised"] = np.nan
    return given


def empty_slack() -> Table[Slack]:
    """Input of `assess`: nothing missed, and time to learn."""
    slack = table(Slack, 1)
    slack["learns"] = 1
    return slack
