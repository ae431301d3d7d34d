"""The tables of a session file as typed structs, whose comments document its keys.

Adapters add keys by subclassing `SubsystemOptions`; `hilrt.config.session_file` reads a file into
these structs.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from hilrt.config.session_tables import (
    FaultTable,
    MonitorTable,
    NonNegative,
    Positive,
    RecordTable,
    Stimulus,
    Table,
)

MAX_ORDER = 5
#: Name, and adapter, of the subsystem whose outputs are the calculated channels.
CALCULATED = "calculated"
MAX_STEP_S = 100.0

Order = Annotated[int, msgspec.Meta(ge=0, le=MAX_ORDER)]


class SessionTable(Table):
    """``[session]``"""

    #: Name of the session and of its run folder; letters, digits, `_`, `-`, `.`.
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    #: [s] Session time; the run ends at the first communication point at or after it.
    duration: Positive
    #: `"realtime"`, required with a bench; `"asap"`, as fast as the solvers respond; or a number:
    #: session seconds per second of wall-clock time.
    pace: Literal["realtime", "asap"] | Positive = "realtime"
    #: `"manual"`: wait for Enter on the terminal before enabling benches; `hilrt run --arm` does
    #: not wait.
    arm: Literal["auto", "manual"] = "auto"


class Extrapolation(Table):
    """Extrapolation of an input over the next macro step."""

    #: Degree of the polynomial; 0 holds. `order` of a connection overrides it.
    order: Order = 1
    #: Polynomial through the newest samples (`"lagrange"`), or from the derivatives that a solver
    #: returns in `Sample.dy` (`"taylor"`).
    source: Literal["lagrange", "taylor"] = "lagrange"


class StepControl(Table):
    """``[master.step_control]``; docs/methods.md, "Step control"."""

    #: `"fixed"`: the step does not change. Otherwise it follows the largest defect (`"pi"`), the
    #: estimated local error (`"local"`), or the power residual of the bonds (`"ecco"`).
    method: Literal["fixed", "pi", "local", "ecco"] = "fixed"
    #: `"local"`: the error that is controlled. `"inputs"`: that of the inputs as sent.
    #: `"higher_degree"` and `"milne"`: the difference of the outputs between two runs of the same
    #: step; in the second run the inputs have one degree more (`"higher_degree"`), or interpolate
    #: (`"milne"`). These two need models in this process that save and restore their state
    #: (docs/methods.md#repeated-steps).
    estimator: Literal["inputs", "higher_degree", "milne"] = "inputs"
    #: `"local"`: repeat a step whose error is above the tolerance, with a shorter length. Default:
    #: true; false for the estimator `"inputs"`.
    repeat: bool | None = None
    #: Outputs that are second integrals of inputs, such as positions where the input is a force
    #: (`*` for any characters: `"*.x"`). Their errors fall with one more power of the step.
    positions: list[str] = []
    #: [of the ports, or none] `"pi"`: target for the largest RMS defect. If `atol` or `rtol` is
    #: given, defects are first divided by `atol` + `rtol` · magnitude of the value; then 1 is a
    #: natural choice.
    tolerance: Positive = 1.0
    #: [s] First step; default: `master.step`, at most `maximum`.
    initial: Positive | None = None
    #: [s] Smallest step.
    minimum: Positive = 1e-9
    #: [s] Largest step.
    maximum: Positive = MAX_STEP_S
    #: [of the ports; `"ecco"`: J] Absolute part of the tolerance `atol` + `rtol` · magnitude of the
    #: value. A table gives it by port: `{ "left.x" = 1e-6, "*.v" = 1e-3 }`.
    atol: NonNegative | dict[str, NonNegative] | None = None
    #: Relative part, by port like `atol`. With method `"fixed"`, `atol` and `rtol` are only the
    #: threshold of the flag `error_estimate`.
    rtol: NonNegative | dict[str, NonNegative] | None = None
    #: `"local"`: factor on the error, 2 to 6 (default: 6). `"ecco"`: factor on the step (default:
    #: 0.95).
    safety: Positive | None = None
    #: Largest ratio of a step's length to that of the step before.
    growth: Annotated[float, msgspec.Meta(gt=1.0)] = 2.0


class OrderControl(Table):
    """``[master.order_control]``: order of connections without an `order` of their own."""

    #: `"derivatives"`: raise the order while higher terms of the extrapolation get smaller.
    method: Literal["fixed", "derivatives"] = "fixed"
    #: Lowest order.
    minimum: Order = 0
    #: Highest order.
    maximum: Order = 4
    #: Order at the start.
    initial: Order = 1


class Pacing(Table):
    """``[master.pacing]``: timing of the ticks on the wall clock."""

    #: [µs] Busy-wait before each tick, shorter than `step`. `"auto"` adapts it to the lateness of
    #: the host's timer: 50 to 700 µs, at most 70 % of the step (30 % with a `priority`).
    spin: Literal["auto"] | NonNegative = "auto"
    #: Processors of the master; the processes that it starts get the others (Linux).
    affinity: list[Annotated[int, msgspec.Meta(ge=0)]] = []
    #: Real-time priority of the master and of gateways under `SCHED_FIFO` (Linux); 0: ordinary
    #: processes. `"auto"`: 1, the lowest, if this account may use real-time priorities (`hilrt
    #: doctor` says whether it may); otherwise 0, without a warning. With `"auto"` the gateway
    #: of an emulated bench has 0, like its emulator.
    priority: Literal["auto"] | Annotated[int, msgspec.Meta(ge=0, le=99)] = "auto"
    #: Keep the master's memory from being paged out (Linux). Needs an unlimited memlock limit or
    #: `CAP_IPC_LOCK`.
    lock_memory: bool = False
    #: Keep the processors out of deep idle states, which they leave slowly (Linux). Costs power,
    #: and needs write access to `/dev/cpu_dma_latency`.
    awake: bool = False
    #: When a whole tick was missed: skip it and stay on the grid (`"skip"`), delay the grid
    #: (`"stretch"`), or end the session in the safe state (`"stop"`).
    overrun: Literal["skip", "stretch", "stop"] = "skip"


class MasterTable(Table):
    """``[master]``"""

    #: [s] Macro step, a whole number of nanoseconds. Subsystems with `every` > 1 communicate less
    #: often.
    step: Annotated[float, msgspec.Meta(gt=0.0, le=MAX_STEP_S)]
    #: ZeroMQ endpoint for solvers and gateways; `*` means a free port. Use a fixed port for solvers
    #: that you start yourself. An address that other machines can reach needs `keys`.
    listen: str = "tcp://127.0.0.1:*"
    #: Folder of the keys that subsystems must have to connect (docs/keys.md).
    keys: str | None = None
    #: Require no keys and no token: anyone who reaches `listen` may take part. Reported at every
    #: start.
    insecure: bool = False
    #: `"implicit"`: correct each step until the coupling conditions hold at its end; only at pace
    #: `"asap"`, for models in this process that save and restore their state
    #: (docs/methods.md#the-implicit-scheme).
    scheme: Literal["explicit", "implicit"] = "explicit"
    #: Interface Jacobian of the implicit scheme: by finite differences, which take a step per
    #: coupled input (`"differences"`), or by an expansion of the models about their
    #: initial states (`"low_order"`).
    interface_jacobian: Literal["differences", "low_order"] = "differences"
    #: Extrapolation of inputs over the next macro step.
    extrapolation: Extrapolation = msgspec.field(default_factory=Extrapolation)
    #: Control of the macro step's length.
    step_control: StepControl = msgspec.field(default_factory=StepControl)
    #: Control of the order of extrapolation.
    order_control: OrderControl = msgspec.field(default_factory=OrderControl)
    #: Settings for punctual ticks.
    pacing: Pacing = msgspec.field(default_factory=Pacing)
    #: [share of `step`] Time after the tick by which all inputs must be sent; otherwise the tick is
    #: missed.
    dispatch_deadline: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.2
    #: [s] Time limit for subsystems to connect, and again to initialize.
    connect_timeout: Positive = 20.0
    #: [s] Time limit for one step of a solver at pace `"asap"`.
    step_timeout: Positive = 60.0
    #: [s] Time limit for arming one bench.
    arm_timeout: Positive = 15.0


class Late(Table):
    """``late``: reaction to a subsystem's missing samples."""

    #: Extrapolate with the polynomial, hold the newest value, or use the identified model if it
    #: predicts better than the polynomial (`"predict"`; needs `jacobian.source = "identify"`).
    policy: Literal["extrapolate", "hold", "predict"] = "extrapolate"
    #: [ticks] Largest number of consecutive ticks without a sample; one more ends the session in
    #: the safe state.
    max_misses: Annotated[int, msgspec.Meta(ge=1)] = 50
    #: How a solver that has answered late continues: with one longer step over the missed time
    #: (`"merged"`), or with the missed steps one after another (`"catch_up"`).
    steps: Literal["merged", "catch_up"] = "merged"
    #: A lost solver of adapter `"zeromq"` may return while the session runs.
    rejoin: bool = False


