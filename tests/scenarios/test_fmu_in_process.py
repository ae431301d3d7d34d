"""An FMU takes the master down that runs it in its own process: the bench comes to rest by itself.

Host it, and it takes nobody down but itself.
"""

import json
import os
import signal
import time

import pytest

from hilrt.check.check import check_file
from tests.fmu.build import mass, needs_compiler
from tests.scenarios.sessions import (
    LINUX,
    SHORT_STOP,
    TIMEOUT,
    Listener,
    assert_brought_down,
    assert_fault,
    engine_run,
    engine_session,
    until,
)

pytestmark = [LINUX, needs_compiler]

#: When the FMU's binary fails, session time, s.
LATE = 0.5
#: `fault` of the C FMU.
CRASHES, HANGS = 5, 6
PARAMS = {"x2": 0.0, "v2": 0.0, "F": 0.0}


def extra(fault, hosted):
    """The table of a subsystem that nobody is connected to, as an override."""
    path, params = mass(3, flags=(f"-DLATE={LATE}",)), PARAMS | {"fault": fault}
    if not hosted:
        table = ", ".join(f"{key} = {value}" for key, value in params.items())
        return f'subsystems.extra={{adapter = "fmu", fmu = "{path}", params = {{ {table} }}}}'
    argv = ["hilrt", "solver", str(path)]
    argv += [word for key, value in params.items() for word in ("--param", f"{key}={value}")]
    return f'subsystems.extra={{adapter = "zeromq", spawn = {json.dumps(argv)}}}'


@pytest.mark.parametrize("fault", [CRASHES, HANGS])
def test_in_process_only_the_gateway_is_left(fault, tmp_path):
    with Listener() as listener, engine_run(tmp_path, listener, extra(fault, False)) as run:
        run.until_running()
        until(listener.enable_requested, "the session to drive the bench")
        driven = time.time()
        until(lambda: not listener.enable_requested(), "withdrawal without the master")
        time.sleep(0.2)  # the frames that repeat it
        assert_brought_down(listener, driven)
        if fault == HANGS:
            assert not run.ended()
            os.kill(run.pid, signal.SIGTERM)  # is not even noticed
            time.sleep(0.5)
            assert not run.ended()
            os.kill(run.pid, signal.SIGKILL)
        ended = signal.SIGSEGV if fault == CRASHES else signal.SIGKILL
        assert run.process.wait(TIMEOUT) == -ended
        run.until_nothing_left()


@pytest.mark.parametrize(
    ("fault", "words"), [(CRASHES, ("'extra'", "SIGSEGV")), (HANGS, ("'extra'", "late"))]
)
def test_a_hosted_one_ends_the_session_in_order(fault, words, tmp_path):
    table = extra(fault, True)
    with (
        Listener() as listener,
        engine_run(tmp_path, listener, table, stop_timeout=SHORT_STOP) as run,
    ):
        run.until_running()
        until(listener.enable_requested, "the session to drive the bench")
        driven = time.time()
        assert_fault(run, *words)
        assert_brought_down(listener, driven)


@pytest.mark.parametrize("hosted", [False, True])
def test_check_says_where_to_host_it(hosted, tmp_path):
    file = engine_session(tmp_path)
    told = [
        str(problem)
        for problem in check_file(file, [extra(0, hosted)])
        if problem.table == "subsystems.extra"
    ]
    if hosted:
        assert told == []
        return
    (line,) = told
    assert line.startswith("[subsystems.extra] adapter = 'fmu': its binary runs in the master's")
    assert 'spawn = ["hilrt", "solver"' in line
