import numpy as np
import pytest

from bench_configs.models.two_mass_rotational import Side1, Side2
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.record.messages import Signal
from hilrt.step_log.gather import Column, Scatter, TablePlace
from hilrt.step_log.signals import (
    RowWriter,
    TickTiming,
    build_columns,
    build_topics,
    given_columns,
    tables_of,
)
from hilrt.tables.record import blocks, cloned, table
from hilrt.timing.grid import TickMarks
from hilrt.timing.timeline import LONGEST, Progress
from tests.stepping import Stepping

CORRECTION = {"method": "energy", "mu": 0.5, "cap": 1.0}


def two_mass(order: int = 1, **subsystems) -> Stepping:
    return Stepping(
        {"one": Mass1(), "two": Mass2()},
        master={"step": 1e-3, "extrapolation": {"order": order}},
        subsystems={"one": {}, "two": {}} | subsystems,
        connections=[
            {"from": "one.force", "to": "two.force"},
            {"from": "two.x", "to": "one.x2"},
            {"from": "two.v", "to": "one.v2"},
        ],
        bonds=[
            {"name": "spring", "effort": "one.force", "flow": "two.v", "correction": CORRECTION}
        ],
    )


def row_by_name(s: Stepping, **numbers) -> dict[str, float]:
    """The row of the present tick under the names of the log's signals."""
    names = [signal.name for topic in build_topics(s.numerics) for signal in topic.signals]
    assert len(set(names)) == len(names)
    row = np.full(len(names), -1.0)
    values = {"step": 1e-3, "lateness_ns": 7000, "compute_ns": 8000} | numbers
    RowWriter(s.numerics, s.exchange.channels, row).fill(**values)
    return dict(zip(names, row.tolist(), strict=True))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_every_signal_stands_under_its_name(order):
    s = two_mass(order)
    s.run(0.02)
    s.exchange.channels["compute_us"] = 11.0, 12.0
    s.numerics.slack["missed"] = 1
    row = row_by_name(s)
    state, one, two = s.state, s.links["one"].solver, s.links["two"].solver
    assert (row["one.x"], row["one.v"], row["two.v"], row["two.x"]) == (one.x, one.v, two.v, two.x)
    assert row["one.x:corrected"] == one.x
    force = state.inputs[s.input("two.force")]
    for m in range(order + 1):
        assert row["two.force:sent" + (f"_d{m}" if m else "")] == force.polynomial[m]
    assert row["two.force:sent"] != force.extrapolated[0]  # the correction is in it
    assert np.isnan(row["two.force:realised"])
    assert row["two.force:connection_defect"] == force.defect
    assert np.isnan(row["one.x:output_defect"])
    ledger = state.bonds[0]
    assert row["spring:power"] == ledger.power
    assert row["spring:residual_power"] == ledger.residual_power
    assert row["spring:correction"] == row["spring:correction_computed"] == ledger.correction
    assert row["spring:tracking_power"] == row["spring:tracking_energy"] == 0.0
    for key, field in [("residual", "residual_energy"), ("corrected", "corrected_energy")]:
        assert row[f"spring:{key}_energy"] == ledger[field] != 0.0
    assert row["spring:uncorrected_energy"] == ledger.uncorrected
    assert (row["master:step"], row["master:lateness"], row["master:compute"]) == (1e-3, 7.0, 8.0)
    assert row["master:missed"] == 1.0
    assert (row["one:compute"], row["two:compute"]) == (11.0, 12.0)
    assert (row["one:age"], row["two:late"]) == (0.0, 0.0)
    for cause, active in zip(s.numerics.checks.causes, state.causes["active"], strict=True):
        assert row[f"flag:{cause}"] == active


def test_the_parts_of_a_tick_stand_under_their_names():
    s = two_mass()
    s.run(0.002)
    progress = Progress()
    marks = TickMarks(iter([1_000, 3_000, 6_000, 10_000, 20_000, 24_000, 25_000, 26_000]).__next__)
    for tick, missed in enumerate((False, True)):
        progress.skip(3 * missed)
        marks.target_ns = 20_000 * missed
        for mark in (marks.begin, marks.taken, marks.stepped, marks.dispatched):
            mark()
        progress.enter(tick, tick * 1e-3, marks, missed, list)
        progress.timeline.rest(marks.done_ns, marks.done_ns + 5_000)
    row = row_by_name(s, tick=progress.timeline.newest)
    parts = ("wake", "cut", "macro_step", "dispatch", "slack")
    assert [row[f"master:{part}"] for part in parts] == [0.0, 4.0, 1.0, 1.0, 5.0]
    longest = LONGEST[int(row["master:longest"])]
    assert (row["master:overdue"], row["master:skipped"], longest) == (1.0, 3.0, "cut")
    assert "master:order" not in row


def test_error_and_order_are_recorded_where_they_are_controlled():
    s = Stepping(
        {"one": Side1(), "two": Side2()},
        master={
            "step": 0.01,
            "step_control": {"atol": 1e-3},
            "order_control": {"method": "derivatives", "initial": 2, "maximum": 3},
        },
        connections=[
            {"from": "one.torque", "to": "two.torque"},
            {"from": "two.omega", "to": "one.omega2", "order": 1},
        ],
    )
    s.look()
    s.state.connections["order"] = 1, 3
    s.state.session["error"] = 0.25
    s.state.outputs["order"][s.output("one.torque")] = 3
    row = row_by_name(s)
    assert (row["master:error"], row["master:order"]) == (0.25, 3.0)


