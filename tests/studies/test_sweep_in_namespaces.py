"""A sweep on a TLS cluster whose workers have networks of their own: the rows of this machine."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import hilrt
from hilrt import SweepOptions
from tests.namespaces import HEAD, joined_networks, running, tls_settings

TWO_MASS = Path(__file__).resolve().parents[2] / "bench_configs" / "two_mass.toml"
MU = "bonds.spring.correction.mu"
PORT = 8786
LIMIT_S = 120


@pytest.fixture
def networks() -> Iterator[list[str]]:
    with joined_networks() as names:
        yield names


def test_workers_in_networks_of_their_own_give_the_same_rows(networks, tmp_path, monkeypatch):
    vary, short = {MU: [i / 23 for i in range(24)]}, {"session.duration": 0.05}
    here = SweepOptions(workers=1, progress=False)
    own = hilrt.sweep(TWO_MASS, vary, short, out=tmp_path / "own", options=here).frame
    for name, value in tls_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    head = f"tls://{HEAD}:{PORT}"
    worker = ["distributed.cli.dask_worker", head, "--nthreads", "1", "--no-dashboard"]
    scheduler = ["distributed.cli.dask_scheduler", "--host", HEAD, "--port", str(PORT)]
    scheduler += ["--protocol", "tls", "--no-dashboard"]
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
