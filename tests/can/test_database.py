"""CAN databases: signals by name, and what their bits can carry."""

from __future__ import annotations

from pathlib import Path

import pytest
from cantools.database.can import Signal
from cantools.database.conversion import BaseConversion
from hypothesis import given
from hypothesis import strategies as st

from hilrt.can.database import SignalRef, find_signal, inward, load_database, representable
from hilrt.errors import ConfigError
from tests.can.small_database import DBC, INPUTS, PLAIN, REFS


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("Fast", "write it as Message.Signal"),
        ("Fats.Speed", "did you mean 'Fast'"),
        ("Fast.Spede", "did you mean 'Speed'"),
    ],
)
def test_unknown_signals_name_the_nearest(ref: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        find_signal(PLAIN, ref, "[subsystems.engine] outputs.speed")


def test_databases_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"t: .*nowhere\.dbc cannot be read: No such file"):
        load_database(tmp_path / "nowhere.dbc", "t")
    bad = tmp_path / "bad.dbc"
    bad.write_text("this is no database")
    with pytest.raises(ConfigError, match=r"bad\.dbc is not a CAN database: .*export it again"):
        load_database(bad, "t")
    large = tmp_path / "drive.dbc"  # a log: it would take seconds to parse
    large.write_text("(1672772651.866910) can0 260#000000000000006A\n" * 3000)
    with pytest.raises(
        ConfigError, match=r"drive\.dbc is not a CAN database: it does not look like"
    ):
        load_database(large, "t")
    text = tmp_path / "database.txt"
    text.write_text(DBC)
    assert load_database(text, "t").messages
    text.write_text("this is no database")
    with pytest.raises(ConfigError, match=r"database\.txt is not a CAN database: it does not"):
        load_database(text, "t")
    good = tmp_path / "good.dbc"
    good.write_text(DBC)
    assert {m.name for m in load_database(good, "t").messages} >= {"Fast", "Slow"}


def test_units_that_the_database_does_not_state_are_unstated() -> None:
    assert find_signal(PLAIN, "Fast.Alive", "t").unit == "?"
    assert REFS["speed"].unit == "rad/s"


def test_what_the_bits_carry() -> None:
    assert representable(INPUTS[0].signal) == pytest.approx((-5.0, 404.5))
    assert representable(INPUTS[1].signal) == pytest.approx((-5242.88, 5242.87))
    conversion = BaseConversion.factory(-0.5, 8, is_float=True)
    real = Signal("Real", 0, 16, conversion=conversion)
    assert representable(real) == (-32744.0, 32760.0)


@given(low=st.floats(-5.0, 100.0), width=st.floats(0.5, 300.0))
def test_bounds_moved_inward_survive_the_rounding(low: float, width: float) -> None:
    ref: SignalRef = INPUTS[0]
    bounds = inward(ref.signal, low, low + width)
    for bound in bounds:
        raw = ref.signal.scaled_to_raw(bound)
        sent = ref.signal.raw_to_scaled(round(raw))
        assert low - 1e-6 <= sent <= low + width + 1e-6
    assert bounds[0] - low <= 0.1
    assert low + width - bounds[1] <= 0.1001
