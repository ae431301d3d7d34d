"""Limits of the jerk inside a closed loop: master, gateway and bench, in simulated time.

The physics of `tests.tip_in`. A loop through a virtual inertia has a few milliseconds of reserve,
and a limit that is in force lags. Ticks are skipped as on a machine with much other work,
set-points reach the gateway with jitter, and the gateway goes on sending while there are none.
"""

import heapq
import math
import random

import numpy as np
import pytest

from hilrt.bench.guard_states import NS, BenchView, GuardSettings, GuardState
from hilrt.bench.guardian import Guardian
from hilrt.bench.read_bench import MASTER_SHARE
from hilrt.bench.set_points import SetPointLimits
from hilrt.solver import Floats, InputPolynomial, Port, Sample
from tests.stepping import MemoryLink, Stepping
from tests.tip_in import ACTUATION_DELAY_S, Bench, Car

DURATION_S = 4.0
STEP_NS = 1_000_000
MAX_RATE = 800.0
VIEW = BenchView(realised=[math.nan, math.nan])


class GuardedBench(Bench):
    """The emulated bench behind the guardian of its gateway."""

    def __init__(self, master_jerk: float, gateway_jerk: float, seed: int) -> None:
        super().__init__(noise=True)
        speed = Port("speed", "rad/s", min=0.0, max=650.0, max_rate=MAX_RATE, max_jerk=master_jerk)
        self.inputs = (speed, Port("pedal", "%", min=0.0, max=100.0))
        limits = SetPointLimits(
            ("speed", "pedal"), [0.0] * 2, [650.0, 100.0], [MAX_RATE, 500.0], [0.0] * 2,
            [gateway_jerk, math.inf],
        )  # fmt: skip
        self.guardian = Guardian(limits, GuardSettings(order=(0, 1)))
        self.random = random.Random(f"jitter {seed}")
        self.start_ns = 0
        self.lags: list[float] = []

    def initialize(self, t0: float, u0: Floats) -> Sample:
        now = 1000 * NS
        self.guardian.arm(now, u0.tolist(), VIEW)
        while self.guardian.state is not GuardState.ARMED:
            now += STEP_NS
            self.guardian.master_seen(now)
            self.guardian.step(now, VIEW)
        self.start_ns = now + STEP_NS
        return super().initialize(t0, u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        late = min(abs(self.random.gauss(0.0, 5e-5)), 5e-4)
        now = self.start_ns + round((t + late) * NS)
        guardian = self.guardian
        assert guardian.demand(now, guardian.tick + 1, u.coefficients[0].tolist())
        guardian.step(now, VIEW)
        self.lags.append(guardian.sent[0] - u.coefficients[0, 0])
        return super().advance(t, h, InputPolynomial(t, np.array([guardian.sent])))

    def go_on(self, t: float) -> Sample:
        """A cycle of the bench while the master skips a tick."""
        self.guardian.step(self.start_ns + round(t * NS), VIEW)
        return super().advance(t, 1e-3, InputPolynomial(t, np.array([self.guardian.sent])))


class NearLink(MemoryLink):
    """Samples of the bench arrive half a millisecond later, give or take."""

    def __init__(self, bench: GuardedBench, seed: int) -> None:
        super().__init__("engine", bench, physical=True)
        self._random = random.Random(f"way {seed}")
        self._under_way: list[tuple[float, int, Sample]] = []
        self._now = 0.0

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        self.measured(t + h, self.solver.advance(t, h, InputPolynomial(t, coefficients.copy())))

    def measured(self, now: float, sample: Sample) -> None:
        self._now = now
        sample.t_valid = np.full(len(sample.y), now)
        wait = self._random.uniform(2e-4, 8e-4)
        heapq.heappush(self._under_way, (now + wait, round(now * 1e3), sample))

    def receive(self) -> None:
        while self._under_way and self._under_way[0][0] <= self._now + 1e-9:
            t, _, sample = heapq.heappop(self._under_way)
            self.inbox.put(sample, t)


def run(master_jerk: float, gateway_jerk: float, seed: int, skipping: float) -> tuple[float, ...]:
    """A tip-in and tip-out.

    Returns
    -------
    tuple of float
        RMS of realised minus demanded speed [rad/s] once the start is over, RMS of what the gateway
        sends minus what the master asks for [rad/s], and the share of ticks with a limited input.
    """
    chance = random.Random(f"skipped {seed}")
    bench = GuardedBench(master_jerk, gateway_jerk, seed)
    link = NearLink(bench, seed)
    late = {"late": {"policy": "extrapolate", "max_misses": 10_000}}
    session = Stepping(
        {"vehicle": Car(), "engine": link},
        lead={"engine": ACTUATION_DELAY_S},
        master={"step": 1e-3, "extrapolation": {"order": 1}},
        subsystems={"vehicle": late, "engine": late},
        connections=[
            {"from": "engine.torque", "to": "vehicle.engine_torque", "order": 0},
            {"from": "vehicle.engine_speed", "to": "engine.speed"},
            {"from": "vehicle.pedal", "to": "engine.pedal", "order": 0},
        ],
        bonds=[
            {
                "name": "shaft",
                "effort": "engine.torque",
                "flow": "vehicle.engine_speed",
                "correction": {"method": "energy", "nu": 0.1, "cap": 0.1, "cap_abs": 15.0},
            }
        ],
    )
    output, speed = session.output("vehicle.engine_speed"), session.input("engine.speed")
    off, limited = [], []
    while session.t < DURATION_S:
        session.look()
        off.append(bench.bench.dyno.speed - session.state.outputs["y"][output])
        limited.append(session.state.inputs["limited"][speed])
        session.go()
        for _ in range(chance.choice((1, 1, 2, 4, 7)) if chance.random() < skipping else 0):
            link.measured(session.t + 1e-3, bench.go_on(session.t))
            session.t_ns += STEP_NS
            session.elapsed_ns += STEP_NS
            session.tick += 1
    settled = len(off) // 10
    rms = [math.sqrt(np.mean(np.square(x[settled:]))) for x in (off, bench.lags)]
    return *rms, float(np.mean(limited[settled:]))


SEEDS = range(3)
#: Share of ticks after which others are skipped: in all, every eighth.
SKIPPING = 0.05


def worst(master_jerk: float, gateway_jerk: float) -> list[float]:
    """Largest of the figures of `run` over all seeds."""
    runs = [run(master_jerk, gateway_jerk, seed, SKIPPING) for seed in SEEDS]
    return [max(figure) for figure in zip(*runs, strict=True)]


@pytest.fixture(scope="module")
def unlimited() -> float:
    """Realised minus demanded speed without a limit of the jerk, rad/s."""
    return worst(math.inf, math.inf)[0]


@pytest.mark.parametrize(("jerk", "in_force"), [(20_000.0, 0.2), (100_000.0, 0.0)])
def test_limits_in_master_and_gateway_make_nothing_swing(unlimited, jerk, in_force):
    off, gateway_off, limited = worst(MASTER_SHARE * jerk, jerk)
    assert off < 1.2 * unlimited
    assert gateway_off < 0.3  # rad/s: what it brakes while ticks are skipped
    assert limited > in_force


def test_the_gateway_alone_makes_nothing_swing_either(unlimited):
    assert worst(math.inf, 20_000.0)[0] < 1.2 * unlimited