#: Reaction to a value outside its declared range.
OutOfRange = Literal["use", "hold", "safe"]


class InputOptions(Table):
    """``[subsystems.NAME.inputs]``: limits and start of an input, within the subsystem's own."""

    #: [of the port] Lower bound of the input.
    min: float | None = None
    #: [of the port] Upper bound of the input.
    max: float | None = None
    #: [of the port, per s] Largest rate of change.
    max_rate: Positive | None = None
    #: [of the port, per s²] Largest change of the rate: a step becomes a ramp that begins and ends
    #: smoothly, without overshoot (docs/methods.md#limits).
    max_jerk: Positive | None = None
    #: [of the port] Value at rest; the safe profile brings the input of a bench to it.
    safe: float | None = None
    #: [of the port] Value before the first exchange, and throughout if nothing is connected.
    start: float | None = None
    #: [s] Duration of the transition when another source takes over the input; for inputs without
    #: a `max_rate`.
    blend: NonNegative = 0.0


Matrix = list[list[float]]


class JacobianOptions(Table):
    """``jacobian``: source of a subsystem's interface Jacobians (docs/methods.md)."""

    #: `"solver"`: call the solver's `jacobian`. `"probe"`: perturb its inputs; it must save and
    #: restore its state. `"given"`: use the matrices below. `"identify"`: estimate while the
    #: session runs, starting from the matrices below if there are any.
    source: Literal["solver", "probe", "given", "identify"]
    #: State matrix.
    A: Matrix | None = None
    #: Input matrix.
    B: Matrix | None = None
    #: Output matrix.
    C: Matrix | None = None
    #: [output/input] Direct feedthrough, outputs × inputs; enough for the correction
    #: `"feedthrough"`. Like the other matrices, not used with `source = "solver"` or `"probe"`.
    D: Matrix | None = None
    #: [output/input] Γ₀, Γ₁, … for the session's macro step, each outputs × inputs.
    gamma: list[Matrix] | None = None
    #: [steps] `"identify"`: number of past outputs in the regression.
    lags_y: Annotated[int, msgspec.Meta(ge=1)] = 2
    #: [steps] `"identify"`: number of past inputs in the regression.
    lags_u: Annotated[int, msgspec.Meta(ge=0)] = 2
    #: [steps] `"identify"`: number of steps after which a sample has lost most of its weight.
    #: Default: three times the number of regressors, at least 60.
    memory: Positive | None = None
    #: [steps] Pace `"asap"`: number of macro steps between two tests of the Jacobian's
    #: predictions. 0: never tested; `"always"`: a new Jacobian is requested in every step.
    refresh: Annotated[int, msgspec.Meta(ge=0)] | Literal["always"] = 0
    #: [share of the running scale] `"identify"`: excitation added to the inputs.
    dither: Annotated[float, msgspec.Meta(ge=0.0, le=0.1)] = 0.0

    @property
    def gives(self) -> bool:
        """Whether the matrices given here are used; with "solver" and "probe" they are not."""
        return self.source in ("given", "identify")


