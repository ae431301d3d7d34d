"""The tables of a session file as typed structs: the documentation of its keys.

Adapters add theirs by subclassing `SubsystemOptions`; `hilrt.config.session_file` reads a file
into them.
"""

from __future__ import annotations

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
#: The subsystem whose outputs are the calculated channels; also its adapter.
CALCULATED = "calculated"
MAX_STEP_S = 100.0

Order = Annotated[int, msgspec.Meta(ge=0, le=MAX_ORDER)]


class SessionTable(Table):
    """``[session]``"""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    duration: Positive  #: s
    pace: Literal["realtime", "asap"] | Positive = "realtime"
    arm: Literal["auto", "manual"] = "auto"


class Extrapolation(Table):
    """Extrapolation of an input over the next macro step."""

    order: Order = 1
    source: Literal["lagrange", "taylor"] = "lagrange"


class StepControl(Table):
    """``[master.step_control]``; docs/methods.md, "Step control".

    "pi" keeps the largest defect at `tolerance`; "local" the estimated error of the inputs below
    ``atol + rtol |u|``; "ecco" the power residual of every bond below that share of its power.
    """

    method: Literal["fixed", "pi", "local", "ecco"] = "fixed"
    tolerance: Positive = 1.0
    #: First step [s]; default: ``master.step``.
    initial: Positive | None = None
    #: Bounds of the step, s.
    minimum: Positive = 1e-9
    maximum: Positive = MAX_STEP_S
    #: With `atol`, `rtol` the defect of a port is divided by ``atol + rtol |y|``. `atol` is one
    #: number or a table by port, ``{ "left.x" = 1e-6, "*.v" = 1e-3 }``; with "ecco" it is in J.
    #: With a fixed step they only set what raises the flag ``error_estimate``.
    atol: NonNegative | dict[str, NonNegative] | None = None
    rtol: NonNegative | None = None
    #: "local": factor on the error, 2 to 6 (default 6); "ecco": on the step (default 0.95).
    safety: Positive | None = None


class OrderControl(Table):
    """``[master.order_control]``: order of the connections that give none of their own."""

    method: Literal["fixed", "derivatives"] = "fixed"
    minimum: Order = 0
    maximum: Order = 4
    initial: Order = 1


class Pacing(Table):
    """``[master.pacing]``: how ticks are met on the wall clock."""

    #: Busy-wait before a tick [µs]; "auto" measures the host.
    spin: Literal["auto"] | NonNegative = "auto"
    #: Processors for the master; the processes it starts get the others.
    affinity: list[Annotated[int, msgspec.Meta(ge=0)]] = []
    #: Priority under SCHED_FIFO; 0: an ordinary process.
    priority: Annotated[int, msgspec.Meta(ge=0, le=99)] = 0
    #: Keep the master's memory from being paged out.
    lock_memory: bool = False
    #: Keep the processors out of idle states that take long to wake up from.
    awake: bool = False
    #: When a whole tick has passed unserved: stay on the grid, shift the grid, or end the session.
    overrun: Literal["skip", "stretch", "stop"] = "skip"


class MasterTable(Table):
    """``[master]``"""

    step: Annotated[float, msgspec.Meta(gt=0.0, le=MAX_STEP_S)]  #: macro step, s
    listen: str = "tcp://127.0.0.1:*"
    #: Folder of the keys that subsystems must have to connect (`hilrt keys`).
    keys: str | None = None
    #: Anybody who reaches `listen` may take part, without keys or token.
    insecure: bool = False
    extrapolation: Extrapolation = msgspec.field(default_factory=Extrapolation)
    step_control: StepControl = msgspec.field(default_factory=StepControl)
    order_control: OrderControl = msgspec.field(default_factory=OrderControl)
    pacing: Pacing = msgspec.field(default_factory=Pacing)
    #: Share of the step in which all inputs must be on the wire.
    dispatch_deadline: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.2
    #: How long subsystems may take to connect and initialize, s.
    connect_timeout: Positive = 20.0
    #: How long a stepped solver may take for one step when the pace is "asap", s.
    step_timeout: Positive = 60.0
    #: How long arming a bench may take, s.
    arm_timeout: Positive = 15.0


class Late(Table):
    """``late``: what is used while a subsystem's samples are missing."""

    #: "predict" takes the identified model where it predicts better than extrapolation.
    policy: Literal["extrapolate", "hold", "predict"] = "extrapolate"
    #: Consecutive ticks without a sample after which the session goes safe.
    max_misses: Annotated[int, msgspec.Meta(ge=1)] = 50
    #: Steps of a solver that was late: one over all missed intervals, or one after another.
    steps: Literal["merged", "catch_up"] = "merged"
    #: Whether a solver that was lost may come back while the session runs.
    rejoin: bool = False


#: What follows from a value outside the range that is declared for it.
OutOfRange = Literal["use", "hold", "safe"]


