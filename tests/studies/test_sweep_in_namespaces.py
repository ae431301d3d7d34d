"""A sweep on a cluster whose workers have networks of their own: the rows of this machine alone."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import hilrt
from hilrt import SweepOptions

TWO_MASS = Path(__file__).resolve().parents[2] / "bench_configs" / "two_mass.toml"
MU = "bonds.spring.correction.mu"
HEAD, PORT = "10.231.77.1", 8786
LIMIT_S = 120


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=10)
    if done.returncode:
        raise OSError(done.stderr.strip())


@pytest.fixture
def networks() -> Iterator[list[str]]:
    """A namespace for the scheduler, and two for workers, joined by a bridge in the first."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        pytest.skip("needs Linux and the command ip")
    names = [f"hilrt{os.getpid()}{kind}" for kind in "abc"]
    with contextlib.ExitStack() as undo:
        try:
            for name in names:
                ip("netns", "add", name)
                undo.callback(ip, "netns", "delete", name)
                ip("-n", name, "link", "set", "lo", "up")
            ip("-n", names[0], "link", "add", "br0", "type", "bridge")
            ip("-n", names[0], "addr", "add", f"{HEAD}/24", "dev", "br0")
            ip("-n", names[0], "link", "set", "br0", "up")
            for number, name in enumerate(names[1:], 2):
                near = f"near{number}"
                ip("-n", names[0], *f"link add {near} type veth peer far netns {name}".split())
                ip("-n", names[0], "link", "set", near, "master", "br0", "up")
                ip("-n", name, "addr", "add", f"10.231.77.{number}/24", "dev", "far")
                ip("-n", name, "link", "set", "far", "up")
        except OSError as error:
            pytest.skip(f"network namespaces are not permitted here: {error}")
        yield names


@contextlib.contextmanager
def running(name: str, *command: str, folder: Path) -> Iterator[None]:
    """A process in a namespace, ended with the block."""
    with (folder / f"{name}.txt").open("w") as log:
        process = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-m", *command], stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def test_workers_in_networks_of_their_own_give_the_same_rows(networks, tmp_path):
    vary, short = {MU: [i / 23 for i in range(24)]}, {"session.duration": 0.05}
    here = SweepOptions(workers=1, progress=False)
    own = hilrt.sweep(TWO_MASS, vary, short, out=tmp_path / "own", options=here).frame
    head = f"tcp://{HEAD}:{PORT}"
    worker = ["distributed.cli.dask_worker", head, "--nthreads", "1", "--no-dashboard"]
    scheduler = ["distributed.cli.dask_scheduler", "--host", HEAD, "--port", str(PORT)]
    with contextlib.ExitStack() as cluster:
        for name, command in zip(networks, [scheduler, worker, worker], strict=True):
            cluster.enter_context(running(name, *command, folder=tmp_path))
        values = ",".join(repr(value) for value in vary[MU])
        sweep = ["ip", "netns", "exec", networks[0], sys.executable, "-m", "hilrt", "sweep"]
        sweep += [str(TWO_MASS), "--vary", f"{MU}={values}", "--set", "session.duration=0.05"]
        sweep += ["--cluster", head, "--out", str(tmp_path / "there"), "--quiet"]
        done = subprocess.run(sweep, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    there = hilrt.load_sweep(tmp_path / "there")
    times = ["wall_s", "case_s", "cost"]
    pd.testing.assert_frame_equal(
        there.drop(columns=times), own.drop(columns=times), check_exact=True
    )