class SubsystemOptions(Table):
    """Keys that every ``[subsystems.NAME]`` table has; an adapter's `Options` adds its own."""

    #: `"inprocess"`, `"zeromq"`, `"can"`, `"fmu"`, `"replay"`, `"sequence"`, or your own
    #: (docs/adapters.md).
    adapter: str
    #: Command that starts the subsystem's process; `--connect ADDRESS --name NAME` is appended.
    #: Default: you start it yourself.
    spawn: list[str] | None = None
    #: Reaction to missing samples.
    late: Late = msgspec.field(default_factory=Late)
    #: How the session ends when the subsystem ends its own simulation: normally (`"finish"`), or in
    #: a fault (`"fault"`). The last sample is in the log.
    when_ended: Literal["finish", "fault"] = "finish"
    #: Names of faults that may act on the bench's set-points and measurements
    #: (docs/faults.md#on-a-bench); other faults that affect it are refused.
    allow_faults: list[str] = []
    #: [macro steps] The subsystem communicates at every n-th tick; needs a fixed step. At the ticks
    #: in between, the log has NaN for its outputs; `log.held(name)`, plots and MF4 files repeat the
    #: last value.
    every: Annotated[int, msgspec.Meta(ge=1)] = 1
    #: Source of its interface Jacobians.
    jacobian: JacobianOptions | None = None
    #: `"module:Class"`, an approximate model of the subsystem, for the estimated error alone
    #: (docs/reliability.md#reference-models).
    reference_model: str | None = None
    #: Keyword arguments of the class of `reference_model`.
    reference_params: dict[str, Any] = {}
    #: Limits and start values of its inputs, a table each.
    inputs: dict[str, InputOptions] = {}
    #: Reaction to outputs outside their declared range: use them (`"use"`), hold the last value
    #: inside (`"hold"`), or end the session in the safe state (`"safe"`). One word for all outputs,
    #: or a table: `{ port = "use" }`. Default: `"hold"` for benches, `"use"` for everything else
    #: (docs/reliability.md#values-outside-their-declared-range).
    out_of_range: OutOfRange | dict[str, OutOfRange] | None = None

    #: Whether it is a test sequence: its inputs are connected by name and passed as sampled; its
    #: outputs are held.
    is_sequence: ClassVar[bool] = False
    #: Whether it is a bench: its inputs are set-points.
    measured: ClassVar[bool] = False

    @property
    def member_names(self) -> tuple[str, ...]:
        """Members of a group, with ports ``member.port``; empty for any other subsystem."""
        return ()

    @property
    def adjusted(self) -> list[str]:
        """Numbers of the session that it may change; empty unless it is a test sequence."""
        return []

    def range_policy(self, output: str, measured: bool) -> OutOfRange:
        """Reaction to values of `output` outside its declared range."""
        given = self.out_of_range
        if isinstance(given, dict):
            given = given.get(output)
        return given or ("hold" if measured else "use")


