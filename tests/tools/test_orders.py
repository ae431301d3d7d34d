"""Order control beside fixed orders, and the safety factor, on the long chain (reduced)."""

from pathlib import Path

import numpy as np
import pytest

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
