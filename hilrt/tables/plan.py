"""`Plan`: the constants of a session's macro step.

Indices are rows of the other tables. Relations of the whole network (which input depends on which
output) are lists of neighbours, not dense matrices; only the model correction has matrices.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, get_args

from hilrt.config.session_tables import ValueKind
from hilrt.solver import Floats
from hilrt.tables.model import ModelPlan
from hilrt.tables.program_tables import (
    CalculatedOutput,
    ChannelSource,
    LookupPoint,
    OperationRow,
    ReadingRow,
)
from hilrt.tables.record import COEFFICIENTS, Table, TableRow, f8, i8

#: Methods of the step control, by their numbers in `Plan.session`.
FIXED: Final = 0
PI: Final = 1
LOCAL: Final = 2
ECCO: Final = 3

#: Result of comparing a bond's correction with its subsystems.
UNVERIFIED: Final = 0
VERIFIED: Final = 1
WRONG: Final = 2

#: Reaction to a sample outside its port's declared range, by its number in `Plan.outputs`.
RANGE_POLICIES: Final = ("use", "hold", "safe")
RANGE_USE, RANGE_HOLD, RANGE_SAFE = range(3)

#: Shapes of a stimulus' segments, by their numbers in `Plan.segments`. A "step" is a "hold" with a
#: value of its own, a "column" becomes "points".
SHAPES: Final = ("hold", "ramp", "sine", "chirp", "prbs", "noise", "points")
HOLD, RAMP, SINE, CHIRP, PRBS, NOISE, POINTS_SHAPE = range(7)

#: Effect of a fault on a value, by its number in `Plan.alterations`.
FAULT_KINDS: Final[tuple[str, ...]] = get_args(ValueKind)
CONSTANT, STUCK, OFFSET, GAIN, NOISY, DRIFT, QUANTISE, DELAY, JITTER, LOSS, DUPLICATE = range(11)


class SessionPlan(TableRow):
    """Constants of the session; one record."""

    step: f8  # macro step H, s
    first_step: f8  # initial macro step if the step is variable, s
    variable_step: i8
    shadow: i8  # corrections are computed and not applied
    coefficients: i8  # number in a polynomial sent: highest order + 1
    samples: i8  # kept per output
    derivatives: i8  # of outputs that connections of source "taylor" use
    shared_inputs: i8  # a bond's input also has other connections
    # step control
    step_method: i8  # FIXED, PI, LOCAL or ECCO
    tolerance: f8
    minimum_step: f8  # s
    maximum_step: f8  # s
    energy_atol: f8  # of ECCO: J
    energy_rtol: f8
    safety: f8
    growth: f8  # largest ratio of a step to the previous one
    has_tolerances: i8
    tests_errors: i8  # the local error of inputs is estimated and tested at every step
    judges_before: i8  # the error is estimated before the samples are accepted
    # order control
    controls_order: i8
    initial_order: i8
    minimum_order: i8
    maximum_order: i8
    all_free: i8  # every connection's order is controlled
    # reliability
    scale_time: f8  # time constant of the running scales, s
    clear_time: f8  # time for which a ratio is low before its flag clears, s
    warm_up: f8  # time before which ratios to a scale are ignored, s
    clock_limit: f8  # of a bench's clock error, s per base step between its points
    sample_spacing: f8  # shortest time between samples that gives a rate, s
    # estimated errors
    error_states: i8  # of the coupled system's error; 0: it is not estimated
    error_unit: f8  # length of the step that `error_paths` are valid for, s
    error_linear: i8  # its responses are valid for any state
    error_renewed: i8  # they are renewed while the session runs
    error_of_reference: i8  # they are those of a reference model
    # Cholesky factor of the Gram matrix of (t - t0)^m / m! over [-1, 0]
    gram_factor: Annotated[Floats, (COEFFICIENTS, COEFFICIENTS)]


class SubsystemPlan(TableRow):
    """Constants of a subsystem."""

    every: i8  # base steps between its communication points
    physical: i8  # a bench: runs on its own
    calculated: i8  # its outputs are the calculated channels: it is never late
    # Found by a trial: its steps must not be repeated; none of its outputs responds
    steps_final: i8
    inputs_ignored: i8
    inside: i8  # knowledge of its outputs within a step: `hilrt.link.UNSEEN`, …
    memory: f8  # longest time constant if a trial shows that it is damped, s; else 0
    holds_when_late: i8  # late policy "hold"
    predicts_when_late: i8  # late policy "predict"
    max_misses: i8  # maximum consecutive due points without a usable sample
    first_output: i8
    outputs: i8
    first_input: i8
    inputs: i8


class OutputPlan(TableRow):
    """Constants of an output; in its unit unless stated."""

    subsystem: i8
    calculated: i8  # no subsystem sends it: a calculated channel; 2: with stored samples
    spacing: f8  # shortest time between two samples that count separately, s
    coupled: i8  # connected to something
    free: i8  # source of a connection whose order is controlled
    atol: f8
    rtol: f8
    low: f8  # declared range; infinite if there is none
    high: f8
    range_policy: i8  # RANGE_USE, RANGE_HOLD or RANGE_SAFE
    answers_known: i8  # its direct responses to its inputs were probed: `DirectAnswer`
    # estimated error
    followed: i8  # estimated by the coupled system's responses, else by the gain range
    # Factor from estimate to half width of its band; 0: no coupling affects it; NaN: no estimate
    error_high: f8


class InputPlan(TableRow):
    """Constants of an input; in its unit unless stated."""

    subsystem: i8
    connected: i8
    exact: i8  # read or set by test sequences alone: holding is no approximation
    constant: f8  # connected: sum of the offsets; else the start value
    first_connection: i8  # connections are ordered by their inputs
    connections: i8
    lead: f8  # actuation delay, compensated by sending inputs for a later time, s
    dead_time: f8  # assumed further delay until it acts, s
    low: f8
    high: f8
    max_rate: f8  # unit/s
    max_jerk: f8  # unit/s^2
    free: i8  # has a connection whose order is controlled
    atol: f8
    rtol: f8
    realised_by: i8  # output of a bench that measures its realised value; -1: none
    # Resolution at which its subsystem follows it in a step: 1 continuous, 0 start value only
    fineness: f8
    slope: f8  # share of its polynomial's change within a macro step that acts
    lags: i8  # a source has direct feedthrough with unknown responses
    drive: i8  # row of `drives`; -1: only its connections act on it
    first_alteration: i8  # of the input itself
    alterations: i8


class ConnectionPlan(TableRow):
    """Constants of a connection."""

    source: i8  # output
    target: i8  # input
    gain: f8  # with the conversion of units
    order: i8
    free: i8  # its order is controlled
    taylor: i8  # uses the output's derivatives
    raw: i8  # uses the newest raw sample, for a test sequence
    offset: f8  # in the input's unit
    # Output that indicates whether the source, a port of a sequence, drives; -1: it always does
    driven: i8
    first_alteration: i8
    alterations: i8


class DrivePlan(TableRow):
    """Input that may be driven by something other than its connections."""

    input: i8
    start: f8  # value without connections
    rate: f8  # of blending to another source, unit/s; may be infinite
    blend: f8  # blending time if the rate is infinite, s
    degree: i8  # of stimuli; -1: that of the connections
    first_stimulus: i8  # stimuli are ordered by their inputs
    stimuli: i8
    first_jump: i8
    jumps: i8
    faulted: i8  # a fault may alter it, a connection to it, or an output that feeds it


class FaultPlan(TableRow):
    """Times and conditions of a fault."""

    start: f8  # s; infinite: it waits for an operator
    end: f8  # s; infinite if it has none
    start_when: i8  # register of its start condition; -1: none
    end_when: i8


class AlterationPlan(TableRow):
    """Effect of a fault on one scalar.

    Rows are ordered by location: outputs, connections, inputs; then as in the file.
    """

    fault: i8
    kind: i8  # of `FAULT_KINDS`
    output: i8  # -1: it alters a connection or an input
    first: i8  # 1 for the first one at its location
    closing: i8  # 1 for the last one at its location
    amount: f8  # in the unit of its location
    seed: i8
    first_slot: i8  # of `State.underway`, which holds delayed values
    slots: i8


class StimulusPlan(TableRow):
    """Constants of a stimulus."""

    replaces: i8  # it drives the input, instead of being added
    first_segment: i8
    segments: i8
    runs: i8  # number of passes through the segments
    holds: i8  # afterwards it holds its last value
    start: f8  # s
    end: f8  # s; infinite if it has none
    start_when: i8  # condition that starts it, and one that ends it; -1: none
    end_when: i8


class SegmentPlan(TableRow):
    """Segment of a stimulus; in its input's unit unless stated."""

    kind: i8  # of `SHAPES`
    duration: f8  # s; a ramp with a rate: NaN
    begin: f8  # start value, or mean of an oscillation; NaN: end value of the previous segment
    target: f8  # of a ramp
    rate: f8  # of a ramp, unit/s; 0: given by the duration
    amplitude: f8
    frequency: f8  # Hz
    sweep: f8  # of a chirp: Hz/s; logarithmic: 1/s, of the frequency's logarithm
    logarithmic: i8
    phase: f8  # cycles
    interval: f8  # of held values, s; noise: 0 for a value per tick
    seed: i8
    uniform: i8  # distribution of noise; else normal
    held: i8  # points are held until the next one, not interpolated
    first_point: i8
    points: i8