class Connection(Table):
    """``[[connections]]``: ``to += gain * from + offset``; compatible units are converted."""

    #: Source of the value, `"subsystem.output"`.
    source: str = msgspec.field(name="from")
    #: Destination, `"subsystem.input"`.
    target: str = msgspec.field(name="to")
    #: Factor on the value.
    gain: float = 1.0
    #: [of `to`] Added to the value.
    offset: float = 0.0
    #: Degree of extrapolation; default: `master.extrapolation.order`.
    order: Order | None = None


class Correction(Table):
    """``correction`` of a bond; docs/methods.md, "Energy correction" and those after it."""

    #: Method of the correction (docs/methods.md#how-to-choose).
    method: Literal["none", "energy", "feedthrough", "model"] = "none"
    #: `"energy"`: the residual is computed with the inputs as sent (`"sent"`), or as if they had
    #: been held (`"held"`).
    residual: Literal["sent", "held"] = "sent"
    #: `"energy"`: share μ of the residual that is corrected. Default: the value is derived if
    #: possible, for instance for two linear subsystems with held inputs (`hilrt check` prints it,
    #: or the reason why not); otherwise the correction is computed but not applied.
    mu: NonNegative | None = None
    #: `"energy"`: bounds between which `mu` adapts while the session runs, from the probed direct
    #: responses of the efforts, or from `effort_side_flow` (docs/methods.md#adaptive-μ). Default:
    #: `mu` is constant.
    mu_range: Annotated[list[NonNegative], msgspec.Meta(min_length=2, max_length=2)] | None = None
    #: With `mu_range`, where no trial finds the effort's direct responses: output of the effort's
    #: subsystem that is the flow at the other end of the coupling, `"subsystem.output"`, with the
    #: direction and the unit of `flow` (a spring between two masses: the speed of the mass on the
    #: effort's side). `mu` is the lower bound until these show what it should be. Default: `mu`
    #: then stays.
    effort_side_flow: str | None = None
    #: `"energy"`: share ν of the energy not yet corrected that is corrected in each step.
    nu: NonNegative = 0.0
    #: [share of the effort] `"energy"`: bound of the correction relative to the effort.
    cap: NonNegative = 0.1
    #: [of the effort] `"energy"`: absolute bound of the correction.
    cap_abs: NonNegative | None = None
    #: Allows a correction that acts on a physical bench; needs `cap_abs`.
    permit_on_bench: bool = False
    #: What happens if more energy is created with the correction than without it: it is faded out
    #: (`"fade"`), or only the flag is raised (`"keep"`;
    #: docs/reliability.md#corrections-are-verified).
    when_harmful: Literal["fade", "keep"] = "fade"
    #: `"model"`: share of the accumulated input error that is corrected in the next step. Use 0 for
    #: subsystems that take one explicit integration step per macro step.
    alpha: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 1.0


