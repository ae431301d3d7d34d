"""Children with real, tiny processes: they start, are watched, and none is left."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from hilrt.config.read_values import executable
from hilrt.errors import ConfigError
from hilrt.session import spawn
from hilrt.session.child import ForkedProcess, crash_line
from hilrt.session.spawn import Children, Inherited, SolverStart
from tests.processes import ended, state

posix = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
SLEEP = "import time; time.sleep(60)"
LINES = "for i in range(4000): print(i)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('ready', flush=True); time.sleep(60)"
)


def python(code):
    return [sys.executable, "-c", code]


async def until(condition, seconds=20.0):
    """Poll a condition that another process brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


@pytest.fixture
async def children(tmp_path):
    exits = []
    children = Children(tmp_path / "logs", lambda name, code: exits.append((name, code)))
    children.exits = exits
    yield children
    await children.stop(0.0)


async def test_exit_is_reported_once_with_status_and_output(children):
    code = "import sys; print('to stdout'); print('why it failed', file=sys.stderr); sys.exit(3)"
    child = children.start("plant", python(code))
    await until(lambda: children.exits)
    assert children.exits == [("plant", 3)]
    assert child.returncode == 3
    assert child.describe_exit() == "ended with status 3"
    assert child.tail() == "to stdout\nwhy it failed"
    assert child.tail(lines=1) == "why it failed"
    assert child.log == children.log_dir / "plant.log"
    assert await children.stop(1) == []
    assert children.exits == [("plant", 3)]


@linux
async def test_a_child_that_is_told_lines_answers_by_lines(children):
    code = "import sys; print('to the log', file=sys.stderr, flush=True)\n"
    code += "for line in sys.stdin: print(line[::-1].strip(), flush=True)\n"
    code += "print('last')"
    heard = []
    child = children.start("plant", python(code), inherits=Inherited(lines=True))
    child.on_line = heard.append
    child.send_line("live")
    await until(lambda: heard)
    child.send_line("stressed")
    child.process.stdin.close()
    await until(lambda: children.exits)
    assert heard == ["evil", "desserts", "last"]
    assert child.tail() == "to the log"


@linux
async def test_a_child_that_has_ended_is_heard_to_its_last_line(children):
    heard = []
    child = children.start("plant", python(LINES), inherits=Inherited(lines=True))
    child.on_line = heard.append
    child.process.wait(20)  # the event loop sees the end and the lines together
    await until(lambda: children.exits)
    assert heard == [str(i) for i in range(4000)]


@linux
async def test_a_last_line_without_its_end_is_heard(children):
    heard = []
    code = "import sys; sys.stdout.write('one\\ntwo')"
    child = children.start("plant", python(code), inherits=Inherited(lines=True))
    child.on_line = heard.append
    await until(lambda: children.exits)
    assert heard == ["one", "two"]


async def test_a_killed_child_is_described_by_its_signal(children):
    child = children.start("plant", python(SLEEP))
    assert child.describe_exit() == "is running"
    os.kill(child.pid, signal.SIGKILL)
    await until(lambda: children.exits)
    assert child.describe_exit() == "was ended by SIGKILL"


async def test_stop_ends_children_by_sigterm(children):
    for name in ("a", "b", "c"):
        children.start(name, python(SLEEP))
    assert children.running() == ["a", "b", "c"]
    assert await children.stop(20) == []
    assert children.running() == []
    assert sorted(children.exits) == [(name, -signal.SIGTERM) for name in ("a", "b", "c")]


async def test_some_are_stopped_and_others_go_on(children):
    children.start("a", python(SLEEP))
    children.start("b", python(SLEEP))
    assert await children.stop(20, ["a"]) == []
    assert children.running() == ["b"]
    assert await children.wait(0.05) == ["b"]


async def test_a_child_that_ignores_sigterm_is_killed_and_reported(children):
    child = children.start("deaf", python(STUBBORN))
    await until(lambda: child.tail() == "ready")
    (line,) = await children.stop(0.1)
    assert line == "deaf: did not end within 0.1 s of SIGTERM; it was killed"
    assert child.returncode == -signal.SIGKILL


@linux
async def test_a_stopped_child_is_killed_too(children):
    child = children.start("frozen", python(SLEEP))
    os.kill(child.pid, signal.SIGSTOP)
    await until(lambda: state(child.pid) == "T")
    (line,) = await children.stop(0.1)
    assert "it was killed" in line


