import pytest

from hilrt.record.recorder import SMALLEST_NS, ClockWatch

S = 1_000_000_000


class Clocks:
    """A wall clock and a monotonic one; `held_ns` passes after each of the next wall readings."""

    def __init__(self) -> None:
        self.now, self.ahead = 0, 1_780_000_000 * S
        self.held_ns: list[int] = []

    def wall(self) -> int:
        reading = self.now + self.ahead
        self.now += self.held_ns.pop(0) if self.held_ns else 0
        return reading

    def steady(self) -> int:
        return self.now


@pytest.mark.parametrize("step", [3600 * S, -3600 * S, SMALLEST_NS, -SMALLEST_NS])
def test_a_step_is_seen_once(step: int) -> None:
    clocks = Clocks()
    watch = ClockWatch(clocks.wall, clocks.steady)
    clocks.now += S
    assert watch.step_ns() == 0
    clocks.ahead += step
    assert [watch.step_ns(), watch.step_ns()] == [step, 0]


def test_a_clock_that_is_slewed_is_not_set() -> None:
    clocks = Clocks()
    watch = ClockWatch(clocks.wall, clocks.steady)
    for _ in range(3600):
        clocks.now += S
        clocks.ahead += S // 2000
        assert watch.step_ns() == 0


def test_who_is_held_up_between_two_readings_sees_no_step() -> None:
    clocks = Clocks()
    watch = ClockWatch(clocks.wall, clocks.steady)
    clocks.held_ns = [S]
    assert watch.step_ns() == 0
    clocks.held_ns = [0, S]
    assert watch.step_ns() == 0
