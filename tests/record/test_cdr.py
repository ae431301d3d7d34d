"""The schema names every signal once, in a form that viewers accept."""

import operator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap_ros2._dynamic import generate_dynamic

from hilrt.record import cdr
from hilrt.record.messages import Signal, Topic


def test_subsystem_and_port_become_a_path():
    topic = Topic("sent", [Signal("engine.speed_demand:sent"), Signal("engine.pedal:sent_d1")])
    assert cdr.field_paths(topic) == ["engine.speed_demand", "engine.pedal_sent_d1"]


def test_names_that_viewers_refuse_are_rewritten():
    names = ["A.Motor__Speed_", "a.9th", "a.v[0]", "flag:late", "plain", "a.motor_speed"]
    topic = Topic("outputs", [Signal(name) for name in names])
    assert cdr.field_paths(topic) == [
        "a.motor_speed",
        "a.x_9th",
        "a.v_0",
        "flag.late",
        "session.plain",
        "a_2.motor_speed",
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=8), st.text(max_size=6))
def test_second_library_parses_any_schema(names, unit):
    topic = Topic("outputs", [Signal(f"{name}.{name}", unit) for name in names])
    text = cdr.schema_text(topic)
    assert len(set(cdr.field_paths(topic))) == len(names)
    decoders = generate_dynamic(cdr.schema_name("outputs"), text)
    row = np.arange(len(names), dtype=float)
    message = decoders[cdr.schema_name("outputs")](cdr.HEADER + row.tobytes())
    read = [operator.attrgetter(path)(message) for path in cdr.field_paths(topic)]
    assert read == row.tolist()


def test_slices_follow_each_other():
    topics = [Topic("a", [Signal("x"), Signal("y")]), Topic("b", [Signal("z")])]
    assert cdr.signal_slices(topics) == [slice(0, 2), slice(2, 3)]