@linux
async def test_what_a_child_started_ends_with_it(children):
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {SLEEP!r}])\n"
        "print(child.pid, flush=True)"  # and ends, leaving its child behind
    )
    child = children.start("shell", python(code))
    await until(lambda: children.exits)
    orphan = int(child.tail())
    assert not ended(orphan)
    await children.stop(20)
    await until(lambda: ended(orphan))


async def test_cancelling_stop_kills_at_once(children):
    child = children.start("deaf", python(STUBBORN))
    await until(lambda: child.tail() == "ready")
    task = asyncio.create_task(children.stop(3600))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(child.gone)
    assert child.returncode == -signal.SIGKILL


@posix
async def test_each_child_leads_a_group_and_has_no_terminal_input(children):
    code = "import os, sys; print(os.getsid(0), os.getpgrp(), repr(sys.stdin.read()))"
    child = children.start("plant", python(code))
    await until(lambda: children.exits)
    assert child.tail() == f"{child.pid} {child.pid} ''"
    assert child.pid != os.getpgrp()


@linux
async def test_affinity_niceness_environment_and_folder(children, tmp_path):
    cpu = min(os.sched_getaffinity(0))
    code = (
        "import os; print(os.sched_getaffinity(0), os.nice(0), os.environ['HILRT_X'], os.getcwd())"
    )
    children.start(
        "plant", python(code), cwd=tmp_path, affinity=[cpu], nice=5, env={"HILRT_X": "y"}
    )
    await until(lambda: children.exits)
    assert children["plant"].tail() == f"{{{cpu}}} {os.nice(0) + 5} y {tmp_path}"


async def test_a_child_inherits_no_variable_of_hilrt(children, monkeypatch):
    monkeypatch.setenv("HILRT_TOKEN", "of the operators")
    monkeypatch.setenv("HILRT_KEYS", "keys of this process")
    monkeypatch.setenv("TOKEN_OF_ANOTHER", "stays")
    code = "import os; print(*(n for n in sorted(os.environ) if 'HILRT' in n or '_OF_A' in n))"
    children.start("plant", python(code))
    children.start("gateway", python(code), env={"HILRT_KEYS": "its own"})
    await until(lambda: len(children.exits) == 2)
    assert "HILRT" not in children["plant"].tail()
    assert "TOKEN_OF_ANOTHER" in children["plant"].tail()
    assert "HILRT_KEYS" in children["gateway"].tail()
    assert "HILRT_TOKEN" not in children["gateway"].tail()


@linux
async def test_impossible_affinity_is_said_and_the_child_runs(children):
    child = children.start("plant", python("print('runs')"), affinity=[1000])
    await until(lambda: children.exits)
    assert child.returncode == 0
    assert "affinity 1000 is ignored" in child.tail()


async def test_a_name_may_be_started_again(children):
    children.start("plant", python("print(1)"))
    await until(lambda: len(children.exits) == 1)
    second = children.start("plant", python("print(2)"))
    await until(lambda: len(children.exits) == 2)
    assert children["plant"] is second
    assert second.tail() == "1\n2"
    with pytest.raises(KeyError):
        children["other"]


@posix
async def test_a_socket_is_handed_on(children):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = f"import socket; socket.socket(fileno={theirs.fileno()}).send(b'here')"
        children.start("page", python(code), inherits=Inherited(descriptors=(theirs.fileno(),)))
        await until(lambda: children.exits)
        assert ours.recv(4) == b"here"


async def test_output_to_the_terminal_leaves_no_log(children, capfd):
    child = children.start("view", python("print('drawn')"), inherits=Inherited(terminal=True))
    await until(lambda: children.exits)
    assert capfd.readouterr().out == "drawn\n"
    assert child.tail() == ""


async def test_names_that_are_no_file_names(children):
    child = children.start("../../etc/x y", python("print(1)"))
    assert child.log.parent == children.log_dir
    await children.wait(20)


@linux
async def test_ctrl_c_while_a_child_starts_is_for_the_master_alone(children, monkeypatch):
    """A terminal sends it to the master's whole group, which a child leaves a moment too late."""
    held, start = [], subprocess.Popen

    def popen(*args, **kwargs):
        held.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        return start(*args, **kwargs)

    monkeypatch.setattr(subprocess, "Popen", popen)
    children.start("a", python("import signal; signal.raise_signal(signal.SIGINT)"))
    assert signal.SIGINT in held[0]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    await children.wait(20)
    assert children.exits == [("a", -signal.SIGINT)]  # its own it gets


