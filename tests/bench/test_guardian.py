"""The guardian under virtual time: limits hold for any demand, the safe profile always ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.bench.guard_states import CYCLE_NS, NS, BenchView, GuardSettings, GuardState
from hilrt.bench.guardian import SILENCE_FACTOR, WITHDRAW_SENDS, Guardian
from hilrt.bench.set_points import SetPointLimits
from hilrt.timing.monotonic import STALL_LIMIT_NS

MS = NS // 1000
LIMITS = SetPointLimits(
    names=("speed_demand", "pedal"),
    minimum=[0.0, -5.0],
    maximum=[650.0, 100.0],
    max_rate=[800.0, 500.0],
    safe=[0.0, 10.0],
)
SETTINGS = GuardSettings(order=(1, 0), step_timeout=2.0, enable_text="EngineSlow.Enabled")


class Rig:
    """A guardian with a bench that realises the first input at once, and a clock to turn."""

    def __init__(self, follows: bool = True, **changes: float) -> None:
        self.guardian = Guardian(LIMITS, GuardSettings(**{**SETTINGS.__dict__, **changes}))
        self.now = 1000 * NS
        self.view = BenchView(realised=[0.0, math.nan], enabled=False)
        self.enables = follows
        self.follows = follows
        self.sent: list[tuple[int, list[float], bool]] = []
        self.guardian.master_seen(self.now)

    def run(self, seconds: float, step: int = MS, alive: bool = True) -> None:
        """Turn the clock; the master sends heartbeats while `alive`."""
        end = self.now + int(seconds * NS)
        while self.now < end:
            self.now += step
            if alive:
                self.guardian.master_seen(self.now)
            self.step()

    def step(self) -> None:
        u = self.guardian.step(self.now, self.view)
        if u is None:
            return
        self.sent.append((self.now, list(u), self.guardian.enable))
        if self.enables:
            self.view.enabled = self.guardian.enable
        if self.follows:
            self.view.realised = [u[0], math.nan]

    def arm(self, u0: list[float]) -> None:
        self.guardian.arm(self.now, u0, self.view)

    def drive(self, ticks: int, u: list[float], first: int = 0) -> None:
        for tick in range(first, first + ticks):
            self.now += MS
            self.guardian.demand(self.now, tick, u)
            self.step()

    def notices(self, kind: str) -> list[str]:
        return [n.cause or n.text for n in self.guardian.notices if n.kind == kind]

    def active(self, u: list[float] | None = None) -> Rig:
        self.arm(u or [100.0, 20.0])
        self.run(1.0)
        assert self.guardian.state is GuardState.ARMED
        self.drive(10, u or [100.0, 20.0])
        assert self.guardian.state is GuardState.ACTIVE
        self.guardian.notices.clear()
        return self


def test_nothing_is_sent_before_arming() -> None:
    rig = Rig()
    rig.run(1.0)
    assert rig.sent == []
    assert rig.guardian.wait_ns(rig.now) is None


def test_arming_enables_then_ramps_then_reports() -> None:
    rig = Rig()
    rig.enables = False
    rig.arm([400.0, 60.0])
    rig.run(0.1)
    assert rig.guardian.state is GuardState.ENABLING
    assert all(enable and u == [0.0, 10.0] for _, u, enable in rig.sent)
    rig.view.enabled = True
    rig.run(0.45)
    assert rig.guardian.state is GuardState.RAMPING  # 400 / 800 = 0.5 s
    rig.run(0.3)
    assert rig.guardian.state is GuardState.ARMED
    assert rig.notices("armed") == [""]
    assert rig.sent[-1][1] == [400.0, 60.0]
    before = len(rig.sent)
    rig.run(0.1)
    assert len(rig.sent) - before == 0.1 * NS // CYCLE_NS  # keeps sending u0


def test_arming_starts_where_the_bench_is() -> None:
    rig = Rig()
    rig.view.realised = [250.0, math.nan]
    rig.arm([300.0, 20.0])
    rig.run(0.003)
    assert rig.sent[0][1] == [250.0, 10.0]


def test_a_bench_that_does_not_enable_fails_with_its_signal() -> None:
    rig = Rig(enable_timeout=0.5)
    rig.enables = False
    rig.arm([100.0, 20.0])
    rig.run(1.0)
    assert "EngineSlow.Enabled" in rig.notices("failed")[0]
    assert rig.guardian.state is GuardState.SECURED
    assert not rig.sent[-1][2]


def test_a_bench_that_does_not_follow_is_armed_with_a_warning() -> None:
    rig = Rig()
    rig.follows = False
    rig.enables = True
    rig.arm([100.0, 20.0])
    rig.run(4.9)
    assert rig.guardian.state is GuardState.RAMPING
    rig.run(0.5)
    assert rig.guardian.state is GuardState.ARMED
    assert rig.notices("event") == ["not_settled"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_set_points_are_refused(bad: float) -> None:
    rig = Rig().active()
    last = list(rig.guardian.sent)
    rig.guardian.demand(rig.now + 1, 100, [bad, 20.0])
    assert rig.guardian.counters["non_finite"] == 1
    assert rig.guardian.tick == 9
    assert rig.guardian.sent == last
    rig.guardian.arm(rig.now, np.array([bad, 0.0]), rig.view)
    assert rig.notices("failed")


def test_demands_are_limited_and_counted() -> None:
    rig = Rig().active()
    rig.drive(50, [5000.0, 20.0], first=10)
    assert rig.guardian.counters["limited_value"] == 50
    assert rig.guardian.counters["limited_rate"] > 40
    assert rig.sent[-1][1][0] == pytest.approx(100.0 + 800.0 * 0.05)
    assert rig.notices("event") == ["input_limited"]  # once, not fifty times


def test_a_ramp_just_below_the_permitted_rate_that_begins_late_is_not_counted() -> None:
    """As an operator's: the first set-point took 5 ms, and the gateway has to catch up."""
    rig = Rig().active()
    for k in range(1, 100):
        rig.now += MS
        rig.guardian.demand(rig.now, 9 + k, [100.0 + 0.98 * 0.8 * (k + 5), 20.0])
        rig.step()
    assert rig.guardian.counters["limited_rate"] == 0
    assert rig.notices("event") == []


