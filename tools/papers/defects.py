"""Glumac and Kovačić (2023): defects of the rotational oscillator, and step control by defects."""

from __future__ import annotations

import numpy as np
from bokeh.models.annotations import Span

from hilrt.record.reader import Log
from hilrt.solver import Floats

from .entry import Entry
from .plotting import BLUE, DARK, GREEN, GREY, ORANGE, PINK, dots, legend, line, make
from .runs import run, summarise

SETTING = "bench_configs/two_mass_rotational.toml: one Euler step per macro step, order 0, 1 s"
PORTS = {
    "output, ω2": ("side2.omega", "output_defect", BLUE),
    "output, τ": ("side1.torque", "output_defect", GREEN),
    "connection, τ": ("side2.torque", "connection_defect", ORANGE),
    "connection, ω2": ("side1.omega2", "connection_defect", PINK),
}


def exact_omega(t: Floats) -> Floats:
    """Speed of inertia 2 in the monolithic solution, rad/s."""
    A = np.array([[0, 10, 0, 0], [-2, -3, 1, 2], [0, 0, 0, 10], [1, 2, -2, -4]]) / 10.0
    values, vectors = np.linalg.eig(A)
    weights = np.linalg.solve(vectors, np.array([0.1, 0.1, 0.2, 0.1], dtype=complex))
    found: Floats = (vectors @ (weights[:, None] * np.exp(np.outer(values, t)))).real[3]
    return found


def controlled(tolerance: float) -> str:
    """Override that enables the step control."""
    return f'master.step_control={{method="pi", tolerance={tolerance}, initial=1e-4}}'


def slopes() -> Entry:
    """Figs 5 and 6."""
    steps = [0.05, 0.02, 0.01, 0.005, 0.002]
    ports = [summarise("two_mass_rotational", f"master.step={h}").summary["ports"] for h in steps]
    plot = make(
        "RMS defects against the step",
        "step in s",
        "rad/s, N m",
        height=330,
        x_axis_type="log",
        y_axis_type="log",
    )
    fitted = {}
    for label, (port, kind, colour) in PORTS.items():
        values = [found[port][kind]["rms"] for found in ports]
        dots(plot, steps, values, label, colour, dash="solid" if kind[0] == "o" else "dashed")
        fitted[label] = np.polyfit(np.log(steps), np.log(values), 1)[0]
    error = []
    for h in steps:
        log = run("two_mass_rotational", f"master.step={h}")
        error.append(float(np.sqrt(np.mean((log["side2.omega"] - exact_omega(log.t)) ** 2))))
    dots(plot, steps, error, "error of ω2", DARK)
    fitted["error of ω2"] = np.polyfit(np.log(steps), np.log(error), 1)[0]
    said = ", ".join(f"{label} {slope:.2f}" for label, slope in fitted.items())
    right = all(abs(slope - 1.0) < 0.1 for slope in fitted.values())
    return Entry(
        paper="Glumac and Kovačić (2023)",
        figures="Figs 5, 6",
        title="Shorter steps, smaller defects, smaller errors",
        claim="Connection and output defects fall with the step, and the error of the coupled "
        "run falls with them.",
        seen=f"At order 0 everything is of first order. Slopes: {said}.",
        verdict="holds" if right else "in part",
        setting=SETTING,
        plots=[legend(plot)],
    )