@linux
def test_the_launcher_drops_the_ctrl_c_that_was_held_back():
    command = [sys.executable, "-I", "-S", str(spawn._LAUNCH), "0", "0", "", "0"]
    command += python("import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))")
    pending = (
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);"
        "os.kill(os.getpid(), signal.SIGINT); os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run([*python(pending), *command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "set()", "")


def test_hilrt_is_this_interpreters():
    command = executable("plant", ["hilrt", "solver", "m:C"])
    assert command == [sys.executable, "-P", "-m", "hilrt", "solver", "m:C"]


def test_a_relative_program_starts_from_the_folder(tmp_path):
    program = tmp_path / "bin" / "plant"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert executable("plant", ["bin/plant", "-v"], tmp_path) == [str(program), "-v"]


@pytest.mark.parametrize("argv", [["no-such-program-anywhere", "--x"], ["./missing"], []])
async def test_a_missing_command_names_subsystem_and_command(children, argv, tmp_path):
    with pytest.raises(ConfigError, match=r"\[subsystems\.plant\] spawn") as caught:
        children.start("plant", argv, cwd=tmp_path)
    assert repr(argv) in str(caught.value)
    assert list(children) == []


async def test_a_missing_folder_is_a_config_error(children, tmp_path):
    with pytest.raises(ConfigError, match="missing"):
        children.start("plant", python(SLEEP), cwd=tmp_path / "missing")


