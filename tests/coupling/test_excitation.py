"""A stimulus on the inputs lets a linear loop be identified that is not identifiable by itself."""

from pathlib import Path

import pytest

from hilrt.session.simulate import simulate
from tools.benchmarks.bench_identification import session_text

FILE = Path(__file__).parents[2] / "bench_configs" / "two_mass_model.toml"
#: Of the stimuli, beside inputs of some 0.5 m and 200 m/s.
AMPLITUDES = {"mass1.force": 1e3, "mass2.s": 5e-3, "mass2.v": 2.0}


@pytest.mark.parametrize(("excited", "least", "most"), [(False, 0.49, 0.5), (True, 0.0, 0.1)])
def test_stimuli_serve_as_excitation(
    excited: bool, least: float, most: float, tmp_path: Path
) -> None:
    text = FILE.read_text().replace('source = "solver"', 'source = "identify"')
    for k, (name, amplitude) in enumerate(AMPLITUDES.items() if excited else ()):
        text += f"""
[[stimuli]]
name = "prbs{k}"
input = "{name}"
segments = [{{ shape = "prbs", amplitude = {amplitude}, bits = 13, interval = 8e-4, seed = {k} }}]
"""
    path = tmp_path / "excited.toml"
    path.write_text(text)
    learning, unexcited = untrusted(path)
    assert learning <= 0.1
    assert least <= learning + unexcited
    assert (learning + unexcited if excited else unexcited) <= most + 1e-9


def test_so_does_a_test_sequence_that_drives_them(tmp_path: Path) -> None:
    path = tmp_path / "driven.toml"
    path.write_text(session_text(0.0, "sequence", 0.1))
    assert sum(untrusted(path)) <= 0.1


def untrusted(path: Path) -> tuple[float, float]:
    """For how long of 0.5 s outputs were not trusted: for other reasons, and by lack of motion."""
    flags = simulate(path, {"session.duration": 0.5}, record=False).summary["flags"]
    return flags["model_untrusted"]["affected_s"], flags["model_unexcited"]["affected_s"]
