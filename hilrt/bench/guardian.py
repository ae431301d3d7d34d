"""Guard of a bench: when its set-points are the master's, and the safe profile. No I/O.

The gateway feeds a `Guardian` with what the master asks for and what the bench shows, calls `step`
from its own loop, sends the set-points that it returns and passes its notices on. Time is handed in
(integer nanoseconds of a monotonic clock), so a test can run hours of it in milliseconds::

    OFF ─arm→ ENABLING ─enabled→ RAMPING ─arrived→ ARMED ─set-points→ ACTIVE
                 └───────────┬──────┴────────────────┴────────────────┘
                          secure → SECURING → WITHDRAWING → SECURED ─arm→ ENABLING

A bench that was secured for a fault stays so: only what the master asked for may be undone by it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hilrt.bench.set_points import Limits, SetPoints, Values

NS = 1_000_000_000
#: Period of the guardian's own sending: ramps, and repetition of a demand that stands still.
CYCLE_NS = 2_000_000
#: Longest time that one move of the set-points may make up for: if the process itself was held up,
#: the bench gets a ramp all the same, and not a step.
LONGEST_GAP_NS = 10 * CYCLE_NS
#: Frames with the enable request withdrawn: one of them must get through.
WITHDRAW_SENDS = 10
#: An input counts as realised within this share of its range …
TOLERANCE = 0.02
#: … for this long …
SETTLE_NS = NS // 5
#: … and arming goes on without it, with a warning, after this long.
SETTLE_TIMEOUT_NS = 5 * NS
#: The bench is given up after that many times the age at which it counts as silent.
SILENCE_FACTOR = 5.0
#: A limitation is reported again after it has been absent for this long.
REPORT_AGAIN_NS = NS
#: Absences of this process are nobody's silence until they amount to that much since the last news;
#: beyond that it cannot tell a master that is gone from one that it does not hear.
EXCUSED_NS = NS


class State(enum.Enum):
    """Where the guardian is; the module's docstring draws the transitions."""

    OFF = "off"
    ENABLING = "enabling"
    RAMPING = "ramping"
    ARMED = "armed"
    ACTIVE = "active"
    SECURING = "securing"
    WITHDRAWING = "withdrawing"
    SECURED = "secured"


#: States in which the bench is, or is about to be, under the master's demands.
DRIVING = frozenset({State.ENABLING, State.RAMPING, State.ARMED, State.ACTIVE})
#: States in which nothing is sent.
SILENT = frozenset({State.OFF, State.SECURED})


@dataclass(frozen=True)
class GuardSettings:
    """Times and orders of the guard.

    Parameters
    ----------
    order : sequence of int
        Inputs in the order in which the safe profile takes them.
    step_timeout : float
        How long one input of the safe profile is waited for, s.
    master_timeout : float
        Age of the newest set-points at which the master counts as silent, s.
    idle_timeout : float
        Age of the newest message of any kind for that while no set-points are due, s.
    enable_timeout : float
        How long the bench may take to confirm the enable request, s.
    enable_text : str
        What confirms it, for texts.
    """

    order: Sequence[int]
    step_timeout: float = 2.0
    master_timeout: float = 0.05
    idle_timeout: float = 2.0
    enable_timeout: float = 5.0
    enable_text: str = "the enable state"


@dataclass
class BenchView:
    """What is known of the bench now.

    Parameters
    ----------
    realised : sequence of float
        What the bench made of each input, in its unit; NaN where that is not measured.
    enabled : bool
        Whether it confirms the enable request (True for a bench that has no such signal).
    overdue : float
        Age of the most overdue message over the age at which it counts as silent; below 1 all is
        well, infinite when one has never been received.
    text : str
        Which message that is, and since when.
    """

    realised: Values
    enabled: bool = True
    overdue: float = 0.0
    text: str = ""


class Notice(NamedTuple):
    """Something that the master should be told."""

    kind: Literal["armed", "secured", "failed", "event"]
    text: str = ""
    level: Literal["info", "warning", "error"] = "info"
    cause: str = ""
    complete: bool = True


