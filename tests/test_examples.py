"""The site's examples run, and their figures are right."""

import re
import shutil
from math import prod
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy.linalg import expm
from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
from sphinx_gallery.notebook import jupyter_notebook
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


@pytest.fixture
def run(monkeypatch):
    """Run an example in its folder, as its notebook does; return its variables."""

    def run_notebook(name):
        blocks = split_code_and_text_blocks(name)[1]
        cells = jupyter_notebook(blocks, DEFAULT_GALLERY_CONF, str(EXAMPLES))["cells"]
        names = {"__name__": "__main__"}
        for cell in cells:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
        return names

    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(plt, "show", lambda: None)
    with mpl.rc_context({"backend": "agg"}):
        yield run_notebook
        plt.close("all")


def exact_motion(times, mass=400.0, damper=1.5e3):
    """Height and velocity of the wheel, then of the body, m and m/s, shape (n, 4)."""
    tyre, spring = 180e3, 20e3
    a = np.array(
        [
            [0, 1, 0, 0],
            [-(tyre + spring) / 40, -damper / 40, spring / 40, damper / 40],
            [0, 0, 0, 1],
            [spring / mass, damper / mass, -spring / mass, -damper / mass],
        ]
    )
    rest = np.array([0.05, 0.0, 0.05, 0.0])
    return np.array([rest - expm(a * max(t - 0.2, 0.0)) @ rest for t in times])


def test_two_models_move_as_the_whole_system(run):
    example = run("plot_two_models.py")
    assert example["result"].verdict == "good"
    log = example["log"]
    exact = exact_motion(log.t)
    assert log["wheel.x"] == pytest.approx(exact[:, 0], abs=3e-4)
    assert log["body.x"] == pytest.approx(exact[:, 2], abs=3e-5)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, cc")
def test_a_solver_in_c_moves_as_the_model_in_python(run):
    example = run("plot_c_solver.py")
    remote, inside = example["remote"], example["inside"]
    assert (remote.exit_status, remote.summary["verdict"]) == (0, "good")
    assert remote.log["body.x"] == pytest.approx(inside.log["body.x"], abs=1e-14)
    exact = exact_motion(remote.log.t)
    assert remote.log["body.x"] == pytest.approx(exact[:, 2], abs=3e-5)
    peers = remote.summary["peers"]
    assert peers["body"]["dropped"] == 0
    assert peers["body"]["compute_us"]["p50"] < peers["wheel"]["compute_us"]["p50"]


@pytest.mark.real_time
def test_the_emulated_bench_of_a_database_keeps_to_the_limits(run):
    example = run("plot_dbc.py")
    sent, speed, t = example["sent"], example["speed"], example["log"].t
    assert sent.max() == pytest.approx(250.0, abs=0.01)
    assert np.diff(sent).max() <= 150.0 * np.diff(t).max() + 1e-6
    assert np.nanmax(speed) == pytest.approx(250.0, abs=0.02)
    assert example["log"].held("bench.torque")[-1] == pytest.approx(12.5)
    assert "CAN frames" in example["exported"]


@pytest.mark.real_time
def test_a_first_day_stops_the_bench_in_every_way(run):
    example = run("plot_first_day.py")
    assert example["refused"] == 3
    assert example["most"] == pytest.approx(20.0, abs=0.01)
    assert list(example["seen"]) == ["ctrl-c", "kill", "freeze", "bench off"]
    for what in ("ctrl-c", "kill", "freeze"):
        t, speed, enabled = example["seen"][what]
        begin = speed[t <= 0.0][-1]
        assert begin > 35.0
        # No faster than the gateway's 150 rad/s²: the bench itself would do 400.
        assert speed[t > 0.0] == pytest.approx(
            np.maximum(speed[t > 0.0], begin - 150.0 * t[t > 0.0]), abs=3.0
        )
        assert (speed[-1], enabled[-1]) == (pytest.approx(0.0, abs=0.5), 0.0)
    assert example["seen"]["bench off"][0][-1] < 0.2
    # The lag is 40 ms; a set-point waits for up to a cycle of 10 ms.
    assert 0.035 < example["delay"] < 0.12
    late = example["late"]
    assert abs(late["compensated"]) < 0.6 * late["not compensated"]


def test_a_sequence_passes_until_the_damper_is_worn(run):
    example = run("plot_sequence.py")
    assert (example["passed"], example["failed"], example["by_pytest"]) == (0, 1, 0)
    assert "settling time" in example["junit"]
    log = example["logs"]["good"]
    exact = exact_motion(log.t - 0.001)  # what is set at 0.2 s acts from the next point on
    assert log["body.x"] == pytest.approx(exact[:, 2], abs=3e-5)