def test_a_ramp_at_the_permitted_rate_is_not_counted() -> None:
    rig = Rig().active()
    for k in range(1, 100):
        rig.now += MS + (-1) ** k * MS // 10  # jitter of the master's ticks
        rig.guardian.demand(rig.now, 9 + k, [100.0 + 0.8 * k, 20.0])
        rig.step()
    assert rig.guardian.counters["limited_rate"] == 0


def test_a_tick_that_does_not_advance_is_refused_and_ends_in_the_safe_profile() -> None:
    rig = Rig().active()
    for _ in range(100):
        rig.now += MS
        rig.guardian.master_seen(rig.now)
        rig.guardian.demand(rig.now, 9, [300.0, 20.0])
        rig.step()
    assert rig.guardian.counters["refused"] == 100
    assert rig.guardian.state is GuardState.SECURING
    assert rig.notices("event") == ["master_silent"]
    assert max(u[0] for _, u, _ in rig.sent) == 100.0


def test_safe_profile_takes_the_inputs_in_order_then_withdraws() -> None:
    rig = Rig().active([100.0, 60.0])
    rig.sent.clear()
    start = rig.now
    rig.run(1.0, alive=False)
    assert rig.guardian.state is GuardState.SECURED
    u = np.array([values for _, values, _ in rig.sent])
    times = np.array([t for t, _, _ in rig.sent])
    pedal_done = times[np.argmax(u[:, 1] == 10.0)]
    assert np.all(u[times < pedal_done, 0] == 100.0)  # speed waits for the pedal
    speed_done = times[np.argmax(u[:, 0] == 0.0)]
    enables = [enable for _, _, enable in rig.sent]
    assert enables.index(False) > np.argmax(u[:, 0] == 0.0)
    assert enables.count(False) == WITHDRAW_SENDS
    expected = 0.05 + 50 / 500 + 100 / 800  # timeout and the two ramps
    assert (speed_done - start) / NS == pytest.approx(expected, abs=0.01)
    assert rig.notices("secured")
    assert rig.guardian.notices[-1].complete


def test_safe_profile_goes_on_after_the_step_timeout() -> None:
    rig = Rig().active()
    rig.follows = False  # the dynamometer holds its speed
    rig.view.realised = [90.0, math.nan]
    rig.guardian.secure(rig.now, "safe", "asked for")
    rig.run(1.5)
    assert rig.guardian.state is GuardState.SECURING
    rig.run(1.0)
    assert rig.guardian.state is GuardState.SECURED
    assert "safe_profile" in rig.notices("event")
    assert not rig.guardian.notices[-1].complete


