"""Identification under noise: the share of the time for which its Jacobians are in use.

    python -m tools.benchmarks.bench_identification [--json]

Runs `bench_configs/two_mass_model.toml` for 1 s with ``source = "identify"`` on both sides, white
noise on every output, and nothing, dither or stimuli as excitation; prints the table of
docs/methods.md, "Model-based correction". A Jacobian is in use where the output that was used
differs from the one that was measured.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from hilrt import Port, Sequence
from hilrt.models.linear import Linear
from hilrt.session.simulate import simulate
from hilrt.solver import InputPolynomial, Sample

ROOT = Path(__file__).parents[2]
SESSION = ROOT / "bench_configs" / "two_mass_model.toml"
#: RMS of the outputs without excitation; noise and amplitudes are shares of it.
RMS = {"mass1": (0.111, 38.9), "mass2": (4.27e4, 0.0569, 56.9)}
INPUTS = {"mass1.force": 4.27e4, "mass2.s": 0.111, "mass2.v": 38.9}
SHOWN = {"mass2.force": 4.27e4, "mass1.v": 38.9, "mass1.s": 0.111}
#: Differences below that share of the RMS are rounding.
ROUNDING = 1e-9
CASES: tuple[tuple[float, str, float], ...] = (
    (0.0, "none", 0.0),
    (1e-4, "dither", 1e-3),
    (1e-3, "none", 0.0),
    (1e-3, "dither", 1e-3),
    (1e-3, "dither", 1e-2),
    (1e-3, "stimuli", 0.1),
    (1e-3, "dither", 0.1),
)


class Noisy(Linear):
    """`Linear` with white noise on its outputs; the generator is no part of the saved state."""

    def __init__(self, noise: list[float], seed: int, **matrices: Any) -> None:
        super().__init__(**matrices)
        self._noise, self._random = np.array(noise), np.random.default_rng(seed)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """The exact step, measured with noise."""
        sample = super().advance(t, h, u)
        sample.y = sample.y + self._noise * self._random.normal(size=len(sample.y))
        return sample


class Shake(Sequence):
    """Adds random steps to the inputs of both masses."""

    reads = ("mass1.s",)
    drives = (Port("force", "N"), Port("s", "m"), Port("v", "m/s"))

    def __init__(self, amplitudes: list[float], hold: float) -> None:
        self.amplitudes, self.hold = amplitudes, hold

    async def run(self, bench: Any) -> None:
        """Until the session ends."""
        random = np.random.default_rng(1)
        while True:
            for port, size in zip(self.drives, self.amplitudes, strict=True):
                await bench.step(port.name, to=size * random.choice((-1.0, 1.0)))
            await bench.wait(self.hold)


def session_text(noise: float, excitation: str, amount: float) -> str:
    """The session file of a case."""
    text = SESSION.read_text().replace('source = "solver"', 'source = "identify"')
    if excitation == "dither":
        text = text.replace('"identify"', f'"identify", dither = {amount}')
    text = text.replace("hilrt.models.linear:Linear", f"{__name__}:Noisy")
    text = text.replace('adapter = "inprocess"', f'adapter = "inprocess"\npath = "{ROOT}"')
    for seed, (name, sizes) in enumerate(RMS.items()):
        own = f"noise = {[noise * size for size in sizes]}\nseed = {seed}\n"
        text = text.replace(f"[subsystems.{name}.params]\n", f"[subsystems.{name}.params]\n{own}")
    if excitation == "stimuli":
        for k, (name, size) in enumerate(INPUTS.items()):
            shape = f"amplitude = {amount * size}, bits = 13, interval = 8e-4, seed = {k}"
            text += f'\n[[stimuli]]\nname = "prbs{k}"\ninput = "{name}"\n'
            text += f'segments = [{{ shape = "prbs", {shape} }}]\n'
    if excitation == "sequence":
        amplitudes = [amount * size for size in INPUTS.values()]
        text += f'\n[subsystems.shake]\nadapter = "sequence"\nsequence = "{__file__}:Shake"\n'
        text += f"params = {{ amplitudes = {amplitudes}, hold = 8e-4 }}\n"
        for name in INPUTS:
            port = name.partition(".")[2]
            text += f'\n[[connections]]\nfrom = "shake.{port}"\nto = "{name}"\n'
    return text


def shares(folder: Path, case: tuple[float, str, float]) -> dict[str, float]:
    """Share of the time for which the Jacobian of each shown output is in use."""
    path = folder / "identified.toml"
    path.write_text(session_text(*case))
    log = simulate(path, {"session.duration": 1.0}).log
    return {
        name: float(np.mean(np.abs(log[f"{name}:corrected"] - log[name]) > ROUNDING * size))
        for name, size in SHOWN.items()
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = [(case, shares(Path(folder), case)) for case in CASES]
    if options.json:
        print(json.dumps([[*case, of] for case, of in found], indent=1))
        return
    print("| noise | excitation |", " | ".join(SHOWN), "|")
    for (noise, excitation, amount), of in found:
        told = excitation if not amount else f"{excitation} of {amount:g}"
        cells = " | ".join(f"{of[name]:.0%}" for name in SHOWN)
        print(f"| {noise:.2%} | {told} | {cells} |")


if __name__ == "__main__":
    main()