def test_repetition_finds_the_error_of_fmus(run):
    example = run("plot_fmus.py")
    assert (example["result"].verdict, example["judged"].verdict) == ("degraded", "good")
    assert example["result"].summary["evidence_lacking"]
    late, held, followed, varied = example["rms"].values()
    assert held <= example["force"]["high"]
    assert late > 2.0 * held > 10.0 * followed
    (error,) = re.findall(r"wheel.force: error ([\d.]+)", example["repeated"])
    assert float(error) == pytest.approx(held, rel=0.05)
    assert held == pytest.approx(2.1, abs=0.05)  # the text says so
    first, again = example["result"].log, example["again"]
    assert np.array_equal(again["wheel.force"], first["wheel.force"])  # from an SSP package
    assert np.array_equal(again.t, first.t)
    # The whole system gives the true force; the variable step needs fewer steps.
    wheel_x, wheel_v, body_x, body_v = exact_motion(first.t).T
    force = 20e3 * (wheel_x - body_x) + 1.5e3 * (wheel_v - body_v)
    assert example["exact_force"](first.t) == pytest.approx(force, abs=1e-6)
    assert 2000 == example["steps"]["as it is"] > 1.5 * example["steps"]["variable step"]
    assert held < varied < 1.2 * held


def test_each_order_errs_with_its_power_of_the_step(run):
    example = run("plot_accuracy.py")
    assert example["slopes"] == pytest.approx({0: 1.0, 1: 2.0, 2: 3.0}, abs=0.05)
    assert example["weights"] == {  # of Lagrange's polynomials at 1, nodes at 0, -1, -2
        n: [prod((1 + k) / (k - j) for k in range(n + 1) if k != j) for j in range(n + 1)]
        for n in range(3)
    }


def test_the_model_removes_most_of_the_error(run):
    errors = run("plot_model_correction.py")["errors"]
    assert errors["energy"] < 0.8 * errors["none"]
    assert errors["model"] < 0.05 * errors["energy"]


def test_a_defect_is_what_was_sent_less_what_came(run):
    example = run("plot_defects.py")
    log, defect = example["log"], example["defect"]
    # The kerb acts at 0.2 s: until then the force is 0, and the first force after it a surprise.
    assert (log.t[np.nanargmax(defect > 1.0)], example["fine"].verdict) == (0.22, "good")
    sent = 2.0 * log["wheel.force"][10] - log["wheel.force"][9]  # by the line through the last two
    # It grows linearly over the step, and its RMS is its end over √3.
    assert defect[11] == pytest.approx(abs(sent - log["wheel.force"][11]) / 3**0.5, rel=1e-6)
    assert 0.2 < log.t[example["flag"]][0] < log.t[example["flag"]][-1] < 0.5


def test_a_study_finds_the_damper_that_the_exact_motion_has(run):
    example = run("plot_study.py")
    assert set(example["frame"]["verdict"]) == {"good"}
    exact = [
        np.sqrt(np.mean(exact_motion(example["result"].log.t, damper=damper)[:, 3] ** 2))
        for damper in example["dampers"]
    ]
    assert example["moved"] == pytest.approx(exact, rel=5e-3)
    assert "good" in example["sweep"]._repr_html_()
    assert "<svg" in example["sweep"]._repr_html_()


def test_the_correction_keeps_the_energy(run):
    final = run("plot_energy_correction.py")["final"]
    assert final["none"] > 1.8
    assert final["energy"] == pytest.approx(1.0, abs=0.03)


def test_a_recorded_force_moves_a_body_as_recorded(run):
    example = run("plot_log.py")
    recorded, coupled = example["log"], example["coupled"]
    assert example["same"]["body.x"] == pytest.approx(recorded["body.x"], abs=1e-12)
    # Under a given force the way is inversely proportional to the mass.
    assert example["played"]["body.x"] == pytest.approx(0.8 * recorded["body.x"], abs=1e-12)
    exact = exact_motion(coupled.t, mass=500.0)
    assert coupled["body.x"] == pytest.approx(exact[:, 2], abs=3e-5)


def test_estimated_intervals_contain_the_true_errors(run):
    example = run("plot_verdict.py")
    for truth, estimate in zip(example["truth"], example["estimate"], strict=True):
        assert estimate["low"] < truth < estimate["high"]
        assert estimate["value"] == pytest.approx(truth, rel=0.15)
    probed, closed = example["found"]["probed"], example["found"]["closed"]
    assert probed["how"].startswith("sensitivities")
    assert closed["how"].startswith("gain range")
    assert closed["high"] > 3.0 * probed["high"] > 3.0 * example["truth"][1]
    assert example["result"].verdict == "good"
    assert example["wrong"] > 100.0 * example["claimed"]
    assert example["verdicts"] == ["good"] * 3 + ["degraded"] + ["unreliable"] * 2


def test_every_example_has_a_test():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("plot_*.py") if path.name not in text] == []


def test_every_tutorial_is_run_and_draws_a_picture():
    index = (EXAMPLES.parent / "tutorials" / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", index, flags=re.M)
    assert len(named) >= 8
    silent = [
        name
        for name in named
        if "plt.show()" not in (EXAMPLES.parent / "tutorials" / name).read_text("utf-8")
    ]
    assert silent == []
    assert {Path(name).parent.name for name in named} == {"examples"}  # those have tests, see above
