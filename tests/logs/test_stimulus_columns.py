"""Columns of stimuli, from files that other libraries write, against what these read of them."""

import numpy as np
import pytest

from hilrt.config.session_tables import Stimulus, StimulusSegment
from hilrt.errors import ConfigError
from hilrt.logs.import_file import LogWriter
from hilrt.logs.stimulus_columns import check_column, read_column
from hilrt.record.messages import Signal
from hilrt.record.reader import Block, LogChannel

T = np.array([0.0, 0.5, 1.0, 2.0])
SPEED = np.array([600.0, 1200.0, 900.0, 3000.0])


def read(folder, name, unit="rad/s", mode="replace", step=0.1, **keys):
    segment = StimulusSegment(shape="column", file=name, signal="speed", **keys)
    stimulus = Stimulus(name="s", input="a.b", segments=[segment], mode=mode)
    return read_column(segment, stimulus, unit, folder, step, "[stimuli.s]")


def check(folder, name, unit="rad/s", **keys):
    segment = StimulusSegment(shape="column", file=name, signal="speed", **keys)
    stimulus = Stimulus(name="s", input="a.b", segments=[segment])
    check_column(segment, stimulus, unit, folder, "[stimuli.s]")


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


@pytest.mark.parametrize("interpolation", ["linear", "hold"])
def test_an_mcap_file_as_numpy_interpolates_it(tmp_path, interpolation):
    rng = np.random.default_rng(4)
    t_ns = np.cumsum(rng.integers(1_000_000, 40_000_000, 200))
    values = rng.normal(size=(200, 2))
    values[rng.random(200) < 0.1, 1] = np.nan
    writer = LogWriter(tmp_path / "a.mcap", "drive", 1_780_000_000_000_000_000)
    writer.block(Block(LogChannel("t", [Signal("other"), Signal("speed", "rpm")]), t_ns, values))
    writer.close()
    shift = -0.5 * (t_ns[3] + t_ns[4]) * 1e-9
    found = read(tmp_path, "a.mcap", shift=shift, step=0.01, interpolation=interpolation)
    known = np.isfinite(values[:, 1])
    t, speed = t_ns[known] * 1e-9 + shift, values[known, 1] * np.pi / 30.0
    ticks = np.arange(0.0, t[-1], 0.01)
    at_ticks = np.interp(ticks, *found.points.T)
    np.testing.assert_allclose(at_ticks, np.interp(ticks, t, speed), rtol=0, atol=1e-13)
    between = "straight lines" if interpolation == "linear" else "the last value"
    assert f"read at every step by {between} between rows" in found.note


def test_a_check_reads_no_further_than_to_the_first_value(tmp_path):
    rows = [f"{k * 0.001:.3f},{k}" for k in range(200_000)]
    rows[-1] = "oops,1"
    (tmp_path / "a.csv").write_text("\n".join(["time [s],speed [rpm]", *rows]))
    check(tmp_path, "a.csv")
    check(tmp_path, "a.csv", shift=-60.0)
    with pytest.raises(ConfigError, match="line 200001: time = 'oops'"):
        read(tmp_path, "a.csv")
    with pytest.raises(ConfigError, match="line 200001"):
        check(tmp_path, "a.csv", shift=-300.0)
    (tmp_path / "b.csv").write_text("time [s],speed [rpm]\n0,1\n1,\n")
    with pytest.raises(ConfigError, match="no values after the start"):
        check(tmp_path, "b.csv")
    with pytest.raises(ConfigError, match="unit"):
        check(tmp_path, "a.csv", unit="N*m")


def test_times_are_shifted_and_the_value_at_the_beginning_is_between_rows(tmp_path):
    rows = "\n".join(["time [s],speed [rpm]", "0,600", "0.5,1200", "0.5,1300", "0.7,", "1,900"])
    (tmp_path / "a.csv").write_text(rows)
    found = read(tmp_path, "a.csv", unit="rpm", shift=-0.25)
    np.testing.assert_allclose(found.points, [[0.0, 950.0], [0.25, 1300.0], [0.75, 900.0]])
    with pytest.raises(ConfigError, match="no values after the start"):
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