def steps() -> Entry:
    """Fig. 4."""
    log = run("two_mass_rotational", controlled(0.01))
    h = np.diff(log.t)
    motion = make("Speed of inertia 2", "time in s", "rad/s", height=200)
    t = np.linspace(0.0, log.t[-1], 300)
    drawn = motion.step(
        log.t[:-1], log["side2.omega"][1:], color=BLUE, mode="after", line_width=1.6
    )
    motion.tags.append(("piecewise output", [drawn]))
    line(motion, t, exact_omega(t), "exact", DARK, line_dash="dotted")
    size = make("Step", "time in s", "s", height=200, y_axis_type="log", x_range=motion.x_range)
    size.scatter(log.t[:-1], h, color=BLUE, size=5)
    worst = make(
        "Largest defect of the step", "time in s", "", height=200, y_axis_type="log",
        x_range=motion.x_range, y_range=(2e-6, 3e-2),
    )  # fmt: skip
    worst.scatter(log.t[1:], largest_defect(log)[1:], color=ORANGE, size=5)
    worst.add_layout(Span(location=0.01, dimension="width", line_color=GREY, line_dash="dashed"))
    numbers = (len(h), h.mean(), h.max())
    right = numbers[0] == 40 and abs(numbers[1] - 0.0260052) < 1e-6
    return Entry(
        paper="Glumac and Kovačić (2023)",
        figures="Fig. 4",
        title="A PI controller chooses the steps",
        claim="Starting from a very small step, the controller lengthens it as far as the "
        "tolerance allows, and no step is ever repeated.",
        seen=f"{numbers[0]} steps, {1e3 * numbers[1]:.4f} ms on average, {1e3 * numbers[2]:.4f} ms "
        "at most (the independent computation: 40, 26.0052 ms, 78.1321 ms). The defect of the last "
        "step is at "
        f"{largest_defect(log)[-1] / 0.01:.2f} of the tolerance: after 1 s the controller still "
        "gains.",
        verdict="holds" if right else "does not hold",
        setting=f"{SETTING}, tolerance 0.01 (dashed), first step 0.1 ms",
        plots=[legend(motion, "above", 2), size, worst],
    )


def largest_defect(log: Log) -> Floats:
    """Largest defect over all ports with both kinds, per tick."""
    names = [f"{port}:{kind}" for port, kind, _ in PORTS.values()]
    found: Floats = np.nanmax(np.nan_to_num([log[name] for name in names]), axis=0)
    return found


def tolerances() -> Entry:
    """Figs 7 to 10."""
    wanted = [0.1, 0.03, 0.01, 0.003, 0.001]
    results = [run("two_mass_rotational", controlled(tol)) for tol in wanted]
    late = [log.t > 0.2 for log in results]
    peak = [float(largest_defect(log)[k].max()) for log, k in zip(results, late, strict=True)]
    rms = {
        label: [float(np.sqrt(np.mean(log[f"{port}:{kind}"][1:] ** 2))) for log in results]
        for label, (port, kind, _) in PORTS.items()
    }
    mean = [float(np.diff(log.t).mean()) for log in results]
    left = make(
        "Defects against the tolerance", "tolerance", "", height=300, x_axis_type="log",
        y_axis_type="log",
    )  # fmt: skip
    for label, (_, kind, colour) in PORTS.items():
        dots(left, wanted, rms[label], label, colour, dash="solid" if kind[0] == "o" else "dashed")
    dots(left, wanted, peak, "largest after 0.2 s", DARK)
    line(left, wanted, wanted, "tolerance", GREY, line_dash="dashed")
    right = make(
        "Mean step against the tolerance", "tolerance", "s", height=220, x_axis_type="log",
        y_axis_type="log",
    )  # fmt: skip
    dots(right, wanted, mean, "mean", BLUE)
    right.tags = []
    below = all(max(values[i] for values in rms.values()) <= tol for i, tol in enumerate(wanted))
    share = ", ".join(f"{p / tol:.2f}" for p, tol in zip(peak, wanted, strict=True))
    return Entry(
        paper="Glumac and Kovačić (2023)",
        figures="Figs 7, 8, 10",
        title="The tolerance bounds the defects",
        claim="Output and connection defects stay below the requested tolerance, and the mean "
        "step grows with it.",
        seen=("The RMS over the run is below the tolerance for every port" if below else
              "The RMS over the run is not below the tolerance for every port")
        + f". The largest single step after 0.2 s is at {share} of the tolerance (0.1 to 0.001): "
        "only for the tight ones 1 s is long enough to get there.",
        verdict="holds" if below else "in part",
        setting=f"{SETTING}, first step 0.1 ms",
        plots=[legend(left, "above", 3), right],
    )  # fmt: skip


ENTRIES = {"defects": slopes, "pi-steps": steps, "tolerances": tolerances}
