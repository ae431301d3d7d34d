"""Columns of stimuli, from files that other libraries write, against what these read of them."""

import numpy as np
import pytest

from hilrt.config.stimuli import Stimulus, StimulusSegment
from hilrt.errors import ConfigError
from hilrt.logs.stimulus_columns import read_column

T = np.array([0.0, 0.5, 1.0, 2.0])
SPEED = np.array([600.0, 1200.0, 900.0, 3000.0])


def read(folder, name, unit="rad/s", mode="replace", step=0.1, **keys):
    segment = StimulusSegment(shape="column", file=name, signal="speed", **keys)
    stimulus = Stimulus(name="s", input="a.b", segments=[segment], mode=mode)
    return read_column(segment, stimulus, unit, folder, step, "[stimuli.s]")


def test_a_csv_file_as_pandas_reads_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text(
        "time,speed\n" + "\n".join(f"{a},{b}" for a, b in zip(T, SPEED, strict=True))
    )
    table = pandas.read_csv(tmp_path / "a.csv")
    found = read(tmp_path, "a.csv", unit="rpm")
    np.testing.assert_array_equal(found.points, table[["time", "speed"]].to_numpy())


def test_a_parquet_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"time": T, "speed": SPEED}), tmp_path / "a.parquet")
    found = read(tmp_path, "a.parquet", time="time", unit="rad/s", scale=2.0)
    expected = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    np.testing.assert_allclose(found.points[:, 0], expected["time"])
    np.testing.assert_allclose(found.points[:, 1], 2.0 * np.array(expected["speed"]))


def test_an_mf4_file_as_asammdf_reads_it_in_the_inputs_unit(tmp_path):
    asammdf = pytest.importorskip("asammdf")
    with asammdf.MDF() as mdf:
        mdf.append([asammdf.Signal(SPEED, T, name="speed", unit="rpm")])
        mdf.save(tmp_path / "a.mf4")
    with asammdf.MDF(tmp_path / "a.mf4") as mdf:
        signal = mdf.get("speed")
    found = read(tmp_path, "a.mf4")
    np.testing.assert_allclose(found.points[:, 0], signal.timestamps)
    np.testing.assert_allclose(found.points[:, 1], signal.samples * np.pi / 30.0, rtol=1e-12)


def test_times_are_shifted_and_the_value_at_the_beginning_is_between_rows(tmp_path):
    rows = "\n".join(["time [s],speed [rpm]", "0,600", "0.5,1200", "0.5,1300", "0.7,", "1,900"])
    (tmp_path / "a.csv").write_text(rows)
    found = read(tmp_path, "a.csv", unit="rpm", shift=-0.25)
    np.testing.assert_allclose(found.points, [[0.0, 950.0], [0.25, 1300.0], [0.75, 900.0]])
    with pytest.raises(ConfigError, match="no values after its beginning"):
        read(tmp_path, "a.csv", unit="rpm", shift=-1.0)


def test_what_lies_between_two_steps_is_told(tmp_path):
    rows = [f"{k * 0.01:.2f},{k}" for k in range(101)]
    (tmp_path / "a.csv").write_text("\n".join(["time [s],speed [rpm]", *rows]))
    assert "90 % lie between two steps" in read(tmp_path, "a.csv", unit="rpm", step=0.1).note
    note = read(tmp_path, "a.csv", unit="rpm", step=0.001).note
    assert (
        note
        == "speed of a.csv: 101 rows over 1 s, read at every step by straight lines between rows"
    )


def test_what_is_added_has_no_zero_of_its_own(tmp_path):
    (tmp_path / "a.csv").write_text("time [s],speed [degC]\n0,1\n1,2\n")
    assert read(tmp_path, "a.csv", unit="K", mode="add").points[:, 1].tolist() == [1.0, 2.0]
    assert read(tmp_path, "a.csv", unit="K").points[:, 1].tolist() == [274.15, 275.15]
