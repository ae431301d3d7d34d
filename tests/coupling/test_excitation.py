"""A stimulus on the inputs lets a linear loop be identified that is not identifiable by itself."""

from pathlib import Path

import pytest

from hilrt.session.simulate import simulate

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
    summary = simulate(path, {"session.duration": 0.5}, record=False).summary
    untrusted = summary["flags"]["model_untrusted"]["affected_s"]
    assert least <= untrusted <= most + 1e-9
