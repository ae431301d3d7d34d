"""Order control beside fixed orders, and the safety factor, on the long chain (reduced)."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench_configs.long_chain import session
from hilrt import RunOptions, load_log, run_session
from tools.papers import long_chain, orders, safety

SIZE = {"segments": 4, "masses": 16, "duration": 3e-4}


@pytest.mark.parametrize(
    ("estimator", "share"),
    [
        ("ExLocal", 0.9),
        ("ExMilne", 0.9),
        ("ExSLocal", 0.7),
        ("ImMilne", 1.1),  # the paper's exception: degree 2 needs slightly fewer steps
        ("ImSLocal", 0.95),
    ],
)
def test_order_control_needs_the_fewest_steps(estimator: str, share: float) -> None:
    """Figs 24 to 28; the best two fixed degrees of all are 1 and 2."""
    fixed = [orders.run(estimator, 1e-3, order, **SIZE) for order in (1, 2)]
    varied = orders.run(estimator, 1e-3, None, **SIZE)
    assert not varied["fault"]
    assert varied["steps"] < share * min(one["steps"] for one in fixed)
    assert varied["error"] < 0.02


@pytest.mark.parametrize("estimator", ["ExSLocal", "ImSLocal"])
def test_estimators_of_inputs_perform_badly_with_degree_0(estimator: str) -> None:
    """Figs 26 and 28, over a sixth of the time of the others: held forces jump."""
    zero, one = (orders.run(estimator, 1e-3, k, **SIZE | {"duration": 5e-5}) for k in (0, 1))
    assert not zero["fault"]
    assert zero["steps"] > 5 * one["steps"]


@pytest.mark.parametrize("scheme", ["explicit", "implicit"])
def test_a_larger_safety_factor_saves_repetitions(scheme: str) -> None:
    """Section 6.5; it also shortens the steps."""
    size = {"segments": 4, "masses": 40, "duration": 2e-3}
    one, four = (safety.run(scheme, factor, **size) for factor in (1.0, 4.0))
    assert one["refused"] > 0.1 * one["steps"]
    assert four["refused"] < 0.3 * one["refused"]
    assert four["steps"] > one["steps"]


@pytest.mark.parametrize("case", ["d=1e4:explicit", "m=5e-3:implicit"])
def test_an_interrupted_run_of_the_whole_chain_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """In two calls, each to a later time, with the monolithic solution carried on, too."""
    size = ["--segments", "4", "--masses", "16", "--case", case, "--out", str(tmp_path)]
    for until in ("5e-5", "2e-4"):
        monkeypatch.setattr("sys.argv", ["long_chain", *size, "--piece", "5e-5", "--until", until])
        long_chain.main()
    lines = capsys.readouterr().out.splitlines()
    times = [0.0, *(float(line.split()[1]) for line in lines)]
    assert len(times) == 5
    assert all(5e-5 <= took < 6e-5 for took in np.diff(times).round(9))  # and the rest of a step
    counts = [int(line.split(" integrations")[0].split()[-1].replace(",", "")) for line in lines]
    assert counts == sorted({*counts})
    assert float(lines[-1].split()[-1]) < 3e-3


@pytest.mark.parametrize("scheme", ["explicit", "implicit"])
def test_the_cost_of_a_macro_step_is_split(scheme: str) -> None:
    """Figs 29 to 34: only the implicit scheme pays for the interface Jacobian."""
    argv = [sys.executable, "-m", "tools.papers.step_costs", "--one", scheme, "3", "--span", "5e-7"]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("steps") * found.pop("step_us") == pytest.approx(0.5)
    assert (found.pop("jacobian_ms") > 0.0) == (scheme == "implicit")
    assert min(found.values()) > 0.0


def test_two_hosts_move_the_chain_as_one_process(tmp_path: Path) -> None:
    """Without repeated steps, in two processes and in this one: the same samples."""
    ends = []
    for hosts in (0, 2):
        builder = session(4, 16, duration=2e-6, hosts=hosts, displacement=1e-6)
        builder.set(
            "master", step_control={"method": "local", "rtol": 1e-3, "atol": {"*.f_*": 0.1}}
        )
        file = tmp_path / "session.toml"
        file.write_text(builder.text(), encoding="utf-8")
        result = run_session(file, options=RunOptions(folder=tmp_path / str(hosts)))
        assert not result.fault
        log = load_log(result.folder)
        ends.append([log[f"s{i}.x_first"][-1] for i in range(4)])
    np.testing.assert_array_equal(*ends)
    assert np.ptp(ends[0]) > 0.0