class Bond(Table):
    """``[[bonds]]``: an effort and a flow that carry power between two subsystems."""

    #: Name of the bond.
    name: str
    #: `"subsystem.output"`, or a list of outputs that are summed; one correction then acts on the
    #: sum.
    effort: str | Annotated[list[str], msgspec.Meta(min_length=1)]
    #: `"subsystem.output"` of the other subsystem.
    flow: str
    #: Correction of the bond.
    correction: Correction = msgspec.field(default_factory=Correction)

    @property
    def efforts(self) -> list[str]:
        """The outputs whose sum is the effort."""
        return [self.effort] if isinstance(self.effort, str) else self.effort


class Reliability(Table):
    """``[reliability]``: thresholds relative to each signal's own scale; docs/reliability.md."""

    #: [share of the scale] Threshold of the RMS connection defect of an input.
    connection_defect: Positive = 0.1
    #: [share of the scale] Threshold of the RMS output defect of an output.
    output_defect: Positive = 0.1
    #: [share of the transmitted power] Threshold of the power residual of a bond.
    power_residual: Positive = 0.2
    #: [share of the energy carried] Threshold of the energy that a bond's interface has created.
    energy_drift: Positive = 0.1
    #: [share of the transmitted power] Threshold of the tracking error of a bond.
    tracking: Positive = 0.5
    #: [share of the communication step] Threshold of the uncertainty of a bench's clock.
    clock: Positive = 0.5
    #: [s] Session time before which thresholds relative to a scale are ignored, because a motion
    #: from rest begins with a scale of zero.
    warm_up: NonNegative = 0.05
    #: [s] Time constant with which the scales decay.
    scale_time: Positive = 2.0
    #: [s] Time for which a measure must stay below half its threshold before its flag clears.
    clear_time: NonNegative = 0.05
    #: `"half"`: first run the session at half and a quarter of its step, and base the verdict on
    #: the change (docs/reliability.md#repeated-at-shorter-steps); only at pace `"asap"`, with a
    #: fixed step, without a bench or a solver in another process.
    repeat: Literal["off", "half"] = "off"
    #: `"before"`: first run the session at shorter and shorter steps until it converges, and base
    #: the verdict on its true error (docs/reliability.md#repeated-at-shorter-steps); only at pace
    #: `"asap"`, without a bench or a solver in another process, and not together with `repeat`.
    reference: Literal["off", "before"] = "off"
    #: When solvers are probed. `"start"`: before the first tick, and at pace `"asap"` also while
    #: the session runs. `"along"`: also while it runs in real time; only for solvers in separate
    #: processes, which use half of their idle time between two steps for it.
    trials: Literal["start", "along"] = "start"