class StimulusPoint(TableRow):
    """Point of a stimulus: time since its segment's beginning, s, and value."""

    t: f8
    y: f8
    next_break: f8  # time of the next point at which the curve jumps or bends, s; infinite: none


class JumpPlan(TableRow):
    """Output whose extrapolation restarts after its input has jumped.

    It depends directly on the input, or belongs to the same subsystem.
    """

    output: i8
    after: i8  # its points until it jumps; 0: it bends when the input jumps or bends


class ParameterPlan(TableRow):
    """Parameter of a subsystem that may change."""

    subsystem: i8
    register: i8  # that of a constant calculated channel; else -1
    low: f8
    high: f8
    first_stimulus: i8
    stimuli: i8


class BondPlan(TableRow):
    """Constants of a power bond."""

    first: i8  # its first element
    elements: i8
    every: i8  # base steps between its communication points: those of the slower side
    mu: f8
    nu: f8
    adapts: i8  # mu follows what the interface creates, between two bounds
    mu_least: f8
    mu_most: f8
    side_flow: i8  # output, flow at the effort's side, that mu follows; -1 if there is none
    held: i8  # the residual is that of held values, not of polynomials as sent
    wanted: i8  # the session file requests the energy correction
    active: i8  # the requested correction may act; otherwise it runs in shadow mode
    spurious: f8  # share of the residual energy that counts as spurious energy
    corrected_elsewhere: i8  # by feedthrough or a model: its residual is then not an error
    verification: i8  # of its correction: UNVERIFIED, VERIFIED or WRONG
    keeps: i8  # the correction remains active even if found harmful
    tried: i8  # the efforts' direct responses to their inputs are known from a trial
    integrated: i8  # the effort is known at both ends of an interval


