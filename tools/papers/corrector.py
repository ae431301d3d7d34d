"""Haid et al. (2022): stability, accuracy and convergence of the model-based corrector."""

from __future__ import annotations

import functools

import numpy as np
from bokeh.layouts import gridplot
from bokeh.models.annotations import Span

from bench_configs.models.mass_chain import two_mass_chain
from hilrt.analyze.stability import spectral_radius
from hilrt.solver import Floats
from tools.papers.accuracy import ACCURATE, global_error
from tools.papers.linear_scheme import LinearScheme, coupling_errors, propagation_matrix

from .entry import Entry
from .plotting import BLUE, GREY, ORDERS, legend, line, make

X0 = np.array([1.0, 0.0, 0.6, 0.0])
DURATION = 0.3
HOLDS = ("ZOH", "FOH", "SOH")
#: Macro steps of the maps, s, in descending order; longer steps are darker.
STEPS = 10.0 ** -np.arange(2.5, 6.1, 0.5)
SHADES = ("#0d2a4a", "#174a7e", "#2f6fb3", "#4e8fcb", "#76addb", "#a0c6e6", "#bfd9ee", "#d9e8f4")
#: Grids of the maps: powers of ten of stiffness [N/m] and damping [N s/m].
CK, DK = np.linspace(0.0, 10.0, 21), np.linspace(0.0, 7.0, 15)
SETTING = (
    "Two-mass oscillator m = 10 kg, c1 = 1e6, c2 = 1e7 N/m, d1 = 1, d2 = 2 N s/m, subsystems "
    "solved exactly, α = 1"
)


@functools.cache
def maps() -> dict[tuple[int, bool], tuple[Floats, Floats]]:
    """Spectral radius and global error by order and corrector, (steps, dampings, stiffnesses)."""
    found = {}
    for order in range(3):
        for corrected in (False, True):
            scheme = LinearScheme(order, corrected)
            shape = (len(STEPS), len(DK), len(CK))
            radius, error = np.zeros(shape), np.zeros(shape)
            for d, dk in enumerate(10.0**DK):
                for c, ck in enumerate(10.0**CK):
                    chain, L = two_mass_chain(ck, dk)
                    for i, h in enumerate(STEPS):
                        matrix = propagation_matrix(chain, L, h, scheme)
                        radius[i, d, c] = spectral_radius(matrix)
                        # unstable runs are inaccurate, unless too short
                        error[i, d, c] = (
                            global_error(chain, L, h, scheme, X0, DURATION)
                            if radius[i, d, c] < 1.05
                            else np.inf
                        )
            found[order, corrected] = radius, error
    return found


def panels(surfaces: dict[tuple[int, bool], Floats]) -> object:
    """Zero contours of each surface for every macro step, one panel per method."""
    rows = []
    for corrected in (False, True):
        row = []
        for order, hold in enumerate(HOLDS):
            plot = make(
                hold + (" corrected" if corrected else ""),
                "coupling stiffness in N/m" if corrected else "",
                "damping in N s/m" if order == 0 else "",
                width=225 if order == 0 else 198,
                height=215 if corrected else 200,
                x_range=(0, 10),
                y_range=(0, 7),
            )
            plot.min_border_left = 10
            for z, shade in zip(surfaces[order, corrected], SHADES, strict=True):
                if z.min() < 0.0 < z.max():
                    plot.contour(CK, DK, z, levels=[0.0], line_color=shade, line_width=1.8)
            for axis, ticks in ((plot.xaxis, range(0, 11, 2)), (plot.yaxis, range(0, 8))):
                axis.ticker = list(ticks)
                axis.major_label_overrides = {p: f"1e{p}" for p in ticks}
                axis.axis_label_text_font_size = "11px"
            row.append(plot)
        rows.append(row)
    return gridplot(rows, toolbar_location=None)