class Calculated(Table):
    """``[[calculated]]``: a channel that every tick computes, the output ``calculated.NAME``."""

    #: Name of the channel: letters, digits and underscores.
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    #: Formula over signals and other channels (docs/expressions.md).
    expression: str
    #: Unit of the channel, to which the expression's own unit is converted; empty for a plain
    #: number. A unit of another quantity is refused.
    unit: str = ""
    #: Free text that explains the channel.
    description: str = ""


class LookupEntry(Table):
    """``[[lookup_tables]]``: points of a table for ``lookup("NAME", x)`` in expressions."""

    #: Name in expressions.
    name: str
    #: [`unit`] One value per point of `x`; with two axes, one row per point of `x`.
    values: list[float | list[float]]
    #: [`x_unit`] Points of the first axis, in increasing order.
    x: list[float]
    #: [`y_unit`] Points of the second axis, in increasing order; empty if there is only one axis.
    y: list[float] = []
    #: Unit that the first argument is converted to; default: any.
    x_unit: str | None = None
    #: Unit that the second argument is converted to; default: any.
    y_unit: str | None = None
    #: Unit of the values; default: any.
    unit: str | None = None


class Alarm(Table):
    """``[[alarms]]``: limits on a measured value, and the reaction when one is crossed."""

    #: `"subsystem.output"` that is watched; of a vector port, each element.
    signal: str
    #: Name in messages and views.
    name: str = ""
    #: [of the port] Lower limit.
    min: float | None = None
    #: [of the port] Upper limit.
    max: float | None = None
    #: [of the port, per s] Largest rate of change from one sample to the next.
    max_rate: Positive | None = None
    #: [s] Time for which the value must be outside without interruption.
    delay: NonNegative = 0.0
    #: `"log"`: raise a flag and an event. `"degrade"`: also set the state `IMPAIRED` while the
    #: alarm is active. `"stop"`: end the session through its stop sequence. `"safe"`: end it at
    #: once by the safe profile.
    action: Literal["log", "degrade", "stop", "safe"] = "log"


class Expect(Table):
    """``[[expect]]``: conditions over time; docs/expectations.md.

    One of `always`, `eventually`, `formula` gives the condition, the other keys the time span. All
    times in s.
    """

    #: Name, which no other expectation may have.
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    #: Condition that must hold at every sample.
    always: str | None = None
    #: Condition that must hold at one sample at least.
    eventually: str | None = None
    #: Formula with temporal operators (docs/expectations.md#as-text).
    formula: str | None = None
    #: With `always`: condition that must become true; `always` must hold until then.
    until: str | None = None
    #: [s] With `always`: time for which that condition must hold. With `eventually`: time for which
    #: its condition must stay true once it is.
    for_: Positive | None = msgspec.field(default=None, name="for")
    #: [s] Time limit within which the condition of `eventually` or `until` must become true.
    within: Positive | None = None
    #: [s] Samples less than this after the start of checking, or after `when` became true, are
    #: ignored.
    after: NonNegative = 0.0
    #: With `always`: second condition; only samples at which it is true are checked.
    while_: str | None = msgspec.field(default=None, name="while")
    #: Condition; the expectation starts anew each time it becomes true.
    when: str | None = None
    #: [s] Session time at which checking starts.
    from_: NonNegative = msgspec.field(default=0.0, name="from")
    #: [s] Session time at which checking ends; default: the end of the session.
    to: Positive | None = None
    #: [s] Time for which the last value of a signal is valid; after that it is unknown.
    max_age: Positive = 1.0


