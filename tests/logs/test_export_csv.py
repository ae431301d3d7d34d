import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hilrt.errors import ConfigError
from hilrt.logs.columns import JoinedTable
from hilrt.logs.export_csv import seconds, write_rows
from hilrt.logs.export_file import export_file
from tests.logs.made import (
    bits,
    frame_log,
    rows_of,
    session_log,
    slow_output,
    some_frames,
    two_rates,
)


def test_pandas_reads_the_same_numbers_to_the_last_bit(tmp_path: Path) -> None:
    log = session_log(tmp_path)
    done = export_file(log, "csv")
    assert (done.rows, done.signals) == (3000, 4)
    table = pd.read_csv(tmp_path / "session.csv")
    names = ["time [s]", "engine.torque [N*m]", "engine.speed [rad/s]"]
    assert list(table.columns) == [*names, "master:step [s]", "master:lateness [us]"]
    np.testing.assert_array_equal(bits(table.to_numpy()[:, 1:]), bits(rows_of(log)))
    np.testing.assert_array_equal(table["time [s]"], np.arange(3000) / 1000)


def test_topics_of_different_rates_are_one_table(tmp_path: Path) -> None:
    export_file(two_rates(tmp_path / "log.mcap"), "csv")
    table = pd.read_csv(tmp_path / "log.csv")
    assert len(table) == 3000
    assert table["time [s]"].is_monotonic_increasing
    assert table["slow.x [m]"].notna().sum() == 30
    slow = table.dropna()
    np.testing.assert_allclose(slow["slow.x [m]"], np.sin(slow["time [s]"] * 10), atol=1e-12)


def test_signals_and_times_can_be_chosen(tmp_path: Path) -> None:
    log = session_log(tmp_path)
    out = tmp_path / "part.csv"
    export_file(log, "csv", out, signals=["engine.*"], start_s=1.0, end_s=1.009)
    table = pd.read_csv(out)
    assert table.shape == (10, 3)
    assert table["time [s]"].iloc[[0, -1]].tolist() == [1.0, 1.009]


def test_times_are_exact() -> None:
    assert seconds(1) == "0.000000001"
    assert seconds(-1_500_000_000) == "-1.500000000"
    assert seconds(123_456_789_012_345_678) == "123456789.012345678"


def test_rows_can_be_limited() -> None:
    values = np.arange(6.0).reshape(3, 2)
    table = JoinedTable(np.array([0, 1, 2]), values, np.ones((3, 2), bool))
    file = io.StringIO()
    assert write_rows(file, [table, table], limit=2) == 2
    assert file.getvalue() == "0.000000000,0.0,1.0\n0.000000001,2.0,3.0\n"


def test_frames_alone_are_no_table(tmp_path: Path) -> None:
    log = frame_log(tmp_path / "log.mcap", some_frames(5))
    with pytest.raises(ConfigError, match="has no signals; frames need --database"):
        export_file(log, "csv")
    assert [p.name for p in tmp_path.iterdir()] == ["log.mcap"]


def test_an_output_is_held_and_marked_between_its_samples(tmp_path: Path) -> None:
    log = slow_output(tmp_path / "log.mcap")
    export_file(log, "csv")
    table = pd.read_csv(tmp_path / "log.csv")
    assert table["slow.y [m]"].tolist() == [1.5] * 5 + [2.5] * 7
    assert table["slow.y:t_valid [m]"].dropna().index.tolist() == [0, 5]
    export_file(log, "csv", tmp_path / "alone.csv", signals=["slow.y"])  # nothing would mark it
    assert pd.read_csv(tmp_path / "alone.csv")["slow.y [m]"].dropna().tolist() == [1.5, 2.5]