def key() -> object:
    """Legend of the maps' shades."""
    plot = make("", "", "", height=34, x_range=(0, len(STEPS)), y_range=(0, 1))
    plot.axis.visible = plot.grid.visible = False
    plot.toolbar_location = None
    for i, (h, shade) in enumerate(zip(STEPS, SHADES, strict=True)):
        plot.line([i + 0.05, i + 0.25], [0.5, 0.5], color=shade, line_width=3)
        plot.text(
            [i + 0.3],
            [0.5],
            [f"{float(f'{1e6 * h:.3g}'):g} µs"],
            text_baseline="middle",
            text_font_size="11px",
        )
    return plot


def stability_map() -> Entry:
    """Fig. 4."""
    radii = {method: radius for method, (radius, _) in maps().items()}
    # Nonlinear, so that linear interpolation on the grid finds the crossing of 1.
    bent = {m: np.sign(r - 1.0) * np.abs(r - 1.0) ** 0.2 for m, r in radii.items()}
    share = {m: (r <= 1.0 + 1e-9).mean(axis=(1, 2)) for m, r in radii.items()}
    stiff = np.s_[:, :5, 12:]  # damping up to 1e2, stiffness from 1e6

    def area(order: int, corrected: bool) -> float:
        return float((radii[order, corrected][stiff] <= 1.0 + 1e-9).mean())

    gains = [f"{h} {100 * area(p, False):.0f} → {100 * area(p, True):.0f} %"
             for p, h in enumerate(HOLDS)]  # fmt: skip
    growth = [area(p, True) - area(p, False) for p in range(3)]
    right = growth[0] > growth[1] > growth[2]
    whole = ", ".join(
        f"{h} {100 * share[p, False].mean():.0f} → {100 * share[p, True].mean():.0f} %"
        for p, h in enumerate(HOLDS)
    )
    return Entry(
        paper="Haid et al. (2022)",
        figures="Fig. 4",
        title="Where the coupling is stable",
        claim="The corrector widens the stable region, most for stiff and hardly damped "
        "couplings and for low orders; at second order that gain has almost gone.",
        seen="Share of stiff (1e6 N/m and more), hardly damped (up to 100 N s/m) couplings that "
        f"are stable, over all steps drawn: {'; '.join(gains)}. Of the whole map: {whole}.",
        verdict="holds" if right else "in part",
        setting=f"{SETTING}. Each line is the border for one macro step; stable is below and left "
        "of it",
        plots=[panels(bent), key()],
    )


def accuracy_map() -> Entry:
    """Fig. 6."""
    errors = {method: error for method, (_, error) in maps().items()}
    logs = {m: np.clip(np.log10(np.maximum(e, 1e-12) / ACCURATE), -3, 3)
            for m, e in errors.items()}  # fmt: skip
    at = int(np.argmin(np.abs(np.log10(STEPS) + 3.5)))
    share = {m: (e <= ACCURATE).mean(axis=(1, 2)) for m, e in errors.items()}
    plain, corrected = share[0, False], share[0, True]
    same = STEPS[np.flatnonzero(plain >= corrected[at])[0]] if (plain >= corrected[at]).any() else 0
    growth = [float((share[p, True] - share[p, False]).mean()) for p in range(3)]
    steadier = [
        float(
            ((maps()[p, True][0] <= 1.0 + 1e-9) * 1.0 - (maps()[p, False][0] <= 1.0 + 1e-9)).mean()
        )
        for p in range(3)
    ]
    more = all(a > s for a, s in zip(growth, steadier, strict=True))
    right = plain[at] == 0.0 and corrected[at] > 0.1 and growth[0] > growth[1] > growth[2] and more
    whole = ", ".join(
        f"{h} {100 * share[p, False].mean():.0f} → {100 * share[p, True].mean():.0f} %"
        for p, h in enumerate(HOLDS)
    )
    return Entry(
        paper="Haid et al. (2022)",
        figures="Fig. 6",
        title="Where the coupled run is accurate to 1 %",
        claim="The corrector widens the accurate region, more than the stable one, and the more "
        "the lower the order. Held inputs are nowhere accurate at 3.2e-4 s; corrected they are, in "
        "a region that would else need about 1e-5 s.",
        seen=f"Held inputs at 3.2e-4 s are accurate in {100 * plain[at]:.0f} % of the map, "
        f"corrected in {100 * corrected[at]:.0f} %; as much takes {same:.1e} s without. Of the "
        f"whole map over all steps: {whole}.",
        verdict="holds" if right else "in part",
        setting=f"{SETTING}; 0.3 s from s1 = 1 m, s2 = 0.6 m; normalised RMS error of all "
        "outputs. Each line is the border for one macro step; accurate is below and left of it",
        plots=[panels(logs), key()],
    )


