"""Names that are too long keep what tells them apart."""

from hypothesis import given
from hypothesis import strategies as st

from hilrt.monitor.panel import LEAST, short_names


def test_names_are_cut_on_the_left():
    names = ["engine.coolant_temperature", "engine.torque"]
    assert list(short_names(names, 14).values()) == ["…t_temperature", "engine.torque"]


def test_equal_ends_keep_what_differs():
    names = [f"plant.left_front_wheel_{i}.angular_velocity" for i in (1, 2)]
    assert list(short_names(names, 16).values()) == ["…1…ular_velocity", "…2…ular_velocity"]


def test_many_that_differ_only_late_are_numbered():
    names = ["a" * 30 + "b" * n + "c" * 30 for n in range(3)]
    assert len(set(short_names(names, 6).values())) == 3


@given(
    st.lists(st.text("ab.", min_size=1, max_size=30), unique=True, max_size=9),
    st.integers(LEAST, 30),
)
def test_shown_names_fit_and_differ(names, width):
    shown = short_names(names, width)
    assert list(shown) == names
    assert all(len(short) <= width for short in shown.values())
    assert len(set(shown.values())) == len(names)
