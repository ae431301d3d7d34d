"""The commands on logs: what they print, and that bad input is exit status 2 and one line."""

import json
from pathlib import Path

import pytest

from hilrt.cli import main as cli
from hilrt.record.logged_frame import LoggedFrame
from hilrt.record.reader import load_log
from tests.logs.made import frame_log, session_log, some_frames

FRAMES = some_frames(3000)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(lambda: cli.app([str(a) for a in arguments]))
    out, err = capsys.readouterr()
    code = ended.value.code
    return (0 if code is None else int(code)), out, err


def test_look_into_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session_log(tmp_path, 300)
    code, out, _ = call(capsys, "log", "info", tmp_path)  # the run's folder
    assert code == 0
    assert "session      drive" in out
    code, out, _ = call(capsys, "log", "info", tmp_path, "--json")
    assert json.loads(out)["topics"][0]["name"] == "outputs"
    code, out, _ = call(capsys, "log", "ls", tmp_path, "*.speed")
    assert out == "engine.speed\trad/s\toutputs\n"
    arguments = ("--from", 0.1, "--every", 10, "--head", 2)
    code, out, _ = call(capsys, "log", "cat", tmp_path, "engine.torque", *arguments)
    assert [line.partition(",")[0] for line in out.splitlines()] == [
        "time [s]",
        "0.100000000",
        "0.110000000",
    ]
    code, out, _ = call(capsys, "log", "cat", tmp_path, "--events", "--from", 1)
    assert json.loads(out)["cause"] == "alarm"


def test_frames_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = some_frames(3)
    code, out, _ = call(capsys, "log", "cat", frame_log(tmp_path / "a.mcap", frames), "--frames")
    assert code == 0
    first, second, third = out.splitlines()
    assert first.startswith(f"0.000000000 0 {frames[0].identifier:03X} [{frames[0].dlc}]")
    assert f" {frames[1].identifier:08X} " in second
    assert third.endswith("sent")


def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = session_log(tmp_path, 300)
    code, out, _ = call(capsys, "export", log, "--to", "csv", "--signal", "engine.*")
    assert (code, out) == (0, f"300 rows of 2 signals in {tmp_path / 'session.csv'}\n")
    back = tmp_path / "back.mcap"
    code, out, _ = call(capsys, "import", tmp_path / "session.csv", "--out", back)
    assert (code, out) == (0, f"300 rows of 2 signals in {back}\n")
    code, out, _ = call(capsys, "log", "cut", back, "--until", 0.1, "--out", tmp_path / "p.mcap")
    assert (code, out) == (0, f"101 messages in {tmp_path / 'p.mcap'}\n")
    code, out, _ = call(capsys, "log", "merge", back, log, "--out", tmp_path / "m.mcap")
    assert code == 0


def test_an_import_with_a_database_for_each_bus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signal = ' SG_ Speed : 0|8@1+ (1,0) [0|0] "" A\n'
    for name in ("One", "Two"):
        text = f'VERSION ""\nBU_: A\nBO_ 256 {name}: 1 A\n{signal}'
        (tmp_path / f"{name}.dbc").write_text(text)
    sent = [(256, "0"), (256, "1"), (256, "1"), (300, "1")]
    frames = [LoggedFrame(1000 * i, bus, k, 0, 1, b"\x05") for i, (k, bus) in enumerate(sent)]
    log = frame_log(tmp_path / "raw.mcap", frames)
    databases = [f"--database={i}={tmp_path / name}.dbc" for i, name in enumerate(("One", "Two"))]
    code, out, _ = call(capsys, "import", log, "--out", tmp_path / "new.mcap", *databases)
    assert code == 0
    assert out.startswith("3 rows of 2 signals and 4 CAN frames (1 unknown to the database) in ")
    code, out, _ = call(capsys, "log", "cat", log, *databases)
    assert out.splitlines()[0] == "time [s],One.Speed,Two.Speed"
    wrong = f"--database=9={tmp_path / 'One'}.dbc"
    code, _, err = call(capsys, "export", log, "--to", "csv", wrong)
    assert code == 2
    assert "has none of the requested data; there is no frame on bus '9'" in err
    assert not (tmp_path / "raw.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["log", "info", "none"], "there is no log"),
        (["log", "info", "text.mcap"], "is not an MCAP file"),
        (["log", "ls", "session.mcap", "engin.torque"], "did you mean 'engine.torque'"),
        (["log", "cat", "session.mcap", "x*"], "no signal 'x*'"),
        (["log", "cut", "session.mcap", "--out", "session.mcap"], "exists already"),
        (["export", "session.mcap", "--to", "xls"], "is not a format; there is mf4"),
        (["import", "none.blf", "--out", "x.mcap"], "there is no such file"),
        (["import", "session.mcap", "--out", "new"], "a log's name ends in .mcap"),
        (["export", "session.mcap", "--to", "csv", "--from", "99"], "none of the requested data"),
        (["play", "session.mcap", "--bus", "virtual"], "write it as interface=…"),
        (["play", "session.mcap", "--bus", "interface=virtual"], "no CAN frames to play"),
        (["play", "session.mcap", "--bus", "interface=virtual", "--id", "x"], "write it as 0x123"),
        (["play", "session.mcap", "--bus", "interface=virtual", "--speed", "0"], "positive"),
        (["report", "none"], "there is no log"),
        (["compare", "session.mcap", "text.mcap"], "is not an MCAP file"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    session_log(tmp_path, 20)
    (tmp_path / "text.mcap").write_text("hello")
    code, _, err = call(capsys, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_every_command_says_that_a_log_was_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    rows, frames = session_log(tmp_path / "rows", 3000), frame_log(tmp_path / "f.mcap", FRAMES)
    for log in (rows, frames):
        log.write_bytes(log.read_bytes()[: log.stat().st_size * 3 // 4])
    out = tmp_path / "out"
    for arguments in (
        ("log", "info", rows),
        ("log", "ls", rows),
        ("log", "cat", rows),
        ("log", "cat", rows, "--events"),
        ("log", "cat", frames, "--frames"),
        ("log", "cut", rows, "--out", out / "cut.mcap"),
        ("log", "merge", rows, rows, "--out", out / "merged.mcap", "--shift", 0, "--shift", 9),
        ("export", rows, "--to", "csv", "--out", out / "a.csv"),
        ("export", frames, "--to", "log", "--out", out / "a.log"),
        ("report", rows, "--out", out / "report.html"),
        ("report", rows, "--json"),
        ("compare", rows, rows, "--out", out / "compared.html"),
    ):
        out.mkdir(exist_ok=True)
        code, said, err = call(capsys, *arguments)
        assert code == 0, err
        assert "truncated after" in (said if arguments[1] == "info" else err), arguments
    assert load_log(rows).truncated
    assert "is incomplete: truncated after" in caplog.text


def test_of_several_runs_the_newest_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [tmp_path / f"drive-2026010{day}-100000" for day in (1, 2, 3)]
    for folder, rows in zip(runs, (100, 300, 200), strict=True):
        session_log(folder, rows)
    for given in ([tmp_path / "drive-*"], runs, runs[::-1]):
        code, out, err = call(capsys, "log", "ls", *given, "*.speed")
        assert (code, out) == (0, "engine.speed\trad/s\toutputs\n")
        assert err == f"newest: {runs[2] / 'session.mcap'}\n"
        out_file = tmp_path / "a.csv"
        code, out, _ = call(capsys, "export", *given, "--to", "csv", "--out", out_file, "--force")
        assert out.startswith("200 rows")
    code, _, err = call(capsys, "compare", *runs)
    assert (code, "needs two logs, not 3" in err) == (2, True)
