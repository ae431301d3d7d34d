"""Guard of a bench: enabling, the master's set-points, and the safe profile. No I/O.

The gateway passes the master's requests and the bench's measurements to a `Guardian`, calls `step`
from its own loop, sends the set-points that it returns and forwards its notices. Time is passed in
(integer nanoseconds of a monotonic clock), so that a test can simulate hours in milliseconds::

    OFF ─arm→ ENABLING ─enabled→ RAMPING ─arrived→ ARMED ─set-points→ ACTIVE
                 └───────────┬──────┴────────────────┴────────────────┘
                          secure → SECURING → WITHDRAWING → SECURED ─arm→ ENABLING

After a fault the bench stays secured. The master can arm it again only if the master itself
requested the safe profile.
"""

from __future__ import annotations

import math

from hilrt.bench.guard_states import (
    CYCLE_NS,
    DRIVING,
    NS,
    SETTLE_TIMEOUT_NS,
    SILENT,
    TOLERANCE,
    BenchView,
    GuardSettings,
    GuardState,
    Level,
    Notice,
    SafeProfileRun,
    Settling,
)
from hilrt.bench.set_points import RampedSetPoints, SetPointLimits, Values
from hilrt.timing.monotonic import LastHeard

#: Longest time that one move of the set-points covers, ns: after a stall of this process the
#: set-points still ramp, instead of jumping.
LONGEST_GAP_NS = 10 * CYCLE_NS
#: Number of frames with the enable request withdrawn; one of them must get through.
WITHDRAW_SENDS = 10
#: The bench is secured when it is silent for this multiple of the age at which it counts as late.
SILENCE_FACTOR = 5.0
#: Time without limitation after which it is reported again, ns.
REPORT_AGAIN_NS = NS