@dataclass
class _News:
    """When something was last heard, and how much absence of this process is counted on top, ns."""

    at: int = 0
    excused: int = 0

    def heard(self, now: int) -> None:
        self.at, self.excused = now, 0

    def excuse(self, now: int, absence: int) -> None:
        """Count an absence in full, however long, unless those before have used up the limit."""
        if self.excused < EXCUSED_NS:
            self.at = min(now, self.at + absence)
            self.excused += absence

    def besides(self) -> str:
        """For texts: what the silence has on top."""
        if not self.excused:
            return ""
        return f", besides {self.excused / 1e6:.0f} ms in which the gateway was not let run"


@dataclass
class Guardian:
    """The state machine. Call `step` often; it says what to send.

    Attributes
    ----------
    state : State
    points : SetPoints
    enable : bool
        The enable request that goes with them.
    tick : int
        Newest tick that has been forwarded; -1 before the first.
    notices : list of Notice
        For the master; the caller takes and clears them.
    counters : dict of str to int
        Set-points refused and limited.
    """

    limits: Limits
    settings: GuardSettings
    state: State = State.OFF
    enable: bool = False
    tick: int = -1
    reason: str = ""
    notices: list[Notice] = field(default_factory=list)
    counters: dict[str, int] = field(
        default_factory=lambda: {
            "refused": 0,
            "non_finite": 0,
            "limited_value": 0,
            "limited_rate": 0,
        }
    )

    def __post_init__(self) -> None:
        limits = self.limits
        self.points = SetPoints(limits, CYCLE_NS / NS)
        self._tolerance = [
            TOLERANCE * (high - low)
            for low, high in zip(limits.minimum, limits.maximum, strict=True)
        ]
        self._since = 0  # entry into the state, or into the safe profile's step
        self._sent_at = 0
        self._next_send = 0
        self._master = _News()
        self._advance = _News()  # of the tick
        self._settled_since: int | None = None
        self._arrived_at: int | None = None  # the demands, while ramping
        self._step = 0  # of the safe profile
        self._left = 0  # frames to send with the enable withdrawn
        self._complete = True
        self._fault = False  # what the bench was secured for
        self._silence_reported = False
        self._limited_at: int | None = None

    @property
    def sent(self) -> list[float]:
        """Newest set-points, in the inputs' units."""
        return self.points.sent

    # ---- what the master asks for ----------------------------------------------------------

    def master_seen(self, now: int) -> None:
        """Note that the master sent something at `now` [ns]."""
        self._master.heard(now)

    def arm(self, now: int, u0: Values, bench: BenchView) -> None:
        """Enable the bench and bring its inputs to `u0` from `now` [ns] on.

        Refused while the bench is being secured, and for good once it was secured for a fault: the
        master may not have heard of it yet.
        """
        if not all(map(math.isfinite, u0)):
            self.counters["non_finite"] += 1
            self.notices.append(Notice("failed", f"arm: the set-points {u0} are not finite"))
            return
        if self.state in (State.SECURING, State.WITHDRAWING):
            text = f"arm is refused while the bench is {self.state.value}"
            self._event("warning", "arm_refused", text)
            return
        if self.state is State.SECURED and self._fault:
            text = f"arm is refused, because the bench was secured: {self.reason}"
            self._event("warning", "arm_refused", text)
            self.notices.append(Notice("secured", self.reason, complete=self._complete))
            return
        self.master_seen(now)
        self.points.demand(u0)
        self._settled_since = self._arrived_at = None
        if self.state in SILENT:
            # The demand starts where the bench is, so that enabling it makes no step.
            self.points.rest_at(bench.realised)
            self.enable, self.tick, self.reason = True, -1, ""
            self._enter(State.ENABLING, now)
        elif self.state is not State.ENABLING:
            self._enter(State.RAMPING, now)

    def demand(self, now: int, tick: int, u: Values) -> bool:
        """Take the set-points `u` of a tick; False if they are refused."""
        if self.state not in (State.ARMED, State.ACTIVE) or tick <= self.tick:
            self.counters["refused"] += 1
            return False
        if not all(map(math.isfinite, u)):
            self.counters["non_finite"] += 1
            return False
        if self.state is State.ARMED:
            self._enter(State.ACTIVE, now)
        self.tick = tick
        self._next_send = now
        self._advance.heard(now)
        if outside := self.points.demand(u):
            self.counters["limited_value"] += len(outside)
            self._report_limited(now, outside, "value")
        return True

    def secure(self, now: int, cause: str, text: str, *, fault: bool = True) -> None:
        """Run the safe profile; when it has run, or nothing is to be done, answer."""
        if self.state is State.SECURED:
            self.notices.append(Notice("secured", self.reason or text, complete=self._complete))
            return
        if self.state in (State.SECURING, State.WITHDRAWING):
            return
        self.reason, self._fault = text, fault
        self._event("error" if fault else "info", cause, text)
        self._complete = True
        if self.state is State.OFF:
            self._enter(State.SECURED, now)
            self.notices.append(Notice("secured", text))
            return
        self._step = 0
        self.points.hold()
        self._enter(State.SECURING, now)

    def excuse(self, now: int, absence: int) -> None:
        """Count the `absence` [ns] of this process until `now` [ns] as nobody's silence.

        A process that is hardly ever let run would excuse a dead master for ever: see `EXCUSED_NS`.
        """
        self._advance.excuse(now, absence)
        self._master.excuse(now, absence)
        if self.state in DRIVING:
            text = f"the gateway was not let run for {absence / 1e6:.0f} ms: nothing was sent"
            self._event("warning", "gateway_absent", text)

    # ---- the loop --------------------------------------------------------------------------

    def step(self, now: int, bench: BenchView) -> list[float] | None:
        """Advance to `now` [ns].

        Returns
        -------
        list of float, or None
            Set-points to send now, with the request in `enable`; None if nothing is due.
        """
        if self.state in DRIVING:
            self._watch(now, bench)
        if self.state is State.ENABLING and bench.enabled:
            self._enter(State.RAMPING, now)
        elif self.state is State.RAMPING:
            self._settle(now, bench)
        elif self.state is State.SECURING:
            self._advance_profile(now, bench)
        elif self.state is State.WITHDRAWING and self._left == 0:
            self._enter(State.SECURED, now)
            self.notices.append(Notice("secured", self.reason, complete=self._complete))
        if self.state in SILENT or now < self._next_send:
            return None
        self._move(now)
        return self.points.sent

    def wait_ns(self, now: int) -> int | None:
        """Time until `step` has something to send, ns; None while nothing is sent."""
        if self.state in SILENT:
            return None
        return max(0, self._next_send - now)

    def _enter(self, state: State, now: int) -> None:
        sending = self.state not in SILENT
        self.state = state
        self._since = now
        if not sending:
            self._sent_at = self._next_send = now
        if state is State.ACTIVE:
            self._advance.heard(now)

    def _event(self, level: Literal["info", "warning", "error"], cause: str, text: str) -> None:
        self.notices.append(Notice("event", text, level, cause))

    def _watch(self, now: int, bench: BenchView) -> None:
        """Leave the driving states when the master or the bench gives reason to."""
        settings = self.settings
        silent = (now - self._advance.at) / NS
        idle = (now - self._master.at) / NS
        if bench.overdue >= SILENCE_FACTOR:
            self.secure(now, "bench_silent", f"the bench is silent: {bench.text}")
        elif self.state is State.ACTIVE and silent > settings.master_timeout:
            text = f"the master's tick {self.tick} has not advanced for {1e3 * silent:.0f} ms"
            self.secure(now, "master_silent", text + self._advance.besides())
        elif self.state is not State.ACTIVE and idle > settings.idle_timeout:
            text = f"nothing heard from the master for {1e3 * idle:.0f} ms"
            self.secure(now, "master_silent", text + self._master.besides())
        elif self.state is State.ENABLING:
            if not bench.enabled and now - self._since > settings.enable_timeout * NS:
                text = (
                    f"the bench did not confirm the enable request: {settings.enable_text} did not"
                    f" become 1 within {settings.enable_timeout:g} s; look at the bench's own"
                    " interlocks and at 'enable' in the session file"
                )
                self.notices.append(Notice("failed", text))
                self.enable = False
                self.secure(now, "enable_timeout", text)
        elif not bench.enabled:
            text = f"the bench withdrew its enable: {settings.enable_text} became 0"
            self.enable = False  # or the bench could enable itself again while the inputs ramp
            self.secure(now, "bench_disabled", text)
        if bench.overdue < 1.0:
            self._silence_reported = False
        elif not self._silence_reported:
            self._silence_reported = True
            self._event("warning", "bench_silent", f"the bench is late: {bench.text}")

    def _settle(self, now: int, bench: BenchView) -> None:
        """While ramping: armed when the demands have arrived and the bench follows them."""
        if not self.points.arrived:
            return
        if self._arrived_at is None:
            self._arrived_at = now
        off = [
            i
            for i, realised in enumerate(bench.realised)
            if abs(realised - self.points.target[i]) > self._tolerance[i]  # False for NaN
        ]
        if off:
            self._settled_since = None
            if now - self._arrived_at < SETTLE_TIMEOUT_NS:
                return
            self._event(
                "warning",
                "not_settled",
                f"armed although {self._names(off)} is not realised within"
                f" {TOLERANCE:.0%} of its range after {SETTLE_TIMEOUT_NS / NS:g} s",
            )
        else:
            if self._settled_since is None:
                self._settled_since = now
            if now - self._settled_since < SETTLE_NS and any(map(math.isfinite, bench.realised)):
                return
        self._enter(State.ARMED, now)
        self.notices.append(Notice("armed"))

    def _advance_profile(self, now: int, bench: BenchView) -> None:
        """Start the safe profile's next inputs when the one before has arrived or timed out."""
        order = self.settings.order
        while self._step < len(order):
            i = order[self._step]
            self.points.target[i] = self.limits.safe[i]
            arrived = self.sent[i] == self.limits.safe[i]
            if arrived and bench.overdue < 1.0:  # else blind: only the demand is known
                arrived = not abs(bench.realised[i] - self.limits.safe[i]) > self._tolerance[i]
            if not arrived and now - self._since < self.settings.step_timeout * NS:
                return
            if not arrived:
                self._complete = False
                self._event(
                    "warning",
                    "safe_profile",
                    f"{self.limits.names[i]} did not reach its safe value within"
                    f" {self.settings.step_timeout:g} s",
                )
            self._step += 1
            self._since = now
        self.enable = False
        self._left = WITHDRAW_SENDS
        self._enter(State.WITHDRAWING, now)

    def _move(self, now: int) -> None:
        """Move the set-points towards their target."""
        elapsed = min(now - self._sent_at, LONGEST_GAP_NS) / NS
        if self.state is State.ENABLING:
            self.points.stay(elapsed)
        else:
            active = self.state is State.ACTIVE
            behind = self.points.move(elapsed, follows=active)
            if behind and active:
                self.counters["limited_rate"] += len(behind)
                self._report_limited(now, behind, "rate")
        if self.state is State.WITHDRAWING:
            self._left -= 1
        self._sent_at = now
        self._next_send = now + CYCLE_NS

    def _report_limited(self, now: int, which: list[int], what: str) -> None:
        if self._limited_at is None or now - self._limited_at > REPORT_AGAIN_NS:
            text = f"{self._names(which)} is limited in {what}"
            self._event("warning", "input_limited", text)
        self._limited_at = now

    def _names(self, which: list[int]) -> str:
        return ", ".join(self.limits.names[i] for i in which)