class Step(Table):
    """``[[start]]``, ``[[stop]]``: one step of a sequence; ramps first, then the wait."""

    #: Name in messages and views.
    name: str = ""
    #: [of the inputs] Set-points of benches, `{ "engine.pedal" = 10.0 }`; the gateway ramps and
    #: limits them as usual. A mode is a set-point too.
    ramp: dict[str, float] = {}
    #: Output of a bench; the step waits until it is between `min` and `max`.
    wait: str | None = None
    #: [of the port] Lower limit.
    min: float | None = None
    #: [of the port] Upper limit.
    max: float | None = None
    #: [s] Time for which the output must stay there; at most `timeout`.
    hold: NonNegative = 0.0
    #: [s] Time limit, after which the session ends in the safe profile.
    timeout: Positive = 30.0


class Match(Table):
    """``[[match]]``: a measured value that must agree with the models before the first tick."""

    #: Measured output of a bench.
    signal: str
    #: [of `signal`, for a number] Value to agree with: an output of a model at the start (units are
    #: converted), or a number.
    to: str | float
    #: [of `signal`] Largest difference that is accepted.
    tolerance: Positive
    #: [s] Time for which the two must agree; at most `timeout`.
    hold: NonNegative = 0.2
    #: [s] Time limit, after which the session ends in the safe profile.
    timeout: Positive = 20.0


class Session(Table, dict=True):
    """A whole session file."""

    session: SessionTable
    master: MasterTable
    subsystems: dict[str, SubsystemOptions]
    connections: list[Connection] = []
    bonds: list[Bond] = []
    stimuli: list[Stimulus] = []
    faults: list[FaultTable] = []
    calculated: list[Calculated] = []
    lookup_tables: list[LookupEntry] = []
    alarms: list[Alarm] = []
    expect: list[Expect] = []
    start: list[Step] = []
    match: list[Match] = []
    stop: list[Step] = []
    reliability: Reliability = msgspec.field(default_factory=Reliability)
    monitor: MonitorTable = msgspec.field(default_factory=MonitorTable)
    record: RecordTable = msgspec.field(default_factory=RecordTable)

    @cached_property
    def group_of(self) -> dict[str, str]:
        """Group of every member, by the member's name."""
        tables = self.subsystems.items()
        return {member: name for name, options in tables for member in options.member_names}

    @cached_property
    def _groups(self) -> set[str]:
        return set(self.group_of.values())

    def split(self, port: str) -> tuple[str, str]:
        """Split ``subsystem.port`` into its parts; ``member.port`` into group and full name."""
        first, _, rest = port.partition(".")
        group = self.group_of.get(first)
        return (first, rest) if group is None else (group, port)

    def adjusted_parameters(self, subsystem: str) -> list[str]:
        """Parameters of a subsystem that operators or test sequences may change."""
        numbers = [*self.monitor.adjust]
        numbers += [number for one in self.subsystems.values() for number in one.adjusted]
        first = f"parameters.{subsystem}."
        return [number.removeprefix(first) for number in numbers if number.startswith(first)]

    def joined(self, subsystem: str, port: str) -> str:
        """Name of a subsystem's port in the session: ``subsystem.port``, or ``member.port``."""
        return port if subsystem in self._groups else f"{subsystem}.{port}"