def test_outputs_without_a_fresh_sample_are_not_a_number():
    s = two_mass(two={"every": 4})
    s.run(0.006)
    row = row_by_name(s)
    assert row["one.x"] == s.links["one"].solver.x
    assert np.isnan(row["two.x"])
    assert np.isfinite(row["two.x:corrected"])


def test_what_is_no_finite_number_is_recorded_as_it_came():
    s = two_mass()
    s.run(0.004)
    i = s.output("one.x")
    s.given.outputs["y"][i] = np.inf
    s.numerics.macro_step()
    row = row_by_name(s)
    assert row["one.x"] == np.inf
    assert row["one.x:t_valid"] == s.given.outputs["t_valid"][i]


def test_signals_have_the_units_of_their_ports():
    topics = build_topics(two_mass().numerics)
    units = {s.name: s.unit for topic in topics for s in topic.signals}
    assert units["one.force"] == units["two.force:sent"] == "N"
    assert units["two.force:sent_d1"] == "N/s^1"
    assert units["spring:power"] == "W"
    assert units["spring:correction"] == "N"
    assert units["two.force:connection_defect"] == "N"


def test_a_session_without_bonds_has_a_row_too():
    s = Stepping(
        {"one": Side1(), "two": Side2()},
        master={"step": 0.01, "extrapolation": {"order": 0}},
        connections=[
            {"from": "one.torque", "to": "two.torque"},
            {"from": "two.omega", "to": "one.omega2"},
        ],
    )
    s.run(0.05)
    row = row_by_name(s)
    defect = s.state.outputs["defect"][s.output("two.omega")]
    assert row["two.omega:output_defect"] == defect > 0.0


#: Recorded otherwise: as the time of the row, and as messages beside it.
BESIDE = {
    ("given.session", "t"),
    ("given.session", "changes"),
    ("given.session", "renewed"),
    ("given.session", "answers_renewed"),
    ("given.session", "answers_moved"),
    ("given.session", "answers_change"),
    ("given.session", "answers_since"),
    ("given.subsystems", "switches"),
    ("given.answers", ""),
    ("given.changes", "what"),
    ("given.changes", "row"),
    ("given.changes", "value"),
    ("given.gamma", ""),
}


def test_every_field_of_what_a_step_is_given_is_recorded():
    """A new field needs a column, or a message."""
    s = two_mass(2)
    s.plan.session["derivatives"], s.plan.session["judges_before"] = 2, 1
    columns = given_columns(s.numerics)
    seen = {(c.place.table, c.place.field) for c in columns}
    seen |= {(c.mask.table, c.mask.field) for c in columns if c.mask is not None}
    fields = {
        (name, field)
        for name, block in [*blocks(s.given, "given."), ("slack", s.numerics.slack)]
        for field in block.dtype.names or [""]
    }
    assert seen | BESIDE == fields
    assert not seen & BESIDE


def scattered(s: Stepping, row: np.ndarray) -> tuple:
    """What a step is given, put back from a row."""
    other = two_mass(2)
    channels, timing = other.exchange.channels, table(TickTiming, 1)
    names = [c.signal.name for of in build_columns(s.numerics).values() for c in of]
    columns = given_columns(other.numerics)
    places = [names.index(c.signal.name) for c in columns]
    Scatter(columns, places, tables_of(other.numerics, channels, timing)).put(row)
    other.given.session["t"] = s.given.session["t"]
    return other.given, other.numerics.slack


def row_of(s: Stepping) -> np.ndarray:
    return np.array(list(row_by_name(s).values()))


def test_a_row_gives_back_what_the_step_was_given():
    s = two_mass(2, two={"every": 4})
    s.run(0.006)
    s.given.outputs["y"][0] = np.nan  # it has arrived, and is no number
    s.given.outputs["y_mid"] = np.arange(5.0)
    s.given.session["has_middle"] = 1
    s.given.session["rest"] = 1e-4
    s.numerics.slack["learns"], s.numerics.slack["missed"] = 0, 1
    given, slack = scattered(s, row_of(s))
    known = cloned(s.given)
    fresh = known.outputs["fresh"] != 0
    assert fresh[0]
    assert not fresh.all()
    known.outputs["y"][~fresh] = known.outputs["t_valid"][~fresh] = np.nan  # nothing uses them
    for (name, block), (_, expected) in zip(blocks(given), blocks(known), strict=True):
        for field in block.dtype.names or ():
            np.testing.assert_array_equal(block[field], expected[field], f"{name}.{field}")
    assert slack.tolist() == s.numerics.slack.tolist()


def test_a_mask_that_is_recorded_itself_counts():
    s = two_mass(2)
    s.run(0.002)
    s.given.session["has_middle"] = 1  # all of it unknown
    given, _ = scattered(s, row_of(s))
    assert given.session[0].has_middle == 1


def test_a_column_must_have_its_place_in_the_row():
    s = two_mass()
    with pytest.raises(ValueError, match="a row of 3 values"):
        RowWriter(s.numerics, s.exchange.channels, np.zeros(3))
    nowhere = Column(Signal("x"), TablePlace("given.outputs", "z"))
    tables = tables_of(s.numerics, s.exchange.channels, table(TickTiming, 1))
    with pytest.raises(KeyError):
        Scatter([nowhere], [0], tables)