def test_a_silent_bench_is_reported_then_secured_blind() -> None:
    rig = Rig().active()
    rig.follows = False
    rig.view.realised = [90.0, math.nan]  # stale: must not hold the profile up
    rig.view.overdue, rig.view.text = 1.1, "no new frame of EngineFast for 22 ms"
    rig.drive(5, [100.0, 20.0], first=10)
    assert rig.notices("event") == ["bench_silent"]
    assert rig.guardian.state is GuardState.ACTIVE
    rig.view.overdue = SILENCE_FACTOR
    rig.drive(1, [100.0, 20.0], first=15)
    assert rig.guardian.state is GuardState.SECURING
    rig.run(0.5)
    assert rig.guardian.state is GuardState.SECURED
    assert "EngineFast" in rig.guardian.reason


def test_a_bench_that_withdraws_its_enable_is_secured() -> None:
    rig = Rig().active()
    rig.enables = False
    rig.view.enabled = False
    rig.drive(1, [100.0, 20.0], first=10)
    assert rig.guardian.state is GuardState.SECURING
    assert not rig.sent[-1][2]  # the request goes at once
    assert "bench_disabled" in rig.notices("event")


@pytest.mark.parametrize("state", [GuardState.ENABLING, GuardState.RAMPING, GuardState.ARMED])
def test_a_master_that_falls_silent_while_arming_is_noticed(state: GuardState) -> None:
    rig = Rig(idle_timeout=1.0)
    rig.enables = state is not GuardState.ENABLING
    rig.arm([640.0 if state is GuardState.RAMPING else 100.0, 20.0])
    rig.run(0.5)
    assert rig.guardian.state is state
    rig.run(0.9, alive=False)
    rig.run(2.0, alive=False)
    assert rig.guardian.state is GuardState.SECURED


def test_late_set_points_stay_refused() -> None:
    rig = Rig().active()
    rig.run(2.0, alive=False)
    assert rig.guardian.state is GuardState.SECURED
    rig.sent.clear()
    rig.drive(20, [100.0, 20.0], first=1000)
    assert rig.sent == []
    rig.guardian.notices.clear()
    rig.guardian.secure(rig.now, "safe", "again")
    assert rig.notices("secured") == [rig.guardian.reason]  # the first cause


@pytest.mark.parametrize("fault", ["bench_disabled", "master_silent"])
def test_a_bench_that_was_secured_for_a_fault_is_not_armed_again(fault: str) -> None:
    rig = Rig().active()
    rig.view.enabled = fault != "bench_disabled"
    rig.run(2.0, alive=False)
    assert rig.guardian.state is GuardState.SECURED
    assert rig.notices("event") == [fault]
    rig.guardian.notices.clear()
    rig.sent.clear()
    rig.arm([100.0, 20.0])
    rig.run(1.0)
    assert rig.guardian.state is GuardState.SECURED
    assert rig.sent == []
    assert not rig.guardian.enable
    assert rig.notices("event") == ["arm_refused"]
    assert rig.notices("secured") == [rig.guardian.reason]  # so that whoever waits hears why


def test_a_bench_that_was_secured_on_request_may_be_armed_again() -> None:
    rig = Rig().active()
    rig.guardian.secure(rig.now, "safe", "asked for", fault=False)
    rig.run(2.0)
    assert rig.guardian.state is GuardState.SECURED
    rig.active()
    assert rig.guardian.enable


def test_arming_again_while_driving() -> None:
    rig = Rig()
    rig.arm([100.0, 20.0])
    rig.run(1.0)
    rig.arm([200.0, 20.0])
    rig.run(1.0)
    assert rig.guardian.state is GuardState.ARMED
    assert rig.sent[-1][1][0] == 200.0
    rig.drive(1, [200.0, 20.0])
    rig.guardian.notices.clear()
    rig.arm([100.0, 20.0])  # the stop sequence takes over from the ticks
    rig.run(1.0)
    assert rig.guardian.state is GuardState.ARMED
    assert rig.sent[-1][1][0] == 100.0
    rig.guardian.secure(rig.now, "stop", "the session ends", fault=False)
    rig.arm([200.0, 20.0])
    assert "arm_refused" in rig.notices("event")
    assert rig.guardian.state is GuardState.SECURING