class ElementPlan(TableRow):
    """Ports of an element of a bond."""

    bond: i8
    effort: i8  # output
    flow: i8  # output
    effort_input: i8
    flow_input: i8
    effort_gain: f8  # from the output's unit to the input's
    flow_gain: f8
    watt: f8  # product of the outputs' units in W


class Summand(TableRow):
    """Further output that a summing junction adds to an element's effort."""

    element: i8
    output: i8


class SensitivityPlan(TableRow):
    """Probed direct response of an element's effort to an input, per unit.

    `answer` is the row of `State.answers` with its renewed value, or -1.
    """

    element: i8
    input: i8
    factor: f8
    answer: i8


class Contribution(TableRow):
    """Connection to an input of an element from outside the element's bond."""

    element: i8
    at_flow: i8
    connection: i8
    gain: f8


class PassPlan(TableRow):
    """Output with a direct dependency on an input fed by `giver`, another subsystem."""

    output: i8
    giver: i8


class FeedPlan(TableRow):
    """Input fed by `giver`, another subsystem."""

    input: i8
    giver: i8


class ReceiptPlan(TableRow):
    """Subsystem with an input fed by `giver`, another subsystem."""

    subsystem: i8
    giver: i8


class DirectAnswer(TableRow):
    """Probed direct response of an output to an input, per unit."""

    output: i8
    input: i8


