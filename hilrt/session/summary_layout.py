"""Layout of `summary.json`, for its schema and docs/summary.md: keys, types, units and meanings.

Numbers that are not finite are written as null, so measured figures may be null. `summary` and
`summary_figures` write plain dictionaries; a test compares them with this layout.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hilrt.config.schema import described_components
from hilrt.expect.outcome import ResultEntry


class StepSizes(msgspec.Struct):
    """Macro steps of a session."""

    #: [s] The first macro step.
    first: float
    #: [s] The shortest macro step.
    min: float
    #: [s] Mean of all macro steps.
    mean: float
    #: [s] The longest macro step.
    max: float


class OrdersInForce(msgspec.Struct):
    """Order of extrapolation: at each communication point, the highest of all inputs."""

    #: Smallest over the session.
    min: int
    #: Mean over the session.
    mean: float
    #: Largest over the session.
    max: int


class RepeatedFigures(msgspec.Struct):
    """Steps that were made more than once (docs/methods.md#repeated-steps)."""

    #: Steps that were repeated with a shorter length.
    steps: int
    #: Attempts that were rejected because the error of the step was too large.
    refused: int
    #: Attempts that were rejected because the corrector did not converge.
    unsettled: int
    #: Corrector steps of the implicit scheme.
    corrections: int
    #: Largest finite scaling factor r of an accepted step, that is, how many times longer it could
    #: have been; 0 if no step was tested.
    largest_scaling: float


class DefectFigures(msgspec.Struct):
    """Size of a defect or a disturbance, in the port's unit."""

    #: Root mean square over the time in which it is known.
    rms: float | None
    #: Largest magnitude.
    max: float | None


class SpreadFigures(msgspec.Struct):
    """Spread of a port's value over time, in its unit."""

    #: Standard deviation.
    std: float | None
    #: Root mean square.
    rms: float | None


class PortFigures(msgspec.Struct):
    """Figures of a port, in its unit."""

    #: For inputs: difference between the input as sent and the values that its sources then
    #: delivered; null for outputs.
    connection_defect: DefectFigures | None
    #: For inputs: the disturbance Δu (docs/reliability.md#estimated-error), that is, the input as
    #: it acted minus its sources' values inside the interval; null for outputs, and if it was never
    #: known.
    disturbance: DefectFigures | None
    #: Spread of the port's value over time.
    spread: SpreadFigures | None
    #: For outputs of subsystems that report the middle or the mean of their step: its difference
    #: from the polynomial; otherwise null.
    output_defect: DefectFigures | None
    #: For outputs with a declared range: number of communication points with a new value outside
    #: it; otherwise null.
    out_of_range: int | None
    #: Last value: of inputs as sent, of outputs as corrected; null if there was none.
    last: float | None


class BondFigures(msgspec.Struct):
    """Energies of a power bond since the start; the sums run over the macro steps."""

    #: [J] ΣH δP: energy created by the exchange at the interface (negative: lost).
    residual_energy_j: float | None
    #: [J] ΣH e (f_realised − f̃): energy of the bench's deviation from its demand.
    tracking_energy_j: float | None
    #: [J] −ΣH e_corr f: energy removed by the energy correction.
    corrected_energy_j: float | None
    #: [J] 𝒰: energy still to be corrected.
    uncorrected_energy_j: float | None
    #: [J] Energy that the interface has created, integrated over the intervals if the subsystems
    #: were probed; otherwise `drift_energy_j`.
    interface_energy_j: float | None
    #: [J] The range of the energy that the bond has carried.
    carried_energy_j: float | None
    #: [J] Energy that the interface created and no correction removed, as far as known
    #: (docs/reliability.md#energy-drift).
    drift_energy_j: float | None
    #: [J] Energy that a correction in shadow would have removed.
    shadow_energy_j: float | None
    #: Share of the bond's communication points at which the correction was at its cap.
    cap_share: float
    #: True if the correction acted, false if it ran in shadow.
    applied: bool


class ChangeFigures(msgspec.Struct):
    """A change that would help."""

    #: What to do.
    text: str
    #: Keys of the session file with their new values; empty if the change is not one of the file.
    settings: dict[str, Any]
    #: Error of the worst signal after the change, relative to its variation; null if unknown.
    expected: float | None


class ErrorFigures(msgspec.Struct):
    """Estimated error of a coupling signal, RMS over the session."""

    #: Unit of `value`, `low` and `high`.
    unit: str
    #: The estimate; null if it is unknown, and then the next three as well.
    value: float | None
    #: Lower end of the interval that is meant to contain the true error in 95 % of sessions.
    low: float | None
    #: Upper end of the interval.
    high: float | None
    #: `high` over the larger of the signal's standard deviation and 5 % of its RMS.
    relative: float | None
    #: Basis of the estimate (docs/reliability.md#estimated-error); if it is unknown, the reason.
    how: str


class FlagFigures(msgspec.Struct):
    """Figures of a cause that was raised."""

    #: How often one of its flags was raised while no other of its flags was up.
    count: int
    #: [s] How long any of its flags was up, including the delay before it was cleared
    #: (`reliability.clear_time`).
    seconds: float
    #: [s] Length of the affected steps.
    affected_s: float | None = None
    #: [s] Length of the affected steps in the worst second.
    worst_second: float | None = None


class TickTimes(msgspec.Struct):
    """Quantiles of a time."""

    #: [µs] Median.
    p50: float
    #: [µs] 99 % are shorter.
    p99: float
    #: [µs] 99.9 % are shorter.
    p999: float
    #: [µs] 99.99 % are shorter.
    p9999: float
    #: [µs] The longest.
    max: float


class TickParts(msgspec.Struct):
    """Parts of a tick."""

    #: From the grid point until the master runs.
    wake: TickTimes
    #: Receiving samples.
    cut: TickTimes
    #: Computing the inputs.
    macro_step: TickTimes
    #: Sending the inputs.
    dispatch: TickTimes
    #: The rest of the tick.
    slack: TickTimes


class SlowTickFigures(msgspec.Struct):
    """One of the ticks with the greatest lateness."""

    #: Number of the tick.
    tick: int
    #: [s] Session time of the tick.
    t: float
    #: [µs] From the tick until the last input is sent.
    lateness_us: float
    #: [µs] From the grid point until the master ran.
    wake_us: float
    #: [µs] Receiving samples.
    cut_us: float
    #: [µs] Computing the inputs.
    macro_step_us: float
    #: [µs] Sending the inputs.
    dispatch_us: float
    #: [µs] The slack of the previous tick; null at the first.
    slack_us: float | None
    #: The part that took longest, as in `missed_because`.
    cause: str
    #: Subsystems whose sample was late.
    late: list[str]


class LatenessHistogram(msgspec.Struct):
    """Histogram of the lateness."""

    #: [µs] n + 1 edges.
    edges_us: list[float]
    #: Ticks in each of the n bins.
    counts: list[int]


class LearningTurns(msgspec.Struct):
    """Turns of the identification of Jacobians, one subsystem each."""

    #: Turns made.
    turns: int
    #: Turns skipped because the slack of their tick was too short.
    skipped: int


class PeerFigures(msgspec.Struct):
    """Messages and answer times of a subsystem."""

    #: Messages that never arrived; for a bench on CAN, frames that are missing according to their
    #: counter are included.
    lost: int
    #: Messages that were received and rejected: malformed (including arrays of the wrong length),
    #: too large, or of an unknown type; the log names the first of each kind. For a bench on CAN,
    #: frames that were rejected are included (docs/can.md#what-counts-as-a-measurement); the event
    #: `can_messages` has the reasons. For a replayed CAN log: frames that could not be decoded.
    dropped: int
    #: Ticks at which the sample that was due had not arrived, or only one for an earlier point.
    late: int
    #: How often it returned after it was lost (`late.rejoin`).
    rejoined: int
    #: Computing time of its steps, as the solver reports it. This key and the next two are only
    #: given for solvers in separate processes; otherwise they are null.
    compute_us: TickTimes | None
    #: Transmission time. At pace `"asap"`: the round trip minus the computing time, for answers
    #: that the master waited for. In real time: from sending the inputs until the solver reads
    #: them, by the solver's clock; the offset of that clock is known to about half of the fastest
    #: round trip.
    wire_us: TickTimes | None
    #: Time for which the master waited for its answers (0: the answer had already arrived); null in
    #: real time, where the master does not wait.
    collect_wait_us: TickTimes | None


class UnrecordedEvent(msgspec.Struct):
    """An event that is missing in the log."""

    #: [s] Session time.
    t: float
    #: `info`, `warning`, `error`, …
    level: str
    #: Cause of the event (docs/reference/events.md).
    cause: str
    #: Subsystem, or part of the session.
    source: str
    #: What happened.
    text: str


class RecorderFigures(msgspec.Struct):
    """Losses of the recording."""

    #: Steps missing in the log, because the recorder could not accept them, or failed before it had
    #: confirmed them. If there are any, the verdict is not `good`.
    dropped_rows: int
    #: Events missing in the log, the newest 500; the key is omitted if there are none.
    lost_events: list[UnrecordedEvent] = []


class AlarmFigures(msgspec.Struct):
    """An alarm that was raised."""

    #: Name of the alarm, with the watched signal and its limits.
    name: str
    #: How often it was raised.
    count: int
    #: [s] When it was first raised.
    first_t: float
    #: [s] When it was last raised.
    last_t: float
    #: [s] When it last cleared; null while it is up.
    cleared_t: float | None
    #: [s] How long it was up, including the delay before it was cleared
    #: (`reliability.clear_time`).
    active_s: float
    #: The operator who has acknowledged it since it was last raised; empty if nobody has.
    acknowledged_by: str
    #: [s] Time of that acknowledgement; null if there is none.
    acknowledged_t: float | None
    #: The operator who acknowledged it before it was last raised; empty if nobody did.
    seen_by: str
    #: [s] Time of that acknowledgement; null if there is none.
    seen_t: float | None


class SummaryWithoutSteps(msgspec.Struct, kw_only=True):
    """Keys of every summary, the only ones if a session ended before its first tick."""

    #: Version of this file's format.
    format: str
    #: Name in the session file.
    session: str
    #: Name of the session file.
    session_file: str
    #: Settings that override the session file, as `table.key=value`.
    overrides: list[str]
    #: Last state of the session: `STOPPED` or `FAULT`; if it was interrupted before its first tick,
    #: its state at that time.
    state: str
    #: Macro steps completed.
    steps: int
    #: [s] Session time reached.
    time_s: float
    #: How far the results can be trusted (docs/reliability.md).
    verdict: Literal["good", "unverified", "degraded", "unreliable"]
    #: Reasons why the verdict is not `good`, each as `CAUSE: sentence`, with the places where the
    #: flag was up longest.
    reasons: list[str]
    #: Whether the verdict rests on a lack of evidence alone, not on a measurement
    #: (docs/reliability.md#lack-of-evidence).
    evidence_lacking: bool
    #: Versions of packages.
    versions: dict[str, str]
    #: The machine, and its real-time capabilities.
    host: dict[str, Any]


class SummaryOfSteps(SummaryWithoutSteps, kw_only=True):
    """Figures of the steps, in addition to the keys of every session."""

    #: [s] Wall-clock time for `time_s`.
    wall_s: float
    #: Length of the macro steps.
    step_size_s: StepSizes
    #: Order of extrapolation; null without order control.
    order: OrdersInForce | None
    #: Steps that were made more than once; null if every step is made only once.
    repeated: RepeatedFigures | None
    #: Figures of each port, by `subsystem.port`.
    ports: dict[str, PortFigures]
    #: Figures of each power bond, by name.
    bonds: dict[str, BondFigures]
    #: If the verdict is not `good`: at most two changes that would help, the most effective first.
    advice: list[ChangeFigures]
    #: Other orders and steps that this advice examined, each with the reason against it.
    rejected: list[str]
    #: Estimated error (docs/reliability.md#estimated-error) of each connected output, by
    #: `subsystem.port`.
    estimated_error: dict[str, ErrorFigures]
    #: Subsystems whose own integration errors the estimated errors include.
    own_integration: list[str]
    #: Figures of each cause (docs/reliability.md#causes) that was raised.
    flags: dict[str, FlagFigures]
    #: Time from the tick until the last input is sent; null in virtual time.
    lateness_us: TickTimes | None
    #: Time from the cut until the last input is sent.
    compute_us: TickTimes | None
    #: Duration of each part of a tick.
    timeline_us: TickParts
    #: The ten ticks with the greatest lateness, worst first; empty in virtual time.
    slowest_ticks: list[SlowTickFigures]
    #: Missed ticks by the part that took longest: `wake`, `previous` (the previous tick extended
    #: past the grid point), `cut`, `macro_step`, `dispatch`, and `skipped` (grid points skipped
    #: because at least half of their step had passed).
    missed_because: dict[str, int]
    #: Histogram of the lateness; null in virtual time.
    lateness_histogram: LatenessHistogram | None
    #: Grid points whose inputs were not all sent within the dispatch deadline, including skipped
    #: ones.
    missed_ticks: int
    #: [s] Time in which the host of this virtual machine ran something else on the master's
    #: processors (mean over them, as counted by Linux); null in virtual time and if not available.
    stolen_s: float | None
    #: Share of one processor that each process of the session used from the first tick to the last,
    #: all threads together; empty if not available (Linux only).
    processor_share: dict[str, float]
    #: The master's priority under `SCHED_FIFO`; 0: an ordinary process.
    real_time_priority: int
    #: [s] Longest interval at which each bench sends its outputs, according to its database or
    #: emulator; a bench is omitted if neither gives one.
    sending_interval_s: dict[str, float]
    #: [1/s] Rate by which the exchange makes errors grow beyond the coupled system's own growth,
    #: with the stiffest responses that trials have shown; null if unknown.
    growth_per_s: float | None
    #: [s] Longest step, up to ten times the session's, at which the exchange does not let errors
    #: grow, with the stiffest responses that trials have shown; null if unknown.
    stable_step_s: float | None
    #: Identification of Jacobians; null without it.
    identification: LearningTurns | None
    #: [s] Delay of the grid behind the clock (`overrun = "stretch"`).
    stretched_s: float
    #: Messages and answer times of each subsystem.
    peers: dict[str, PeerFigures]
    #: Number of messages and commands that were rejected because of their sender, by kind: messages
    #: of connections that belong to no subsystem (`unknown_key`, `no_key`, `unknown_token`,
    #: `no_token`, `rejected`, `unknown_sender`, `malformed`, `oversized`, …), and commands
    #: (`wrong_token`, a number that is updated every 5 s; `wrong_key`: a command that did not come
    #: through the relay). Empty if there were none.
    strangers: dict[str, int]
    #: Rows and events that are missing in the log.
    recorder: RecorderFigures
    #: Alarms (docs/reliability.md#alarms) that were raised, in the order of their first time.
    alarms: list[AlarmFigures]
    #: Outcomes of expectations (docs/expectations.md) and measurements: first those of the session
    #: file in its order, then those that sequences added, in the order in which they did.
    results: list[ResultEntry]
    #: One text for each column of a file (docs/session.md#stimulisegments) that a stimulus uses:
    #: its rows, its interpolation, and the number of rows that are skipped because they lie
    #: between two steps.
    stimulus_columns: list[str]


def summary_schema() -> dict[str, Any]:
    """Schema (draft 2020-12) of `summary.json`."""
    references, components = described_components([SummaryOfSteps, SummaryWithoutSteps])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hilrt summary",
        "anyOf": [{"$ref": reference} for reference in references.values()],
        "$defs": components,
    }
