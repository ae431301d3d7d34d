"""Rodríguez et al. (2022): the crane's power residual marks untrustworthy results."""

from __future__ import annotations

import numpy as np
from bokeh.models.annotations import BoxAnnotation

from hilrt.record.reader import Log
from hilrt.solver import Floats

from .entry import Entry
from .plotting import BLUE, DARK, GREEN, ORANGE, legend, line, make
from .runs import run

#: Warm-up time of the flags' scales, s.
WARM_UP = 0.2


def crane(h: float, *more: str, micro: float = 1.0) -> Log:
    """Run the session with a communication step `h` [s] and integration steps `micro` [s].

    Both are those of the mechanics. The hydraulics always integrate in steps of a quarter of a
    millisecond; communicating only twice per step of the mechanics saves communication points.
    """
    return run(
        "hydraulic_crane",
        f"master.step={h / 2}",
        "subsystems.mechanics.every=2",
        f"subsystems.mechanics.params.micro_step={micro}",
        *more,
    )


def residual(log: Log) -> tuple[Floats, Floats]:
    """Times [s] and power residual [W] at the mechanics' communication points."""
    return log.t[::2], log["actuator:residual_power"][::2]


def flagged(log: Log) -> list[tuple[float, float]]:
    """Times at which the flag of the power residual was up, s."""
    up = log["flag:power_residual"] > 0.5
    edges = np.flatnonzero(np.diff(np.concatenate([[False], up, [False]]).astype(int)))
    last = len(log.t) - 1
    return [
        (float(log.t[a]), float(log.t[min(b, last)]))
        for a, b in zip(edges[::2], edges[1::2], strict=True)
        if log.t[min(b, last)] > WARM_UP
    ]


def spike() -> Entry:
    """Figs 36 and 37."""
    coarse, fine = crane(0.0115), crane(0.001)
    exact = crane(0.001, micro=2.5e-4)
    saved = crane(0.0115, 'bonds.actuator.correction={method="feedthrough"}')
    top = make("Length of the actuator", "time in s", "mm", height=230)
    bottom = make("Power residual", "time in s", "kW", height=230, x_range=top.x_range)
    name = "mechanics.length:corrected"
    shown = (
        ("h = 11.5 ms", coarse, ORANGE),
        ("11.5 ms, feedthrough", saved, GREEN),
        ("h = 1 ms", fine, BLUE),
    )
    for label, log, colour in shown:
        every = slice(None, None, max(1, len(log.t) // 2500))
        line(top, log.t[every], 1e3 * log[name][every], label, colour, line_width=1.4)
    line(top, exact.t[::8], 1e3 * exact[name][::8], "reference", DARK, line_dash="dotted")
    for label, log, colour in (shown[0], shown[2]):
        t, power = residual(log)
        line(bottom, t, 1e-3 * power, label, colour, line_width=1.2)
    for begin, end in flagged(coarse):
        for plot in (top, bottom):
            plot.add_layout(BoxAnnotation(left=begin, right=end, fill_color=ORANGE, fill_alpha=0.1))

    def largest(log: Log) -> float:
        return 1e3 * float(np.abs(log[name] - np.interp(log.t, exact.t, exact[name])).max())

    at_6 = [np.interp(6.0, log.t, log[name]) for log in (coarse, exact)]
    off = 1e3 * abs(at_6[0] - at_6[1])
    t, power = residual(coarse)
    peak = float(t[np.argmax(np.abs(power))])
    up = ", ".join(f"{a:.1f} to {b:.1f} s" for a, b in flagged(coarse)) or "never"
    right = 3.0 < peak < 5.0 and bool(flagged(coarse)) and not flagged(fine)
    return Entry(
        paper="Rodríguez et al. (2022)",
        figures="Figs 36, 37",
        title="Hydraulic crane: a spike of the residual says what cannot be trusted",
        claim="With a long step an oscillation appears between about 3 s and 5 s that the crane "
        "does not make. Only a reference would show that, but the residual has a spike there.",
        seen=f"The residual peaks at {peak:.1f} s with {1e-3 * np.abs(power).max():.0f} kW; "
        f"at 1 ms it stays below {np.abs(residual(fine)[1]).max():.1f} W. The flag is up (shaded): "
        f"{up}; at 1 ms {'never' if not flagged(fine) else 'too'}. The paper's motion recovers, "
        f"ours is {off:.0f} mm off at 6 s, and {largest(coarse):.0f} mm at most. "
        f"With the feedthrough correction it is at most {largest(saved):.1f} mm off.",
        verdict="holds" if right else "in part",
        setting="bench_configs/hydraulic_crane.toml; mechanics one symplectic Euler step per "
        "communication step, hydraulics 0.25 ms; first order towards the hydraulics. Reference: "
        "1 ms, mechanics integrated in 0.25 ms",
        plots=[legend(top, "above", 4), legend(bottom, "above", 2)],
    )


def correction() -> Entry:
    """Fig. 35."""
    mu, caps = 0.025, "cap=0.1, cap_abs=100.0"
    logs = {
        "not corrected": crane(0.01),
        "energy, μ = R as sent": crane(
            0.01, f'bonds.actuator.correction={{method="energy", mu={mu}, {caps}}}'
        ),
        "energy, μ = 0.5 R held": crane(
            0.01,
            f'bonds.actuator.correction={{method="energy", residual="held", mu={mu / 2}, {caps}}}',
        ),
        "not corrected, integrated in 0.25 ms": crane(0.01, micro=2.5e-4),
    }
    exact = crane(0.001, micro=2.5e-4)
    name = "mechanics.length:corrected"
    plot = make("Deviation of the actuator's length", "time in s", "mm", height=320)
    largest = {}
    for (label, log), colour in zip(logs.items(), (ORANGE, BLUE, GREEN, DARK), strict=True):
        error = 1e3 * (log[name] - np.interp(log.t, exact.t, exact[name]))
        line(plot, log.t[::2], error[::2], label, colour, line_width=1.4)
        largest[label] = float(np.abs(error).max())
    said = ", ".join(f"{label} {value:.2f} mm" for label, value in largest.items())
    return Entry(
        paper="Rodríguez et al. (2022)",
        figures="Fig. 35",
        title="Hydraulic crane: what the energy correction does at 10 ms",
        claim="The uncorrected motion stays within 2 mm of the reference, with energy lost; the "
        "energy correction with μ = 0.5 R improves it.",
        seen=f"Largest deviation: {said}. Nearly all of it is the mechanics' own long "
        "integration steps, which the correction cannot tell from the exchange; μ = R with the "
        "residual as sent happens to help, the published setting does not.",
        verdict="holds"
        if largest["energy, μ = 0.5 R held"] < largest["not corrected"]
        else "in part",
        setting="bench_configs/hydraulic_crane.toml; h = 10 ms, R = 1/40, cap 10 % and 100 N",
        plots=[legend(plot, "above", 2)],
    )


ENTRIES = {"crane": spike, "crane-correction": correction}
