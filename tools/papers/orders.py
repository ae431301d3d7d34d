"""Comparison of order control and fixed orders on the long chain, with all five estimators.

    python -m tools.papers.orders [--estimator ExMilne ...] [--rtol 1e-4 ...]

Multibody Syst. Dyn. 09817 (2022), section 6.3, Figs 24 to 28, with its tolerances. The chain is
reduced by default; finished runs are stored in ``OUT``. Prints accepted steps by order, rejected
steps, and the error of the coupling bodies (eq. 36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from bench_configs.long_chain import Segments, chain, session
from hilrt import simulate
from hilrt.solver import Floats
from tools.papers.chain_runs import ChainRuns, chain_parser
from tools.papers.long_chain import CONFIGS, rates

#: Scheme, estimator of `[master.step_control]` and damping [N s/m], by the paper's name.
ESTIMATORS = {
    "ExLocal": ("explicit", "higher_degree", 1e4),
    "ExMilne": ("explicit", "milne", 1e4),
    "ExSLocal": ("explicit", "inputs", 1e4),
    "ImMilne": ("implicit", "milne", 5e5),
    "ImSLocal": ("implicit", "inputs", 5e5),
}
#: Compared degrees; None is order control. Estimators of inputs skip degree 0: held forces jump,
#: and the first 0.06 ms of the chain in the tests take 18 to 51 times the steps of degree 1.
ORDERS = (0, 1, 2, 3, 4, None)


def settings(estimator: str, rtol: float, order: int | None) -> dict[str, Any]:
    """Changes to the chain's session for section 6.3."""
    scheme, kind, _ = ESTIMATORS[estimator]
    control = {
        "method": "local",
        "estimator": kind,
        "repeat": True,
        "safety": 6.0,
        "rtol": rtol,
        "atol": {"*.x_*": 1e-3 * rtol, "*.v_*": rtol, "*.f_*": 1e2 * rtol},
        "positions": ["*.x_*"],
    }
    if kind == "inputs":
        control["atol"] = {"*.f_*": 1e2 * rtol}
        del control["positions"]
    found: dict[str, Any] = {"master.scheme": scheme, "master.step_control": control}
    if order is None:
        found["master.order_control"] = {"method": "derivatives", "maximum": 5, "initial": 0}
    else:
        found["master.order_control"] = {"method": "fixed"}
        found["master.extrapolation.order"] = order
    return found


def monolithic(whole: Segments, times: Floats) -> Floats:
    """Displacements and velocities of all masses, shape (2 n, times)."""
    start = whole.state.T.ravel()
    found = solve_ivp(
        rates, (0.0, float(times[-1])), start, "LSODA", times, args=(whole.table,),
        rtol=1e-8, atol=1e-12, lband=3, uband=3,
    )  # fmt: skip
    assert found.success
    y: Floats = found.y
    return y


def run(
    estimator: str, rtol: float, order: int | None, segments: int, masses: int, duration: float
) -> dict[str, Any]:
    """Steps, rejected steps and error of one run; `fault` if it did not reach its end."""
    damping = ESTIMATORS[estimator][2]
    file = session(segments, masses, duration=duration, d=damping).build(CONFIGS)
    result = simulate(file, settings(estimator, rtol, order))
    again = result.summary.get("repeated", {}) if result.summary else {}
    found: dict[str, Any] = {
        "estimator": estimator,
        "rtol": rtol,
        "order": order,
        "fault": result.fault or "",
        "steps": result.summary.get("steps", 0) if result.summary else 0,
        "refused": again.get("refused", 0),
        "corrections": again.get("corrections", 0),
    }
    if result.fault or result.log is None:
        return found
    log, whole = result.log, chain(segments, masses, d=damping)
    truth, square = monolithic(whole, log.t), 0.0
    for i in range(segments):
        for place, mass in (("first", whole.first[i]), ("last", whole.first[i + 1] - 1)):
            for k, name in enumerate("xv"):
                z = truth[2 * mass + k]
                off = z - log[f"s{i}.{name}_{place}"]
                square += np.sum(off**2) / np.sum((z - z.mean()) ** 2)
    return found | {"error": float(np.sqrt(square)), "degree": float(log["master:order"].mean())}


def line(found: Mapping[str, Any]) -> str:
    """Format the result for people."""
    order = "controlled" if found["order"] is None else f"order {found['order']}"
    said = f"{found['estimator']}, rtol {found['rtol']:g}, {order}: {found['steps']:,} steps"
    said += f", {found['refused']:,} refused"
    if found["fault"]:
        return f"{said}; {found['fault']}"
    return f"{said}, mean degree {found['degree']:.1f}, error {found['error']:.2e}"


def winners(found: list[Mapping[str, Any]]) -> Iterator[str]:
    """By estimator and tolerance: steps with order control, relative to the best fixed order."""
    cases = dict.fromkeys((one["estimator"], one["rtol"]) for one in found)
    for estimator, rtol in cases:
        of = [f for f in found if (f["estimator"], f["rtol"]) == (estimator, rtol)]
        fixed = [f for f in of if f["order"] is not None and not f["fault"]]
        controlled = [f for f in of if f["order"] is None and not f["fault"]]
        if fixed and controlled:
            best = min(fixed, key=lambda f: int(f["steps"]))
            share = controlled[0]["steps"] / best["steps"]
            yield f"{estimator}, rtol {rtol:g}: {share:.0%} of the steps of order {best['order']}"


def main() -> None:
    parser = chain_parser((__doc__ or "").split("\n")[0], "runs/orders.jsonl", 20, 100, 3e-4)
    parser.add_argument("--estimator", nargs="+", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--rtol", nargs="+", type=float, default=[1e-3, 1e-4, 1e-5])
    args = parser.parse_args()
    runs, found = ChainRuns(args), []
    for estimator in args.estimator:
        for rtol in args.rtol:
            for order in ORDERS:
                if order == 0 and ESTIMATORS[estimator][1] == "inputs":
                    continue
                found.append(runs.get(run, estimator=estimator, rtol=rtol, order=order))
                print(line(found[-1]), flush=True)
    print("\n".join(winners(found)))


if __name__ == "__main__":
    main()
