"""Multibody Syst. Dyn. 09817 (2022): step and order control on a chain of masses."""

from __future__ import annotations

import numpy as np
from bokeh.models.annotations import BoxAnnotation

from .entry import Entry
from .plotting import BLUE, ORANGE, ORDERS, dots, legend, line, make
from .runs import run, summarise

#: Times of the impulses in the session file, s.
FIRST, PERIOD, LENGTH, RISE = 0.1, 0.4, 0.05, 0.005


def impulses() -> Entry:
    """Figs 17 and 19."""
    log = run("nonlinear_chain")
    h, order = np.diff(log.t), log["master:order"]
    motion = make("Velocity of the mass that is hit", "time in s", "m/s", height=190)
    line(motion, log.t, log["middle.v_first:corrected"], "velocity", BLUE)
    size = make("Macro step", "time in s", "s", height=190, y_axis_type="log",
                x_range=motion.x_range)  # fmt: skip
    line(size, log.t[:-1], h, "step", ORANGE, line_width=1.2)
    degree = make("Degree of the extrapolation", "time in s", "", height=170,
                  x_range=motion.x_range)  # fmt: skip
    degree.step(log.t, order, color=ORANGE, mode="after", line_width=1.2)
    begins = np.arange(FIRST, log.t[-1], PERIOD)
    for plot in (motion, size, degree):
        for begin in begins:
            for edge in (begin, begin + LENGTH):  # where the force rises and where it falls
                plot.add_layout(
                    BoxAnnotation(left=edge - RISE, right=edge + RISE,
                                  fill_color="#8a939c", fill_alpha=0.18)
                )  # fmt: skip
    edges = np.array([edge for b in begins for edge in (b, b + LENGTH)])
    near = (np.abs(log.t[:-1, None] - edges) < 2.0 * RISE).any(axis=1)
    settled = log.t[:-1] > 0.05
    around, else_ = np.median(h[near & settled]), np.median(h[~near & settled])
    degrees = [float(order[:-1][k & settled].mean()) for k in (near, ~near)]
    return Entry(
        paper="Multibody Syst. Dyn. 09817 (2022)",
        figures="Figs 12, 13, 17, 19",
        title="Step and order answer to impulses",
        claim="Where the system is hit, the step is cut and the degree falls; in between both "
        "rise again.",
        seen=f"{len(h)} steps. The step is cut where the force rises or falls (grey): median "
        f"{1e3 * around:.2f} ms against {1e3 * else_:.2f} ms elsewhere. The mean degree is "
        f"{degrees[0]:.2f} there against {degrees[1]:.2f}: "
        + (
            "it falls, too."
            if degrees[0] < degrees[1]
            else "it does not fall but rise, as these edges are smooth and the short steps "
            "resolve them, so that a higher degree pays."
        ),
        verdict="holds" if around < 0.7 * else_ and degrees[0] < degrees[1] else "in part",
        setting="bench_configs/nonlinear_chain.toml: six masses in three subsystems, "
        "estimator as sent against as it turned out",
        plots=[motion, size, degree],
    )


def work() -> Entry:
    """Fig. 26."""
    tolerances = [1e-2, 3e-3, 1e-3, 3e-4]
    plot = make("Macro steps for 0.4 s", "relative tolerance", "", height=320, x_axis_type="log",
                y_axis_type="log")  # fmt: skip
    counts: dict[str, list[int]] = {}
    for label in ("1", "2", "3", "4", "controlled"):
        fixed = ["master.order_control.method=fixed", f"master.extrapolation.order={label}"]
        counts[label] = [
            summarise(
                "nonlinear_chain",
                "session.duration=0.4",
                f"master.step_control.rtol={tol}",
                f'master.step_control.atol={{"*.x_*"={1e-2 * tol}, "*.v_*"={tol}}}',
                *([] if label == "controlled" else fixed),
            ).summary["steps"]
            for tol in tolerances
        ]
    for (label, found), colour in zip(counts.items(), (*ORDERS[:4], "#1d2126"), strict=True):
        dots(plot, tolerances, found, label if label == "controlled" else f"order {label}", colour)
    best = [min(counts[k][i] for k in "1234") for i in range(len(tolerances))]
    ratio = [c / b for c, b in zip(counts["controlled"], best, strict=True)]
    said = ", ".join(f"{100 * r:.0f} %" for r in ratio)
    return Entry(
        paper="Multibody Syst. Dyn. 09817 (2022)",
        figures="Fig. 26",
        title="Order control saves steps",
        claim="With the simplified estimator, order control needs fewer macro steps than any "
        "fixed order at every tolerance; order 0 is hopeless.",
        seen="Steps with order control, as a share of the best fixed order's at the same "
        f"tolerance: {said}. (At equal global error, see tests/models/test_nonlinear_chain.py.)",
        verdict="holds" if max(ratio) < 1.0 else "in part",
        setting="bench_configs/nonlinear_chain.toml, 0.4 s; atol scaled with rtol",
        plots=[legend(plot)],
    )


ENTRIES = {"impulses": impulses, "order-control": work}