class InputOptions(Table):
    """``[subsystems.NAME.inputs]``: narrows the subsystem's own data of its input."""

    min: float | None = None
    max: float | None = None
    max_rate: Positive | None = None
    max_jerk: Positive | None = None
    safe: float | None = None
    start: float | None = None
    #: How long the input takes to another source where it has no `max_rate`, s.
    blend: NonNegative = 0.0


Matrix = list[list[float]]


class JacobianOptions(Table):
    """``jacobian``: where a subsystem's interface Jacobians come from (docs/methods.md).

    "solver" calls the solver's `jacobian`, "probe" perturbs its inputs (it must be able to restore
    its state), "given" takes `A`, `B`, `C`, `D` or `gamma` from here, "identify" estimates while
    the session runs, starting from the given ones, if any.
    """

    source: Literal["solver", "probe", "given", "identify"]
    A: Matrix | None = None
    B: Matrix | None = None
    C: Matrix | None = None
    D: Matrix | None = None
    #: Γ_0, Γ_1, … of the session's macro step, each outputs × inputs.
    gamma: list[Matrix] | None = None
    #: Past outputs and inputs in the regression.
    lags_y: Annotated[int, msgspec.Meta(ge=1)] = 2
    lags_u: Annotated[int, msgspec.Meta(ge=0)] = 2
    #: Steps after which a sample has lost most of its weight.
    memory: Positive | None = None
    #: As fast as possible: macro steps between two tests of the Jacobian's prediction. One of a
    #: solver or a probe is renewed where it fails; one that is stated is compared with a trial.
    #: 0: never; "always": renewed in every step, without a test.
    refresh: Annotated[int, msgspec.Meta(ge=0)] | Literal["always"] = 0
    #: Excitation of the inputs, relative to their running scale.
    dither: Annotated[float, msgspec.Meta(ge=0.0, le=0.1)] = 0.0

    @property
    def gives(self) -> bool:
        """Whether matrices that stand here count; the solver's own and a probe take their place."""
        return self.source in ("given", "identify")


class SubsystemOptions(Table):
    """Keys that every ``[subsystems.NAME]`` table has; an adapter's `Options` adds its own."""

    adapter: str
    #: Command that starts the subsystem's process; ``--connect`` and ``--name`` are appended.
    spawn: list[str] | None = None
    late: Late = msgspec.field(default_factory=Late)
    #: How the session ends when the subsystem ends its own simulation: in order, or in a fault.
    when_ended: Literal["finish", "fault"] = "finish"
    #: Faults of the session file, by name, that may act on its set-points and measured values; a
    #: bench allows none by default.
    allow_faults: list[str] = []
    #: Communicates every that many macro steps.
    every: Annotated[int, msgspec.Meta(ge=1)] = 1
    jacobian: JacobianOptions | None = None
    #: Model, ``"module:Class"``, that responds about as the subsystem does: probed in its place
    #: before the first tick, for the estimated error alone, where it cannot be probed itself.
    reference_model: str | None = None
    #: Keyword arguments of the reference model's class.
    reference_params: dict[str, Any] = {}
    inputs: dict[str, InputOptions] = {}
    #: Outputs outside their declared range: use them, hold the last value before, or run the safe
    #: profile; for all outputs, or a table by output. Default: "hold" for benches, "use" for what
    #: solvers compute and recordings hold.
    out_of_range: OutOfRange | dict[str, OutOfRange] | None = None

    #: Whether it is a test sequence: its inputs are connected by their names and come as they were
    #: sampled; its outputs are held.
    is_sequence: ClassVar[bool] = False
    #: Whether it is a bench: its inputs are set-points.
    measured: ClassVar[bool] = False

    def range_policy(self, output: str, measured: bool) -> OutOfRange:
        """Reaction to values of that output outside its declared range."""
        given = self.out_of_range
        if isinstance(given, dict):
            given = given.get(output)
        return given or ("hold" if measured else "use")


