"""Streams that are closed, have lost their reader, or are not read: nothing waits for them long."""

import contextlib
import io
import os
import subprocess
import sys

import pytest

from hilrt.monitor import output
from hilrt.monitor.output import PatientFile

posix = pytest.mark.skipif(os.name != "posix", reason="pipes that are full, and poll")


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    for one in (read, write):
        with contextlib.suppress(OSError):  # a test has closed it
            os.close(one)


def fill(write):
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, bytes(512))
    os.set_blocking(write, True)


@posix
def test_all_that_is_read_arrives(pipe):
    read, write = pipe
    text = io.TextIOWrapper(io.BufferedWriter(PatientFile(write, 10.0)), encoding="utf-8")
    text.write("a line\n")
    text.flush()
    assert os.read(read, 100) == b"a line\n"


@posix
def test_what_nobody_reads_is_dropped_and_counted_until_there_is_room_again(pipe):
    read, write = pipe
    fill(write)
    raw = PatientFile(write, 0.01)
    assert raw.write(b"dropped") == 7
    raw._patience_s = 1e6  # from then on nothing waits
    assert raw.write(b"dropped, too") == 12
    assert raw.dropped == 19
    os.set_blocking(read, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.read(read, 1 << 16)
    raw.write(b"there is room")
    assert os.read(read, 100) == b"there is room"
    assert (raw.dropped, raw.gone) == (19, False)


@posix
def test_more_than_a_pipe_takes_is_cut_rather_than_waited_for(pipe):
    raw = PatientFile(pipe[1], 0.01)
    assert raw.write(bytes(1 << 22)) == 1 << 22
    assert 0 < raw.dropped < 1 << 22


@posix
def test_a_reader_that_has_gone_is_no_error(pipe):
    read, write = pipe
    os.close(read)
    raw = PatientFile(write, 10.0)
    for _ in range(2):
        assert raw.write(b"lost") == 4
    assert (raw.dropped, raw.gone) == (8, True)


def test_streams_that_somebody_else_has_taken_stay(capsys):
    before = sys.stdout, sys.stderr
    assert output.be_patient() == []
    assert (sys.stdout, sys.stderr) == before


PROGRAM = """
import os
from hilrt.monitor.output import be_patient, open_closed_streams
open_closed_streams()
be_patient()
with open(os.environ["ANSWER"], "w") as file:
    assert file.fileno() > 2
    print("to stdout", flush=True)
    print("done", file=file)
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "print(1)"], check=True)
"""


@posix
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_the_null_device(closed, tmp_path):
    answer = tmp_path / "answer"
    command = f'exec "$0" -c "$1" {closed}'
    run = subprocess.run(
        ["sh", "-c", command, sys.executable, PROGRAM],
        env=os.environ | {"ANSWER": str(answer)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert answer.read_text() == "done\n"
    assert run.stdout == ("" if ">&- " in f"{closed} " and closed != "2>&-" else "to stdout\n1\n")
