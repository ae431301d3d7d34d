from pathlib import Path

import numpy as np
import pytest

from hilrt.logs.export_file import export_file
from tests.logs.made import EPOCH_NS, bits, rows_of, session_log, slow_output, two_rates

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_values_units_and_sources_come_back_exactly(tmp_path: Path) -> None:
    log = session_log(tmp_path)
    export_file(log, "parquet")
    table = pq.read_table(tmp_path / "session.parquet")
    columns = [table.column(i).to_numpy() for i in range(1, table.num_columns)]
    np.testing.assert_array_equal(bits(np.column_stack(columns)), bits(rows_of(log)))
    np.testing.assert_array_equal(table.column("time").to_numpy(), np.arange(3000) / 1000)
    assert table.schema.field("engine.torque").metadata == {
        b"unit": b"N*m",
        b"source": b"EngineFast.ShaftTorque",
    }
    assert table.schema.metadata[b"epoch_ns"] == str(EPOCH_NS).encode()
    assert table.schema.metadata[b"session"] == b"drive"


def test_nan_is_a_value_and_null_is_none(tmp_path: Path) -> None:
    log = session_log(tmp_path)
    export_file(log, "parquet")
    speed = pq.read_table(tmp_path / "session.parquet").column("engine.speed")
    assert speed.null_count == 0
    assert np.isnan(speed.to_numpy()[::3]).all()
    export_file(two_rates(tmp_path / "rates.mcap"), "parquet")
    table = pq.read_table(tmp_path / "rates.parquet")
    assert (table.column("fast.x").null_count, table.column("slow.x").null_count) == (0, 2970)


def test_pandas_reads_it(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    log = session_log(tmp_path)
    export_file(log, "parquet")
    table = pandas.read_parquet(tmp_path / "session.parquet")
    np.testing.assert_array_equal(bits(table.to_numpy()[:, 1:]), bits(rows_of(log)))


def test_an_output_is_held_and_marked_between_its_samples(tmp_path: Path) -> None:
    export_file(slow_output(tmp_path / "log.mcap"), "parquet")
    table = pq.read_table(tmp_path / "log.parquet")
    assert table.column("slow.y").to_pylist() == [1.5] * 5 + [2.5] * 7
    marks = table.column("slow.y:t_valid").to_pylist()
    assert [i for i, mark in enumerate(marks) if mark is not None] == [0, 5]
