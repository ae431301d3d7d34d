"""End of a process with its parent."""

import os
import signal
import subprocess
import sys

import pytest

from hilrt.timing import parent
from tests.timing.test_host import run_python

linux = pytest.mark.skipif(sys.platform != "linux", reason="a Linux call")


@linux
def test_die_with_parent_ends_an_orphan():
    # The middle process starts a sleeper that asks for SIGTERM, then is killed without warning.
    sleeper = (
        "import os, sys, time; from hilrt.timing import parent\n"
        "assert parent.die_with_parent(parent_pid=int(sys.argv[1]))\n"
        "print(os.getpid(), flush=True); time.sleep(20); print('survived')"
    )
    middle = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {sleeper!r}, str(os.getpid())])\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", middle], stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        assert int(top.stdout.readline()) > 0
        os.kill(top.pid, signal.SIGKILL)
        # The sleeper holds the other end of the pipe: it closes when the sleeper has ended.
        assert top.stdout.read() == ""


@linux
def test_die_with_parent_sees_a_parent_that_is_gone():
    done = run_python(
        "from hilrt.timing import parent; parent.die_with_parent(parent_pid=2**22 + 1)"
    )
    assert done.returncode == -signal.SIGTERM


def test_parent_alive():
    assert parent.parent_alive(os.getppid())
    assert not parent.parent_alive(os.getpid())