class ErrorPath(TableRow):
    """Path by which the coupled system propagates a disturbance, over one macro step.

    It leads to a state of the errors, from another one or from the mean of an input's disturbance.
    """

    to: i8
    source: i8
    of_input: i8


class ErrorAnswer(TableRow):
    """Path to an output at a macro step's end: from a state, or from an input's disturbance."""

    output: i8
    source: i8
    of_input: i8


#: Sources of an `OwnPath`: a subsystem's state; an input at the step's beginning; its change within
#: the step; the number 1.
OF_STATE, OF_START, OF_CHANGE, OF_CONSTANT = range(4)


class OwnPath(TableRow):
    """Entry of a macro step of a subsystem whose own integration errs, or of the step's error."""

    subsystem: i8
    to: i8  # a state
    source: i8
    kind: i8  # of the source: OF_STATE, …
    erring: i8  # of the step's error


class CheckPlan(TableRow):
    """Check of one subject for one cause of flags; checks are grouped by causes."""

    cause: i8
    subject: i8


class CausePlan(TableRow):
    """Checks of a cause, in the order of `hilrt.reliability.causes`."""

    first: i8
    checks: i8


class AlarmPlan(TableRow):
    """Limits of an alarm; in its output's unit unless stated."""

    output: i8
    low: f8
    high: f8
    max_rate: f8  # unit/s
    delay: f8  # s
    level: i8  # of the action


class Plan(NamedTuple):
    """Constants of a session; see the comments of each table's fields."""

    session: Table[SessionPlan]
    subsystems: Table[SubsystemPlan]
    outputs: Table[OutputPlan]
    inputs: Table[InputPlan]
    connections: Table[ConnectionPlan]
    drives: Table[DrivePlan]
    stimuli: Table[StimulusPlan]
    segments: Table[SegmentPlan]
    points: Table[StimulusPoint]
    jumps: Table[JumpPlan]
    faults: Table[FaultPlan]
    alterations: Table[AlterationPlan]
    parameters: Table[ParameterPlan]
    bonds: Table[BondPlan]
    elements: Table[ElementPlan]
    summands: Table[Summand]
    sensitivities: Table[SensitivityPlan]
    contributions: Table[Contribution]
    passes: Table[PassPlan]
    feeds: Table[FeedPlan]
    receives: Table[ReceiptPlan]
    direct: Table[DirectAnswer]
    error_paths: Table[ErrorPath]
    error_answers: Table[ErrorAnswer]
    own_paths: Table[OwnPath]
    checks: Table[CheckPlan]
    causes: Table[CausePlan]
    alarms: Table[AlarmPlan]
    # of expressions
    operations: Table[OperationRow]
    lookup_points: Table[LookupPoint]
    readings: Table[ReadingRow]
    calculated: Table[CalculatedOutput]
    channel_sources: Table[ChannelSource]
    model: ModelPlan