class Connection(Table):
    """``[[connections]]``: ``to += gain * from + offset``; units of one dimension convert."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    gain: float = 1.0
    offset: float = 0.0
    order: Order | None = None


class Correction(Table):
    """``correction`` of a bond; docs/methods.md, "Energy correction" and those after it."""

    method: Literal["none", "energy", "feedthrough", "model"] = "none"
    residual: Literal["sent", "held"] = "sent"
    #: Share of the residual that is fed back. Default: derived where it is known, for two linear
    #: subsystems with their inputs held (`hilrt check` says which); otherwise shadow.
    mu: NonNegative | None = None
    nu: NonNegative = 0.0
    #: Bound of the correction relative to the effort, and absolute in the effort's unit.
    cap: NonNegative = 0.1
    cap_abs: NonNegative | None = None
    #: Allows a correction that acts on a physical bench; needs `cap_abs`.
    permit_on_bench: bool = False
    #: What becomes of a correction that is found to make more energy than none.
    when_harmful: Literal["fade", "keep"] = "fade"
    #: Method "model": share of the accumulated input error made up in the next step; 0 for
    #: subsystems that take one explicit integration step per macro step.
    alpha: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 1.0


class Bond(Table):
    """``[[bonds]]``: an effort and a flow that carry power between two subsystems."""

    name: str
    #: One output, or several that a summing junction adds up: one correction acts on the sum.
    effort: str | Annotated[list[str], msgspec.Meta(min_length=1)]
    flow: str
    correction: Correction = msgspec.field(default_factory=Correction)

    @property
    def efforts(self) -> list[str]:
        """The outputs whose sum is the effort."""
        return [self.effort] if isinstance(self.effort, str) else self.effort


class Reliability(Table):
    """``[reliability]``: thresholds relative to each signal's own scale; docs/reliability.md."""

    #: RMS connection defect over the running scale of the signal.
    connection_defect: Positive = 0.1
    output_defect: Positive = 0.1
    #: Power residual over the bond's running transmitted power.
    power_residual: Positive = 0.2
    #: Energy that the interface has made, over the energy that the bond has carried.
    energy_drift: Positive = 0.1
    #: Tracking error power over the bond's running transmitted power.
    tracking: Positive = 0.5
    #: Uncertainty of a bench's clock over its communication step.
    clock: Positive = 0.5
    #: Session time before which the thresholds relative to a scale do not count: a motion from
    #: rest starts with a scale of nothing, s.
    warm_up: NonNegative = 0.05
    #: Time constant of the running scales, s.
    scale_time: Positive = 2.0
    #: How long a cause must stay below half its threshold before its flag clears, s.
    clear_time: NonNegative = 0.05
    #: "half": repeat a session of models at half and a quarter of its step; the verdict then rests
    #: on what that changes.
    repeat: Literal["off", "half"] = "off"


class Calculated(Table):
    """``[[calculated]]``: a channel that every tick computes, the output ``calculated.NAME``."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    #: Over signals ``subsystem.port`` and other calculated channels.
    expression: str
    #: Empty: a plain number. The expression's own unit is converted to it.
    unit: str = ""
    description: str = ""


class LookupEntry(Table):
    """``[[lookup_tables]]``: support points for ``lookup("NAME", x)`` in expressions."""

    name: str
    #: One per point of `x`; with two axes one row per point of `x`.
    values: list[float | list[float]]
    #: Rising points of the axes; without `y` the table has one axis.
    x: list[float]
    y: list[float] = []
    #: Units that arguments are converted to, and that of the values; left out: any.
    x_unit: str | None = None
    y_unit: str | None = None
    unit: str | None = None


class Alarm(Table):
    """``[[alarms]]``: limits on a measured value, and what happens when one is crossed."""

    #: Output that is watched, ``subsystem.port``.
    signal: str
    name: str = ""
    min: float | None = None
    max: float | None = None
    max_rate: Positive | None = None
    #: How long the value must be outside without a break, s.
    delay: NonNegative = 0.0
    action: Literal["log", "degrade", "stop", "safe"] = "log"


class Expect(Table):
    """``[[expect]]``: what must hold, over time; docs/expectations.md.

    One of `always`, `eventually`, `formula` says what; the others say when. All times in s.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    #: Condition that must hold at every sample.
    always: str | None = None
    #: Condition that must hold at one sample at least.
    eventually: str | None = None
    #: Formula with operators of its own, ``always(implies(a.x > 1, eventually(b.y > 2, 0.5)))``.
    formula: str | None = None
    #: Goal up to which `always` must hold, and which must come.
    until: str | None = None
    #: How long it must hold: `always` from the beginning, `eventually` from when it has come.
    for_: Positive | None = msgspec.field(default=None, name="for")
    #: By when it must have come, and what lies before that does not count.
    within: Positive | None = None
    after: NonNegative = 0.0
    #: Condition at whose samples alone `always` must hold.
    while_: str | None = msgspec.field(default=None, name="while")
    #: Condition; each time that it becomes true, the expectation begins anew.
    when: str | None = None
    #: Session time from which and to which it is judged.
    from_: NonNegative = msgspec.field(default=0.0, name="from")
    to: Positive | None = None
    #: How long the last value of a signal holds; after that it is unknown.
    max_age: Positive = 1.0


class Step(Table):
    """``[[start]]``, ``[[stop]]``: one step of a sequence; ramps first, then the wait."""

    name: str = ""
    #: Set-points of benches, ``{ "bench.input" = value }``, at each input's ``max_rate``.
    ramp: dict[str, float] = {}
    #: Output that must be from `min` to `max` for `hold` before the next step, s.
    wait: str | None = None
    min: float | None = None
    max: float | None = None
    hold: NonNegative = 0.0
    timeout: Positive = 30.0


class Match(Table):
    """``[[match]]``: the benches' side brought to the virtual side before the first tick."""

    #: Measured output of a bench.
    signal: str
    #: Output of the virtual side that it must agree with, or a number.
    to: str | float
    tolerance: Positive
    hold: NonNegative = 0.2
    timeout: Positive = 20.0


class Session(Table):
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