MASTER = """
import asyncio, sys
from hilrt.session.spawn import Children

async def main():
    children = Children(sys.argv[1])
    for name in ("solver", "foreign"):
        argv = [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(60)"]
        child = children.start(name, argv if name == "solver" else ["sleep", "60"])
        print(child.pid, flush=True)
    while children["solver"].tail() != "up":
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@linux
async def test_kill_9_of_the_master_leaves_no_child(tmp_path):
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", MASTER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as master:
        assert master.stdout is not None
        pids = [int(master.stdout.readline()) for _ in range(2)]
        assert master.stdout.readline() == "ready\n"
        assert not any(ended(pid) for pid in pids)
        master.kill()
    await until(lambda: all(ended(pid) for pid in pids))


#: Output of programs that crash, as their runtimes write it, and the line that says why.
CRASHES = {
    "Python": (
        'Traceback (most recent call last):\n  File "m.py", line 3, in step\n    1 / 0\n'
        "ZeroDivisionError: division by zero\nsaved 3 files\n",
        "ZeroDivisionError: division by zero",
    ),
    "C++": (
        "terminate called after throwing an instance of 'std::runtime_error'\n"
        "  what():  no such table\nAborted (core dumped)\n",
        "terminate called after throwing an instance of 'std::runtime_error' "
        "what():  no such table",
    ),
    "Rust": (
        "thread 'main' panicked at src/main.rs:4:5:\nno such table\n"
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
        "thread 'main' panicked at src/main.rs:4:5: no such table",
    ),
    "Go": (
        "panic: no such table\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:4 +0x18\n"
        "exit status 2\n",
        "panic: no such table",
    ),
    "Java": (
        'Exception in thread "main" java.lang.RuntimeException: in step 3\n'
        "\tat Plant.step(Plant.java:9)\nCaused by: java.io.IOException: no such table\n"
        "\t... 1 more\n",
        "Caused by: java.io.IOException: no such table",
    ),
    "C#": (
        "Unhandled exception. System.InvalidOperationException: no such table\n"
        "   at Plant.Step() in /x/Plant.cs:line 9\n",
        "Unhandled exception. System.InvalidOperationException: no such table",
    ),
    "JavaScript": (
        "/x/plant.js:2\n  throw new TypeError('no such table')\n  ^\n\nTypeError: no such table\n"
        "    at step (/x/plant.js:2:9)\n\nNode.js v20.1.0\n",
        "TypeError: no such table",
    ),
    "Julia": (
        "ERROR: LoadError: no such table\nStacktrace:\n [1] step()\n   @ Main /x/plant.jl:2\n"
        "in expression starting at /x/plant.jl:5\n",
        "ERROR: LoadError: no such table",
    ),
    "MATLAB": (
        "Error using plant (line 4)\nno such table\n\nError in run (line 9)\n",
        "Error using plant (line 4) no such table",
    ),
    "Fortran": (
        "At line 4 of file plant.f90\nFortran runtime error: no such table\n\n"
        "Error termination. Backtrace:\n#0  0x7f0\n",
        "Fortran runtime error: no such table",
    ),
    "C": ("plant: plant.c:4: step: Assertion `n > 0' failed.\nAborted\n",
          "plant: plant.c:4: step: Assertion `n > 0' failed."),
    "a program of its own": ("reading\nno license\n\n", "no license"),
    "nothing": ("\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("language", CRASHES)
def test_the_line_that_says_why_a_program_crashed(language):
    output, line = CRASHES[language]
    assert crash_line(output) == line


async def test_a_crash_is_found_in_front_of_what_is_said_at_the_end(children):
    """A real traceback, with more output after it."""
    code = "import atexit; atexit.register(print, 'bye'); raise LookupError('no such table')"
    child = children.start("plant", python(code))
    await until(lambda: children.exits)
    assert child.last_words() == "LookupError: no such table"


TELLS = (
    "import json, os, random, signal, sys\n"
    "import numpy as np\n"
    "from hilrt import Port, Sample, Solver\n"
    "class Told(Solver):\n"
    "    outputs = (Port('y'),)\n"
    "    def __init__(self):\n"
    "        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])\n"
    "        told = [os.getppid(), os.getsid(0), os.getcwd(), sorted(os.sched_getaffinity(0))]\n"
    "        told += [os.environ['HILRT_X'], sys.stdin.read(), os.nice(0), len(mask)]\n"
    "        told += [float(np.random.random()), random.random()]\n"
    "        told += [len(os.listdir('/proc/self/fd'))]\n"
    "        print(json.dumps(told), flush=True)\n"
    "        sys.exit('done')\n"
    "    initialize = advance = None\n"
)


def solvers(count, target):
    argv = ["hilrt", "solver", target, "--connect", "tcp://127.0.0.1:1", "--name"]
    return [SolverStart(f"m{i}", [*argv, f"m{i}"], {"HILRT_X": str(i)}) for i in range(count)]


@linux
async def test_many_solvers_are_forked_with_all_that_a_started_one_has(children, tmp_path):
    (tmp_path / "told.py").write_text(TELLS)
    cpu = min(os.sched_getaffinity(0))
    for count in (1, spawn.MANY):  # one by one, and forked
        (tmp_path / "logs").mkdir(exist_ok=True)
        await children.start_solvers(solvers(count, "told:Told"), cwd=tmp_path, affinity=[cpu])
        await until(lambda count=count: len(children.exits) == count)
        found = [json.loads(child.tail().splitlines()[0]) for child in children]
        for i, (child, told) in enumerate(zip(children, found, strict=True)):
            assert told[:2] == [os.getpid(), child.pid]
            assert told[2:6] == [str(tmp_path), [cpu], str(i), ""]
            assert "done" in child.tail()
            assert child.returncode == children["m0"].returncode != 0
        if count == 1:
            alone = found[0]
            children.exits.clear()
            children._children.clear()
            (tmp_path / "logs" / "m0.log").unlink()
    assert all(told[6:8] == alone[6:8] and told[10] == alone[10] for told in found)
    assert len({told[8] for told in found}) == len({told[9] for told in found}) == spawn.MANY


@linux
async def test_forked_solvers_are_stopped_and_described_like_started_ones(children, tmp_path):
    (tmp_path / "slow.py").write_text("import time\nprint('loaded', flush=True)\ntime.sleep(60)\n")
    await children.start_solvers(solvers(spawn.MANY, "slow:Slow"), cwd=tmp_path)
    await until(lambda: all(child.tail() == "loaded" for child in children))
    os.kill(children["m3"].pid, signal.SIGKILL)
    await until(lambda: children.exits)
    assert children.exits == [("m3", -signal.SIGKILL)]
    assert children["m3"].describe_exit() == "was ended by SIGKILL"
    assert await children.stop(20) == []
    assert children.running() == []


@linux
def test_forked_solvers_end_with_the_session_that_is_killed(tmp_path):
    (tmp_path / "slow.py").write_text("import time\nprint('loaded', flush=True)\ntime.sleep(60)\n")
    code = (
        "import asyncio, sys\n"
        "from hilrt.session.spawn import MANY, Children, SolverStart\n"
        "async def main():\n"
        "    children = Children('logs')\n"
        "    argv = ['hilrt', 'solver', 'slow:Slow', '--connect', 'tcp://127.0.0.1:1']\n"
        "    many = [SolverStart(f'm{i}', argv, {}) for i in range(MANY)]\n"
        "    await children.start_solvers(many, '.')\n"
        "    print(*(child.pid for child in children), flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    master = subprocess.Popen(python(code), cwd=tmp_path, stdout=subprocess.PIPE)
    pids = [int(pid) for pid in master.stdout.readline().split()]
    assert len(pids) == spawn.MANY
    master.kill()
    master.wait()
    master.stdout.close()
    asyncio.run(until(lambda: all(ended(pid) for pid in pids)))


@linux
async def test_a_forking_process_that_hangs_is_given_up(children, monkeypatch):
    def hanging(cwd, cpus, log):
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        return subprocess.Popen(sleep, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(spawn, "_start_forking", hanging)
    monkeypatch.setattr(spawn, "FORK_TIMEOUT_S", 0.1)
    assert await children._forked(solvers(2, "told:Told"), None, ()) == []


@linux
async def test_a_forked_process_that_keeps_the_output_open_does_not_hold_the_session_up(
    children, monkeypatch, tmp_path
):
    ready = tmp_path / "ready"
    code = (
        "import os, sys, time\n"
        "if pid := os.fork():\n"
        "    os.write(1, b'[%d]' % pid)\n"
        "    open(sys.argv[1], 'w').write(str(pid))\n"
        "    os.rename(sys.argv[1], sys.argv[2])\n"
        "time.sleep(600)\n"
    )

    def hanging(cwd, cpus, log):
        argv = [*python(code), str(tmp_path / "new"), str(ready)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        while not ready.exists():
            time.sleep(0.01)
        return process

    monkeypatch.setattr(spawn, "_start_forking", hanging)
    monkeypatch.setattr(spawn, "FORK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(spawn, "KILL_TIMEOUT_S", 0.1)
    assert await children._forked(solvers(1, "told:Told"), None, ()) == []
    pid = int(ready.read_text())
    await until(lambda: ended(pid))


@linux
async def test_processes_of_an_incomplete_fork_are_killed_and_collected(children, monkeypatch):
    pids = []

    def failing(cwd, cpus, log):
        code = (
            "import os, sys, time\n"
            "if pid := os.fork():\n"
            "    os.write(1, b'[%d]' % pid)\n"
            "    sys.exit(1)\n"
            "os.close(1)\n"
            "time.sleep(600)\n"
        )
        return subprocess.Popen(python(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def noted(process, request):
        found = forked_pids(process, request)
        pids.extend(found[0])
        return found

    forked_pids = spawn._forked_pids
    monkeypatch.setattr(spawn, "_start_forking", failing)
    monkeypatch.setattr(spawn, "_forked_pids", noted)
    assert await children._forked(solvers(1, "told:Told"), None, ()) == []
    (pid,) = pids
    assert state(pid) == "X"  # not a zombie


def test_a_collected_process_gets_no_signals(monkeypatch):
    process = subprocess.Popen([sys.executable, "-c", ""])
    forked = ForkedProcess(process.pid)
    while forked.poll() is None:
        time.sleep(0.01)
    sent = []
    monkeypatch.setattr(os, "kill", lambda *args: sent.append(args))
    forked.terminate()
    forked.kill()
    assert not sent
    process.returncode = 0


async def test_solvers_are_started_one_by_one_where_they_cannot_be_forked(children, monkeypatch):
    monkeypatch.setattr(spawn, "launched", lambda command, cpus, nice: ["false"])
    assert await children._forked(solvers(2, "told:Told"), None, ()) == []
    monkeypatch.undo()
    monkeypatch.setattr(spawn.Children, "_forked", no_pids)
    await children.start_solvers(solvers(spawn.MANY, "nowhere:Model"))
    await until(lambda: len(children.exits) == spawn.MANY)
    assert all(code == 2 for _, code in children.exits)


async def no_pids(self, solvers, cwd, cpus):
    return []


@linux
async def test_an_interrupted_fork_leaves_no_process(children, tmp_path):
    (tmp_path / "slow.py").write_text("import time\nprint('loaded', flush=True)\ntime.sleep(60)\n")
    task = asyncio.create_task(children.start_solvers(solvers(spawn.MANY, "slow:Slow"), tmp_path))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(children) == []
    assert not any(path.stat().st_size for path in children.log_dir.glob("m*.log"))
