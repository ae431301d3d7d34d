"""Accepted and repeated steps on the driven chain, over the safety factor.

    python -m tools.papers.safety [--safety 1 2 4 6 8] [--segments 4 --masses 40]

Multibody Syst. Dyn. 09817 (2022), section 6.5, Fig. 35: degree 2, ExMilne and ImMilne, a step grows
by half at most; reduced by default. Finished runs are kept in ``OUT``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench_configs.long_chain import DRIVEN_PROPERTIES, session
from hilrt import simulate
from tools.papers.chain_runs import ChainRuns, chain_parser
from tools.papers.long_chain import CONFIGS


def run(scheme: str, safety: float, segments: int, masses: int, duration: float) -> dict[str, Any]:
    """Steps, repetitions and corrections of one run, and the total number of computed steps."""
    params: dict[str, Any] = {"driven": True, **DRIVEN_PROPERTIES}
    file = session(segments, masses, duration=duration, **params).build(CONFIGS)
    changes = {
        "master.scheme": scheme,
        "master.step_control": {
            "method": "local",
            "estimator": "milne",
            "repeat": True,
            "safety": safety,
            "growth": 1.5,
            "rtol": 1e-4,
            "atol": {"*.x_*": 1e-8, "*.v_*": 1e-4, "*.f_*": 0.1},
            "positions": ["*.x_*"],
        },
        "master.order_control": {"method": "fixed"},
        "master.extrapolation.order": 2,
    }
    result = simulate(file, changes)
    if result.fault:
        raise SystemExit(result.fault)
    again, steps = result.summary["repeated"], result.summary["steps"]
    made = steps + again["refused"] + again["unsettled"]
    effort = 2 * made if scheme == "explicit" else made + again["corrections"]
    return {
        "scheme": scheme,
        "safety": safety,
        "steps": steps,
        "refused": again["refused"] + again["unsettled"],
        "effort": effort,
    }


def line(found: Mapping[str, Any]) -> str:
    """Format the result for people."""
    return (
        f"{found['scheme']}, SF = {found['safety']:g}: {found['steps']:,} steps, "
        f"{found['refused']:,} repeated, {found['effort']:,} computed"
    )


def main() -> None:
    parser = chain_parser((__doc__ or "").split("\n")[0], "runs/safety.jsonl", 4, 40, 2e-3)
    parser.add_argument("--safety", nargs="+", type=float, default=[1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
    args = parser.parse_args()
    runs = ChainRuns(args)
    for safety in args.safety:
        for scheme in ("explicit", "implicit"):
            print(line(runs.get(run, scheme=scheme, safety=safety)), flush=True)


if __name__ == "__main__":
    main()
