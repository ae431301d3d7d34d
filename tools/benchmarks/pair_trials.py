"""Cost of ``[reliability] trials = "along"`` in ticks, in pairs with and without it.

    python -m tools.benchmarks.pair_trials [--rounds 10] [--duration 15] [--busy]

Two pendula, which respond differently at every place, run in solver processes of their own, in real
time, so that they are probed all the time. Printed is what `pair_ticks` prints of two commits, and
how the errors were estimated.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tools.benchmarks.pair_ticks import ROOT, compare, parser_of_pairs, run

MODEL = ROOT / "bench_configs" / "models" / "coupled_pendula.py"
SESSION = """
session = { name = "pendula", duration = 15.0, pace = "realtime" }
master = { step = 0.001, extrapolation = { order = 1 } }
record = { report = false }
[subsystems.pendulum1]
adapter = "zeromq"
spawn = ["hilrt", "solver", "coupled_pendula:Pendulum1", "--param", \
"tip2=[10.1736481777, -0.984807753]"]
[subsystems.pendulum2]
adapter = "zeromq"
spawn = ["hilrt", "solver", "coupled_pendula:Pendulum2"]
[[connections]]
from = "pendulum1.force"
to = "pendulum2.force"
[[connections]]
from = "pendulum2.x"
to = "pendulum1.x2"
[[connections]]
from = "pendulum2.v"
to = "pendulum1.v2"
"""
SETTINGS = {"start": 'reliability.trials="start"', "along": 'reliability.trials="along"'}


def main() -> None:
    """Run the pairs and print them."""
    parser = parser_of_pairs(__doc__.splitlines()[0])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pendula.toml"
        path.write_text(SESSION)
        shutil.copy(MODEL, folder)

        def side(setting: str, out: Path) -> dict[str, Any]:
            summary = run(ROOT, options.duration, out, str(path), [setting])
            ways = {error["how"] for error in summary["estimated_error"].values()}
            print(f"   {', '.join(sorted(ways))}")
            return summary

        sides = {name: partial(side, setting) for name, setting in SETTINGS.items()}
        compare(sides, options.rounds, options.busy)


if __name__ == "__main__":
    main()