def dip() -> Entry:
    """Fig. 5."""
    chain, L = two_mass_chain(1e9, 3.6e5)
    h = np.geomspace(1e-5, 3e-3, 300)
    radius = np.array(
        [spectral_radius(propagation_matrix(chain, L, step, LinearScheme(1))) for step in h]
    )
    plot = make("Spectral radius, first order, ck = 1e9 N/m, dk = 3.6e5 N s/m",
                "macro step in s", "", x_axis_type="log", y_range=(0.0, 4.0))  # fmt: skip
    plot.line(h, radius, color=BLUE, line_width=1.8)
    plot.add_layout(Span(location=1.0, dimension="width", line_color=GREY, line_dash="dashed"))
    stable = h[(radius <= 1.0) & (h > 1e-4)]
    right = len(stable) > 0 and stable.min() < 10**-3.5 < stable.max() * 1.2
    said = (
        f"It dips below 1 between {stable.min():.2e} s and {stable.max():.2e} s, with unstable "
        "steps on both sides." if len(stable) else "It does not dip below 1."
    )  # fmt: skip
    return Entry(
        paper="Haid et al. (2022)",
        figures="Fig. 5",
        title="A shorter step need not be a stable one",
        claim="The spectral radius does not fall steadily with the step: around 3.2e-4 s there "
        "is a stable island.",
        seen=said,
        verdict="holds" if right else "does not hold",
        setting=SETTING,
        plots=[plot],
    )


def convergence() -> Entry:
    """Fig. 8."""
    chain, L = two_mass_chain(2e5, 5e2)
    h = np.geomspace(1e-5, 3e-3, 22)
    plot = make("Local error, ck = 2e5 N/m, dk = 500 N s/m", "macro step in s",
                "normalised RMS error", height=420, x_axis_type="log", y_axis_type="log",
                y_range=(1e-12, 10.0))  # fmt: skip
    slopes = []
    for order, colour in enumerate(ORDERS):
        for corrected in (False, True):
            scheme = LinearScheme(order, corrected)
            with np.errstate(over="ignore", invalid="ignore"):
                error = np.array(
                    [coupling_errors(chain, L, step, scheme, X0, DURATION)[0] for step in h]
                )
            label = f"order {order}" + (", corrected" if corrected else "")
            line(plot, h, error, label, colour, line_dash="dashed" if corrected else "solid")
            fit = (h < 1.2e-4) & (error > 1e-12)
            slopes.append(np.polyfit(np.log(h[fit]), np.log(error[fit]), 1)[0])
    plain, corrected_ = slopes[::2], slopes[1::2]
    right = all(abs(c - p - 1.0) < 0.1 for p, c in zip(plain, corrected_, strict=True))
    said = ", ".join(f"{p:.1f} → {c:.1f}" for p, c in zip(plain, corrected_, strict=True))
    return Entry(
        paper="Haid et al. (2022)",
        figures="Fig. 8",
        title="The corrector is worth one order",
        claim="With the corrector, an extrapolation converges like the next higher one, at a "
        "lower level; and it keeps high orders stable for longer.",
        seen=f"Slopes without → with the corrector, order 0 to 4: {said}.",
        verdict="holds" if right else "in part",
        setting=f"{SETTING}; 0.3 s from s1 = 1 m, s2 = 0.6 m, exact history",
        plots=[legend(plot)],
    )


ENTRIES = {
    "stability-map": stability_map,
    "stable-island": dip,
    "accuracy-map": accuracy_map,
    "convergence": convergence,
}
