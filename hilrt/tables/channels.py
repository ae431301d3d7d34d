"""Tables of the channels between the master and its subsystems, and of their inboxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.tables.given import GivenInput, GivenOutput
from hilrt.tables.record import Table, TableRow, f8, i8

#: A bench that has not sent for this many of its steps is late.
BENCH_PATIENCE = 2.5


class ChannelRow(TableRow):
    """Channel between the master and a subsystem."""

    # constant
    every: i8  # base steps between its communication points
    physical: i8  # a bench: runs on its own
    calculated: i8  # its outputs are calculated by the step
    catches_up: i8  # receives every interval, one after another
    patience: f8  # age of its newest sample from which a bench is late, s
    max_misses: i8  # consecutive due ticks without a sample until it counts as lost
    # outstanding interval
    busy: i8  # an answer of the solver is outstanding
    answer_ns: i8  # session time at which the interval ends, ns
    answered: i8  # the answer, or a bench's samples, are in the inbox
    restarting: i8  # the next answer is the first after it was lost
    pending_end_ns: i8  # session time at which the newest pending interval ends, ns
    # newest sample
    newest: f8  # when it is valid, s
    age: f8  # at the cut, s
    compute_us: f8  # computing time of the newest step
    wire_us: f8  # time on the wire (`PeerTimes.wire`); NaN where unknown
    # counts
    misses: i8  # consecutive due ticks without a sample, up to now
    late: i8  # ticks without the sample that was due
    rejoined: i8  # number of returns after a loss


class ExchangeRow(TableRow):
    """Counts over all subsystems; one record."""

    open: i8  # something was accepted since the last cut
    taken: i8  # samples accepted so far
    waits_from: f8  # start of the wait for answers, s; NaN in real time


class InboxRow(TableRow):
    """Inbox of a subsystem: its answer or, for a bench, all samples since the last cut, merged."""

    # constant: its rows
    outputs_begin: i8
    outputs_end: i8
    inputs_begin: i8
    inputs_end: i8
    # content; 0 while empty
    samples: i8
    has_middle: i8  # outputs in the middle of the interval
    derivatives: i8  # of each output
    has_realised: i8  # the bench's measurements of its inputs
    event: i8  # a discontinuity was reported
    clock_known: i8  # `clock_error` is given
    timed: i8  # the answer's times on the wire are given
    # of the newest sample
    event_t: f8  # of the earliest reported discontinuity, s
    newest: f8  # when a bench's newest value is valid, s
    clock_error: f8  # bound of a bench's clock's error, s
    compute_us: f8
    round_trip_us: f8
    way_us: f8
    t_arrived: f8  # s


class InboxTables(NamedTuple):
    """Input of the cut in addition to `StepInput`; `outputs` and `inputs` have its layout.

    `arriving` and `measured` hold the outputs and inputs of one sample while it is merged into
    them. `counts`, shape (n, 3, BINS), and `longest_ns`, shape (n, 3), count the answers' times.
    """

    exchange: Table[ExchangeRow]
    channels: Table[ChannelRow]
    subsystems: Table[InboxRow]
    outputs: Table[GivenOutput]
    inputs: Table[GivenInput]
    arriving: Table[GivenOutput]
    measured: Table[GivenInput]
    counts: NDArray[np.int64]
    longest_ns: NDArray[np.int64]
