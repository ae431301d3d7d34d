from __future__ import annotations

import pytest

from hilrt.models.bench_sequence import DEMAND_LOST, NO_FAULT, BenchSequence, BenchState, Demand

OWN_CAUSE = 2


class Rig:
    """A sequence under virtual time, in cycles of 1 ms."""

    def __init__(self) -> None:
        self.sequence = BenchSequence()
        self.n = 0
        self.requested, self.demand_age, self.trip = True, 0.0, NO_FAULT

    def run(self, seconds: float) -> list[float]:
        """Times at which the bench became enabled, s."""
        became = []
        for _ in range(round(1000 * seconds)):
            self.n += 1
            if self.sequence.advance(
                self.n * 1e-3,
                requested=self.requested,
                demand_age=self.demand_age,
                trip=self.trip,
            ):
                became.append(self.n * 1e-3)
        return became


def test_enable_is_confirmed_once_after_starting_and_ready() -> None:
    rig = Rig()
    assert rig.run(1.0) == [pytest.approx(0.2, abs=0.003)]
    assert rig.sequence.enabled
    rig.requested = False
    rig.run(0.001)
    assert rig.sequence.state is BenchState.OFF


def test_without_fresh_demands_it_does_not_start() -> None:
    rig = Rig()
    rig.demand_age = 0.2
    assert rig.run(1.0) == []
    assert rig.sequence.state is BenchState.OFF


@pytest.mark.parametrize(("age", "trip", "cause"), [(0.2, 0, DEMAND_LOST), (0.0, 2, OWN_CAUSE)])
def test_a_fault_stays_until_enable_is_withdrawn(age: float, trip: int, cause: int) -> None:
    rig = Rig()
    rig.run(0.3)
    rig.demand_age, rig.trip = age, trip
    rig.run(0.001)
    assert (rig.sequence.state, rig.sequence.fault) == (BenchState.FAULT, cause)
    rig.demand_age, rig.trip = 0.0, NO_FAULT
    assert rig.run(1.0) == []
    assert rig.sequence.fault == cause
    rig.requested = False
    rig.run(0.001)
    assert (rig.sequence.state, rig.sequence.fault) == (BenchState.OFF, NO_FAULT)
    rig.requested = True
    assert len(rig.run(0.3)) == 1


def test_a_process_that_was_not_let_run_gives_the_demands_time_to_come() -> None:
    rig = Rig()
    rig.run(0.3)
    rig.n += 150
    rig.demand_age = 0.15
    rig.run(0.05)
    assert rig.sequence.enabled
    rig.demand_age = 0.25
    rig.run(0.06)
    assert (rig.sequence.state, rig.sequence.fault) == (BenchState.FAULT, DEMAND_LOST)


def test_only_a_moving_counter_is_a_fresh_demand() -> None:
    demand = Demand()
    demand.update(7, 1.0)
    demand.update(7, 2.0)
    assert demand.moved_at == 1.0
    demand.update(8, 3.0)
    assert demand.moved_at == 3.0
