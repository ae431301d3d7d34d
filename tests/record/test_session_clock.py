"""Clock readings as session time, also where the grid was stretched."""

from hypothesis import given
from hypothesis import strategies as st

from hilrt.record.frame_feed import SessionClock

READINGS = st.integers(-(10**12), 10**15)


@given(READINGS, READINGS)
def test_session_time_is_what_has_passed_since_the_epoch(epoch: int, reading: int) -> None:
    assert SessionClock(epoch).session_ns(reading) == reading - epoch


@given(
    st.integers(0, 10**9),
    st.integers(1, 10**9),
    st.lists(st.integers(-(10**10), 10**10), min_size=2).map(sorted),
)
def test_session_time_stands_still_while_the_grid_is_shifted(
    since: int, shift: int, readings: list[int]
) -> None:
    clock = SessionClock(0)
    clock.stretched(since, shift)
    times = [clock.session_ns(reading) for reading in readings]
    assert times == sorted(times)
    for reading, t in zip(readings, times, strict=True):
        if reading < since:
            assert t == reading
        else:
            assert t == max(since, reading - shift)