class Guardian:
    """State machine of the guard. Call `step` often; it returns the set-points to send.

    Parameters
    ----------
    limits : SetPointLimits
    settings : GuardSettings

    Attributes
    ----------
    state : GuardState
    points : RampedSetPoints
    enable : bool
        The enable request to send with the set-points.
    tick : int
        Newest tick whose set-points were forwarded; -1 before the first.
    new_demand : bool
        Whether new set-points have arrived; the caller clears it when they are sent.
    reason : str
        Why the bench was secured; empty if it was not.
    notices : list of Notice
        Notices for the master; the caller forwards and clears them.
    counters : dict of str to int
        Counts of refused and limited set-points.
    """

    def __init__(self, limits: SetPointLimits, settings: GuardSettings) -> None:
        self.limits = limits
        self.settings = settings
        self.state = GuardState.OFF
        self.points = RampedSetPoints(limits, CYCLE_NS / NS)
        self.enable = False
        self.tick = -1
        self.reason = ""
        self.notices: list[Notice] = []
        self.counters = {"refused": 0, "non_finite": 0, "limited_value": 0, "limited_rate": 0}
        self._tolerance = [
            TOLERANCE * (high - low)
            for low, high in zip(limits.minimum, limits.maximum, strict=True)
        ]
        self._since = 0  # when the state was entered
        self._sent_at = 0
        self._next_send = 0
        self.new_demand = False
        self._master = LastHeard()
        self._advance = LastHeard()  # when the tick last advanced
        self._settling = Settling(self._tolerance)
        self._profile = SafeProfileRun(settings, self._tolerance, 0)
        self._left = 0  # frames left to send with the enable withdrawn
        self._complete = True  # whether the safe profile reached every value
        self._fault = False  # whether the bench was secured for a fault
        self._silence_reported = False
        self._limited_at: int | None = None

    @property
    def sent(self) -> list[float]:
        """Newest set-points, in the inputs' units."""
        return self.points.sent

    # ---- requests of the master -----------------------------------------------------------

    def master_seen(self, now: int) -> None:
        """Record that the master sent something at `now` [ns]."""
        self._master.heard(now)

    def arm(self, now: int, u0: Values, bench: BenchView) -> None:
        """Enable the bench and bring its inputs to `u0` from `now` [ns] on.

        Refused while the bench is being secured, and permanently after a fault, of which the master
        may not have been notified yet.
        """
        if not all(map(math.isfinite, u0)):
            self.counters["non_finite"] += 1
            self.notices.append(Notice("failed", f"arm: the set-points {u0} are not finite"))
            return
        if self.state in (GuardState.SECURING, GuardState.WITHDRAWING):
            text = f"arm is refused while the bench is {self.state.value}"
            self._event("warning", "arm_refused", text)
            return
        if self.state is GuardState.SECURED and self._fault:
            text = f"arm is refused, because the bench was secured: {self.reason}"
            self._event("warning", "arm_refused", text)
            self._report_secured()
            return
        self.master_seen(now)
        self.points.demand(u0)
        self._settling = Settling(self._tolerance)
        if self.state in SILENT:
            # The demand starts at the bench's measured values, so enabling causes no step.
            self.points.rest_at(bench.realised)
            self.enable, self.tick, self.reason = True, -1, ""
            self._enter(GuardState.ENABLING, now)
        elif self.state is not GuardState.ENABLING:
            self._enter(GuardState.RAMPING, now)

    def demand(self, now: int, tick: int, u: Values) -> bool:
        """Accept the set-points `u` of a tick; return False if they are refused."""
        if self.state not in (GuardState.ARMED, GuardState.ACTIVE) or tick <= self.tick:
            self.counters["refused"] += 1
            return False
        if not all(map(math.isfinite, u)):
            self.counters["non_finite"] += 1
            return False
        if self.state is GuardState.ARMED:
            self._enter(GuardState.ACTIVE, now)
        self.tick = tick
        self._next_send = now
        self.new_demand = True
        self._advance.heard(now)
        if outside := self.points.demand(u):
            self.counters["limited_value"] += len(outside)
            self._report_limited(now, outside, "value")
        return True

    def secure(self, now: int, cause: str, text: str, *, fault: bool = True) -> None:
        """Run the safe profile; report its end, or at once if there is nothing to do."""
        if self.state is GuardState.SECURED:
            self._report_secured(text)
            return
        if self.state in (GuardState.SECURING, GuardState.WITHDRAWING):
            return
        self.reason, self._fault = text, fault
        self._event("error" if fault else "info", cause, text)
        self._complete = True
        if self.state is GuardState.OFF:
            self._enter(GuardState.SECURED, now)
            self._report_secured()
            return
        self._profile = SafeProfileRun(self.settings, self._tolerance, now)
        self.points.hold()
        self._enter(GuardState.SECURING, now)

    def leave_out(self, now: int, stall: int) -> None:
        """Exclude a `stall` [ns] of this process that ended at `now` [ns] from all ages."""
        self._advance.leave_out(now, stall)
        self._master.leave_out(now, stall)
        if self.state in DRIVING:
            text = (
                f"the gateway was starved of processor time for {stall / 1e6:.0f} ms: nothing "
                "was sent"
            )
            self._event("warning", "gateway_absent", text, stall / 1e6)

    # ---- the loop --------------------------------------------------------------------------

    def step(self, now: int, bench: BenchView) -> list[float] | None:
        """Advance to `now` [ns].

        Returns
        -------
        list of float, or None
            Set-points to send now, together with `enable`; None if nothing is due.
        """
        if self.state in DRIVING:
            self._watch(now, bench)
        if self.state is GuardState.ENABLING and bench.enabled:
            self._enter(GuardState.RAMPING, now)
        elif self.state is GuardState.RAMPING:
            self._settle(now, bench)
        elif self.state is GuardState.SECURING:
            self._bring_down(now, bench)
        elif self.state is GuardState.WITHDRAWING and self._left == 0:
            self._enter(GuardState.SECURED, now)
            self._report_secured()
        if self.state in SILENT or now < self._next_send:
            return None
        self._move(now)
        return self.points.sent

    def wait_ns(self, now: int) -> int | None:
        """Time until `step` has something to send, ns; None while nothing is sent."""
        if self.state in SILENT:
            return None
        return max(0, self._next_send - now)

    def _enter(self, state: GuardState, now: int) -> None:
        sending = self.state not in SILENT
        self.state = state
        self._since = now
        if not sending:
            self._sent_at = self._next_send = now
        if state is GuardState.ACTIVE:
            self._advance.heard(now)

    def _watch(self, now: int, bench: BenchView) -> None:
        """Secure the bench if it or the master is silent, or if it is not enabled as requested."""
        if bench.overdue >= SILENCE_FACTOR:
            self.secure(now, "bench_silent", f"the bench is silent: {bench.text}")
        elif text := self._silence_of_master(now):
            self.secure(now, "master_silent", text)
        else:
            self._watch_enable(now, bench)
        if bench.overdue < 1.0:
            self._silence_reported = False
        elif not self._silence_reported:
            self._silence_reported = True
            self._event("warning", "bench_silent", f"the bench is late: {bench.text}")

    def _silence_of_master(self, now: int) -> str:
        """Message about a silent master; empty if it is not silent."""
        if self.state is GuardState.ACTIVE:
            heard, timeout = self._advance, self.settings.master_timeout
            text = f"the master's tick {self.tick} has not advanced for"
        else:
            heard, timeout = self._master, self.settings.idle_timeout
            text = "nothing received from the master for"
        age = (now - heard.at) / NS
        if age <= timeout:
            return ""
        text = f"{text} {1e3 * age:.0f} ms"
        if self.state is GuardState.ACTIVE:
            text = f"{text} (master_timeout = {1e3 * timeout:g} ms)"
        if heard.stalled:
            stalled = (
                f"{heard.stalled / 1e6:.0f} ms in which the gateway was starved of processor time"
            )
            text = f"{text}, besides {stalled}"
        return text

    def _watch_enable(self, now: int, bench: BenchView) -> None:
        """Check that the bench confirms the enable request in time and does not withdraw it."""
        settings = self.settings
        if bench.enabled:
            return
        if self.state is not GuardState.ENABLING:
            text = f"the bench withdrew its enable: {settings.enable_text} became 0"
            self.enable = False  # otherwise the bench could enable itself again during the ramps
            self.secure(now, "bench_disabled", text)
        elif now - self._since > settings.enable_timeout * NS:
            text = (
                f"the bench did not confirm the enable request: {settings.enable_text} did not"
                f" become 1 within {settings.enable_timeout:g} s; look at the bench's own"
                " interlocks and at 'enable' in the session file"
            )
            self.notices.append(Notice("failed", text))
            self.enable = False
            self.secure(now, "enable_timeout", text)

    def _settle(self, now: int, bench: BenchView) -> None:
        """Go from ramping to armed when the ramps have ended and the bench follows them."""
        settled = self._settling.check(now, self.points, bench.realised)
        if settled is None:
            return
        if settled.unrealised:
            text = (
                f"armed although {self._names(settled.unrealised)} is not realised within"
                f" {TOLERANCE:.0%} of its range after {SETTLE_TIMEOUT_NS / NS:g} s"
            )
            self._event("warning", "not_settled", text)
        self._enter(GuardState.ARMED, now)
        self.notices.append(Notice("armed"))

    def _bring_down(self, now: int, bench: BenchView) -> None:
        """Continue with the safe profile; at its end withdraw the enable request."""
        done = self._profile.advance(now, self.points, bench)
        for i in self._profile.given_up:
            self._complete = False
            text = (
                f"{self.limits.names[i]} did not reach its safe value within"
                f" {self.settings.step_timeout:g} s"
            )
            self._event("warning", "safe_profile", text)
        self._profile.given_up.clear()
        if done:
            self.enable = False
            self._left = WITHDRAW_SENDS
            self._enter(GuardState.WITHDRAWING, now)

    def _move(self, now: int) -> None:
        """Move the set-points towards their target."""
        elapsed = min(now - self._sent_at, LONGEST_GAP_NS) / NS
        if self.state is GuardState.ENABLING:
            self.points.stay(elapsed)
        else:
            active = self.state is GuardState.ACTIVE
            behind = self.points.move(elapsed, follows=active)
            if behind and active:
                self.counters["limited_rate"] += len(behind)
                self._report_limited(now, behind, "rate")
        if self.state is GuardState.WITHDRAWING:
            self._left -= 1
        self._sent_at = now
        self._next_send = now + CYCLE_NS

    # ---- notices ---------------------------------------------------------------------------

    def _report_secured(self, text: str = "") -> None:
        """Report that the bench is secured, and why; `text` is used if no reason is known."""
        self.notices.append(Notice("secured", self.reason or text, complete=self._complete))

    def _event(self, level: Level, cause: str, text: str, value: float | None = None) -> None:
        self.notices.append(Notice("event", text, level, cause, value=value))

    def _report_limited(self, now: int, which: list[int], what: str) -> None:
        if self._limited_at is None or now - self._limited_at > REPORT_AGAIN_NS:
            text = f"{self._names(which)} is limited in {what}"
            self._event("warning", "input_limited", text)
        self._limited_at = now

    def _names(self, which: list[int]) -> str:
        return ", ".join(self.limits.names[i] for i in which)