def test_securing_before_arming_has_nothing_to_do() -> None:
    rig = Rig()
    rig.guardian.secure(rig.now, "stop", "the session ends", fault=False)
    rig.run(0.1)
    assert rig.sent == []
    assert rig.notices("secured") == ["the session ends"]
    assert rig.guardian.state is GuardState.SECURED


def test_a_gateway_that_was_held_up_makes_no_step() -> None:
    rig = Rig().active()
    rig.now += 3 * NS
    rig.guardian.demand(rig.now, 100, [600.0, 90.0])
    rig.step()
    assert rig.sent[-1][1] == pytest.approx([100.0 + 800.0 * 0.02, 20.0 + 500.0 * 0.02])


@pytest.mark.parametrize("state", [GuardState.ACTIVE, GuardState.ARMED])
def test_a_dead_master_is_noticed_although_the_gateway_is_hardly_ever_let_run(
    state: GuardState,
) -> None:
    """Every pass comes 40 ms after the one before: none of them can tell who was silent."""
    rig = Rig(idle_timeout=1.0)
    rig.arm([100.0, 20.0])
    rig.run(1.0)
    if state is GuardState.ACTIVE:
        rig.drive(10, [100.0, 20.0])
    began, timeout = rig.now, 0.05 if state is GuardState.ACTIVE else 1.0
    while rig.guardian.state is state:
        assert rig.now - began < 60 * NS
        rig.now += 40 * MS
        rig.guardian.leave_out(rig.now, 40 * MS)
        rig.step()
    assert STALL_LIMIT_NS < rig.now - began <= STALL_LIMIT_NS + timeout * NS + 40 * MS
    assert rig.guardian.state is GuardState.SECURING
    assert (
        "besides 1000 ms in which the gateway was starved of processor time" in rig.guardian.reason
    )


def test_news_of_the_master_renew_what_is_excused() -> None:
    """Of the tick: a master that sends but does not step is not alive."""
    rig = Rig().active()
    for tick in range(10, 110):
        rig.now += 40 * MS
        rig.guardian.leave_out(rig.now, 40 * MS)
        rig.step()
        rig.guardian.demand(rig.now, tick, [100.0, 20.0])
    assert rig.guardian.state is GuardState.ACTIVE
    while rig.guardian.state is GuardState.ACTIVE and rig.now < 1010 * NS:
        rig.now += 40 * MS
        rig.guardian.leave_out(rig.now, 40 * MS)
        rig.guardian.master_seen(rig.now)
        rig.guardian.demand(rig.now, 109, [100.0, 20.0])
        rig.step()
    assert "the master's tick 109 has not advanced" in rig.guardian.reason


Action = tuple[str, int, float, float]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["demand", "demand", "demand", "idle", "arm", "safe", "move"]),
        st.integers(0, 30 * MS),
        st.floats(-1e4, 1e4) | st.sampled_from([math.nan, math.inf, 650.0, 0.0]),
        st.floats(-1e3, 1e3),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(actions=ACTIONS, follows=st.booleans())
def test_limits_hold_for_any_demands_and_the_profile_always_ends(
    actions: list[Action], follows: bool
) -> None:
    rig = Rig()
    rig.follows = follows
    rig.arm([100.0, 20.0])
    rig.run(1.0)
    for tick, (action, wait, a, b) in enumerate(actions):
        rig.now += wait
        if action == "demand":
            rig.guardian.demand(rig.now, tick, [a, b])
        elif action == "arm":
            rig.arm([a, b])
        elif action == "safe":
            rig.guardian.secure(rig.now, "safe", "asked for", fault=False)
        elif action == "move" and math.isfinite(a):
            rig.view.realised = [a, math.nan]
        rig.step()
    rig.guardian.secure(rig.now, "stop", "the session ends")
    # Worst case: every step of the profile times out.
    rig.run(2 * 2.0 + (WITHDRAW_SENDS + 2) * CYCLE_NS / NS, step=2 * MS)
    assert rig.guardian.state is GuardState.SECURED

    previous: tuple[int, list[float], bool] | None = None
    for now, u, enable in rig.sent:
        assert u == LIMITS.clip(u)
        if previous is not None and previous[2] == enable:
            for value, before, rate in zip(u, previous[1], LIMITS.max_rate, strict=True):
                assert abs(value - before) <= rate * (now - previous[0]) / NS + 1e-9
        previous = now, u, enable
    if rig.sent:
        _, u, enable = rig.sent[-1]
        assert not enable
        assert u == LIMITS.safe
