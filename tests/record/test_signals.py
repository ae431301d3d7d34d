import numpy as np
import pytest

from hilrt.models.two_mass import Mass1, Mass2
from hilrt.models.two_mass_rotational import Side1, Side2
from hilrt.record.signals import RowWriter, build_topics
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
    names = [signal.name for topic in build_topics(s.plan) for signal in topic.signals]
    assert len(set(names)) == len(names)
    row = np.full(len(names), -1.0)
    values = {"step": 1e-3, "lateness_ns": 7000, "compute_ns": 8000} | numbers
    RowWriter(s.plan, row).fill(s.state, s.exchange.given, s.exchange, **values)
    return dict(zip(names, row.tolist(), strict=True))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_every_signal_stands_under_its_name(order):
    s = two_mass(order)
    s.run(0.02)
    s.exchange.compute_us[:] = 11.0, 12.0
    s.exchange.given.missed = True
    row = row_by_name(s)
    state, one, two = s.state, s.links["one"].solver, s.links["two"].solver
    assert (row["one.x"], row["one.v"], row["two.v"], row["two.x"]) == (one.x, one.v, two.v, two.x)
    assert row["one.x:corrected"] == one.x
    force = s.input("two.force")
    for m in range(order + 1):
        assert row["two.force:sent" + (f"_d{m}" if m else "")] == state.sent[m, force]
    assert row["two.force:sent"] != state.measured[0, force]  # the correction is in it
    assert np.isnan(row["two.force:realised"])
    assert row["two.force:connection_defect"] == state.u_defect[force]
    assert np.isnan(row["one.x:output_defect"])
    ledger = state.energy
    assert row["spring:power"] == state.bond_power[0]
    assert row["spring:residual_power"] == state.corrected.power[0]
    assert row["spring:correction"] == row["spring:correction_computed"] == ledger.correction[0]
    assert row["spring:tracking_power"] == row["spring:tracking_energy"] == 0.0
    for key in ("residual", "corrected", "uncorrected"):
        assert row[f"spring:{key}_energy"] == getattr(ledger, key)[0]
    assert (row["master:step"], row["master:lateness"], row["master:compute"]) == (1e-3, 7.0, 8.0)
    assert row["master:missed"] == 1.0
    assert (row["one:compute"], row["two:compute"]) == (11.0, 12.0)
    assert (row["one:age"], row["two:late"]) == (0.0, 0.0)
    for cause, active in zip(s.plan.checks.causes, state.monitor.any_active, strict=True):
        assert row[f"flag:{cause}"] == active


def test_outputs_without_a_fresh_sample_are_not_a_number():
    s = two_mass(two={"every": 4})
    s.run(0.006)
    row = row_by_name(s)
    assert row["one.x"] == s.links["one"].solver.x
    assert np.isnan(row["two.x"])
    assert np.isfinite(row["two.x:corrected"])


def test_signals_have_the_units_of_their_ports():
    units = {s.name: s.unit for topic in build_topics(two_mass().plan) for s in topic.signals}
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
    assert row["two.omega:output_defect"] == s.state.y_defect[s.output("two.omega")] > 0.0
